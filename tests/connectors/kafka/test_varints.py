"""Tests of variable-length integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.connectors.kafka.patches.record_batches import read_varint, read_varints_at

INT64 = st.integers(-(2**63), 2**63 - 1)


def written(number: int) -> bytes:
    """Encode an integer as protobuf's sint64."""
    rest, out = number << 1 if number >= 0 else ~(number << 1), bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


@given(st.lists(INT64, min_size=1))
def test_many_numbers_at_once_are_read_as_one_by_one(numbers: list[int]) -> None:
    pieces = [written(number) for number in numbers]
    places = [sum(map(len, pieces[:index])) for index in range(len(pieces))]
    data = b"".join(pieces)
    decoded, after = read_varints_at(np.frombuffer(data, np.uint8), np.array(places))
    assert decoded.tolist() == numbers == [read_varint(data, place)[0] for place in places]
    assert after.tolist() == [*places[1:], len(data)]


def test_a_number_of_more_than_ten_bytes_is_rejected() -> None:
    data = b"\xff" * 10 + b"\x00"
    for read in (lambda: read_varint(data, 0), lambda: read_varints_at(np.frombuffer(data, np.uint8), np.array([0]))):
        with pytest.raises(ValueError, match="more than 10 bytes"):
            read()


def test_truncated_bytes_are_rejected() -> None:
    for data in (b"", b"\xff"):
        for read in (
            lambda data=data: read_varint(data, 0),
            lambda data=data: read_varints_at(np.frombuffer(data, np.uint8), np.array([0])),
        ):
            with pytest.raises(IndexError):
                read()
