"""Final panes and verdicts as records of the results topic, as rows of a table and as lines of JSON. Pure.

A key says what a record is about, and the newest record of a key counts (an upsert, as in a compacted topic). Records of panes depend only
on committed state: a process that sends a pane again sends the same bytes. Records are never deleted, so there are no tombstones.

A row is one per (pane, group, view, metric). Its numbers are integers: value = numerator / (denominator * 2**scale_bits). Both sums add up
over panes, variants' segments and tasks. For a mean over lists the denominator is the number of lists.

A line, as `replay --panes` writes it, is one per (pane, group, view). A final pane has a line in both views, because live windows read it,
too. Lines are sorted by pane, experiment, variant, segments, view.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from streammetrics.experiments.verdict import VERDICT_CODES
from streammetrics.metrics import TallyLayout
from streammetrics.reports.verdict_lines import VerdictLine
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


class ResultRecord(NamedTuple):
    """One record. `at_ms` is its timestamp: the end of the pane, or the event time up to which the verdict is about."""

    key: bytes
    value: bytes
    at_ms: int


def pane_records(start_ms: int, pane: Pane, *, pane_ms: int, layout: TallyLayout) -> Iterator[ResultRecord]:
    """Yield one record per group of a final pane, merged over all tasks."""
    rows: dict[tuple[str, str, str], list[PaneRow]] = {}
    for row in pane_rows(start_ms, pane, final=True, live=False, pane_ms=pane_ms, layout=layout):
        rows.setdefault((row.experiment, row.variant, row.segments), []).append(row)
    for (experiment, variant, segments), of_group in rows.items():
        key = {"type": "pane", "pane_start_ms": start_ms, "experiment": experiment, "variant": variant, "segments": segments}
        counts = {"pane_ms": pane_ms, "lists": of_group[0].lists, "lists_with_feedback": of_group[0].lists_with_feedback}
        metrics = [
            {"metric": row.metric, "k": row.k, "numerator": row.numerator, "denominator": row.denominator, "scale_bits": row.scale_bits}
            for row in of_group
        ]
        yield ResultRecord(_json(key), _json({**key, **counts, "metrics": metrics}), start_ms + pane_ms)


def verdict_record(line: VerdictLine) -> ResultRecord:
    """Return the record of a verdict: its line. Raises ValueError for a line without a verdict or a time."""
    if line.verdict is None or line.up_to_ms is None:
        raise ValueError(f"the line about {line.about} has no verdict or no time")
    key = {"type": "verdict", "experiment": line.experiment, "scope": line.scope, "variant": line.variant}
    return ResultRecord(_json(key), _json({**key, **msgspec.to_builtins(line), "code": VERDICT_CODES[line.verdict]}), line.up_to_ms)


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)


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
