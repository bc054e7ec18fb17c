"""The rows of experiments: each series of a report, its labels and its value. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from streammetrics.experiments import ExperimentReport, MeasureReport
from streammetrics.experiments.experiment_report import VariantReport


class MeasureRow(NamedTuple):
    """One series: its name after `streammetrics_experiment_`, its labels, its value."""

    series: str
    experiment: str
    variant: str
    metric: str
    k: str
    scope: str
    value: float
    warning: str = ""


class PreferenceRow(NamedTuple):
    """One series of a preference: its name after `streammetrics_interleaving_`, its labels, its value."""

    series: str
    experiment: str
    team: str
    against: str
    scope: str
    value: float


def measure_rows(report: ExperimentReport) -> Iterator[MeasureRow]:
    """Yield every series of this experiment and scope. Unknown values and unbounded ends are left out.

    The verdict without variant, metric and k is the whole experiment's. It is present even with too few users, so that an
    invalid experiment is seen at once. `paging` is 1 for each deciding measure, without a variant.
    """
    if report.health.sample_ratio_p is not None:
        yield _row(report, "srm_p_value", report.health.sample_ratio_p)
    yield _row(report, "verdict", report.verdict.code)
    yield _row(report, "running", report.state.word == "running")
    if report.last_ms is not None:
        yield _row(report, "last_list_timestamp_seconds", report.last_ms / 1_000)
    if report.gate is not None:
        yield _row(report, "gate", report.gate.code)
    for key, name in dict.fromkeys((warning.key, warning.variant) for warning in report.warnings):
        yield MeasureRow("warning", report.experiment, name, "", "", report.scope, 1, key)
    for metric, k in dict.fromkeys(
        (measure.metric, measure.k) for variant in report.variants for measure in variant.measures if measure.paging
    ):
        yield _row(report, "paging", 1, metric=metric, k=str(k or ""))
    for variant in report.variants:
        yield from _variant_rows(report, variant)


def _row(report: ExperimentReport, series: str, value: float, variant: str = "", metric: str = "", k: str = "") -> MeasureRow:
    return MeasureRow(series, report.experiment, variant, metric, k, report.scope, value)


def _variant_rows(report: ExperimentReport, variant: VariantReport) -> Iterator[MeasureRow]:
    name = variant.variant
    yield _row(report, "users", variant.users, name)
    yield _row(report, "running", variant.state.word == "running", name)
    if variant.last_ms is not None:
        yield _row(report, "last_list_timestamp_seconds", variant.last_ms / 1_000, name)
    if variant.exposed_users:
        yield _row(report, "exposed_users", variant.exposed_users, name)
    if variant.gate is not None:
        yield _row(report, "gate", variant.gate.code, name)
    if variant.users:
        yield _row(report, "effective_users", variant.effective_users, name)
        yield _row(report, "largest_user_share_max", variant.largest_user_share_max, name)
    for measure in variant.measures:
        for series, value in _values_of(measure).items():
            if value is not None:
                yield _row(report, series, value, name, measure.metric, str(measure.k or ""))


def preference_rows(report: ExperimentReport) -> Iterator[PreferenceRow]:
    """Yield every series of the preferences between teams. Unknown values are left out."""
    for preference in report.preferences:
        values = {
            "credit": preference.credit,
            "credit_lower": preference.credit_lower,
            "credit_upper": preference.credit_upper,
            "users": preference.users,
            "lists": preference.lists,
            "verdict": preference.verdict.code,
        }
        for series, value in values.items():
            if value is not None:
                yield PreferenceRow(series, report.experiment, preference.team, preference.against, report.scope, value)


def _values_of(measure: MeasureReport) -> dict[str, float | None]:
    """Return the value of each series of a measure of a variant."""
    values = {"mean": measure.mean, "lift": measure.lift, "lift_lower": measure.lift_lower, "lift_upper": measure.lift_upper}
    if measure.reduced is not None:
        values |= {f"reduced_{name}": getattr(measure.reduced, name) for name in tuple(values)}
        values["variance_reduction"] = measure.reduced.variance_reduction
    if measure.paging:
        values["judged_lift_upper"] = measure.judged_lift_upper
    values["verdict"] = None if measure.verdict is None else measure.verdict.code
    return values
