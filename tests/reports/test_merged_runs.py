"""Experiments over several tasks: only what belongs to one life is added up, and a scale is frozen for a life and leaves after it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.engine.codec import Scales, decode_control, decode_scales, encode_scales, scales_name
from streammetrics.engine.experiment_runs import WHOLE, ExperimentRules
from streammetrics.events.model import Feedback, Impression
from streammetrics.experiments import SINCE_START, THIS_DAY, ExperimentReport, Joined, Policy
from streammetrics.reports.builder import ExperimentView, ReportBuilder
from streammetrics.reports.history import History
from streammetrics.reports.merged_runs import MergedRun, SettledScales, joined, started_runs
from streammetrics.reports.report import Report
from streammetrics.runtime.committed_state import read_committed
from streammetrics.windows.panes import WindowRules
from tests.oracle import Arrival
from tests.support.experiment_tasks import DAY_MS, NOON_MS, SETTINGS, Tasks, at, builder_of, exposed, published, publisher_of, since_start
from tests.support.machine import Machine, engine_of


def test_what_a_silent_task_holds_of_a_life_that_is_over_is_not_added_to_the_next_one() -> None:
    tasks = Tasks()
    for task in (0, 1):
        tasks.show(task, 0, f"{task}-old-c", f"{task}-old-t")
        tasks.pass_time(task, 0)
    assert exposed(published(tasks)["ranker"]) == {"control": 2, "treatment": 2}
    tasks.show(0, 5, "new-c")  # the other task has not heard of anything since
    tasks.pass_time(0, 5)
    assert exposed(published(tasks)["ranker"]) == {"control": 1}


def test_a_life_that_is_over_is_not_shown_in_part_while_some_tasks_are_behind() -> None:
    tasks = Tasks()
    for task in (0, 1):
        tasks.show(task, 0, f"{task}-c", f"{task}-t")
        tasks.pass_time(task, 0.9)
    assert exposed(published(tasks)["ranker"]) == {"control": 2, "treatment": 2}
    tasks.pass_time(0, 1.1)
    assert published(tasks) == {}


def test_the_lists_of_a_task_that_was_silent_belong_to_the_life_that_the_others_went_on_with() -> None:
    tasks = Tasks()
    tasks.show(1, 0, "early-c")
    for days in (0, 0.8, 1.6, 2.4):
        tasks.show(0, days, f"{days}-t")
        tasks.pass_time(0, days)
        tasks.pass_time(1, days)
    # The silent task has let go of its user: it knows its own lists only, and for it the experiment was over.
    assert exposed(published(tasks)["ranker"]) == {"treatment": 4}
    tasks.show(1, 2.5, "late-c")
    tasks.pass_time(1, 2.6)
    assert exposed(published(tasks)["ranker"]) == {"control": 1, "treatment": 4}


def test_a_task_that_is_behind_shows_its_new_lists_as_soon_as_they_enter() -> None:
    tasks = Tasks()
    for task, days in ((0, 0), (1, 0), (1, 3), (0, 3)):
        tasks.show(task, days, f"{task}-{days}-c")
        tasks.pass_time(task, days)
    assert exposed(published(tasks)["ranker"]) == {"control": 2}


LIVES = st.lists(st.builds(lambda first, length: MergedRun(first, first + length), st.integers(0, 60), st.integers(0, 9)), max_size=8)


@given(LIVES, st.integers(0, 9))
def test_lives_are_joined_as_their_lists_would_be(runs: list[MergedRun], idle_ms: int) -> None:
    made = joined(runs, idle_ms)
    assert all(later.first > earlier.last + idle_ms for earlier, later in pairwise(made))
    assert all(sum(each.first <= run.first and run.last <= each.last for each in made) == 1 for run in runs)
    assert {each.first for each in made} <= {run.first for run in runs}
    assert {each.last for each in made} <= {run.last for run in runs}


def test_looks_at_two_lives_of_an_experiment_are_told_apart_by_their_times() -> None:
    tasks, reports = Tasks(1), list[Report]()
    (machine,) = tasks.machines
    exporter = publisher_of(tasks, reports)
    tasks.show(0, 0, "old-c", "old-t")
    is_snapshot = at(1, 2)  # as soon after the last list as another life can begin
    for ts in (at(0, 1_102), at(0.5), is_snapshot - 1, is_snapshot, is_snapshot + 1_001, is_snapshot + 2_000):
        arms = (("ranker", "control"),) if ts == is_snapshot else ()
        machine.take([Arrival("events", Impression(f"list-{ts}", "new-c" if arms else "clock", ts, ("i",), arms))])
        machine.finish(flush=False)
        exporter.publish()
    looks = [(each, report.entered_ms) for report in reports for each in since_start(report).values() if report.entered_ms is not None]
    both = {"control": 1, "treatment": 1}
    old = [(each.known_from_ms, entered) for each, entered in looks if exposed(each) == both]
    new = [(each.known_from_ms, entered) for each, entered in looks if exposed(each) == {"control": 1}]
    assert len(old) == 3, "shown for as long as another list could belong to it"
    (first_look_ms,) = {known_from_ms for known_from_ms, _ in new}
    assert max(entered for _, entered in old) < first_look_ms <= min(entered for _, entered in new)
    assert all(known_from_ms <= entered for known_from_ms, entered in old)


def read(tasks: Tasks) -> ReportBuilder:
    """One that has read all tasks."""
    builder = builder_of()
    read_committed(tasks, builder, len(tasks.machines))
    return builder


def test_the_day_that_is_shown_is_that_of_the_task_furthest_behind_with_its_feedback_alone() -> None:
    tasks, day = Tasks(), NOON_MS // DAY_MS
    for task in (0, 1):
        tasks.show(task, 0, f"{task}-c", f"{task}-t")
        tasks.pass_time(task, 0)
    tasks.show(0, 0.6, "next-c", "next-t", "other-c", "other-t")
    tasks.pass_time(0, 0.6)

    def today() -> tuple[dict[str, int], int | None]:
        (found,) = (each for each in read(tasks).report(2).experiments if each.scope == THIS_DAY)
        return exposed(found), found.known_from_ms

    assert today() == ({"control": 2, "treatment": 2}, day * DAY_MS + 1)
    kept = read(tasks).stored(2)
    assert [kept["ranker", each].joined for each in (WHOLE, day, day + 1)] == [Joined(4, 0), Joined(2, 0), Joined(2, 0)]
    tasks.pass_time(1, 0.6)
    assert today() == ({"control": 2, "treatment": 2}, (day + 1) * DAY_MS + 1)


def test_midnight_itself_still_shows_the_day_that_has_ended() -> None:
    tasks = Tasks(1)
    tasks.show(0, 0, "a-c")
    tasks.machines[0].take([Arrival("events", Impression("clock", "clock", at(0.5, 500), ()))])
    tasks.machines[0].finish(flush=False)
    report = read(tasks).report(1)
    assert report.entered_ms == at(0.5)
    assert [(each.scope, exposed(each)) for each in report.experiments] == [(SINCE_START, {"control": 1}), (THIS_DAY, {"control": 1})]


def test_a_day_of_which_some_task_has_let_go_is_not_shown_in_part() -> None:
    tasks = Tasks()
    engine = engine_of(SETTINGS, experiments=ExperimentRules(idle_ms=DAY_MS), retention_ms=1_000)
    tasks.machines = [Machine(engine, SETTINGS) for _ in (0, 1)]
    for task in (0, 1):
        tasks.show(task, 0, f"{task}-c")
        tasks.pass_time(task, 0)
    assert [(each.scope, exposed(each)) for each in read(tasks).report(2).experiments] == [
        (SINCE_START, {"control": 2}),
        (THIS_DAY, {"control": 2}),
    ]
    tasks.show(0, 0.6, "next-c")
    tasks.pass_time(0, 0.6)
    assert [(each.scope, exposed(each)) for each in read(tasks).report(2).experiments] == [(SINCE_START, {"control": 3})]


def test_users_of_several_variants_and_credits_of_teams_are_those_of_all_tasks() -> None:
    tasks = Tasks()
    for task in (0, 1):
        for number, (user, arm) in enumerate((("both", "control"), ("both", "treatment"), ("mixed", "interleaved"))):
            teams = ("control", "treatment") if arm == "interleaved" else ()
            shown = Impression(f"{number}", user, at(0, number), ("i", "j"), (("ranker", arm),), teams=teams)
            tasks.machines[task].take([Arrival("events", shown), Arrival("events", Feedback(user, at(0, number), "j", "click"))])
        tasks.pass_time(task, 0)
    kept = read(tasks).stored(2)["ranker", WHOLE]
    assert kept.multi_exposed_users == 2
    assert {pair: list(moments[:2]) for pair, moments in kept.credits.items()} == {("control", "treatment"): [2, 2]}


def test_of_the_lives_that_lists_have_entered_the_latest_in_time_counts_whichever_was_known_first() -> None:
    tasks = Tasks(1)
    tasks.show(0, 0, "u-c")
    control = decode_control(tasks.view([0], {}, {})[0].control)
    runs = [(1, "ranker", 500, 600, ["a"], None), (2, "ranker", 0, 10, ["a"], None), (3, "ranker", 900, 900, ["a"], None)]
    for known in permutations(runs):  # of the last one a day alone is known
        assert started_runs(msgspec.structs.replace(control, runs=list(known)), ["2", "1", "1:20000", "3:20000"]) == {1: "ranker"}


def test_a_task_whose_input_has_ended_ends_no_life_of_the_others() -> None:
    tasks = Tasks()
    for task in (0, 1):
        tasks.show(task, 0, f"{task}-c", f"{task}-t")
        tasks.pass_time(task, 0.5)
    tasks.machines[1].finish(flush=True)
    assert exposed(published(tasks)["ranker"]) == {"control": 2, "treatment": 2}


@pytest.mark.parametrize("patience_ms", [0, 2_000])
def test_the_first_look_at_a_life_is_about_it_though_all_is_known_only_up_to_a_time_before_its_first_list(patience_ms: int) -> None:
    """Its session was over long before others' would have to be."""
    settings = replace(SETTINGS, gap_ms=100)
    engine = engine_of(settings, experiments=ExperimentRules(idle_ms=DAY_MS, patience_ms=patience_ms))
    machine = Machine(engine, settings)
    machine.take([Arrival("events", Impression("x", "u", NOON_MS, ("i",), (("ranker", "control"),)))])
    machine.take([Arrival("events", Impression("clock", "clock", NOON_MS + 101, ()))])
    machine.finish(flush=False)
    assert engine.users is not None
    rules = WindowRules(pane_ms=100, windows_ms=(100,), lateness_ms=0, attribution_ms=500)
    builder = ReportBuilder(
        engine.layout, rules, {}, engine.signature, ExperimentView(engine.users.measures, lambda _: Policy(), DAY_MS, patience_ms)
    )
    builder.update(0, machine.store.view([0], {}, {})[0])
    report = builder.report(1)
    assert report.entered_ms == NOON_MS - 400 - patience_ms
    looks = History().take(report.entered_ms, report.experiments).about(report.experiments)
    assert [(trail.scope, len(trail.looks.kept)) for trail in looks.trails] == [(THIS_DAY, 1), (SINCE_START, 1)]


def scale_of(report: ExperimentReport) -> float | None:
    (treatment,) = (arm for arm in report.variants if arm.role == "treatment")
    return next(each.tau for each in treatment.measures if (each.metric, each.k) == ("hit_rate", 3))


def settled(tasks: Tasks) -> dict[str, Scales]:
    return {name: decode_scales(value) for name, value in tasks.compare_and_set({}).items()}


def users(prefix: str, count: int = 4) -> list[str]:
    return [f"{prefix}-{number}-{arm}" for arm in "ct" for number in range(count)]


def test_a_scale_stays_as_it_is_for_as_long_as_its_experiment_lives() -> None:
    tasks, found = Tasks(), []
    for turn in range(8):  # silent for less than a day, eight times over
        for task in (0, 1):
            tasks.show(task, 0.8 * turn, *users(f"{task}-{turn}", 4 + 3 * turn))
            tasks.pass_time(task, 0.8 * turn)
        found.append(scale_of(published(tasks)["ranker"]))
    assert found[0] is not None
    assert set(found) == {found[0]}
    assert settled(tasks)[scales_name("ranker")].until >= at(0.8 * 7) - DAY_MS // 2


def test_a_scale_leaves_when_no_task_could_bring_its_experiment_back() -> None:
    tasks, reports = Tasks(), list[Report]()
    for task in (0, 1):
        tasks.show(task, 0, *users(str(task)))
        tasks.pass_time(task, 0)
    exporter = publisher_of(tasks, reports)
    exporter.publish()
    assert list(settled(tasks)) == [scales_name("ranker")]
    tasks.pass_time(0, 2)
    exporter.publish()
    assert list(settled(tasks)) == [scales_name("ranker")]
    tasks.pass_time(1, 2)
    exporter.publish()
    assert settled(tasks) == {}


def test_a_scale_stays_while_some_task_has_not_been_heard_of() -> None:
    tasks = Tasks()
    tasks.show(0, 0, *users("0"))
    for days in (0, 3):
        tasks.pass_time(0, days)
        published(tasks)
        assert list(settled(tasks)) == [scales_name("ranker")]


def test_no_scale_is_settled_while_some_tasks_do_not_count_experiments() -> None:
    tasks = Tasks()
    tasks.machines[1] = Machine(engine_of(SETTINGS), SETTINGS)
    for task in (0, 1):
        tasks.show(task, 0, *users(str(task)))
        tasks.pass_time(task, 0)
    assert published(tasks) == {}
    assert settled(tasks) == {}


def test_scales_are_of_a_life_that_began_while_the_one_that_they_were_settled_for_could_go_on() -> None:
    scales = SettledScales(10)
    scales.take({scales_name("ranker"): encode_scales(Scales(100, {"mrr@1": 0.5}))})
    assert [dict(scales.of("ranker", MergedRun(first, 200))) for first in (110, 111)] == [{"mrr@1": 0.5}, {}]


def test_one_who_is_behind_adds_a_scale_and_leaves_how_long_the_life_has_lasted() -> None:
    scales = SettledScales(10)
    scales.take({scales_name("ranker"): encode_scales(Scales(100, {"mrr@1": 0.5}))})
    ((_, after),) = scales.add("ranker", MergedRun(80, 95), {"mrr@3": 0.25}).values()
    assert after is not None
    assert decode_scales(after) == Scales(100, {"mrr@1": 0.5, "mrr@3": 0.25})


def test_a_new_life_of_an_experiment_has_a_scale_of_its_own_though_nobody_removed_the_old_one() -> None:
    tasks = Tasks()
    for task in (0, 1):
        tasks.show(task, 0, *users(str(task)))
        tasks.pass_time(task, 0)
    before = scale_of(published(tasks)["ranker"])
    tasks.show(0, 3, *users("0", 40))  # the other task still holds the old life
    tasks.pass_time(0, 3)
    after = scale_of(published(tasks)["ranker"])
    assert before is not None
    assert after is not None
    assert before != after
    tasks.pass_time(1, 3)
    assert scale_of(published(tasks)["ranker"]) == after


def test_an_exporter_that_slept_cannot_remove_the_scale_of_a_life_that_has_begun_meanwhile() -> None:
    tasks, reports = Tasks(), list[Report]()
    for task in (0, 1):
        tasks.show(task, 0, *users(str(task)))
        tasks.pass_time(task, 0)
    sleeper = publisher_of(tasks, reports)
    sleeper.publish()
    for task in (0, 1):
        tasks.pass_time(task, 2)
    tasks.seen = tasks.view(range(2), {}, {})  # what the sleeper reads before it sleeps: nobody knows the experiment
    for task in (0, 1):
        tasks.show(task, 3, *users(str(task), 40))
        tasks.pass_time(task, 3)
    asleep, tasks.seen = tasks.seen, None
    begun = scale_of(published(tasks)["ranker"])
    tasks.seen = asleep
    sleeper.publish()
    tasks.seen = None
    assert scale_of(published(tasks)["ranker"]) == begun


def test_a_scale_stays_though_the_life_went_from_one_task_to_another_while_an_exporter_read_them() -> None:
    tasks, reports = Tasks(), list[Report]()
    tasks.show(0, 0, *users("0"))
    for task in (0, 1):
        tasks.pass_time(task, 0)
    slow = publisher_of(tasks, reports)
    slow.publish()
    before = scale_of(since_start(reports[-1])["ranker"])
    assert before is not None
    tasks.pass_time(1, 0.9)
    earlier = tasks.view([1], {}, {})
    tasks.show(1, 0.95, *users("1", 40))
    for task in (0, 1):
        tasks.pass_time(task, 1.1)
    tasks.seen = {**tasks.view([0], {}, {}), **earlier}
    slow.publish()
    assert reports[-1].experiments == ()
    tasks.seen = None
    assert scale_of(published(tasks)["ranker"]) == before


def test_a_reader_takes_no_scale_that_is_settled_after_it_has_read_the_tasks() -> None:
    tasks = Tasks()
    for task in (0, 1):
        tasks.show(task, 0, *users(str(task)))
        tasks.pass_time(task, 0)
    begun = scale_of(published(tasks)["ranker"])

    class Overtaken(Tasks):
        """The same to a reader, whom another life of the experiment, with an exporter of its own, overtakes."""

        def view(self, *wanted):  # type: ignore[no-untyped-def]
            found = tasks.view(*wanted)
            for task in (0, 1):
                tasks.show(task, 3, *users(str(task), 40))
                tasks.pass_time(task, 3)
            published(tasks)
            return found

        def compare_and_set(self, changes):  # type: ignore[no-untyped-def]
            return tasks.compare_and_set(changes)

    builder = builder_of()
    read_committed(Overtaken(), builder, 2)
    assert scale_of(since_start(builder.report(2))["ranker"]) == begun != scale_of(published(tasks)["ranker"])


def test_two_exporters_that_look_at_different_times_agree_on_the_first_scale() -> None:
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


def test_a_new_exporter_of_an_experiment_that_a_silent_task_left_keeps_the_scale() -> None:
    """The task in which the scale was chosen has let go of its users; the life goes on in the other, which began later."""
    tasks = Tasks()
    tasks.show(1, 0, *users("1"))
    tasks.pass_time(0, 0)
    tasks.pass_time(1, 0)
    found = [scale_of(published(tasks)["ranker"])]
    for turn in range(1, 6):
        days = 0.8 * turn - 0.4
        tasks.show(0, days, *users(f"0-{turn}", 5 * turn))
        for task in (0, 1):
            tasks.pass_time(task, days)
        found.append(scale_of(published(tasks)["ranker"]))
    assert found[0] is not None
    assert set(found) == {found[0]}
