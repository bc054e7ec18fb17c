"""The users of one pane: how many it had, and how many with a hit, by how many panes ago each was last seen (see `distinct_count`).

Users are counted for all traffic and each variant, not by segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from streammetrics.metrics import Scorer
from streammetrics.sessions.state import GradedPositions, pairs_of
from streammetrics.state.codec import VERSION, pack, plain_msgpack, reader

ExperimentVariant: TypeAlias = tuple[str, str]
"""Experiment and variant. Both empty: all traffic."""
ALL: Final[ExperimentVariant] = ("", "")

PaneUserCounts: TypeAlias = dict[ExperimentVariant, dict[tuple[int, int], int]]
"""Occurrences of one pane by (kind, gap). Kind 0: seen. The other kinds: had a hit, the greatest cut-off first."""
PaneUserCountsByStart: TypeAlias = dict[int, PaneUserCounts]
"""By pane start (ms)."""


class UserCountLayout:
    """The kinds of occurrences: seen, and a hit for each cut-off of hit_rate among the metrics."""

    def __init__(self, scorer: Scorer) -> None:
        self.cutoffs = sorted({metric.k for metric in scorer.metrics if metric.name == "hit_rate" and metric.k is not None}, reverse=True)
        self.kinds = 1 + len(self.cutoffs)
        self._relevant = scorer.spec.relevance_threshold
        self._kind_of_position = [sum(position < k for k in self.cutoffs) for position in range(max(self.cutoffs, default=0))]

    def hit_kind(self, hits: GradedPositions) -> int:
        """Return the greatest kind that a list counts for: the number of cut-offs at which it has a hit.

        >>> layout = UserCountLayout(Scorer(["hit_rate@3", "hit_rate@10"]))
        >>> [layout.hit_kind(hits) for hits in ((), (10, 1), (9, 1, 20, 1), (2, 1), (2, 0.5, 5, 1))]
        [0, 0, 1, 2, 1]
        """
        relevant, kind_of_position = self._relevant, self._kind_of_position
        positions = [position for position, grade in pairs_of(hits) if grade >= relevant]
        return kind_of_position[first] if positions and (first := int(min(positions))) < len(kind_of_position) else 0


def flatten_counts(of_arm: Mapping[tuple[int, int], int]) -> list[int]:
    """Return occurrences as kind, gap, count, one after the other.

    >>> unflatten_counts(flatten_counts({(0, 5): 2, (1, 60): 1}))
    {(0, 5): 2, (1, 60): 1}
    """
    return [number for (kind, gap), count in of_arm.items() for number in (kind, gap, count)]


def unflatten_counts(numbers: Iterable[int]) -> dict[tuple[int, int], int]:
    """Reverse `flatten_counts`."""
    remaining = iter(numbers)
    return {(kind, gap): count for kind, gap, count in zip(remaining, remaining, remaining, strict=True)}


_read = reader(msgspec.msgpack.Decoder(tuple[int, list[tuple[str, str, list[int]]]]).decode, plain_msgpack, "the user counts of a pane")


def encode_user_counts(pane: PaneUserCounts) -> bytes:
    return pack((VERSION, [(*variant, flatten_counts(counts)) for variant, counts in pane.items()]))


def decode_user_counts(stored: bytes) -> PaneUserCounts:
    _, variants = _read(stored)
    return {(experiment, variant): unflatten_counts(numbers) for experiment, variant, numbers in variants}
