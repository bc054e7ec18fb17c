"""One JSON array, on one line or many: one record per element.

The array is never in memory as a whole. Structural characters are found with numpy, one block at a time.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from streammetrics.connectors.file_formats.streams import Row

BLOCK_BYTES: Final = 1 << 18
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_QUOTE, _COMMA = b'",'
_DEPTH = np.zeros(256, np.int8)
_DEPTH[list(b"[{")], _DEPTH[list(b"]}")] = 1, -1
_IS_STRUCTURAL = np.zeros(256, np.bool_)
_IS_STRUCTURAL[list(b'"[]{},')] = True


def read_elements(stream: io.BufferedReader, kept_bytes: int, cut: dict[int, int]) -> Iterator[Row]:
    """Yield the elements of an array, and of arrays that follow it. Of an element longer than `kept_bytes` only the first bytes are kept.

    The full length of an element that was cut is added to `cut`. Elements are numbered from 1. Raises ValueError if brackets do not
    match, and EOFError if the array does not end.
    """
    scanner, element, number = _Scanner(), _Element(kept_bytes), 0
    while block := scanner.next_block(stream):
        start = 0
        for place in scanner.boundaries(block):
            element.add(block[start:place])
            start = place + 1
            if element.value:
                number += 1
                if element.full_bytes > kept_bytes:
                    cut[number] = element.full_bytes
                yield number, bytes(element.value), element.full_bytes + 1
            element.clear()
        element.add(block[start:])
    if scanner.depth or scanner.in_string:
        raise EOFError("the JSON array does not end: the file is incomplete")
    if element.value:
        yield number + 1, bytes(element.value), element.full_bytes


class _Element:
    """The bytes of one element so far, without white space around it."""

    def __init__(self, kept_bytes: int) -> None:
        self._kept = kept_bytes
        self.value = bytearray()
        self.full_bytes = 0
        self._spaces = 0

    def add(self, part: bytes) -> None:
        if not self.value:
            part = part.lstrip()
        stripped = part.rstrip()
        if stripped:
            self.value += b" " * max(0, min(self._spaces, self._kept - len(self.value)))
            self.value += stripped[: max(0, self._kept - len(self.value))]
            self.full_bytes += self._spaces + len(stripped)
            self._spaces = 0
        self._spaces += len(part) - len(stripped)

    def clear(self) -> None:
        self.value.clear()
        self.full_bytes = self._spaces = 0


class _Scanner:
    """Finds where elements begin and end. Brackets, commas and quotes inside strings do not count."""

    def __init__(self) -> None:
        self.depth, self.in_string = 0, False
        self._carried = b""

    def next_block(self, stream: io.BufferedReader) -> bytes:
        """Read a block. A backslash at its end waits for the next block, because it escapes what follows."""
        part = stream.read1(BLOCK_BYTES)
        block = self._carried + part
        backslashes = len(block) - len(block.rstrip(b"\\"))
        split = len(block) - backslashes % 2 if part else len(block)
        self._carried = block[split:]
        if part and not split:
            return self.next_block(stream)
        return block[:split]

    def boundaries(self, block: bytes) -> list[int]:
        """Return the places of the brackets around each array and of the commas between its elements."""
        plain = _ESCAPE.sub(b"__", block) if b"\\" in block else block
        content = np.frombuffer(plain, np.uint8)
        places = np.flatnonzero(_IS_STRUCTURAL[content])
        kinds = content[places]
        inside = (np.cumsum(kinds == _QUOTE) + self.in_string) % 2 == 1
        self.in_string = bool(inside[-1]) if len(inside) else self.in_string
        places, kinds = places[~inside], kinds[~inside]
        steps = _DEPTH[kinds]
        depths = np.cumsum(steps, dtype=np.int64) + self.depth
        if len(depths):
            self.depth = int(depths[-1])
            if depths.min() < 0:
                raise ValueError("the JSON array has a closing bracket too many")
        ends = ((kinds == _COMMA) & (depths == 1)) | ((steps == 1) & (depths == 1)) | ((steps == -1) & (depths == 0))
        offsets: list[int] = places[ends].tolist()
        return offsets
