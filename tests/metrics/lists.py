"""Test strategies and helpers: lists of grades, specs, and conversions to every input shape of a scorer."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from streammetrics.metrics import ALL_METRIC_NAMES, MetricError, Scorer, Spec
from streammetrics.metrics.names import WHOLE_LIST_NAMES

WHOLE = st.integers(0, 5)
DECIMAL = st.sampled_from([0, 0.1, 0.3, 0.5, 0.6, 0.9, 1, 1.5, 2, 3.25])
ANY = st.one_of(st.just(0), WHOLE, DECIMAL, st.floats(0, 8, allow_subnormal=True))
GRADE_TOP = 8.0
"""The largest grade drawn here."""


def lists_of(grades: st.SearchStrategy[float], items_max: int = 30) -> st.SearchStrategy[list[float]]:
    """Lists of grades: many zeros, some empty, some all zero."""
    return st.lists(st.one_of(st.just(0), grades), max_size=items_max)


batches = st.one_of(*(st.lists(lists_of(grades), max_size=12) for grades in (WHOLE, DECIMAL, ANY)))

cutoffs = st.lists(st.sampled_from([1, 2, 3, 5, 10, 20, 50, 100, 200]), min_size=1, max_size=3, unique=True)


def at_cutoffs(names: tuple[str, ...] | list[str], ks: list[int] | tuple[int, ...]) -> list[str]:
    return [f"{name}@{k}" for name, k in itertools.product([name for name in names if name != "r_precision"], ks)]


@st.composite
def metric_names(draw: st.DrawFn) -> list[str]:
    """Some metrics at some cut-offs and some over the whole list, in any order."""
    names = draw(st.lists(st.sampled_from(ALL_METRIC_NAMES), min_size=1, unique=True))
    whole = draw(st.lists(st.sampled_from(WHOLE_LIST_NAMES), max_size=2, unique=True))
    return draw(st.permutations(at_cutoffs(names, draw(cutoffs)) + whole)) or ["map"]


specs = st.builds(
    Spec,
    gain=st.sampled_from(["linear", "exp2", "binary", (0, 1, 3, 7, 15, 31), (0, 2, 1, 5, 4, 4), (0, 0.5, 1, 1.5, 2, 3)]),
    discount=st.sampled_from(["log2(i+1)", "max(1,log2(i))", (1, 2, 3), (0.5, 0.5, 0.7, 1, 4, 100)]),
    relevance_threshold=st.sampled_from([0.25, 1, 2]),
    ideal=st.sampled_from(["all", "shown", "first_k", "full"]),
    ap_denominator=st.sampled_from(["min(R,k)", "R", "k", "hits", "min(R,n,k)"]),
    recall_denominator=st.sampled_from(["R", "min(R,k)"]),
    precision_denominator=st.sampled_from(["k", "min(n,k)"]),
    rbp_persistence=st.sampled_from([0.5, 0.8, 0.95]),
    err_grade_max=st.sampled_from([1, 8, 8.5]),
)


@st.composite
def scorers(draw: st.DrawFn) -> Scorer:
    """A scorer of some metrics under some spec. Invalid combinations (no cut-off, but a division by k) get a spec without k."""
    names, spec = draw(metric_names()), draw(specs)
    try:
        return Scorer(names, spec)
    except MetricError:
        return Scorer(names, replace(spec, ideal="all", ap_denominator="R"))


def accepted(scorer: Scorer, grade: float) -> float:
    """The grade, changed if necessary to one that the scorer accepts: at most its limit, and whole under a gain table."""
    within = min(grade, scorer.grade_max)
    return int(within) if isinstance(scorer.spec.gain, tuple) else within


def as_ragged(lists: list[list[float]]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.cumsum([0, *map(len, lists)])
    return np.array([grade for grades in lists for grade in grades], dtype=np.float64), offsets


def as_hits(lists: list[list[float]]) -> list[tuple[int, int, float]]:
    return [(row, position, grade) for row, grades in enumerate(lists) for position, grade in enumerate(grades) if grade]


def as_unseen(hidden: list[list[float]]) -> tuple[list[int], list[float]]:
    """The rows and grades of unseen items, not sorted by list."""
    pairs = [(row, grade) for row, grades in enumerate(hidden) for grade in grades][::-1]
    return [row for row, _ in pairs], [grade for _, grade in pairs]


def score_hits(
    scorer: Scorer, lists: list[list[float]], hits: list[tuple[int, int, float]], unseen: tuple[list[int], list[float]] | None = None
) -> np.ndarray:
    rows, positions, grades = zip(*hits, strict=True) if hits else ([], [], [])
    return scorer.score_hits([len(grades) for grades in lists], rows, positions, grades, unseen)
