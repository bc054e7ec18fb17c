"""How many users and lists each variant got over time: counts in blocks of event time. Pure.

A user arrives with their first counted list or, with exposure events, with their first exposure. The length of a block is an hour, doubled
as often as it takes until no variant has more than `BLOCKS_MAX` blocks. So it depends on all the arrivals together and not on their order:
the parts of several tasks may be merged in any way. So may the lists of the latest hours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

HOUR_MS: Final = 3_600_000
BLOCKS_MAX: Final = 720
"""Blocks of one variant that have arrivals: 30 days, if users come in every hour."""
HOURS_MAX: Final = 48
"""Hours of one variant that keep their number of lists: the latest ones with lists."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Arrivals by variant and block. Block b has the event time (ms) from b * block_ms on and before (b + 1) * block_ms.

    Each variant has at most BLOCKS_MAX blocks, and a count is at least 1. block_ms: an hour, or an hour doubled several times.

    >>> one = Arrivals.of({"control": {0: 5, 1: 7}, "treatment": {1: 2}})
    >>> one.by_variant
    {'control': 12, 'treatment': 2}
    """

    block_ms: int = HOUR_MS
    counts: Mapping[str, Mapping[int, int]] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, by_hour: Mapping[str, Mapping[int, int]]) -> Arrivals:
        """Return arrivals that are given by hour since the epoch."""
        return _bounded(cls(HOUR_MS, by_hour))

    @property
    def by_variant(self) -> dict[str, int]:
        """All arrivals of each variant."""
        return {variant: sum(blocks.values()) for variant, blocks in self.counts.items()}

    def and_more(self, variant: str, by_hour: Mapping[int, int]) -> Arrivals:
        """Return these arrivals and some more of one variant, by hour since the epoch.

        >>> Arrivals.of({"control": {0: 5}}).and_more("control", {0: 1, 1: 7})
        Arrivals(block_ms=3600000, counts={'control': {0: 6, 1: 7}})
        """
        hours, blocks = self.block_ms // HOUR_MS, dict(self.counts.get(variant, {}))
        for hour, count in by_hour.items():
            blocks[hour // hours] = blocks.get(hour // hours, 0) + count
        return _bounded(Arrivals(self.block_ms, {**self.counts, variant: blocks}))

    def in_blocks(self, block_ms: int) -> Arrivals:
        """Return the same arrivals in longer blocks: `block_ms` is a multiple of the present length.

        >>> Arrivals.of({"control": {0: 5, 1: 7, 2: 1}}).in_blocks(2 * HOUR_MS)
        Arrivals(block_ms=7200000, counts={'control': {0: 12, 1: 1}})
        """
        times, rest = divmod(block_ms, self.block_ms)
        if rest or times < 1:
            raise ValueError(f"block_ms: got {block_ms}; must be a multiple of {self.block_ms}")
        if times == 1:
            return self
        longer: dict[str, dict[int, int]] = {}
        for variant, blocks in self.counts.items():
            of_variant = longer[variant] = {}
            for block, count in blocks.items():
                of_variant[block // times] = of_variant.get(block // times, 0) + count
        return Arrivals(block_ms, longer)


NO_ARRIVALS: Final = Arrivals()


def merge(parts: Iterable[Arrivals]) -> Arrivals:
    """Return the arrivals of all parts, in blocks of the longest length or longer.

    >>> merge([Arrivals.of({"control": {4: 1}}), Arrivals.of({"control": {4: 2}, "treatment": {5: 1}})])
    Arrivals(block_ms=3600000, counts={'control': {4: 3}, 'treatment': {5: 1}})
    """
    known = [each for each in parts if each.counts]
    if len(known) < 2:
        return known[0] if known else NO_ARRIVALS
    block_ms, total = max(each.block_ms for each in known), dict[str, Counter[int]]()
    for each in known:
        for variant, blocks in each.in_blocks(block_ms).counts.items():
            total.setdefault(variant, Counter()).update(blocks)
    return _bounded(Arrivals(block_ms, {variant: dict(blocks) for variant, blocks in total.items()}))


def merge_hours(parts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Return the lists of one variant in its latest HOURS_MAX hours with lists.

    An hour that is among the latest of all parts together is among the latest of each part. So the parts may be merged in any way.

    >>> merge_hours([{7: 1, 8: 2}, {8: 3}])
    {7: 1, 8: 5}
    """
    lists = Counter[int]()
    for part in parts:
        lists.update(part)
    return {hour: lists[hour] for hour in sorted(lists)[-HOURS_MAX:]}


def _bounded(arrivals: Arrivals) -> Arrivals:
    """Return arrivals with the least length of blocks, twice the present one or more, at which no variant has too many."""
    while any(len(blocks) > BLOCKS_MAX for blocks in arrivals.counts.values()):
        arrivals = arrivals.in_blocks(2 * arrivals.block_ms)
    return arrivals
