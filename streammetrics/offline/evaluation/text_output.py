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
from streammetrics.metrics.spec import Spec
from streammetrics.offline.evaluation.compare import Comparison, Difference
from streammetrics.offline.evaluation.evaluate import Evaluation, summary

EvaluateFormat: TypeAlias = Literal["table", "json", "csv", "trec"]

ALL_LISTS: Final = "all"
"""The id of the row with the means, as in trec_eval."""

_TREC_COUNTS: Final = ("num_q", "num_ret", "num_rel", "num_rel_ret")
_TOTALS_ONLY: Final = ("num_q", "gm_map")
"""The measures that trec_eval prints as whole numbers, and those that it does not print for each query."""

_GAP: Final = "  "
_NONE: Final = "-"
"""Shown in tables for an undefined number."""


def evaluation_text(
    evaluation: Evaluation,
    form: EvaluateFormat,
    *,
    labels: Mapping[Metric, str],
    per_query: bool,
    digits: int,
    run_id: str | None = None,
) -> str:
    """Format an evaluation. labels: the displayed name of each metric. digits: after the point, in `table` and `trec`.

    run_id: the run's tag if `trec` shall print it.
    """
    if form == "json":
        return _json(_evaluation_object(evaluation, labels, per_query))
    if form == "csv":
        return _csv(*_by_list(evaluation, labels)) if per_query else _csv(*_summary(evaluation, labels))
    if form == "trec":
        return _trec(evaluation, labels, per_query, digits, run_id)
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


def _trec(evaluation: Evaluation, labels: Mapping[Metric, str], per_query: bool, digits: int, run_id: str | None) -> str:
    """The three columns of trec_eval: measure, query, value. Lists that do not count for a metric are left out.

    As in trec_eval, counts have no decimals, and num_q, gm_map and the tag of the run are printed for all queries together only.
    """
    _, rows = _by_list(evaluation, labels)
    lines = []
    for query, *values in rows[:-1] if per_query else ():
        each = zip(evaluation.metrics, values, strict=True)
        lines += [_trec_line(labels[metric], query, metric, value, digits) for metric, value in each if metric.name not in _TOTALS_ONLY]
    if run_id is not None:
        lines.append(f"{'runid':<22}\t{ALL_LISTS}\t{run_id}\n")
    final = zip(evaluation.metrics, rows[-1][1:], strict=True)
    return "".join([*lines, *(_trec_line(labels[metric], ALL_LISTS, metric, value, digits) for metric, value in final)])


def _trec_line(label: str, query: object, metric: Metric, value: float, digits: int) -> str:
    if math.isnan(value):
        return ""
    return f"{label:<22}\t{query}\t{f'{value:.0f}' if metric.name in _TREC_COUNTS else f'{value:6.{digits}f}'}\n"


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
        "metrics": {named[row["metric"]]: _plain(row, without="metric") | _own_spec(evaluation, row) for row in summary(evaluation)},
    }
    if per_query:
        (_, *names), rows = _by_list(evaluation, labels)
        found["per_query"] = {str(name): _plain(dict(zip(names, values, strict=True))) for name, *values in rows[:-1]}
    return found


def _own_spec(evaluation: Evaluation, row: Mapping[str, Any]) -> dict[str, str]:
    """The digest of a metric's Spec if it is not the evaluation's."""
    spec = next(spec for metric, spec in evaluation.specs.items() if str(metric) == row["metric"])
    return {} if spec == evaluation.spec else {"spec_digest": spec.digest()}


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
