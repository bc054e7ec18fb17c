"""Builds the report of one experiment and scope from stored integers: estimates, comparisons with the control, verdicts. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from streammetrics.experiments.cuped import Reduced, reduce_variances
from streammetrics.experiments.estimates import Estimate, Interval, choose_tau, difference, estimate, lift_interval, z_value
from streammetrics.experiments.interleaving import INTERLEAVED, preference, reversed_credit
from streammetrics.experiments.measures import LISTS_AT, USERS_AT, ExperimentError, Measure, Measures
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.report import ExperimentReport, MeasureReport, PreferenceReport, ReducedReport, VariantReport, role_of
from streammetrics.experiments.sequence import p_value
from streammetrics.experiments.verdict import NO_FEEDBACK, Health, Joined, Verdict, health, invalid, judge, judge_preference, waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The stored integers of one experiment in one scope, merged over tasks.

    moments: by variant, of users that saw only this variant.
    first_exposures: all users, by the variant of their first final list.
    multi_exposed_users: users that saw several variants.
    joined: see `verdict.health`.
    credits: moments of the credit of a pair's second team against the first, of users that saw only the interleaved variant.
    known_from_ms: see `ExperimentReport`.
    """

    experiment: str
    scope: str
    moments: Mapping[str, Sequence[int]]
    first_exposures: Mapping[str, int]
    multi_exposed_users: int
    joined: Joined = NO_FEEDBACK
    credits: Mapping[tuple[str, str], Sequence[int]] = field(default_factory=dict)
    known_from_ms: int | None = None


def choose_scales(
    measures: Measures, policy: Policy, moments: Mapping[str, Sequence[int]], frozen: Mapping[str, float]
) -> dict[str, float]:
    """Return the scales (tau) that can be frozen now, by measure name, without those in `frozen`. Store them once and never change them.

    A scale is chosen at the first look at which the control and another variant have `min_users` users. All such variants
    contribute. One scale serves all variants and scopes of the experiment.
    """
    enough = {variant: each for variant, each in moments.items() if each[USERS_AT] >= policy.min_users}
    control = policy.control_of(list(moments))
    if control not in enough or len(enough) < 2:
        return {}
    chosen: dict[str, float] = {}
    for measure in measures:
        if str(measure) not in frozen:
            found = [each for sums in enough.values() if (each := estimate(measures, measure, sums)) is not None]
            tau = choose_tau(found, policy.minimum_lift)
            if tau is not None:
                chosen[str(measure)] = tau
    return chosen


def build_report(measures: Measures, policy: Policy, stored: Stored, scales: Mapping[str, float]) -> ExperimentReport:
    """Return the report of one experiment in one scope. `scales` are the frozen ones; a measure without one has no interval yet.

    An arm with fewer than `min_users` users shows only users, lists and first exposures. Raises ExperimentError for moments of
    another layout.
    """
    for variant, sums in stored.moments.items():
        if len(sums) != measures.moments_width:
            raise ExperimentError(f"moments of {variant!r}", f"got {len(sums)} numbers; the layout has {measures.moments_width}")
    policy = policy.deciding(measures)
    control = policy.control_of(list(stored.moments))
    state = health(policy, stored.first_exposures, stored.multi_exposed_users, stored.joined)
    enough = {variant: sums for variant, sums in stored.moments.items() if sums[USERS_AT] >= policy.min_users}
    shown: dict[str, list[MeasureReport]] = {variant: [] for variant in enough}
    for measure in measures:
        found = _estimates(measures, measure, enough)
        for variant, own in found.items():
            report = _alone(policy, measure, own)
            if control is not None and variant not in (control, INTERLEAVED):
                report = _compared(policy, state, measure, report, found, (variant, control), scales.get(str(measure)))
            shown[variant].append(report)
    names = sorted({*stored.moments, *stored.first_exposures, *(policy.shares or {})}, key=lambda name: (name != control, name))
    variants = tuple(_variant(stored, name, control, tuple(shown.get(name, ()))) for name in names)
    preferences = tuple(_preferences(policy, state, stored.credits))
    return ExperimentReport(
        experiment=stored.experiment,
        scope=stored.scope,
        control=control,
        alpha=policy.alpha,
        margin=policy.margin,
        min_users=policy.min_users,
        multi_exposed_users=stored.multi_exposed_users,
        health=state,
        verdict=_overall(policy, state, control, variants, preferences),
        variants=variants,
        preferences=preferences,
        known_from_ms=stored.known_from_ms,
    )


class _Found(NamedTuple):
    """A variant's estimate, and the one with reduced variance if the layout has covariates."""

    plain: Estimate
    reduced: Reduced | None


def _estimates(measures: Measures, measure: Measure, moments: Mapping[str, Sequence[int]]) -> dict[str, _Found]:
    if measures.covariates:
        return {variant: _Found(each.plain, each) for variant, each in reduce_variances(measures, measure, moments).items()}
    found = {variant: estimate(measures, measure, sums) for variant, sums in moments.items()}
    return {variant: _Found(each, None) for variant, each in found.items() if each is not None}


def _variant(stored: Stored, variant: str, control: str | None, shown: tuple[MeasureReport, ...]) -> VariantReport:
    sums = stored.moments.get(variant, (0, 0))
    return VariantReport(variant, role_of(variant, control), sums[USERS_AT], sums[LISTS_AT], stored.first_exposures.get(variant, 0), shown)


def _alone(policy: Policy, measure: Measure, own: _Found) -> MeasureReport:
    return MeasureReport(
        measure.name,
        measure.k,
        own.plain.mean,
        math.sqrt(own.plain.variance),
        paging=str(measure) in policy.paging,
        reduced=None if own.reduced is None else _reduced(own.reduced),
    )


def _reduced(own: Reduced) -> ReducedReport:
    return ReducedReport(own.adjusted.mean, math.sqrt(own.adjusted.variance), own.share, own.users_with_earlier)


def _compared(
    policy: Policy,
    state: Health,
    measure: Measure,
    report: MeasureReport,
    found: Mapping[str, _Found],
    arms: tuple[str, str],
    tau: float | None,
) -> MeasureReport:
    """Return the report with the comparison against the control added."""
    broken = invalid(state) if state.troubles else None
    variant, control = arms
    own, against = found[variant], found.get(control)
    if against is None:
        return replace(report, verdict=broken or Verdict("inconclusive", f"{control} has fewer than {policy.min_users:,} users"))
    if tau is None:
        positive = any(each.plain.mean > 0 for each in found.values())
        users = f"{policy.min_users:,} users since the start"
        unfrozen = f"the scale of {measure} is not frozen: an exporter freezes it once {control} and another variant have {users}"
        return replace(
            report, verdict=broken or Verdict("inconclusive", unfrozen if positive else f"{measure} is 0 in every variant so far")
        )
    alpha = policy.interval_alpha(measure)
    apart = difference(own.plain, against.plain, tau, alpha)
    z = z_value(own.plain, against.plain, 1.0)
    lift, interval = _lift(own.plain, against.plain, tau, alpha)
    judged = own.plain, against.plain, interval
    if own.reduced is not None and against.reduced is not None and report.reduced is not None:
        adjusted = own.reduced.adjusted, against.reduced.adjusted
        lift_reduced, of_reduced = _lift(*adjusted, tau, alpha)
        lower, upper = (of_reduced.lower, of_reduced.upper) if of_reduced else (None, None)
        report = replace(report, reduced=replace(report.reduced, lift=lift_reduced, lift_lower=lower, lift_upper=upper))
        judged = (*adjusted, of_reduced) if policy.cuped_verdict else judged
    treatment, reference, range_ = judged
    return replace(
        report,
        difference=apart[0] if apart else None,
        difference_lower=apart[1] if apart else None,
        difference_upper=apart[2] if apart else None,
        p_value=None if z is None else p_value(z, (own.plain.variance + against.plain.variance) / tau**2),
        lift=lift,
        lift_lower=interval.lower if interval else None,
        lift_upper=interval.upper if interval else None,
        alpha=alpha,
        tau=tau,
        judged_lift_upper=range_.upper if range_ else None,
        verdict=broken or judge(policy, measure, treatment, reference, tau, range_, control),
    )


def _lift(own: Estimate, against: Estimate, tau: float, alpha: float) -> tuple[float | None, Interval | None]:
    return own.mean / against.mean - 1 if against.mean > 0 else None, lift_interval(own, against, tau, alpha)


def _preferences(policy: Policy, state: Health, credits: Mapping[tuple[str, str], Sequence[int]]) -> Iterator[PreferenceReport]:
    """Yield the report of each team against the control, or against the first team by name if no team is the control."""
    found = {pair: moments for pair, moments in credits.items() if any(moments)}
    teams = sorted({team for pair in found for team in pair})
    named = policy.control if policy.control in teams else replace(policy, control=None, shares=None).control_of(teams)
    against = named or next(iter(teams), "")
    for pair, moments in sorted(found.items()):
        if against in pair:
            (team,) = {*pair} - {against}
            yield _preference(policy, state, team, against, moments if pair[0] == against else reversed_credit(moments))


def _preference(policy: Policy, state: Health, team: str, against: str, moments: Sequence[int]) -> PreferenceReport:
    found = preference(moments, policy.alpha, policy.min_users)
    assert found is not None, "moments of credit without lists"
    return PreferenceReport(
        team=team,
        against=against,
        users=found.users,
        lists=found.lists,
        credit=found.mean,
        error=math.sqrt(found.variance) if found.variance < math.inf else None,
        credit_lower=found.lower,
        credit_upper=found.upper,
        alpha=policy.alpha,
        verdict=invalid(state) if state.troubles else judge_preference(policy, found, team, against),
    )


def _overall(
    policy: Policy, state: Health, control: str | None, variants: Sequence[VariantReport], preferences: Sequence[PreferenceReport]
) -> Verdict:
    """Return the whole experiment's verdict: invalid, or the worst of the deciding measures."""
    if state.troubles:
        return invalid(state)
    if preferences and all(variant.role == INTERLEAVED for variant in variants):
        return min((each.verdict for each in preferences), key=lambda verdict: verdict.code)
    if control is None:
        return Verdict("inconclusive", "no variant is the control: name one")
    decided = [(variant.variant, each.verdict) for variant in variants for each in variant.measures if each.paging and each.verdict]
    if not decided:
        short = {variant.variant: variant.users for variant in variants if variant.users < policy.min_users}
        return waiting(policy, short) if short else Verdict("inconclusive", "there is nothing to compare yet")
    variant, worst = min(decided, key=lambda each: each[1].code)
    return Verdict(worst.word, f"{variant}: {worst.reason}")
