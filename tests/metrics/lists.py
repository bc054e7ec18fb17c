"""What the tests of the metric core draw from: lists of grades, and the ways to hand them to a scorer."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from streammetrics.metrics import METRIC_NAMES, Scorer

WHOLE = st.integers(0, 5)
DECIMAL = st.sampled_from([0, 0.1, 0.3, 0.5, 0.6, 0.9, 1, 1.5, 2, 3.25])
ANY = st.one_of(st.just(0), WHOLE, DECIMAL, st.floats(0, 8, allow_subnormal=True))


def lists_of(grades: st.SearchStrategy[float], items_max: int = 30) -> st.SearchStrategy[list[float]]:
    """Lists of grades: many zeros, some empty, some all zero."""
    return st.lists(st.one_of(st.just(0), grades), max_size=items_max)


batches = st.one_of(*(st.lists(lists_of(grades), max_size=12) for grades in (WHOLE, DECIMAL, ANY)))

cutoffs = st.lists(st.sampled_from([1, 2, 3, 5, 10, 20, 50]), min_size=1, max_size=3, unique=True)


@st.composite
def metric_names(draw: st.DrawFn) -> list[str]:
    """Some metrics at some cut-offs, in any order."""
    names = draw(st.lists(st.sampled_from(METRIC_NAMES), min_size=1, unique=True))
    return draw(st.permutations([f"{name}@{k}" for name, k in itertools.product(names, draw(cutoffs))]))


def as_ragged(lists: list[list[float]]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.cumsum([0, *map(len, lists)])
    return np.array([grade for grades in lists for grade in grades], dtype=np.float64), offsets


def as_padded(lists: list[list[float]], padding: float) -> tuple[np.ndarray, np.ndarray]:
    width = max(map(len, lists), default=0)
    cells = np.array([[*grades, *[padding] * (width - len(grades))] for grades in lists], dtype=np.float64).reshape(len(lists), width)
    return cells, np.array([len(grades) for grades in lists], dtype=np.int64)


def as_hits(lists: list[list[float]]) -> list[tuple[int, int, float]]:
    return [(row, position, grade) for row, grades in enumerate(lists) for position, grade in enumerate(grades) if grade]


def score_hits(scorer: Scorer, lists: list[list[float]], hits: list[tuple[int, int, float]]) -> np.ndarray:
    rows, positions, grades = zip(*hits, strict=True) if hits else ([], [], [])
    return scorer.score_hits([len(grades) for grades in lists], rows, positions, grades)
