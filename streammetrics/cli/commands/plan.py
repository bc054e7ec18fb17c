"""`plan`: how many users and days a verdict takes, from a report, the state in Redis, or assumptions. Changes no state."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from streammetrics.cli.command import command
from streammetrics.cli.commands.report import read_plain
from streammetrics.cli.options import FiniteFloatRange, ReportFile, configured, load_settings
from streammetrics.cli.output.plan_tables import DetectableRow, ExperimentPlan, PlanRow, plan_lines
from streammetrics.cli.output.report_reader import read_report
from streammetrics.cli.output.standard_output import print_json
from streammetrics.cli.output.terminal import output_console
from streammetrics.cli.signals import interrupt_on_signals
from streammetrics.config import Settings
from streammetrics.errors import ConfigError, Problem, StreammetricsError
from streammetrics.experiments import ExperimentReport, MeasureReport
from streammetrics.experiments.experiment_report import SINCE_START
from streammetrics.metrics.names import metric_text
from streammetrics.reports.history import History
from streammetrics.reports.outlook import users_per_hour
from streammetrics.statistics.planning import Assumptions, PlannedWord, VerdictRules, detectable_lift
from streammetrics.statistics.planning import plan as planned
from streammetrics.wiring.logs import configure_quiet_logs

DAYS = (1, 2, 7, 14, 28)
"""Durations for which the smallest detectable drop is shown."""
USERS = (1_000, 3_000, 10_000, 30_000, 100_000)
"""Numbers of users for which it is shown if the users a day are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The options of `plan`, as they were given."""

    variation: float | None = None
    users_per_day: float | None = None
    share: float = 0.5
    lifts: tuple[float, ...] = ()
    metric: str | None = None
    alpha: float | None = None
    margin: float | None = None
    minimum_lift: float | None = None
    min_users: int | None = None
    treatments: int = 1
    names: tuple[str, ...] = ()


def show_plan(settings: Settings, file: Path | None, options: PlanOptions, *, form: Literal["text", "json"]) -> None:
    """Show the plan. Raises ConfigError for options that contradict each other, and the errors of `report`."""
    configure_quiet_logs(settings.log.level, settings.log.format)
    plans = [_assumed(settings, options)] if options.variation is not None else []
    if options.variation is not None and (file is not None or options.names):
        raise ConfigError([Problem("--variation", str(options.variation), "give either a report or --variation")])
    if not plans:
        plain, where = read_plain(settings, file)
        results = read_report(plain, where).only(options.names)
        whole = [experiment for experiment in results.experiments if experiment.scope == SINCE_START]
        plans = [_of_experiment(settings, options, experiment, results.history) for experiment in whole]
        if not plans:
            raise StreammetricsError(f"{results.empty_text()}; without a report, use --variation and --users-per-day")
    if form == "json":
        print_json([_plain(plan) for plan in plans])
        return
    console = output_console()
    for plan in plans:
        for line in plan_lines(plan):
            console.print(line)


def _assumed(settings: Settings, options: PlanOptions) -> ExperimentPlan:
    assert options.variation is not None
    rules, min_users = _rules(settings, options, "")
    assumed = Assumptions(variation=options.variation, share=options.share, min_users=min_users, rules=rules)
    return _planned(assumed, options, options.users_per_day, metric=options.metric or "")


def _of_experiment(settings: Settings, options: PlanOptions, experiment: ExperimentReport, history: History) -> ExperimentPlan:
    """Plan for the traffic of an experiment, with the variance of its control."""
    rules, min_users = _rules(settings, options, experiment.experiment, experiment)
    per_hour = users_per_hour(history.of(experiment.experiment, experiment.scope))
    per_day = options.users_per_day or (None if per_hour is None else 24 * per_hour)
    control_measure = _control_measure(experiment, options.metric)
    if control_measure is None:
        return ExperimentPlan(
            experiment=experiment, problem=f"the control has fewer than {experiment.min_users:,} users, or all values are 0"
        )
    measure, users = control_measure
    assert measure.error is not None
    assumed = Assumptions(variation=measure.error * math.sqrt(users) / measure.mean, share=options.share, min_users=min_users, rules=rules)
    return _planned(assumed, options, per_day, metric_text(measure.metric, measure.k), experiment)


def _rules(settings: Settings, options: PlanOptions, name: str, experiment: ExperimentReport | None = None) -> tuple[VerdictRules, int]:
    """Return the rules: of the options, else of the report, else of the settings."""
    policy = settings.experiments.policy(name)
    source = policy if experiment is None else experiment
    alpha = source.alpha if options.alpha is None else options.alpha
    rules = VerdictRules(
        alpha=alpha / options.treatments,
        margin=source.margin if options.margin is None else options.margin,
        minimum_lift=options.minimum_lift or source.minimum_lift,
    )
    return rules, options.min_users or source.min_users


def _control_measure(experiment: ExperimentReport, metric: str | None) -> tuple[MeasureReport, int] | None:
    """Return a measure of the control with its users: the named one, or the first deciding one. None if it has no variance.

    Raises ConfigError for a measure that the experiment does not have.
    """
    control = next((variant for variant in experiment.variants if variant.variant == experiment.control), None)
    if control is None:
        raise StreammetricsError(f"experiment {experiment.experiment!r} has no control; use --variation, or set its control")
    names = [metric_text(measure.metric, measure.k) for measure in control.measures]
    if metric is not None and names and metric not in names:
        raise ConfigError([Problem("--metric", metric, f"must be one of {', '.join(names)}")])
    for measure, name in zip(control.measures, names, strict=True):
        if name == metric or (metric is None and measure.paging):
            return (measure, control.users) if measure.error and measure.mean > 0 else None
    return None


def _planned(
    assumed: Assumptions, options: PlanOptions, users_per_day: float | None, metric: str, experiment: ExperimentReport | None = None
) -> ExperimentPlan:
    rows = tuple(_rows(assumed, options.lifts))
    spans = [(days, days * users_per_day) for days in DAYS] if users_per_day else [(None, float(users)) for users in USERS]
    detectable = tuple(
        DetectableRow(users, days, detectable_lift(assumed, "regressed", users), detectable_lift(assumed, "improved", users))
        for days, users in spans
    )
    return ExperimentPlan(
        experiment=experiment, metric=metric, assumed=assumed, users_per_day=users_per_day, rows=rows, detectable=detectable
    )


def _rows(assumed: Assumptions, lifts: Sequence[float]) -> Iterator[PlanRow]:
    """Yield a row for each true lift: the given ones, or multiples of the effect to detect. A drop has one at margin 0, too."""
    rules = assumed.rules
    least = rules.minimum_lift
    for lift in lifts or (-2 * least, -least, -least / 2, least, 0.0):
        if lift <= -1:
            continue
        verdict: PlannedWord = "regressed" if lift < 0 and lift <= -rules.margin else "improved" if lift > 0 else "safe"
        for margin in sorted({0.0, rules.margin}) if verdict == "regressed" else [rules.margin]:
            tolerant = replace(assumed, rules=replace(rules, margin=margin))
            yield PlanRow(verdict, None if verdict == "improved" else margin, lift, planned(tolerant, verdict, lift))


def _plain(plan: ExperimentPlan) -> dict[str, Any]:
    """Return plain JSON values. Users are of both arms; null: never."""
    experiment, assumed = plan.experiment, plan.assumed
    needed = (
        []
        if experiment is None
        else [(variant.variant, needed_users) for variant in experiment.variants for needed_users in variant.needed]
    )
    return {
        "experiment": None if experiment is None else experiment.experiment,
        "problem": plan.problem or None,
        "metric": plan.metric or None,
        "assumptions": None
        if assumed is None
        else {
            "variation": assumed.variation,
            "share": assumed.share,
            "min_users": assumed.min_users,
            "alpha": assumed.rules.alpha,
            "margin": assumed.rules.margin,
            "minimum_lift": assumed.rules.minimum_lift,
            "users_per_day": plan.users_per_day,
        },
        "plans": [
            {
                "verdict": row.verdict,
                "margin": row.margin,
                "lift": row.lift,
                "users": dict(zip(("p10", "p50", "p80", "p90"), map(_finite, row.users), strict=True)),
                "days": dict(zip(("p10", "p50", "p80", "p90"), map(_finite, row.days(plan.users_per_day)), strict=True)),
            }
            for row in plan.rows
        ],
        "detectable": [
            {"users": effect.users, "days": effect.days, "drop": effect.drop, "rise": effect.rise} for effect in plan.detectable
        ],
        "needed": [{"variant": variant, **msgspec.to_builtins(needed_users)} for variant, needed_users in needed],
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


_BETWEEN = FiniteFloatRange(0, 1, min_open=True, max_open=True)
_ABOVE = FiniteFloatRange(0, 1e12, min_open=True)


@command
@configured
@click.argument("file", required=False, type=ReportFile(), metavar="[FILE]")
@click.option("--url", help="Plan from the report of this exporter, such as https://exporter:9464. Sets client.url.")
@click.option("--variation", type=_ABOVE, help="Assume this coefficient of variation of a user's value, instead of a report.")
@click.option("--users-per-day", type=_ABOVE, help="New users a day in both arms.  [default: as in the report's history]")
@click.option("--share", type=_BETWEEN, default=0.5, show_default=True, help="The treatment's share of the users of both arms.")
@click.option(
    "--lift", "lifts", type=FiniteFloatRange(-1, 100), multiple=True, help="A true lift to plan for, such as -0.05. May be repeated."
)
@click.option("--metric", help="Plan for this measure, such as ndcg@10.  [default: the first deciding measure]")
@click.option("--alpha", type=_BETWEEN, help="Error of all looks together.  [default: experiments.alpha]")
@click.option("--margin", type=FiniteFloatRange(0, 1, max_open=True), help="The tolerated drop.  [default: experiments.margin]")
@click.option("--minimum-lift", type=_ABOVE, help="The effect to detect.  [default: experiments.minimum_lift]")
@click.option(
    "--min-users", type=click.IntRange(2, 1_000_000_000), help="Users of each arm at the first look.  [default: experiments.min_users]"
)
@click.option("--treatments", type=click.IntRange(1, 1_000), default=1, show_default=True, help="Treatments that share the error.")
@click.option("--experiment", "names", multiple=True, metavar="NAME", help="Use only this experiment of the report. May be repeated.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format.")
def plan(
    config_path: Path | None,
    settings_given: tuple[str, ...],
    *,
    file: Path | None,
    url: str | None,
    form: Literal["text", "json"],
    **options: Any,
) -> None:
    """Show how many users and days a verdict takes, and which lift can be found.

    Variance and traffic come from a report, from the exporter at --url, from the state in Redis (without FILE), or from --variation and
    --users-per-day. Of a report, the command also shows what undecided variants still need.

    Verdicts are safe to check at any time, so the moment of a verdict varies. The plan has the users by which 10, 50, 80 and 90 % of such
    experiments have their verdict.

    \b
    Examples:
      streammetrics plan --variation 0.85 --users-per-day 20000
      streammetrics plan --variation 0.85 --users-per-day 20000 --share 0.05 --margin 0.05 --lift -0.2
      streammetrics plan report.json --experiment ranker-v7
      streammetrics plan --url http://127.0.0.1:9464 --format json
      streammetrics plan --config streammetrics.toml

    The coefficient of variation is about 0.85 for ndcg@10 in our simulations, and about sqrt((1 - p) / p) for a hit rate p of users with
    one list each.
    """
    loaded = load_settings(config_path, settings_given, client__url=url)
    with interrupt_on_signals():
        show_plan(loaded.settings, file, PlanOptions(**options), form=form)
