"""Groups, panes and windows: the groups of a list, tallies by (pane, group), and the values of a window.

Panes of several tasks merge by addition. `rolling` reads windows from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from streammetrics.events.event_time import FOREVER, NEVER, pane_start
from streammetrics.events.model import Labels
from streammetrics.state.codec import VERSION, encode_json, plain_json, reader
from streammetrics.windows.tally_deltas import add_tallies

WindowView: TypeAlias = Literal["final", "live"]
VIEWS: tuple[WindowView, WindowView] = ("final", "live")


class Group(NamedTuple):
    """The key of a tally: a variant of an experiment (both empty: all traffic), in total or in one segment value."""

    experiment: str = ""
    variant: str = ""
    segment: str = ""
    value: str = ""

    @property
    def segments(self) -> dict[str, str]:
        """The segment name and value; empty for a group in total."""
        return {self.segment: self.value} if self.segment else {}


Pane: TypeAlias = dict[Group, list[int]]
Panes: TypeAlias = dict[int, Pane]


OTHER: Final = "_other"
"""The segment value of all lists that are folded, because their own group exceeds the limit on groups."""
FOLD_MARK: Final = "="
"""Starts the name of a label that says for which variants a segment is folded. No tallied segment has a name with this character."""


def groups_of(experiments: Labels, segments: Labels, tallied: Iterable[str]) -> tuple[Group, ...]:
    """Return the groups of a list: all traffic and each variant, each in total and per tallied segment, one at a time.

    >>> groups_of((("ranker", "new"),), (("surface", "home"),), ["surface"])  # doctest: +NORMALIZE_WHITESPACE
    (Group(experiment='', variant='', segment='', value=''),
     Group(experiment='', variant='', segment='surface', value='home'),
     Group(experiment='ranker', variant='new', segment='', value=''),
     Group(experiment='ranker', variant='new', segment='surface', value='home'))
    """
    values = dict(segments)

    def value(index: int, segment: str) -> str:
        if not segment:
            return ""
        return OTHER if str(index) in values.get(FOLD_MARK + segment, "").split() else values.get(segment, "")

    return tuple(
        Group(experiment, variant, segment, value(index, segment))
        for index, (experiment, variant) in enumerate((("", ""), *experiments))
        for segment in ("", *tallied)
    )


def fold_segments(groups: Sequence[Group], folded: AbstractSet[Group], segments: Labels) -> Labels:
    """Return the segments of a list with some of its groups folded into OTHER. `groups` are those of `groups_of`, in its order.

    The result is stored with the list, so its groups never change later. If all groups of a segment are folded, its value is OTHER.

    >>> groups = groups_of((("ranker", "new"),), (("surface", "home"),), ["surface"])
    >>> fold_segments(groups, {groups[3]}, (("surface", "home"),))
    (('=surface', '1'), ('surface', 'home'))
    >>> fold_segments(groups, {groups[1], groups[3]}, (("surface", "home"),))
    (('surface', '_other'),)
    """
    values = dict(segments)
    for segment in dict.fromkeys(group.segment for group in groups if group.segment):
        of_segment = [group for group in groups if group.segment == segment]
        indices = [index for index, group in enumerate(of_segment) if group in folded]
        if len(indices) == len(of_segment):
            values[segment] = OTHER
        elif indices:
            values[FOLD_MARK + segment] = " ".join(map(str, indices))
    return tuple(sorted(values.items()))


def unfolded(segments: Labels) -> Labels:
    """Return the segments of a list without the marks of `fold_segments`, to fit them again.

    >>> unfolded((("=surface", "1"), ("surface", "home")))
    (('surface', 'home'),)
    """
    return tuple([segment for segment in segments if not segment[0].startswith(FOLD_MARK)])


def window_end(bound_ms: int, newest_ms: int, pane_ms: int) -> int | None:
    """Return the end (ms) of windows that are complete up to a bound, or None before the first watermark.

    It is the last pane boundary at or before the bound. After a flush it is the end of the newest event's pane.

    >>> [window_end(bound, newest_ms=25, pane_ms=10) for bound in (NEVER, 39, FOREVER)]
    [None, 30, 30]
    """
    if bound_ms == NEVER or (bound_ms == FOREVER and newest_ms == NEVER):
        return None
    return pane_start(newest_ms, pane_ms) + pane_ms if bound_ms == FOREVER else pane_start(bound_ms, pane_ms)


def add_to(pane: Pane, group: Group, change: list[int]) -> None:
    """Add a change to the tally of a group. A tally of zeros is removed, so that it equals an absent one."""
    tally = pane.get(group)
    merged = change if tally is None else add_tallies(tally, change)
    if any(merged):
        pane[group] = merged
    else:
        pane.pop(group, None)


@dataclass(frozen=True, slots=True)
class GroupValues:
    """The values of one group in a window: its lists, and each metric over all lists and over lists with feedback.

    A ratio without items (`item_hit_rate` of empty lists) is absent.
    """

    group: Group
    lists: int
    lists_with_feedback: int
    values: Mapping[str, float]
    values_with_feedback: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Window:
    """One window of one view: the panes with end_ms - window_ms <= start < end_ms. `end_ms` is None before the first watermark.

    `complete` is False if some task no longer has a pane of the window. The window then has no groups.
    """

    window_ms: int
    view: WindowView
    end_ms: int | None
    complete: bool
    groups: tuple[GroupValues, ...]


@dataclass(frozen=True, slots=True)
class WindowRules:
    """The rules of windows, all in milliseconds. `live_wait_ms`: how far live windows end before the watermark, until lists have
    their labels; None: they bring them."""

    pane_ms: int
    windows_ms: tuple[int, ...]
    lateness_ms: int
    attribution_ms: int
    live_wait_ms: int | None = None


_read = reader(msgspec.json.Decoder(tuple[int, list[tuple[str, str, str, str, list[int]]]]).decode, plain_json, "a pane")


def encode_pane(pane: Pane) -> bytes:
    return encode_json((VERSION, [(*group, tally) for group, tally in pane.items()]))


def decode_pane(stored: bytes) -> Pane:
    _, tallies = _read(stored)
    return {Group(*group): tally for *group, tally in tallies}
