"""Compares the arms of an experiment with the control, measure by measure: estimates, intervals and verdicts. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from streammetrics.experiments.cuped import Reduced, reduce_variances
from streammetrics.experiments.estimates import Estimate, Interval, difference, estimate, lift_interval, variance_of, z_value
from streammetrics.experiments.floors import effective_users, largest_user_share_max, unmet_floor
from streammetrics.experiments.gate import within_gate_margin
from streammetrics.experiments.health import Health
from streammetrics.experiments.interleaving import INTERLEAVED
from streammetrics.experiments.list_signs import NO_REACTIONS, ArmLists, LikeLists
from streammetrics.experiments.measures import USERS_AT, Measure, Measures, measure_text
from streammetrics.experiments.no_spread import is_all_or_nothing, least_difference, log_evidence_apart
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.report import JudgedMeans, MeasureReport, ReducedReport
from streammetrics.experiments.scales import NO_SCALE, MeasureScale, scale_of
from streammetrics.experiments.sequence import p_value
from streammetrics.experiments.share_words import compare_from
from streammetrics.experiments.stored import Stored
from streammetrics.experiments.verdict import WHOLE_PART, MeasureComparison, Verdict, alike, invalid, judge, stage_of_drop, waiting
from streammetrics.experiments.words import measure_name, named, percent, say


class ArmEstimate(NamedTuple):
    """A variant's estimate, and the one with reduced variance if the layout has covariates."""

    plain: Estimate
    reduced: Reduced | None = None


class Compared(NamedTuple):
    """A variant and the control, as they are compared with each other.

    covariance: of the two means. stages: the same in each stage that can be judged, by its name.
    """

    own: ArmEstimate
    against: ArmEstimate
    covariance: float = 0.0
    stages: Mapping[str, Compared] = MappingProxyType({})


class Arms:
    """The arms with enough users: their moments and estimates, and the frozen scales."""

    def __init__(self, measures: Measures, policy: Policy, control: str | None, scales: Mapping[str, float], stored: Stored) -> None:
        self.not_compared: Mapping[str, str] = {}
        """Why a treatment is not compared, although it has enough users: see `unlike_times`."""
        self.fewer_items: Mapping[str, str] = {}
        """Why the item_hit_rate of a treatment may not be called improved: see `list_signs`."""
        self.measures = measures
        self.policy = policy
        self.control = control
        self.scales = scales
        self.stored = stored
        self.moments = {name: sums for name, sums in stored.moments.items() if sums[USERS_AT] >= policy.min_users}
        self.found = {measure: _estimates(measures, measure, self.moments) for measure in measures}

    def show(self, names: Collection[str]) -> None:
        """Leave out the measures without one of these names."""
        self.found = {measure: found for measure, found in self.found.items() if str(measure) in names}

    def alone(self, measure: Measure, variant: str) -> ArmEstimate | None:
        """Return a variant's own estimate; None while it has too few users."""
        return self.found[measure].get(variant)

    def compared(self, measure: Measure, variant: str, control: str) -> Compared | None:
        """Return a variant and the control; None while one of them has too few users."""
        own, against = self.alone(measure, variant), self.alone(measure, control)
        return None if own is None or against is None else Compared(own, against)

    def weight_of_users(self, measure: Measure, variant: str) -> tuple[float, float]:
        """Return an arm's effective users, and the largest share of its lists that one user can have. The arm has users."""
        moments = self.stored.moments[variant]
        return effective_users(self.measures, measure, moments), largest_user_share_max(self.measures, measure, moments)

    def waits_for(self, users: Sequence[tuple[str, int]], control: str) -> str:
        """Say why nothing is compared yet. `users`: the users of each variant."""
        short = {variant: count for variant, count in users if count < self.policy.min_users}
        return waiting(self.policy, short).said if short else "there is nothing to compare yet"

    def too_few(self, variant: str, control: str) -> str | None:
        """Say how many users a variant and the control have, if they are too few to be compared."""
        users = {name: self.stored.moments[name][USERS_AT] if name in self.stored.moments else 0 for name in (variant, control)}
        return waiting(self.policy, users).said if min(users.values()) < self.policy.min_users else None

    def short(self, variant: str, control: str) -> str:
        """Say why a variant with enough users is not compared."""
        if control not in self.stored.first_exposures:
            return say("no user saw the control '{control}'", control=named(control))
        return say("{control} has fewer than {min_users:,} users", control=named(control), min_users=self.policy.min_users)

    def unseen(self, variant: str, control: str) -> str | None:
        """Return why a pass must wait for the stage that runs now; None if it need not. Without stages there is none to wait for."""
        return None

    def like_lists(self, variant: str, control: str) -> LikeLists | None:
        """Return the lists of a variant and the control, if both have enough users and came at the same time."""
        if not {variant, control} <= self.moments.keys() or self.late(variant, control) is not None:
            return None
        own, against = (ArmLists(each, self.moments[each], self.stored.reactions.get(each, NO_REACTIONS)) for each in (variant, control))
        return LikeLists(own, against)

    def all_zero(self, measure: Measure) -> bool:
        """Whether a measure is 0 in every variant."""
        return not any(each.plain.mean > 0 for each in self.found[measure].values())

    def unmet(self, measure: Measure, variant: str, control: str) -> str | None:
        """Return why a variant cannot be compared with the control yet, by its start or a floor; None if it can."""
        return self.late(variant, control) or unmet_floor(
            self.measures,
            measure,
            (variant, self.moments[variant]),
            (control, self.moments[control]),
            self.policy.effective_users_min,
            self.policy.hit_users_min,
        )

    def late(self, variant: str, control: str) -> str | None:
        """Say that one of two variants joined late; None if neither did."""
        shares = {name: self.stored.missed_share(name) for name in (variant, control)}
        late = max(shares, key=lambda name: shares[name])
        if shares[late] - min(shares.values()) <= self.policy.late_share_max:
            return None
        other = control if late == variant else variant
        return say(
            "{late} joined late, when {missed} of the time had passed, so {other} has lists of other times. {advice}",
            late=named(late),
            missed=percent(shares[late]),
            other=named(other),
            advice=compare_from(self.stored.experiment, self.stored.variants_since_ms[late]),
        )


def _estimates(measures: Measures, measure: Measure, moments: Mapping[str, Sequence[int]]) -> dict[str, ArmEstimate]:
    if measures.covariates:
        return {variant: ArmEstimate(each.plain, each) for variant, each in reduce_variances(measures, measure, moments).items()}
    found = {variant: estimate(measures, measure, sums) for variant, sums in moments.items()}
    return {variant: ArmEstimate(each, None) for variant, each in found.items() if each is not None}


def measures_of(arms: Arms, state: Health, variant: str, treatments: int) -> tuple[MeasureReport, ...]:
    """Return what is shown of a variant's measures: alone, or compared with the control."""
    reports, comparisons = [], []
    control = arms.control if variant not in (arms.control, INTERLEAVED) else None
    for measure in arms.found:
        compared = arms.compared(measure, variant, control) if control is not None else None
        own = compared.own if compared is not None else arms.alone(measure, variant)
        if own is not None:
            report = _alone(arms.policy, measure, own)
            if control is not None:
                report, comparison = _compared(arms, measure, report, variant, control, compared)
                comparisons += [comparison] if comparison else []
            reports.append(report)
    if control is None:
        return tuple(reports)
    fewer = arms.fewer_items.get(variant)
    doubtful = {str(each.measure): fewer for each in comparisons if each.measure.name == "item_hit_rate" and fewer is not None}
    verdicts = judge(arms.policy, comparisons, treatments, arms.control or "", doubtful)
    within = within_gate_margin(arms.policy, [each for each in comparisons if str(each.measure) in arms.policy.paging], treatments)
    within -= doubtful.keys()
    broken = invalid(state) if state.troubles else None
    uppers = {
        str(each.measure): _upper_in_stage(arms.policy, each) for each in comparisons if verdicts[str(each.measure)].word == "regressed"
    }
    return tuple(_judged(each, broken, verdicts, within, uppers) for each in reports)


def _upper_in_stage(policy: Policy, each: MeasureComparison) -> float | None:
    """Return the upper bound of the lift in the stage that regressed, at its part of the error; None if all stages together did."""
    stage = stage_of_drop(policy, each)
    if stage is None:
        return None
    alone, alpha = each.stages[stage], policy.interval_alpha(each.measure) * (1 - WHOLE_PART) / len(policy.stages)
    interval = lift_interval(alone.treatment, alone.control, each.scale.mixture(policy.minimum_lift), alpha, alone.covariance)
    return None if interval is None else _most_favourable(each.measure, interval)


def _most_favourable(measure: Measure, interval: Interval) -> float | None:
    """Return the best lift within the interval, above 0 if it is better; None without a bound."""
    if not measure.lower_is_better:
        return interval.upper
    return None if interval.lower is None else -interval.lower


def _judged(
    report: MeasureReport,
    broken: Verdict | None,
    verdicts: Mapping[str, Verdict],
    within: Collection[str],
    uppers: Mapping[str, float | None],
) -> MeasureReport:
    name = measure_text(report.metric, report.k)
    is_within = name in within if report.paging and name in verdicts else None
    verdict = broken or verdicts.get(name, report.verdict)
    upper = uppers.get(name)
    if verdict is not None and verdict.word == "regressed" and report.lift is None:  # from 0 on, a rise is above any relative limit
        upper = -1.0
    return replace(
        report,
        verdict=verdict,
        within_gate_margin=is_within,
        judged_lift_upper=report.judged_lift_upper if upper is None else upper,
    )


def _alone(policy: Policy, measure: Measure, own: ArmEstimate) -> MeasureReport:
    return MeasureReport(
        measure.name,
        measure.k,
        own.plain.mean,
        math.sqrt(own.plain.variance),
        paging=str(measure) in policy.paging,
        lower_is_better=measure.lower_is_better,
        reduced=None if own.reduced is None else _reduced(own.reduced),
    )


def _reduced(own: Reduced) -> ReducedReport:
    return ReducedReport(own.adjusted.mean, math.sqrt(own.adjusted.variance), own.share, own.users_with_earlier)


def _compared(
    arms: Arms, measure: Measure, report: MeasureReport, variant: str, control: str, compared: Compared | None
) -> tuple[MeasureReport, MeasureComparison | None]:
    """Return the report with the comparison against the control added, and what the verdict needs; None while it cannot be judged."""
    if compared is None:
        return replace(report, verdict=Verdict("inconclusive", arms.short(variant, control))), None
    if variant in arms.not_compared:
        return replace(report, verdict=Verdict("inconclusive", arms.not_compared[variant])), None
    policy, scale, (own, against, covariance, _) = arms.policy, scale_of(measure, arms.scales), compared
    lift = own.plain.mean / against.plain.mean - 1 if against.plain.mean > 0 else None
    reduced_lift = None
    if own.reduced is not None and against.reduced is not None and against.reduced.adjusted.mean > 0:
        reduced_lift = own.reduced.adjusted.mean / against.reduced.adjusted.mean - 1
    report = replace(report, lift=lift, reduced=report.reduced and replace(report.reduced, lift=reduced_lift))
    if scale is None and arms.all_zero(measure):
        return replace(
            report, verdict=Verdict("inconclusive", say("{measure} is 0 in every variant so far", measure=measure_name(str(measure))))
        ), None
    unmet = arms.unmet(measure, variant, control)
    if unmet is None and is_all_or_nothing(measure, own.plain, against.plain, covariance):
        return _without_spread(policy, measure, report, own.plain, against.plain)
    if unmet is None and scale is None and variance_of(own.plain, against.plain, covariance) is None:
        return replace(report, verdict=alike(measure, lift, control)), None
    if unmet is None and scale is None:
        unmet = say(
            "the scale of {measure} is not frozen: an exporter freezes it once {control} and another variant have {users:,} users since the"
            " start",
            measure=measure_name(str(measure)),
            control=named(control),
            users=policy.min_users,
        )
    if unmet is not None or scale is None:
        return replace(report, verdict=Verdict("inconclusive", unmet or "")), None
    return _with_intervals(policy, measure, report, compared, scale)


def _without_spread(
    policy: Policy, measure: Measure, report: MeasureReport, own: Estimate, against: Estimate
) -> tuple[MeasureReport, MeasureComparison]:
    """Return the comparison of an arm in which all users have the value 1 with one in which all have 0. It needs no scale."""
    is_above, alpha = own.mean > against.mean, policy.interval_alpha(measure)
    users = (own.users, against.users) if is_above else (against.users, own.users)
    least = least_difference(*users, alpha)
    ends = Interval(None, None) if least is None else Interval(least, 1.0) if is_above else Interval(-1.0, -least)
    lift = Interval(None, None) if is_above else ends  # the control's mean is at most 1, so a lift is at least as large as the difference
    report = replace(
        report,
        difference=own.mean - against.mean,
        difference_lower=ends.lower,
        difference_upper=ends.upper,
        p_value=min(1.0, math.exp(-log_evidence_apart(*users, 1.0))),
        lift_lower=lift.lower,
        lift_upper=lift.upper,
        alpha=alpha,
        judged_lift_upper=_most_favourable(measure, lift),
    )
    return report, MeasureComparison(measure, own, against, NO_SCALE, lift, difference=ends)


def _with_intervals(
    policy: Policy, measure: Measure, report: MeasureReport, compared: Compared, scale: MeasureScale
) -> tuple[MeasureReport, MeasureComparison]:
    own, against, covariance, stages = compared
    alpha, mixture = policy.interval_alpha(measure), scale.mixture(policy.minimum_lift)
    arms = own.plain, against.plain
    apart = difference(*arms, mixture, alpha, covariance)
    z, variance = z_value(*arms, 1.0, covariance), variance_of(*arms, covariance)
    interval = lift_interval(*arms, mixture, alpha, covariance)
    judged = *arms, interval
    if own.reduced is not None and against.reduced is not None and report.reduced is not None:
        adjusted = own.reduced.adjusted, against.reduced.adjusted
        reduced = lift_interval(*adjusted, mixture, alpha)
        lower, upper = (reduced.lower, reduced.upper) if reduced else (None, None)
        report = replace(report, reduced=replace(report.reduced, lift_lower=lower, lift_upper=upper))
        judged = (*adjusted, reduced) if policy.cuped_verdict else judged
    report = replace(
        report,
        difference=apart[0] if apart else None,
        difference_lower=apart[1] if apart else None,
        difference_upper=apart[2] if apart else None,
        p_value=None if z is None or variance is None else p_value(z, variance, mixture),
        lift_lower=interval.lower if interval else None,
        lift_upper=interval.upper if interval else None,
        alpha=alpha,
        tau=scale.tau,
        minimum_difference=mixture.effect,
        judged_lift_upper=_most_favourable(measure, judged[2]) if judged[2] else None,
        judged=_judged_means(judged[0], judged[1], covariance) if report.paging else None,
    )
    ends = None if apart is None else Interval(*apart[1:])
    comparison = MeasureComparison(measure, judged[0], judged[1], scale, judged[2], covariance, difference=ends)
    alone = {
        name: comparison._replace(treatment=each.own.plain, control=each.against.plain, covariance=each.covariance)
        for name, each in stages.items()
    }
    return report, comparison._replace(stages=alone)


def _judged_means(own: Estimate, against: Estimate, covariance: float) -> JudgedMeans:
    return JudgedMeans(own.mean, math.sqrt(own.variance), against.mean, math.sqrt(against.variance), covariance)
