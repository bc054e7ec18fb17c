"""Tests of switching experiments on and off: windows continue, and no list in between is missed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.engine.engine import Engine
from streammetrics.engine.task_state import decode_control
from streammetrics.enrolment.rules import ExperimentRules, Span
from streammetrics.errors import StateError
from streammetrics.events.event_time import NEVER
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.rules import ReportRules
from streammetrics.windows.panes import WindowRules
from tests.support.brute_force import assert_equals_brute_force, grades_text
from tests.support.enrolments import DAY_MS, DUE_MAX, NOON_MS, RANKER, RULES, SETTINGS, clicked, expected, feed, found, kept, shown
from tests.support.experiment_tasks import Tasks, exposed, publisher_of, since_start
from tests.support.machine import Machine, engine_of
from tests.support.store_contract import ALL_DUE
from tests.support.strategies import Case, cases

ON = engine_of(SETTINGS, experiments=ExperimentRules(idle_ms=DAY_MS))
OFF = engine_of(SETTINGS)
END_MS = NOON_MS + 100_000


def switch(machine: Machine, engine: Engine) -> None:
    """Commit, then restart with another engine."""
    machine.commit()
    machine.engine = engine
    machine.open()


def newest(machine: Machine) -> int:
    return decode_control(machine.store.view([0], {})[0].control).progress.newest


@given(st.data(), cases(), RULES, DUE_MAX, st.booleans(), st.booleans())
def test_after_switches_windows_and_experiments_equal_brute_force(
    data: st.DataObject, case: Case, rules: ExperimentRules, due_max: int, was_on: bool, flush: bool
) -> None:
    on, off = (engine_of(case.settings, grades_text(case), experiments=experiments) for experiments in (rules, None))
    machine = Machine(on if was_on else off, case.settings, due_max=due_max)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(case.steps)), min_size=2, max_size=3)))
    for cut, engine in zip(cuts, (off, on, off) if was_on else (on, off, on), strict=False):
        machine.feed_all(case.steps[:cut], data)
        switch(machine, engine)
    if machine.engine is off:
        switch(machine, on)
    since = newest(machine) + 1
    machine.feed_all(case.steps, data)
    machine.finish(flush)
    assert_equals_brute_force(machine, case, flush=flush)
    spans = {name: Span(since if since > NEVER + 1 else None) for name in ("ranker", "layout")}
    counted = ExperimentRules(idle_ms=rules.idle_ms, patience_ms=rules.patience_ms, spans=spans)
    assert found(machine) == expected(case, machine, counted, flush=flush)
    if flush:
        assert machine.store.load(0, (), ALL_DUE, ("u", "v")).totals == {}


def test_lists_from_before_experiments_were_switched_on_do_not_count() -> None:
    settings = replace(SETTINGS, lateness_ms=100)
    machine = Machine(engine_of(settings), settings)
    feed(machine, shown("u", NOON_MS, RANKER))
    switch(machine, engine_of(settings, experiments=ExperimentRules(idle_ms=DAY_MS)))
    feed(machine, shown("w", NOON_MS - 1, RANKER), shown("v", NOON_MS + 1, RANKER))  # the first one is not late
    machine.open()
    feed(machine, shown("u", NOON_MS + 2, RANKER), shown("clock", NOON_MS + 10_000))
    scope = found(machine)["ranker", None]
    assert scope.first_list_users == {"a": 2}
    assert scope.sums["a", "ndcg@1"][:3] == (2, 0, 2)


def test_a_list_after_uncounted_ones_is_enrolled_when_its_pane_is_final() -> None:
    """Feedback keeps the session open. The uncounted list alone would make the user due only when the session closes."""
    machine = Machine(OFF, SETTINGS)
    feed(machine, shown("u", NOON_MS, RANKER))
    switch(machine, ON)
    feed(machine, shown("u", NOON_MS + 50, RANKER), clicked("u", NOON_MS + 700), clicked("u", NOON_MS + 1_000))
    assert machine.state.sessions.open == 1
    assert machine.state.enrolments.enrolled_before == NOON_MS + 500
    assert found(machine)["ranker", None].first_list_users == {"a": 1}


def test_switching_experiments_off_removes_user_totals_from_the_store() -> None:
    machine = Machine(ON, SETTINGS)
    names = [f"u{number}" for number in range(5)]
    feed(machine, *(shown(name, NOON_MS + number, RANKER) for number, name in enumerate(names)), shown("clock", NOON_MS + 10_000))
    totals, _, cells = kept(machine, *names)
    assert (set(totals), set(cells)) == (set(names), {"1", "1/e20000", "1/h480012", "1:20000", "1:20000/e20000", "1:20000/h480012"})
    switch(machine, OFF)
    feed(machine, shown("clock", NOON_MS + 20_000))
    assert kept(machine, *names)[2] == {}
    feed(machine, shown("clock", NOON_MS + 2 * DAY_MS), shown("clock", NOON_MS + 2 * DAY_MS + 10_000))
    assert kept(machine, *names) == ({}, ["clock"], {})


def test_measures_are_not_read_from_the_text_of_the_rules() -> None:
    grades = "click=1, open experiments[tab=1"
    on, off = (engine_of(SETTINGS, grades, experiments=rules) for rules in (ExperimentRules(idle_ms=DAY_MS), None))
    machine = Machine(on, SETTINGS)
    feed(machine, shown("u", NOON_MS, RANKER))
    for engine in (off, on, off):
        switch(machine, engine)
        assert machine.state.changed
    with pytest.raises(StateError, match="state of other rules"):
        switch(machine, engine_of(replace(SETTINGS, gap_ms=SETTINGS.gap_ms + 1), grades))


def test_experiments_with_other_metrics_are_rejected_with_what_to_do() -> None:
    machine = Machine(ON, SETTINGS)
    feed(machine, shown("u", NOON_MS, RANKER))
    with pytest.raises(
        StateError, match=r"measured by other metrics: set experiments\.metrics back.*\n  experiments\.metrics: stored ndcg@1, "
    ):
        switch(machine, engine_of(SETTINGS, experiments=ExperimentRules(idle_ms=DAY_MS, metrics=("mrr@1",))))


def test_a_switch_is_committed_without_events() -> None:
    machine = Machine(ON, SETTINGS)
    feed(machine, shown("u", NOON_MS, RANKER), shown("clock", NOON_MS + 10_000))
    switch(machine, OFF)
    assert machine.state.changed
    machine.commit()
    assert kept(machine)[2] == {}
    machine.open()
    assert not machine.state.changed


def test_totals_from_before_a_pause_are_not_restored_after_it() -> None:
    machine = Machine(ON, SETTINGS)
    feed(machine, shown("u", NOON_MS, RANKER), shown("clock", NOON_MS + 10_000))
    switch(machine, OFF)
    feed(machine, shown("u", NOON_MS + 20_000, (("ranker", "b"),)), shown("clock", NOON_MS + 30_000))
    switch(machine, ON)
    feed(machine, shown("u", NOON_MS + 40_000, (("ranker", "c"),)), shown("clock", NOON_MS + 50_000))
    scope = found(machine)["ranker", None]
    assert (scope.first_list_users, scope.moves) == ({"c": 1}, {})


def test_other_measures_are_rejected_with_both_ways_out() -> None:
    machine = Machine(ON, SETTINGS)
    feed(machine, shown("u", NOON_MS, RANKER))
    other = engine_of(SETTINGS, experiments=ExperimentRules(metrics=("mrr@1",)))
    with pytest.raises(StateError, match=r"experiments\.enabled = false.*or start a new redis\.namespace"):
        switch(machine, other)
    switch(machine, OFF)
    machine.commit()
    switch(machine, other)
    feed(machine, shown("u", NOON_MS + 5_000, RANKER), shown("clock", NOON_MS + 20_000))
    assert {measure for _, measure in found(machine)["ranker", None].sums} == {"mrr@1"}


def ending(end_ms: int | None) -> Engine:
    return engine_of(SETTINGS, experiments=ExperimentRules(idle_ms=DAY_MS, spans={"ranker": Span(None, end_ms)}))


@pytest.mark.parametrize(
    ("later", "message"), [(END_MS + 100_000, f"ends at {END_MS + 100_000}"), (END_MS + 1, f"ends at {END_MS + 1}"), (None, "has none")]
)
def test_an_ended_experiment_cannot_get_a_later_end(later: int | None, message: str) -> None:
    machine = Machine(ending(END_MS), SETTINGS)
    feed(machine, shown("u", NOON_MS, RANKER), shown("clock", NOON_MS + 10_000))
    switch(machine, ending(END_MS + 50_000))  # it has not ended yet
    feed(machine, shown("u", NOON_MS + 20_000, RANKER), shown("clock", NOON_MS + 30_000))
    assert found(machine)["ranker", None].first_list_users == {"a": 1}
    switch(machine, ending(END_MS))
    feed(machine, shown("u", END_MS + 1_000, RANKER), shown("clock", END_MS + 10_000))
    with pytest.raises(StateError, match=rf"'ranker' has ended at {END_MS} \(epoch ms\) and now {message}: .*another name"):
        switch(machine, ending(later))
    machine.engine = ending(END_MS - 1)
    machine.open()
    assert found(machine)["ranker", None].first_list_users == {"a": 1}


@pytest.mark.parametrize("experiments", [None, ExperimentRules(idle_ms=DAY_MS)])
def test_rules_that_change_windows_are_rejected_with_any_experiments(experiments: ExperimentRules | None) -> None:
    machine = Machine(ON, SETTINGS)
    feed(machine, shown("u", NOON_MS, RANKER))
    with pytest.raises(StateError, match=r"use a new redis\.namespace"):
        switch(machine, engine_of(SETTINGS, "click=2", experiments=experiments))


def test_experiments_are_not_shown_until_all_tasks_are_switched() -> None:
    tasks = Tasks()
    for task in (0, 1):
        tasks.show(task, 0, f"{task}-c", f"{task}-t")
        tasks.pass_time(task, 0)
    exporter = publisher_of(tasks, [])
    before = exporter.publish()
    assert exposed(since_start(before)["ranker"]) == {"control": 2, "treatment": 2}
    switch(tasks.machines[1], OFF)
    tasks.machines[1].commit()
    mixed = exporter.publish()
    assert mixed is not None
    assert (mixed.experiments, mixed.entered_ms) == ((), None)
    assert mixed.windows == before.windows if before else False
    switch(tasks.machines[1], tasks.machines[0].engine)
    tasks.show(1, 0.1, "new-c")
    tasks.pass_time(1, 0.1)
    assert exposed(since_start(exporter.publish())["ranker"]) == {"control": 2, "treatment": 1}


@pytest.mark.parametrize("counting", [ON, OFF])
def test_an_exporter_shows_windows_of_workers_with_other_experiment_rules(counting: Engine) -> None:
    machine = Machine(counting, SETTINGS)
    feed(machine, shown("u", NOON_MS, RANKER), shown("clock", NOON_MS + 10_000))
    shower = OFF if counting is ON else ON
    report_rules = (
        None
        if shower.user_totals is None
        else ReportRules(shower.user_totals.measures, lambda name: pytest.fail("nothing is shown"), DAY_MS)
    )
    rules = WindowRules(pane_ms=100, windows_ms=(100,), lateness_ms=0, attribution_ms=500)
    builder = ReportBuilder(shower.layout, rules, {}, shower.signature, report_rules)
    stored = machine.store.view([0], {})[0]
    builder.update(0, stored)
    report = builder.report(1)
    assert report.experiments == ()
    assert [total.tally[0] for total in report.totals if not total.experiment] == [1]
    assert builder.experiments.scale_changes(1) == {}
