"""The harness of ramps for the gate, in small: outages do come, and the gate never passes during one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from streammetrics.reports.gate_answer import answer_gate
from tests.bench import gate_ramps, gate_steps
from tests.bench.gate_ramps import lags, one_ramp
from tests.experiments.samples import at_most


def test_outages_begin_and_end() -> None:
    behind = [lag for seed in range(20) for lag in lags(np.random.default_rng(seed))]
    assert 0.05 < np.mean([lag > 1 for lag in behind]) < 0.4
    assert all(after in (0, before + 1) for before, after in pairwise(behind))


def test_ramps_without_a_difference_seldom_fail_and_never_pass_while_stale() -> None:
    results = [one_ramp(seed, 24_000, 0.0) for seed in range(10)]
    assert sum("fail" in each.words for each in results) <= at_most(0.05, 10)
    assert any("pass" in each.words for each in results)
    assert sum(each.held_back for each in results) > 5
    assert sum(each.stale_passes for each in results) == 0


def test_the_harness_would_see_a_pass_while_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_ramps, "answer_gate", lambda report, **given: answer_gate(report, **{**given, "stale": ()}))
    found = [one_ramp(seed, 24_000, 0.0) for seed in range(10)]
    assert sum(each.stale_passes for each in found) == sum(each.held_back for each in found) > 0


def test_a_bad_ranker_is_stopped() -> None:
    found = one_ramp(3, 24_000, -0.2)
    assert "fail" in found.words
    assert found.stage is not None
    assert "pass" not in found.words


def test_a_ranker_that_turns_bad_at_the_last_step_never_passes_it() -> None:
    found = gate_steps.one_ramp(0, "+10 %, then -20 %")
    assert 2 not in found.passed
    assert found.failed is not None
    assert 2 / 3 < found.failed < 0.85
