"""Lines of text: one record per line."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TypeAlias

SKIP_BYTES = 1 << 16


Row: TypeAlias = tuple[int, bytes, int]
"""One record of a file: its number from 1, its bytes, and how many bytes of the content it took."""


def read_lines(stream: io.BufferedReader, kept_bytes: int, cut: dict[int, int]) -> Iterator[Row]:
    """Yield the lines without their line ends, blank ones too. Of a line longer than `kept_bytes` only the first bytes are kept.

    The full length of a line that was cut is added to `cut`.
    """
    limit = kept_bytes + 2  # room for a line end of two bytes
    readline, number = stream.readline, 0
    while line := readline(limit):
        number += 1
        size = len(line)
        if line.endswith(b"\n"):
            line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
            full_bytes = len(line)
        elif size > kept_bytes:
            skipped, end_bytes = _skip_rest(stream, line[-1:])
            size += skipped
            full_bytes = size - end_bytes
        else:
            full_bytes = size
        if full_bytes > kept_bytes:
            cut[number] = full_bytes
            line = line[:kept_bytes]
        yield number, line, size


def _skip_rest(stream: io.BufferedReader, last: bytes) -> tuple[int, int]:
    """Read to the end of a line that had `last` as its last byte so far. Returns its further bytes, and how many belong to its line end."""
    skipped = 0
    while part := stream.readline(SKIP_BYTES):
        skipped += len(part)
        if part.endswith(b"\n"):
            return skipped, 2 if (last + part).endswith(b"\r\n") else 1
        last = part[-1:]
    return skipped, 0
