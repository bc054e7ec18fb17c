"""The immutable Report of what all tasks have committed: what `/metrics`, `/api/report` and `replay --report` show.

Pure. A report is a global truth, whatever the number of workers: it is read from what was committed, merged exactly, and
says up to which event time it is complete. Nothing here asks who owns a task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streammetrics import __version__
from streammetrics.events.outcomes import NOT_REFUSED
from streammetrics.experiments import ExperimentReport
from streammetrics.metrics import TallyLayout
from streammetrics.windows.panes import Window
from streammetrics.windows.unique_users import UniqueUserWindow


def by_reason(counts: Mapping[tuple[str, str], int]) -> Counter[str]:
    """The counters of all topics together."""
    reasons: Counter[str] = Counter()
    for (reason, _), count in counts.items():
        reasons[reason] += count
    return reasons


def refused_of(reasons: Mapping[str, int]) -> dict[str, int]:
    """The refused events among counters, by reason, the most first.

    >>> refused_of({"events": 9, "late": 1, "matched": 4, "syntax": 3, "too_long": 0})
    {'syntax': 3, 'late': 1}
    """
    refused = sorted((-count, reason) for reason, count in reasons.items() if count and reason not in NOT_REFUSED)
    return {reason: -count for count, reason in refused}


@dataclass(frozen=True, slots=True)
class InputStanding:
    """How far one input's events are in the committed state. `watermark_ms` is None before its first event."""

    topic: str
    partition: int
    offset: int | None
    watermark_ms: int | None


@dataclass(frozen=True, slots=True)
class Total:
    """The cumulative tally of one variant's final lists: it only grows."""

    experiment: str
    variant: str
    tally: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that is shown of the results, as of one reading of the store.

    `watermark_ms` (W) and `final_ms` (F) are minima over all tasks, None while some task has not seen events yet and when
    the input has ended (`ended`). `withheld` counts the windows that were not published because a task had dropped panes.
    """

    rules: str
    settings: Mapping[str, Any]
    tasks: int
    tasks_committed: int
    watermark_ms: int | None
    final_ms: int | None
    ended: bool
    inputs: tuple[InputStanding, ...]
    windows: tuple[Window, ...]
    totals: tuple[Total, ...]
    counts: Mapping[tuple[str, str], int]
    users_open: int
    sessions_open: int
    withheld: int
    experiments: tuple[ExperimentReport, ...] = ()
    entered_ms: int | None = None
    """All lists of the panes that end at or before it are in the experiments, and their users counted in windows."""
    user_windows: tuple[UniqueUserWindow, ...] = ()
    """Empty where users are not counted in windows, or not alike in all tasks."""

    def to_json(self, layout: TallyLayout) -> dict[str, Any]:
        """The report as plain JSON values; times are epoch milliseconds, absent ones null."""
        reasons = by_reason(self.counts)
        return {
            "version": __version__,
            "settings": dict(self.settings),
            "rules": self.rules,
            "tasks": self.tasks,
            "tasks_committed": self.tasks_committed,
            "watermark_ms": self.watermark_ms,
            "final_ms": self.final_ms,
            "ended": self.ended,
            "inputs": [
                {"topic": each.topic, "partition": each.partition, "offset": each.offset, "watermark_ms": each.watermark_ms}
                for each in self.inputs
            ],
            "windows": [_window_json(window) for window in self.windows],
            "totals": [
                {
                    "experiment": total.experiment,
                    "variant": total.variant,
                    "lists": layout.lists(total.tally),
                    "lists_with_feedback": layout.lists_with_feedback(total.tally),
                    "values": layout.means(total.tally, "zero"),
                    "values_with_feedback": layout.means(total.tally, "with_feedback"),
                }
                for total in self.totals
            ],
            "counters": dict(sorted(reasons.items())),
            "refused": refused_of(reasons),
            "counters_by_topic": [
                {"reason": reason, "topic": topic, "count": count} for (reason, topic), count in sorted(self.counts.items())
            ],
            "users_open": self.users_open,
            "sessions_open": self.sessions_open,
            "windows_withheld": self.withheld,
            "experiments": [each.to_json() for each in self.experiments],
            "experiments_entered_ms": self.entered_ms,
            "user_windows": [_user_window_json(window) for window in self.user_windows],
        }


def _window_json(window: Window) -> dict[str, Any]:
    return {
        "window_ms": window.window_ms,
        "view": window.view,
        "end_ms": window.end_ms,
        "complete": window.complete,
        "groups": [
            {
                "experiment": values.group.experiment,
                "variant": values.group.variant,
                "segments": values.group.segments,
                "lists": values.lists,
                "lists_with_feedback": values.lists_with_feedback,
                "values": dict(values.values),
                "values_with_feedback": dict(values.values_with_feedback),
            }
            for values in window.groups
        ],
    }


def _user_window_json(window: UniqueUserWindow) -> dict[str, Any]:
    return {
        "window_ms": window.window_ms,
        "end_ms": window.end_ms,
        "complete": window.complete,
        "groups": [
            {
                "experiment": reached.arm[0],
                "variant": reached.arm[1],
                "users": reached.users,
                "users_with_hit": {f"user_hit_rate@{k}": users for k, users in reached.users_with_hit.items()},
                "values": {f"user_hit_rate@{k}": rate for k, rate in reached.hit_rates.items()},
            }
            for reached in window.arms
        ],
    }
