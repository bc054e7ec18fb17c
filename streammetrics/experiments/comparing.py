"""Compares the arms of an experiment with the control, measure by measure: estimates, intervals and verdicts. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from streammetrics.experiments.arms import ArmEstimate, Arms, Compared
from streammetrics.experiments.cuped import Reduced
from streammetrics.experiments.estimates import Estimate, Interval, difference, lift_interval, variance_of, z_value
from streammetrics.experiments.experiment_report import JudgedMeans, MeasureReport, ReducedReport
from streammetrics.experiments.gate import within_gate_margin
from streammetrics.experiments.health import Health
from streammetrics.experiments.interleaving import INTERLEAVED
from streammetrics.experiments.measures import Measure, measure_text
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.scales import MeasureScale, scale_of
from streammetrics.experiments.sequence import p_value
from streammetrics.experiments.verdict import WHOLE_PART, MeasureComparison, Verdict, alike, invalid, judge, stage_of_drop
from streammetrics.experiments.words import measure_name, named, say


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
    alone, alpha = each.stages[stage], policy.alpha * (1 - WHOLE_PART) / len(policy.stages)
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
    if unmet is None and scale is None and variance_of(own.plain, against.plain, covariance) is None:
        return replace(report, verdict=alike(measure, (own.plain.mean, against.plain.mean), control)), None
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


def _with_intervals(
    policy: Policy, measure: Measure, report: MeasureReport, compared: Compared, scale: MeasureScale
) -> tuple[MeasureReport, MeasureComparison]:
    own, against, covariance, stages = compared
    alpha, mixture = policy.alpha, scale.mixture(policy.minimum_lift)
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
