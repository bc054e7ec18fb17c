"""Shortens ranked lists before they are matched with judgments: to a depth (trec_eval's -M), or to judged items only (its -J)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streammetrics.metrics.arrays import Bools, Ints
from streammetrics.metrics.names import MetricError
from streammetrics.offline.inputs.ranking import ItemLists, Ranked


def cut(
    shown: ItemLists, ranked: Ranked, judgments: Sequence[Mapping[Any, float]], depth: int | None, judged_only: bool
) -> tuple[ItemLists, Ranked]:
    """Keep the first `depth` items of each list, and of these the judged ones (grade 0 or more). The others count as not shown.

    depth: None keeps all ranks. Items keep their order, and move up where others are left out.
    Raises MetricError for a depth below 1, and for groups of ties to average over, whose items have no fixed rank.
    """
    if depth is None and not judged_only:
        return shown, ranked
    if depth is not None and (type(depth) is not int or depth < 1):
        raise MetricError("depth", f"got {depth!r}; allowed are whole numbers >= 1")
    if ranked.ties is not None:
        raise MetricError("ties", "got 'average' with depth or judged_only, which need one order; allowed are the other rules")
    rows = shown.rows()
    kept = np.ones(rows.size, dtype=np.bool_) if depth is None else ranked.positions < depth
    if judged_only:
        kept &= _judged(shown, rows, judgments)
    counts = np.bincount(rows[kept], minlength=len(shown.lists))
    offsets = np.concatenate(([0], np.cumsum(counts)))
    chosen = np.flatnonzero(kept)
    assert shown.items is not None
    fewer = ItemLists(shown.lists, offsets, [shown.items[at] for at in chosen.tolist()], None)
    return fewer, Ranked(_ranks(rows[kept], ranked.positions[kept], offsets), None)


def _judged(shown: ItemLists, rows: Ints, judgments: Sequence[Mapping[Any, float]]) -> Bools:
    assert shown.items is not None
    found = (judgments[row].get(item, -1) >= 0 for row, item in zip(rows.tolist(), shown.items, strict=True))
    return np.fromiter(found, dtype=np.bool_, count=rows.size)


def _ranks(rows: Ints, positions: Ints, offsets: Ints) -> Ints:
    """The positions of the kept items without gaps."""
    order = np.lexsort((positions, rows))
    ranks = np.empty(order.size, dtype=np.int64)
    ranks[order] = np.arange(order.size) - offsets[rows[order]]
    return ranks
