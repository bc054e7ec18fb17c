"""Says which events a new installation waits for, with an example. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from streammetrics.reports.first_verdict import FirstVerdictWait
from streammetrics.reports.report import Report, counts_by_reason, refused_counts
from streammetrics.words.names import fit
from streammetrics.words.numbers import counted

NAMES_MAX: Final = 5
EXAMPLES: Final = (
    '{"type":"impression","impression_id":"r-81","user_id":"u7","ts":1732183200123,"items":["a","b","c"],'
    '"experiments":{"ranker-v7":"treatment"}}',
    '{"type":"feedback","user_id":"u7","ts":1732183231877,"impression_id":"r-81","item_id":"b","action":"click"}',
)
"""A list and a feedback, as native records of a topic."""


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
            numbers = "Live numbers have the lists so far. They end with whole panes once every task has read events."
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
