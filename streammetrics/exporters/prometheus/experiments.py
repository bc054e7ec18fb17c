"""Turn the experiments of a report into rows of series, under the displayed names of their groups.

Rows under `_other` are left out and counted, because a mixed interval of several experiments means nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from streammetrics.experiments import ExperimentReport, Policy, role_of
from streammetrics.exporters.prometheus.experiment_rows import (
    MeasureRow,
    PreferenceRow,
    measure_rows,
    preference_rows,
)
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
