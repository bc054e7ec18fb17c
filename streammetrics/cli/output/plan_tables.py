"""Formats plans for a terminal: what undecided variants need, users and days until a verdict, and lifts that can be found. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rich.bar import Bar
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from streammetrics.cli.output.report_reader import lift_text
from streammetrics.cli.output.terminal import FittingTable
from streammetrics.experiments import ExperimentReport
from streammetrics.metrics.names import metric_text
from streammetrics.reports.outlook import needed_words
from streammetrics.statistics.planning import Assumptions, PlannedUsers, PlannedWord
from streammetrics.words.names import fit
from streammetrics.words.numbers import percent

BAR_WIDTH: Final = 48


class PlanRow(NamedTuple):
    """The users of both arms until a verdict with this margin, if the true lift is `lift`. A rise has no margin."""

    verdict: PlannedWord
    margin: float | None
    lift: float
    users: PlannedUsers

    def days(self, users_per_day: float | None) -> Sequence[float | None]:
        return [None if users_per_day is None else users / users_per_day for users in self.users]


class DetectableRow(NamedTuple):
    """The smallest drop and rise that 80 % of experiments find by so many users; None: not even 100 %."""

    users: float
    days: int | None
    drop: float | None
    rise: float | None


class ExperimentPlan(NamedTuple):
    """The plan for one experiment's traffic, or for assumed traffic. `problem`: why there is no plan."""

    experiment: ExperimentReport | None = None
    problem: str = ""
    metric: str = ""
    assumed: Assumptions | None = None
    users_per_day: float | None = None
    rows: tuple[PlanRow, ...] = ()
    detectable: tuple[DetectableRow, ...] = ()


def plan_lines(plan: ExperimentPlan) -> Iterator[RenderableType]:
    """Yield the lines and tables of a plan."""
    if plan.experiment is not None:
        yield from _needed(plan.experiment)
    if plan.assumed is None:
        yield Text(fit(f"no plan: {plan.problem}\n"))
        return
    yield Text.assemble(
        ("A new experiment" if plan.experiment else "Plan", "bold"), fit(f" · {' · '.join(_assumptions(plan, plan.assumed))}")
    )
    yield _users(plan)
    yield _Ranges(plan)
    yield _detectable(plan)
    yield Text(
        "Users are those of both arms. Verdicts are safe to check at any time: 10, 50, 80 and 90 % of experiments with this true lift have"
        " their verdict by then.\n",
        style="dim",
    )


def _needed(experiment: ExperimentReport) -> Iterator[RenderableType]:
    yield Text.assemble((fit(experiment.experiment), "bold"), fit(f" · {experiment.verdict.word}"))
    for variant in experiment.variants:
        for needed in variant.needed:
            yield Text(fit(f"  {variant.variant} {needed_words(needed)} ({metric_text(needed.metric, needed.k)})"))


def _assumptions(plan: ExperimentPlan, assumed: Assumptions) -> Iterator[str]:
    if plan.metric:
        yield plan.metric
    yield f"coefficient of variation {assumed.variation:.3g}"
    yield f"{percent(assumed.share)} of users in the treatment"
    yield "users a day unknown" if plan.users_per_day is None else f"{plan.users_per_day:,.0f} new users a day"
    rules = assumed.rules
    yield f"effect to detect {percent(rules.minimum_lift)}, margin {percent(rules.margin)}, error {percent(rules.alpha)}"


def _users(plan: ExperimentPlan) -> FittingTable:
    unit = () if plan.users_per_day is None else tuple(f"days\n{share}" for share in ("10 %", "50 %", "80 %", "90 %"))
    table = FittingTable(("verdict", "margin", "true lift"), (*(f"users\n{share}" for share in ("10 %", "50 %", "80 %", "90 %")), *unit))
    for row in plan.rows:
        days = () if plan.users_per_day is None else tuple(_days(days_of) for days_of in row.days(plan.users_per_day))
        table.add_row(row.verdict, _margin(row), lift_text(row.lift), *(_count(users) for users in row.users), *days)
    return table


class _Ranges:
    """A bar per row, from the users of 10 % to those of 90 % of experiments, on a logarithmic axis. Left out without block characters."""

    def __init__(self, plan: ExperimentPlan) -> None:
        self._rows = [row for row in plan.rows if math.isfinite(row.users.late)]
        per_day = plan.users_per_day
        self._unit, self._scale = ("users", 1.0) if per_day is None else ("days", per_day)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self._rows or not options.encoding.startswith("utf"):
            return
        low, high = (
            edge(ends) for edge, ends in ((min, [row.users.early for row in self._rows]), (max, [row.users.late for row in self._rows]))
        )
        span = math.log(high / low) or 1.0
        axis = Table.grid(expand=True)
        axis.add_column(justify="left")
        axis.add_column(justify="right")
        show = _count if self._unit == "users" else _days
        axis.add_row(show(low / self._scale), show(high / self._scale))
        title = f"{self._unit} until the verdict, 10 % to 90 % of experiments, on a logarithmic axis"
        table = Table("verdict", "margin", "true lift", box=SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
        table.add_column(axis)
        for row in self._rows:
            begin, end = (math.log(users / low) / span for users in (row.users.early, row.users.late))
            table.add_row(row.verdict, _margin(row), lift_text(row.lift), Bar(1.0, begin, max(end, begin + 1 / BAR_WIDTH), width=BAR_WIDTH))
        yield table


def _detectable(plan: ExperimentPlan) -> FittingTable:
    table = FittingTable(("80 % find by",), ("users", "a drop of", "a rise of"))
    for effect in plan.detectable:
        when = f"{_count(effect.users)} users" if effect.days is None else f"day {effect.days}"
        table.add_row(when, _count(effect.users), *("none" if lift is None else percent(abs(lift)) for lift in (effect.drop, effect.rise)))
    return table


def _margin(row: PlanRow) -> str:
    return "" if row.margin is None else percent(row.margin)


def _count(users: float) -> str:
    return f"{users:,.0f}" if math.isfinite(users) else "never"


def _days(days: float | None) -> str:
    if days is None or not math.isfinite(days):
        return "never"
    return f"{days:.1g}" if days < 0.01 else f"{days:.2f}" if days < 10 else f"{days:,.0f}"
