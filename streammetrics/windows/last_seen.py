"""Final lists -> user counts of their panes, and when each user was last seen: all users of one commit together.

A user's lists are counted in order of time. So only the last pane of each kind is kept per user and variant, for the longest window.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np

from streammetrics.state.codec import pack, plain_msgpack, refusal
from streammetrics.windows.alike_sets import list_sets
from streammetrics.windows.final_lists import FinalLists, LabelRun
from streammetrics.windows.user_counts import (
    ALL,
    NOWHERE,
    ExperimentVariant,
    Int64Array,
    PaneUserCountsByStart,
    UserCountLayout,
    occurrences,
)

SeenArms: TypeAlias = tuple[ExperimentVariant, ...]
"""Variants in which a user was seen at the same times, in ascending order. They are stored and counted once."""
StoredLastSeen: TypeAlias = tuple[msgspec.Raw, int, bytes]
"""Variants in which a user was seen at the same times (`SeenArms` as MessagePack), the last pane, and the packed hits.

The hits have one number per cut-off, the greatest cut-off first: how many panes before the last pane the user last had a hit, or NO_HIT
if that is too long ago.
"""
NO_HIT: Final = -1
PANES_AGO: Final = np.dtype("<i4")
DENSE_FACTOR: Final = 8
"""Values are counted by index if their range is at most this many times their number; sorting is slower then."""

LastSeen: TypeAlias = dict[SeenArms, tuple[int, bytes]]
"""All variants in which a user was seen, in disjoint sets: the last pane, and the packed hits."""

_decode_arms = msgspec.msgpack.Decoder(SeenArms).decode


def decode_arms(stored: bytes) -> SeenArms:
    """Decode the variants of `StoredLastSeen`."""
    try:
        return _decode_arms(stored)
    except msgspec.DecodeError as error:
        raise refusal(stored, plain_msgpack, "a user's totals", error) from error


class LastSeenBatch:
    """All users of one commit. Lists before the pane `first` are not counted."""

    def __init__(
        self,
        layout: UserCountLayout,
        panes_max: int,
        pane_ms: int,
        first: int,
        lists: FinalLists,
    ) -> None:
        self._layout, self._panes_max, self._pane_ms, self._first, self._lists = layout, panes_max, pane_ms, first, lists
        self._decoded: dict[bytes, SeenArms] = {}
        self._encoded: dict[SeenArms, msgspec.Raw] = {}
        self._first_ms = first * pane_ms
        self._unseen = NOWHERE, np.full(layout.kinds - 1, NO_HIT, dtype=PANES_AGO).tobytes()
        self._arms_of: list[SeenArms] = []
        self._groups: dict[SeenArms, int] = {}
        """Numbers of variants that are counted together."""
        self._groups_of = [self._group((ALL, *sorted(labels))) for labels in lists.labels]
        """The same by the number of a run's experiments."""
        self._rows: list[tuple[LastSeen, int, int, bytes]] = []
        """Rows: variants in which a user was seen at the same times. What is known of the user, the number of the variants, the user's
        last pane there, and the packed hits.
        """
        self._row_lists: list[tuple[int, int, int]] = []
        """Lists of a row: the row, the first list, the last list + 1."""

    def restore(self, stored: Iterable[StoredLastSeen], oldest_open: int) -> LastSeen:
        """Return what is still relevant of a user's past. `oldest_open` is the oldest pane that may still get a list of this user."""
        least = max(self._first, oldest_open - self._panes_max + 1)
        return {self._arms(bytes(arms)): (pane, ago) for arms, pane, ago in stored if pane >= least}

    def _arms(self, stored: bytes) -> SeenArms:
        decoded = self._decoded.get(stored)
        if decoded is None:
            decoded = self._decoded[stored] = decode_arms(stored)
        return decoded

    def stored(self, last_seen: LastSeen) -> list[StoredLastSeen]:
        """Return a user's past in its stored form."""
        sets = []
        for arms, (pane, ago) in last_seen.items():
            encoded = self._encoded.get(arms)
            if encoded is None:
                encoded = self._encoded[arms] = msgspec.Raw(pack(arms))
            sets.append((encoded, pane, ago))
        return sets

    def add_lists(self, last_seen: LastSeen, runs: Sequence[LabelRun]) -> None:
        """Add the lists of a user."""
        rows: dict[int, int] = {}
        """By group: the row that has lists of this batch."""
        for number, first, end in runs:
            if self._lists.times[end - 1] >= self._first_ms:
                for row in self._rows_for(last_seen, self._groups_of[number], rows):
                    self._row_lists.append((row, first, end))

    def _group(self, arms: SeenArms) -> int:
        """Return the number of variants that are counted together."""
        group = self._groups.setdefault(arms, len(self._groups))
        if group == len(self._arms_of):
            self._arms_of.append(arms)
        return group

    def _rows_for(self, last_seen: LastSeen, group: int, rows: dict[int, int]) -> Sequence[int]:
        """Return rows for variants: one row for all variants in which the user was seen at the same times so far.

        `rows` are the user's rows with lists of this batch.
        """
        if group in rows:
            return (rows[group],)
        arms = self._arms_of[group]
        past = last_seen.get(arms)
        if past is not None or not last_seen:
            return (self._new_row(last_seen, group, past or self._unseen, rows),)

        def copy_row(whole: SeenArms, inside: SeenArms, outside: SeenArms) -> None:
            row = rows.pop(self._group(whole), None)
            if row is not None:
                self._copy_row(row, (inside, outside), rows)

        return [self._row_of(last_seen, alike, rows) for alike in list_sets(last_seen, arms, _variants, _ascending, copy_row)]

    def _row_of(self, last_seen: LastSeen, arms: SeenArms, rows: dict[int, int]) -> int:
        group = self._group(arms)
        return rows[group] if group in rows else self._new_row(last_seen, group, last_seen.get(arms, self._unseen), rows)

    def _new_row(self, last_seen: LastSeen, group: int, past: tuple[int, bytes], rows: dict[int, int]) -> int:
        row = rows[group] = len(self._rows)
        self._rows.append((last_seen, group, *past))
        last_seen[self._arms_of[group]] = past
        return row

    def _copy_row(self, row: int, parts: Iterable[SeenArms], rows: dict[int, int]) -> None:
        """Replace a row by one for each part of its variants, with the same lists."""
        last_seen, _, pane, ago = self._rows[row]
        spans = [(first, end) for of_row, first, end in self._row_lists if of_row == row]
        for place, arms in enumerate(parts):
            group = self._group(arms)
            if place == 0:
                rows[group], self._rows[row] = row, (last_seen, group, pane, ago)
            else:
                copy = self._new_row(last_seen, group, (pane, ago), rows)
                self._row_lists += [(copy, first, end) for first, end in spans]

    def update_counts(self, user_counts: PaneUserCountsByStart) -> set[int]:
        """Update the user counts of panes and the stored records of users. Returns the starts of the changed panes."""
        if not self._rows:
            return set()
        _, groups, known_pane, known_ago = zip(*self._rows, strict=True)
        pane = np.array(known_pane, dtype=np.int64)[:, None]
        ago = np.frombuffer(b"".join(known_ago), dtype=PANES_AGO).reshape(len(pane), self._layout.kinds - 1)
        last = np.hstack([pane, np.where(ago == NO_HIT, NOWHERE, pane - ago)])
        rows, panes, levels = self._lists_of_rows()
        # The next owner of the task may have stored a later last pane already. The store will then refuse this commit.
        ours = panes >= np.maximum(last[rows, 0], self._first)
        rows, panes, kinds, gaps = occurrences(rows[ours], panes[ours], levels[ours], last, self._panes_max)
        self._store(last)
        return self._count(user_counts, np.array(groups, dtype=np.int64)[rows], panes, kinds, gaps)

    def _lists_of_rows(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return the row, the pane and the greatest kind of each list."""
        rows, firsts, ends = (np.array(column, dtype=np.int64) for column in zip(*self._row_lists, strict=True))
        sizes = ends - firsts
        lists = np.arange(sizes.sum()) + np.repeat(ends - np.cumsum(sizes), sizes)
        levels = np.array([self._layout.hit_kind(shape[1:]) for shape in self._lists.shapes], dtype=np.int64)[self._lists.shape_of]
        panes = np.array(self._lists.times, dtype=np.int64) // self._pane_ms
        return np.repeat(rows, sizes), panes[lists], levels[lists]

    def _store(self, last: Int64Array) -> None:
        """Update the records of users."""
        since = last[:, :1] - last[:, 1:]
        packed, size = np.where(since < self._panes_max, since, NO_HIT).astype(PANES_AGO).tobytes(), len(self._unseen[1])
        start = 0
        alike: dict[tuple[int, int, bytes], SeenArms] = {}
        for (last_seen, group, _, _), pane in zip(self._rows, last[:, 0].tolist(), strict=True):
            ago = packed[start : start + size]
            start += size
            arms, key = self._arms_of[group], (id(last_seen), pane, ago)
            if len(last_seen) > 1:  # variants that were last seen at different times may be alike from now on
                number = alike.get(key)
                if number is not None:
                    del last_seen[arms], last_seen[number]
                    arms = tuple(sorted(number + arms))
                alike[key] = arms
            last_seen[arms] = pane, ago

    def _count(
        self, user_counts: PaneUserCountsByStart, groups: Int64Array, panes: Int64Array, kinds: Int64Array, gaps: Int64Array
    ) -> set[int]:
        """Add occurrences to the user counts of panes, equal ones together."""
        if not len(panes):
            return set()
        arms, sizes, of_groups = self._arm_numbers()
        repeats = sizes[groups]
        places = np.arange(repeats.sum()) + np.repeat(np.cumsum(sizes)[groups] - np.cumsum(repeats), repeats)
        distinct_starts, place = _numbered(panes)
        shape = (len(distinct_starts), len(arms), self._layout.kinds, self._panes_max + 1)
        of_pane, kinds, gaps = (np.repeat(column, repeats) for column in (place, kinds, gaps))
        alike, counts = _counted(np.ravel_multi_index((of_pane, of_groups[places], kinds, gaps), shape), math.prod(shape))
        starts = [pane * self._pane_ms for pane in distinct_starts.tolist()]
        for at, arm, kind, gap, number in zip(*(column.tolist() for column in (*np.unravel_index(alike, shape), counts)), strict=True):
            of_arm = user_counts.setdefault(starts[at], {}).setdefault(arms[arm], {})
            of_arm[kind, gap] = of_arm.get((kind, gap), 0) + number
        return set(starts)

    def _arm_numbers(self) -> tuple[list[ExperimentVariant], Int64Array, Int64Array]:
        """Return all variants, the number of variants of each group, and the numbers of the variants of one group after the other."""
        numbers: dict[ExperimentVariant, int] = {}
        of_groups = [numbers.setdefault(arm, len(numbers)) for arms in self._arms_of for arm in arms]
        return list(numbers), np.array([len(arms) for arms in self._arms_of], dtype=np.int64), np.array(of_groups, dtype=np.int64)

    def relevant_until(self, last_seen: LastSeen) -> int:
        """Return the time (ms) from which on this user's past is no longer relevant to new lists."""
        return (max(pane for pane, _ in last_seen.values()) + self._panes_max) * self._pane_ms


def _variants(arms: SeenArms) -> SeenArms:
    return arms


def _ascending(arms: Iterable[ExperimentVariant]) -> SeenArms:
    return tuple(sorted(arms))


def _numbered(values: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the distinct values, ascending, and the index of each value among them. Dense values are not sorted.

    >>> [column.tolist() for column in _numbered(np.array([7, 5, 7]))]
    [[5, 7], [1, 0, 1]]
    """
    least = values.min()
    above = values - least
    if above.max() >= DENSE_FACTOR * len(values):
        distinct, place = np.unique(values, return_inverse=True)
        return distinct, place
    there = np.bincount(above) > 0
    return np.flatnonzero(there) + least, (np.cumsum(there) - 1)[above]


def _counted(values: Int64Array, size: int) -> tuple[Int64Array, Int64Array]:
    """Return the distinct values, ascending, and their counts. All values are at least 0 and below `size`.

    >>> [column.tolist() for column in _counted(np.array([7, 5, 7]), 9)]
    [[5, 7], [1, 2]]
    """
    if size > DENSE_FACTOR * len(values):
        return np.unique(values, return_counts=True)
    counts = np.bincount(values)
    places = np.flatnonzero(counts)
    return places, counts[places]
