"""Builds the report of one experiment and scope from stored integers: estimates, comparisons with the control, verdicts. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from streammetrics.experiments.cuped import Reduced, reduce_variances
from streammetrics.experiments.estimates import Estimate, difference, estimate, lift_interval, variance_of, z_value
from streammetrics.experiments.floors import effective_users, largest_user_share_max, unmet_floor
from streammetrics.experiments.health import NO_FEEDBACK, Health, Joined, health, toml_control
from streammetrics.experiments.interleaving import INTERLEAVED, preference, reversed_credit
from streammetrics.experiments.measures import LISTS_AT, USERS_AT, ExperimentError, Measure, Measures
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.report import ExperimentReport, MeasureReport, PreferenceReport, ReducedReport, VariantReport, role_of
from streammetrics.experiments.scales import Scale, scale_of
from streammetrics.experiments.sequence import p_value
from streammetrics.experiments.verdict import (
    VariantComparison,
    Verdict,
    alike,
    combined,
    invalid,
    judge,
    judge_preference,
    severity,
    waiting,
)
from streammetrics.experiments.words import percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The stored integers of one experiment in one scope, merged over tasks.

    moments: by variant, of users that saw only this variant.
    first_exposures: all users, by the variant of their first final list.
    multi_exposed_users: users that saw several variants.
    joined: see `health.health`.
    credits: moments of the credit of a pair's second team against the first, of users that saw only the interleaved variant.
    known_from_ms: see `ExperimentReport`.
    variants_since_ms: event time at which each variant first appeared, or an earlier one.
    from_ms, to_ms: the event time that the scope covers so far.
    """

    experiment: str
    scope: str
    moments: Mapping[str, Sequence[int]]
    first_exposures: Mapping[str, int]
    multi_exposed_users: int
    joined: Joined = NO_FEEDBACK
    credits: Mapping[tuple[str, str], Sequence[int]] = field(default_factory=dict)
    known_from_ms: int | None = None
    variants_since_ms: Mapping[str, int] = field(default_factory=dict)
    from_ms: int = 0
    to_ms: int = 0

    def missed_share(self, variant: str) -> float:
        """Return the share of the scope's time that had passed when a variant first appeared; 0 if that is unknown."""
        missed = self.variants_since_ms.get(variant, self.from_ms) - self.from_ms
        return min(1.0, missed / (self.to_ms - self.from_ms)) if missed > 0 and self.from_ms < self.to_ms else 0.0


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
    state = health(policy, stored.experiment, stored.first_exposures, stored.multi_exposed_users, stored.joined)
    arms = _Arms(measures, policy, control, scales, stored)
    treatments = policy.treatments(control, stored.first_exposures)
    names = sorted({*stored.moments, *stored.first_exposures, *(policy.shares or {})}, key=lambda name: (name != control, name))
    variants = tuple(_variant(measures, stored, name, control, _measures_of(arms, state, name, treatments)) for name in names)
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
        verdict=_overall(policy, stored, state, control, variants, preferences),
        variants=variants,
        preferences=preferences,
        known_from_ms=stored.known_from_ms,
    )


class _Found(NamedTuple):
    """A variant's estimate, and the one with reduced variance if the layout has covariates."""

    plain: Estimate
    reduced: Reduced | None


class _Arms:
    """The arms with enough users: their moments and estimates, and the frozen scales."""

    def __init__(self, measures: Measures, policy: Policy, control: str | None, scales: Mapping[str, float], stored: Stored) -> None:
        self.measures = measures
        self.policy = policy
        self.control = control
        self.scales = scales
        self.stored = stored
        self.moments = {name: sums for name, sums in stored.moments.items() if sums[USERS_AT] >= policy.min_users}
        self.found = {measure: _estimates(measures, measure, self.moments) for measure in measures}

    def unmet(self, measure: Measure, variant: str, control: str) -> str | None:
        """Return why a variant cannot be compared with the control yet, by its start or a floor; None if it can."""
        return self._late(variant, control) or unmet_floor(
            self.measures,
            measure,
            (variant, self.moments[variant]),
            (control, self.moments[control]),
            self.policy.effective_users_min,
            self.policy.hit_users_min,
        )

    def _late(self, variant: str, control: str) -> str | None:
        shares = {name: self.stored.missed_share(name) for name in (variant, control)}
        late = max(shares, key=lambda name: shares[name])
        if shares[late] - min(shares.values()) <= self.policy.late_share_max:
            return None
        other = control if late == variant else variant
        return (
            f"{late} joined late, when {percent(shares[late])} of the time had passed, so {other} has lists of other times:"
            " use the scope of the next day, or start the experiment again under another name"
        )


def _estimates(measures: Measures, measure: Measure, moments: Mapping[str, Sequence[int]]) -> dict[str, _Found]:
    if measures.covariates:
        return {variant: _Found(each.plain, each) for variant, each in reduce_variances(measures, measure, moments).items()}
    found = {variant: estimate(measures, measure, sums) for variant, sums in moments.items()}
    return {variant: _Found(each, None) for variant, each in found.items() if each is not None}


def _variant(measures: Measures, stored: Stored, variant: str, control: str | None, shown: tuple[MeasureReport, ...]) -> VariantReport:
    sums = stored.moments.get(variant, (0, 0))
    by_lists = next((measure for measure in measures if measure.kind == "mean"), measures.all[0])
    known = sums[USERS_AT] > 0
    decided = [each.verdict for each in shown if each.paging and each.verdict]
    return VariantReport(
        variant=variant,
        role=role_of(variant, control),
        users=sums[USERS_AT],
        lists=sums[LISTS_AT],
        first_exposures=stored.first_exposures.get(variant, 0),
        measures=shown,
        effective_users=effective_users(measures, by_lists, sums) if known else 0.0,
        largest_user_share_max=largest_user_share_max(measures, by_lists, sums) if known else 0.0,
        verdict=combined(decided) if decided else None,
    )


def _measures_of(arms: _Arms, state: Health, variant: str, treatments: int) -> tuple[MeasureReport, ...]:
    """Return what is shown of a variant's measures: alone, or compared with the control."""
    reports, comparisons = [], []
    compared = arms.control is not None and variant not in (arms.control, INTERLEAVED)
    for measure, found in arms.found.items():
        if variant in found:
            report = _alone(arms.policy, measure, found[variant])
            if compared:
                report, comparison = _compared(arms, measure, report, variant)
                comparisons += [comparison] if comparison else []
            reports.append(report)
    verdicts = judge(arms.policy, comparisons, treatments, arms.control or "")
    broken = invalid(state) if state.troubles else None
    if not compared:
        return tuple(reports)
    return tuple(replace(each, verdict=broken or verdicts.get(f"{each.metric}@{each.k}", each.verdict)) for each in reports)


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


def _compared(arms: _Arms, measure: Measure, report: MeasureReport, variant: str) -> tuple[MeasureReport, VariantComparison | None]:
    """Return the report with the comparison against the control added, and what the verdict needs; None while it cannot be judged."""
    policy, control, found = arms.policy, arms.control or "", arms.found[measure]
    own, against, scale = found[variant], found.get(control), scale_of(measure, arms.scales)
    if against is None:
        return replace(report, verdict=Verdict("inconclusive", f"{control} has fewer than {policy.min_users:,} users")), None
    lift = own.plain.mean / against.plain.mean - 1 if against.plain.mean > 0 else None
    reduced_lift = None
    if own.reduced is not None and against.reduced is not None and against.reduced.adjusted.mean > 0:
        reduced_lift = own.reduced.adjusted.mean / against.reduced.adjusted.mean - 1
    report = replace(report, lift=lift, reduced=report.reduced and replace(report.reduced, lift=reduced_lift))
    if scale is None and not any(each.plain.mean > 0 for each in found.values()):
        return replace(report, verdict=Verdict("inconclusive", f"{measure} is 0 in every variant so far")), None
    unmet = arms.unmet(measure, variant, control)
    if unmet is None and scale is None and variance_of(own.plain, against.plain) is None:
        return replace(report, verdict=alike(measure, lift, control)), None
    if unmet is None and scale is None:
        users = f"{policy.min_users:,} users since the start"
        unmet = f"the scale of {measure} is not frozen: an exporter freezes it once {control} and another variant have {users}"
    if unmet is not None or scale is None:
        return replace(report, verdict=Verdict("inconclusive", unmet or "")), None
    return _with_intervals(policy, measure, report, (own, against), scale)


def _with_intervals(
    policy: Policy, measure: Measure, report: MeasureReport, arms: tuple[_Found, _Found], scale: Scale
) -> tuple[MeasureReport, VariantComparison]:
    own, against = arms
    alpha, mixture = policy.interval_alpha(measure), scale.mixture(policy.minimum_lift)
    apart = difference(own.plain, against.plain, mixture, alpha)
    z, variance = z_value(own.plain, against.plain, 1.0), variance_of(own.plain, against.plain)
    interval = lift_interval(own.plain, against.plain, mixture, alpha)
    judged = own.plain, against.plain, interval
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
        judged_lift_upper=judged[2].upper if judged[2] else None,
    )
    return report, VariantComparison(measure, judged[0], judged[1], scale, judged[2])


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
    found = preference(moments, policy.alpha, policy.min_users, policy.effective_users_min)
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
    policy: Policy,
    stored: Stored,
    state: Health,
    control: str | None,
    variants: Sequence[VariantReport],
    preferences: Sequence[PreferenceReport],
) -> Verdict:
    """Return the whole experiment's verdict: invalid, or the worst of the variants."""
    if state.troubles:
        return invalid(state)
    if preferences and all(variant.role == INTERLEAVED for variant in variants):
        return min((each.verdict for each in preferences), key=severity)
    if control is None:
        names = [each.variant for each in variants]
        return Verdict(
            "inconclusive", f"no variant is the control. Set {toml_control(stored.experiment, names)}" if names else "no users yet"
        )
    decided = [(variant.variant, variant.verdict) for variant in variants if variant.verdict]
    if not decided:
        short = {variant.variant: variant.users for variant in variants if variant.users < policy.min_users}
        return waiting(policy, short) if short else Verdict("inconclusive", "there is nothing to compare yet")
    variant, worst = min(decided, key=lambda each: severity(each[1]))
    return Verdict(worst.word, f"{variant}: {worst.reason}")
