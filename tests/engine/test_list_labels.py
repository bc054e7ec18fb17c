"""Lists with the variants of their users' exposures, against brute force: equal for any order of arrival, any batches and any crashes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.enrolment.rules import ExperimentRules
from streammetrics.events.model import Exposure, Impression
from streammetrics.windows.panes import Group
from tests.oracle import Arrival, Settings, expected_result
from tests.oracle import Group as OracleGroup
from tests.support.brute_force import assert_equals_brute_force, machine_for
from tests.support.enrolments import DUE_MAX, RULES, expected, found
from tests.support.enrolments import machine_for as machine_with_experiments
from tests.support.machine import Machine, counts_of, engine_of
from tests.support.strategies import Case, batches, cases, interleavings

CASES = cases(exposures=True)


@given(CASES, st.booleans())
def test_one_batch_equals_brute_force(case: Case, flush: bool) -> None:
    machine = machine_for(case)
    machine.feed(case.steps)
    machine.finish(flush)
    assert_equals_brute_force(machine, case, flush=flush)


@given(st.data(), CASES, st.booleans())
def test_any_batches_commits_and_crashes_equal_brute_force(data: st.DataObject, case: Case, flush: bool) -> None:
    machine = machine_for(case)
    machine.feed_all(case.steps, data)
    machine.finish(flush)
    assert_equals_brute_force(machine, case, flush=flush)


@given(st.data(), CASES)
def test_totals_have_all_lists_of_their_variants(data: st.DataObject, case: Case) -> None:
    machine = machine_for(case)
    machine.feed_all(case.steps, data)
    machine.finish(flush=True)
    wanted: Counter[tuple[str, str]] = Counter()
    for (_, group), tally in expected_result(case.steps, case.settings, flush=True).panes.items():
        if not group.segments:
            wanted[group.experiment, group.variant] += tally.lists
    assert {(total.experiment, total.variant): total.tally[0] for total in machine.report().totals} == wanted


LIMITS = st.fixed_dictionaries(
    {
        "groups_max": st.sampled_from([1, 3, 6]),
        "retention_ms": st.sampled_from([1, 30]),
        "exposures_max": st.sampled_from([1, 2, 1_000]),
        "lists_open_max": st.just(1_000),
    }
)


@given(st.data(), CASES, LIMITS, st.sampled_from([1, 2, 200]), DUE_MAX)
def test_tight_limits_change_no_number_of_all_traffic(
    data: st.DataObject, case: Case, limits: dict[str, int], variants_max: int, due_max: int
) -> None:
    rules = ExperimentRules(idle_ms=20, variants_max=variants_max)
    machine = machine_with_experiments(case, rules, due_max, **limits)
    machine.feed_all(case.steps, data)
    machine.finish(flush=True)
    counts = {(final.start_ms, tally[0]) for final in machine.finals for group, tally in final.pane.items() if group == Group()}
    panes = expected_result(case.steps, case.settings, flush=True).panes
    assert counts == {(start, tally.lists) for (start, group), tally in panes.items() if group == OracleGroup()}


@given(st.data(), CASES, RULES, DUE_MAX, st.booleans())
def test_sums_of_experiments_equal_brute_force_in_any_batches_commits_and_crashes(
    data: st.DataObject, case: Case, rules: ExperimentRules, due_max: int, flush: bool
) -> None:
    machine = machine_with_experiments(case, rules, due_max)
    machine.feed_all(case.steps, data)
    machine.finish(flush)
    assert found(machine) == expected(case, machine, rules, flush=flush)
    assert_equals_brute_force(machine, case, flush=flush)


def test_a_user_counts_once_if_the_input_ends_between_two_of_their_exposures() -> None:
    """The first exposures are due just before the end, and the others after it: both counts need the user's record."""
    under = Settings(
        inputs=("lists", "exposures"), gap_ms=7, lateness_ms=2, attribution_ms=5, out_of_orderness_ms=0, support_jump_ms=0,
        support_users=1, support_far_ms=100, pane_ms=4, windows_ms=(4,), validity_ms=9,
    )  # fmt: skip
    exposed = [("v", 0), ("u", 2), ("v", 7)]
    steps = [Arrival("exposures", Exposure(user, ts, "ranker", "treatment")) for user, ts in exposed]
    steps += [Arrival("lists", Impression("w", "u", 7, ())), Arrival("exposures", Exposure("u", 7, "ranker", "treatment"))]
    case, rules = Case(under, tuple(steps)), ExperimentRules(idle_ms=1_000, patience_ms=0)
    machine = machine_with_experiments(case, rules, 1)
    machine.feed(steps[:2])
    machine.commit()
    for step in steps[2:]:
        machine.feed([step])
    machine.finish(flush=True)
    assert found(machine) == expected(case, machine, rules, flush=True)
    assert found(machine)["ranker", None].exposed == {(0, "treatment"): 2}


@pytest.mark.parametrize("experiments", [None, ExperimentRules()], ids=["not counted", "counted"])
@pytest.mark.parametrize("size", [1, 3])
def test_exposures_that_are_over_make_room_in_batches_of_any_size(size: int, experiments: ExperimentRules | None) -> None:
    under = Settings(
        inputs=("events",), gap_ms=7, lateness_ms=2, attribution_ms=5, out_of_orderness_ms=0, support_jump_ms=0,
        support_users=1, support_far_ms=100, pane_ms=4, windows_ms=(4,), validity_ms=9,
    )  # fmt: skip
    steps = [Arrival("events", Exposure(user, ts, "ranker", "treatment")) for user, ts in (("u", 0), ("v", 50), ("u", 51), ("u", 52))]
    machine = Machine(engine_of(under, experiments=experiments, exposures_max=1), under)
    for first in range(0, len(steps), size):
        machine.feed(steps[first : first + size])
        machine.commit()
    assert counts_of(machine) == {("events", "events"): 4, ("exposure", "events"): 3, ("too_many_exposures", "events"): 1}


@given(st.data(), cases(without=("ticks",), exposures=True))
def test_the_interleaving_of_inputs_does_not_matter(data: st.DataObject, case: Case) -> None:
    other = data.draw(interleavings(case))
    one, two = machine_for(case), machine_for(other)
    for machine, steps in ((one, case.steps), (two, other.steps)):
        machine.feed(steps)
        machine.finish(flush=True)
    assert one.tallies() == two.tallies()
    assert counts_of(one) == counts_of(two)


@given(st.data(), CASES)
def test_a_final_pane_never_changes_and_panes_become_final_in_order(data: st.DataObject, case: Case) -> None:
    machine = machine_for(case)
    for batch in data.draw(batches(case.steps)):
        machine.feed(batch)
        machine.commit()
    machine.finish(flush=True)
    starts = [final.start_ms for final in machine.finals]
    assert starts == sorted(set(starts))
    for final in machine.finals:
        stored = machine.aggregator.pane(final.start_ms) if machine.report() else {}
        assert final.pane == stored


@given(st.data(), CASES)
def test_no_user_is_left_at_the_end_and_only_users_with_sessions_are_open(data: st.DataObject, case: Case) -> None:
    machine = machine_for(case)
    for batch in data.draw(batches(case.steps)):
        machine.feed(batch)
        machine.commit()
        stored = machine.store.load(0, ("u", "v"), None).users
        report = machine.report()
        assert report.users_open + machine.state.sessions.without_sessions == len(stored)
        assert report.users_open <= report.sessions_open
    machine.finish(flush=True)
    assert (machine.report().users_open, machine.state.sessions.without_sessions, machine.state.sessions.users) == (0, 0, {})
