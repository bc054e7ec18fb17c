"""The report of one experiment in one scope: means, lifts, intervals, verdicts, as one frozen value. Nothing is computed here.

`/api/report`, the terminal and Prometheus all show this value.

What matters most comes first: by verdict as in WORST_FIRST, and within a verdict by the size of the lift that decides. Terminal, page,
messages and tables share that order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from streammetrics.experiments.experiment_state import RUNNING, ExperimentState
from streammetrics.experiments.gate import GateDecision
from streammetrics.experiments.health import Health
from streammetrics.experiments.policy import INTERLEAVED
from streammetrics.experiments.preferences import PreferenceReport
from streammetrics.experiments.verdict import WORST_FIRST, Verdict, Word, severity
from streammetrics.words.names import name_order
from streammetrics.words.sentences import DataWarning, Words, join, named, say

SINCE_START, THIS_DAY = "start", "day"
"""The scopes of an experiment: since its start, and the latest UTC day with final lists."""


HOLDOUT: Final = "holdout"
"""The role of a variant that is reported and not judged."""
_ARE: Final[dict[Word, tuple[str, str]]] = {
    "invalid": ("is invalid", "are invalid"),
    "regressed": ("regressed", "regressed"),
    "mixed": ("is mixed", "are mixed"),
    "inconclusive": ("is inconclusive", "are inconclusive"),
    "safe": ("is safe", "are safe"),
    "improved": ("improved", "improved"),
}


def role_of(variant: str, control: str | None, holdout: str | None = None) -> str:
    """Return the role of a variant in its experiment.

    >>> [role_of(variant, control="old", holdout="none") for variant in ("old", "new", "none", "interleaved")]
    ['control', 'treatment', 'holdout', 'interleaved']
    """
    roles = {control: "control", holdout: HOLDOUT, INTERLEAVED: INTERLEAVED}
    return roles.get(variant, "treatment")


@dataclass(frozen=True, slots=True)
class ReducedReport:
    """One measure of one variant with reduced variance (CUPED). Lift and interval compare adjusted means, as in MeasureReport.

    variance_reduction: the share of the mean's variance that was removed.
    users_with_earlier: users of both arms with lists before the experiment.
    """

    mean: float
    error: float | None
    variance_reduction: float
    users_with_earlier: int
    lift: float | None = None
    lift_lower: float | None = None
    lift_upper: float | None = None


@dataclass(frozen=True, slots=True)
class JudgedMeans:
    """The two means that a verdict compares, with standard errors and covariance: with reduced variance, if so judged."""

    mean: float
    error: float
    control_mean: float
    control_error: float
    covariance: float = 0.0


@dataclass(frozen=True, slots=True)
class PeriodLift:
    """The lift of the lists with from_ms <= ts < end_ms, compared like all others. Unknown values are None.

    lists, control_lists: of the treatment and the control. new_users, control_new_users: users whose first list was then.
    lift_lower, lift_upper: the interval of error alpha over all looks together.
    """

    from_ms: int
    end_ms: int
    lists: int
    control_lists: int
    new_users: int
    control_new_users: int
    lift: float | None
    lift_lower: float | None
    lift_upper: float | None


@dataclass(frozen=True, slots=True)
class EffectChange:
    """A certain change of the effect (see `effect_change`): the lifts before a midnight and since."""

    at_ms: int
    before: PeriodLift
    since: PeriodLift


@dataclass(frozen=True, slots=True)
class MeasureReport:
    """One measure of one variant. Unknown values are None. The control has no comparison and no verdict.

    mean, error: the mean and its clustered standard error.
    difference, lift: absolute and relative, against the control, with intervals of error alpha over all looks together.
    p_value: for no difference, valid at every look.
    tau, minimum_difference: the frozen scale, and the difference to detect (`minimum_lift` of the control's mean when it was frozen).
    paging: whether this measure decides about the experiment.
    judged_lift_upper: the upper end of the interval that the verdict uses; of minus the lift, if lower is better.
    judged: what the verdict of a deciding measure compares; None for other measures.
    reduced: the same with reduced variance, if the experiment has it.
    within_gate_margin: whether it is certainly not worse than the control by more than `gate_margin`; None while it is not compared.
    lower_is_better: whether a rise is a regression, as of an abandonment rate.
    days: the lift by day, or by blocks of days, of a deciding measure since the start: at most 30, and none in the first day.
    change: its certain change.
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
    minimum_difference: float | None = None
    paging: bool = False
    judged_lift_upper: float | None = None
    judged: JudgedMeans | None = None
    verdict: Verdict | None = None
    reduced: ReducedReport | None = None
    within_gate_margin: bool | None = None
    lower_is_better: bool = False
    days: tuple[PeriodLift, ...] = ()
    change: EffectChange | None = None


@dataclass(frozen=True, slots=True)
class NeededUsers:
    """What an undecided variant still needs until a verdict, if its true lift is `lift`: see `experiments.needed`.

    users, users_low, users_high: further users of all variants together until half, 10 % and 90 % of such experiments have the verdict.
        `users_high` is None if it is never.
    hours, hours_low, hours_high: the same as event time; None if the rate of new users is not known.
    """

    verdict: Literal["regressed", "safe", "improved"]
    metric: str
    k: int
    lift: float
    users: int
    users_low: int
    users_high: int | None
    hours: float | None = None
    hours_low: float | None = None
    hours_high: float | None = None


@dataclass(frozen=True, slots=True)
class VariantReport:
    """One arm: its users and lists, and its measures. A user counts in each variant of which they saw a list.

    role: see `role_of`. An interleaved arm has lists of two rankers and is compared with no other. A holdout has no verdict.
    exposed_users: users whose first exposure event was to this variant, with or without a list; 0 without such events.
    effective_users: see `floors.effective_users`, by lists.
    largest_user_share_max: the largest share of the arm's lists that one user can have, given its users and effective users.
    verdict: that of the deciding measures together; None for the control and while nothing is compared.
    gate: whether this treatment may get more traffic; None for other arms.
    state: whether the arm still gets lists; of a treatment, whether it can still be compared. last_ms: event time of its last list.
    decided_ms: the same if its verdict is certain and nothing new can change it; else None.
    needed: what it takes until another verdict, if it is inconclusive: the most likely one first.
    gate_needed: what it takes until the gate passes, if it waits and there is no difference; None if that is not known.
    """

    variant: str
    role: str
    users: int
    lists: int
    first_list_users: int
    measures: tuple[MeasureReport, ...]
    effective_users: float = 0.0
    largest_user_share_max: float = 0.0
    verdict: Verdict | None = None
    gate: GateDecision | None = None
    needed: tuple[NeededUsers, ...] = ()
    gate_needed: NeededUsers | None = None
    exposed_users: int = 0
    state: ExperimentState = RUNNING
    last_ms: int | None = None
    decided_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ExperimentReport:
    """One experiment in one scope.

    verdict: invalid, or the worst of the variants' verdicts. If no arms are compared, the worst of the `preferences` between teams.
    preferences_by_action: the same for the credit of other actions, such as purchases. They decide nothing.
    from_ms: event time at which the run of the experiment, or this day of it, began: with its first list or exposure, or its `start`.
    known_from_ms: the earliest event time of a report on this run of the experiment, or on this day. An earlier report was about
        another run.
    gate: the decision on all treatments together, with `gate_margin`; None without a gate.
    unit: what is assigned to a variant, "user" or "list".
    minimum_lift: the relative effect to detect. treatments: the number of treatments that share alpha.
    step_ms: event time from which on lists are of the running step of a rollout (see `gate`); None if the share never rose.
    warnings: what bends these numbers, or withholds a verdict.
    state: whether it still gets lists. last_ms: event time of its last list, before its end. decided_ms: as in VariantReport.
    """

    experiment: str
    scope: str
    control: str | None
    alpha: float
    margin: float
    min_users: int
    health: Health
    verdict: Verdict
    variants: tuple[VariantReport, ...]
    preferences: tuple[PreferenceReport, ...] = ()
    preferences_by_action: tuple[PreferenceReport, ...] = ()
    from_ms: int | None = None
    known_from_ms: int | None = None
    gate: GateDecision | None = None
    gate_margin: float | None = None
    unit: str = "user"
    minimum_lift: float = 0.1
    treatments: int = 1
    step_ms: int | None = None
    warnings: tuple[DataWarning, ...] = ()
    state: ExperimentState = RUNNING
    last_ms: int | None = None
    decided_ms: int | None = None


def deciding_measure(variant: VariantReport) -> MeasureReport | None:
    """Return the measure that a variant's verdict is about: the first deciding one with the same word."""
    deciding = [measure for measure in variant.measures if measure.paging and measure.verdict is not None]
    same = (measure for measure in deciding if variant.verdict and measure.verdict and measure.verdict.word == variant.verdict.word)
    return next(same, deciding[0] if deciding else None)


def judged(variants: Iterable[VariantReport]) -> list[VariantReport]:
    """Return the variants that have a verdict, the worst first, and within a verdict the largest lift first."""
    return sorted((variant for variant in variants if variant.verdict is not None), key=_weight)


def _weight(variant: VariantReport) -> tuple[int, float, tuple[object, ...]]:
    measure = deciding_measure(variant)
    size = -1.0 if measure is None or measure.lift is None else abs(measure.lift)
    return severity(variant.verdict) if variant.verdict else len(WORST_FIRST), -size, (name_order(variant.variant),)


def verdict_of_all(variants: Iterable[VariantReport]) -> Verdict | None:
    """Return the verdict of the worst variant, with its name and how many treatments have which verdict; None if nothing is judged."""
    arms = [*variants]
    judged_variants = judged(arms)
    if not judged_variants or judged_variants[0].verdict is None:
        return None
    said = say("{variant}: {reason}", variant=named(judged_variants[0].variant), reason=judged_variants[0].verdict.said)
    open_arms = sum(variant.verdict is None and variant.gate is not None for variant in arms)
    counted = counted_treatments(judged_variants, open_arms)
    return Verdict(judged_variants[0].verdict.word, join([said, counted], "; ") if counted else said)


def counted_treatments(variants: Sequence[VariantReport], open_arms: int) -> Words:
    """Say which verdicts the other variants have, or if they differ, how many of all treatments have which. Empty for one treatment.

    found: the variants with a verdict, the worst first. open_arms: how many treatments have none yet.
    """
    words = [variant.verdict.word for variant in variants if variant.verdict is not None]
    if not open_arms and len(words) == 2:
        return say("{variant} {is_}", variant=named(variants[1].variant), is_=_ARE[words[1]][0])
    if not open_arms and len({*words}) == 1:
        return say("the {count} others {are}, too", count=len(words) - 1, are=_ARE[words[0]][1]) if len(words) > 1 else Words(())
    counts = [(words.count(word), word) for word in WORST_FIRST if word in words]
    told = [say("{count} {are}", count=count, are=_ARE[word][0 if count == 1 else 1]) for count, word in counts]
    if open_arms:
        told.append(say("{count} {have} no verdict yet", count=open_arms, have="has" if open_arms == 1 else "have"))
    return say("of {count} treatments {told}", count=len(words) + open_arms, told=join(told, ", "))


def worst_first(experiments: Iterable[ExperimentReport]) -> list[ExperimentReport]:
    """Return the experiments by the verdict and the size of their whole time. The day of each comes after its whole time."""
    reports = [*experiments]
    weights: dict[str, tuple[object, ...]] = {}
    for report in sorted(reports, key=lambda report: report.scope == SINCE_START):
        first = next(iter(judged(report.variants)), None)
        weights[report.experiment] = (severity(report.verdict), _weight(first)[1] if first else 1.0, name_order(report.experiment))
    return sorted(reports, key=lambda report: (*weights[report.experiment], report.scope == THIS_DAY, report.scope))
