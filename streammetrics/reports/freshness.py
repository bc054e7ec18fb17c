"""Whether a report is recent and complete enough to act on. Pure: the current time comes in as a value.

A report shows committed state. It has no time of its own, so its age shows in event time: the watermark follows the clock even while no
events come. A watermark that is far behind means that workers are stopped, behind, or cut off, or that the report was saved long ago.
A new installation has no event yet: `FirstEvents` says which ones it waits for, with an example.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from streammetrics.reports.first_numbers import FirstVerdictWait
from streammetrics.reports.report import Report, counts_by_reason, refused_counts
from streammetrics.words.names import fit
from streammetrics.words.numbers import counted
from streammetrics.words.times import span_text

NAMES_MAX: Final = 5
EXAMPLES: Final = (
    '{"type":"impression","impression_id":"r-81","user_id":"u7","ts":1732183200123,"items":["a","b","c"],'
    '"experiments":{"ranker-v7":"treatment"}}',
    '{"type":"feedback","user_id":"u7","ts":1732183231877,"impression_id":"r-81","item_id":"b","action":"click"}',
)
"""A list and a feedback, as native records of a topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTimes:
    """What a report says about its own completeness. Times are epoch ms of event time; None: unknown.

    ended: the input has ended, as after a replay. Its age then does not show.
    entered_ms: the time up to which all final lists count in the experiments.
    settings: the settings of the report; those that are missing count as 0.
    """

    tasks: int
    tasks_committed: int
    watermark_ms: int | None
    entered_ms: int | None
    ended: bool
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, report: Report) -> ReportTimes:
        """Return the times of a report."""
        return cls(
            tasks=report.tasks,
            tasks_committed=report.tasks_committed,
            watermark_ms=report.watermark_ms,
            entered_ms=report.entered_ms,
            ended=report.ended,
            settings=report.settings,
        )

    def staleness(self, now_ms: int, stale_ms: int) -> Iterator[str]:
        """Yield why the report must not be acted on at `now_ms` (epoch ms); nothing if it is recent and complete.

        stale_ms: how much older than necessary it may be. A watermark is always `out_of_orderness_ms` behind, and up to `idle_ms` more
        while an input is silent. Experiments are behind the watermark until lists are final and added.

        >>> times = ReportTimes(tasks=1, tasks_committed=1, watermark_ms=600_000, entered_ms=None, ended=False)
        >>> [*times.staleness(660_000, 120_000)], [*times.staleness(3_600_000, 120_000)]
        ([], ['the data is stale: the watermark is 50 min behind the clock, and at most 2 min is allowed'])
        """
        if self.tasks_committed < self.tasks or not self.tasks:
            yield f"{self.tasks_committed:,} of {counted(self.tasks, 'task')} have committed anything: the others are missing"
            return
        if self.ended:
            return
        if self.watermark_ms is None:
            yield "no event time is known yet"
            return
        allowed = stale_ms + self._ms("out_of_orderness_ms") + self._ms("idle_ms")
        behind = now_ms - self.watermark_ms
        if behind > allowed:
            yield f"the data is stale: the watermark is {span_text(behind)} behind the clock, and at most {span_text(allowed)} is allowed"
        if -behind > stale_ms:
            yield f"the watermark is {span_text(-behind)} ahead of the clock of this machine: one of the clocks is wrong"
        waits = self._ms("lateness_ms") + self._ms("attribution_ms") + self._patience_ms() + 2 * self._ms("pane_ms") + stale_ms
        if self.entered_ms is not None and self.watermark_ms - self.entered_ms > waits:
            late = span_text(self.watermark_ms - self.entered_ms)
            yield f"the experiments are behind: they end {late} before the watermark, and at most {span_text(waits)} is allowed"

    def _ms(self, name: str) -> int:
        return _whole(self.settings.get(name))

    def _patience_ms(self) -> int:
        experiments = self.settings.get("experiments")
        return _whole(experiments.get("patience_ms")) if isinstance(experiments, Mapping) else 0


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


@dataclass(frozen=True, slots=True)
class FirstEvents:
    """The topics of the events that are waited for, and whether a reader reads them. `verdict` is None without experiments."""

    topics: tuple[str, ...]
    has_reader: bool = False
    verdict: FirstVerdictWait | None = None

    def awaited(self, report: Report) -> tuple[str, ...]:
        """Return the inputs, or before the first commit the topics, whose time has not begun. Empty if numbers can be shown."""
        if report.watermark_ms is not None or report.ended:
            return ()
        if report.tasks_committed == 0:
            return self.topics
        return tuple(f"{position.topic} {position.partition}" for position in report.inputs if position.watermark_ms is None)

    def sentences(self, report: Report) -> tuple[str, ...]:
        """Say what is waited for and what was read so far. Empty if numbers can be shown."""
        if report.watermark_ms is not None or report.ended:
            return ()
        commits = f"{report.tasks_committed} of {report.tasks} tasks have committed."
        verdict = "" if self.verdict is None else self.verdict.sentence()
        numbers = f"Numbers appear when every task has read events. {commits}"
        if report.first_numbers:
            numbers = "Live numbers count the lists so far. Whole windows follow once every task has read events."
        return tuple(filter(None, (numbers, self._missing(report), _read(report), verdict)))

    def advice(self) -> tuple[str, ...]:
        """Say what a record looks like: a sentence, then example records, one a line."""
        if self.has_reader:
            return ("Records are read by events.reader. `streammetrics decode TOPIC` shows what yours become.",)
        return ("Send one JSON object per record, with the user id as the Kafka key. A list, and a click on it:", *EXAMPLES)

    def _missing(self, report: Report) -> str:
        names = self.awaited(report)
        few = {
            f"{position.topic} {position.partition}"
            for position in report.inputs
            if position.known_ms is not None and position.watermark_ms is None
        }
        without = [name for name in names if name not in few]
        sentences = [f"No events yet on {_some(without)}."] if without else []
        if few and not without:
            sentences = [f"Few events yet on {_some(sorted(few))}: numbers wait for more, or until join.idle_ms after the last record."]
        return " ".join(sentences)


def _read(report: Report) -> str:
    reasons = counts_by_reason(report.counts)
    refused = refused_counts(reasons)
    if not reasons["events"]:
        return ""
    why = f", of which {sum(refused.values()):,} are refused ({', '.join(refused)})" if refused else ""
    return f"{counted(reasons['events'], 'record')} so far{why}."


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(map(fit, names[:NAMES_MAX])) + more
