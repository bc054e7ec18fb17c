"""Builds the report of one experiment and scope from stored integers: estimates, comparisons with the control, verdicts. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from streammetrics.experiments.arms import Arms, compared_measures
from streammetrics.experiments.comparing import measures_of
from streammetrics.experiments.experiment_report import HOLDOUT, SINCE_START, ExperimentReport, MeasureReport, VariantReport, role_of
from streammetrics.experiments.gate import DecidingMeasure, GateDecision, GateWord, gate_of, whole_gate
from streammetrics.experiments.health import Health, control_setting, health_of
from streammetrics.experiments.hours import HOUR_MS
from streammetrics.experiments.interleaving import INTERLEAVED
from streammetrics.experiments.list_signs import ListSigns, list_signs
from streammetrics.experiments.losses import losses_of
from streammetrics.experiments.measures import LISTS_AT, USERS_AT, ExperimentError, Measure, Measures, measure_text
from streammetrics.experiments.name_order import in_order
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.preferences import PreferenceReport, preferences_of
from streammetrics.experiments.running_step import hour_since, step_failure, step_of, unseen_step
from streammetrics.experiments.scales import MeasureScale
from streammetrics.experiments.segment_shares import strata_warning, uneven_shares
from streammetrics.experiments.stored import Stored
from streammetrics.experiments.verdict import Verdict, combined, invalid, needed_by_verdicts, severity
from streammetrics.experiments.words import (
    DataWarning,
    Words,
    advice,
    change_words,
    counted_words,
    join,
    measure_name,
    named,
    percent,
    say,
    utc,
)
from streammetrics.experiments.worst_first import judged, verdict_of_all

BOTH_ARMS_MIN: Final = 0.01
"""The share of two arms' users with lists in both from which a note says so."""


def build_report(
    measures: Measures,
    policy: Policy,
    stored: Stored,
    scales: Mapping[str, float],
    shown: Collection[str] | None = None,
    since_ms: int | None = None,
) -> ExperimentReport:
    """Return the report of one experiment in one scope. `scales` are the frozen ones; a measure without one has no interval yet.

    An arm with fewer than `min_users` users shows only users, lists and first exposures. `shown` are the names of measures to show;
    None: all. The measures that the verdicts need are always shown. `since_ms` is when the running step of a rollout began; None: it is
    found. Raises ExperimentError for moments of another layout.
    """
    for variant, sums in stored.moments.items():
        if len(sums) != measures.moments_width:
            raise ExperimentError(f"moments of {variant!r}", f"got {len(sums)} numbers; the layout has {measures.moments_width}")
    policy = policy.deciding(measures)
    control = policy.control_of(list(stored.moments))
    treatments = policy.treatments(control, stored.first_exposures)
    state, arms = health_of(policy, stored), Arms(measures, policy, stored, control, scales)
    losses = [warning for name in treatments if (warning := _loss(arms, name, control)) is not None]
    arms.not_compared = {each.variant: Words(each.parts) for each in losses}
    state = replace(state, notes=(*state.notes, *_notes_of_times(stored)))
    signs = _signs(arms, control, treatments)
    arms.fewer_items = {name: each.fewer_items for name, each in signs.items() if each.fewer_items is not None}
    warnings = (*losses, *_warnings(arms, control, treatments), *(sign for each in signs.values() for sign in each.warnings))
    if shown is not None:
        arms.show({*shown, *needed_by_verdicts(policy)})
    known = {*stored.moments, *stored.first_exposures, *stored.exposed}
    names = in_order({*known, *(policy.arms or ())}, first=control)
    steps = _steps(arms, control, treatments, since_ms)
    variants = tuple(_variant(arms, name, measures_of(arms, state, name, max(1, len(treatments))), treatments, steps) for name in names)
    warnings = (*warnings, *(warning for variant in variants if (warning := _changed(arms, variant)) is not None))
    preferences, by_action = preferences_of(policy, state, stored)
    verdict = _overall(arms, stored, state, control, variants, preferences)
    return ExperimentReport(
        experiment=stored.experiment,
        scope=stored.scope,
        control=control,
        alpha=policy.alpha,
        margin=policy.margin,
        min_users=policy.min_users,
        health=state.told(),
        verdict=verdict,
        variants=variants,
        preferences=preferences,
        preferences_by_action=by_action,
        from_ms=stored.from_ms,
        known_from_ms=stored.known_from_ms,
        gate=_gate(verdict, variants, preferences, treatments),
        gate_margin=policy.gate_margin,
        unit=policy.unit,
        minimum_lift=policy.minimum_lift,
        treatments=max(1, len(treatments)),
        step_ms=max((hour * HOUR_MS for hour in steps.values()), default=None),
        warnings=warnings,
    )


def _loss(arms: Arms, treatment: str, control: str | None) -> DataWarning | None:
    """Say that one of two arms loses users, or has other users, so that they are not compared; None if neither is certain."""
    if control is None:
        return None
    if (lost := losses_of(arms.policy, arms.stored, treatment, control)) is not None:
        return DataWarning("losses", lost, variant=treatment)
    uneven = uneven_shares(arms.policy, arms.stored, treatment, control)
    return None if uneven is None else DataWarning("uneven shares", uneven, variant=treatment)


def _steps(arms: Arms, control: str | None, treatments: Iterable[str], since_ms: int | None) -> dict[str, int]:
    """Return the first hour of the running step of each treatment that has one."""
    if control is None:
        return {}
    if since_ms is not None:
        return dict.fromkeys(treatments, hour_since(arms.stored.hours, since_ms))
    found = {name: step_of(arms.measures, arms.policy, arms.stored, name, control) for name in treatments}
    return {name: hour for name, hour in found.items() if hour is not None}


def _notes_of_times(stored: Stored) -> Iterator[str]:
    """Yield which lists under this name are not in the numbers."""
    if stored.open_lists:
        yield say(
            "{lists} at the end of the input {do} not count: feedback on them may not have come yet",
            lists=counted_words(stored.open_lists, "list"),
            do="does" if stored.open_lists == 1 else "do",
        )
    if stored.former_last_ms is not None and stored.scope == SINCE_START:
        yield say(
            "an earlier run under this name is not in these numbers: its last list was at {last}, and this run began at {first}",
            last=utc(stored.former_last_ms),
            first=utc(stored.from_ms),
        )


def _warnings(arms: Arms, control: str | None, treatments: Iterable[str]) -> Iterator[DataWarning]:
    """Yield what bends a comparison, although it is no reason to leave it out: hours without an arm, and users in both arms."""
    strata = strata_warning(arms.policy, arms.stored)
    if strata is not None:
        yield strata
    for treatment in treatments if control is not None else ():
        assert control is not None
        silence = arms.silence(treatment, control)
        if silence is not None:
            yield silence
        one, other = sorted((treatment, control))
        both = arms.stored.pairs.get((one, other), (0,))[USERS_AT]
        users = sum(arms.stored.moments[arm][USERS_AT] for arm in (one, other) if arm in arms.stored.moments) - both
        if arms.policy.unit == "user" and both > BOTH_ARMS_MIN * users:
            said = say(
                "{share} of the users have lists of both {treatment} and {control}: all count in the variant that they show, so the arms"
                " differ less than two rankers would",
                share=percent(both / users),
                treatment=named(treatment),
                control=named(control),
            )
            yield DataWarning("users in both arms", said, variant=treatment)


def _changed(arms: Arms, variant: VariantReport) -> DataWarning | None:
    """Say that the effect on a deciding measure has changed, so that all lists together are a mixture of two effects."""
    found = next((each for each in variant.measures if each.change is not None), None)
    if found is None or found.change is None or found.change.before.lift is None or found.change.since.lift is None:
        return None
    measure = arms.measures.named(measure_text(found.metric, found.k))
    changed = change_words(measure, found.change.before.lift, found.change.since.lift, found.change.at_ms)
    said = say("{variant} on {measure}: {changed}", variant=named(variant.variant), measure=measure_name(str(measure)), changed=changed)
    setting = arms.policy.settings_text(arms.stored.experiment, {"start": found.change.at_ms})
    return DataWarning("effect changed", said, f"to compare only the lists since, set {setting}", variant.variant)


def _signs(arms: Arms, control: str | None, treatments: Iterable[str]) -> dict[str, ListSigns]:
    """Return the signs in the lists of each treatment that has lists of the same times as the control."""
    if control is None:
        return {}
    found = {each: arms.like_lists(each, control) for each in treatments}
    return {each: list_signs(arms.measures, lists) for each, lists in found.items() if lists is not None}


def _variant(
    arms: Arms, variant: str, shown: tuple[MeasureReport, ...], treatments: Collection[str], steps: Mapping[str, int]
) -> VariantReport:
    control, sums = arms.control, arms.stored.moments.get(variant, (0, 0))
    by_lists = next((measure for measure in arms.measures if measure.kind == "mean"), arms.measures.all[0])
    effective, largest = arms.weight_of_users(by_lists, variant) if sums[USERS_AT] > 0 else (0.0, 0.0)
    role = role_of(variant, control, arms.policy.holdout)
    if role == HOLDOUT:
        shown = tuple(replace(each, verdict=None, within_gate_margin=None) for each in shown)
    decided = [each.verdict for each in shown if each.paging and each.verdict]
    verdict = combined(decided) if decided else None
    return VariantReport(
        variant=variant,
        role=role,
        users=sums[USERS_AT],
        lists=sums[LISTS_AT],
        first_exposures=arms.stored.first_exposures.get(variant, 0),
        exposed_users=arms.stored.exposed.get(variant, 0),
        measures=shown,
        effective_users=effective,
        largest_user_share_max=largest,
        verdict=verdict,
        gate=_gate_of(arms, verdict, variant, shown, steps.get(variant)) if control is not None and variant in treatments else None,
    )


def _gate_of(arms: Arms, verdict: Verdict | None, variant: str, shown: Iterable[MeasureReport], step: int | None) -> GateDecision:
    control = arms.control or ""
    waits = arms.not_compared.get(variant) or arms.too_few(variant, control)
    if waits is not None:
        return GateDecision("wait", waits)
    deciding = [
        DecidingMeasure(measure_text(each.metric, each.k), each.verdict, bool(each.within_gate_margin))
        for each in shown
        if each.paging and each.verdict
    ]
    found = gate_of(arms.policy, verdict, deciding, control)
    if step is None or found.word == "fail" or verdict is None or verdict.word in ("invalid", "mixed"):
        return found
    names, since_ms = (variant, control), step * HOUR_MS
    treatments = len(arms.policy.treatments(control, arms.stored.first_exposures))
    in_cells = arms.step(variant, control, step)
    failures = [step_failure(arms.policy, measures, names, since_ms, treatments) for measures in in_cells]
    if (failure := failures[0]) is not None and None not in failures:
        return GateDecision("fail", failure)
    if found.word != "pass":
        return found
    reasons = (unseen_step(arms.policy, measures, names, since_ms, treatments) for measures in in_cells)
    unseen = next((reason for reason in reasons if reason is not None), None)
    return found if unseen is None else GateDecision("wait", unseen)


def _gate(
    verdict: Verdict, variants: Iterable[VariantReport], preferences: Sequence[PreferenceReport], treatments: Collection[str]
) -> GateDecision:
    """Return the decision on the whole experiment. Of rankers that are interleaved, only a preferred one passes."""
    decisions = {variant.variant: variant.gate for variant in variants if variant.gate is not None}
    if verdict.word == "invalid" or not (decisions or preferences):
        return GateDecision("wait", verdict.said)
    if treatments:
        worst = [each.variant for each in judged(variants) if each.variant in decisions]
        return whole_gate({name: decisions[name] for name in (*worst, *decisions)})
    words: dict[str, GateWord] = {"improved": "pass", "regressed": "fail"}
    return whole_gate({each.team: GateDecision(words.get(each.verdict.word, "wait"), each.verdict.said) for each in preferences})


def _no_control(policy: Policy, experiment: str, seen: Sequence[str]) -> str:
    """Say why no variant is the control. A single variant is no reason to make it the control."""
    if len(seen) < 2:
        return say("only {arm} has users so far; a comparison needs a control, too", arm=named(seen[0])) if seen else "no users yet"
    return say("no variant is the control.{how}", how=advice(f" Set {control_setting(policy, experiment, seen)}"))


def _missing_control(policy: Policy, experiment: str, control: str, seen: Sequence[str]) -> str:
    """Say that the configured control has no users, and which variants have some."""
    arms = join(map(named, seen), ", ")
    return say(
        "no user saw the control '{control}'. Variants seen: {arms}.{how}",
        control=named(control),
        arms=arms,
        how=advice(f" Correct the setting {control_setting(policy, experiment, seen)}"),
    )


def _overall(
    arms: Arms,
    stored: Stored,
    state: Health,
    control: str | None,
    variants: Sequence[VariantReport],
    preferences: Sequence[PreferenceReport],
) -> Verdict:
    """Return the whole experiment's verdict: invalid, or that of the worst variant."""
    if state.troubles:
        return invalid(state)
    if preferences and all(variant.role == INTERLEAVED for variant in variants):
        return min((each.verdict for each in preferences), key=severity)
    if control is None:
        return Verdict("inconclusive", _no_control(arms.policy, stored.experiment, [each.variant for each in variants]))
    if (seen := in_order(stored.first_exposures)) and control not in seen:
        return Verdict("inconclusive", _missing_control(arms.policy, stored.experiment, control, seen))
    waits = Verdict("inconclusive", arms.waits_for([(each.variant, each.users) for each in variants]))
    return verdict_of_all(variants) or waits


def choose_scales(measures: Measures, policy: Policy, stored: Stored, frozen: Mapping[str, float]) -> dict[str, float]:
    """Return the numbers that can be frozen now, by name, without those in `frozen`. Store them once and never change them.

    stored: since the start of the experiment. A measure's scale is chosen at the first look at which the control and a treatment have
    `min_users` users and pass the floors. All such treatments contribute. It does not depend on their
    difference from the control.
    """
    control = policy.control_of(list(stored.moments))
    due = [measure for measure in compared_measures(measures, policy) if str(measure) not in frozen]
    if control is None or not due:
        return {}
    arms, chosen = Arms(measures, policy, stored, control, frozen), dict[str, float]()
    for measure in due:
        scale = _scale(arms, measure, control)
        if scale is not None:
            chosen |= {str(measure): scale.tau, f"{measure} control": scale.control_mean}
    return chosen


def _scale(arms: Arms, measure: Measure, control: str) -> MeasureScale | None:
    """Return the scale of a measure; None while no treatment is ready, or while all means or variances are 0.

    tau is the standard error of a difference, with the mean variance of all differences.
    """
    treatments = sorted({*arms.stored.moments} - {control, arms.policy.holdout, INTERLEAVED})
    found = ((variant, arms.compared(measure, variant, control)) for variant in treatments)
    ready = [each.plain for variant, each in found if each is not None and arms.unmet(measure, variant, control) is None]
    alone = arms.alone(measure, control)
    if not ready or alone is None:
        return None
    variance = math.fsum(each.treatment.variance + each.control.variance - 2 * each.covariance for each in ready) / len(ready)
    has_values = alone.mean > 0 or any(each.treatment.mean > 0 for each in ready)
    return MeasureScale(math.sqrt(variance), alone.mean) if 0 < variance < math.inf and has_values else None
