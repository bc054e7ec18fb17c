"""Tallies: lists -> groups, panes and windows."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from tests.oracle.assessment import assessment_sums
from tests.oracle.engagement import add_pairs, engagement_sums
from tests.oracle.scores import stored_values
from tests.oracle.values import Group, Panes, Settings, ShownList, Tally, Window

NameT = TypeVar("NameT", str, int)


def tally_panes(lists: Iterable[ShownList], settings: Settings) -> Panes:
    """Return the tally of every (pane start, group) with a list. A pane starts at a multiple of `pane_ms`."""
    tallies_by_group: dict[tuple[int, Group], list[Tally]] = {}
    for impression in lists:
        start, tally = impression.ts // settings.pane_ms * settings.pane_ms, tally_of_one(impression, settings)
        for group in groups_of(impression, settings.segments):
            tallies_by_group.setdefault((start, group), []).append(tally)
    return {key: add_up(tallies) for key, tallies in tallies_by_group.items()}


def groups_of(impression: ShownList, segments: Sequence[str]) -> list[Group]:
    """Return the groups of a list: all traffic and each variant, each also by every configured segment, one at a time."""
    bare = [Group(), *(Group(experiment, variant) for experiment, variant in impression.experiments)]
    values = [(name, dict(impression.segments).get(name, "")) for name in segments]
    return bare + [group._replace(segments=(pair,)) for group in bare for pair in values]


@functools.lru_cache(maxsize=1_000)
def tally_of_one(impression: ShownList, settings: Settings) -> Tally:
    """Return the tally of one list. The panes, and each scope of each of its experiments, ask for it again."""
    has_feedback = any(grade > 0 for grade in impression.grades)
    first = {f"item_hit_rate@{k}": impression.grades[:k] for k in settings.cutoffs}
    places = {f"item_hit_rate@{k}": sum(item != "" for item in impression.items[:k]) for k in settings.cutoffs}
    return Tally(
        lists=1,
        lists_with_feedback=int(has_feedback),
        sums=dict(stored_values(impression.grades, settings.cutoffs, settings.relevance_min)),
        hits={name: sum(grade >= settings.relevance_min for grade in grades) for name, grades in first.items()},
        places=places,
        places_with_feedback={name: count if has_feedback else 0 for name, count in places.items()},
        engagement=engagement_sums(impression, settings) | assessment_sums(impression),
        delays={} if impression.engagement.delay_ms is None else {impression.engagement.delay_ms: 1},
    )


def add_up(tallies: Sequence[Tally]) -> Tally:
    if len(tallies) == 1:
        return tallies[0]
    return Tally(
        lists=sum(tally.lists for tally in tallies),
        lists_with_feedback=sum(tally.lists_with_feedback for tally in tallies),
        sums=_sum_by_name([tally.sums for tally in tallies]),
        hits=_sum_by_name([tally.hits for tally in tallies]),
        places=_sum_by_name([tally.places for tally in tallies]),
        places_with_feedback=_sum_by_name([tally.places_with_feedback for tally in tallies]),
        engagement=add_pairs([tally.engagement for tally in tallies]),
        delays=_sum_by_name([tally.delays for tally in tallies]),
    )


def _sum_by_name(parts: Iterable[Mapping[NameT, int]]) -> dict[NameT, int]:
    total: Counter[NameT] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


def merge_panes(parts: Iterable[Panes]) -> Panes:
    """Add the panes of several tasks, group by group."""
    merged: dict[tuple[int, Group], list[Tally]] = {}
    for part in parts:
        for key, tally in part.items():
            merged.setdefault(key, []).append(tally)
    return {key: add_up(tallies) for key, tallies in merged.items()}


def window_end(bound_ms: float, newest_ts: int | None, pane_ms: int) -> int | None:
    """Return the last pane boundary at or before W or F. After a flush, return the end of the newest event's pane."""
    if math.isfinite(bound_ms):
        return int(bound_ms) // pane_ms * pane_ms
    if bound_ms < 0 or newest_ts is None:
        return None
    return newest_ts // pane_ms * pane_ms + pane_ms


def window_over(panes: Panes, end_ms: int | None, window_ms: int) -> Window:
    """Sum the panes with `end - window <= start < end`."""
    if end_ms is None:
        return Window(None, {})
    covered: dict[Group, list[Tally]] = {}
    for (start, group), tally in panes.items():
        if end_ms - window_ms <= start < end_ms:
            covered.setdefault(group, []).append(tally)
    return Window(end_ms, {group: add_up(tallies) for group, tallies in covered.items()})
