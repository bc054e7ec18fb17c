"""Plots for notebooks and reports: a metric by cut-off, a metric by segment, and lifts over time with their bands.

matplotlib draws them. It is the most common plotting library, needs no browser or network, and writes PNG, SVG and PDF. It comes with
the extra `plots`. Each function draws on the given axes, or on new ones, and returns them, so that a caller can change everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from streammetrics.errors import StreammetricsError
from streammetrics.metrics.names import parse_metric
from streammetrics.metrics.tables import DataTable
from streammetrics.offline.evaluation.evaluate import Evaluation
from streammetrics.offline.notebook.report_tables import ReportTables


def plot_by_cutoff(evaluations: Evaluation | Mapping[str, Evaluation], metric: str = "ndcg", *, axes: Any = None) -> Any:
    """Plot a metric against its cut-offs, with bars of one standard error. Returns the matplotlib axes.

    evaluations: one, or several by label. metric: its name without a cut-off; all evaluated cut-offs are shown.
    Raises StreammetricsError if no such metric was evaluated, or matplotlib is not installed.
    """
    axes = _axes(axes)
    named = {"": evaluations} if isinstance(evaluations, Evaluation) else evaluations
    for label, evaluation in named.items():
        found = sorted((each for each in evaluation.metrics if each.name == metric and each.k), key=lambda each: each.k)
        if not found:
            raise StreammetricsError(f"metric: got {metric!r}; allowed are {', '.join(sorted({each.name for each in evaluation.metrics}))}")
        means, errors = evaluation.means, evaluation.standard_errors
        values, bars = [means[str(each)] for each in found], [errors[str(each)] for each in found]
        axes.errorbar([each.k for each in found], values, yerr=bars, marker="o", capsize=3, label=label or None)
    axes.set(xlabel="cut-off k", ylabel=metric, title=f"{metric} by cut-off")
    return _finished(axes)


def plot_by_segment(report: ReportTables, metric: str, segment: str, *, experiment: str = "", axes: Any = None) -> Any:
    """Plot a metric of the longest final window for each value of a segment, with one bar per variant. Returns the axes.

    metric: such as `ndcg@10`. segment: its name, as in windows.segments. experiment: empty for all traffic.
    Raises StreammetricsError if the report has no such values, or matplotlib is not installed.
    """
    wanted = parse_metric(metric)
    final = report.windows.where(view="final", metric=wanted.name, k=wanted.k, experiment=experiment).rows()
    rows = [row for row in final if row["segments"].startswith(f"{segment}=")]
    if not rows:
        raise StreammetricsError(f"segment: got no values of {metric} by {segment!r}; allowed are those of windows.segments")
    longest = max(row["window_ms"] for row in rows)
    rows = [row for row in rows if row["window_ms"] == longest]
    axes = _axes(axes)
    variants = sorted({row["variant"] for row in rows})
    values = sorted({row["segments"].partition("=")[2] for row in rows})
    width = 0.8 / len(variants)
    for at, variant in enumerate(variants):
        found = {row["segments"].partition("=")[2]: row["value"] for row in rows if row["variant"] == variant}
        places = [place - 0.4 + width * (at + 0.5) for place in range(len(values))]
        axes.bar(places, [found.get(value, 0.0) for value in values], width, label=variant or None)
    axes.set_xticks(range(len(values)), [value or "(none)" for value in values])
    axes.set(xlabel=segment, ylabel=metric, title=f"{metric} by {segment}")
    return _finished(axes)


def plot_lift(report: ReportTables, metric: str, experiment: str | None = None, *, axes: Any = None) -> Any:
    """Plot the lift of each variant over event time, with the band of its interval. Returns the axes.

    The band may be read at any time: it holds for all times together. metric: such as `ndcg@10`, one of `report.history`.
    experiment: None for the only one. Raises StreammetricsError if the report has no such history, or matplotlib is not installed.
    """
    wanted = parse_metric(metric)
    history = report.history.where(metric=wanted.name, k=wanted.k, scope="start")
    names = dict.fromkeys(history["experiment"])
    chosen = experiment if experiment is not None else next(iter(names), None)
    if chosen not in names or (experiment is None and len(names) > 1):
        raise StreammetricsError(
            f"experiment: got {experiment!r}; allowed are those with a history of {metric}: {', '.join(names) or 'none'}"
        )
    axes = _axes(axes)
    rows = history.where(experiment=chosen)
    for variant in dict.fromkeys(rows["variant"]):
        _draw_lift(axes, rows.where(variant=variant), variant)
    axes.axhline(0, color="grey", linewidth=1)
    axes.set(ylabel=f"lift of {metric}", title=f"{chosen}: lift since its start")
    axes.yaxis.set_major_formatter(import_module("matplotlib.ticker").PercentFormatter(1))
    axes.tick_params(axis="x", rotation=30)
    return _finished(axes)


def _draw_lift(axes: Any, rows: DataTable, variant: str) -> None:
    points = [row for row in rows.rows() if row["lift"] is not None]
    times = [datetime.fromtimestamp(row["end_ms"] / 1_000, UTC) for row in points]
    (line,) = axes.plot(times, [row["lift"] for row in points], label=variant)
    low, high = ([_or_nan(row[name]) for row in points] for name in ("lift_lower", "lift_upper"))
    axes.fill_between(times, low, high, alpha=0.2, color=line.get_color())


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _axes(axes: Any) -> Any:
    if axes is not None:
        return axes
    try:
        return import_module("matplotlib.pyplot").subplots(layout="constrained")[1]
    except ImportError:
        raise StreammetricsError("plots need matplotlib: pip install 'streammetrics[plots]'") from None


def _finished(axes: Any) -> Any:
    labels: Iterable[str] = axes.get_legend_handles_labels()[1]
    if any(labels):
        axes.legend()
    return axes
