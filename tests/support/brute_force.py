"""Translates between the oracle and the product, and compares one task driven by hand with brute force."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple

from streammetrics.engine.engine import Engine
from streammetrics.enrolment.scopes import WHOLE
from streammetrics.experiments import CovarianceLayout, Measures, Stored, StoredStage
from streammetrics.experiments.measures import Measure
from streammetrics.metrics import TallyLayout
from streammetrics.reports.builder import ReportBuilder
from streammetrics.windows.unique_users import UniqueUserWindow
from tests.oracle import Result, Tally, expected_result
from tests.oracle.experiments import Scope, Sums
from tests.oracle.stages import Cell, Shared
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
    scopes: dict[tuple[str, int | None], Scope] = {}
    for (name, day), kept in builder.experiments.stored(tasks).items():
        sums: dict[tuple[str, str], Sums] = {}
        covariates: dict[tuple[str, str], tuple[int, ...]] = {}
        for variant, moments in kept.moments.items():
            wide = engine.user_totals.measures.with_covariates
            measures = wide if len(moments) == wide.moments_width else wide.plain
            for measure in measures:
                if measures.covariates and any(more := [moments[place] for place in astuple(measures.covariate_places(measure))]):
                    covariates[variant, str(measure)] = tuple(more)
                row = _sums(measures, measure, moments)
                if any(row):
                    sums[variant, str(measure)] = row
        credits = {pair: tuple(moments) for pair, moments in kept.credits.items() if any(moments)}
        scope = Scope(sums, covariates, credits, dict(kept.first_exposures), multi_exposed=kept.multi_exposed_users)
        scope.exposed, scope.arrivals, scope.hours = dict(kept.exposed), _flat(kept.arrivals.counts), _flat(kept.recent_lists)
        scope.reactions = {variant: tuple(each) for variant, each in kept.reactions.items()}
        if kept.in_cells:
            scope.stages = {(each.entry, each.key): _stage_scope(each, engine.user_totals.measures) for each in kept.stages}
            scope.pairs = _pairs(kept, engine.user_totals.measures)
        scopes[name, None if day == WHOLE else day] = scope
    return scopes


def _stage_scope(stage: StoredStage, measures: Measures) -> Scope:
    sums = {(variant, str(measure)): _sums(measures, measure, own) for variant, own in stage.moments.items() for measure in measures}
    found = {key: row for key, row in sums.items() if any(row)}
    first, arrivals = dict(stage.first_exposures), _flat(stage.arrivals.counts)
    return Scope(found, first_exposures=first, arrivals=arrivals, multi_exposed=stage.multi_exposed_users)


def _flat(counts: Mapping[str, Mapping[int, int]]) -> dict[tuple[str, int], int]:
    return {(variant, block): count for variant, blocks in counts.items() for block, count in blocks.items()}


def _sums(measures: Measures, measure: Measure, moments: Sequence[int]) -> Sums:
    at = measures.places(measure)
    return moments[at.users], moments[at.y], moments[at.d], moments[at.yy], moments[at.dd], moments[at.yd]


def _pairs(kept: Stored, measures: Measures) -> dict[tuple[Cell, Cell], dict[str, Shared]]:
    layout = CovarianceLayout(measures)
    return {
        pair: {str(each): (sums[0], *(sums[place] for place in layout.places(each))) for each in measures}
        for pair, sums in kept.pairs.items()
        if any(sums)
    }


def users_shown(windows: Iterable[UniqueUserWindow]) -> Shown:
    assert all(window.complete for window in windows)
    return {
        (window.window_ms, window.end_ms): {each.arm: (each.users, dict(each.users_with_hit)) for each in window.arms} for window in windows
    }
