"""The one place where judged lists meet a scorer: its integers by list, and which lists define which metric. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from streammetrics.metrics.arrays import Bools, Ints
from streammetrics.metrics.inputs.judged import Judged
from streammetrics.metrics.inputs.ranking import TieGroups
from streammetrics.metrics.kernels.formulas import columns_of_facts, defined
from streammetrics.metrics.names import Metric, MetricError
from streammetrics.metrics.scorer import Scorer
from streammetrics.metrics.spec import Spec

SUMS_OVER_PLACES: Final = frozenset({"cg", "dcg", "dcg_exp", "ndcg", "ndcg_exp", "precision", "recall", "f1", "r_precision", "rbp"})
"""Metrics whose numerator is a sum over places of something that depends on one item only, and whose denominator on no order."""

BLOCK_HITS: Final = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """rows: int64, shape (L, columns), as from `Scorer`. relevant: which lists have a relevant item, shown or not, shape (L,).

    defined: for each metric, whether a list's items define it (see `Metric`), shape (L,); always so for item_hit_rate.
    """

    rows: Ints
    relevant: Bools
    defined: Mapping[Metric, Bools]


def score(judged: Judged, metrics: Iterable[str | Metric], spec: Spec | None) -> tuple[Scorer, Scored]:
    """The scorer made for these lists, and what it says of them.

    Raises MetricError, naming the list, for grades beyond the scorer's limit, and for metrics that cannot be averaged over ties.
    """
    graded = np.bincount(np.concatenate((judged.rows, judged.unseen_rows)), minlength=len(judged))
    deepest = max(1, int(judged.lengths.max(initial=0)), int(graded.max(initial=0)))
    scorer = Scorer(metrics, spec, items_max=deepest)
    _check_grades(scorer, judged)
    scored = _score(scorer, judged)
    if judged.ties is not None and judged.ties.rows.size:
        scored = replace(scored, rows=_averaged(scorer, judged, judged.ties, scored.rows))
    return scorer, scored


def _score(scorer: Scorer, judged: Judged) -> Scored:
    unseen = (judged.unseen_rows, judged.unseen_grades)
    count, parts = scorer.parts_of_hits(judged.lengths, judged.rows, judged.positions, judged.grades, unseen)
    rows = np.empty((count, len(scorer.columns)), dtype=np.int64)
    relevant = np.empty(count, dtype=np.bool_)
    sums = [column.metric for column in scorer.columns if column.kind == "sum"]
    defining = np.empty((len(sums), count), dtype=np.bool_)
    for first, facts in parts:
        part = slice(first, first + facts.lengths.size)
        rows[part] = columns_of_facts(facts).T
        relevant[part] = facts.relevant > 0
        defining[:, part] = defined(facts)
    always = np.ones(count, dtype=np.bool_)
    by_metric = dict(zip(sums, defining, strict=True))
    return Scored(rows, relevant, {metric: by_metric.get(metric, always) for metric in scorer.metrics})


def _averaged(scorer: Scorer, judged: Judged, ties: TieGroups, base: Ints) -> Ints:
    """Expected values over all orders of tied items, as integers again.

    A metric that is a sum over places has an expectation that looks at one item at a time: each item of a group of m is at each of its
    m places equally often. The m rotations of the group do the same, so their mean is the expectation, and groups add up:
    expected = base + sum over groups of (mean over the group's rotations - base). The scorer itself is asked for all of them.
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
    """Entries that belong to rows, found by row: `order` sorts them, those of row r are order[starts[r]:starts[r] + counts[r]]."""

    def __init__(self, rows: Ints, count: int) -> None:
        self.order = np.argsort(rows, kind="stable")
        self.counts = np.bincount(rows, minlength=count)
        self.starts = np.cumsum(self.counts) - self.counts

    def of(self, rows: Ints) -> tuple[Ints, Ints]:
        """The entries of each of these rows, one after the other, and to which of `rows` each belongs."""
        counts = self.counts[rows]
        owners = np.repeat(np.arange(rows.size), counts)
        within = np.arange(owners.size) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.order[self.starts[rows][owners] + within], owners


def _blocks(ties: TieGroups, hits: _ByRow, judged: Judged) -> Iterator[TieGroups]:
    """The groups in which a graded item can move, cut so that a block's rotations stay small."""
    entries, owners = hits.of(ties.rows)
    inside = (judged.positions[entries] >= ties.starts[owners]) & (judged.positions[entries] < (ties.starts + ties.sizes)[owners])
    moving = np.flatnonzero(np.bincount(owners[inside], minlength=ties.rows.size))
    if not moving.size:
        return
    work = np.cumsum((ties.sizes * (1 + hits.counts[ties.rows]))[moving])
    for block in np.split(moving, np.flatnonzero(np.diff(work // BLOCK_HITS)) + 1):
        yield TieGroups(ties.rows[block], ties.starts[block], ties.sizes[block])


def _rotate(judged: Judged, hits: _ByRow, groups: TieGroups) -> Judged:
    """A list for each rotation by 1 .. m - 1 of each group, in which all but the group's items stay where they are."""
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
