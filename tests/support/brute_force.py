"""Translates between the oracle and the product, and compares one task driven by hand with brute force."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple

from streammetrics.engine.engine import Engine
from streammetrics.enrolment.scopes import WHOLE
from streammetrics.experiments import CovarianceLayout, Measures, StoredSums
from streammetrics.metrics import TallyLayout
from streammetrics.reports.builder import ReportBuilder
from streammetrics.statistics.measures import LISTS, Measure
from streammetrics.windows.unique_users import UniqueUserWindow
from tests.oracle import Result, Tally, expected_result
from tests.oracle.experiments import Scope, Sums
from tests.oracle.users import Users
from tests.support.machine import Machine, counts_of, engine_of
from tests.support.strategies import Case

FOR_EVER_MS = 1 << 50
Shown = dict[tuple[int, int | None], Users]
"""Unique users by window length and window end."""


def expected(case: Case, machine: Machine, *, flush: bool) -> Result:
    return expected_result(case.steps, case.settings, flush=flush)


def row_of(tally: Tally, machine: Machine) -> list[int]:
    layout = machine.engine.layout
    row = [tally.lists, tally.lists_with_feedback]
    for column in layout.scorer.columns:
        name = str(column.metric)
        row.append({"sum": tally.sums, "hits": tally.hits, "places": tally.places}[column.kind][name])
    row.extend(tally.places_with_feedback[str(layout.scorer.columns[index].metric)] for index in layout.place_columns)
    return row + engagement_row(tally, layout)


def engagement_row(tally: Tally, layout: TallyLayout) -> list[int]:
    """Return the columns of engagement and assessment metrics."""
    row, bounds = [], [-1]
    for column in () if layout.engagement is None else layout.engagement.columns:
        if column.kind == "bucket":
            bounds.append(column.metric.k or FOR_EVER_MS)
            row.append(sum(count for delay, count in tally.delays.items() if bounds[-2] < delay <= bounds[-1]))
        else:
            row.append(tally.engagement[str(column.metric)][column.kind == "denominator"])
    return row


def grades_text(case: Case) -> str:
    return ", ".join(
        f"{rule.action}={rule.grade}" if rule.at_least is None else f"{rule.action}>={rule.at_least}={rule.grade}"
        for rule in case.settings.rules
    )


def machine_for(case: Case) -> Machine:
    return Machine(engine_of(case.settings, grades_text(case)), case.settings)


def assert_equals_brute_force(machine: Machine, case: Case, *, flush: bool) -> None:
    result = expected(case, machine, flush=flush)
    assert counts_of(machine) == result.counters
    assert machine.tallies() == {key: row_of(tally, machine) for key, tally in result.panes.items()}
    assert_windows_equal(machine, result)


def assert_windows_equal(machine: Machine, result: Result) -> None:
    for window in machine.report().windows:
        wanted = result.windows[window.window_ms, window.view]
        assert window.end_ms == wanted.end_ms
        assert window.complete
        assert {
            (group.group.experiment, group.group.variant, tuple(group.group.segments.items())): group.lists for group in window.groups
        } == {tuple(group): tally.lists for group, tally in wanted.groups.items()}


def scopes_of(builder: ReportBuilder, engine: Engine, tasks: int) -> dict[tuple[str, int | None], Scope]:
    """Return the stored state of every experiment, in the oracle's types."""
    assert engine.user_totals is not None
    return {
        (name, None if day == WHOLE else day): _scope(kept, engine.user_totals.measures)
        for (name, day), kept in builder.experiments.stored(tasks).items()
    }


def _scope(kept: StoredSums, plain: Measures) -> Scope:
    scope, wide = Scope(first_list_users=dict(kept.first_list_users)), plain.with_covariates
    for variant, moments in kept.moments.items():
        measures = wide if len(moments) == wide.moments_width else plain
        for measure in measures:
            has_covariate = measures.covariates and measure.kind != "users"
            if has_covariate and any(more := [moments[place] for place in astuple(measures.covariate_places(measure))]):
                scope.covariates[variant, str(measure)] = tuple(more)
            if any(row := _sums(measures, measure, moments)):
                scope.sums[variant, str(measure)] = row
    for (variant, entry), moments in kept.entry_moments.sums.items():
        measures = wide if len(moments) == wide.moments_width else plain
        scope.entries |= {(variant, str(measure), tuple(entry)): _sums(measures, measure, moments) for measure in measures}
    scope.credits = {pair: tuple(moments) for pair, moments in kept.credits.items() if any(moments)}
    scope.users = {(variant, tuple(entry)): tuple(sums) for (variant, entry), sums in kept.entry_users.sums.items()}
    scope.reactions = {variant: tuple(sums) for variant, sums in kept.reactions.items()}
    scope.reacting = {variant: users for variant, users in kept.reacting.items() if any(users)}
    assert kept.hours.length == 1
    for block, row in kept.hours.rows.items():
        scope.new_users |= {(block, variant): users for variant, users in row.new_users.items()}
        scope.exposed |= {(block, variant): users for variant, users in row.exposed.items()}
        scope.moves |= {(block, *pair): users for pair, users in row.moves.items()}
        scope.values |= {(block, *key, variant): users for key, variants in row.values.items() for variant, users in variants.items()}
        for (variant, entry), totals in row.totals.items():
            scope.hours[block, variant, tuple(entry)] = (
                totals[0],
                {str(measure): _columns(plain, measure, totals) for measure in plain.of_lists},
            )
    layout = CovarianceLayout(plain)
    scope.pairs = {
        pair: {str(measure): (sums[0], *(sums[place] for place in layout.places(measure))) for measure in plain}
        for pair, sums in kept.pairs.items()
        if any(sums)
    }
    return scope


def _columns(measures: Measures, measure: Measure, totals: Sequence[int]) -> tuple[int, ...]:
    covariates = [totals[column] for column in measures.covariate_columns_of(measure)] if len(totals) > measures.totals_width else [0, 0]
    return totals[measure.top - LISTS], totals[measure.bottom - LISTS], *covariates


def _sums(measures: Measures, measure: Measure, moments: Sequence[int]) -> Sums:
    at = measures.places(measure)
    return moments[at.users], moments[at.y], moments[at.d], moments[at.yy], moments[at.dd], moments[at.yd]


def users_shown(windows: Iterable[UniqueUserWindow]) -> Shown:
    assert all(window.complete for window in windows)
    return {
        (window.window_ms, window.end_ms): {arm.arm: (arm.users, dict(arm.users_with_hit)) for arm in window.arms} for window in windows
    }
