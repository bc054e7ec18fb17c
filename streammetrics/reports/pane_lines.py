"""Panes as lines of JSON: the output of `replay --panes`, for people that check or reuse the integers.

Pure. There is one line per (pane, group, view). A final pane has a line in both views, because live windows read it too. Lines are
sorted by pane, experiment, variant, segments, view.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from streammetrics.metrics import TallyLayout
from streammetrics.windows.panes import Pane


def pane_lines(start_ms: int, pane: Pane, *, final: bool, pane_ms: int, layout: TallyLayout, live: bool = True) -> Iterator[bytes]:
    """Return the lines of one pane, each ending with a newline.

    `final`: the pane can no longer change. `live`: whether the live view has lines too.
    """
    for group in sorted(pane):
        tally = pane[group]
        for view in ("final",) * final + ("live",) * live:
            line = {
                "pane_start_ms": start_ms,
                "pane_ms": pane_ms,
                "experiment": group.experiment,
                "variant": group.variant,
                "segments": group.segments,
                "view": view,
                "lists": layout.lists(tally),
                "lists_with_feedback": layout.lists_with_feedback(tally),
                "metrics": _metrics(tally, layout),
            }
            yield msgspec.json.encode(line) + b"\n"


def _metrics(tally: list[int], layout: TallyLayout) -> dict[str, dict[str, Any]]:
    metrics: dict[str, dict[str, Any]] = {}
    for column, total in zip(layout.columns, layout.sums(tally), strict=True):
        if column.kind == "sum":
            metrics[str(column.metric)] = {"sum": total / (1 << column.scale_bits), "sum_raw": total, "scale_bits": column.scale_bits}
        else:
            sums = metrics.setdefault(str(column.metric), {})
            sums[column.kind] = total
            if column.kind == "numerator" and column.scale_bits:
                sums["scale_bits"] = column.scale_bits
    return metrics
