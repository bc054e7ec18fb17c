"""The scorer's integers equal the definitions of the tests' oracle, which shares no code with it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.metrics import METRIC_NAMES, Scorer, Spec
from tests.metrics.lists import DECIMAL, WHOLE, as_hits, as_ragged, lists_of, score_hits
from tests.oracle import stored_values

CUTOFFS = (1, 3, 10, 20)
APART = {"item_hit_rate", "f1", "r_precision", "rbp", "err"}
"""A ratio, and metrics that only the formulas in floats know (`test_formulas`)."""
NAMES = [name for name in METRIC_NAMES if name not in APART]
METRICS = [f"{name}@{k}" for k in CUTOFFS for name in NAMES]


@given(st.lists(st.one_of(lists_of(WHOLE), lists_of(DECIMAL)), min_size=1, max_size=8), st.sampled_from([0.5, 1, 2]))
def test_every_metric_equals_its_definition_to_the_last_bit(lists: list[list[float]], relevance_min: float) -> None:
    scorer = Scorer(METRICS, Spec(relevance_threshold=relevance_min))
    expected = [[stored_values(grades, CUTOFFS, relevance_min)[name] for name in METRICS] for grades in lists]
    assert scorer.score_ragged(*as_ragged(lists)).tolist() == expected
    assert score_hits(scorer, lists, as_hits(lists)).tolist() == expected
    assert [list(scorer.score_list(grades)) for grades in lists] == expected


@pytest.mark.parametrize("k", [2, 100, 1_000])
def test_long_lists_also_equal_the_definition(k: int) -> None:
    grades = np.random.default_rng(k).choice([0, 0, 0, 1, 2, 5], 1_500).astype(float).tolist()
    names = [f"{name}@{k}" for name in NAMES]
    assert list(Scorer(names).score_list(grades)) == [stored_values(grades, [k])[name] for name in names]
