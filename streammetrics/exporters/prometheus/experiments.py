"""Turn the experiments of a report into rows of series, under the displayed names of their groups.

Rows under `_other` are left out and counted, because a mixed interval of several experiments means nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from streammetrics.experiments import ExperimentReport, MeasureReport, Policy, role_of
from streammetrics.experiments.experiment_report import VariantReport
from streammetrics.exporters.prometheus.labels import OTHER, ShownGroup
from streammetrics.exporters.prometheus.series import SERIES
from streammetrics.windows.panes import Group

ControlOf = Callable[[str, Collection[str]], str | None]
"""Returns the control among the variants of an experiment; None if it is unknown."""


def control_by_convention(experiment: str, variants: Collection[str]) -> str | None:
    """Return the control of an experiment without configuration.

    >>> control_by_convention("ranker", ["treatment", "Baseline"])
    'Baseline'
    """
    return Policy().control_of(variants)


def experiment_groups(experiments: Iterable[ExperimentReport]) -> Iterator[Group]:
    """Yield every experiment, variant and team as a group that needs a name."""
    for experiment in experiments:
        yield Group(experiment.experiment, "")
        for variant in experiment.variants:
            yield Group(experiment.experiment, variant.variant)
        yield from _teams(experiment)


def _teams(experiment: ExperimentReport) -> set[Group]:
    """Return the teams of an interleaved experiment. Teams are named like variants."""
    return {Group(experiment.experiment, team) for preference in experiment.preferences for team in (preference.team, preference.against)}


def experiment_rows(
    experiments: Iterable[ExperimentReport], groups: Mapping[Group, ShownGroup]
) -> tuple[list[tuple[str, tuple[str, ...], float]], int]:
    """Return (name, label values, value) of each series, and the number of series left out because of their names.

    Rows of whole experiments and variants come first. Alerts need them, and rows over the limit are cut at the end.
    """
    experiments = list(experiments)
    rows = sorted((row for experiment in experiments for row in measure_rows(experiment)), key=lambda row: row.metric != "")
    named = [(row, group) for row in rows if not (group := groups[Group(row.experiment, row.variant)]).is_folded]
    credits = [row for experiment in experiments for row in preference_rows(experiment)]
    of_teams = [label_sets for row in credits if (label_sets := _credited(row, groups)) is not None]
    split = next((at for at, (row, _) in enumerate(named) if row.metric != ""), len(named))
    lines = [_labelled(row, group) for row, group in named]
    left_out = len(rows) - len(named) + len(credits) - len(of_teams)
    return [*lines[:split], *of_teams, *lines[split:]], left_out


def roles(groups: Mapping[Group, ShownGroup], experiments: Iterable[ExperimentReport], control_of: ControlOf) -> Iterator[tuple[str, ...]]:
    """Yield (experiment, variant, role) of every variant with a name of its own, sorted."""
    experiments = list(experiments)
    controls = {experiment.experiment: experiment.control for experiment in experiments if experiment.control is not None}
    roles = {(experiment.experiment, variant.variant): variant.role for experiment in experiments for variant in experiment.variants}
    variants: dict[str, dict[str, str]] = {}
    arms = {Group(experiment.experiment, variant.variant) for experiment in experiments for variant in experiment.variants}
    teams = {group for experiment in experiments for group in _teams(experiment)} - arms
    for group, printed in groups.items():
        if (
            group not in teams
            and group.experiment
            and group.variant
            and not printed.segments
            and OTHER not in (printed.experiment, printed.variant)
        ):
            variants.setdefault(group.experiment, {})[group.variant] = printed.variant
    for experiment in sorted(variants):
        control = controls.get(experiment) or control_of(experiment, variants[experiment])
        name = groups[Group(experiment, next(iter(variants[experiment])))].experiment
        for variant, shown_variant in sorted(variants[experiment].items()):
            yield name, shown_variant, roles.get((experiment, variant)) or role_of(variant, control)


def _credited(row: PreferenceRow, groups: Mapping[Group, ShownGroup]) -> tuple[str, tuple[str, ...], float] | None:
    team, against = (groups[Group(row.experiment, name)] for name in (row.team, row.against))
    if team.is_folded or against.is_folded:
        return None
    return f"streammetrics_interleaving_{row.series}", (team.experiment, team.variant, against.variant, row.scope), row.value


def _labelled(row: MeasureRow, group: ShownGroup) -> tuple[str, tuple[str, ...], float]:
    series = SERIES[f"streammetrics_experiment_{row.series}"]
    values = {
        "experiment": group.experiment,
        "variant": group.variant,
        "metric": row.metric,
        "k": row.k,
        "scope": row.scope,
        "warning": row.warning,
    }
    return series.name, tuple(values[label] for label in series.labels), row.value


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
