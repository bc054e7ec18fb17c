"""Changes of verdicts and gates that a webhook reports: what changed, and the record of what is still to be sent. Pure.

One record per experiment is stored beside the scales. It holds the words that were reported last and the changes that wait. All processes
change it by compare-and-set, so each change is recorded once, whichever process sees it first.

An experiment is judged once for each event time up to which all tasks have come. So a record has the time of its last change, and a report
up to this time or an earlier one changes nothing, whichever process reads it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import msgspec

from streammetrics.events.event_time import NEVER
from streammetrics.experiments import SINCE_START, ExperimentReport
from streammetrics.experiments.words import Part, Words
from streammetrics.reports.report import Report
from streammetrics.reports.text import counted, fit
from streammetrics.reports.time_text import span_text

Watched: TypeAlias = Literal["verdict", "gate"]

PENDING_MAX: Final = 20
"""Most changes of one experiment that wait. The oldest are dropped first."""
ERROR_LENGTH_MAX: Final = 200
_PREFIX: Final = "webhook:"


class RecordedChange(msgspec.Struct, frozen=True):
    """One change of an experiment since its start. `key` is the same whenever it is sent again. Times are epoch ms."""

    key: str
    experiment: str
    verdict_before: str
    verdict: str
    gate_before: str
    gate: str
    reason: tuple[Part, ...]
    gate_reason: tuple[Part, ...]
    users: int
    up_to_ms: int
    changed_ms: int


class ChangeRecord(msgspec.Struct, frozen=True):
    """What is stored of one experiment: its last words, the event time up to which they are, and the changes to send.

    owner, until_ms: the process that sends now, and when its claim ends. attempts, next_ms, error: failed tries of the first change, when
    to try again, and why the last try failed.
    """

    up_to_ms: int = NEVER
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
    stored: Mapping[str, bytes], report: Report, watched: Collection[Watched], *, source: str, now_ms: int
) -> dict[str, tuple[bytes | None, bytes | None]]:
    """Return the changes of records that a report makes, for `Store.compare_and_set`; empty for none.

    source: the name of the deployment, part of each key. Only what is in `watched` makes a change. The record of an experiment that has
    ended is removed once its changes are sent. A report up to no event time makes no change.
    """
    known, due = decode_records(stored), dict[str, tuple[bytes | None, bytes | None]]()
    up_to_ms = report.entered_ms
    if up_to_ms is None:
        return due
    running = {record_name(each.experiment): each for each in report.experiments if each.scope == SINCE_START}
    for name, experiment in running.items():
        before = known.get(name, NO_RECORD)
        after = _after(before, experiment, up_to_ms, watched, source, now_ms)
        if after is not before:
            due[name] = (stored.get(name), after.encode())
    for name, record in known.items():
        if name not in running and not record.pending and up_to_ms > record.up_to_ms:
            due[name] = (stored[name], None)
    return due


def _after(
    before: ChangeRecord,
    experiment: ExperimentReport,
    up_to_ms: int,
    watched: Collection[Watched],
    source: str,
    now_ms: int,
) -> ChangeRecord:
    verdict, gate = experiment.verdict.word, "wait" if experiment.gate is None else experiment.gate.word
    moved = ("verdict" in watched and verdict != before.verdict) or ("gate" in watched and gate != before.gate)
    if up_to_ms <= before.up_to_ms or not moved:
        return before
    number = before.number + 1
    parts = (source, experiment.experiment, str(number), str(up_to_ms), verdict, gate)
    change = RecordedChange(
        key=hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:32],
        experiment=experiment.experiment,
        verdict_before=before.verdict,
        verdict=verdict,
        gate_before=before.gate,
        gate=gate,
        reason=experiment.verdict.parts,
        gate_reason=() if experiment.gate is None else experiment.gate.parts,
        users=sum(each.users for each in experiment.variants),
        up_to_ms=up_to_ms,
        changed_ms=now_ms,
    )
    pending = (*before.pending, change)[-PENDING_MAX:]
    return msgspec.structs.replace(before, up_to_ms=up_to_ms, number=number, verdict=verdict, gate=gate, pending=pending)


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
        "verdict": {"before": change.verdict_before, "after": change.verdict, "reason": Words(change.reason).text, "parts": change.reason},
        "gate": {"before": change.gate_before, "after": change.gate, "reason": Words(change.gate_reason).text, "parts": change.gate_reason},
        "users": change.users,
        "up_to_ms": change.up_to_ms,
        "changed_ms": change.changed_ms,
    }


def slack_message(change: RecordedChange, source: str) -> dict[str, Any]:
    """Return the body of a message for Slack. Names from events must not mention people or channels, so &, < and > are escaped."""
    moves = [f"{what} {before} → *{after}*" for what, before, after in _moves(change)]
    parts = change.reason if change.verdict != change.verdict_before else change.gate_reason
    reason = "".join(f"*{_escaped(each.text)}*" if each.kind == "name" else _escaped(each.text) for each in parts)
    text = f"*{_escaped(change.experiment)}*: {', '.join(moves)}\n{reason}\n{counted(change.users, 'user')} · {_escaped(source)}"
    return {"text": text}


def _moves(change: RecordedChange) -> list[tuple[str, str, str]]:
    pairs = [("verdict", change.verdict_before, change.verdict), ("gate", change.gate_before, change.gate)]
    return [each for each in pairs if each[1] != each[2]]


def _escaped(text: str) -> str:
    return fit(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("*", "∗")  # noqa: RUF001  no markup
