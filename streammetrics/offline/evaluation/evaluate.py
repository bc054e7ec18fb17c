"""Evaluates judged lists: values per list, means and standard errors. All values come from `Scorer`."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from streammetrics.metrics.arrays import Bools, Floats, Ints
from streammetrics.metrics.kernel.formulas import columns_of_facts, defined
from streammetrics.metrics.names import Metric, MetricError, parse_metric
from streammetrics.metrics.scorer import Scorer
from streammetrics.metrics.spec import Spec
from streammetrics.metrics.tables import DataTable, TableResult
from streammetrics.offline.evaluation.judged import JudgedLists


def evaluate(judged: JudgedLists, metrics: Iterable[str | Metric], spec: Spec | None = None) -> Evaluation:
    """Score judged lists under some metrics.

    judged: from `from_run`, `from_lists`, `from_grades`, `from_frame`, ...
    metrics: names such as `ndcg@10`, each once; see the README for all names. spec: the metric definitions, by default those of the
        stream.

    Values are the integers of `Scorer`, so they equal those of the stream.

    Raises MetricError for an argument that is not `JudgedLists`, unknown metrics, and grades above the scorer's limit.

    >>> from streammetrics.offline.evaluation.item_ids import from_run
    >>> result = evaluate(from_run({"q1": {"a": 2.0, "b": 1.0}, "q2": {"a": 1.0}}, {"q1": {"b": 1}, "q2": {"a": 3}}), ["mrr@10"])
    >>> result.means, result.standard_errors
    ({'mrr@10': 0.75}, {'mrr@10': 0.25})
    >>> result
    2 lists, 0 without a relevant item
    metric  mean    standard_error  lists
    mrr@10  0.7500  0.2500          2
    >>> result.frame()
    {'list_id': ['q1', 'q2'], 'mrr@10': array([0.5, 1. ])}
    """
    if not isinstance(judged, JudgedLists):
        raise MetricError("judged", f"got {type(judged).__name__}; allowed is what from_run, from_lists, from_grades and their like return")
    graded = np.bincount(np.concatenate((judged.rows, judged.unseen_rows)), minlength=len(judged))
    deepest = max(1, int(judged.lengths.max(initial=0)), int(graded.max(initial=0)))
    scorer = Scorer(metrics, Spec() if spec is None else spec, items_max=deepest)
    _check_grades(scorer, judged)
    unseen = (judged.unseen_rows, judged.unseen_grades)
    count, blocks = scorer.blocks_of_hits(judged.lengths, judged.rows, judged.positions, judged.grades, unseen)
    rows = np.empty((count, len(scorer.columns)), dtype=np.int64)
    relevant = np.empty(count, dtype=np.bool_)
    sums = [column.metric for column in scorer.columns if column.kind == "sum"]
    defining = np.empty((len(sums), count), dtype=np.bool_)
    for first, facts in blocks:
        part = slice(first, first + facts.lengths.size)
        rows[part] = columns_of_facts(facts).T
        relevant[part] = facts.relevant > 0
        defining[:, part] = defined(facts)
    return Evaluation(scorer, judged, rows, relevant, dict(zip(sums, defining, strict=True)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evaluation(TableResult):
    """The result of `evaluate`. Numbers are computed on access from the integers per list.

    rows: int64, shape (L, columns), the columns of `scorer`. relevant: which lists have a relevant item, shown or unseen, shape (L,).
    defined: per metric, which lists define it (see `TallyLayout.means`), shape (L,); all of them for `item_hit_rate`, which is missing.

    A list that does not define a metric counts as `spec.no_relevant` says: as 0, as 1, or not at all. The mean over no lists is NaN.
    """

    scorer: Scorer
    judged: JudgedLists
    rows: Ints
    relevant: Bools
    defined: Mapping[Metric, Bools]

    def __len__(self) -> int:
        return len(self.judged)

    def __repr__(self) -> str:
        return f"{self._title()}\n{self.summary()!r}"

    def _repr_html_(self) -> str:
        """The title and the means as HTML; Jupyter shows it."""
        return f"<p>{self._title()}</p>{self.summary()._repr_html_()}"

    def _title(self) -> str:
        lists, users = len(self), 0 if self.users is None else len(set(self.users))
        of_users = f" of {users:,} {'user' if users == 1 else 'users'}" if self.users is not None else ""
        return f"{lists:,} {'list' if lists == 1 else 'lists'}{of_users}, {self.lists_without_relevant:,} without a relevant item"

    def summary(self) -> DataTable:
        """One row per metric: mean, standard error and number of lists."""
        means, errors, counts = self.means, self.standard_errors, self.counts
        columns: dict[str, list[Any]] = {"mean": [*means.values()], "standard_error": [*errors.values()], "lists": [*counts.values()]}
        return DataTable({"metric": [*means], **columns})

    def table(self) -> DataTable:
        """The values per list as a table: list_id, user (if known), and one column per metric. NaN for lists that do not count."""
        return DataTable({name: values.tolist() if isinstance(values, np.ndarray) else values for name, values in self.frame().items()})

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics, in the order in which they were asked for."""
        return self.scorer.metrics

    @property
    def spec(self) -> Spec:
        """The definitions of the metrics."""
        return self.scorer.spec

    @property
    def lists(self) -> tuple[Hashable, ...]:
        """The ids of the lists."""
        return self.judged.lists

    @property
    def users(self) -> tuple[Hashable, ...] | None:
        """The user of each list, or None if users are unknown."""
        return self.judged.users

    @property
    def lists_without_relevant(self) -> int:
        """The number of lists without a relevant item, shown or unseen."""
        return int((~self.relevant).sum())

    @property
    def means(self) -> dict[str, float]:
        """The mean of each metric over lists: exact sums, one division. For item_hit_rate the ratio of sums."""
        return {str(metric): self._mean(metric) for metric in self.metrics}

    @property
    def counts(self) -> dict[str, int]:
        """The number of lists in each mean."""
        return {str(metric): int(self.counted(metric).sum()) for metric in self.metrics}

    @property
    def standard_errors(self) -> dict[str, float]:
        """The standard error of each mean, clustered by user if users are known. NaN with fewer than two clusters.

        sqrt(G / (G - 1) * sum over clusters of (sum of its influences)**2), with G clusters. The influence of a list on the ratio of
        sums is (y - ratio * n) / sum(n); for a plain mean all n are 1. This is the delta-method variance of a ratio under cluster
        sampling (Cochran 1977, Sampling Techniques, chapters 6 and 9A; Liang and Zeger 1986), with the usual small-sample factor.
        Without users each list is a cluster, and the error of a mean is the standard deviation (ddof 1) / sqrt(L).
        """
        return {str(metric): self._standard_error(metric) for metric in self.metrics}

    def values(self, metric: str | Metric) -> Floats:
        """The values per list, float64, shape (L,); NaN for lists that do not count."""
        above, below = self.parts(metric)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.counted(metric), above / below, np.nan)

    def frame(self) -> dict[str, Any]:
        """Values per list as a dict of columns for pandas.DataFrame or polars.DataFrame: list_id, user (if known), metrics."""
        ids: dict[str, Any] = {"list_id": list(self.lists)}
        if self.users is not None:
            ids["user"] = list(self.users)
        return ids | {str(metric): self.values(metric) for metric in self.metrics}

    def counted(self, metric: str | Metric) -> Bools:
        """Which lists are in the mean of a metric, booleans, shape (L,)."""
        asked = self._evaluated(metric)
        some: Bools = self.parts(asked)[1] > 0
        return some & self.defined[asked] if self.spec.no_relevant == "skip" and asked in self.defined else some

    def parts(self, metric: str | Metric) -> tuple[Ints, Ints]:
        """Numerators and denominators per list, int64, shape (L,) each. The value of a list is their ratio."""
        asked = self._evaluated(metric)
        at = next(at for at, column in enumerate(self.scorer.columns) if column.metric == asked)
        column, above = self.scorer.columns[at], self.rows[:, at]
        if column.kind == "hits":
            return above, self.rows[:, at + 1]
        one = np.int64(1) << column.scale_bits
        if self.spec.no_relevant == "one":
            above = np.where(self.defined[asked], above, one)
        return above, np.full(len(self), one)

    def _mean(self, metric: Metric) -> float:
        above, below = (exact_sum(part[self.counted(metric)]) for part in self.parts(metric))
        return above / below if below else math.nan

    def _standard_error(self, metric: Metric) -> float:
        counted = self.counted(metric)
        above, below = (part[counted].astype(np.float64) for part in self.parts(metric))
        numbers: dict[Hashable, int] = {}
        owners = range(len(self)) if self.users is None else self.users
        clusters = [numbers.setdefault(owners[at], len(numbers)) for at in np.flatnonzero(counted).tolist()]
        if len(numbers) < 2:
            return math.nan
        total = below.sum()
        totals = np.bincount(clusters, (above - above.sum() / total * below) / total)
        return math.sqrt(len(numbers) / (len(numbers) - 1) * float(totals @ totals))

    def _evaluated(self, metric: str | Metric) -> Metric:
        asked = parse_metric(metric) if isinstance(metric, str) else metric
        if asked not in self.metrics:
            raise MetricError("metric", f"got {asked}; allowed are those evaluated: {', '.join(map(str, self.metrics))}")
        return asked


def exact_sum(values: Ints) -> int:
    """The exact sum of int64 numbers of either sign. The upper and lower halves are summed apart, so nothing overflows.

    >>> exact_sum(np.full(4, -1 << 62)) == -1 << 64
    True
    """
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def _check_grades(scorer: Scorer, judged: JudgedLists) -> None:
    for rows, grades in ((judged.rows, judged.grades), (judged.unseen_rows, judged.unseen_grades)):
        beyond = np.flatnonzero(~(grades <= scorer.grade_max))
        if beyond.size:
            at = int(beyond[0])
            raise MetricError(
                "grade",
                f"got {grades[at]:g} in list {judged.lists[int(rows[at])]!r}; allowed for these metrics are 0..{scorer.grade_max:g}",
            )
