"""What recommender teams publish beside accuracy: coverage of the catalogue, Gini, diversity, novelty and popularity of what is shown.

Nothing here needs to know what users liked. Values are doubles. Definitions agree with RecTools and LensKit; see `assess_lists`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from streammetrics.metrics.arrays import Floats
from streammetrics.metrics.names import MetricError
from streammetrics.metrics.tables import DataTable, Tabled
from streammetrics.offline.evaluation.clustered import Clusters, influence, standard_error


@dataclass(frozen=True, slots=True)
class Popularity:
    """How often items were used before: the number of interactions and of distinct users per item, and of all users.

    >>> Popularity.of_pairs([("ann", "x"), ("bob", "x"), ("bob", "x"), ("bob", "y")]).interactions
    {'x': 3, 'y': 1}
    """

    interactions: Mapping[Any, int]
    users: Mapping[Any, int]
    users_total: int

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[Hashable, Hashable]]) -> Popularity:
        """Count (user, item) pairs, one per interaction."""
        kept = list(pairs)
        users = Counter(item for _, item in dict.fromkeys(kept))
        return cls(dict(Counter(item for _, item in kept)), dict(users), len({user for user, _ in kept}))


@dataclass(frozen=True, slots=True, repr=False)
class Assessment(Tabled):
    """The result of `assess_lists`: the value of each metric, and the values per list of those that are means."""

    means: dict[str, float]
    standard_errors: dict[str, float]
    values: dict[str, Floats]

    def table(self) -> DataTable:
        """One row per metric: its value and its standard error; NaN for metrics of all lists together."""
        errors = [self.standard_errors.get(name, math.nan) for name in self.means]
        return DataTable({"metric": list(self.means), "value": list(self.means.values()), "standard_error": errors})


def assess_lists(
    ranked: Mapping[Any, Sequence[Hashable]] | Sequence[Sequence[Hashable]],
    k: int,
    *,
    catalogue: Collection[Hashable] | None = None,
    popularity: Popularity | None = None,
    attributes: Mapping[Any, Sequence[Hashable]] | None = None,
    fallback: Mapping[Any, bool] | Sequence[bool] | None = None,
    users: Sequence[Hashable] | None = None,
) -> Assessment:
    """Assess the first `k` items of ranked lists without judgments. What is not given leaves out the metrics that need it.

    ranked: list id -> item ids, best first; or a sequence of such lists. Empty lists are left out of means.
    catalogue: all items that could be shown. `coverage@k`: the share of them that some list shows. `gini@k`: the Gini coefficient of
        the number of lists that show each item, 0 if all items are shown equally often (as LensKit's ListGini).
    popularity: earlier use of items. `novelty@k`: mean of -log2(users of the item / all users); an item without users counts as one
        with a single user (RecTools' MeanInvUserFreq). `popularity@k`: mean number of earlier interactions of the items shown (average
        recommendation popularity, RecTools' AvgRecPopularity); `popularity_share@k`: the same as a share of all interactions. A list
        of the most popular items is the most biased.
    attributes: item -> its values, equally many for every item, such as (genre, year). `diversity@k`: the mean share of attributes that
        differ over all pairs of items of a list (intra-list diversity; RecTools' IntraListDiversity with Hamming distances counts
        attributes, so it is larger by their number). A list of one item has 0.
    fallback: whether each list came from a fallback, such as the most popular items. `fallback_share`: the share of such lists.
    users: the user of each list; standard errors are then clustered by user.

    Raises MetricError that names the list and the item, for an item that the catalogue or the attributes lack.

    >>> found = assess_lists([["a", "b"], ["a", "c"]], 2, catalogue="abcd", attributes={"a": ("x", 1), "b": ("x", 2), "c": ("y", 3)})
    >>> found
    metric       value   standard_error
    coverage@2   0.7500  -
    gini@2       0.3750  -
    diversity@2  0.7500  0.2500
    """
    lists = _Lists(ranked, k)
    found: dict[str, float] = {}
    if catalogue is not None:
        counts = _shown_counts(lists, catalogue)
        found |= {f"coverage@{k}": float(np.count_nonzero(counts) / counts.size), f"gini@{k}": _gini(counts)}
    values: dict[str, Floats] = {}
    if attributes is not None:
        values[f"diversity@{k}"] = lists.each(lambda name, items: _diversity(name, items, attributes))
    if popularity is not None:
        values |= _popularity_values(lists, popularity)
    if fallback is not None:
        flags = [fallback[name] for name in lists.names] if isinstance(fallback, Mapping) else list(fallback)
        _require_length("fallback", flags, lists)
        values["fallback_share"] = np.array(flags, dtype=np.float64)
    if users is not None:
        _require_length("users", users, lists)
    clusters = Clusters.of(users, len(lists.names))
    errors = {name: _error(each, clusters) for name, each in values.items()}
    means = {name: float(np.nanmean(each)) if not np.isnan(each).all() else math.nan for name, each in values.items()}
    return Assessment(found | means, errors, values)


class _Lists:
    """The first k items of each list, by name."""

    def __init__(self, ranked: Mapping[Any, Sequence[Hashable]] | Sequence[Sequence[Hashable]], k: int) -> None:
        if type(k) is not int or k < 1:
            raise MetricError("cut-off", f"got {k!r}; allowed are whole numbers >= 1")
        self.k = k
        pairs = ranked.items() if isinstance(ranked, Mapping) else enumerate(ranked)
        self.top = {name: list(items)[:k] for name, items in pairs}
        for name, items in self.top.items():
            if len(set(items)) < len(items):
                raise MetricError("item", f"got one twice in list {name!r}; allowed is once")

    @cached_property
    def names(self) -> list[Any]:
        return list(self.top)

    def each(self, value: Callable[[Any, list[Hashable]], float]) -> Floats:
        """The value of each list, NaN for an empty one: shape (L,)."""
        return np.array([value(name, items) if items else math.nan for name, items in self.top.items()], dtype=np.float64)


def _require_length(what: str, given: Sequence[object], lists: _Lists) -> None:
    if len(given) != len(lists.names):
        raise MetricError(what, f"got {len(given)}; allowed are {len(lists.names)}, one per list")


def _shown_counts(lists: _Lists, catalogue: Collection[Hashable]) -> Floats:
    """The number of lists that show each item of the catalogue, shape (items,)."""
    counts = dict.fromkeys(catalogue, 0)
    if not counts:
        raise MetricError("catalogue", "got no items; allowed is at least one")
    for name, items in lists.top.items():
        for item in items:
            if item not in counts:
                raise MetricError("item", f"got {item!r} in list {name!r}; allowed are the items of the catalogue")
            counts[item] += 1
    return np.array(list(counts.values()), dtype=np.float64)


def _gini(counts: Floats) -> float:
    """sum of (2 i - n - 1) x_i / (n sum of x), with the counts x in rising order; 0 if all are 0."""
    total = float(counts.sum())
    ranks = np.arange(1, counts.size + 1)
    return float(((2 * ranks - counts.size - 1) * np.sort(counts)).sum() / (counts.size * total)) if total else 0.0


def _diversity(name: Any, items: Sequence[Hashable], attributes: Mapping[Any, Sequence[Hashable]]) -> float:
    rows = []
    for item in items:
        if item not in attributes:
            raise MetricError("item", f"got {item!r} in list {name!r} without attributes; allowed are items with them")
        rows.append(tuple(attributes[item]))
    if any(len(row) != len(rows[0]) or not row for row in rows):
        raise MetricError("attributes", f"got different numbers of them in list {name!r}; allowed is one number for all items")
    pairs = [sum(one != other for one, other in zip(first, second, strict=True)) / len(first) for first, second in combinations(rows, 2)]
    return math.fsum(pairs) / len(pairs) if pairs else 0.0


def _popularity_values(lists: _Lists, popularity: Popularity) -> dict[str, Floats]:
    total = sum(popularity.interactions.values())
    if not total or not popularity.users_total:
        raise MetricError("popularity", "got no interactions; allowed is at least one")
    counts, users = popularity.interactions, popularity.users
    mean_count = lists.each(lambda _, items: math.fsum(counts.get(item, 0) for item in items) / len(items))
    novelty = lists.each(lambda _, items: math.fsum(-math.log2(users.get(item, 1) / popularity.users_total) for item in items) / len(items))
    return {f"novelty@{lists.k}": novelty, f"popularity@{lists.k}": mean_count, f"popularity_share@{lists.k}": mean_count / total}


def _error(values: Floats, clusters: Clusters) -> float:
    counted = ~np.isnan(values)
    if not counted.any():
        return math.nan
    return standard_error(influence(values[counted], np.ones(int(counted.sum()))), clusters.of_lists(counted))
