"""The immutable Report of the committed state of all tasks: the content of `/metrics`, `/api/report` and `replay --report`.

Pure. A report covers all tasks, whatever the number of workers. It states the event time up to which it is complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from streammetrics.events.event_time import seems_seconds
from streammetrics.events.outcomes import NOT_REFUSED
from streammetrics.events.unknown_names import NULL_VARIANT
from streammetrics.experiments import ExperimentReport
from streammetrics.reports.data_warnings import (
    UnknownName,
    by_topic,
    duplicate_warnings,
    feedback_warnings,
    grade_warnings,
    list_id_warnings,
    no_list_warnings,
    record_time_warnings,
    refused_warnings,
    seconds_warnings,
    type_warnings,
)
from streammetrics.reports.experiment_lists import RecentLists
from streammetrics.reports.experiment_warnings import (
    LISTS_MIN,
    experiment_warnings,
    folded_warnings,
    label_warnings,
    null_warnings,
    open_list_warnings,
    spelling_warnings,
)
from streammetrics.reports.first_numbers import AwaitedVerdict, FirstNumber
from streammetrics.reports.history import EarlierSnapshots
from streammetrics.reports.input_warnings import LateInput, SortedInput, StandstillNote, UserPartitions, late_warnings, sorted_warnings
from streammetrics.windows.panes import Window
from streammetrics.windows.unique_users import UniqueUserWindow
from streammetrics.words.names import isolated
from streammetrics.words.sentences import DataWarning
from streammetrics.words.times import span_text

UNMATCHED_SHARE_MAX: Final = 0.25
"""The share of feedback without a list that has a sentence, if `experiments.unmatched_share_max` is not in the settings."""
EVENTS_MIN: Final = 1_000
"""Events that a stream needs for a sentence about an experiment without lists."""
SinceReports: TypeAlias = Callable[[str, str, int], ExperimentReport | None]
"""Judges an experiment in a scope again, for a step that began at a time (event time, ms). None: it has no report."""


def counts_by_reason(counts: Mapping[tuple[str, str], int]) -> Counter[str]:
    """Return the counters summed over topics."""
    reasons: Counter[str] = Counter()
    for (reason, _), count in counts.items():
        reasons[reason] += count
    return reasons


def refused_counts(reasons: Mapping[str, int]) -> dict[str, int]:
    """Return the counters of refused events by reason, greatest first.

    >>> refused_counts({"events": 9, "late": 1, "matched": 4, "syntax": 3, "too_long": 0})
    {'syntax': 3, 'late': 1}
    """
    refused = sorted((-count, reason) for reason, count in reasons.items() if count and reason not in NOT_REFUSED)
    return {reason: -count for count, reason in refused}


@dataclass(frozen=True, slots=True)
class InputPosition:
    """The position of one input in the committed state.

    `watermark_ms` is None before its first supported time. `known_ms` is that time, or before it the least time of its events.
    `record_ms` is the latest timestamp of its records; None if they have none, as lines of files.
    """

    topic: str
    partition: int
    offset: int | None
    watermark_ms: int | None
    known_ms: int | None = None
    record_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Total:
    """The cumulative tally of a variant's final lists. It only grows."""

    experiment: str
    variant: str
    tally: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All results, as of one read of the store.

    `watermark_ms` (W) and `final_ms` (F) are the lowest over all tasks. They are None before every task has events, and when the input
    has ended (`ended`). `withheld` counts windows that were not shown because a task had dropped panes.
    """

    rules: str
    settings: Mapping[str, Any]
    tasks: int
    tasks_committed: int
    watermark_ms: int | None
    final_ms: int | None
    ended: bool
    inputs: tuple[InputPosition, ...]
    windows: tuple[Window, ...]
    totals: tuple[Total, ...]
    counts: Mapping[tuple[str, str], int]
    users_open: int
    sessions_open: int
    withheld: int
    experiments: tuple[ExperimentReport, ...] = ()
    entered_ms: int | None = None
    """Lists of panes that end at or before this time are in the experiments, and their users in user windows."""
    user_windows: tuple[UniqueUserWindow, ...] = ()
    """Empty if users are not counted in windows, or if tasks count them differently."""
    user_partitions: UserPartitions | None = None
    """None if there is only one task."""
    unknown_names: tuple[UnknownName, ...] = ()
    """Actions without a grade and types that are no event, most frequent first."""
    ignored: tuple[UnknownName, ...] = ()
    """The reasons for which readers left records out, most frequent first."""
    awaited: tuple[AwaitedVerdict, ...] = ()
    """The experiments that have live lists and no verdict yet."""
    recent: RecentLists | None = None
    """Exact sums of the final lists of experiments on the last day; None without experiments. They are not part of the JSON."""
    late_inputs: tuple[LateInput, ...] = ()
    """The inputs of which more than a few percent of the events are late."""
    sorted_inputs: tuple[SortedInput, ...] = ()
    """The files of a replay that were sorted by time."""
    has_lists: bool = False
    """Whether any pane has lists, also one that has not ended."""
    first_numbers: tuple[FirstNumber, ...] = ()
    """What a young stream still waits for."""
    standstills: tuple[StandstillNote, ...] = ()
    """The partitions that have records and do not move. They are warnings, and not part of the JSON."""
    earlier_windows: tuple[Window, ...] = field(default=(), compare=False)
    """Windows that ended since the last report, or before the first report of a process: for curves. They are not part of the JSON."""
    open_lists: Mapping[str, int] = field(default_factory=dict)
    """By experiment, the lists that do not count because the input ended before all their time for feedback. It is not part of the JSON."""
    earlier: EarlierSnapshots | None = field(default=None, compare=False, repr=False)
    """Gives the lifts up to earlier times: see `earlier_snapshots`. It is not part of the JSON."""
    since: SinceReports | None = field(default=None, compare=False, repr=False)
    """Judges the experiments again for a step that began at a time: see `MergedExperiments.since_reports`. It is not part of the JSON."""

    def at_step(self, since_ms: int) -> Report:
        """Return the report with its experiments judged for a step of a rollout that began at a time (event time, ms)."""
        if self.since is None:
            return self
        judged = (self.since(experiment.experiment, experiment.scope, since_ms) for experiment in self.experiments)
        return replace(self, experiments=tuple(experiment for experiment in judged if experiment is not None))

    @property
    def up_to_ms(self) -> int | None:
        """The event time up to which lists count in experiments; after the end of all inputs, that of the windows. None: unknown."""
        if self.entered_ms is not None or not self.ended:
            return self.entered_ms
        return max((window.end_ms for window in self.windows if window.end_ms is not None), default=None)

    def warnings(self) -> list[DataWarning]:
        """Return what makes the numbers doubtful. One that is about missing lists waits until they can be missed."""
        topics, reasons = by_topic(self.counts), counts_by_reason(self.counts)
        return [
            *(note.warning() for note in self.standstills),
            *sorted_warnings(self.sorted_inputs),
            *late_warnings(self.late_inputs),
            *seconds_warnings((f"events of {isolated(position.topic)}", position.known_ms) for position in self.inputs),
            *self._time_warnings(topics),
            *([] if self.user_partitions is None else self.user_partitions.warnings()),
            *self._window_warnings(),
            *refused_warnings({topic: (of_topic["events"], refused_counts(of_topic)) for topic, of_topic in topics.items()}),
            *list_id_warnings(topics),
            *duplicate_warnings(topics, ended=self.ended),
            *type_warnings(self.unknown_names, reasons["events"]),
            *self._feedback_warnings(reasons),
            *label_warnings(topics),
            *folded_warnings(reasons, self.settings),
            *self._experiment_warnings(reasons),
        ]

    def _time_warnings(self, topics: Mapping[str, Counter[str]]) -> Iterator[DataWarning]:
        """Compare the times of events with those of their records. A replay of files has no times of records."""
        for topic, of_topic in topics.items():
            inputs = [position for position in self.inputs if position.topic == topic]
            apart = [
                position.record_ms - position.known_ms
                for position in inputs
                if position.record_ms is not None and position.known_ms is not None
            ]
            record_ms = max((position.record_ms for position in inputs if position.record_ms is not None), default=None)
            in_seconds = any(position.known_ms is not None and seems_seconds(position.known_ms) for position in inputs)
            behind = 0 if in_seconds else min(apart, default=0)
            yield from record_time_warnings(topic, of_topic["events"], of_topic["future"], record_ms, behind_ms=behind)

    def _window_warnings(self) -> Iterator[DataWarning]:
        for window_ms in sorted({window.window_ms for window in self.windows if not (window.complete or self.ended)}):
            text = f"The window of {span_text(window_ms)} is not shown, because a task no longer has all of its panes"
            fix = "give workers and this process the same windows.retention_ms and windows.windows"
            yield DataWarning(f"window {window_ms}", text, fix)

    def _feedback_warnings(self, reasons: Counter[str]) -> Iterator[DataWarning]:
        if not (self.has_lists or self.totals or any(window.groups for window in self.windows)):
            refused = sum(refused_counts(reasons).values())
            if self.ended or self.watermark_ms is not None:
                yield from no_list_warnings(reasons, self.unknown_names, refused, ended=self.ended)
            return
        share_max = self.settings.get("experiments", {}).get("unmatched_share_max", UNMATCHED_SHARE_MAX)
        yield from feedback_warnings(reasons, self.unknown_names, share_max, ended=self.ended)
        whole = next((total.tally for total in self.totals if not total.experiment and total.tally), (0, 0))
        graded = max([whole[1], *(values.lists_with_feedback for window in self.windows for values in window.groups)])
        yield from grade_warnings(reasons, whole[0], graded)

    def _experiment_warnings(self, reasons: Counter[str]) -> Iterator[DataWarning]:
        arms: dict[tuple[str, str], int] = {}
        for total in self.totals:
            arms[total.experiment, total.variant] = total.tally[0] if total.tally else 0
        for values in [values for window in self.windows for values in window.groups if not values.group.segment]:
            arm = values.group.experiment, values.group.variant
            arms[arm] = max(arms.get(arm, 0), values.lists)
        lists, of_experiments = arms.pop(("", ""), 0), {arm: count for arm, count in arms.items() if arm[0]}
        yield from spelling_warnings(of_experiments)
        rules = self.settings.get("experiments", {})
        nulls = [entry for entry in self.unknown_names if entry.kind == NULL_VARIANT]
        yield from null_warnings(of_experiments, nulls, rules.get("named", {}))
        if self.ended or (lists >= LISTS_MIN and reasons["events"] >= EVENTS_MIN):
            yield from experiment_warnings(of_experiments, lists, self.settings, ended=self.ended)
        judged = {experiment.experiment for experiment in self.experiments}
        yield from open_list_warnings({name: count for name, count in self.open_lists.items() if name not in judged})
