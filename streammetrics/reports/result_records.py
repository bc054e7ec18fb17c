"""Results as records of a topic: one per group of a final pane, and one per verdict. Pure.

A key says what a record is about, and the newest record of a key counts (an upsert, as in a compacted topic). Records of panes depend only
on committed state: a process that sends a pane again sends the same bytes. Records are never deleted, so there are no tombstones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from streammetrics.experiments.verdict import VERDICT_CODES
from streammetrics.metrics import TallyLayout
from streammetrics.reports.pane_rows import PaneRow, pane_rows
from streammetrics.reports.verdict_lines import VerdictLine
from streammetrics.windows.panes import Pane


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
