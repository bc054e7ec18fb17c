"""Which numbers of groups differ: in panes, totals, windows and experiments. Pure; says nothing about why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from streammetrics.experiments import ExperimentReport
from streammetrics.experiments.measures import measure_text
from streammetrics.experiments.name_order import group_order
from streammetrics.offline.differences.found import ChangedGroup, ChangedNumber
from streammetrics.offline.differences.pane_sums import DENOMINATOR, GroupName, PaneSums, Sums
from streammetrics.reports.published import GroupNumbers, GroupTotals

PANES: Final = "panes"
_COUNTS: Final = ("lists", "lists_with_feedback")
Values = dict[GroupName, dict[str, float]]


def changed_panes(online: PaneSums, offline: PaneSums, starts: Collection[int]) -> Iterator[ChangedGroup]:
    """Yield the groups that differ in some of these panes, with their sums over all of them. A group or pane without lists counts as 0."""
    shared = {name for name, _ in online.metrics() & offline.metrics()}
    names = [*_COUNTS, *(name + part for name in online.scales if name in shared for part in ("", DENOMINATOR))]
    groups = {group for side in (online, offline) for start in starts for group in side.panes.get(start, ())}
    for group in sorted(groups, key=group_order):
        totals: tuple[Sums, Sums] = ({}, {})
        differ: list[int] = []
        of_values: list[int] = []
        more = fewer = 0
        for start in sorted(starts):
            ours, theirs = (side.panes.get(start, {}).get(group, {}) for side in (online, offline))
            for total, sums in zip(totals, (ours, theirs), strict=True):
                for name in names:
                    total[name] = total.get(name, 0) + sums.get(name, 0)
            lists = theirs.get("lists", 0) - ours.get("lists", 0)
            more, fewer = more + max(0, lists), fewer + max(0, -lists)
            if any(ours.get(name, 0) != theirs.get(name, 0) for name in names):
                differ.append(start)
                of_values += [] if lists else [start]
        if differ:
            yield ChangedGroup(PANES, *group, _numbers(*totals, names), more, fewer, tuple(differ), tuple(of_values))


def changed_values(place: str, online: Values, offline: Values) -> Iterator[ChangedGroup]:
    """Yield the groups of totals, windows or experiments that differ. Only numbers that both sides have are compared.

    A group of one side only has None on the other.
    """
    for group in sorted(online.keys() | offline.keys(), key=group_order):
        ours, theirs = online.get(group), offline.get(group)
        names = [name for name in (ours or theirs or {}) if ours is None or theirs is None or (name in ours and name in theirs)]
        if numbers := _numbers(ours or {}, theirs or {}, names):
            lists = int((theirs or {}).get("lists", 0) - (ours or {}).get("lists", 0))
            yield ChangedGroup(place, *group, numbers, max(0, lists), max(0, -lists))


def values_of(groups: Iterable[GroupTotals]) -> Values:
    """Return the numbers of groups of a window, or of totals, by group."""
    return {
        GroupName(one.experiment, one.variant, _segments(one.segments if isinstance(one, GroupNumbers) else {})): {
            "lists": one.lists,
            "lists_with_feedback": one.lists_with_feedback,
            **one.values,
            **{f"{name} with feedback": value for name, value in one.values_with_feedback.items()},
        }
        for one in groups
    }


def values_of_experiments(experiments: Iterable[ExperimentReport]) -> dict[str, Values]:
    """Return users, lists and means of each variant, by scope."""
    found: dict[str, Values] = {}
    for one in experiments:
        of_scope = found.setdefault(one.scope, {})
        for variant in one.variants:
            means = {measure_text(each.metric, each.k): each.mean for each in variant.measures}
            of_scope[GroupName(one.experiment, variant.variant, "")] = {"lists": variant.lists, "users": variant.users, **means}
    return found


def _segments(segments: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(segments.items()))


def _numbers(online: Mapping[str, float], offline: Mapping[str, float], names: Iterable[str]) -> tuple[ChangedNumber, ...]:
    """Return the numbers that differ. A denominator that is the number of lists is left out."""
    found = []
    for name in names:
        ours, theirs = online.get(name), offline.get(name)
        is_lists = name.endswith(DENOMINATOR) and (ours, theirs) == (online.get("lists"), offline.get("lists"))
        if ours != theirs and not is_lists:
            found.append(ChangedNumber(name, ours, theirs))
    return tuple(found)
