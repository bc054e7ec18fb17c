"""Compares two evaluations of the same lists with paired tests. No metric formulas here."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from streammetrics.metrics.arrays import Ints
from streammetrics.metrics.names import Metric, MetricError
from streammetrics.metrics.optional import optional
from streammetrics.metrics.tables import DataTable, Tabled
from streammetrics.offline.evaluation.clustered import Clusters, influence, standard_error
from streammetrics.offline.evaluation.evaluate import Evaluation, exact_sum
from streammetrics.offline.evaluation.judgments import AGGREGATES
from streammetrics.offline.evaluation.randomisation import PValue, check_sampling, sign_flip_test, swap_test

Unpaired: TypeAlias = Literal["error", "drop"]
Correction: TypeAlias = Literal["none", "holm"]

SAMPLES_DEFAULT = 10_000


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference `b` minus `a` of one metric, over the lists that count in both.

    lists, clusters: the number of lists and of their users. Without users each list is a cluster.
    mean_a, mean_b, difference: over these lists; difference = mean_b - mean_a.
    standard_error: of the difference, clustered by user. lower, upper: the interval of Student's t with clusters - 1 degrees of
        freedom.
    t, t_p_value: the two-sided paired t test. randomisation_p_value: the two-sided paired randomisation test; `exact` if it tried
        all outcomes.
    Values are NaN with fewer than two clusters. The randomisation test needs only one.
    """

    metric: str
    lists: int
    clusters: int
    mean_a: float
    mean_b: float
    difference: float
    standard_error: float
    lower: float
    upper: float
    t: float
    t_p_value: float
    randomisation_p_value: float
    exact: bool


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Tabled):
    """The result of `compare`: one Difference per metric, and the ids of lists that only one side has."""

    differences: tuple[Difference, ...]
    level: float
    correction: Correction
    only_a: tuple[Hashable, ...]
    only_b: tuple[Hashable, ...]

    def __getitem__(self, metric: str) -> Difference:
        for difference in self.differences:
            if difference.metric == metric:
                return difference
        raise MetricError("metric", f"got {metric!r}; allowed are those compared: {', '.join(one.metric for one in self.differences)}")

    def shown(self) -> DataTable:
        """Return the columns of a comparison that people read first."""
        names = ["metric", "mean_a", "mean_b", "difference", "lower", "upper", "t_p_value", "randomisation_p_value", "lists"]
        return DataTable({name: values for name, values in self.frame().items() if name in names})

    def table(self) -> DataTable:
        """The differences as a table with one row per metric."""
        return DataTable(self.frame())

    def frame(self) -> dict[str, list[Any]]:
        """A dict of columns with one row per metric, for pandas.DataFrame or polars.DataFrame."""
        rows = [asdict(one) for one in self.differences]
        return {name: [row[name] for row in rows] for name in Difference.__dataclass_fields__}


def compare(
    a: Evaluation,
    b: Evaluation,
    *,
    unpaired: Unpaired = "error",
    level: float = 0.95,
    samples: int = SAMPLES_DEFAULT,
    seed: int = 0,
    correction: Correction = "none",
) -> Comparison:
    """Compare two evaluations list by list: `b` minus `a`. A positive difference favours `b`.

    a, b: evaluations of the same metrics under the same Spec. Lists are paired by id. If users are known, the lists of a user form
        one cluster in all tests and intervals.
    unpaired: what to do with lists that only one side has: `error`, or `drop` them and name them in `only_a` and `only_b`. A list
        that does not count on one side (no_relevant="skip") is left out of that metric.
    level: the confidence level of the interval. samples, seed: for the randomisation test. With at most 14 clusters that differ,
        all outcomes are tried instead.
    correction: `holm` adjusts both p-values for testing several metrics (Holm 1979). It keeps the probability of any false alarm;
        intervals are not widened. By default p-values are not adjusted, and one of twenty is below 0.05 by chance.

    With mean difference d, its clustered standard error s (see `standard_error`) and G clusters, t = d / s has G - 1 degrees of
    freedom. Without users this is the paired t test. The randomisation test flips the sign of a cluster's differences (Smucker,
    Allan and Carterette 2007). For `item_hit_rate`, a ratio of sums, it swaps the cluster's two counts.

    Raises MetricError, naming the difference, if the evaluations have different specs, metrics, lists or users, and without scipy.

    >>> from streammetrics.offline.evaluation.evaluate import evaluate
    >>> from streammetrics.offline.inputs.grades import from_grades
    >>> a = evaluate(from_grades([[0, 1], [0, 1], [1], [0, 1]]), ["mrr@5"])
    >>> b = evaluate(from_grades([[1, 0], [1, 0], [1], [0, 1]]), ["mrr@5"])
    >>> found = compare(a, b)["mrr@5"]
    >>> found.difference, found.randomisation_p_value, found.exact
    (0.25, 0.5, True)
    """
    check_choices(unpaired, level, samples, seed, correction)
    _require_alike(a, b)
    pairs = _pair(a, b, unpaired)
    differences = [_difference(a, b, metric, pairs, level, (samples, seed)) for metric in a.metrics]
    if correction == "holm":
        differences = _holm(differences)
    return Comparison(tuple(differences), level, correction, pairs.only_a, pairs.only_b)


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The index of each common list in `a` and in `b`, shape (L,) each, and its user."""

    in_a: Ints
    in_b: Ints
    users: Sequence[Hashable] | None
    only_a: tuple[Hashable, ...]
    only_b: tuple[Hashable, ...]


def check_choices(unpaired: str, level: float, samples: int, seed: int, correction: str) -> None:
    """Raise MetricError for invalid options of `compare`, and if scipy is not installed, without evaluations."""
    if unpaired not in ("error", "drop"):
        raise MetricError("unpaired", f"got {unpaired!r}; allowed are error, drop")
    if correction not in ("none", "holm"):
        raise MetricError("correction", f"got {correction!r}; allowed are none, holm")
    if not 0 < level < 1:
        raise MetricError("confidence level", f"got {level!r}; allowed are 0 < level < 1")
    check_sampling(samples, seed)
    _scipy_special()


def _require_alike(a: Evaluation, b: Evaluation) -> None:
    for name, side in (("a", a), ("b", b)):
        if not isinstance(side, Evaluation):
            raise MetricError(name, f"got {type(side).__name__}; allowed is what evaluate returns")
    if a.metrics != b.metrics:
        ours, theirs = (", ".join(map(str, side.metrics)) for side in (a, b))
        raise MetricError("metrics", f"got {theirs} and {ours}; allowed are the same metrics in the same order")
    for metric in a.metrics:
        a.specs[metric].require_same(b.specs[metric])
    require_means(a.metrics)


def require_means(metrics: Iterable[Metric]) -> None:
    """Raise MetricError for a metric that is a sum or a geometric mean: the tests are for means."""
    for metric in metrics:
        if metric.name in AGGREGATES:
            raise MetricError("metrics", f"got {metric}, which is no mean over lists; allowed are means")


def _pair(a: Evaluation, b: Evaluation, unpaired: Unpaired) -> _Pairs:
    place = {name: at for at, name in enumerate(b.lists)}
    common = [(at, place[name]) for at, name in enumerate(a.lists) if name in place]
    known = set(a.lists)
    only_a, only_b = tuple(name for name in a.lists if name not in place), tuple(name for name in b.lists if name not in known)
    if unpaired == "error" and (only_a or only_b):
        side, name = ("a", only_a[0]) if only_a else ("b", only_b[0])
        counts = f"{len(only_a)} in a only, {len(only_b)} in b only"
        raise MetricError("lists", f"got {name!r} in {side} only ({counts}); allowed are the same lists in both, or unpaired='drop'")
    in_a, in_b = (np.array([pair[side] for pair in common], dtype=np.int64) for side in (0, 1))
    return _Pairs(in_a, in_b, _users(a, b, common), only_a, only_b)


def _users(a: Evaluation, b: Evaluation, common: Sequence[tuple[int, int]]) -> Sequence[Hashable] | None:
    if a.users is not None and b.users is not None:
        for at, other in common:
            if a.users[at] != b.users[other]:
                raise MetricError(
                    "users", f"got {b.users[other]!r} and {a.users[at]!r} for list {a.lists[at]!r}; allowed is the same user in both"
                )
    if a.users is not None:
        return [a.users[at] for at, _ in common]
    return None if b.users is None else [b.users[at] for _, at in common]


def _difference(a: Evaluation, b: Evaluation, metric: Metric, pairs: _Pairs, level: float, chance: tuple[int, int]) -> Difference:
    counted = a.counted(metric)[pairs.in_a] & b.counted(metric)[pairs.in_b]
    of_a, of_b = (tuple(part[at][counted] for part in side.parts(metric)) for side, at in ((a, pairs.in_a), (b, pairs.in_b)))
    clusters = Clusters.of(pairs.users, counted.size).of_lists(counted)
    mean_a, mean_b, gap = _means(of_a, of_b)
    error = math.nan
    if counted.any():
        moves = [influence(above.astype(np.float64), below.astype(np.float64)) for above, below in (of_a, of_b)]
        error = standard_error(moves[1] - moves[0], clusters)
    t, p_value, half = _student(gap, error, clusters.count, level)
    tested = _randomised(of_a, of_b, clusters, is_ratio=metric.name == "item_hit_rate", chance=chance)
    lists = int(counted.sum())
    return Difference(
        str(metric), lists, clusters.count, mean_a, mean_b, gap, error, gap - half, gap + half, t, p_value, tested.p_value, tested.exact
    )


def _means(of_a: tuple[Ints, ...], of_b: tuple[Ints, ...]) -> tuple[float, float, float]:
    """Both means and their difference, each from exact sums with one division."""
    (above_a, below_a), (above_b, below_b) = ([exact_sum(part) for part in side] for side in (of_a, of_b))
    if not below_a or not below_b:
        return math.nan, math.nan, math.nan
    return above_a / below_a, above_b / below_b, (above_b * below_a - above_a * below_b) / (below_a * below_b)


def _scipy_special() -> Any:
    return optional("scipy.special", "compare", "'streammetrics[compare]'")


def _student(gap: float, error: float, clusters: int, level: float) -> tuple[float, float, float]:
    """t, its two-sided p-value, and half the width of the interval."""
    if math.isnan(error):
        return math.nan, math.nan, math.nan
    if error == 0:
        return (math.copysign(math.inf, gap), 0.0, 0.0) if gap else (0.0, 1.0, 0.0)
    tails, t = _scipy_special(), gap / error
    return t, 2 * float(tails.stdtr(clusters - 1, -abs(t))), -error * float(tails.stdtrit(clusters - 1, (1 - level) / 2))


def _randomised(of_a: tuple[Ints, ...], of_b: tuple[Ints, ...], clusters: Clusters, *, is_ratio: bool, chance: tuple[int, int]) -> PValue:
    samples, seed = chance
    if not clusters.count:
        return PValue(math.nan, True)
    if not is_ratio:
        # Two values per list are rounded to half a unit each, so a sum of differences is off by at most one unit per list.
        return sign_flip_test(clusters.whole_sums(of_b[0] - of_a[0]), samples, seed, slack=2 * of_a[0].size)
    one, other = ((clusters.whole_sums(above), clusters.whole_sums(below)) for above, below in (of_a, of_b))
    return swap_test(one, other, samples, seed)


def _holm(differences: Sequence[Difference]) -> list[Difference]:
    by_t = holm([one.t_p_value for one in differences])
    by_chance = holm([one.randomisation_p_value for one in differences])
    return [
        replace(one, t_p_value=t, randomisation_p_value=randomised) for one, t, randomised in zip(differences, by_t, by_chance, strict=True)
    ]


def holm(p_values: Sequence[float]) -> list[float]:
    """Step-down adjusted p-values (Holm 1979). NaN stays NaN and does not count as a test.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = list(p_values)
    tests = sorted((p, at) for at, p in enumerate(p_values) if not math.isnan(p))
    least = 0.0
    for place, (p, at) in enumerate(tests):
        least = max(least, min(1.0, p * (len(tests) - place)))
        adjusted[at] = least
    return adjusted
