"""The time of the first crossing, against the closed form of a straight boundary and against simulated paths."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from streammetrics.experiments.first_passage import PathStart, crossing_times, quantiles
from streammetrics.experiments.sequence import Mixture, one_sided
from tests.support.tables import for_each


def line_crossed(height: float, slope: float, drift: float, length: float) -> float:
    """P(a Brownian motion with drift crosses height + slope t by `length`) (Siegmund 1985, Sequential Analysis, 3.15)."""
    net = drift - slope

    def below(z: float) -> float:
        return 0.5 * math.erfc(-z / math.sqrt(2))

    root = math.sqrt(length)
    return below((net * length - height) / root) + math.exp(2 * net * height) * below((-net * length - height) / root)


@for_each(product([0.0, 0.3, -0.2], [0.1, 1.0, 2.0], [0.0, 1.5, -2.0]))
def test_a_straight_boundary_has_the_closed_form(case: tuple[float, float, float]) -> None:
    slope, drift, score = case
    start = PathStart(2.0, score)
    times, crossed = crossing_times(lambda information: 2.0 + slope * information, drift, start, 30.0)
    height = 2.0 + slope * 2.0 - score
    for at in (4.0, 8.0, 15.0, 29.0):
        exact = line_crossed(height, slope, drift, at - 2.0)
        assert float(np.interp(at, times, crossed)) == pytest.approx(exact, abs=0.006)
    assert (np.diff(crossed) >= 0).all()
    assert crossed[0] == 0


def test_an_unknown_start_is_the_mean_over_scores() -> None:
    times, crossed = crossing_times(lambda information: 2.0, 1.0, PathStart(1.0), 12.0)
    assert crossed[0] == pytest.approx(0.5 * math.erfc(1 / math.sqrt(2)), abs=1e-9)
    random = np.random.default_rng(1)
    scores = 1.0 + random.standard_normal(4_000)
    for at in (2.0, 5.0, 10.0):
        each = [1.0 if score >= 2 else line_crossed(2.0 - score, 0.0, 1.0, at - 1.0) for score in scores.tolist()]
        assert float(np.interp(at, times, crossed)) == pytest.approx(float(np.mean(each)), abs=0.02)


def test_it_equals_simulated_paths_at_our_boundary() -> None:
    mixture, drift, first, unit = Mixture(0.12, 0.1), 0.1, 200, (2 * 0.85) ** 2
    found = quantiles(
        lambda information: one_sided(1 / information, mixture, 0.05) * math.sqrt(information),
        drift,
        PathStart(first / unit),
        (0.1, 0.5, 0.9),
        1e9,
    )
    users = np.unique(np.round(np.geomspace(first, 20_000, 1_200))).astype(np.float64)
    bounds = np.array([one_sided(unit / each, mixture, 0.05) * math.sqrt(each / unit) for each in users])
    random = np.random.default_rng(4)
    information = users / unit
    steps = np.diff(information, prepend=0.0)
    crossings = []
    for _ in range(20):
        scores = np.cumsum(drift * steps + np.sqrt(steps) * random.standard_normal((200, len(steps))), axis=1)
        beyond = scores >= bounds
        crossings += np.where(beyond.any(axis=1), users[beyond.argmax(axis=1)], np.inf).tolist()
    simulated = np.quantile(crossings, (0.1, 0.5, 0.9), method="lower")
    assert [each * unit for each in found] == pytest.approx(simulated.tolist(), rel=0.08)


def test_without_drift_there_is_no_crossing_to_plan_for() -> None:
    assert quantiles(lambda information: 2.0, 0.0, PathStart(1.0), (0.5,), 100.0) == (math.inf,)
    assert quantiles(lambda information: 2.0, 1.0, PathStart(200.0), (0.5,), 100.0) == (math.inf,)


def test_beyond_the_limit_is_never() -> None:
    early, late = quantiles(lambda information: 10.0, 0.1, PathStart(0.01, 0.0), (0.1, 0.9), 90.0)
    assert early < 90.0
    assert late == math.inf
