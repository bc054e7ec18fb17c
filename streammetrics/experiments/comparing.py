"""Compares the arms of an experiment with the control, measure by measure: estimates, intervals and verdicts. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from streammetrics.experiments.arms import ArmComparison, Arms
from streammetrics.experiments.cell_estimates import PairEstimate, ReducedEstimate, RunPart
from streammetrics.experiments.effect_change import blocks_of
from streammetrics.experiments.experiment_report import SINCE_START, EffectChange, JudgedMeans, MeasureReport, PeriodLift, ReducedReport
from streammetrics.experiments.gate import within_gate_margin
from streammetrics.experiments.health import Health
from streammetrics.experiments.policy import INTERLEAVED, Policy
from streammetrics.experiments.verdict import MeasureComparison, Verdict, alike, invalid, judge
from streammetrics.metrics.names import metric_text
from streammetrics.metrics.records import METRICS
from streammetrics.statistics.estimates import Estimate, Interval, difference, lift_interval, variance_of, z_value
from streammetrics.statistics.measures import Measure
from streammetrics.statistics.sequence import MeasureScale, Mixture, p_value, scale_of
from streammetrics.words.sentences import measure_name, named, say
from streammetrics.words.times import HOUR_MS


def measures_of(arms: Arms, state: Health, variant: str, treatments: int) -> tuple[MeasureReport, ...]:
    """Return what is shown of a variant's measures: alone, or compared with the control."""
    reports, comparisons = [], []
    control = arms.control if variant not in (arms.control, INTERLEAVED) else None
    for measure in arms.estimates:
        compared = arms.compared(measure, variant, control) if control is not None else None
        estimate = compared.plain.treatment if compared is not None else arms.alone(measure, variant)
        if estimate is not None:
            report = _alone(arms.policy, measure, estimate)
            if control is not None:
                report, comparison = _compared(arms, measure, report, variant, control, compared)
                if report.paging and compared is not None and measure.kind != "users" and arms.stored.scope == SINCE_START:
                    report, comparison = _over_time(arms, measure, report, comparison, (variant, control), treatments)
                comparisons += [comparison] if comparison else []
            reports.append(report)
    if control is None:
        return tuple(reports)
    fewer = arms.fewer_items.get(variant)
    doubtful = {
        str(comparison.measure): fewer for comparison in comparisons if METRICS[comparison.measure.name].is_per_item and fewer is not None
    }
    verdicts = judge(arms.policy, comparisons, treatments, arms.control or "", doubtful)
    within = within_gate_margin(
        arms.policy, [comparison for comparison in comparisons if str(comparison.measure) in arms.policy.paging], treatments
    )
    within -= doubtful.keys()
    broken = invalid(state) if state.troubles else None
    return tuple(_judged(report, broken, verdicts, within) for report in reports)


def _most_favourable(measure: Measure, interval: Interval) -> float | None:
    """Return the best lift within the interval, above 0 if it is better; None without a bound."""
    if not measure.lower_is_better:
        return interval.upper
    return None if interval.lower is None else -interval.lower


def _judged(report: MeasureReport, broken: Verdict | None, verdicts: Mapping[str, Verdict], within: Collection[str]) -> MeasureReport:
    name = metric_text(report.metric, report.k)
    is_within = name in within if report.paging and name in verdicts else None
    verdict, upper = broken or verdicts.get(name, report.verdict), report.judged_lift_upper
    if verdict is not None and verdict.word == "regressed" and report.lift is None:  # from 0 on, a rise is above any relative limit
        upper = -1.0
    return replace(report, verdict=verdict, within_gate_margin=is_within, judged_lift_upper=upper)


def _alone(policy: Policy, measure: Measure, estimate: Estimate) -> MeasureReport:
    return MeasureReport(
        measure.name,
        measure.k,
        estimate.mean,
        math.sqrt(estimate.variance),
        paging=str(measure) in policy.paging,
        lower_is_better=measure.lower_is_better,
    )


def _reduced(reduced: ReducedEstimate) -> ReducedReport:
    adjusted = reduced.adjusted.treatment
    return ReducedReport(
        adjusted.mean, math.sqrt(adjusted.variance), reduced.share, reduced.users_with_earlier, _lift(adjusted, reduced.adjusted.control)
    )


def _lift(estimate: Estimate, against: Estimate) -> float | None:
    return estimate.mean / against.mean - 1 if against.mean > 0 else None


def _compared(
    arms: Arms, measure: Measure, report: MeasureReport, variant: str, control: str, compared: ArmComparison | None
) -> tuple[MeasureReport, MeasureComparison | None]:
    """Return the report with the comparison against the control added, and what the verdict needs; None while it cannot be judged."""
    if compared is None:
        return replace(report, verdict=Verdict("inconclusive", arms.short(variant, control))), None
    if variant in arms.not_compared:
        return replace(report, verdict=Verdict("inconclusive", arms.not_compared[variant])), None
    policy, scale, plain = arms.policy, scale_of(measure, arms.scales), compared.plain
    reduced = None if compared.reduced is None else _reduced(compared.reduced)
    report = replace(report, lift=_lift(plain.treatment, plain.control), reduced=reduced)
    if scale is None and arms.all_zero(measure):
        return replace(
            report, verdict=Verdict("inconclusive", say("{measure} is 0 in every variant so far", measure=measure_name(str(measure))))
        ), None
    unmet = arms.unmet(measure, variant, control)
    if unmet is None and scale is None and variance_of(plain.treatment, plain.control, plain.covariance) is None:
        return replace(report, verdict=alike(measure, (plain.treatment.mean, plain.control.mean), control)), None
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
    policy: Policy, measure: Measure, report: MeasureReport, compared: ArmComparison, scale: MeasureScale
) -> tuple[MeasureReport, MeasureComparison]:
    plain, by_hour, mixture = compared.plain, compared.by_hour, scale.mixture(policy.minimum_lift)
    arms = plain.treatment, plain.control
    apart = _difference(plain, by_hour, mixture, policy.alpha)
    z, variance = z_value(*arms, 1.0, plain.covariance), variance_of(*arms, plain.covariance)
    interval, judged = _lift_interval(plain, by_hour, mixture, policy.alpha), plain
    printed = interval
    if compared.reduced is not None and report.reduced is not None:
        reduced = lift_interval(*compared.reduced.adjusted[:2], mixture, policy.alpha)
        lower, upper = (reduced.lower, reduced.upper) if reduced else (None, None)
        report = replace(report, reduced=replace(report.reduced, lift_lower=lower, lift_upper=upper))
        if policy.cuped_verdict and by_hour is None:
            judged, interval = compared.reduced.adjusted, reduced
    report = replace(
        report,
        difference=arms[0].mean - arms[1].mean if apart else None,
        difference_lower=apart.lower if apart else None,
        difference_upper=apart.upper if apart else None,
        p_value=None if z is None or variance is None else p_value(z, variance, mixture),
        lift_lower=printed.lower if printed else None,
        lift_upper=printed.upper if printed else None,
        alpha=policy.alpha,
        tau=scale.tau,
        minimum_difference=mixture.effect,
        judged_lift_upper=_most_favourable(measure, interval) if interval else None,
        judged=_judged_means(judged) if report.paging else None,
    )
    comparison = MeasureComparison(measure, judged.treatment, judged.control, scale, interval, judged.covariance, difference=apart)
    if by_hour is not None:
        of_hours = MeasureComparison(measure, by_hour.treatment, by_hour.control, scale, covariance=by_hour.covariance)
        comparison = comparison._replace(by_hour=of_hours)
    return report, comparison


def _over_time(
    arms: Arms,
    measure: Measure,
    report: MeasureReport,
    comparison: MeasureComparison | None,
    names: tuple[str, str],
    treatments: int,
) -> tuple[MeasureReport, MeasureComparison | None]:
    """Return the report and the comparison with the lift by day, and a change of the effect. names: of the treatment and the control."""
    days = arms.days(measure, *names)
    if len(days[0]) < 2:
        return report, comparison
    change = arms.change(measure, *names, days, treatments) if comparison is not None else None
    lifts = tuple(_period(arms, measure, part, names) for part in blocks_of(days[0]))
    if change is None or comparison is None:
        return replace(report, days=lifts), comparison
    before, since = (_period(arms, measure, part, names) for part in (change.before, change.since))
    report = replace(report, days=lifts, change=EffectChange(change.since.first * HOUR_MS, before, since))
    return report, comparison._replace(change=change)


def _period(arms: Arms, measure: Measure, part: RunPart, names: tuple[str, str]) -> PeriodLift:
    stored, scale, length = arms.stored, scale_of(measure, arms.scales), arms.stored.hours.length
    mixture = None if scale is None else scale.mixture(arms.policy.minimum_lift)
    interval = None if mixture is None else lift_interval(part.treatment, part.control, mixture, arms.policy.alpha)
    rows = [row for block, row in stored.hours.rows.items() if part.first <= block * length < part.end]
    lists, control_lists = (sum(row.lists().get(name, 0) for row in rows) for name in names)
    new_users, control_new_users = (sum(row.new_users.get(name, 0) for row in rows) for name in names)
    return PeriodLift(
        from_ms=max(part.first * HOUR_MS, stored.from_ms),
        end_ms=min(part.end * HOUR_MS, max(stored.to_ms, part.first * HOUR_MS)),
        lists=lists,
        control_lists=control_lists,
        new_users=new_users,
        control_new_users=control_new_users,
        lift=None if part.ratio is None else part.ratio - 1,
        lift_lower=interval.lower if interval else None,
        lift_upper=interval.upper if interval else None,
    )


def _difference(plain: PairEstimate, by_hour: PairEstimate | None, mixture: Mixture, alpha: float) -> Interval | None:
    """Return the interval of the difference; that of both estimates together if there are two."""
    differences = [
        difference(comparison.treatment, comparison.control, mixture, alpha, comparison.covariance)
        for comparison in (plain, by_hour)
        if comparison is not None
    ]
    return _hull([None if ends is None else Interval(*ends[1:]) for ends in differences])


def _lift_interval(plain: PairEstimate, by_hour: PairEstimate | None, mixture: Mixture, alpha: float) -> Interval | None:
    lifts = (
        lift_interval(comparison.treatment, comparison.control, mixture, alpha, comparison.covariance)
        for comparison in (plain, by_hour)
        if comparison is not None
    )
    return _hull([*lifts])


def _hull(intervals: Sequence[Interval | None]) -> Interval | None:
    """Return the least interval that holds all; None if one is not known.

    >>> _hull([Interval(0.1, 0.2), Interval(0.0, None)])
    Interval(lower=0.0, upper=None)
    """
    bounded = [interval for interval in intervals if interval is not None]
    if len(bounded) < len(intervals):
        return None
    lowers, uppers = [interval.lower for interval in bounded], [interval.upper for interval in bounded]
    return Interval(
        None if None in lowers else min(end for end in lowers if end is not None),
        None if None in uppers else max(end for end in uppers if end is not None),
    )


def _judged_means(judged: PairEstimate) -> JudgedMeans:
    treated, against = judged.treatment, judged.control
    return JudgedMeans(treated.mean, math.sqrt(treated.variance), against.mean, math.sqrt(against.variance), judged.covariance)
