"""Changes of verdicts and gates: which report makes one, and that no report undoes a later one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from streammetrics.connectors.memory import MemoryStore
from streammetrics.experiments.words import Part
from streammetrics.reports.changes import (
    ERROR_LENGTH_MAX,
    PENDING_MAX,
    ChangeRecord,
    RecordedChange,
    Watched,
    WebhookBacklog,
    backlog_of,
    decode_records,
    due_records,
    failed_once_more,
    json_message,
    record_name,
    slack_message,
    without,
)
from streammetrics.reports.report import Report
from tests.support.committed_state import START_MS
from tests.support.gates import BOTH, at, failing, passing, waiting


class Records:
    """The records in a store, as reports change them."""

    def __init__(self) -> None:
        self.store = MemoryStore()

    def take(self, report: Report, watched: tuple[Watched, ...] = BOTH, now_ms: int = START_MS) -> int:
        """Take a report and return the number of changed records."""
        stored = self.store.compare_and_set({})
        due = due_records(stored, report, watched, source="sm", now_ms=now_ms)
        self.store.compare_and_set(due)
        return len(due)

    def of(self, name: str = "ranker") -> ChangeRecord | None:
        return decode_records(self.store.compare_and_set({})).get(record_name(name))

    def words(self, name: str = "ranker") -> list[tuple[str, str]]:
        record = self.of(name)
        return [] if record is None else [(each.verdict, each.gate) for each in record.pending]


def test_an_undecided_experiment_makes_no_record() -> None:
    records = Records()
    assert records.take(at(1, waiting("ranker"))) == 0
    assert records.of() is None


def test_each_change_is_recorded_once() -> None:
    records = Records()
    assert records.take(at(1, failing("ranker"))) == 1
    assert [records.take(at(later_ms, failing("ranker"))) for later_ms in (1, 2, 3)] == [0, 0, 0]
    assert records.words() == [("regressed", "fail")]
    records.take(at(4, waiting("ranker")))
    assert records.words() == [("regressed", "fail"), ("inconclusive", "wait")]
    record = records.of()
    assert record is not None
    assert [each.verdict_before for each in record.pending] == ["inconclusive", "regressed"]
    assert len({each.key for each in record.pending}) == 2


def test_an_experiment_changes_once_for_each_event_time_and_an_earlier_report_undoes_nothing() -> None:
    records = Records()
    records.take(at(10, failing("ranker")))
    assert records.take(at(9, waiting("ranker"))) == 0
    assert records.take(at(10, waiting("ranker"))) == 0
    assert records.words() == [("regressed", "fail")]


def test_two_processes_record_the_same_change_once() -> None:
    store, report = MemoryStore(), at(5, failing("ranker"))
    due = [due_records({}, report, BOTH, source="sm", now_ms=now) for now in (START_MS, START_MS + 7)]
    for changes in due:
        store.compare_and_set(changes)
    (record,) = decode_records(store.compare_and_set({})).values()
    assert [each.changed_ms for each in record.pending] == [START_MS]


@pytest.mark.parametrize(("watched", "count"), [(("verdict",), 0), (("gate",), 1), (BOTH, 1), ((), 0)])
def test_only_what_is_watched_makes_a_change(watched: tuple[Watched, ...], count: int) -> None:
    report = at(1, passing("ranker"))
    assert (report.experiments[0].verdict.word, report.experiments[0].gate and report.experiments[0].gate.word) == ("inconclusive", "pass")
    assert Records().take(report, watched) == count


def test_the_day_scope_makes_no_change() -> None:
    assert Records().take(at(1, replace(failing("ranker"), scope="day"))) == 0


def test_the_record_of_an_ended_experiment_goes_once_its_changes_are_sent() -> None:
    records = Records()
    records.take(at(1, failing("ranker")))
    assert records.take(at(2)) == 0
    record = records.of()
    assert record is not None
    name, stored = record_name("ranker"), records.store.compare_and_set({})
    records.store.compare_and_set({name: (stored[name], without(record, record.pending[0].key).encode())})
    assert records.take(replace(at(3), entered_ms=None)) == 0
    assert records.take(at(3)) == 1
    assert records.of() is None


def test_the_oldest_of_too_many_changes_are_dropped() -> None:
    records = Records()
    for later_ms in range(PENDING_MAX + 5):
        records.take(at(later_ms, failing("ranker") if later_ms % 2 == 0 else waiting("ranker")))
    record = records.of()
    assert record is not None
    assert (len(record.pending), record.number) == (PENDING_MAX, PENDING_MAX + 5)


def test_a_record_of_another_version_counts_as_none() -> None:
    store = MemoryStore()
    store.compare_and_set({record_name("ranker"): (None, b"{}x"), "scales:ranker": (None, b"1")})
    assert decode_records(store.compare_and_set({})) == {record_name("ranker"): ChangeRecord()}


LOWER = (Part("name", "treatment"), Part("text", ": "), Part("number", "12 %"), Part("text", " lower"))


def change(**given: object) -> RecordedChange:
    values: dict[str, object] = {
        "key": "k",
        "experiment": "ranker",
        "verdict_before": "inconclusive",
        "verdict": "regressed",
        "gate_before": "wait",
        "gate": "fail",
        "reason": LOWER,
        "gate_reason": LOWER,
        "users": 4_000,
        "up_to_ms": START_MS,
        "changed_ms": START_MS,
    }
    return RecordedChange(**(values | given))  # type: ignore[arg-type]


def test_a_json_message_has_everything() -> None:
    found: Mapping[str, object] = json_message(change(), "sm")
    assert (found["id"], found["source"], found["users"]) == ("k", "sm", 4_000)
    assert found["verdict"] == {"before": "inconclusive", "after": "regressed", "reason": "treatment: 12 % lower", "parts": LOWER}


def test_a_message_for_slack_is_one_text_without_foreign_markup() -> None:
    found = slack_message(change(experiment="<!channel> & *bold*"), "sm")
    assert found == {
        "text": "*&lt;!channel&gt; &amp; ∗bold∗*: verdict inconclusive → *regressed*, gate wait → *fail*\n"  # noqa: RUF001
        "*treatment*: 12 % lower\n4,000 users · sm"
    }
    gate_only = slack_message(change(verdict="inconclusive", gate="pass"), "sm")["text"]
    assert gate_only.splitlines()[:2] == ["*ranker*: gate wait → *pass*", "*treatment*: 12 % lower"]


class TestBacklog:
    @staticmethod
    def record(name: str, *changed_ms: int, tries: int = 0) -> ChangeRecord:
        changes = (RecordedChange(f"{name}{ms}", name, "inconclusive", "safe", "wait", "pass", (), (), 1, 0, ms) for ms in changed_ms)
        record = ChangeRecord(pending=tuple(changes))
        for number in range(tries):
            record = failed_once_more(record, next_ms=5, error=f"{name} {number}")
        return record

    def test_it_counts_all_changes_and_has_the_time_of_the_oldest(self) -> None:
        records = [self.record("a", 30, 40), self.record("b", 20), self.record("c")]
        assert backlog_of(records) == WebhookBacklog(3, 20)
        assert backlog_of(records).problem(1_000) == ""
        assert backlog_of([self.record("c")]) == backlog_of([]) == WebhookBacklog()

    def test_it_names_the_failure_of_the_change_that_waits_longest(self) -> None:
        records = [self.record("a", 10), self.record("b", 20, tries=3), self.record("c", 30, tries=9)]
        assert backlog_of(records) == WebhookBacklog(3, 10, 3, "b 2")

    def test_one_change_and_one_try_are_counted_in_the_singular(self) -> None:
        problem = backlog_of([self.record("a", 0, tries=1)]).problem(60_000)
        assert problem == "The webhook fails: a 0 (1 try). 1 change waits for 60 s."

    def test_a_sent_change_has_no_failure_left(self) -> None:
        record = without(self.record("a", 10, tries=4), "a10")
        assert (record.attempts, record.error) == (0, "")

    def test_a_long_message_of_an_error_is_cut(self) -> None:
        assert len(failed_once_more(self.record("a", 1), next_ms=0, error="x" * 5_000).error) <= ERROR_LENGTH_MAX
