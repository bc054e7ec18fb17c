"""Explains the numbers of a group that differ, as far as settings and counters permit, and says what remains. Pure.

A counter gives an upper bound: a late event may be a list or feedback, of any group. So a cause explains "up to" so many lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from streammetrics.events.outcomes import LABELS, UNMATCHED
from streammetrics.offline.differences.counts import EVENTS, refuses
from streammetrics.offline.differences.found import ChangedCount, ChangedGroup, ChangedInput, ChangedSetting, SideName
from streammetrics.offline.differences.setting_changes import changes_lists, changes_values
from streammetrics.reports.text import counted

_OF_FEEDBACK: Final = frozenset({EVENTS, "matched", "unknown_action", *UNMATCHED})
_OF_EXPERIMENTS: Final = frozenset({"experiment_lists_full", "experiment_lists_unstaged", "too_many_teams"})


@dataclass(frozen=True, slots=True)
class Causes:
    """What may explain differences: settings, counters and inputs that differ.

    Without `same_end`, the reports end at different times. Then more records explain nothing, except those of an input that one side has
    not read at all.
    """

    settings: Sequence[ChangedSetting]
    counters: Sequence[ChangedCount]
    inputs: Sequence[ChangedInput]
    same_end: bool

    def explain(self, group: ChangedGroup) -> ChangedGroup:
        """Return the group with what may explain it, and what remains unexplained."""
        more, more_left = self._of_lists(group, "online", group.offline_more)
        fewer, fewer_left = self._of_lists(group, "offline", group.offline_fewer)
        of_values, is_explained = self._of_values(group)
        remains: list[str] = []
        starts: list[int] = []
        if left := more_left + fewer_left:
            remains.append(counted(left, "list"))
            starts += [start for start in group.panes if start not in group.value_panes]
        if not is_explained:
            of_panes = f" in {counted(len(group.value_panes), 'pane')} with as many lists on both sides" if group.value_panes else ""
            remains.append(f"the other numbers{of_panes}")
            starts += group.value_panes
        unexplained = " and ".join(remains) or None
        explained = tuple(dict.fromkeys([*more, *fewer, *of_values]))
        return replace(group, explained=explained, unexplained=unexplained, unexplained_pane_ms=min(starts, default=None))

    def _of_lists(self, group: ChangedGroup, fewer: SideName, lists: int) -> tuple[list[str], int]:
        """Return why one side has fewer lists, and how many of them are left unexplained."""
        if not lists:
            return [], 0
        left, causes = lists, []
        for counter in self.counters:
            excess = _excess(counter, fewer, group)
            if excess > 0 and (self.same_end or counter.reason != EVENTS):
                causes.append(_sentence(counter, fewer, excess))
                left -= excess
        for one in () if self.same_end else self.inputs:
            read, other = (one.online, one.offline) if fewer == "online" else (one.offline, one.online)
            if not read:
                causes.append(f"up to {counted(other, 'list')}, because {fewer} has not read the input {one.name}")
                left -= other
        if left > 0:
            settings = [each for each in self.settings if _may_change_lists(each, group)]
            causes += [_of_setting(each) for each in settings]
            left = 0 if settings else left
        return causes, max(0, left)

    def _of_values(self, group: ChangedGroup) -> tuple[list[str], bool]:
        """Return the causes of differences in other numbers, and whether there is one.

        Other lists have other values, so only panes with as many lists on both sides need a cause.
        """
        if group.numbers and not group.value_panes and all(number.name == "lists" for number in group.numbers):
            return [], True
        causes = [_of_setting(each) for each in self.settings if _may_change_values(each, group)]
        needs_cause = bool(group.value_panes) or not (group.offline_more or group.offline_fewer)
        if needs_cause:
            causes += [
                f"{each.reason}, online {each.online:,}, offline {each.offline:,}: {each.explains}"
                for each in self.counters
                if refuses(each.reason) or (self.same_end and each.reason in _OF_FEEDBACK)
            ]
            causes += [f"only one side has read the input {one.name}" for one in self.inputs if not (one.online and one.offline)]
        return causes, bool(causes) or not needs_cause


def _may_change_lists(setting: ChangedSetting, group: ChangedGroup) -> bool:
    return changes_lists(setting, group.segments) or _is_of_experiments(setting, group)


def _may_change_values(setting: ChangedSetting, group: ChangedGroup) -> bool:
    return changes_values(setting) or _is_of_experiments(setting, group)


def _is_of_experiments(setting: ChangedSetting, group: ChangedGroup) -> bool:
    return setting.name.startswith("experiments") and group.place.startswith("experiments")


def _excess(counter: ChangedCount, fewer: SideName, group: ChangedGroup) -> int:
    """Return how many more events the side with fewer lists lost by this counter, in a way that may cost lists of the group."""
    more = counter.online - counter.offline if fewer == "online" else counter.offline - counter.online
    if counter.reason == EVENTS:
        return -more
    is_label = counter.reason in LABELS and bool(group.variant or group.segments)
    is_of_experiments = counter.reason in _OF_EXPERIMENTS and group.place.startswith("experiments")
    return more if refuses(counter.reason) or is_label or is_of_experiments else 0


def _of_setting(setting: ChangedSetting) -> str:
    return f"{setting.name} differs; reports do not count how much that changes"


def _sentence(counter: ChangedCount, fewer: SideName, excess: int) -> str:
    if counter.reason == EVENTS:
        return f"up to {counted(excess, 'list')}, because {fewer} has read {counted(excess, 'record')} fewer"
    return f"up to {counted(excess, 'list')}, because {fewer} counted {counted(excess, 'event')} more as {counter.reason}"
