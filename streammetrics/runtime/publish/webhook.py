"""Reports changes of verdicts and gates to a webhook: each change once, across crashes and several processes.

1. `ChangeRecorder` sees every report of the publisher. A changed word is recorded in the store by compare-and-set, so one process records
   it. The report is not held up by the receiver.
2. `WebhookSender` is a thread of its own. It claims a record for a limited time, sends its first change, and removes it from the record.
   While the claim lasts, no other process sends it.
3. If the receiver fails, the change is tried again with back-off, by whichever process comes first. If a process dies after it has sent a
   change and before it has removed it, the change is sent again with the same key once the claim has ended.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec
import structlog

from streammetrics.connectors.clock import Clock
from streammetrics.errors import StoreError, StreammetricsError
from streammetrics.reports.changes import (
    ChangeRecord,
    RecordedChange,
    StoredChanges,
    Watched,
    backlog_of,
    decode_records,
    due_records,
    failed_once_more,
    without,
)
from streammetrics.reports.report import Report
from streammetrics.runtime.status import ProcessStatus

POLL_SECONDS: Final = 1.0
"""Time between two looks at the records."""
BACKOFF_SECONDS_MAX: Final = 300.0
CLAIM_SLACK_SECONDS: Final = 30.0
"""How much longer than a request a claim lasts. Clocks of processes that differ by less never send a change twice."""
_TRIES_MAX: Final = 20
"""Most compare-and-sets of one step. Another process changes a record only a few times in a row."""

log = structlog.get_logger("streammetrics.runtime.publish.webhook")


class Receiver(Protocol):
    """Where messages go."""

    def send(self, body: bytes, key: str) -> None:
        """Send a message. `key` identifies it. Raises StreammetricsError if it was not taken."""
        ...


class RecordStore(Protocol):
    """The part of `Store` that keeps the records."""

    def compare_and_set(self, changes: StoredChanges) -> Mapping[str, bytes]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRules:
    """What is reported (`watched`), under which name (`source`), in which form (`message`), and the limits of sending."""

    source: str
    watched: frozenset[Watched]
    message: Callable[[RecordedChange, str], dict[str, Any]]
    timeout_seconds: float
    give_up_ms: int


class ChangeRecorder:
    """Records the changes of each report that is settled. For the publisher's thread."""

    def __init__(
        self, store: RecordStore, watched: Collection[Watched], source: str, clock: Clock, is_settled: Callable[[Report], bool]
    ) -> None:
        self._store, self._watched, self._source, self._clock, self._is_settled = store, watched, source, clock, is_settled
        self._done: Report | None = None

    def take(self, report: Report) -> None:
        """Record what a report changes. Raises StoreError; the next report then tries again."""
        if report is self._done or not self._is_settled(report):
            return
        stored = self._store.compare_and_set({})
        for _ in range(_TRIES_MAX):
            due = due_records(stored, report, self._watched, source=self._source, now_ms=self._clock.wall_ms())
            if not due:
                break
            stored = self._store.compare_and_set(due)
        self._done = report


class WebhookSender:
    """Sends recorded changes until it is stopped. For one thread, with a store connection of its own."""

    def __init__(self, store: RecordStore, receiver: Receiver, rules: WebhookRules, clock: Clock, status: ProcessStatus) -> None:
        self._store, self._receiver, self._rules, self._clock, self._status = store, receiver, rules, clock, status
        self._owner = uuid.uuid4().hex
        self._failing = False

    def run(self, stop: threading.Event) -> None:
        """Send until `stop` is set."""
        while not stop.is_set():
            try:
                self.turn(stop)
            except StoreError as error:
                log.debug("the records of the webhook cannot be read", error=str(error))  # the publisher reports the outage
            stop.wait(POLL_SECONDS)

    def turn(self, stop: threading.Event | None = None) -> None:
        """Try each record that has a change to send. Raises StoreError."""
        stored = self._store.compare_and_set({})
        records = decode_records(stored)
        self._status.webhook_backlog = backlog_of(records.values())
        for name, record in records.items():
            if stop is not None and stop.is_set():
                return
            if self._is_due(record):
                self._try(name, stored[name], record)

    def _is_due(self, record: ChangeRecord) -> bool:
        now_ms = self._clock.wall_ms()
        is_claimed = record.owner not in ("", self._owner) and now_ms < record.until_ms
        return bool(record.pending) and not is_claimed and now_ms >= record.next_ms

    def _try(self, name: str, stored: bytes, record: ChangeRecord) -> None:
        """Claim a record and send its first change."""
        now_ms = self._clock.wall_ms()
        until_ms = now_ms + int(1_000 * (self._rules.timeout_seconds + CLAIM_SLACK_SECONDS))
        claimed = msgspec.structs.replace(record, owner=self._owner, until_ms=until_ms).encode()
        if self._store.compare_and_set({name: (stored, claimed)}).get(name) != claimed:
            return  # another process was first
        change = record.pending[0]
        try:
            self._receiver.send(msgspec.json.encode(self._rules.message(change, self._rules.source)), change.key)
        except StreammetricsError as error:
            self._failed(name, change, record.attempts + 1, str(error))
        else:
            self._change(name, lambda now: without(now, change.key))
            self._status.webhooks["sent"] += 1
            self._failing = False
            log.info("webhook sent", experiment=change.experiment, verdict=change.verdict, gate=change.gate, key=change.key)

    def _failed(self, name: str, change: RecordedChange, attempts: int, why: str) -> None:
        now_ms = self._clock.wall_ms()
        self._status.webhooks["failed"] += 1
        if now_ms - change.changed_ms >= self._rules.give_up_ms:
            self._change(name, lambda now: without(now, change.key))
            self._status.webhooks["given_up"] += 1
            log.error("webhook given up", experiment=change.experiment, key=change.key, attempts=attempts, error=why)
            return
        wait_ms = int(1_000 * min(BACKOFF_SECONDS_MAX, 2.0 ** min(attempts, 20)) * random.uniform(0.5, 1))
        self._change(name, lambda now: failed_once_more(now, next_ms=now_ms + wait_ms, error=why))
        if not self._failing:
            log.warning("webhook failed, trying again", experiment=change.experiment, key=change.key, error=why)
        self._failing = True

    def _change(self, name: str, after: Callable[[ChangeRecord], ChangeRecord]) -> None:
        """Change a record, whatever others have added to it meanwhile."""
        stored = self._store.compare_and_set({})
        for _ in range(_TRIES_MAX):
            if name not in stored:
                return
            changed = after(decode_records(stored)[name]).encode()
            stored = self._store.compare_and_set({name: (stored[name], changed)})
            if stored.get(name) == changed:
                return
