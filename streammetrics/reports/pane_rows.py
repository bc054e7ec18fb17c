"""Panes as rows of a table, one per (pane, group, view, metric): for frames and the results topic.

Pure. The numbers are integers: value = numerator / (denominator * 2**scale_bits). Both sums add up over panes, variants' segments and
tasks. For a mean over lists the denominator is the number of lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from streammetrics.metrics import TallyLayout
from streammetrics.windows.panes import Group, Pane


class PaneRow(NamedTuple):
    """One metric of one group in one pane. `segments` is empty for all traffic of the group; `k` is 0 for a metric without a cut-off."""

    pane_start_ms: int
    pane_ms: int
    experiment: str
    variant: str
    segments: str
    view: str
    lists: int
    lists_with_feedback: int
    metric: str
    k: int
    numerator: int
    denominator: int
    scale_bits: int

    @property
    def value(self) -> float | None:
        """The mean, or ratio of sums; None without a denominator."""
        return self.numerator / (self.denominator << self.scale_bits) if self.denominator else None


def pane_rows(start_ms: int, pane: Pane, *, final: bool, pane_ms: int, layout: TallyLayout, live: bool = True) -> Iterator[PaneRow]:
    """Yield the rows of one pane, sorted like the lines of `pane_lines`.

    `final`: the pane can no longer change. `live`: whether the live view has rows too.
    """
    for group in sorted(pane):
        for view in ("final",) * final + ("live",) * live:
            yield from _of_group(start_ms, group, pane[group], view, pane_ms, layout)


def _of_group(start_ms: int, group: Group, tally: list[int], view: str, pane_ms: int, layout: TallyLayout) -> Iterator[PaneRow]:
    lists, with_feedback = layout.lists(tally), layout.lists_with_feedback(tally)
    segments = ",".join(f"{name}={value}" for name, value in sorted(group.segments.items()))
    key = (start_ms, pane_ms, group.experiment, group.variant, segments, view, lists, with_feedback)
    above, bits = 0, 0
    for column, total in zip(layout.columns, layout.sums(tally), strict=True):
        if column.kind in ("hits", "numerator"):
            above, bits = total, column.scale_bits
            continue
        numerator, denominator = (total, lists) if column.kind in ("sum", "bucket") else (above, total)
        scale_bits = column.scale_bits if column.kind in ("sum", "bucket") else bits
        yield PaneRow(*key, column.metric.name, column.metric.k, numerator, denominator, scale_bits)
