"""Panes and windows: which groups a list counts in, tallies per (pane, group), and the windows that gauges show.

Pure. A pane holds a tally for each of its groups; panes of several tasks merge by addition; a window is a sum of panes. Windows are
read from a `aggregator`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from streammetrics.events.event_time import FOREVER, NEVER, pane_start
from streammetrics.events.model import Labels
from streammetrics.windows.tally_deltas import add

WindowView: TypeAlias = Literal["final", "live"]
VIEWS: tuple[WindowView, WindowView] = ("final", "live")


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
    view: WindowView
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
