"""Tests of variable-length integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.metrics.varints import read_varint, read_varints, read_varints_at, write_varints

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(INT64, min_size=1))
def test_many_numbers_at_once_are_read_as_one_by_one(numbers: list[int]) -> None:
    pieces = [write_varints([number]) for number in numbers]
    places = [sum(map(len, pieces[:index])) for index in range(len(pieces))]
    data = b"".join(pieces)
    decoded, after = read_varints_at(np.frombuffer(data, np.uint8), np.array(places))
    assert decoded.tolist() == numbers == [read_varint(data, place)[0] for place in places]
    assert after.tolist() == [*places[1:], len(data)]
    assert read_varints(data, 0, len(numbers)) == (numbers, len(data))


def test_a_number_of_more_than_ten_bytes_is_rejected_unless_more_are_allowed() -> None:
    data = b"\xff" * 10 + b"\x00"
    for read in (lambda: read_varint(data, 0), lambda: read_varints_at(np.frombuffer(data, np.uint8), np.array([0]))):
        with pytest.raises(ValueError, match="more than 10 bytes"):
            read()
    assert read_varints(data, 0, 1) == ([-(2**69)], 11)


def test_truncated_bytes_are_rejected() -> None:
    for data in (b"", b"\xff"):
        for read in (
            lambda data=data: read_varint(data, 0),
            lambda data=data: read_varints(data, 0, 1),
            lambda data=data: read_varints_at(np.frombuffer(data, np.uint8), np.array([0])),
        ):
            with pytest.raises(IndexError):
                read()
