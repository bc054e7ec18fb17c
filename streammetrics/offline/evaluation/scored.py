"""Scores judged lists: integers per list, and which lists define which metric. Averages over ties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from streammetrics.metrics.arrays import Bools, Ints
from streammetrics.metrics.kernel.formulas import columns_of_facts, defined
from streammetrics.metrics.names import EVALUATE_NAMES, Column, Metric, MetricError
from streammetrics.metrics.scorer import Scorer
from streammetrics.metrics.spec import Spec
from streammetrics.metrics.units import VALUE_BITS
from streammetrics.offline.evaluation.judgments import JudgedCounts, defined_by, scale_bits, values_of
from streammetrics.offline.evaluation.requests import Request
from streammetrics.offline.inputs.judged import Judged
from streammetrics.offline.inputs.ranking import TieGroups

SUMS_OVER_PLACES: Final = frozenset({"cg", "dcg", "dcg_exp", "ndcg", "ndcg_exp", "precision", "recall", "f1", "r_precision", "rbp"})
"""Metrics with a numerator that sums one term per item and a denominator that does not depend on the order."""

BLOCK_HITS: Final = 1 << 20

_MAP: Final = Metric("map")


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """The scores of judged lists.

    columns: their meaning. rows: int64, shape (L, columns), as from `Scorer`. relevant: which lists have a relevant item, shown or
        unseen, shape (L,).
    defined: per metric, which lists define it (see `TallyLayout.means`), shape (L,); all of them for `item_hit_rate`.
    """

    columns: tuple[Column, ...]
    rows: Ints
    relevant: Bools
    defined: Mapping[Metric, Bools]


def score(judged: Judged, requests: Sequence[Request]) -> Scored:
    """Score judged lists under each requested metric and its Spec. The columns are in the order of the requests.

    Raises MetricError for grades above the scorer's limit, naming the list, and for metrics that cannot be averaged over ties.
    """
    specs = dict.fromkeys(request.spec for request in requests)
    parts = [_score_alike(judged, [request.metric for request in requests if request.spec == spec], spec) for spec in specs]
    columns = [column for part in parts for column in part.columns]
    rows = np.concatenate([part.rows for part in parts], axis=1)
    order = [at for request in requests for at, column in enumerate(columns) if column.metric == request.metric]
    defined = {metric: flags for part in parts for metric, flags in part.defined.items()}
    return Scored(tuple(columns[at] for at in order), rows[:, order], parts[0].relevant, defined)


def _score_alike(judged: Judged, metrics: Sequence[Metric], spec: Spec) -> Scored:
    """The scores under one Spec. gm_map has the values of map."""
    own = [metric for metric in metrics if metric.name in EVALUATE_NAMES]
    if own and judged.ties is not None:
        raise MetricError("ties", f"got 'average' for {own[0]}; allowed are {', '.join(sorted(SUMS_OVER_PLACES))}")
    base = [metric for metric in metrics if metric not in own]
    if any(metric.name == "gm_map" for metric in own) and _MAP not in base:
        base.append(_MAP)
    counts = JudgedCounts(judged, spec)
    scored = _by_scorer(judged, base, spec) if base else Scored((), np.zeros((len(judged), 0), dtype=np.int64), counts.relevant > 0, {})
    columns, rows, defined = [*scored.columns], [scored.rows], {**scored.defined}
    for metric in own:
        is_geometric = metric.name == "gm_map"
        values = scored.rows[:, columns.index(Column(_MAP, "sum", VALUE_BITS))] if is_geometric else values_of(counts, metric)
        rows.append(values[:, None])
        columns.append(Column(metric, "sum", scale_bits(metric)))
        defined[metric] = defined_by(counts, metric)
    wanted = [at for at, column in enumerate(columns) if column.metric in metrics]
    return Scored(tuple(columns[at] for at in wanted), np.concatenate(rows, axis=1)[:, wanted], scored.relevant, defined)


def _by_scorer(judged: Judged, metrics: Sequence[Metric], spec: Spec) -> Scored:
    graded = np.bincount(np.concatenate((judged.rows, judged.unseen_rows)), minlength=len(judged))
    deepest = max(1, int(judged.lengths.max(initial=0)), int(graded.max(initial=0)))
    scorer = Scorer(metrics, spec, items_max=deepest)
    _check_grades(scorer, judged)
    scored = _score(scorer, judged)
    if judged.ties is not None and judged.ties.rows.size:
        scored = replace(scored, rows=_averaged(scorer, judged, judged.ties, scored.rows))
    return scored


def _score(scorer: Scorer, judged: Judged) -> Scored:
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
    always = np.ones(count, dtype=np.bool_)
    by_metric = dict(zip(sums, defining, strict=True))
    return Scored(scorer.columns, rows, relevant, {metric: by_metric.get(metric, always) for metric in scorer.metrics})


def _averaged(scorer: Scorer, judged: Judged, ties: TieGroups, base: Ints) -> Ints:
    """The mean over all orders of tied items, rounded to integers (McSherry and Najork 2008).

    Over all orders, each item of a group of m is at each of its m places equally often. The m rotations of the group have the same
    property. A metric that sums one term per item therefore has the same mean over rotations, and groups add up:
    mean = base + sum over groups of (mean over the group's rotations - base). All rotations are scored by the scorer.
    """
    _require_sums(scorer)
    hits = _ByRow(judged.rows, len(judged))
    moves = np.zeros(base.shape, dtype=np.float64)
    for groups in _blocks(ties, hits, judged):
        rotated = _rotate(judged, hits, groups)
        borders = np.concatenate(([0], np.cumsum(groups.sizes - 1)))[:-1]
        differences = _score(scorer, rotated).rows - base[np.repeat(groups.rows, groups.sizes - 1)]
        np.add.at(moves, groups.rows, np.add.reduceat(differences, borders, axis=0) / groups.sizes[:, None])
    return base + np.rint(moves).astype(np.int64)


class _ByRow:
    """An index of entries by row: the entries of row r are order[starts[r]:starts[r] + counts[r]]."""

    def __init__(self, rows: Ints, count: int) -> None:
        self.order = np.argsort(rows, kind="stable")
        self.counts = np.bincount(rows, minlength=count)
        self.starts = np.cumsum(self.counts) - self.counts

    def of(self, rows: Ints) -> tuple[Ints, Ints]:
        """The entries of these rows, concatenated, and the index into `rows` of each."""
        counts = self.counts[rows]
        owners = np.repeat(np.arange(rows.size), counts)
        within = np.arange(owners.size) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.order[self.starts[rows][owners] + within], owners


def _blocks(ties: TieGroups, hits: _ByRow, judged: Judged) -> Iterator[TieGroups]:
    """The groups with a graded item, in blocks of bounded work. Other groups do not change any value."""
    entries, owners = hits.of(ties.rows)
    inside = (judged.positions[entries] >= ties.starts[owners]) & (judged.positions[entries] < (ties.starts + ties.sizes)[owners])
    moving = np.flatnonzero(np.bincount(owners[inside], minlength=ties.rows.size))
    if not moving.size:
        return
    work = np.cumsum((ties.sizes * (1 + hits.counts[ties.rows]))[moving])
    for block in np.split(moving, np.flatnonzero(np.diff(work // BLOCK_HITS)) + 1):
        yield TieGroups(ties.rows[block], ties.starts[block], ties.sizes[block])


def _rotate(judged: Judged, hits: _ByRow, groups: TieGroups) -> Judged:
    """One list per rotation by 1..m - 1 of each group. Items outside the group keep their positions."""
    turns = groups.sizes - 1
    group_of = np.repeat(np.arange(groups.rows.size), turns)
    turn = np.arange(group_of.size) - np.repeat(np.cumsum(turns) - turns, turns) + 1
    rows = groups.rows[group_of]
    entries, owners = hits.of(rows)
    positions, starts, sizes = judged.positions[entries], groups.starts[group_of][owners], groups.sizes[group_of][owners]
    moved = np.where((positions >= starts) & (positions < starts + sizes), starts + (positions - starts + turn[owners]) % sizes, positions)
    unseen, unseen_owners = _ByRow(judged.unseen_rows, len(judged)).of(rows)
    return Judged(
        tuple(range(rows.size)), judged.lengths[rows], owners, moved, judged.grades[entries], unseen_owners, judged.unseen_grades[unseen]
    )


def _require_sums(scorer: Scorer) -> None:
    refused = [str(metric) for metric in scorer.metrics if metric.name not in SUMS_OVER_PLACES]
    if refused:
        allowed = ", ".join(sorted(SUMS_OVER_PLACES))
        raise MetricError("ties", f"got 'average' for {', '.join(refused)}; allowed are metrics that are sums over places: {allowed}")
    if scorer.spec.ideal == "first_k" and any(metric.name in ("ndcg", "ndcg_exp") for metric in scorer.metrics):
        raise MetricError("ties", "got 'average' for an ndcg with ideal='first_k'; allowed is an ideal that does not depend on the order")


def _check_grades(scorer: Scorer, judged: Judged) -> None:
    for rows, grades in ((judged.rows, judged.grades), (judged.unseen_rows, judged.unseen_grades)):
        beyond = np.flatnonzero(~(grades <= scorer.grade_max))
        if beyond.size:
            at = int(beyond[0])
            raise MetricError(
                "grade",
                f"got {grades[at]:g} in list {judged.lists[int(rows[at])]!r}; allowed for these metrics are 0..{scorer.grade_max:g}",
            )
