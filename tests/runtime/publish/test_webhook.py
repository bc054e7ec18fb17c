"""The webhook against a real HTTP receiver: signed, retried, and once for each change across processes and crashes."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from streammetrics.connectors.http_client import HttpClient
from streammetrics.connectors.memory import MemoryStore
from streammetrics.connectors.tls import CertificateFiles
from streammetrics.connectors.webhook import WebhookReceiver
from streammetrics.reports.changes import WebhookBacklog, decode_records, json_message, slack_message
from streammetrics.runtime.publish.settled import Settled
from streammetrics.runtime.publish.webhook import CLAIM_SLACK_SECONDS, ChangeRecorder, WebhookRules, WebhookSender
from streammetrics.runtime.status import ProcessStatus
from tests.support.committed_state import START_MS
from tests.support.gates import BOTH, at, failing, waiting
from tests.support.http_receiver import HttpReceiver, receiving

SECRET = "s3cret ⚡"
TIMEOUT_SECONDS = 0.5
GIVE_UP_MS = 3_600_000


@dataclass
class TestClock:
    __test__ = False

    now_ms: int = START_MS

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic(self) -> float:
        return self.now_ms / 1_000

    def sleep(self, seconds: float) -> None:
        self.now_ms += int(1_000 * seconds)


STALE_MS = 120_000


@dataclass
class Exporter:
    """One process: it records changes and sends them."""

    store: MemoryStore
    receiver: HttpReceiver
    clock: TestClock
    status: ProcessStatus = field(default_factory=ProcessStatus)
    message: object = json_message
    timeout_seconds: float = TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        self.recorder = ChangeRecorder(self.store, BOTH, "sm", self.clock, Settled(self.clock, STALE_MS))
        client = HttpClient(timeout_seconds=self.timeout_seconds, certificates=CertificateFiles(section="webhook"))
        sends = WebhookReceiver(url=self.receiver.url, client=client, wall_ms=self.clock.wall_ms, secret=SECRET)
        rules = WebhookRules(
            source="sm",
            watched=frozenset(BOTH),
            message=self.message,  # type: ignore[arg-type]
            timeout_seconds=self.timeout_seconds,
            give_up_ms=GIVE_UP_MS,
        )
        self.sender = WebhookSender(self.store, sends, rules, self.clock, self.status)


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with receiving() as found:
        yield found


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def waits(store: MemoryStore) -> int:
    return sum(len(each.pending) for each in decode_records(store.compare_and_set({})).values())


def waiting_at(exporter: Exporter) -> int:
    assert exporter.status.webhook_backlog is not None
    return exporter.status.webhook_backlog.waiting


def test_a_change_is_sent_signed_with_its_key(store: MemoryStore, receiver: HttpReceiver) -> None:
    exporter = Exporter(store, receiver, TestClock())
    exporter.recorder.take(at(1, failing("ranker")))
    exporter.sender.turn()
    (message,) = receiver.messages
    body = json.loads(message.body)
    assert (message.path, body["experiment"], body["verdict"]["after"], body["gate"]["after"]) == ("/hook", "ranker", "regressed", "fail")
    assert message.headers["idempotency-key"] == body["id"]
    timestamp = message.headers["x-streammetrics-timestamp"]
    assert int(timestamp) == START_MS // 1_000
    expected = hmac.new(SECRET.encode(), f"{timestamp}.".encode() + message.body, hashlib.sha256).hexdigest()
    assert message.headers["x-streammetrics-signature"] == f"v1={expected}"
    exporter.sender.turn()
    assert (len(receiver.messages), waits(store), exporter.status.webhooks) == (1, 0, {"sent": 1})


def test_nothing_is_sent_while_workers_catch_up_and_one_message_afterwards(store: MemoryStore, receiver: HttpReceiver) -> None:
    """After an outage of five hours, the verdict of a regression comes and goes as tasks come to an event time in any order."""
    exporter = Exporter(store, receiver, TestClock(START_MS + 5 * 3_600_000))
    behind = [failing("ranker"), waiting("ranker"), failing("ranker"), waiting("ranker"), failing("ranker")]
    for minute, experiment in enumerate(behind):
        for other in (waiting("ranker"), experiment):  # the same event time, as later commits of other tasks change it
            exporter.recorder.take(at(60_000 * minute, other))
            exporter.sender.turn()
    assert (receiver.messages, waits(store)) == ([], 0)
    exporter.clock.now_ms = START_MS
    for experiment in (failing("ranker"), waiting("ranker"), failing("ranker")):
        exporter.recorder.take(at(300_000, experiment))
        exporter.sender.turn()
    assert [json.loads(each.body)["verdict"]["after"] for each in receiver.messages] == ["regressed"]


def test_changes_are_sent_in_their_order(store: MemoryStore, receiver: HttpReceiver) -> None:
    exporter = Exporter(store, receiver, TestClock())
    for position, report in enumerate([failing("ranker"), waiting("ranker"), failing("ranker")]):
        exporter.recorder.take(at(position, report))
    for _ in range(5):
        exporter.sender.turn()
    assert [json.loads(each.body)["gate"]["after"] for each in receiver.messages] == ["fail", "wait", "fail"]


def test_a_receiver_that_fails_gets_the_same_message_again_with_back_off(store: MemoryStore, receiver: HttpReceiver) -> None:
    exporter = Exporter(store, receiver, TestClock())
    exporter.recorder.take(at(1, failing("ranker")))
    receiver.status = 503
    exporter.sender.turn()
    exporter.sender.turn()
    assert len(receiver.messages) == 1  # the pause has not passed
    pauses = []
    for _ in range(8):
        (record,) = decode_records(store.compare_and_set({})).values()
        pauses.append(record.next_ms - exporter.clock.now_ms)
        exporter.clock.now_ms = record.next_ms
        exporter.sender.turn()
    assert all(1_000 * 2**n / 2 <= pause <= 1_000 * 2**n for n, pause in enumerate(pauses, 1))
    receiver.status = 204
    exporter.clock.now_ms += 300_000
    exporter.sender.turn()
    assert len({each.headers["idempotency-key"] for each in receiver.messages}) == 1
    assert len({each.body for each in receiver.messages}) == 1
    assert (exporter.status.webhooks, waits(store)) == ({"sent": 1, "failed": 9}, 0)


def test_a_receiver_that_hangs_holds_up_neither_reports_nor_other_experiments(store: MemoryStore, receiver: HttpReceiver) -> None:
    exporter = Exporter(store, receiver, TestClock())
    exporter.recorder.take(at(1, failing("a"), failing("b")))
    receiver.hanging.set()
    turn = threading.Thread(target=exporter.sender.turn)
    turn.start()
    receiver.wait_for(1)
    exporter.recorder.take(at(2, waiting("a"), failing("b")))  # while the request hangs
    turn.join()
    assert (exporter.status.webhooks, len(receiver.messages)) == ({"failed": 2}, 2)
    receiver.hanging.clear()
    exporter.clock.now_ms += 60_000
    for _ in range(3):
        exporter.sender.turn()
    words = [(json.loads(each.body)["experiment"], json.loads(each.body)["gate"]["after"]) for each in receiver.messages[2:]]
    assert sorted(words) == [("a", "fail"), ("a", "wait"), ("b", "fail")]
    assert words.index(("a", "fail")) < words.index(("a", "wait"))


def test_while_one_process_sends_no_other_does(store: MemoryStore, receiver: HttpReceiver) -> None:
    clock = TestClock()
    one, other = (Exporter(store, receiver, clock, timeout_seconds=20) for _ in range(2))
    one.recorder.take(at(1, failing("ranker")))
    other.recorder.take(at(1, failing("ranker")))
    receiver.hanging.set()
    turn = threading.Thread(target=one.sender.turn)
    turn.start()
    receiver.wait_for(1)
    other.sender.turn()
    assert (len(receiver.messages), waiting_at(other)) == (1, 1)
    receiver.hanging.clear()
    turn.join()
    other.sender.turn()
    assert (len(receiver.messages), one.status.webhooks, waiting_at(other)) == (1, {"sent": 1}, 0)


def test_many_processes_send_each_change_once(store: MemoryStore, receiver: HttpReceiver) -> None:
    clock, stop = TestClock(), threading.Event()
    exporters = [Exporter(store, receiver, clock, timeout_seconds=20) for _ in range(4)]
    senders = [threading.Thread(target=each.sender.run, args=(stop,)) for each in exporters]
    for thread in senders:
        thread.start()
    rounds = 6
    for position in range(rounds):
        report = at(position, *((failing if position % 2 == 0 else waiting)(name) for name in ("a", "b")))
        recording = [threading.Thread(target=each.recorder.take, args=(report,)) for each in exporters]
        for thread in recording:
            thread.start()
        for thread in recording:
            thread.join()
    messages = receiver.wait_for(2 * rounds)
    stop.set()
    for thread in senders:
        thread.join()
    assert len(receiver.messages) == 2 * rounds == len({each.headers["idempotency-key"] for each in messages})
    for name in ("a", "b"):
        words = [json.loads(each.body)["gate"]["after"] for each in messages if json.loads(each.body)["experiment"] == name]
        assert words == ["fail", "wait"] * (rounds // 2)


class Crash(BaseException):
    """A process that dies."""


class DyingStore:
    """A store whose process dies before its `fatal`-th change."""

    def __init__(self, store: MemoryStore, fatal: int) -> None:
        self.store, self.left = store, fatal

    def compare_and_set(self, changes):  # type: ignore[no-untyped-def]
        if changes:
            self.left -= 1
            if self.left == 0:
                raise Crash
        return self.store.compare_and_set(changes)


@pytest.mark.parametrize("fatal", [1, 2, 3])
def test_a_crash_at_any_step_loses_no_change_and_a_repeated_one_has_its_key(store: MemoryStore, receiver: HttpReceiver, fatal: int) -> None:
    """The steps that write: record the change, claim it, remove it after it was sent."""
    clock = TestClock()
    dying = Exporter(DyingStore(store, fatal), receiver, clock)  # type: ignore[arg-type]
    report = at(1, failing("ranker"))

    def live() -> None:
        dying.recorder.take(report)
        dying.sender.turn()

    with pytest.raises(Crash):
        live()
    other = Exporter(store, receiver, clock)
    other.recorder.take(report)
    other.sender.turn()
    assert len(receiver.messages) == 1  # either sent now, or sent by the dead process, whose claim lasts
    clock.now_ms += int(1_000 * (TIMEOUT_SECONDS + CLAIM_SLACK_SECONDS))
    other.sender.turn()
    assert len(receiver.messages) == (2 if fatal == 3 else 1)
    assert len({each.headers["idempotency-key"] for each in receiver.messages}) == 1
    assert waits(store) == 0


def test_a_change_that_no_receiver_takes_is_given_up_and_counted(store: MemoryStore, receiver: HttpReceiver) -> None:
    exporter = Exporter(store, receiver, TestClock())
    exporter.recorder.take(at(1, failing("ranker")))
    receiver.status = 400
    exporter.sender.turn()
    exporter.clock.now_ms += GIVE_UP_MS
    exporter.sender.turn()
    assert (exporter.status.webhooks, waits(store)) == ({"failed": 2, "given_up": 1}, 0)


def test_every_process_knows_that_the_receiver_fails_and_why_until_it_takes_the_change(store: MemoryStore, receiver: HttpReceiver) -> None:
    clock = TestClock()
    one, other = (Exporter(store, receiver, clock) for _ in range(2))
    one.recorder.take(at(1, failing("ranker")))
    receiver.status = 503
    one.sender.turn()
    one.recorder.take(at(2, waiting("ranker")))
    clock.now_ms += 300_000
    one.sender.turn()
    other.sender.turn()
    backlog = other.status.webhook_backlog
    assert backlog == WebhookBacklog(2, START_MS, 2, "the receiver answered 503")
    assert backlog.problem(clock.now_ms) == (
        "The webhook fails: the receiver answered 503 (2 tries). 2 changes wait, the oldest for 5 min."
    )
    receiver.status = 200
    clock.now_ms += 300_000
    for _ in range(3):
        other.sender.turn()
    one.sender.turn()
    assert one.status.webhook_backlog == other.status.webhook_backlog == WebhookBacklog()


def test_slack_gets_its_own_form(store: MemoryStore, receiver: HttpReceiver) -> None:
    exporter = Exporter(store, receiver, TestClock(), message=slack_message)
    exporter.recorder.take(at(1, failing("ranker")))
    exporter.sender.turn()
    text = json.loads(receiver.messages[0].body)["text"]
    assert text.startswith("*ranker*: verdict inconclusive → *regressed*, gate wait → *fail*\n*treatment*: ")
