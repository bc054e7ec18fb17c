"""Evaluates judged lists: values per list, means and standard errors. All values come from `Scorer`."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streammetrics.metrics.arrays import Bools, Floats, Ints
from streammetrics.metrics.names import Column, Metric, MetricError, parse_metric
from streammetrics.metrics.spec import Spec
from streammetrics.metrics.tables import DataTable, Tabled
from streammetrics.offline.evaluation.clustered import Clusters, influence, standard_error
from streammetrics.offline.evaluation.judgments import AGGREGATES, GEOMETRIC_LEAST
from streammetrics.offline.evaluation.requests import Request, check_requests, requests_of
from streammetrics.offline.evaluation.scored import Scored, score
from streammetrics.offline.inputs.judged import Judged


def evaluate(judged: Judged, metrics: Iterable[str | Metric], spec: Spec | None = None) -> Evaluation:
    """Score judged lists under some metrics.

    judged: from `from_run`, `from_lists`, `from_grades`, `from_frame`, `from_trec`, ...
    metrics: names such as `ndcg@10`, each once; see the README for all names. spec: the metric definitions. The default is what the
        stream publishes, except for names of trec_eval such as `map_cut_10`, which have trec_eval's definitions.

    Values are the integers of `Scorer`, so they equal those of the stream. With `ties="average"` a value is the mean over all orders
    of tied items, correct to 2**-40 per group of ties. It exists only for metrics that are sums over places; mrr, hit_rate, map, err
    and item_hit_rate are rejected.

    Raises MetricError for an argument that is not `Judged`, unknown metrics, names of trec_eval with a spec that gives them another
    meaning, metrics that need to know which items were judged (if the input does not tell), and grades above the scorer's limit.

    >>> from streammetrics.offline.inputs.item_ids import from_run
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
    _require_judged(judged)
    return evaluate_requests(judged, requests_of(metrics, spec), Spec() if spec is None else spec)


def _require_judged(judged: Judged) -> None:
    if not isinstance(judged, Judged):
        raise MetricError("judged", f"got {type(judged).__name__}; allowed is what from_run, from_lists, from_grades and their like return")


def evaluate_requests(judged: Judged, requests: Sequence[Request], spec: Spec) -> Evaluation:
    """Like `evaluate`, with a Spec per metric. spec: the one to show if they differ."""
    _require_judged(judged)
    check_requests(tuple(requests))
    scored = score(judged, requests)
    specs = {request.metric: request.spec for request in requests}
    shown = requests[0].spec if len(set(specs.values())) == 1 else spec
    return Evaluation(tuple(specs), shown, specs, scored.columns, judged, scored)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evaluation(Tabled):
    """The result of `evaluate`. Numbers are computed on access from the integers per list.

    spec: the definitions of all metrics. If they differ, that of the metrics without a name of trec_eval; `specs` has each.
    A list that does not define a metric (see `TallyLayout.means`) counts as `spec.no_relevant` says: as 0, as 1, or not at all.
    The mean over no lists is NaN.
    """

    metrics: tuple[Metric, ...]
    spec: Spec
    specs: Mapping[Metric, Spec]
    columns: tuple[Column, ...]
    judged: Judged
    scored: Scored

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
        return DataTable.of_rows(["metric", "mean", "standard_error", "lists"], summary(self))

    def table(self) -> DataTable:
        """The values per list as a table: list_id, user (if known), and one column per metric. NaN for lists that do not count."""
        return DataTable({name: values.tolist() if isinstance(values, np.ndarray) else values for name, values in self.frame().items()})

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
        return int((~self.scored.relevant).sum())

    @property
    def means(self) -> dict[str, float]:
        """The mean of each metric over lists: exact sums, one division.

        For item_hit_rate the ratio of sums; for num_q, num_ret, num_rel and num_rel_ret the sum, an int; for gm_map the geometric mean.
        """
        return {str(metric): _mean(self, metric) for metric in self.metrics}

    @property
    def counts(self) -> dict[str, int]:
        """The number of lists in each mean."""
        return {str(metric): int(self.counted(metric).sum()) for metric in self.metrics}

    @property
    def standard_errors(self) -> dict[str, float]:
        """The standard error of each mean, clustered by user if users are known. NaN for sums. See `standard_error`."""
        clusters = Clusters.of(self.users, len(self))
        return {str(metric): self._standard_error(metric, clusters) for metric in self.metrics}

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
        known = self._known(metric)
        _, below = self.parts(known)
        skipped = ~self.scored.defined[known] if self.specs[known].no_relevant == "skip" else np.zeros(len(self), dtype=np.bool_)
        return (below > 0) & ~skipped

    def parts(self, metric: str | Metric) -> tuple[Ints, Ints]:
        """Numerators and denominators per list, int64, shape (L,) each. The value of a list is their ratio."""
        known = self._known(metric)
        at = next(at for at, column in enumerate(self.columns) if column.metric == known)
        if self.columns[at].kind == "hits":
            return self.scored.rows[:, at], self.scored.rows[:, at + 1]
        one = np.int64(1) << self.columns[at].scale_bits
        above = self.scored.rows[:, at]
        if self.specs[known].no_relevant == "one":
            above = np.where(self.scored.defined[known], above, one)
        return above, np.full(len(self), one)

    def influences(self, metric: str | Metric) -> Floats:
        """The influence of each list on the mean of a metric, shape (L,); 0 for lists that do not count, NaN for sums.

        For a geometric mean: by the delta method, the influence on the mean of logarithms times the geometric mean.
        """
        known = self._known(metric)
        kind = AGGREGATES.get(known.name, "mean")
        if kind == "total":
            return np.full(len(self), np.nan)
        above, below = (part.astype(np.float64) for part in self.parts(known))
        if kind == "geometric":
            above, below = _logarithms(self.values(known)) * _mean(self, known), np.ones(len(self))
        counted = self.counted(known)
        moves = np.zeros(len(self))
        if counted.any():
            moves[counted] = influence(above[counted], below[counted])
        return moves

    def _standard_error(self, metric: Metric, clusters: Clusters) -> float:
        counted = self.counted(metric)
        return standard_error(self.influences(metric)[counted], clusters.of_lists(counted))

    def _known(self, metric: str | Metric) -> Metric:
        known = parse_metric(metric) if isinstance(metric, str) else metric
        if known not in self.metrics:
            raise MetricError("metric", f"got {known}; allowed are those evaluated: {', '.join(map(str, self.metrics))}")
        return known


def _logarithms(values: Floats) -> Floats:
    return np.log(np.maximum(values, GEOMETRIC_LEAST))


def _mean(evaluation: Evaluation, metric: Metric) -> float:
    counted = evaluation.counted(metric)
    kind = AGGREGATES.get(metric.name, "mean")
    if kind == "total":
        return exact_sum(evaluation.parts(metric)[0][counted])
    if kind == "geometric":
        return float(np.exp(_logarithms(evaluation.values(metric)[counted]).mean())) if counted.any() else math.nan
    above, below = (exact_sum(part[counted]) for part in evaluation.parts(metric))
    return above / below if below else math.nan


def exact_sum(values: Ints) -> int:
    """The exact sum of int64 numbers of either sign. The upper and lower halves are summed apart, so nothing overflows.

    >>> exact_sum(np.full(4, -1 << 62)) == -1 << 64
    True
    """
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def summary(evaluation: Evaluation) -> list[Mapping[str, Any]]:
    """One row per metric: name, mean, standard error and number of lists."""
    errors, counts = evaluation.standard_errors, evaluation.counts
    return [
        {"metric": name, "mean": mean, "standard_error": errors[name], "lists": counts[name]} for name, mean in evaluation.means.items()
    ]
