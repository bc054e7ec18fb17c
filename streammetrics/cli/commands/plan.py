"""The options of `plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from streammetrics.cli.command import command
from streammetrics.cli.common_options import configured, load_settings
from streammetrics.cli.option_types import FiniteFloatRange, ReportFile

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
    from streammetrics.cli.plan import PlanOptions, show_plan  # noqa: PLC0415
    from streammetrics.cli.process.signals import interrupt_on_signals  # noqa: PLC0415

    loaded = load_settings(config_path, settings_given, client__url=url)
    with interrupt_on_signals():
        show_plan(loaded.settings, file, PlanOptions(**options), form=form)
