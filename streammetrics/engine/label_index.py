"""The label sets that a task has seen and their groups. The times of their lists extend the runs of experiments.

The loop only notes the time of a list in the entry of its label set, because that is cheap. `flush` passes these times on to groups and
runs. The engine calls it before it ends an input and before it saves, and the index before it reads groups or runs itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from streammetrics.engine.rules import EngineRules
from streammetrics.enrolment.runs import ExperimentRuns, StoredRun
from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.events.model import Labels
from streammetrics.windows.panes import OTHER, Group, fold_segments, groups_of

LABEL_SETS_MAX = 10_000
"""How many label sets a task caches. The cache saves time only, so it may be cleared at any moment."""


class LabelSetEntry:
    """The groups of one label set, and the times of its lists since the last flush.

    A list between `known_from` and `known_until` belongs to experiment runs that exist. The run of any other list must be looked up.
    """

    __slots__ = ("experiments", "groups", "known_from", "known_until", "newest", "oldest")

    def __init__(self, groups: tuple[Group, ...], experiments: Labels) -> None:
        self.groups = groups
        self.experiments = experiments
        self.newest, self.oldest = NEVER, FOREVER
        self.known_from, self.known_until = (FOREVER, NEVER) if experiments else (NEVER, FOREVER)


UNKNOWN_LABELS: Final = LabelSetEntry((), (("", ""),))
"""Stands for a label set without an entry: all of its lists must be looked up."""


class FittedLabels(NamedTuple):
    """A label set within the limits: its entry, and the labels."""

    entry: LabelSetEntry
    experiments: Labels
    segments: Labels


class LabelState(msgspec.Struct, array_like=True):
    """What is stored of `LabelIndex`.

    - `groups` is (group, newest list, no list is older than).
    - `runs` are the experiment runs. `runs_from` is the number of the next one.
    - `ended` is (experiment, last list of its latest run that has ended).
    """

    groups: list[tuple[Group, int, int]]
    runs: list[StoredRun]
    runs_from: int
    ended: list[tuple[str, int]] = []


class LabelIndex:
    """Groups of a task, kept up to date from its label sets. `runs` are its experiment runs, which have an owner of their own.

    `entries` is by (experiments, segments). `unflushed` are the entries with times that groups and runs do not know yet. `since`: no list
    of the group is older than this time, so a group that was forgotten and comes back does not count its former lists. `_in_total`: number
    of groups without a segment. `_none_before`: all groups have a list since this time (ms).
    """

    __slots__ = ("_groups", "_in_total", "_none_before", "_on_forget", "_rules", "entries", "runs", "since", "unflushed")

    def __init__(self, rules: EngineRules, runs: ExperimentRuns, on_forget: Callable[[Group], None]) -> None:
        self._rules, self.runs, self._on_forget = rules, runs, on_forget
        self._groups: dict[Group, int] = {}
        self._in_total = 0
        self._none_before = NEVER
        self.since: dict[Group, int] = {}
        self.entries: dict[tuple[Labels, Labels], LabelSetEntry] = {}
        self.unflushed: list[LabelSetEntry] = []

    def restore(self, stored: LabelState) -> None:
        """Continue from the last commit. Runs are restored apart, unless experiments were switched on or off."""
        self._groups = {group: newest for group, newest, _ in stored.groups}
        self.since = {group: since for group, _, since in stored.groups}
        self._in_total = sum(not group.segment for group in self._groups)
        self.runs.next_number = stored.runs_from

    def stored(self) -> LabelState:
        """Return what the next commit writes."""
        self.flush()
        return LabelState(
            groups=[(group, newest, self.since[group]) for group, newest in sorted(self._groups.items())],
            runs=self.runs.stored(),
            runs_from=self.runs.next_number,
            ended=sorted(self.runs.ended.items()),
        )

    def groups_of(self, experiments: Labels, segments: Labels) -> tuple[Group, ...]:
        """Return the groups of a label set."""
        entry = self.entries.get((experiments, segments))
        return groups_of(experiments, segments, self._rules.segments) if entry is None else entry.groups

    def fit(self, experiments: Labels, segments: Labels, ts: int, watermark: int) -> FittedLabels:
        """Return the label set of an admitted list with at most `groups_max` groups in the task. Its entry is kept from now on.

        Groups without a list within `retention_ms` of the watermark are forgotten first, if there are too many. Then each segment group
        that does not fit is folded into OTHER. These folded groups, and variants, come on top of the limit; but there are at most as
        many variants as `groups_max`, and further ones are dropped from the list. All traffic always counts.
        """
        groups = groups_of(experiments, segments, self._rules.segments)
        if self._too_many(groups):
            self._forget_groups(watermark - self._rules.retention_ms)
        if not self._too_many(groups):
            return self._fitted(groups, experiments, segments, ts, watermark)
        kept = self._kept_variants(experiments)
        if len(kept) < len(experiments):
            groups = groups_of(kept, segments, self._rules.segments)
        fitting = fold_segments(groups, self._beyond_limit(groups), segments)
        return self._fitted(groups_of(kept, fitting, self._rules.segments), kept, fitting, ts, watermark)

    def _fitted(self, groups: tuple[Group, ...], experiments: Labels, segments: Labels, ts: int, watermark: int) -> FittedLabels:
        entry = self.entries.get((experiments, segments))
        if entry is None:
            entry = LabelSetEntry(groups, experiments if self._rules.experiments is not None else ())
            self._keep(entry, experiments, segments, ts, watermark)
        return FittedLabels(entry, experiments, segments)

    def _kept_variants(self, experiments: Labels) -> Labels:
        """Return the variants that have a group, or may get one."""
        room = self._rules.groups_max - max(self._in_total, 1)  # one is for all traffic
        kept = []
        for label in experiments:
            if Group(*label) not in self._groups:
                if room <= 0:
                    continue
                room -= 1
            kept.append(label)
        return tuple(kept)

    def _beyond_limit(self, groups: Iterable[Group]) -> set[Group]:
        """Return the segment groups that do not fit, in the order of the groups."""
        used, beyond = len(self._groups), set[Group]()
        for group in groups:
            if group in self._groups:
                continue
            if group.segment and group.value != OTHER and used >= self._rules.groups_max:
                beyond.add(group)
            else:
                used += 1
        return beyond

    def _keep(self, entry: LabelSetEntry, experiments: Labels, segments: Labels, ts: int, watermark: int) -> None:
        """Keep a new entry and its groups."""
        groups = self._groups
        for group in entry.groups:
            if group not in groups:
                groups[group] = ts
                self._in_total += not group.segment
                self._none_before = min(self._none_before, ts)
                self.since[group] = NEVER if watermark == NEVER else watermark - self._rules.lateness_ms
        if len(self.entries) >= LABEL_SETS_MAX:
            self.flush()
            self.entries.clear()
        self.entries[experiments, segments] = entry

    def relabel(self, experiments: Labels, segments: Labels, ts: int, watermark: int) -> FittedLabels:
        """Fit other labels for a list that was admitted earlier, and count it in their groups. No run changes.

        The list may be older than the groups, which have its time from then on.
        """
        entry = self.entries.get((experiments, segments))  # the groups of a cached entry fit
        fitted = FittedLabels(entry, experiments, segments) if entry is not None else self.fit(experiments, segments, ts, watermark)
        groups, since = self._groups, self.since
        for group in fitted.entry.groups:
            if groups[group] < ts:
                groups[group] = ts
            if since[group] > ts:
                since[group] = ts
        return fitted

    def fitting_variants(self, experiments: Labels, ts: int, closed_before: int) -> Labels:
        """Return those variants of a list that stay within `variants_max`, the first ones by experiment.

        Runs that have ended are dropped to make room.
        """
        rules = self._rules.experiments
        if rules is None or not experiments:
            return experiments
        self.flush()
        runs, room = self.runs, rules.variants_max - self.runs.variants()
        if room >= 0 and (runs.know_all(experiments, ts) or runs.new_variants(experiments, ts) <= room):
            return experiments
        runs.drop_ended(closed_before)
        room = rules.variants_max - runs.variants()
        fitting = []
        for label in experiments:
            new = runs.new_variants((label,), ts)
            if new <= max(room, 0):
                fitting.append(label)
                room -= new
        return tuple(fitting)

    def note(self, entry: LabelSetEntry, ts: int) -> None:
        """Note the time of a list."""
        if ts > entry.newest:
            if entry.newest == NEVER:
                self.unflushed.append(entry)
            entry.newest = ts
        if ts < entry.oldest:
            entry.oldest = ts

    def extend_runs(self, entry: LabelSetEntry, ts: int) -> None:
        """Count a list in the runs of its experiments, and set the times for which the entry's runs are known."""
        self.flush()
        extended = [self.runs.extend(experiment, variant, ts) for experiment, variant in entry.experiments]
        entry.known_from = max(run.first for run in extended) - self.runs.idle_ms
        entry.known_until = min(run.last for run in extended) + self.runs.idle_ms

    def _too_many(self, groups: Iterable[Group]) -> bool:
        """Whether the groups include new ones that exceed the limit. Known groups never do, so a cached entry need not ask."""
        new = sum(group not in self._groups for group in groups)
        return new > 0 and len(self._groups) + new > self._rules.groups_max

    def flush(self) -> None:
        """Pass the noted times on to groups and runs."""
        groups, runs = self._groups, self.runs
        for entry in sorted(self.unflushed, key=attrgetter("newest"), reverse=True):  # the first ones extend runs, the others rarely do
            for group in entry.groups:
                if groups.get(group, NEVER) < entry.newest:
                    groups[group] = entry.newest
            for experiment, variant in entry.experiments:
                if not runs.knows(experiment, variant, entry.oldest, entry.newest):
                    runs.extend(experiment, variant, entry.oldest)
                    runs.extend(experiment, variant, entry.newest)
            entry.newest, entry.oldest = NEVER, FOREVER
        self.unflushed.clear()

    def _forget_groups(self, before: int) -> None:
        """Forget the groups without a list since `before` (ms). Nothing is searched while there can be none."""
        if before <= self._none_before:
            return
        self.flush()
        for group in [group for group, newest in self._groups.items() if newest < before]:
            del self._groups[group], self.since[group]
            self._in_total -= not group.segment
            self._on_forget(group)
        self._none_before = min(self._groups.values(), default=before)
        self.entries.clear()
