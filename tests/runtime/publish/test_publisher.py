"""What the publisher shows while the store fails, before the first commit, and for state made by other rules."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from streammetrics.connectors.clock import Clock, SystemClock
from streammetrics.connectors.memory import MemoryStore
from streammetrics.connectors.store import Store, StoreNode
from streammetrics.engine.signature import Signature
from streammetrics.enrolment.rules import ExperimentRules
from streammetrics.errors import StateError, StoreError
from streammetrics.events.model import Feedback, Impression
from streammetrics.experiments import Policy
from streammetrics.experiments.hours import EntrySums, HourRow, Hours
from streammetrics.experiments.stored import StoredSums
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.data_warnings import UnknownName
from streammetrics.reports.experiment_lists import LaterLists
from streammetrics.reports.input_warnings import FIX, UserPartitions
from streammetrics.reports.merged_experiments import MergedExperiments
from streammetrics.reports.merged_runs import Change
from streammetrics.reports.report import Report
from streammetrics.reports.rules import ReportRules
from streammetrics.runtime.publish.publisher import NODES_SECONDS, Publisher, read_committed
from streammetrics.runtime.status import ProcessStatus
from streammetrics.windows.pane_tallies import PANES
from streammetrics.windows.panes import WindowRules
from streammetrics.windows.unique_users import UniqueUserRules
from tests.oracle import Arrival, Settings
from tests.support.brute_force import grades_text
from tests.support.faults import FaultyStore, HandClock
from tests.support.machine import Machine, engine_of
from tests.support.strategies import Case, cases

SETTINGS = Settings(inputs=("events",))
ENGINE = engine_of(SETTINGS)


class Away(MemoryStore):
    """A memory store that cannot be reached while `unreachable` is set."""

    unreachable = False
    looks = 0

    def nodes(self) -> tuple[StoreNode, ...]:
        self.looks += 1
        if self.unreachable:
            raise StoreError("the store is unreachable")
        return (StoreNode("a:1", 5),)

    def partitions(self) -> int | None:
        if self.unreachable:
            raise StoreError("the store is unreachable")
        return super().partitions()

    def view(self, *words):  # type: ignore[no-untyped-def]
        if self.unreachable:
            raise StoreError("the store is unreachable")
        return super().view(*words)


def publisher_of(
    store: Store,
    reports: list[Report],
    signature: Signature = ENGINE.signature,
    clock: Clock | None = None,
    retry_seconds_max: float = 0,
    builder_type: type[ReportBuilder] = ReportBuilder,
) -> tuple[Publisher, ProcessStatus]:
    rules = WindowRules(pane_ms=4, windows_ms=(4,), lateness_ms=2, attribution_ms=5)
    status = ProcessStatus()
    builder = builder_type(ENGINE.layout, rules, {}, signature)
    clock = clock or SystemClock()
    publisher = Publisher(
        builder=builder,
        store=store,
        publish_ms=10,
        clock=clock,
        status=status,
        on_report=reports.append,
        retry_seconds_max=retry_seconds_max,
    )
    return publisher, status


def committed(store: Store, tasks: int = 1) -> Machine:
    store.announce(tasks)
    machine = Machine(ENGINE, SETTINGS, store)
    machine.feed([Arrival("events", Impression("x", "u", 1, ("a",))), Arrival("events", Impression("y", "u", 30, ("a",)))])
    machine.commit()
    return machine


def test_nothing_is_published_before_the_number_of_tasks_is_known() -> None:
    reports: list[Report] = []
    assert publisher_of(MemoryStore(), reports)[0].publish() is None
    assert reports == []


@pytest.mark.parametrize("tasks", [None, 1, 3])
def test_a_namespace_that_was_deleted_and_created_again_is_refused(tasks: int | None) -> None:
    class Recreated(MemoryStore):
        def partitions(self) -> int | None:
            return tasks if reports else super().partitions()

    store, reports = Recreated(), []
    committed(store, tasks=2)
    publisher = publisher_of(store, reports)[0]
    publisher.publish()
    with pytest.raises(StateError, match=r"for 2 tasks, and now .*deleted or flushed"):
        publisher.publish()
    assert len(reports) == 1


def test_the_report_stays_the_same_object_until_something_is_committed() -> None:
    store = MemoryStore()
    machine = committed(store)
    publisher = publisher_of(store, [])[0]
    first = publisher.publish()
    assert publisher.publish() is first
    machine.feed([Arrival("events", Impression("z", "u", 31, ("a",)))])
    machine.commit()
    later = publisher.publish()
    assert later is not None
    assert later is not first
    assert later.counts["events", "events"] == 3


def test_experiments_are_merged_only_after_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    store, merged = MemoryStore(), []
    machine = committed(store)
    monkeypatch.setattr(MergedExperiments, "scale_changes", lambda self, tasks: merged.append(tasks) or {})
    publisher = publisher_of(store, [])[0]
    publisher.publish()
    publisher.publish()
    assert merged == [1]
    machine.feed([Arrival("events", Impression("z", "u", 31, ("a",)))])
    machine.commit()
    publisher.publish()
    assert merged == [1, 1]


def test_a_read_that_failed_halfway_is_seen_in_the_next_report() -> None:
    class Interrupted(MemoryStore):
        fails = False

        def compare_and_set(self, changes: Mapping[str, tuple[bytes | None, bytes | None]]) -> Mapping[str, bytes]:
            if self.fails:
                raise StoreError("the store is unreachable")
            return super().compare_and_set(changes)

    class DueScales(MergedExperiments):
        def scale_changes(self, tasks: int) -> dict[str, Change]:
            return {"scale": (None, b"1")} if Interrupted.fails else {}

    class Due(ReportBuilder):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.experiments = DueScales(self.rules, self.signature, None, LaterLists(self.aggregator))

    store = Interrupted()
    machine = committed(store)
    publisher = publisher_of(store, [], builder_type=Due)[0]
    publisher.publish()
    machine.feed([Arrival("events", Impression("z", "u", 31, ("a",)))])
    machine.commit()
    Interrupted.fails = True
    with pytest.raises(StoreError):
        publisher.publish()
    Interrupted.fails = False
    report = publisher.publish()
    assert report is not None
    assert report.counts["events", "events"] == 3


def test_windows_wait_for_the_tasks_that_have_not_committed() -> None:
    store, reports = MemoryStore(), []
    committed(store, tasks=2)
    report = publisher_of(store, reports)[0].publish()
    assert report is not None
    assert (report.tasks, report.tasks_committed, report.watermark_ms) == (2, 1, None)
    assert [window.end_ms for window in report.windows] == [None, None]


def test_the_last_report_stays_while_the_store_is_unreachable_and_the_trouble_is_shown() -> None:
    store, reports, stop = Away(), [], threading.Event()
    committed(store)
    publisher, status = publisher_of(store, reports)
    publisher.publish()
    store.unreachable = True
    stop.set()
    publisher.run(stop)
    assert len(reports) == 1
    assert status.publish_trouble is not None
    assert "unreachable" in status.publish_trouble.message
    store.unreachable = False
    publisher.run(stop)
    assert status.publish_trouble is None
    assert len(reports) == 2


def test_the_publisher_gives_up_after_retry_seconds_max() -> None:
    store, clock, stop = Away(), HandClock(0), threading.Event()
    committed(store)
    publisher, _ = publisher_of(store, [], clock=clock, retry_seconds_max=60)
    stop.set()
    store.unreachable = True
    publisher.run(stop)
    clock.sleep(59)
    publisher.run(stop)
    store.unreachable = False
    publisher.run(stop)  # it answers in time, and what follows is another outage
    store.unreachable = True
    publisher.run(stop)
    clock.sleep(61)
    with pytest.raises(StoreError, match="the store is unreachable"):
        publisher.run(stop)


def test_without_a_limit_the_publisher_never_gives_up() -> None:
    store, clock, stop = Away(), HandClock(0), threading.Event()
    publisher, status = publisher_of(store, [], clock=clock)
    stop.set()
    store.unreachable = True
    for _ in range(3):
        publisher.run(stop)
        clock.sleep(1_000_000)
    assert status.publish_trouble is not None
    assert status.publish_trouble.since_seconds < 1
    assert status.publish_trouble.failures == 3


def test_server_status_is_read_every_few_seconds_and_unknown_during_an_outage() -> None:
    store, clock = Away(), HandClock(0)
    publisher, status = publisher_of(store, [], clock=clock)
    stop = threading.Event()
    stop.set()
    publisher.run(stop)
    assert status.store_nodes == (StoreNode("a:1", 5),)
    clock.sleep(NODES_SECONDS - 0.1)
    publisher.run(stop)
    assert store.looks == 1
    clock.sleep(0.1)
    publisher.run(stop)
    assert store.looks == 2
    store.unreachable = True
    publisher.run(stop)
    assert status.store_nodes == ()
    store.unreachable = False
    publisher.run(stop)
    assert status.store_nodes == (StoreNode("a:1", 5),)


def test_a_server_without_status_is_no_trouble_for_reports() -> None:
    class Silent(Away):
        def nodes(self) -> tuple[StoreNode, ...]:
            raise StoreError("one server is unreachable")

    store, reports, stop = Silent(), [], threading.Event()
    committed(store)
    publisher, status = publisher_of(store, reports)
    stop.set()
    publisher.run(stop)
    assert len(reports) == 1
    assert (status.publish_trouble, status.store_nodes) == (None, ())


def test_a_window_longer_than_the_retention_of_workers_is_logged_once() -> None:
    store, rules = MemoryStore(), WindowRules(pane_ms=4, windows_ms=(4, 400), lateness_ms=2, attribution_ms=5)
    engine = engine_of(SETTINGS, retention_ms=40)
    builder = ReportBuilder(engine.layout, rules, {}, engine.signature)
    publisher = Publisher(
        builder=builder, store=store, publish_ms=10, clock=SystemClock(), status=ProcessStatus(), on_report=lambda _: None
    )
    store.announce(1)
    machine = Machine(engine, SETTINGS, store)
    with capture_logs() as lines:
        for ts in (1, 500, 1_000, 1_500):
            machine.feed([Arrival("events", Impression(f"x{ts}", "u", ts, ("a",)))])
            machine.commit()
            publisher.publish()
    events = [line["event"] for line in lines if line["event"].startswith("The window")]
    assert events == ["The window of 400 ms is not shown, because a task no longer has all of its panes"]


def test_feedback_in_the_oldest_pane_that_may_change_is_seen() -> None:
    machine = Machine(ENGINE, SETTINGS)
    rules = WindowRules(pane_ms=4, windows_ms=(12,), lateness_ms=2, attribution_ms=5)
    builder = ReportBuilder(ENGINE.layout, rules, {}, ENGINE.signature)

    def answered() -> list[int]:
        read_committed(machine.store, builder, 1)
        live = builder.report(1).windows[1]
        return [live.end_ms or 0, live.groups[0].lists, live.groups[0].lists_with_feedback]

    machine.feed([Arrival("events", Impression("x", "u", 23, ("a",))), Arrival("events", Impression("y", "v", 30, ("a",)))])
    machine.commit()
    assert answered() == [28, 1, 0]
    assert builder.rows_from(0)[PANES] == 20
    machine.feed([Arrival("events", Feedback("u", 28, "a", "click", None, "x"))])
    machine.commit()
    assert answered() == [28, 1, 1]


def test_state_made_by_other_rules_is_refused() -> None:
    store = MemoryStore()
    committed(store)
    other = Signature(ENGINE.signature.rules.replace("grades[", "grades[sign_up=2, "), ENGINE.signature.measures)
    with pytest.raises(StateError, match="other rules") as refused:
        publisher_of(store, [], signature=other)[0].publish()
    assert refused.value.message.splitlines()[1:] == ["  join.grades: now sign_up=2"]


def plain(value: Any) -> Any:
    """Return the content of stored values, whose sums are objects."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, StoredSums):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Hours | HourRow | EntrySums):
        return {name: plain(getattr(value, name)) for name in value.__slots__ if name != "computed"}
    return value


@given(st.data(), cases(), st.sampled_from((0, 4, 12)), st.booleans())
def test_reading_commit_by_commit_shows_the_same_as_a_new_publisher(data: st.DataObject, case: Case, patience_ms: int, flush: bool) -> None:
    """It reads of each task only what may have changed since, and keeps the rest."""
    settings = case.settings
    unique_users = UniqueUserRules(panes=max(settings.windows_ms) // settings.pane_ms, patience_ms=patience_ms)
    experiments = ExperimentRules(patience_ms=patience_ms)
    machine = Machine(engine_of(settings, grades_text(case), experiments=experiments, unique_users=unique_users), settings)
    machine.store.announce(1)
    assert machine.engine.user_totals is not None
    report_rules = ReportRules(
        machine.engine.user_totals.measures,
        lambda name: Policy(min_users=2, effective_users_min=0),
        experiments.idle_ms,
        patience_ms,
    )
    rules = WindowRules(
        pane_ms=settings.pane_ms,
        windows_ms=settings.windows_ms,
        lateness_ms=settings.lateness_ms,
        attribution_ms=settings.attribution_ms,
    )

    def starting() -> tuple[ReportBuilder, Publisher]:
        builder = ReportBuilder(machine.engine.layout, rules, {}, machine.engine.signature, report_rules)
        return builder, Publisher(
            builder=builder, store=machine.store, publish_ms=10, clock=SystemClock(), status=ProcessStatus(), on_report=lambda report: None
        )

    def read(builder: ReportBuilder, publisher: Publisher) -> tuple[object, object]:
        """Return what was read. Experiments are judged once for each time of enrolment, so a new publisher may know later lists."""
        report = publisher.publish()
        return report and replace(report, experiments=()), {key: plain(stored) for key, stored in builder.experiments.stored(1).items()}

    living = starting()

    def look() -> None:
        if data.draw(st.booleans()):
            assert read(*living) == read(*starting())

    machine.feed_all(case.steps, data, after_commit=look)
    machine.finish(flush)
    assert read(*living) == read(*starting())


LOSING = Settings(inputs=("events",), windows_ms=(4, 12))
LOSING_ENGINE = engine_of(LOSING, retention_ms=40, unique_users=UniqueUserRules(panes=3))


@given(st.lists(st.tuples(st.sampled_from(["write", "lose", "lose and claim"]), st.integers(1, 12), st.booleans()), max_size=12))
def test_after_lost_commits_a_publisher_shows_the_same_as_a_new_one(deeds: list[tuple[str, int, bool]]) -> None:
    store, status = FaultyStore(), ProcessStatus()
    machine = Machine(LOSING_ENGINE, LOSING, store)
    machine.report()  # creates a report builder
    runs = machine.builder
    publisher = Publisher(builder=runs, store=store, publish_ms=10, clock=SystemClock(), status=status, on_report=lambda _: None)
    store.announce(1)
    assert publisher.publish() is not None  # from now on it knows the number of tasks
    for deed, count, publishes in [("write", 12, True), *deeds, ("write", 3, True)]:
        if deed == "write":
            machine.open()
            machine.position = machine.state.progress.offsets[0] or 0
            for number in range(machine.position, machine.position + count):
                machine.feed([Arrival("events", Impression(f"i{number}", f"u{number % 5}", 3 * number, ("a",)))])
                machine.commit()
        else:
            store.forget_last(0, count)
            if deed == "lose and claim":
                machine.open()
        if publishes:
            if runs.marks and not store.view([0], {}):
                with pytest.raises(StateError, match="lost all state of task 0"):
                    publisher.publish()
                return
            report = publisher.publish()
            assert report is not None
            assert replace(report, withheld=0) == replace(machine.report(), withheld=0)


def test_each_warning_is_logged_when_it_appears_and_when_it_is_over() -> None:
    class Placed(ReportBuilder):
        on_several = 0

        def report(self, tasks: int) -> Report:
            return replace(super().report(tasks), user_partitions=UserPartitions(200, self.on_several))

    store = MemoryStore()
    machine = committed(store)
    publisher = publisher_of(store, [], builder_type=Placed)[0]
    logged = []
    for on_several in (50, 60, 0, 0, 70):
        Placed.on_several = on_several
        machine.commit()
        with capture_logs() as lines:
            publisher.publish()
            publisher.publish()
        ours = [line for line in lines if "several partitions" in line.get("warning", line["event"])]
        logged.append([(line["log_level"], line["event"].split(" % ")[0], line.get("fix", line.get("warning"))) for line in ours])
    over = UserPartitions(200, 60).problem
    assert logged == [[("warning", "25", FIX)], [], [("info", "a warning is over", over)], [], [("warning", "35", FIX)]]


@pytest.mark.parametrize(
    ("name", "warned"),
    [
        pytest.param(UnknownName("type", "exhibition", 10), [], id="rare"),
        pytest.param(UnknownName("type", "exhibition", 11), ["exhibition"], id="more than one percent"),
        pytest.param(UnknownName("action", "CLICK", 1, "click"), ["CLICK"], id="resembles a known name"),
    ],
)
def test_an_unknown_name_is_logged_once_if_it_is_common_or_resembles_a_known_one(name: UnknownName, warned: list[str]) -> None:
    class Named(ReportBuilder):
        def report(self, tasks: int) -> Report:
            counts = {("events", "feedback"): 1_000, ("matched", "feedback"): 500, ("unknown_action", "feedback"): 1}
            return replace(super().report(tasks), unknown_names=(name,), counts=counts)

    store = MemoryStore()
    machine = committed(store)
    publisher = publisher_of(store, [], builder_type=Named)[0]
    with capture_logs() as lines:
        publisher.publish()
        machine.commit()
        publisher.publish()
    assert [word for line in lines for word in ("exhibition", "CLICK") if f" {word}, which " in line["event"]] == warned
