"""Panes and windows: which groups a list counts in, tallies per (pane, group), and the windows that gauges show.

Pure. A pane holds a tally for each of its groups; panes of several tasks merge by addition; a window is a sum of panes. A
window is shown only when all of its panes are complete and none of them has left a store: never silently partial.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from streammetrics.event_time import FOREVER, NEVER, final_bound, pane_start
from streammetrics.events.model import Labels
from streammetrics.metrics import TallyLayout
from streammetrics.scoring import add

View: TypeAlias = Literal["final", "live"]
VIEWS: tuple[View, View] = ("final", "live")


class Group(NamedTuple):
    """What a tally is kept for: a variant of an experiment (both empty: all traffic), in one segment value or in all."""

    experiment: str = ""
    variant: str = ""
    segment: str = ""
    value: str = ""

    @property
    def segments(self) -> dict[str, str]:
        return {self.segment: self.value} if self.segment else {}


Pane: TypeAlias = dict[Group, list[int]]
Panes: TypeAlias = dict[int, Pane]


def groups_of(experiments: Labels, segments: Labels, tallied: Iterable[str]) -> tuple[Group, ...]:
    """The groups of one list: all traffic and each variant, each in total and by every tallied segment, one at a time.

    >>> groups_of((("ranker", "new"),), (("surface", "home"),), ["surface"])  # doctest: +NORMALIZE_WHITESPACE
    (Group(experiment='', variant='', segment='', value=''),
     Group(experiment='', variant='', segment='surface', value='home'),
     Group(experiment='ranker', variant='new', segment='', value=''),
     Group(experiment='ranker', variant='new', segment='surface', value='home'))
    """
    values = dict(segments)
    return tuple(
        Group(experiment, variant, segment, values.get(segment, "") if segment else "")
        for experiment, variant in (("", ""), *experiments)
        for segment in ("", *tallied)
    )


def window_end(bound_ms: int, newest_ms: int, pane_ms: int) -> int | None:
    """Where windows end (ms) that are complete up to a bound: with its last pane; after a flush, with the newest event's. None for nowhere.

    >>> [window_end(bound, newest_ms=25, pane_ms=10) for bound in (NEVER, 39, FOREVER)]
    [None, 30, 30]
    """
    if bound_ms == NEVER or (bound_ms == FOREVER and newest_ms == NEVER):
        return None
    return pane_start(newest_ms, pane_ms) + pane_ms if bound_ms == FOREVER else pane_start(bound_ms, pane_ms)


def add_to(pane: Pane, group: Group, change: list[int]) -> None:
    """Add a change to a group's tally; a tally that has become zero is forgotten, so that it cannot be told from none."""
    known = pane.get(group)
    merged = change if known is None else add(known, change)
    if any(merged):
        pane[group] = merged
    else:
        pane.pop(group, None)


@dataclass(frozen=True, slots=True)
class GroupValues:
    """A group in one window: how many lists, and each metric's value over all lists and over lists with feedback.

    A ratio without places (`item_hit_rate` of empty lists) has no value and is absent.
    """

    group: Group
    lists: int
    lists_with_feedback: int
    values: Mapping[str, float]
    values_with_feedback: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Window:
    """One window of one view: panes with end_ms - window_ms <= start < end_ms. `end_ms` is None before the first watermark.

    `complete` is False when some task no longer holds a pane that the window needs; then it shows no groups.
    """

    window_ms: int
    view: View
    end_ms: int | None
    complete: bool
    groups: tuple[GroupValues, ...]


@dataclass(frozen=True, slots=True)
class WindowRules:
    """What decides windows; all in milliseconds."""

    pane_ms: int
    windows_ms: tuple[int, ...]
    lateness_ms: int
    attribution_ms: int


class Board:
    """The merged panes of all tasks, kept up to date task by task: what windows are read from."""

    def __init__(self, layout: TallyLayout, rules: WindowRules) -> None:
        self.layout = layout
        self.rules = rules
        self._of_task: dict[int, Panes] = {}
        self._merged: Panes = {}
        self._stale: set[int] = set()

    def update(self, task: int, panes: Mapping[int, Pane], since: int | None, oldest_kept_ms: int) -> None:
        """Take a task's panes with start >= `since` as they now are (None: all of them).

        A pane from there on that is not given is no more; those before `oldest_kept_ms` have left the task's store.
        """
        mine = self._of_task.setdefault(task, {})
        for start, pane in panes.items():
            if mine.get(start) != pane:
                mine[start] = pane
                self._stale.add(start)
        gone = [start for start in mine if start < oldest_kept_ms or (start not in panes and (since is None or start >= since))]
        for start in gone:
            del mine[start]
            if any(start in held for held in self._of_task.values()):
                self._stale.add(start)
            else:  # no window will ask for it
                self._stale.discard(start)
                self._merged.pop(start, None)

    def pane(self, start: int) -> Pane:
        """One pane, merged over tasks."""
        if start in self._stale:
            merged: Pane = {}
            for panes in self._of_task.values():
                for group, tally in panes.get(start, {}).items():
                    add_to(merged, group, tally)
            self._stale.discard(start)
            if merged:
                self._merged[start] = merged
            else:
                self._merged.pop(start, None)
        return self._merged.get(start, {})

    def starts(self) -> list[int]:
        """The starts of all panes that any task holds, ascending."""
        return sorted({*self._merged, *self._stale})

    def window(self, window_ms: int, view: View, watermark_ms: int, oldest_kept_ms: int, newest_ms: int) -> Window:
        """Read one window.

        `watermark_ms` is the least over all tasks (NEVER while one has none), `oldest_kept_ms` the greatest start below
        which some task's panes have left its store, `newest_ms` the newest admitted event (it ends the windows of a flush).
        """
        end = self._end(view, watermark_ms, newest_ms)
        if end is None:
            return Window(window_ms, view, None, True, ())
        start = end - window_ms
        if start < oldest_kept_ms:
            return Window(window_ms, view, end, False, ())
        tallies: dict[Group, list[list[int]]] = {}
        for pane in (self.pane(held) for held in self.starts() if start <= held < end):
            for group, tally in pane.items():
                tallies.setdefault(group, []).append(tally)
        values = tuple(self.values(group, [sum(column) for column in zip(*tallies[group], strict=True)]) for group in sorted(tallies))
        return Window(window_ms, view, end, True, tuple(value for value in values if value.lists))

    def _end(self, view: View, watermark_ms: int, newest_ms: int) -> int | None:
        bound = final_bound(watermark_ms, self.rules.lateness_ms, self.rules.attribution_ms) if view == "final" else watermark_ms
        return window_end(bound, newest_ms, self.rules.pane_ms)

    def values(self, group: Group, tally: list[int]) -> GroupValues:
        """A tally as values: every mean is one correctly rounded division of integers."""
        layout = self.layout
        lists, with_feedback = layout.lists(tally), layout.lists_with_feedback(tally)
        return GroupValues(group, lists, with_feedback, layout.means(tally, "zero"), layout.means(tally, "with_feedback"))
