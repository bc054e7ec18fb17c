"""Changes of verdicts and gates that a webhook reports: what changed, and the record of what is still to be sent. Pure.

One record per experiment is stored beside the scales. It holds the words that were reported last and the changes that wait. All processes
change it by compare-and-set, so each change is recorded once, whichever process sees it first.

A process may read the committed state later than another. Its report is then about an earlier position, and must not undo a change. So a
record has its position: the sum of the offsets of all inputs, which only grows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import msgspec

from streammetrics.experiments import SINCE_START, ExperimentReport
from streammetrics.reports.freshness import ReportTimes
from streammetrics.reports.report import Report
from streammetrics.reports.text import counted, fit
from streammetrics.reports.time_text import span_text

Watched: TypeAlias = Literal["verdict", "gate"]

PENDING_MAX: Final = 20
"""Most changes of one experiment that wait. The oldest are dropped first."""
ERROR_LENGTH_MAX: Final = 200
_PREFIX: Final = "webhook:"


class RecordedChange(msgspec.Struct, frozen=True):
    """One change of an experiment since its start. `key` is the same whenever it is sent again. Times are epoch ms.

    stale: why the report must not be acted on, in sentences, when the change was recorded; empty if it was recent and complete.
    """

    key: str
    experiment: str
    verdict_before: str
    verdict: str
    gate_before: str
    gate: str
    reason: str
    gate_reason: str
    users: int
    up_to_ms: int | None
    changed_ms: int
    stale: tuple[str, ...] = ()


class ChangeRecord(msgspec.Struct, frozen=True):
    """What is stored of one experiment: its last words, their position, and the changes to send.

    owner, until_ms: the process that sends now, and when its claim ends. attempts, next_ms, error: failed tries of the first change, when
    to try again, and why the last try failed.
    """

    position: int = -1
    number: int = 0
    verdict: str = "inconclusive"
    gate: str = "wait"
    pending: tuple[RecordedChange, ...] = ()
    owner: str = ""
    until_ms: int = 0
    attempts: int = 0
    next_ms: int = 0
    error: str = ""

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


NO_RECORD: Final = ChangeRecord()
StoredChanges: TypeAlias = Mapping[str, tuple[bytes | None, bytes | None]]
"""For `Store.compare_and_set`: the expected and the new value by name."""


def record_name(experiment: str) -> str:
    """Return the name of an experiment's record in the store."""
    return f"{_PREFIX}{experiment}"


def decode_records(stored: Mapping[str, bytes]) -> dict[str, ChangeRecord]:
    """Return the records among the stored values, by name. One of another version counts as none."""
    found = {}
    for name, value in stored.items():
        if name.startswith(_PREFIX):
            try:
                found[name] = msgspec.json.decode(value, type=ChangeRecord)
            except (msgspec.DecodeError, msgspec.ValidationError):
                found[name] = NO_RECORD
    return found


def due_records(
    stored: Mapping[str, bytes], report: Report, watched: Collection[Watched], *, source: str, now_ms: int, stale_ms: int
) -> dict[str, tuple[bytes | None, bytes | None]]:
    """Return the changes of records that a report makes, for `Store.compare_and_set`; empty for none.

    source: the name of the deployment, part of each key. stale_ms: how old a report may be; see `ReportTimes.staleness`. Only what is in
    `watched` makes a change. The record of an experiment that has ended is removed once its changes are sent.
    """
    known, due = decode_records(stored), dict[str, tuple[bytes | None, bytes | None]]()
    stale = tuple(ReportTimes.of(report).staleness(now_ms, stale_ms))
    running = {record_name(each.experiment): each for each in report.experiments if each.scope == SINCE_START}
    for name, experiment in running.items():
        before = known.get(name, NO_RECORD)
        after = _after(before, experiment, report, watched, source, now_ms, stale)
        if after is not before:
            due[name] = (stored.get(name), after.encode())
    if report.entered_ms is not None:
        position = _position(report)
        for name, record in known.items():
            if name not in running and not record.pending and position > record.position:
                due[name] = (stored[name], None)
    return due


def _after(
    before: ChangeRecord,
    experiment: ExperimentReport,
    report: Report,
    watched: Collection[Watched],
    source: str,
    now_ms: int,
    stale: tuple[str, ...],
) -> ChangeRecord:
    position = _position(report)
    verdict, gate = experiment.verdict.word, "wait" if experiment.gate is None else experiment.gate.word
    moved = ("verdict" in watched and verdict != before.verdict) or ("gate" in watched and gate != before.gate)
    if position <= before.position or not moved:
        return before
    number = before.number + 1
    parts = (source, experiment.experiment, str(number), str(position), verdict, gate)
    change = RecordedChange(
        key=hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:32],
        experiment=experiment.experiment,
        verdict_before=before.verdict,
        verdict=verdict,
        gate_before=before.gate,
        gate=gate,
        reason=experiment.verdict.reason,
        gate_reason="" if experiment.gate is None else experiment.gate.reason,
        users=sum(each.users for each in experiment.variants),
        up_to_ms=report.entered_ms,
        changed_ms=now_ms,
        stale=stale,
    )
    pending = (*before.pending, change)[-PENDING_MAX:]
    return msgspec.structs.replace(before, position=position, number=number, verdict=verdict, gate=gate, pending=pending)


def _position(report: Report) -> int:
    """Return how many records the report has read."""
    return sum(each.offset or 0 for each in report.inputs)


def without(record: ChangeRecord, key: str) -> ChangeRecord:
    """Return the record without a change that was sent or given up, and without a claim."""
    pending = tuple(each for each in record.pending if each.key != key)
    return msgspec.structs.replace(record, pending=pending, owner="", until_ms=0, attempts=0, next_ms=0, error="")


def failed_once_more(record: ChangeRecord, *, next_ms: int, error: str) -> ChangeRecord:
    """Return the record after a failed try, without a claim."""
    return msgspec.structs.replace(
        record, owner="", until_ms=0, attempts=record.attempts + 1, next_ms=next_ms, error=fit(error)[:ERROR_LENGTH_MAX]
    )


@dataclass(frozen=True, slots=True)
class WebhookBacklog:
    """The changes that wait to be sent by any process.

    waiting: how many. oldest_ms: when the oldest of them was recorded; None for none. tries, error: failed tries of the change that has
    failed for longest, and why its last try failed; 0 and empty if the receiver has refused none of them.
    """

    waiting: int = 0
    oldest_ms: int | None = None
    tries: int = 0
    error: str = ""

    def problem(self, now_ms: int) -> str:
        """Return sentences about a receiver that fails; empty if it does not.

        >>> WebhookBacklog(2, 0, 4, "the receiver answered 503").problem(720_000)
        'The webhook fails: the receiver answered 503 (4 tries). 2 changes wait, the oldest for 12 min.'
        """
        if not self.tries or self.oldest_ms is None:
            return ""
        tries = "1 try" if self.tries == 1 else f"{self.tries} tries"
        waiting = "1 change waits" if self.waiting == 1 else f"{self.waiting:,} changes wait, the oldest"
        return f"The webhook fails: {self.error} ({tries}). {waiting} for {span_text(max(0, now_ms - self.oldest_ms))}."


def backlog_of(records: Iterable[ChangeRecord]) -> WebhookBacklog:
    """Return what waits in these records."""
    pending = [each for each in records if each.pending]
    if not pending:
        return WebhookBacklog()
    failing = min((each for each in pending if each.attempts), key=_oldest_ms, default=NO_RECORD)
    return WebhookBacklog(sum(len(each.pending) for each in pending), min(map(_oldest_ms, pending)), failing.attempts, failing.error)


def _oldest_ms(record: ChangeRecord) -> int:
    return record.pending[0].changed_ms


def json_message(change: RecordedChange, source: str) -> dict[str, Any]:
    """Return the body of a message."""
    return {
        "id": change.key,
        "type": "experiment.changed",
        "source": source,
        "experiment": change.experiment,
        "verdict": {"before": change.verdict_before, "after": change.verdict, "reason": change.reason},
        "gate": {"before": change.gate_before, "after": change.gate, "reason": change.gate_reason},
        "stale": list(change.stale),
        "users": change.users,
        "up_to_ms": change.up_to_ms,
        "changed_ms": change.changed_ms,
    }


def slack_message(change: RecordedChange, source: str) -> dict[str, Any]:
    """Return the body of a message for Slack. Names from events must not mention people or channels, so &, < and > are escaped."""
    moves = [f"{what} {before} → *{after}*" for what, before, after in _moves(change)]
    reason = change.reason if change.verdict != change.verdict_before else change.gate_reason
    text = f"*{_escaped(change.experiment)}*: {', '.join(moves)}\n{_escaped(reason)}\n{counted(change.users, 'user')} · {_escaped(source)}"
    return {"text": "\n".join((text, *(f"Do not act on it: {_escaped(sentence)}" for sentence in change.stale)))}


def _moves(change: RecordedChange) -> list[tuple[str, str, str]]:
    pairs = [("verdict", change.verdict_before, change.verdict), ("gate", change.gate_before, change.gate)]
    return [each for each in pairs if each[1] != each[2]]


def _escaped(text: str) -> str:
    return fit(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("*", "∗")  # noqa: RUF001  no markup
