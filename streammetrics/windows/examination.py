"""Counts for the examination curve: how often sampled items were shown and clicked at each rank, and grades by rank of each variant.

Everything is a sum over final lists, so the order of lists does not matter. The number of items is limited by sampling: each item (in its
context) has a hash, and the items with the lowest hashes are counted (a bottom-k sample: Cohen, Kaplan 2007). An item that belongs to
the sample at the end belonged to it all the time, so its counts are complete. Samples of several tasks merge: the items below the least
limit of all are complete in each of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from streammetrics.errors import StateError
from streammetrics.events.event_time import DAY_MS, FOREVER, NEVER
from streammetrics.events.model import Labels
from streammetrics.metrics.arrays import Ints
from streammetrics.sessions.state import ShownList, pairs_of
from streammetrics.sessions.store import FinalEvents
from streammetrics.state.codec import VERSION, check_version
from streammetrics.state.msgpack import pack
from streammetrics.state.tables import RowChanges, TaskTimes

HASH_BITS: Final = 56
NO_LIMIT: Final = 1 << HASH_BITS
"""Hashes are below it."""
RANK_BITS: Final = 6
"""An entry is the hash of an item and its 0-based place, in one int64."""
HASHES_KEPT: Final = 100_000
"""Hashes that are cached before all are forgotten. The cache saves time only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminationRules:
    """What is counted.

    context: the segments of a list within whose values an item attracts all users alike. ranks: the ranks 1 to `ranks` count.
    items_max: distinct items of a period that a task counts. period_ms: length of a period of event time; periods begin at the epoch.
    """

    context: tuple[str, ...] = ()
    ranks: int = 10
    items_max: int = 2_000
    period_ms: int = 7 * DAY_MS

    def describe(self) -> str:
        """Return one line with every rule. Counts of different rules are never merged."""
        return f"context={list(self.context)} ranks={self.ranks} items={self.items_max} period={self.period_ms}"


class ItemHashes:
    """The hashes of items in their contexts: the same in every process."""

    __slots__ = ("_context", "_known")

    def __init__(self, context: Sequence[str]) -> None:
        self._context = context
        self._known: dict[tuple[str, str], int] = {}

    def context_of(self, segments: Labels) -> str:
        """Return the context of a list. A segment without a value is the empty text.

        >>> ItemHashes(["query", "shop"]).context_of((("query", "tea"), ("surface", "home")))
        '3:tea0:'
        """
        if not self._context:
            return ""
        values = dict(segments)
        return "".join([f"{len(value)}:{value}" for value in [values.get(name, "") for name in self._context]])

    def of(self, context: str, item: str) -> int:
        """Return the hash of an item, from 0 to 2**56 - 1."""
        known = self._known.get((context, item))
        if known is None:
            if len(self._known) >= HASHES_KEPT:
                self._known.clear()
            text = f"{len(context)}:{context}{item}".encode()
            known = self._known[context, item] = int.from_bytes(blake2b(text, digest_size=HASH_BITS // 8).digest())
        return known


class VariantGrades:
    """The lists of one variant, and how many of them have a grade at a 0-based place, by (place, grade)."""

    __slots__ = ("by_place", "lists")

    def __init__(self, lists: int = 0, by_place: dict[tuple[int, float], int] | None = None) -> None:
        self.lists, self.by_place = lists, {} if by_place is None else by_place

    def add(self, other: VariantGrades) -> None:
        self.lists += other.lists
        for key, count in other.by_place.items():
            self.by_place[key] = self.by_place.get(key, 0) + count


class ItemCounts(NamedTuple):
    """Shows and clicks by entry: int64, shape (entries,). Entries below `limit << RANK_BITS` are complete."""

    entries: Ints
    shows: Ints
    clicks: Ints
    limit: int

    @property
    def items(self) -> Ints:
        """The hash of the item of each entry."""
        return self.entries >> RANK_BITS

    @property
    def ranks(self) -> Ints:
        """The rank of each entry, from 1."""
        return (self.entries & ((1 << RANK_BITS) - 1)) + 1


class ExaminationSample:
    """The counts of one task and one period. `limit`: items with a lower hash are counted."""

    __slots__ = ("_counts", "_hashes", "limit", "variants")

    def __init__(self) -> None:
        self._counts: dict[int, dict[int, list[int]]] = {}
        """Shows and clicks by hash and 0-based place."""
        self._hashes: list[int] = []
        """The negative hashes as a heap, so that the greatest hash is first."""
        self.limit = NO_LIMIT
        self.variants: dict[tuple[str, str], VariantGrades] = {}

    @classmethod
    def restored(cls, counts: ItemCounts, variants: dict[tuple[str, str], VariantGrades]) -> ExaminationSample:
        """Return the sample with these counts."""
        sample = cls()
        for entry, shows, clicks in zip(counts.entries.tolist(), counts.shows.tolist(), counts.clicks.tolist(), strict=True):
            sample._counts.setdefault(entry >> RANK_BITS, {})[entry & (1 << RANK_BITS) - 1] = [shows, clicks]
        sample._hashes = [-each for each in sample._counts]
        heapq.heapify(sample._hashes)
        sample.limit, sample.variants = counts.limit, variants
        return sample

    def counts(self) -> ItemCounts:
        """Return the counts in the order of their entries."""
        rows = [(found << RANK_BITS | place, *each) for found, places in self._counts.items() for place, each in places.items()]
        table = np.array(sorted(rows), dtype=np.int64).reshape(-1, 3)
        return ItemCounts(table[:, 0], table[:, 1], table[:, 2], self.limit)

    def add(self, shown: ShownList, rules: ExaminationRules, hashes: ItemHashes) -> None:
        """Count one final list. A place without an item does not count, nor does an item that stands higher already."""
        ranks = rules.ranks
        grades = {int(place): grade for place, grade in pairs_of(shown.hits) if place < ranks}
        for arm in shown.experiments:
            known = self.variants.setdefault(arm, VariantGrades())
            known.lists += 1
            for each in grades.items():
                known.by_place[each] = known.by_place.get(each, 0) + 1
        context = hashes.context_of(shown.segments)
        top = shown.items[:ranks]
        for place, item in enumerate(top):
            if not item or item in top[:place]:
                continue
            found = hashes.of(context, item)
            if found < self.limit:
                self._count(found, place, place in grades, rules.items_max)

    def _count(self, found: int, place: int, clicked: bool, items_max: int) -> None:
        places = self._counts.get(found)
        if places is None:
            places = self._counts[found] = {}
            heapq.heappush(self._hashes, -found)
            if len(self._hashes) > items_max:
                self.limit = -heapq.heappop(self._hashes)
                del self._counts[self.limit]
        known = places.setdefault(place, [0, 0])
        known[0] += 1
        known[1] += clicked


def merged_counts(parts: Iterable[ItemCounts]) -> ItemCounts:
    """Merge counts of several tasks or periods. Items that are not complete in all of them are left out.

    >>> one = ItemCounts(np.array([64, 128]), np.array([5, 7]), np.array([1, 2]), limit=3)
    >>> merged_counts([one, one._replace(limit=2)])
    ItemCounts(entries=array([64]), shows=array([10]), clicks=array([2]), limit=2)
    """
    kept = list(parts)
    limit = min([each.limit for each in kept], default=NO_LIMIT)
    none = np.zeros(0, dtype=np.int64)
    columns = [np.concatenate([none, *(each[at] for each in kept)]) for at in range(3)]
    inside = columns[0] >> RANK_BITS < limit
    entries, place = np.unique(columns[0][inside], return_inverse=True)
    sums = [np.zeros(len(entries), dtype=np.int64) for _ in range(2)]
    for total, column in zip(sums, columns[1:], strict=True):
        np.add.at(total, place, column[inside])
    return ItemCounts(entries, sums[0], sums[1], limit)


EXAMINATION: Final = "examination"
"""The table of the counts, by the number of their period."""
PERIODS_BEFORE: Final = 2
"""Periods that are kept before the one that lists are enrolled in. A report needs one; a task may be ahead of another by one more."""

_StoredVariant = tuple[str, str, int, list[tuple[int, float, int]]]
_decode = msgspec.msgpack.Decoder(tuple[int, str, int, int, bytes, str, bytes, str, bytes, list[_StoredVariant]]).decode


def encode_sample(sample: ExaminationSample, rules: ExaminationRules) -> bytes:
    """Return the stored form of a sample. Integers take as many bytes as the greatest of them needs."""
    counts = sample.counts()
    variants = [
        (*arm, each.lists, sorted((place, float(grade), count) for (place, grade), count in each.by_place.items()))
        for arm, each in sorted(sample.variants.items())
    ]
    columns = [part for column in (counts.shows, counts.clicks) for part in _packed(column)]
    return pack((VERSION, rules.describe(), sample.limit, len(counts.entries), counts.entries.astype("<i8").tobytes(), *columns, variants))


def _packed(column: Any) -> tuple[str, bytes]:
    narrow = np.min_scalar_type(int(column.max(initial=0))).newbyteorder("<")
    return narrow.str, column.astype(narrow).tobytes()


def decode_counts(stored: bytes) -> tuple[str, ItemCounts, dict[tuple[str, str], VariantGrades]]:
    """Return the rules, the counts and the variants of a stored sample. Raises StateError for bytes of another form or version."""
    try:
        version, rules, limit, size, entries, shows_type, shows, clicks_type, clicks, variants = _decode(stored)
        check_version(version, "counts of the examination curve")
        columns = [
            np.frombuffer(data, dtype=kind).astype(np.int64)
            for kind, data in (("<i8", entries), (shows_type, shows), (clicks_type, clicks))
        ]
    except (msgspec.DecodeError, TypeError, ValueError) as error:
        raise StateError(
            f"counts of the examination curve in the store cannot be read ({error})",
            "start a new redis.namespace and replay from the topics",
        ) from error
    assert all(len(column) == size for column in columns)
    grades = {
        (experiment, variant): VariantGrades(lists, {(place, grade): count for place, grade, count in by_place})
        for experiment, variant, lists, by_place in variants
    }
    return rules, ItemCounts(columns[0], columns[1], columns[2], limit), grades


class ExaminationStore:
    """The samples of a task by period, and which of them a commit writes and deletes. Without rules, stored samples are deleted."""

    __slots__ = ("_changed", "_counted_from", "_gone", "_hashes", "_rules", "samples")

    def __init__(self, rules: ExaminationRules | None) -> None:
        self._rules = rules
        self._hashes = ItemHashes(() if rules is None else rules.context)
        self.samples: dict[int, ExaminationSample] = {}
        self._counted_from = NEVER
        self._changed: set[int] = set()
        self._gone: set[str] = set()

    def restore(self, stored: Mapping[str, bytes], counted_from: int, *, is_new: bool) -> None:
        """Continue from the last commit. Samples of other rules are deleted by the next one, and all if counting is new.

        Lists before `counted_from` (ms) do not count.
        """
        self._counted_from = counted_from
        for name, value in stored.items():
            if is_new or self._rules is None or (found := decode_counts(value))[0] != self._rules.describe():
                self._gone.add(name)
            else:
                self.samples[int(name)] = ExaminationSample.restored(*found[1:])

    def on_final(self, final: FinalEvents) -> None:
        """Count final lists that are in an experiment, each once."""
        rules = self._rules
        if rules is None:
            return
        for shown in chain.from_iterable(final.lists.values()):
            if shown.experiments and shown.ts >= self._counted_from:
                period = shown.ts // rules.period_ms
                self.samples.setdefault(period, ExaminationSample()).add(shown, rules, self._hashes)
                self._changed.add(period)

    def changes(self, times: TaskTimes) -> RowChanges:
        """Return what to commit. Samples of other rules are deleted, and so are those of periods that are over, until the input ends."""
        rules, entered_ms = self._rules, min(times.enrolled_before, times.newest)
        if rules is not None and entered_ms != NEVER and times.closed_before != FOREVER:
            first = entered_ms // rules.period_ms - PERIODS_BEFORE
            for period in [period for period in self.samples if period < first]:
                del self.samples[period]
                self._changed.discard(period)
                self._gone.add(str(period))
        changed = {} if rules is None else {str(each): encode_sample(self.samples[each], rules) for each in self._changed}
        gone = sorted(self._gone - changed.keys())
        self._changed, self._gone = set(), set()
        return RowChanges(changed, gone)
