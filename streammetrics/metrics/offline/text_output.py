"""Formats evaluations and comparisons as text: tables, JSON, CSV, and the columns of trec_eval."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Final, Literal, TypeAlias

from streammetrics.metrics.names import Metric
from streammetrics.metrics.offline.compare import Comparison, Difference
from streammetrics.metrics.offline.evaluate import Evaluation, summary
from streammetrics.metrics.spec import Spec

EvaluateFormat: TypeAlias = Literal["table", "json", "csv", "trec"]

ALL_LISTS: Final = "all"
"""The id of the row with the means, as in trec_eval."""

_GAP: Final = "  "
_NONE: Final = "-"
"""Shown in tables for an undefined number."""


def evaluation_text(evaluation: Evaluation, form: EvaluateFormat, *, labels: Mapping[Metric, str], per_query: bool, digits: int) -> str:
    """Format an evaluation. labels: the displayed name of each metric. digits: after the point, in `table` and `trec`."""
    if form == "json":
        return _json(_evaluation_object(evaluation, labels, per_query))
    if form == "csv":
        return _csv(*_by_list(evaluation, labels)) if per_query else _csv(*_summary(evaluation, labels))
    if form == "trec":
        return _trec(evaluation, labels, per_query, digits)
    parts = [_table(*_by_list(evaluation, labels), digits)] if per_query else []
    return "\n".join([*parts, _table(*_summary(evaluation, labels), digits)])


def comparison_text(
    a: Evaluation, b: Evaluation, comparison: Comparison, form: EvaluateFormat, *, labels: Mapping[Metric, str], digits: int
) -> str:
    """Format a comparison as table, JSON or CSV."""
    named = {str(metric): label for metric, label in labels.items()}
    if form == "json":
        sides = {name: _evaluation_object(side, labels, False) for name, side in (("a", a), ("b", b))}
        tests = {named[one.metric]: _plain(asdict(one), without="metric") for one in comparison.differences}
        settings = {"level": comparison.level, "correction": comparison.correction}
        left_out = {"only_a": len(comparison.only_a), "only_b": len(comparison.only_b)}
        return _json({**sides, "comparison": {**settings, **left_out, "metrics": tests}})
    if form == "csv":
        names = [field.name for field in fields(Difference)]
        rows = [[named[one.metric], *list(asdict(one).values())[1:]] for one in comparison.differences]
        return _csv(names, rows)
    percent = f"{100 * comparison.level:.15g}%"
    head = ["metric", "a", "b", "b - a", f"{percent} interval", "t test p", "randomised p", "lists", "users"]
    rows = [_difference_row(one, named[one.metric], digits) for one in comparison.differences]
    return _table(head, rows, digits)


def _difference_row(one: Difference, label: str, digits: int) -> list[Any]:
    interval = _NONE if math.isnan(one.lower) else f"{one.lower:+.{digits}f} .. {one.upper:+.{digits}f}"
    chances = [_formatted(p, ".4g") for p in (one.t_p_value, one.randomisation_p_value)]
    return [label, one.mean_a, one.mean_b, _formatted(one.difference, f"+.{digits}f"), interval, *chances, one.lists, one.clusters]


def _summary(evaluation: Evaluation, labels: Mapping[Metric, str]) -> tuple[list[str], list[list[Any]]]:
    named = {str(metric): label for metric, label in labels.items()}
    rows = [[named[row["metric"]], row["mean"], row["standard_error"], row["lists"]] for row in summary(evaluation)]
    return ["metric", "mean", "standard_error", "lists"], rows


def _by_list(evaluation: Evaluation, labels: Mapping[Metric, str]) -> tuple[list[str], list[list[Any]]]:
    columns = [evaluation.values(metric).tolist() for metric in evaluation.metrics]
    rows = [[name, *values] for name, *values in zip(evaluation.lists, *columns, strict=True)]
    return ["list_id", *(labels[metric] for metric in evaluation.metrics)], [*rows, [ALL_LISTS, *evaluation.means.values()]]


def _trec(evaluation: Evaluation, labels: Mapping[Metric, str], per_query: bool, digits: int) -> str:
    """The three columns of trec_eval: measure, query, value. Lists that do not count for a metric are left out."""
    (_, *names), rows = _by_list(evaluation, labels)
    wanted = rows if per_query else rows[-1:]
    cells = ((name, row[0], value) for row in wanted for name, value in zip(names, row[1:], strict=True))
    return "".join(f"{name:<22}\t{query}\t{value:6.{digits}f}\n" for name, query, value in cells if not math.isnan(value))


def _evaluation_object(evaluation: Evaluation, labels: Mapping[Metric, str], per_query: bool) -> dict[str, Any]:
    named = {str(metric): label for metric, label in labels.items()}
    judged = evaluation.judged
    found: dict[str, Any] = {
        "spec": spec_object(evaluation.spec),
        "spec_digest": evaluation.spec.digest(),
        "lists": len(evaluation),
        "users": None if evaluation.users is None else len(set(evaluation.users)),
        "lists_without_relevant": evaluation.lists_without_relevant,
        "only_ranked": len(judged.only_ranked),
        "only_judged": len(judged.only_judged),
        "metrics": {named[row["metric"]]: _plain(row, without="metric") for row in summary(evaluation)},
    }
    if per_query:
        (_, *names), rows = _by_list(evaluation, labels)
        found["per_query"] = {str(name): _plain(dict(zip(names, values, strict=True))) for name, *values in rows[:-1]}
    return found


def spec_object(spec: Spec) -> dict[str, Any]:
    """The fields of a Spec, for JSON."""
    return asdict(spec)


def _plain(row: Mapping[str, Any], without: str = "") -> dict[str, Any]:
    """A row with NaN and infinity replaced by None, because JSON has neither."""
    kept = {name: value for name, value in row.items() if name != without}
    return {name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in kept.items()}


def _json(found: object) -> str:
    return json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([["" if isinstance(value, float) and math.isnan(value) else value for value in row] for row in rows])
    return out.getvalue()


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]], digits: int) -> str:
    """A text table: the first column is left-aligned, the others are right-aligned."""
    cells = [list(head), *([_cell(value, digits) for value in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(head))]
    lines = (
        _GAP.join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]) for row in cells
    )
    return "".join(line.rstrip() + "\n" for line in lines)


def _cell(value: Any, digits: int) -> str:
    return _formatted(value, f".{digits}f") if isinstance(value, float) else str(value)


def _formatted(value: float, form: str) -> str:
    return _NONE if math.isnan(value) else format(value, form)
