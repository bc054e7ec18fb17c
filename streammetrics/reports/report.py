"""The immutable Report of the committed state of all tasks: the content of `/metrics`, `/api/report` and `replay --report`.

Pure. A report covers all tasks, whatever the number of workers. It states the event time up to which it is complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from streammetrics.events.outcomes import NOT_REFUSED
from streammetrics.experiments import ExperimentReport
from streammetrics.reports.awaited_verdicts import AwaitedVerdict
from streammetrics.reports.data_warnings import (
    NAMED_MIN,
    UNMATCHED_SHARE_MAX,
    by_topic,
    duplicate_sentences,
    experiment_sentences,
    feedback_sentences,
    folded_sentences,
    grade_sentences,
    label_sentences,
    list_id_sentences,
    no_list_sentences,
    refused_sentences,
    seconds_sentences,
    spelling_sentences,
)
from streammetrics.reports.late_events import LateInput, SortedInput, late_sentences, sorted_sentences
from streammetrics.reports.path_counts import PathCount, path_sentences
from streammetrics.reports.recent_lists import RecentLists
from streammetrics.reports.unknown_names import UnknownName
from streammetrics.reports.user_partitions import UserPartitions
from streammetrics.windows.panes import Window
from streammetrics.windows.unique_users import UniqueUserWindow


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
    """

    topic: str
    partition: int
    offset: int | None
    watermark_ms: int | None
    known_ms: int | None = None


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
    paths: tuple[PathCount, ...] = ()
    """The optional paths of mappings, with the records that have a value."""
    recent: RecentLists | None = None
    """Exact sums of the final lists of experiments on the last day; None without experiments. They are not part of the JSON."""
    late_inputs: tuple[LateInput, ...] = ()
    """The inputs of which more than a few percent of the events are late."""
    sorted_inputs: tuple[SortedInput, ...] = ()
    """The files of a replay that were sorted by time."""
    earlier_windows: tuple[Window, ...] = field(default=(), compare=False)
    """Windows that ended since the last report, or before the first report of a process: for curves. They are not part of the JSON."""

    @property
    def up_to_ms(self) -> int | None:
        """The event time up to which lists count in experiments; after the end of all inputs, that of the windows. None: unknown."""
        if self.entered_ms is not None or not self.ended:
            return self.entered_ms
        return max((window.end_ms for window in self.windows if window.end_ms is not None), default=None)

    def warnings(self) -> list[str]:
        """Return what makes the numbers doubtful, in sentences."""
        return [
            *sorted_sentences(self.sorted_inputs),
            *late_sentences(self.late_inputs),
            *seconds_sentences((each.topic, each.known_ms) for each in self.inputs),
            *path_sentences(self.paths, ended=self.ended),
            *([] if self.user_partitions is None else self.user_partitions.sentences()),
            *self._warnings_of_counts(),
        ]

    def _lists_and_graded(self) -> tuple[int, int]:
        """Return how many final lists there are, and how many of them, or of a window, have a grade above 0."""
        whole = next((total.tally for total in self.totals if not total.experiment and total.tally), (0, 0))
        return whole[0], max([whole[1], *(each.lists_with_feedback for window in self.windows for each in window.groups)])

    def _warnings_of_counts(self) -> Iterator[str]:
        topics, reasons = by_topic(self.counts), counts_by_reason(self.counts)
        yield from refused_sentences({topic: (own["events"], refused_counts(own)) for topic, own in topics.items()})
        yield from list_id_sentences(topics)
        yield from duplicate_sentences(topics, ended=self.ended)
        if not self.totals and not any(window.groups for window in self.windows):
            refused = sum(refused_counts(reasons).values())
            yield from no_list_sentences(reasons, self.unknown_names, refused, ended=self.ended)
        else:
            share_max = self.settings.get("experiments", {}).get("unmatched_share_max", UNMATCHED_SHARE_MAX)
            yield from feedback_sentences(reasons, self.unknown_names, share_max, ended=self.ended)
            yield from grade_sentences(reasons, *self._lists_and_graded())
        yield from label_sentences(topics)
        yield from folded_sentences(reasons, self.settings)
        yield from spelling_sentences((total.experiment, total.variant) for total in self.totals)
        named = self.settings.get("experiments", {}).get("named", {})
        sent = {total.experiment for total in self.totals if total.experiment}
        shown = {each.experiment for each in self.experiments}
        if self.ended or (self.totals and reasons["events"] >= NAMED_MIN):
            yield from experiment_sentences(named, sent, shown, ended=self.ended)
