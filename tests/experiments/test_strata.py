"""Cells combined over stages equal a computation from each user's residuals; Simpson's paradox does not appear."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streammetrics.experiments import Cell, Policy, Stage, choose_scales
from streammetrics.experiments.estimates import Estimate, lift_interval, log_evidence_below, two_sided, variance_of, z_value
from streammetrics.experiments.measures import Measure
from streammetrics.experiments.sequence import Mixture
from streammetrics.experiments.strata import Cells
from tests.experiments.columns import MEASURES, ONE, totals
from tests.experiments.stage_samples import ARMS, StageArm, Totals, cells_of, ramp, stored_cells

SHARES = {"control": 1.0, "treatment": 1.0}
STAGES = Policy(stages=(Stage(name="1", shares=SHARES), Stage(name="2", shares=SHARES, start_ms=500)))
KEYS = ("", "500")


def influence(users: Sequence[Mapping[Cell, Totals]], measure: Measure, weights: Mapping[Cell, float]) -> tuple[float, list[float]]:
    """The weighted mean, and what each user adds to its error, from their own totals."""
    rows = [{cell: MEASURES.row(own) for cell, own in user.items() if own[0]} for user in users]
    mean, parts = 0.0, [0.0] * len(users)
    for cell, weight in weights.items():
        own = [row[cell] for row in rows if cell in row]
        y, d = sum(row[measure.top] for row in own), sum(row[measure.bottom] for row in own)
        mean += weight * y / d / 2**measure.scale_bits
        for at, row in enumerate(rows):
            if cell in row:
                residual = (row[cell][measure.top] - y / d * row[cell][measure.bottom]) / d / 2**measure.scale_bits
                parts[at] += weight * residual * math.sqrt(len(own) / (len(own) - 1))
    return mean, parts


STAGE_ARMS = [(key, arm) for key in KEYS for arm in ARMS]
USERS = st.lists(st.dictionaries(st.sampled_from(STAGE_ARMS), totals(6).filter(lambda own: own[0] > 0)), min_size=30, max_size=45)

_EVERYWHERE: list[dict[StageArm, Totals]] = [
    {cell: [2, ONE * (number % 3), ONE * (number % 2), number % 5, 10, ONE] for at, cell in enumerate(STAGE_ARMS) if (number + at) % 3}
    for number in range(36)
]
"""Users of several cells, in every stage and in both arms."""


@given(USERS, st.booleans())
@example(_EVERYWHERE, False)
@example(_EVERYWHERE, True)
def test_the_combination_equals_the_sum_of_each_users_residuals(users: list[dict[StageArm, Totals]], by_list: bool) -> None:
    if by_list:
        users, policy = [{("", arm): own for (_, arm), own in user.items()} for user in users], Policy(unit="list")
    else:
        policy = STAGES
    cells = Cells(MEASURES, policy, stored_cells(users, unit=policy.unit))
    for measure in MEASURES:
        found, weights = cells.combined(measure, "treatment", "control"), cells.weights(measure, "treatment", "control")
        if found is None:
            assert weights == {}
            continue
        assert math.isclose(sum(weights.values()), 1)
        own = [cells_of(user, policy.unit) for user in users]
        sides = [influence(own, measure, {Cell(*key, arm): each for key, each in weights.items()}) for arm in ("treatment", "control")]
        for side, estimate in zip(sides, (found.treatment, found.control), strict=True):
            assert math.isclose(side[0], estimate.mean, rel_tol=1e-9)
            assert math.isclose(sum(part * part for part in side[1]), estimate.variance, rel_tol=1e-7, abs_tol=1e-15)
        both = sum(one * other for one, other in zip(sides[0][1], sides[1][1], strict=True))
        assert math.isclose(both, found.covariance, rel_tol=1e-7, abs_tol=1e-12)


def test_weights_are_those_of_mantel_and_haenszel() -> None:
    users: list[dict[StageArm, Totals]] = [{(key, arm): [lists, 0, 0, 0, 1, 0]} for key, arm, lists in _lists() for _ in range(10)]
    cells = Cells(MEASURES, STAGES, stored_cells(users))
    weights = cells.weights(MEASURES.all[0], "treatment", "control")
    assert weights == pytest.approx({("", ""): 0.75 / (0.75 + 2), ("500", "500"): 2 / (0.75 + 2)})


def _lists() -> list[tuple[str, str, int]]:
    return [("", "control", 3), ("", "treatment", 1), ("500", "control", 4), ("500", "treatment", 4)]


def test_a_change_of_the_mean_between_stages_is_no_effect() -> None:
    """The treatment has most of its lists in the bad stage. Pooled over stages it looks 30 % worse."""
    users = ramp({"": 0.05, "500": 0.5}, {"": 0.8, "500": 0.3})
    kept = stored_cells(users)
    measure = MEASURES.named("ndcg@10")
    pooled = [kept.moments[arm][MEASURES.places(measure).y] / kept.moments[arm][MEASURES.places(measure).d] for arm in ARMS]
    assert pooled[1] / pooled[0] - 1 < -0.25
    found = Cells(MEASURES, STAGES, kept).combined(measure, "treatment", "control")
    assert found is not None
    assert abs(found.treatment.mean / found.control.mean - 1) < 0.03


def test_users_of_two_stages_make_the_variance_larger_than_independent_ones() -> None:
    users = ramp({"": 0.5, "500": 0.5}, {"": 0.5, "500": 0.5})
    measure = MEASURES.named("ndcg@10")
    kept = stored_cells(users)
    found = Cells(MEASURES, STAGES, kept).combined(measure, "treatment", "control")
    weights = Cells(MEASURES, STAGES, kept).weights(measure, "treatment", "control")
    cells = Cells(MEASURES, STAGES, kept)
    measured = cells.measured(measure)
    alone = sum(weight**2 * measured.covariance(cell, cell) for key, weight in weights.items() for cell in [Cell(*key, "treatment")])
    assert found is not None
    assert alone < found.treatment.variance


def test_a_stage_counts_from_ten_users_in_each_arm_on() -> None:
    one = [1, 0, 0, 0, 1, 0]
    users: list[dict[StageArm, Totals]] = [{("", arm): one} for arm, count in (("control", 30), ("treatment", 9)) for _ in range(count)]
    cells = Cells(MEASURES, STAGES, stored_cells(users))
    assert cells.left_out(cells.stages[0], "treatment", "control") == "treatment has 9 users in it, at least 10 are needed"
    assert cells.combined(MEASURES.all[0], "treatment", "control") is None
    cells = Cells(MEASURES, STAGES, stored_cells([*users, {("", "treatment"): one}]))
    assert cells.left_out(cells.stages[0], "treatment", "control") is None


def test_scales_are_frozen_when_the_counting_stages_have_enough_users_together() -> None:
    users = ramp({"": 0.05, "500": 0.5}, {"": 0.5, "500": 0.5}, users=260)
    few = [{cell: own for cell, own in user.items() if cell[0] == ""} for user in users]
    assert choose_scales(MEASURES, STAGES, stored_cells(few), {}) == {}
    chosen = choose_scales(MEASURES, STAGES, stored_cells(ramp({"": 0.3, "500": 0.3}, {"": 0.5, "500": 0.5}, users=400)), {})
    assert set(chosen) >= {"ndcg@10", "ndcg@10 control", "user_hit_rate@5"}
    by_list = stored_cells([{("", arm): own for (_, arm), own in user.items()} for user in users * 2], unit="list")
    assert "user_hit_rate@5" not in choose_scales(MEASURES, Policy(unit="list"), by_list, {})


@given(
    st.floats(0.05, 2),
    st.floats(0.05, 2),
    st.floats(1e-5, 1e-2),
    st.floats(1e-5, 1e-2),
    st.floats(-0.95, 0.95),
)
def test_the_ends_of_a_lift_interval_are_exactly_z_standard_errors_away(t: float, c: float, vt: float, vc: float, rho: float) -> None:
    treatment, control, covariance = Estimate(t, vt, 500), Estimate(c, vc, 500), rho * math.sqrt(vt * vc)
    mixture = Mixture(0.1, 0.05)
    found = lift_interval(treatment, control, mixture, 0.05, covariance)
    variance = variance_of(treatment, control, covariance)
    assert found is not None
    assert variance is not None
    boundary = two_sided(variance, mixture, 0.05)
    for end in (found.lower, found.upper):
        if end is not None and end > -1:
            z = z_value(treatment, control, 1 + end, covariance)
            assert z is not None
            assert math.isclose(abs(z), boundary, rel_tol=1e-6)
    if found.lower is not None and found.upper is not None and found.lower > -1:
        assert found.lower <= t / c - 1 <= found.upper


def test_a_covariance_of_the_arms_makes_evidence_stronger() -> None:
    arms = Estimate(0.36, 1e-4, 500), Estimate(0.40, 1e-4, 500)
    mixture = Mixture(0.02, 0.04)
    assert log_evidence_below(*arms, 0.0, mixture, 8e-5) > log_evidence_below(*arms, 0.0, mixture)
