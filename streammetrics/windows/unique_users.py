"""The reach of panes: how many users were there, and had a hit, by how many panes ago each was before; and the users of windows.

Pure. Only lists that have entered count, so a pane's reach is complete when all of its lists have entered, which is some time after
it is final; windows of users end there. What is counted and why it is exact is told by `experiments.user_windows`. A pane's reach is
kept for all traffic and for each variant, not by segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeAlias

import numpy as np

from streammetrics.metrics import Scorer
from streammetrics.sessions.shown_list import GradedPositions, hits_of
from streammetrics.windows.distinct_count import Int64Array, are_first

ExperimentVariant: TypeAlias = tuple[str, str]
"""Experiment and variant; both empty: all traffic."""
ALL: Final[ExperimentVariant] = ("", "")

PaneUserCounts: TypeAlias = dict[ExperimentVariant, dict[tuple[int, int], int]]
"""Occurrences of one pane, by (kind, gap). Kind 0 is to be there; the others are to have a hit, the greatest cut-off first."""
PaneUserCountsByStart: TypeAlias = dict[int, PaneUserCounts]
"""By pane start (ms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueUserRules:
    """`panes`: how many the longest window has. `patience_ms` is that of experiments: see `ExperimentRules`."""

    panes: int
    patience_ms: int = 0


class UserCountLayout:
    """Which kinds of occurrences there are: those of the cut-offs of hit_rate, where that is computed, and to be there."""

    def __init__(self, scorer: Scorer) -> None:
        self.cutoffs = sorted({metric.k for metric in scorer.metrics if metric.name == "hit_rate" and metric.k is not None}, reverse=True)
        self.kinds = 1 + len(self.cutoffs)
        self._relevant = scorer.spec.relevance_threshold
        self._of_place = [sum(place < k for k in self.cutoffs) for place in range(max(self.cutoffs, default=0))]

    def level(self, hits: GradedPositions) -> int:
        """The greatest kind that a list counts for: at how many cut-offs it has a hit.

        >>> layout = UserCountLayout(Scorer(["hit_rate@3", "hit_rate@10"]))
        >>> [layout.level(hits) for hits in ((), (10, 1), (9, 1, 20, 1), (2, 1), (2, 0.5, 5, 1))]
        [0, 0, 1, 2, 1]
        """
        relevant, of_place = self._relevant, self._of_place
        places = [place for place, grade in hits_of(hits) if grade >= relevant]
        return of_place[first] if places and (first := int(min(places))) < len(of_place) else 0


@dataclass(frozen=True, slots=True)
class UserCounts:
    """How many users an arm reached in one window, and how many of them had a hit, by cut-off."""

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

    `complete` is False when some task has not counted the users of all of its panes; then it shows none.
    """

    window_ms: int
    end_ms: int | None
    complete: bool
    arms: tuple[UserCounts, ...] = ()


class UniqueUserWindows:
    """The reach of all tasks' panes, kept up to date task by task: what windows of users are read from.

    A window is read from complete panes alone, so it is computed once for each of its ends.
    """

    def __init__(self, layout: UserCountLayout, pane_ms: int, decode: Callable[[bytes], PaneUserCounts]) -> None:
        self._layout, self._pane_ms, self._decode = layout, pane_ms, decode
        self._of_task: dict[int, dict[int, bytes | list[tuple[ExperimentVariant, Int64Array]]]] = {}
        self._known: dict[int, tuple[tuple[int, int], UniqueUserWindow]] = {}

    def update(self, task: int, reaches: Mapping[int, bytes], oldest_kept_ms: int, is_snapshot: bool = False) -> None:
        """Take in those of a task's panes that may have changed, as they are stored: they are read once they are complete.

        Those before `oldest_kept_ms` have left the task's store. `is_snapshot`: these are all, and what was read before may be of panes that
        were complete and are so no more.
        """
        if is_snapshot:
            self._of_task.pop(task, None)
            self._known.clear()
        mine = self._of_task.setdefault(task, {})
        mine.update(reaches)
        for start in [start for start in mine if start < oldest_kept_ms]:
            del mine[start]

    def _rows(
        self, panes: dict[int, bytes | list[tuple[ExperimentVariant, Int64Array]]], start: int
    ) -> list[tuple[ExperimentVariant, Int64Array]]:
        """The reach of a pane by arm, as rows of kind, gap and count."""
        known = panes[start]
        if isinstance(known, bytes):
            reach = self._decode(known)
            known = panes[start] = [
                (arm, np.array([(*key, count) for key, count in of_arm.items()], dtype=np.int64)) for arm, of_arm in reach.items()
            ]
        return known

    def window(self, window_ms: int, end_ms: int, panes_max: int) -> UniqueUserWindow:
        """The users of the window that ends with all panes before `end_ms` counted; `panes_max` as the tasks have counted."""
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
            first = are_first(panes, gaps, start_ms // pane_ms, end_ms // pane_ms, panes_max)
            np.add.at(users, (of_arm[first], kinds[first]), counts[first])
        reached = [
            UserCounts(arm, there, dict(sorted(zip(self._layout.cutoffs, hits, strict=True))))
            for arm, (there, *hits) in zip(arms, users.tolist(), strict=True)
        ]
        return UniqueUserWindow(window_ms, end_ms, True, tuple(sorted(reached, key=lambda one: one.arm)))


def flat(of_arm: Mapping[tuple[int, int], int]) -> list[int]:
    """Occurrences as (kind, gap, count) one after the other.

    >>> from_flat(flat({(0, 5): 2, (1, 60): 1}))
    {(0, 5): 2, (1, 60): 1}
    """
    return list(chain.from_iterable((*key, count) for key, count in of_arm.items()))


def from_flat(numbers: Iterable[int]) -> dict[tuple[int, int], int]:
    """The reverse of `flat`."""
    each = iter(numbers)
    return {(kind, gap): count for kind, gap, count in zip(each, each, each, strict=True)}
