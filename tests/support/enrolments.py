"""Tasks with experiments, driven by hand, and what brute force expects them to store."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from streammetrics.connectors.store import Store
from streammetrics.enrolment.rules import ExperimentRules
from streammetrics.enrolment.scopes import EXPERIMENTS
from streammetrics.events.model import Feedback, Impression
from tests.oracle import Arrival, Settings, expected_result
from tests.oracle.experiments import Scope, Times, experiments
from tests.support.brute_force import FOR_EVER_MS, grades_text, scopes_of
from tests.support.machine import Machine, engine_of
from tests.support.store_contract import ALL_DUE
from tests.support.strategies import Case

DUE_MAX = st.sampled_from((1, 1_000))
IDLE, PATIENCE = st.sampled_from((FOR_EVER_MS, 20, 3)), st.sampled_from((0, 4, 12))
RULES = st.builds(ExperimentRules, idle_ms=IDLE, patience_ms=PATIENCE)
DAY_MS = 86_400_000
SETTINGS = Settings(inputs=("events",), gap_ms=1_000, lateness_ms=0, attribution_ms=500, pane_ms=100, windows_ms=(100,))
NOON_MS = 20_000 * DAY_MS + DAY_MS // 2
RANKER = (("ranker", "a"),)


def machine_for(case: Case, rules: ExperimentRules, due_max: int = 1_000, **limits: int) -> Machine:
    return Machine(engine_of(case.settings, grades_text(case), experiments=rules, **limits), case.settings, due_max=due_max)


def found(machine: Machine) -> dict[tuple[str, int | None], Scope]:
    machine.report()
    return scopes_of(machine.builder, machine.engine, 1)


def expected(case: Case, machine: Machine, rules: ExperimentRules, *, flush: bool) -> dict[tuple[str, int | None], Scope]:
    result, before = (expected_result(case.steps, case.settings, flush=end).tasks[0] for end in (flush, False))
    times = {
        name: Times(
            float("-inf") if span.start_ms is None else span.start_ms,
            float("inf") if span.end_ms is None else span.end_ms,
            next(((earlier_run.from_ms, earlier_run.start_ms) for earlier_run in rules.earlier if earlier_run.experiment == name), None),
            rules.strata.get(name),
        )
        for name in (*rules.spans, *rules.strata, *(earlier_run.experiment for earlier_run in rules.earlier))
        for span in [rules.span(name)]
    }
    return experiments(
        case.steps,
        result,
        case.settings,
        idle_ms=rules.idle_ms,
        patience_ms=rules.patience_ms,
        times=times,
        flush=flush,
        w_ms=before.w_ms,
    )


def shown(
    user: str,
    ts: int,
    experiments: tuple[tuple[str, str], ...] = (),
    items: tuple[str, ...] = ("i",),
    segments: tuple[tuple[str, str], ...] = (),
) -> Arrival:
    return Arrival("events", Impression(f"{user}-{ts}", user, ts, items, experiments, segments))


def clicked(user: str, ts: int) -> Arrival:
    return Arrival("events", Feedback(user, ts, "i", "click"))


def machine_of(due_max: int = 1_000, store: Store | None = None, **rules: Any) -> Machine:
    limits = {name: rules.pop(name) for name in ("retention_ms",) if name in rules}
    return Machine(engine_of(SETTINGS, experiments=ExperimentRules(**rules), **limits), SETTINGS, store, due_max=due_max)


def feed(machine: Machine, *steps: Arrival) -> None:
    """Process each step in its own commit, then all due users."""
    for step in steps:
        machine.feed([step])
        machine.commit()
    machine.finish(flush=False)


def kept(machine: Machine, *users: str) -> tuple[dict[str, bytes], list[str], dict[str, bytes]]:
    """Return the stored totals of users, all due users, and all cells."""
    loaded = machine.store.load(0, (), ALL_DUE, users)
    return dict(loaded.totals), list(loaded.due), dict(machine.store.view([0], {})[0].table(EXPERIMENTS))


def clock(ts: int) -> Arrival:
    return clicked("clock", ts)
