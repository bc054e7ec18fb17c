"""A fast decoder with a fallback: rejected and absent input goes to the reference decoder, other errors pass through."""

from __future__ import annotations

import msgspec
import pytest

from streammetrics.errors import MalformedEvent
from streammetrics.events.fallback import with_fallback


def fails(error: Exception):
    def fast(value: bytes) -> str:
        raise error

    return fast


@pytest.mark.parametrize(
    "error",
    [ValueError(), msgspec.ValidationError(), UnicodeDecodeError("utf-8", b"", 0, 1, ""), RecursionError(), MalformedEvent("a", "b")],
)
def test_input_that_the_fast_decoder_rejects_goes_to_the_reference_decoder(error: Exception):
    assert with_fallback(fails(error), lambda value: f"reference {value!r}")(b"x") == "reference b'x'"


def test_absent_bytes_go_to_the_reference_decoder():
    assert with_fallback(lambda value: "fast", lambda value: "reference")(None) == "reference"


def test_a_result_of_the_fast_decoder_is_final():
    assert with_fallback(lambda value: None, lambda value: "reference")(b"x") is None


def test_a_defect_of_the_fast_decoder_is_not_hidden():
    with pytest.raises(AssertionError):
        with_fallback(fails(AssertionError()), lambda value: "reference")(b"x")
