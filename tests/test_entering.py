"""What users add to experiments, against brute force: the same whole numbers, whatever the order, the batches and the crashes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.engine import Engine
from streammetrics.lives import WHOLE, ExperimentRules, Span
from streammetrics.report import Ledger
from tests.machine import Machine, engine_of
from tests.oracle import judge
from tests.oracle.experiments import Scope, Sums, experiments
from tests.strategies import Case, batches, cases, interleavings, tiny_session_cases
from tests.test_engine import grades_text, scores_of

FOR_EVER_MS = 1 << 50
DUE_MAX = st.sampled_from((1, 1_000))


def machine_for(case: Case, rules: ExperimentRules, due_max: int = 1_000, **limits: int) -> Machine:
    return Machine(engine_of(case.settings, grades_text(case), experiments=rules, **limits), case.settings, due_max=due_max)


def found(machine: Machine) -> dict[tuple[str, int | None], Scope]:
    machine.report()
    return scopes_of(machine.ledger, machine.engine, 1)


def scopes_of(ledger: Ledger, engine: Engine, tasks: int) -> dict[tuple[str, int | None], Scope]:
    """What is stored of every experiment, as the oracle says it."""
    assert engine.users is not None
    measures = engine.users.measures
    scopes: dict[tuple[str, int | None], Scope] = {}
    for (name, day), kept in ledger.stored(tasks).items():
        sums: dict[tuple[str, str], Sums] = {}
        for variant, moments in kept.moments.items():
            for measure in measures:
                at = measures.places(measure)
                row = (moments[at.users], moments[at.y], moments[at.d], moments[at.yy], moments[at.dd], moments[at.yd])
                if any(row):
                    sums[variant, str(measure)] = row
        scope = Scope(sums, dict(kept.first_exposures), kept.multi_exposed_users)
        scopes[name, None if day == WHOLE else day] = scope
    return scopes


def expected(case: Case, machine: Machine, rules: ExperimentRules, *, flush: bool) -> dict[tuple[str, int | None], Scope]:
    score = scores_of(machine.engine.layout.scorer)
    result, before = (judge(case.steps, case.settings, score, flush=end).tasks[0] for end in (flush, False))
    spans = {
        name: (float("-inf") if span.start_ms is None else span.start_ms, float("inf") if span.end_ms is None else span.end_ms)
        for name, span in rules.spans.items()
    }
    return experiments(case.steps, result, case.settings, score, idle_ms=rules.idle_ms, spans=spans, flush=flush, w_ms=before.w_ms)


RULES = st.builds(ExperimentRules, idle_ms=st.sampled_from((FOR_EVER_MS, 20, 3)))


@given(cases(), RULES, st.booleans())
def test_one_batch_equals_brute_force(case: Case, rules: ExperimentRules, flush: bool) -> None:
    machine = machine_for(case, rules)
    machine.take(case.steps)
    machine.finish(flush)
    assert found(machine) == expected(case, machine, rules, flush=flush)


@given(st.data(), cases(), RULES, DUE_MAX, st.booleans())
def test_any_batches_commits_and_crashes_equal_brute_force(
    data: st.DataObject, case: Case, rules: ExperimentRules, due_max: int, flush: bool
) -> None:
    machine = machine_for(case, rules, due_max)
    crashes = data.draw(st.integers(0, 4))
    while machine.position < len(case.steps):
        machine.take(case.steps[machine.position : machine.position + data.draw(st.integers(1, 8))])
        fate = data.draw(st.sampled_from(["go on", "commit", "commit", "crash", "lost reply"]))
        if fate == "commit":
            machine.commit()
        elif fate == "crash" and crashes:
            crashes -= 1
            machine.open()
        elif fate == "lost reply":
            commit = machine.prepare()
            machine.store.commit(commit)
            assert machine.store.commit(commit).value == "already"
            machine.committed()
    machine.finish(flush)
    assert found(machine) == expected(case, machine, rules, flush=flush)


@given(st.data(), cases(without=("ticks",)), RULES)
def test_the_interleaving_of_inputs_does_not_matter(data: st.DataObject, case: Case, rules: ExperimentRules) -> None:
    other = data.draw(interleavings(case))
    one, two = machine_for(case, rules), machine_for(other, rules)
    for machine, steps in ((one, case.steps), (two, other.steps)):
        machine.take(steps)
        machine.finish(flush=True)
    assert found(one) == found(two)


@given(st.data(), tiny_session_cases(), RULES)
def test_sealed_sessions_equal_brute_force_in_any_batches(data: st.DataObject, case: Case, rules: ExperimentRules) -> None:
    machine = machine_for(case, rules)
    for batch in data.draw(batches(case.steps)):
        machine.take(batch)
        if data.draw(st.booleans()):
            machine.commit()
    machine.finish(flush=True)
    assert found(machine) == expected(case, machine, rules, flush=True)


@given(cases(), RULES)
def test_after_a_flush_nothing_of_a_user_stays(case: Case, rules: ExperimentRules) -> None:
    machine = machine_for(case, rules)
    for step in case.steps:
        machine.take([step])
        machine.commit()
    machine.finish(flush=True)
    loaded = machine.store.load(0, ("u", "v"), 1 << 62, 1_000, ("u", "v"))
    assert (loaded.users, loaded.due, loaded.totals) == ({}, [], {})
    assert machine.state.users == {}


SPANS = st.dictionaries(
    st.sampled_from(("ranker", "layout")),
    st.builds(Span, st.sampled_from((None, 5, 1_732_183_200_007)), st.sampled_from((None, 12, 1_732_183_200_016))),
)


@given(st.data(), cases(), SPANS, DUE_MAX)
def test_only_lists_of_the_time_that_is_set_count(data: st.DataObject, case: Case, spans: dict[str, Span], due_max: int) -> None:
    rules = ExperimentRules(idle_ms=FOR_EVER_MS, spans=spans)
    machine = machine_for(case, rules, due_max)
    for batch in data.draw(batches(case.steps)):
        machine.take(batch)
        if data.draw(st.booleans()):
            machine.commit()
    machine.finish(flush=False)
    assert found(machine) == expected(case, machine, rules, flush=False)
