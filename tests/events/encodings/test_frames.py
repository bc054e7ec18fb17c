"""Frames name a schema, and are never mistaken."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.events.encodings.frames import SchemaRef, frame_key, framed_ref, header_key, header_ref, message_indexes


@given(st.integers(1, 2**32 - 1), st.binary())
def test_an_id_of_four_bytes_is_found(number: int, body: bytes) -> None:
    key = frame_key(b"\x00" + number.to_bytes(4) + body)
    assert key is not None
    assert framed_ref(key, "schema_id") == SchemaRef("schema_id", str(number), 5)


@given(st.integers(1, 2**32 - 1), st.binary())
def test_an_id_of_eight_bytes_is_found(number: int, body: bytes) -> None:
    key = frame_key(b"\x00" + number.to_bytes(8) + body)
    assert key is not None
    assert framed_ref(key, "global_id") == SchemaRef("global_id", str(number), 9)


@given(st.binary(max_size=12).filter(lambda value: not value.startswith(b"\x00")))
def test_other_bytes_have_no_frame(value: bytes) -> None:
    assert frame_key(value) is None


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x00\x00\x07", b"\x00\x00\x00\x00\x00\x00\x00\x07"])
def test_a_cut_frame_is_no_frame(value: bytes) -> None:
    assert frame_key(value) is None


def test_headers_name_a_schema() -> None:
    guid = uuid.UUID("8b9a2e0a-9a5e-4b4b-9d5e-3f2b1a0c9d8e")
    key = header_key({"other": b"x", "apicurio.value.contentId": bytes(7) + b"\x05"})
    assert key == ("apicurio.value.contentId", bytes(7) + b"\x05", b"")
    assert header_key({"__value_schema_id": None, "content-type": b"x"}) is None
    assert header_ref("apicurio.value.contentId", bytes(7) + b"\x05") == SchemaRef("content_id", "5", 0)
    assert header_ref("__value_schema_id", b"\x01" + guid.bytes) == SchemaRef("guid", str(guid), 0)
    assert header_ref("__value_schema_id", b"\x01" + guid.bytes + b"\x04\x02\x00") == SchemaRef("guid", str(guid), 0, (1, 0))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("apicurio.value.globalId", b"\x05"),
        ("__value_schema_id", b""),
        ("__value_schema_id", b"\x02" + bytes(16)),
        ("__value_schema_id", b"\x01" + bytes(16) + b"\x02"),
        ("__value_schema_id", b"\x01" + bytes(16) + b"\x00\x00"),
    ],
)
def test_a_damaged_header_names_none(name: str, found: bytes) -> None:
    assert header_ref(name, found) is None


def zigzag(number: int) -> bytes:
    number, out = number << 1, b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=5), st.binary())
def test_indexes_are_read_as_they_are_written(indexes: list[int], body: bytes) -> None:
    sent = b"".join(map(zigzag, [len(indexes), *indexes]))
    assert message_indexes(sent + body, 0) == (tuple(indexes), len(sent))


@given(st.binary(max_size=12))
def test_any_bytes_are_indexes_or_damaged(data: bytes) -> None:
    found = message_indexes(data, 0)
    assert found is None or (0 < found[1] <= len(data) and all(index >= 0 for index in found[0]))
