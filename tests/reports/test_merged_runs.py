"""Experiments over several tasks: only the state of one run is summed, and a scale is frozen for exactly one run."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.engine.task_state import decode_control
from streammetrics.enrolment.rules import ExperimentRules, Span
from streammetrics.enrolment.scopes import WHOLE
from streammetrics.events.model import Feedback, Impression
from streammetrics.experiments import ExperimentReport, FeedbackCounts, Policy
from streammetrics.experiments.experiment_report import SINCE_START, THIS_DAY
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.history import History
from streammetrics.reports.merged_runs import (
    FrozenScales,
    MergedRun,
    Scales,
    decode_scales,
    encode_scales,
    join_runs,
    scales_name,
    started_runs,
)
from streammetrics.reports.report import Report
from streammetrics.reports.rules import ReportRules
from streammetrics.runtime.publish.publisher import read_committed
from streammetrics.windows.panes import WindowRules
from tests.oracle import Arrival
from tests.support.experiment_tasks import DAY_MS, NOON_MS, SETTINGS, Tasks, at, builder_of, exposed, published, publisher_of, since_start
from tests.support.machine import Machine, engine_of


def test_an_idle_tasks_state_of_an_old_run_is_not_added_to_the_next_run() -> None:
    tasks = Tasks()
    for task in (0, 1):
        tasks.show(task, 0, f"{task}-old-c", f"{task}-old-t")
        tasks.pass_time(task, 0)
    assert exposed(published(tasks)["ranker"]) == {"control": 2, "treatment": 2}
    tasks.show(0, 5, "new-c")  # the other task has read nothing since
    tasks.pass_time(0, 5)
    assert exposed(published(tasks)["ranker"]) == {"control": 1}


def test_a_run_that_is_over_is_not_shown_in_part_while_some_tasks_are_behind() -> None:
    tasks = Tasks()
    for task in (0, 1):
        tasks.show(task, 0, f"{task}-c", f"{task}-t")
        tasks.pass_time(task, 0.9)
    assert exposed(published(tasks)["ranker"]) == {"control": 2, "treatment": 2}
    tasks.pass_time(0, 1.1)
    assert published(tasks) == {}


def test_lists_of_a_task_that_was_idle_belong_to_the_run_of_the_other_tasks() -> None:
    tasks = Tasks()
    tasks.show(1, 0, "early-c")
    for days in (0, 0.8, 1.6, 2.4):
        tasks.show(0, days, f"{days}-t")
        tasks.pass_time(0, days)
        tasks.pass_time(1, days)
    # The idle task has dropped its user: it knows only its own lists, and for it the experiment was over.
    assert exposed(published(tasks)["ranker"]) == {"treatment": 4}
    tasks.show(1, 2.5, "late-c")
    tasks.pass_time(1, 2.6)
    assert exposed(published(tasks)["ranker"]) == {"control": 1, "treatment": 4}


def test_a_task_that_is_behind_shows_its_new_lists_once_they_are_enrolled() -> None:
    tasks = Tasks()
    for task, days in ((0, 0), (1, 0), (1, 3), (0, 3)):
        tasks.show(task, days, f"{task}-{days}-c")
        tasks.pass_time(task, days)
    assert exposed(published(tasks)["ranker"]) == {"control": 2}


RUNS = st.lists(st.builds(lambda first, length: MergedRun(first, first + length), st.integers(0, 60), st.integers(0, 9)), max_size=8)


@given(RUNS, st.integers(0, 9))
def test_runs_are_merged_like_their_lists(runs: list[MergedRun], idle_ms: int) -> None:
    merged = join_runs(runs, idle_ms)
    assert all(later.first > earlier.last + idle_ms for earlier, later in pairwise(merged))
    assert all(sum(run_of_all.first <= run.first and run.last <= run_of_all.last for run_of_all in merged) == 1 for run in runs)
    assert {run_of_all.first for run_of_all in merged} <= {run.first for run in runs}
    assert {run_of_all.last for run_of_all in merged} <= {run.last for run in runs}


def test_snapshots_of_two_runs_are_distinguished_by_their_times() -> None:
    tasks, reports = Tasks(1), list[Report]()
    (machine,) = tasks.machines
    exporter = publisher_of(tasks, reports)
    tasks.show(0, 0, "old-c", "old-t")
    next_run_ms = at(1, 2)  # the earliest start of another run
    for ts in (at(0, 1_102), at(0.5), next_run_ms - 1, next_run_ms, next_run_ms + 1_001, next_run_ms + 2_000):
        arms = (("ranker", "control"),) if ts == next_run_ms else ()
        machine.feed([Arrival("events", Impression(f"list-{ts}", "new-c" if arms else "clock", ts, ("i",), arms))])
        machine.finish(flush=False)
        exporter.publish()
    snapshots = [
        (stored, report.entered_ms) for report in reports for stored in since_start(report).values() if report.entered_ms is not None
    ]
    both = {"control": 1, "treatment": 1}
    old = [(stored.known_from_ms, entered) for stored, entered in snapshots if exposed(stored) == both]
    new = [(stored.known_from_ms, entered) for stored, entered in snapshots if exposed(stored) == {"control": 1}]
    assert len(old) == 3, "shown while another list could belong to it"
    (first_snapshot_ms,) = {known_from_ms for known_from_ms, _ in new}
    assert max(entered for _, entered in old) < first_snapshot_ms <= min(entered for _, entered in new)
    assert all(known_from_ms <= entered for known_from_ms, entered in old)


def read(tasks: Tasks) -> ReportBuilder:
    """Return a report builder that has read all tasks."""
    builder = builder_of()
    read_committed(tasks, builder, len(tasks.machines))
    return builder


def test_the_day_of_the_slowest_task_is_shown_with_its_feedback_only() -> None:
    tasks, day = Tasks(), NOON_MS // DAY_MS
    for task in (0, 1):
        tasks.show(task, 0, f"{task}-c", f"{task}-t")
        tasks.pass_time(task, 0)
    tasks.show(0, 0.6, "next-c", "next-t", "other-c", "other-t")
    tasks.pass_time(0, 0.6)

    def today() -> tuple[dict[str, int], int | None]:
        (whole_run,) = (experiment for experiment in read(tasks).report(2).experiments if experiment.scope == THIS_DAY)
        return exposed(whole_run), whole_run.known_from_ms

    assert today() == ({"control": 2, "treatment": 2}, day * DAY_MS + 1)
    stored = read(tasks).experiments.stored(2)
    assert [stored["ranker", scope].joined for scope in (WHOLE, day, day + 1)] == [
        FeedbackCounts(4, 0),
        FeedbackCounts(2, 0),
        FeedbackCounts(2, 0),
    ]
    tasks.pass_time(1, 0.6)
    assert today() == ({"control": 2, "treatment": 2}, (day + 1) * DAY_MS + 1)
    stored = read(tasks).experiments.stored(2)
    midnight, whole = (day + 1) * DAY_MS, stored["ranker", WHOLE]
    assert midnight < whole.to_ms < midnight + DAY_MS
    assert [(sums.from_ms, sums.to_ms) for sums in (stored["ranker", day], stored["ranker", day + 1])] == [
        (whole.from_ms, midnight),
        (midnight, whole.to_ms),
    ]


def test_midnight_still_shows_the_day_that_ended() -> None:
    tasks = Tasks(1)
    tasks.show(0, 0, "a-c")
    tasks.machines[0].feed([Arrival("events", Impression("clock", "clock", at(0.5, 500), ()))])
    tasks.machines[0].finish(flush=False)
    report = read(tasks).report(1)
    assert report.entered_ms == at(0.5)
    assert [(experiment.scope, exposed(experiment)) for experiment in report.experiments] == [
        (SINCE_START, {"control": 1}),
        (THIS_DAY, {"control": 1}),
    ]


def test_a_day_that_some_task_has_dropped_is_not_shown_in_part() -> None:
    tasks = Tasks()
    engine = engine_of(SETTINGS, experiments=ExperimentRules(idle_ms=DAY_MS), retention_ms=1_000)
    tasks.machines = [Machine(engine, SETTINGS) for _ in (0, 1)]
    for task in (0, 1):
        tasks.show(task, 0, f"{task}-c")
        tasks.pass_time(task, 0)
    assert [(experiment.scope, exposed(experiment)) for experiment in read(tasks).report(2).experiments] == [
        (SINCE_START, {"control": 2}),
        (THIS_DAY, {"control": 2}),
    ]
    tasks.show(0, 0.6, "next-c")
    tasks.pass_time(0, 0.6)
    assert [(experiment.scope, exposed(experiment)) for experiment in read(tasks).report(2).experiments] == [(SINCE_START, {"control": 3})]


def test_cross_sums_moves_and_credits_are_summed_over_tasks() -> None:
    tasks = Tasks()
    for task in (0, 1):
        for number, (user, arm) in enumerate((("both", "control"), ("both", "treatment"), ("mixed", "interleaved"))):
            teams = ("control", "treatment") if arm == "interleaved" else ()
            impression = Impression(f"{number}", user, at(0, number), ("i", "j"), (("ranker", arm),), teams=teams)
            tasks.machines[task].feed([Arrival("events", impression), Arrival("events", Feedback(user, at(0, number), "j", "click"))])
        tasks.pass_time(task, 0)
    stored = read(tasks).experiments.stored(2)["ranker", WHOLE]
    assert [users for users, *_ in stored.pairs.values()] == [2]
    assert [row.moves for row in stored.hours.rows.values()] == [{("control", "treatment"): 2}]
    assert {pair: list(moments[:3]) for pair, moments in stored.credits.items()} == {("control", "treatment"): [2, 2, 0]}


def test_the_latest_run_with_enrolled_lists_counts_in_any_order() -> None:
    tasks = Tasks(1)
    tasks.show(0, 0, "u-c")
    control = decode_control(tasks.view([0], {})[0].control)
    runs = [(1, "ranker", 500, 600, ["a"], None), (2, "ranker", 0, 10, ["a"], None), (3, "ranker", 900, 900, ["a"], None)]
    for order in permutations(runs):  # the last run has a day only
        labels = msgspec.structs.replace(control.labels, runs=list(order))
        assert started_runs(msgspec.structs.replace(control, labels=labels), ["2", "1", "1:20000", "3:20000"]) == {1: "ranker"}


def test_a_task_whose_input_ended_ends_no_run_of_other_tasks() -> None:
    tasks = Tasks()
    for task in (0, 1):
        tasks.show(task, 0, f"{task}-c", f"{task}-t")
        tasks.pass_time(task, 0.5)
    tasks.machines[1].finish(flush=True)
    assert exposed(published(tasks)["ranker"]) == {"control": 2, "treatment": 2}


@pytest.mark.parametrize("patience_ms", [0, 2_000])
def test_the_first_snapshot_of_a_run_may_be_dated_before_its_first_list(patience_ms: int) -> None:
    """Its session closed long before its lists became final."""
    settings = replace(SETTINGS, gap_ms=100)
    engine = engine_of(settings, experiments=ExperimentRules(idle_ms=DAY_MS, patience_ms=patience_ms))
    machine = Machine(engine, settings)
    machine.feed([Arrival("events", Impression("x", "u", NOON_MS, ("i",), (("ranker", "control"),)))])
    machine.feed([Arrival("events", Impression("clock", "clock", NOON_MS + 101, ()))])
    machine.finish(flush=False)
    assert engine.user_totals is not None
    rules = WindowRules(pane_ms=100, windows_ms=(100,), lateness_ms=0, attribution_ms=500)
    builder = ReportBuilder(
        engine.layout, rules, {}, engine.signature, ReportRules(engine.user_totals.measures, lambda _: Policy(), DAY_MS, patience_ms)
    )
    builder.update(0, machine.store.view([0], {})[0])
    report = builder.report(1)
    assert report.entered_ms == NOON_MS - 400 - patience_ms
    snapshots = History().add(report.entered_ms, report.experiments).matching(report.experiments)
    assert [(series.scope, len(series.snapshots.kept)) for series in snapshots.series] == [(THIS_DAY, 1), (SINCE_START, 1)]


def scale_of(report: ExperimentReport) -> float | None:
    (treatment,) = (arm for arm in report.variants if arm.role == "treatment")
    return next(measure.tau for measure in treatment.measures if (measure.metric, measure.k) == ("hit_rate", 3))


def stored_scales(tasks: Tasks) -> dict[str, Scales]:
    return {name: decode_scales(value) for name, value in tasks.compare_and_set({}).items()}


def users(prefix: str, count: int = 4) -> list[str]:
    return [f"{prefix}-{number}-{arm}" for arm in "ct" for number in range(count)]


def test_a_scale_never_changes_during_a_run() -> None:
    tasks, scales_seen = Tasks(), []
    for turn in range(8):  # idle for less than a day, eight times
        for task in (0, 1):
            tasks.show(task, 0.8 * turn, *users(f"{task}-{turn}", 4 + 3 * turn))
            tasks.pass_time(task, 0.8 * turn)
        scales_seen.append(scale_of(published(tasks)["ranker"]))
    assert scales_seen[0] is not None
    assert set(scales_seen) == {scales_seen[0]}
    assert stored_scales(tasks)[scales_name("ranker")].until >= at(0.8 * 7) - DAY_MS // 2


def test_an_experiment_is_judged_once_for_each_event_time_up_to_which_all_tasks_have_come() -> None:
    """The second task catches up. Its commits bring users of later times, which must not change what was judged."""
    tasks = Tasks()
    for task in (0, 1):
        tasks.show(task, 0, *users(str(task)))
        tasks.pass_time(task, 0)
    exporter = publisher_of(tasks, [])
    first = exporter.publish()
    for days in (0.2, 0.4):
        tasks.show(1, days, *users(f"1-{days}"))
        tasks.pass_time(1, days)
        ahead = exporter.publish()
        assert first is not None
        assert ahead is not None
        assert (ahead.entered_ms, ahead.experiments) == (first.entered_ms, first.experiments)
        assert ahead.counts != first.counts
    tasks.pass_time(0, 0.4)
    assert exposed(since_start(exporter.publish())["ranker"]) == {"control": 16, "treatment": 16}


def test_a_scale_is_removed_when_no_task_could_continue_the_run() -> None:
    tasks, reports = Tasks(), list[Report]()
    for task in (0, 1):
        tasks.show(task, 0, *users(str(task)))
        tasks.pass_time(task, 0)
    exporter = publisher_of(tasks, reports)
    exporter.publish()
    assert list(stored_scales(tasks)) == [scales_name("ranker")]
    tasks.pass_time(0, 2)
    exporter.publish()
    assert list(stored_scales(tasks)) == [scales_name("ranker")]
    tasks.pass_time(1, 2)
    exporter.publish()
    assert stored_scales(tasks) == {}


def test_a_scale_stays_while_some_task_has_no_state() -> None:
    tasks = Tasks()
    tasks.show(0, 0, *users("0"))
    for days in (0, 3):
        tasks.pass_time(0, days)
        published(tasks)
        assert list(stored_scales(tasks)) == [scales_name("ranker")]


def test_no_scale_is_frozen_while_some_tasks_have_no_experiments() -> None:
    tasks = Tasks()
    tasks.machines[1] = Machine(engine_of(SETTINGS), SETTINGS)
    for task in (0, 1):
        tasks.show(task, 0, *users(str(task)))
        tasks.pass_time(task, 0)
    assert published(tasks) == {}
    assert stored_scales(tasks) == {}


def test_scales_apply_only_to_a_run_that_began_before_their_run_could_end() -> None:
    scales = FrozenScales(10)
    scales.update({scales_name("ranker"): encode_scales(Scales(100, {"mrr@1": 0.5}))})
    assert [dict(scales.of("ranker", MergedRun(first, 200))) for first in (110, 111)] == [{"mrr@1": 0.5}, {}]


def test_a_slow_exporter_adds_a_scale_and_does_not_shorten_the_run() -> None:
    scales = FrozenScales(10)
    scales.update({scales_name("ranker"): encode_scales(Scales(100, {"mrr@1": 0.5}))})
    ((_, after),) = scales.add("ranker", MergedRun(80, 95), {"mrr@3": 0.25}).values()
    assert after is not None
    assert decode_scales(after) == Scales(100, {"mrr@1": 0.5, "mrr@3": 0.25})


def test_a_new_run_has_its_own_scale_even_if_the_old_one_was_not_removed() -> None:
    tasks = Tasks()
    for task in (0, 1):
        tasks.show(task, 0, *users(str(task)))
        tasks.pass_time(task, 0)
    before = scale_of(published(tasks)["ranker"])
    tasks.show(0, 3, *users("0", 40))  # the other task still has the old run
    tasks.pass_time(0, 3)
    after = scale_of(published(tasks)["ranker"])
    assert before is not None
    assert after is not None
    assert before != after
    tasks.pass_time(1, 3)
    assert scale_of(published(tasks)["ranker"]) == after


def test_a_slow_exporter_cannot_remove_the_scale_of_a_newer_run() -> None:
    tasks, reports = Tasks(), list[Report]()
    for task in (0, 1):
        tasks.show(task, 0, *users(str(task)))
        tasks.pass_time(task, 0)
    slow_exporter = publisher_of(tasks, reports)
    slow_exporter.publish()
    for task in (0, 1):
        tasks.pass_time(task, 2)
    tasks.seen = tasks.view(range(2), {})  # what the slow exporter reads first: no task has the experiment
    for task in (0, 1):
        tasks.show(task, 3, *users(str(task), 40))
        tasks.pass_time(task, 3)
    early_view, tasks.seen = tasks.seen, None
    new_scale = scale_of(published(tasks)["ranker"])
    tasks.seen = early_view
    slow_exporter.publish()
    tasks.seen = None
    assert scale_of(published(tasks)["ranker"]) == new_scale


def test_a_scale_stays_when_a_run_moves_between_tasks_during_a_read() -> None:
    tasks, reports = Tasks(), list[Report]()
    tasks.show(0, 0, *users("0"))
    for task in (0, 1):
        tasks.pass_time(task, 0)
    slow = publisher_of(tasks, reports)
    slow.publish()
    before = scale_of(since_start(reports[-1])["ranker"])
    assert before is not None
    tasks.pass_time(1, 0.9)
    earlier = tasks.view([1], {})
    tasks.show(1, 0.95, *users("1", 40))
    for task in (0, 1):
        tasks.pass_time(task, 1.1)
    tasks.seen = {**tasks.view([0], {}), **earlier}
    slow.publish()
    assert reports[-1].experiments == ()
    tasks.seen = None
    assert scale_of(published(tasks)["ranker"]) == before


def test_a_reader_ignores_scales_that_are_frozen_after_it_read_the_tasks() -> None:
    tasks = Tasks()
    for task in (0, 1):
        tasks.show(task, 0, *users(str(task)))
        tasks.pass_time(task, 0)
    new_scale = scale_of(published(tasks)["ranker"])

    class Overtaken(Tasks):
        """A store in which another run begins, and another exporter freezes its scale, during each read."""

        def view(self, *wanted):  # type: ignore[no-untyped-def]
            views = tasks.view(*wanted)
            for task in (0, 1):
                tasks.show(task, 3, *users(str(task), 40))
                tasks.pass_time(task, 3)
            published(tasks)
            return views

        def compare_and_set(self, changes):  # type: ignore[no-untyped-def]
            return tasks.compare_and_set(changes)

    builder = builder_of()
    read_committed(Overtaken(), builder, 2)
    assert scale_of(since_start(builder.report(2))["ranker"]) == new_scale != scale_of(published(tasks)["ranker"])


def test_two_exporters_that_read_at_different_times_agree_on_the_first_scale() -> None:
    tasks, one, other = Tasks(), list[Report](), list[Report]()
    first, second = publisher_of(tasks, one), publisher_of(tasks, other)
    for task in (0, 1):
        tasks.show(task, 0, *users(str(task)))
        tasks.pass_time(task, 0)
    first.publish()
    for task in (0, 1):
        tasks.show(task, 0.1, *users(f"more-{task}", 30))
        tasks.pass_time(task, 0.1)
    second.publish()
    first.publish()
    scales = [scale_of(since_start(reports[-1])["ranker"]) for reports in (one[:1], one, other)]
    assert scales[0] is not None
    assert len(set(scales)) == 1


def test_a_new_exporter_keeps_the_scale_when_an_idle_task_dropped_its_part() -> None:
    """The task in which the scale was frozen has dropped its users. The run continues in the other task."""
    tasks = Tasks()
    tasks.show(1, 0, *users("1"))
    tasks.pass_time(0, 0)
    tasks.pass_time(1, 0)
    scales_seen = [scale_of(published(tasks)["ranker"])]
    for turn in range(1, 6):
        days = 0.8 * turn - 0.4
        tasks.show(0, days, *users(f"0-{turn}", 5 * turn))
        for task in (0, 1):
            tasks.pass_time(task, days)
        scales_seen.append(scale_of(published(tasks)["ranker"]))
    assert scales_seen[0] is not None
    assert set(scales_seen) == {scales_seen[0]}


@pytest.mark.parametrize("joined", [(0.5, 0.3), (0.3, 0.5)])
def test_a_variant_is_known_until_its_last_list_in_any_task(joined: tuple[float, float]) -> None:
    tasks = Tasks()
    tasks.show(0, 0, "a-c")
    tasks.show(1, 0, "b-c")
    for task in (0, 1):
        tasks.pass_time(task, 0.2)
    for task, days in enumerate(joined):
        tasks.show(task, days, f"{task}-t")
        tasks.pass_time(task, days)
        tasks.pass_time(task, 0.6)
    stored = read(tasks).experiments.stored(2)["ranker", WHOLE]
    assert stored.from_ms == at(0)
    assert stored.last_ms == {"control": at(0), "treatment": at(0.5)}


def test_start_and_end_bound_the_time_that_is_checked() -> None:
    """A pilot before the start changes nothing."""
    tasks, span = Tasks(), Span(at(0), at(0.75))
    engine = engine_of(SETTINGS, experiments=ExperimentRules(idle_ms=2 * DAY_MS, spans={"ranker": span}))
    tasks.machines = [Machine(engine, SETTINGS) for _ in (0, 1)]
    for task in (0, 1):
        tasks.show(task, -0.9, f"{task}pilot-t", f"{task}early-c")
        tasks.show(task, 0.05, f"{task}a-c", f"{task}b-c")
        tasks.show(task, 0.4, f"{task}-t")
        tasks.pass_time(task, 0.5)
    stored = read(tasks).experiments.stored(2)["ranker", WHOLE]
    assert (stored.from_ms, stored.first_list_users) == (at(0), {"control": 4, "treatment": 2})
    assert stored.joined == FeedbackCounts(2, 0)
    assert at(0.4) < stored.to_ms <= at(0.5, 20_000)
    for task in (0, 1):
        tasks.show(task, 0.8, f"{task}after-t")
        tasks.pass_time(task, 0.9)
    stored = read(tasks).experiments.stored(2)["ranker", WHOLE]
    assert (stored.to_ms, stored.last_ms) == (at(0.75), {"control": at(0.05, 1), "treatment": at(0.75) - 1})
