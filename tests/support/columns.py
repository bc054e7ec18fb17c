"""Layouts and random users for the tests of experiments."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from streammetrics.metrics import Scorer
from streammetrics.statistics.measures import Measures

SCORER = Scorer(["ndcg@10", "hit_rate@5", "item_hit_rate@5", "dcg@10"])
MEASURES = Measures(SCORER.columns)
WITH_COVARIATES = Measures(SCORER.columns, covariates=True)
ONE = 1 << 40


def totals(lists_max: int = 50) -> st.SearchStrategy[list[int]]:
    """A user's totals in the layout above: lists, ndcg, hit_rate, hits, places, dcg."""

    def of(lists: int) -> st.SearchStrategy[list[int]]:
        return st.tuples(
            st.integers(0, lists * ONE),
            st.integers(0, lists),
            st.integers(0, 3 * lists),
            st.integers(0, 2 * lists),
            st.integers(0, lists << 36),
        ).map(lambda drawn: [lists, drawn[0], drawn[1] * ONE, drawn[2], drawn[2] + drawn[3], drawn[4]])

    return st.integers(0, lists_max).flatmap(of)


def covariates() -> st.SearchStrategy[list[int | None]]:
    return st.lists(st.none() | st.integers(0, 1 << 20), min_size=len(WITH_COVARIATES.of_lists), max_size=len(WITH_COVARIATES.of_lists))


def of_user(measures: Measures, totals: Sequence[int], extra: Sequence[int | None] | None = None) -> list[int]:
    """One user's moments by definition: the products of their row, in Python integers."""
    row = measures.row(totals, extra)
    return [row[one] * row[other] if totals[0] else 0 for one, other in measures.pairs]
