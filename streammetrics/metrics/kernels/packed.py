"""Lists of small whole grades as bit planes, 64 positions per word. Only the encoding is here; gains are elsewhere.

A plane holds one binary digit of every grade: bit i of word w of plane b is digit b of the grade at position 64 * w + i. Bits
beyond the end of a list are 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from streammetrics.metrics import checks
from streammetrics.metrics.arrays import AnyArray, Ints
from streammetrics.metrics.names import MetricError

Words: TypeAlias = npt.NDArray[np.uint64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

WORD: Final = 64
WORDS_MAX: Final = 16
"""Maximum words per list. All lists of a chunk take as many words as the longest one."""

CHUNK_LISTS: Final = 16_384
CHUNK_CELLS: Final = 1 << 19
"""Lists are packed in chunks of about this many lists and grades, so that a chunk stays in the CPU cache."""

CHUNK_WORDS: Final = 32_768
"""Packed lists are scored in chunks of about this many words per plane. Without grades to read, chunks can be larger."""

SLACK: Final = 2 * WORD
"""Cells after a chunk that are read but never counted."""

PACKED_GRADE_MAX: Final = 3
_PLANES: Final = 2

LOW: Final[Words] = np.array([(1 << count) - 1 for count in range(WORD + 1)], dtype=np.uint64)
"""LOW[n] has the n lowest bits set."""


@dataclass(frozen=True, slots=True)
class PackedLists:
    """Ranked lists with grades 0 to 3, at two bits per position. Pack lists once to score them several times.

    lengths: int64, shape (L,): the number of items in each list, at most 1024.
    planes: uint64, shape (2, W, L): the lower and the upper binary digit of each grade, 64 positions per word.

    Build it with `from_ragged` or `from_bytes`. They raise MetricError for other grades and for longer lists.

    >>> lists = PackedLists.from_bytes([bytes([3, 0, 1]), b""])
    >>> lists.lengths.tolist(), [bin(word) for word in lists.planes[:, 0, 0].tolist()]
    ([3, 0], ['0b101', '0b1'])
    """

    lengths: Ints
    planes: Words

    @staticmethod
    def from_ragged(grades: npt.ArrayLike, offsets: npt.ArrayLike) -> PackedLists:
        """Pack concatenated lists: list i has the grades[offsets[i]:offsets[i + 1]].

        grades: 0..3 in any numeric dtype (uint8 is fastest), shape (N,). offsets: integers, shape (L + 1,).
        """
        flat, ends = checks.numbers("grades", grades), checks.whole_numbers("offsets", offsets)
        checks.check_offsets(ends, flat.size)
        lengths = np.diff(ends)
        checks.check_lengths(lengths, WORD * WORDS_MAX)
        words = words_for(int(lengths.max(initial=0)))
        planes = np.empty((_PLANES, words, lengths.size), dtype=np.uint64)
        for low, high in chunks(ends):
            cells = cells_of(flat, int(ends[low]), int(ends[high]), PACKED_GRADE_MAX)
            if cells is None:
                raise _unpackable(flat, ends)
            planes[:, :, low:high] = planes_of_ragged(cells[0], ends[low:high] - ends[low], lengths[low:high], _PLANES, words)
        return PackedLists(lengths, planes)

    @staticmethod
    def from_bytes(lists: Sequence[bytes]) -> PackedLists:
        """Pack one bytes object per list, with one grade (0..3) per byte, in rank order.

        >>> PackedLists.from_bytes([bytes([0, 1]), bytes([9])])
        Traceback (most recent call last):
          ...
        streammetrics.metrics.names.MetricError: grade: got 9 at list 1, position 0; allowed in packed lists are 0, 1, 2, 3
        """
        try:
            joined = b"".join(lists)
        except TypeError as error:
            raise MetricError("lists", f"got {error}; allowed are bytes objects, one per list") from None
        offsets = np.zeros(len(lists) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, lists), dtype=np.int64, count=len(lists)), out=offsets[1:])
        return PackedLists.from_ragged(np.frombuffer(joined, dtype=np.uint8), offsets)


def _unpackable(flat: AnyArray, ends: Ints) -> MetricError:
    """The error for the first grade other than 0, 1, 2, 3."""
    with np.errstate(invalid="ignore"):
        hit = int(np.flatnonzero(~np.isin(flat, range(PACKED_GRADE_MAX + 1)))[0])
    row = int(np.searchsorted(ends, hit, side="right")) - 1
    return MetricError("grade", f"got {flat[hit]:g} at list {row}, position {hit - ends[row]}; allowed in packed lists are 0, 1, 2, 3")


def words_for(length: int) -> int:
    """The number of words for a list of this length, at least 1."""
    return max(1, -(-length // WORD))


def chunks(offsets: Ints) -> Iterator[tuple[int, int]]:
    """Cut lists into ranges low..high - 1 of bounded size. A list that exceeds the bound gets its own range."""
    low, count = 0, offsets.size - 1
    while low < count:
        high = min(low + CHUNK_LISTS, count)
        if offsets[high] - offsets[low] > CHUNK_CELLS:
            high = max(low + 1, int(np.searchsorted(offsets, offsets[low] + CHUNK_CELLS, side="right")) - 1)
        yield low, high
        low = high


def codes_of(grades: npt.NDArray[Any], top: int) -> tuple[Bytes, int] | None:
    """The grades as bytes and the largest grade, or None if some grade is not an integer in 0..top."""
    if grades.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            codes = grades.astype(np.uint8)
        most = int(codes.max(initial=0))
        return (codes, most) if most <= top and np.array_equal(codes, grades) else None
    most = int(grades.max(initial=0))
    if most > top or (grades.dtype.kind == "i" and grades.min(initial=0) < 0):
        return None
    return grades.astype(np.uint8, copy=False), most


def cells_of(grades: npt.NDArray[Any], first: int, last: int, top: int) -> tuple[Bytes, int] | None:
    """Like `codes_of` for grades[first:last], with SLACK readable cells after them."""
    if last + SLACK <= grades.size:
        return codes_of(grades[first : last + SLACK], top)
    found = codes_of(grades[first:last], top)
    if found is None:
        return None
    longer = np.zeros(last - first + SLACK, dtype=np.uint8)
    longer[: last - first] = found[0]
    return longer, found[1]


def planes_of_ragged(codes: Bytes, starts: Ints, lengths: Ints, planes: int, words: int) -> Words:
    """The bit planes of lists that start at `starts` in `codes` (with slack): shape (planes, words, lists)."""
    out = np.empty((planes, words, starts.size), dtype=np.uint64)
    first_byte, shift = starts >> 3, (starts & 7).astype(np.uint64)
    longest = int(lengths.max(initial=0))
    masks = _within_lists(lengths, words)
    for plane in range(planes):
        bits = np.packbits(codes & np.uint8(1 << plane), bitorder="little")
        windows: Words = np.ndarray((bits.size - 7,), dtype=np.dtype("<u8"), buffer=bits.data, strides=(1,))
        for word, mask in enumerate(masks):
            at = first_byte + 8 * word
            at_word = out[plane, word]
            np.right_shift(windows[_within(at, windows.size)], shift, out=at_word)
            if longest - WORD * word > WORD - 8:  # a list may reach into a ninth byte
                at_word |= bits[_within(at + 8, bits.size)].astype(np.uint64) << (np.uint64(WORD) - shift)
            at_word &= mask
    return out


def _within_lists(lengths: Ints, words: int) -> list[Words]:
    """Per word, a mask of the bits that belong to each list."""
    if words == 1:
        return [LOW.take(lengths)]
    return [LOW.take((lengths - WORD * word).clip(0, WORD)) for word in range(words)]


def _within(at: Ints, size: int) -> Ints:
    """Clamp indices to the array. Lists that end earlier read a wrong word here; the mask removes it."""
    return at if at.size == 0 or at[-1] < size else np.minimum(at, size - 1)


def planes_of_padded(codes: Bytes, lengths: Ints, planes: int, words: int) -> Words:
    """The bit planes of the rows of a matrix of codes: shape (planes, words, lists)."""
    count = codes.shape[0]
    out = np.empty((planes, words, count), dtype=np.uint64)
    for plane in range(planes):
        bits = np.packbits(codes & np.uint8(1 << plane), axis=1, bitorder="little")
        whole = np.zeros((count, 8 * words), dtype=np.uint8)
        whole[:, : bits.shape[1]] = bits
        for word, mask in enumerate(_within_lists(lengths, words)):
            out[plane, word] = whole[:, 8 * word : 8 * word + 8].copy().view(np.dtype("<u8")).reshape(count) & mask
    return out
