"""The change of a difference over time: found where it is, and rarely where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from streammetrics.statistics.onset import change_point

SPANS = 60


def simulated(seed: int, at: int | None, jump: float, error: float = 0.03) -> tuple[list[float], list[float]]:
    """Differences of spans with unequal variances; the last ones from `at` on are shifted by `jump`."""
    random = np.random.default_rng(seed)
    errors = error * random.uniform(0.6, 1.6, SPANS)
    values = errors * random.standard_normal(SPANS)
    if at is not None:
        values[at:] += jump
    return values.tolist(), (errors**2).tolist()


def test_without_a_change_it_is_rarely_told() -> None:
    for constant in (0.0, -0.1):
        onsets = []
        for seed in range(500):
            values, variances = simulated(seed, None, 0.0)
            onsets.append(change_point([value + constant for value in values], variances, 0.05) is not None)
        assert np.mean(onsets) <= 0.05


@pytest.mark.parametrize("at", [6, 30, 54])
def test_a_change_is_found_and_its_span_has_it(at: int) -> None:
    told, inside, near = 0, 0, 0
    for seed in range(300):
        values, variances = simulated(seed, at, -0.1)
        onset = change_point(values, variances, 0.05)
        if onset is not None:
            told += 1
            inside += onset.first <= at - 1 <= onset.last
            near += abs(onset.place - (at - 1)) <= 2
            assert onset.first <= onset.place <= onset.last
    assert told >= 0.95 * 300
    assert inside / told >= 0.85
    assert near / told > 0.9


def test_a_weak_change_has_a_wider_span() -> None:
    widths = []
    for jump in (-0.06, -0.2):
        onsets = [change_point(*simulated(seed, 30, jump), 0.05) for seed in range(100)]
        widths.append(np.mean([onset.last - onset.first for onset in onsets if onset is not None]))
    assert widths[0] > 2 * widths[1]


def test_the_levels_are_those_before_and_after() -> None:
    onset = change_point([0.0, 0.0, 0.0, -0.1, -0.1], [1e-4] * 5, 0.1)
    assert onset is not None
    assert (onset.place, onset.before, onset.after) == (2, pytest.approx(0.0), pytest.approx(-0.1))


def test_too_few_spans_tell_nothing() -> None:
    assert change_point([], [], 0.1) is None
    assert change_point([-0.5], [1e-6], 0.1) is None
