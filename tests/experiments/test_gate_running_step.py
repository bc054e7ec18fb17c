"""The running step of a rollout: where it is found, what it needs for a pass, and when it fails alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from streammetrics.experiments.building import build_report, choose_scales
from streammetrics.experiments.cell_estimates import PairEstimate
from streammetrics.experiments.gate import AssignedCounts, GateDecision, StepMeasure, found_step, step_failure, step_of, unseen_step
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.stored import StoredSums
from streammetrics.statistics.estimates import Estimate
from streammetrics.statistics.measures import Measure
from streammetrics.statistics.sequence import MeasureScale
from streammetrics.words.times import HOUR_MS
from tests.tools.bench.aa_feed import OF_LISTS, looks
from tests.tools.bench.aa_lists import Regime, draw

HITS = Measure("hit_rate", 10, "mean", 2, 1, 40)
NAMES = "new", "old"
SINCE_MS = 1_732_183_200_000
POLICY = Policy(paging=("hit_rate@10",))


def shares(*parts: tuple[float, int], users: int = 100) -> list[AssignedCounts]:
    """Blocks with the treatment's share, each so many times."""
    flat = [share for share, times in parts for _ in range(times)]
    return [AssignedCounts(hour, round(share * users), users) for hour, share in enumerate(flat)]


def step(lift: float, error: float, users: float = 2_000.0) -> list[StepMeasure]:
    arms = Estimate(0.3 * (1 + lift), (0.3 * error) ** 2 / 2, 5_000), Estimate(0.3, (0.3 * error) ** 2 / 2, 5_000)
    return [StepMeasure(HITS, PairEstimate(*arms, 0.0, (users, users)), MeasureScale(0.02, 0.3))]


@pytest.mark.parametrize(
    ("blocks", "wanted"),
    [
        (shares((0.5, 40)), None),
        (shares((0.05, 20), (0.25, 20), (0.5, 10)), 40),
        (shares((0.05, 20), (0.25, 20)), 20),
        (shares((0.5, 20), (0.1, 20)), None),
        (shares((0.1, 30), (0.11, 30)), None),
        (shares((0.02, 50), (0.5, 2)), 50),
        ([], None),
        (shares((0.5, 1)), None),
        (shares((0.05, 20), users=0), None),
    ],
)
def test_the_last_rise_of_the_share_is_the_step(blocks: list[AssignedCounts], wanted: int | None) -> None:
    assert found_step(blocks) == wanted


def test_a_constant_share_has_rarely_a_step() -> None:
    random = np.random.default_rng(3)
    counts = random.binomial(60, 0.2, (400, 96))
    failures = [found_step([AssignedCounts(hour, int(treatment_users), 60) for hour, treatment_users in enumerate(row)]) for row in counts]
    assert sum(failure is not None for failure in failures) <= 4


def test_a_step_without_enough_users_is_unseen() -> None:
    words = unseen_step(POLICY, step(0.05, 0.03, users=40.5), NAMES, SINCE_MS, 1)
    where = "in the running step, whose lists count from 2024-11-21 10:00 UTC on,"
    wanted = f"{where} about 60 more users of new and 60 more users of old are needed"
    assert words == wanted


@pytest.mark.parametrize(("lift", "error", "seen"), [(0.0, 0.03, True), (0.0, 0.08, False), (-0.1, 0.01, False), (0.3, 0.1, True)])
def test_a_step_is_seen_once_it_is_certainly_not_worse_by_minimum_lift(lift: float, error: float, seen: bool) -> None:
    words = unseen_step(POLICY, step(lift, error), NAMES, SINCE_MS, 1)
    assert (words is None) == seen
    assert seen or "it may still be worse by 10 %" in str(words)


def test_a_step_that_cannot_be_compared_is_unseen() -> None:
    for step_measure in (StepMeasure(HITS, None, MeasureScale(0.02, 0.3)), step(0.0, 0.01)[0]._replace(scale=None)):
        assert "no lists of new and old can be compared yet" in str(unseen_step(POLICY, [step_measure], NAMES, SINCE_MS, 1))
        assert step_failure(POLICY, [step_measure], NAMES, SINCE_MS, 1) is None


def test_a_certain_drop_in_the_step_alone_fails() -> None:
    words = step_failure(POLICY, step(-0.2, 0.03), NAMES, SINCE_MS, 1)
    wanted = "in the running step, whose lists count from 2024-11-21 10:00 UTC on: 20 % fewer lists with a hit in the first 10 than old"
    assert words == f"{wanted}; 95 % confidence, safe to check at any time"
    assert step_failure(POLICY, step(-0.2, 0.09), NAMES, SINCE_MS, 1) is None
    assert step_failure(POLICY, step(-0.2, 0.03, users=99.0), NAMES, SINCE_MS, 1) is None


def ramp(effect: tuple[float, ...], users: int = 6_000, hours: int = 48) -> Iterator[StoredSums]:
    """A ramp 10 → 50 % with the step at half time, in which each user keeps their arm."""
    regime = Regime(name="ramp", users=users, hours=hours, steps=(0.1, 0.5), effect=effect, rate=0.1)
    return looks(OF_LISTS, draw(regime, np.random.default_rng(11)), hours, 4)


def gates(effect: tuple[float, ...], since_ms: int | None = None) -> list[GateDecision | None]:
    policy, scales, decisions = Policy(paging=("hit_rate@10",)), dict[str, float](), []
    for stored in ramp(effect):
        scales |= choose_scales(OF_LISTS, policy, stored, scales)
        decisions.append(build_report(OF_LISTS, policy, stored, scales, since_ms=since_ms).gate)
    return decisions


def test_the_step_is_found_by_the_new_users() -> None:
    *_, last = ramp((0.0,))
    assert step_of(OF_LISTS, Policy(), last, "treatment", "control") == 24


def test_a_step_whose_ranker_broke_in_it_never_passes_and_fails() -> None:
    words = [gate.word for gate in gates((0.3, -0.4), since_ms=24 * HOUR_MS) if gate is not None]
    assert "pass" not in words[6:]
    assert words[-1] == "fail"


def test_a_step_passes_with_lists_of_its_own() -> None:
    words = gates((0.3, 0.3), since_ms=24 * HOUR_MS)
    assert words[-1] is not None
    assert words[-1].word == "pass"
    at_begin = gates((0.3, 0.3), since_ms=47 * HOUR_MS)[-1]
    assert at_begin is not None
    assert at_begin.word == "wait"
    assert "in the running step, whose lists count from 1970-01-02 23:00 UTC on" in at_begin.reason
