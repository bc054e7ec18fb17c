"""What is shown of one experiment in one scope: means, lifts, intervals, verdicts, as one frozen value. Nothing is computed here.

The same value serves `/api/report`, the terminal and the series: `to_json` and `rows` of it are all there is to print.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from streammetrics.experiments.interleaving import INTERLEAVED
from streammetrics.experiments.verdict import Health, Verdict

SINCE_START, THIS_DAY = "start", "day"
"""The scopes of an experiment: its whole life, and the UTC day up to which all is known."""


def role_of(variant: str, control: str | None) -> str:
    """What an arm is in its experiment.

    >>> [role_of(variant, control="old") for variant in ("old", "new", "interleaved")]
    ['control', 'treatment', 'interleaved']
    """
    return "control" if variant == control else INTERLEAVED if variant == INTERLEAVED else "treatment"


@dataclass(frozen=True, slots=True)
class ReducedReport:
    """One measure of one variant with what is explained by the time before the experiment taken out (CUPED).

    variance_reduction: the share of the mean's variance that is gone. users_with_earlier: those who were there before. Lift and
    interval are of the adjusted means, as in MeasureReport.
    """

    mean: float
    error: float | None
    variance_reduction: float
    users_with_earlier: int
    lift: float | None = None
    lift_lower: float | None = None
    lift_upper: float | None = None


@dataclass(frozen=True, slots=True)
class MeasureReport:
    """One measure of one variant. What cannot be said is None; a control has no comparison and no verdict.

    mean, error: the mean and its clustered standard error. difference and lift (relative) are against the control, with
    intervals of error alpha that hold at all looks together. p_value: of no difference, valid at every look. tau: the
    frozen scale. paging: the verdict decides about the experiment. judged_lift_upper: the upper end of the interval that the verdict
    goes by. reduced: the same with variance reduction, where the experiment has it.
    """

    metric: str
    k: int
    mean: float
    error: float | None
    difference: float | None = None
    difference_lower: float | None = None
    difference_upper: float | None = None
    lift: float | None = None
    lift_lower: float | None = None
    lift_upper: float | None = None
    p_value: float | None = None
    alpha: float | None = None
    tau: float | None = None
    paging: bool = False
    judged_lift_upper: float | None = None
    verdict: Verdict | None = None
    reduced: ReducedReport | None = None


@dataclass(frozen=True, slots=True)
class PreferenceReport:
    """A team of an interleaved experiment against another: lists won less lists lost, by lists, above 0 where it is preferred.

    The bounds have error alpha over all looks together. users, lists: those with items of both teams.
    """

    team: str
    against: str
    users: int
    lists: int
    credit: float
    error: float | None
    credit_lower: float | None
    credit_upper: float | None
    alpha: float
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class VariantReport:
    """One arm: its users and lists (those of users in several variants are excluded) and its measures.

    `role`: see `role_of`. The lists of an interleaved one are of two rankers, and are compared with no arm.
    """

    variant: str
    role: str
    users: int
    lists: int
    first_exposures: int
    measures: tuple[MeasureReport, ...]


class MeasureRow(NamedTuple):
    """One series: the end of its name after `streammetrics_experiment_`, its labels, its value."""

    series: str
    experiment: str
    variant: str
    metric: str
    k: str
    scope: str
    value: float


class PreferenceRow(NamedTuple):
    """One series of a preference: the end of its name after `streammetrics_interleaving_`, its labels, its value."""

    series: str
    experiment: str
    team: str
    against: str
    scope: str
    value: float


@dataclass(frozen=True, slots=True)
class ExperimentReport:
    """One experiment in one scope. `verdict` is invalid, or the worst of its paging measures; when none is named, see `Policy.deciding`.

    Where no arm is compared with another, it is the worst of the `preferences` between teams. `known_from_ms` is the least event time at
    which something could be said of this life of the experiment, or of this day: what was said before was said of another one.
    """

    experiment: str
    scope: str
    control: str | None
    alpha: float
    margin: float
    min_users: int
    multi_exposed_users: int
    health: Health
    verdict: Verdict
    variants: tuple[VariantReport, ...]
    preferences: tuple[PreferenceReport, ...] = ()
    known_from_ms: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        plain: dict[str, Any] = _plain(self)
        return plain

    def rows(self) -> Iterator[MeasureRow]:
        """Every series of this experiment and scope, absent values left out; unbounded ends are absent too.

        The verdict without variant, metric and k is that of the whole experiment: it is there before there are users enough, so
        that a broken experiment is seen at once. The paging measures that are shown have a 1, without a variant.
        """

        def row(series: str, value: float, variant: str = "", metric: str = "", k: str = "") -> MeasureRow:
            return MeasureRow(series, self.experiment, variant, metric, k, self.scope, value)

        yield row("srm_p_value", self.health.sample_ratio_p)
        yield row("multi_exposed_users", self.multi_exposed_users)
        yield row("verdict", self.verdict.code)
        for metric, k in dict.fromkeys((each.metric, each.k) for variant in self.variants for each in variant.measures if each.paging):
            yield row("paging", 1, metric=metric, k=str(k))
        for variant in self.variants:
            yield row("users", variant.users, variant.variant)
            for each in variant.measures:
                labels = (variant.variant, each.metric, str(each.k))
                values = {"mean": each.mean, "lift": each.lift, "lift_lower": each.lift_lower, "lift_upper": each.lift_upper}
                if each.reduced is not None:
                    values |= {f"reduced_{name}": getattr(each.reduced, name) for name in tuple(values)}
                    values["variance_reduction"] = each.reduced.variance_reduction
                if each.paging:
                    values["judged_lift_upper"] = each.judged_lift_upper
                for series, value in values.items():
                    if value is not None:
                        yield row(series, value, *labels)
                if each.verdict is not None:
                    yield row("verdict", each.verdict.code, *labels)

    def preference_rows(self) -> Iterator[PreferenceRow]:
        """Every series of the preferences between teams, absent values left out."""
        for each in self.preferences:
            values = {
                "credit": each.credit,
                "credit_lower": each.credit_lower,
                "credit_upper": each.credit_upper,
                "users": each.users,
                "lists": each.lists,
                "verdict": each.verdict.code,
            }
            for series, value in values.items():
                if value is not None:
                    yield PreferenceRow(series, self.experiment, each.team, each.against, self.scope, value)


def _plain(value: Any) -> Any:
    """The same without dataclasses and tuples. Of the thousands of values of a report `asdict` copies each, in three times the time."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    names = getattr(type(value), "__slots__", None)
    return value if names is None else {name: _plain(getattr(value, name)) for name in names}
