"""User counts of panes, and the distinct users of windows.

A pane counts its users, and its users with a hit, by how many panes ago each was last seen (see `distinct_count`). Only lists that are
in the users' totals count, so counts are complete some time after a pane is final; windows of users end there. Users are counted for
all traffic and each variant, not by segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeAlias

import msgspec
import numpy as np

from streammetrics.metrics import Scorer
from streammetrics.sessions.state import GradedPositions, pairs_of
from streammetrics.state.codec import VERSION, check_version, plain_msgpack, refusal
from streammetrics.state.msgpack import pack
from streammetrics.windows.distinct_count import Int64Array, first_in_window

ExperimentVariant: TypeAlias = tuple[str, str]
"""Experiment and variant. Both empty: all traffic."""
ALL: Final[ExperimentVariant] = ("", "")

PaneUserCounts: TypeAlias = dict[ExperimentVariant, dict[tuple[int, int], int]]
"""Occurrences of one pane by (kind, gap). Kind 0: seen. The other kinds: had a hit, the greatest cut-off first."""
PaneUserCountsByStart: TypeAlias = dict[int, PaneUserCounts]
"""By pane start (ms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueUserRules:
    """`panes`: panes of the longest window. `patience_ms`: see `ExperimentRules`."""

    panes: int
    patience_ms: int = 0


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


@dataclass(frozen=True, slots=True)
class UserCounts:
    """Users of one variant in one window, and users with a hit by cut-off."""

    arm: ExperimentVariant
    users: int
    users_with_hit: Mapping[int, int]

    @property
    def hit_rates(self) -> dict[int, float]:
        """Users with a hit / users, by cut-off."""
        return {k: users / self.users for k, users in self.users_with_hit.items()}


@dataclass(frozen=True, slots=True)
class UniqueUserWindow:
    """The users of one window: panes with end_ms - window_ms <= start < end_ms. `end_ms` is None before the first watermark.

    `complete` is False if some task has not counted the users of all panes. The window then has no users.
    """

    window_ms: int
    end_ms: int | None
    complete: bool
    arms: tuple[UserCounts, ...] = ()


class UniqueUserWindows:
    """The user counts of all tasks' panes, updated task by task; windows of users are read from them.

    Only complete panes are read, so a window is computed once for each of its ends.
    """

    def __init__(self, layout: UserCountLayout, pane_ms: int) -> None:
        self._layout, self._pane_ms = layout, pane_ms
        self._of_task: dict[int, dict[int, bytes | list[tuple[ExperimentVariant, Int64Array]]]] = {}
        self._known: dict[int, tuple[tuple[int, int], UniqueUserWindow]] = {}

    def update(self, task: int, user_counts: Mapping[int, bytes], oldest_kept_ms: int, is_snapshot: bool = False) -> None:
        """Update the panes of a task that may have changed, in their stored form. They are decoded once they are complete.

        Panes before `oldest_kept_ms` have left the task's store. `is_snapshot`: these are all panes of the task, and earlier results
        may be wrong because the store lost commits.
        """
        if is_snapshot:
            self._of_task.pop(task, None)
            self._known.clear()
        panes = self._of_task.setdefault(task, {})
        panes.update(user_counts)
        for start in [start for start in panes if start < oldest_kept_ms]:
            del panes[start]

    def _rows(
        self, panes: dict[int, bytes | list[tuple[ExperimentVariant, Int64Array]]], start: int
    ) -> list[tuple[ExperimentVariant, Int64Array]]:
        """Return the user counts of a pane by variant, as rows of kind, gap and count."""
        known = panes[start]
        if isinstance(known, bytes):
            user_counts = decode_user_counts(known)
            known = panes[start] = [
                (arm, np.array([(*key, count) for key, count in of_arm.items()], dtype=np.int64)) for arm, of_arm in user_counts.items()
            ]
        return known

    def window(self, window_ms: int, end_ms: int, panes_max: int) -> UniqueUserWindow:
        """Return the users of the window that ends at `end_ms`. `panes_max`: the panes of the longest window that the tasks count for."""
        known = self._known.get(window_ms)
        if known is None or known[0] != (end_ms, panes_max):
            known = self._known[window_ms] = (end_ms, panes_max), self._read(window_ms, end_ms, panes_max)
        return known[1]

    def _read(self, window_ms: int, end_ms: int, panes_max: int) -> UniqueUserWindow:
        start_ms, pane_ms = end_ms - window_ms, self._pane_ms
        arms: dict[ExperimentVariant, int] = {}
        found = [
            (arms.setdefault(arm, len(arms)), start // pane_ms, rows)
            for panes in self._of_task.values()
            for start in panes
            if start_ms <= start < end_ms
            for arm, rows in self._rows(panes, start)
        ]
        users = np.zeros((len(arms), self._layout.kinds), dtype=np.int64)
        if found:
            sizes = [len(rows) for _, _, rows in found]
            of_arm, panes = (
                np.repeat(np.array(column, dtype=np.int64), sizes) for column in ([one[0] for one in found], [one[1] for one in found])
            )
            kinds, gaps, counts = np.concatenate([rows for _, _, rows in found]).T
            first = first_in_window(panes, gaps, start_ms // pane_ms, end_ms // pane_ms, panes_max)
            np.add.at(users, (of_arm[first], kinds[first]), counts[first])
        counts_of = [
            UserCounts(arm, users_seen, dict(sorted(zip(self._layout.cutoffs, hits, strict=True))))
            for arm, (users_seen, *hits) in zip(arms, users.tolist(), strict=True)
        ]
        return UniqueUserWindow(window_ms, end_ms, True, tuple(sorted(counts_of, key=lambda one: one.arm)))


def flatten_counts(of_arm: Mapping[tuple[int, int], int]) -> list[int]:
    """Return occurrences as kind, gap, count, one after the other.

    >>> unflatten_counts(flatten_counts({(0, 5): 2, (1, 60): 1}))
    {(0, 5): 2, (1, 60): 1}
    """
    return list(chain.from_iterable((*key, count) for key, count in of_arm.items()))


def unflatten_counts(numbers: Iterable[int]) -> dict[tuple[int, int], int]:
    """Reverse `flatten_counts`."""
    each = iter(numbers)
    return {(kind, gap): count for kind, gap, count in zip(each, each, each, strict=True)}


_decode = msgspec.msgpack.Decoder(tuple[int, list[tuple[str, str, list[int]]]]).decode


def encode_user_counts(pane: PaneUserCounts) -> bytes:
    return pack((VERSION, [(*variant, flatten_counts(counts)) for variant, counts in pane.items()]))


def decode_user_counts(stored: bytes) -> PaneUserCounts:
    try:
        version, variants = _decode(stored)
    except msgspec.DecodeError as error:
        raise refusal(stored, plain_msgpack, "the user counts of a pane", error) from error
    check_version(version, "the user counts of a pane")
    return {(experiment, variant): unflatten_counts(numbers) for experiment, variant, numbers in variants}
