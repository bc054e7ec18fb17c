"""Builds the report of one experiment and scope from stored integers: estimates, comparisons with the control, verdicts. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from streammetrics.experiments.arms import Arms
from streammetrics.experiments.comparing import measures_of
from streammetrics.experiments.experiment_report import HOLDOUT, ExperimentReport, MeasureReport, VariantReport, role_of
from streammetrics.experiments.gate import DecidingMeasure, GateDecision, GateWord, gate_of, whole_gate
from streammetrics.experiments.health import Health, control_setting
from streammetrics.experiments.interleaving import INTERLEAVED
from streammetrics.experiments.list_signs import ListSigns, list_signs
from streammetrics.experiments.measures import LISTS_AT, USERS_AT, ExperimentError, Measures, measure_text
from streammetrics.experiments.name_order import in_order
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.preferences import PreferenceReport, preferences_of
from streammetrics.experiments.stage_health import health_of
from streammetrics.experiments.stage_reports import stage_reports
from streammetrics.experiments.stored import Stored
from streammetrics.experiments.strata import Cells
from streammetrics.experiments.unlike_times import unlike_times
from streammetrics.experiments.verdict import Verdict, combined, invalid, needed_by_verdicts, severity
from streammetrics.experiments.words import advice, join, named, say
from streammetrics.experiments.worst_first import judged, verdict_of_all


def build_report(
    measures: Measures, policy: Policy, stored: Stored, scales: Mapping[str, float], shown: Collection[str] | None = None
) -> ExperimentReport:
    """Return the report of one experiment in one scope. `scales` are the frozen ones; a measure without one has no interval yet.

    An arm with fewer than `min_users` users shows only users, lists and first exposures. `shown` are the names of measures to show;
    None: all. The measures that the verdicts need are always shown. Raises ExperimentError for moments of another layout.
    """
    for variant, sums in stored.moments.items():
        if len(sums) != measures.moments_width:
            raise ExperimentError(f"moments of {variant!r}", f"got {len(sums)} numbers; the layout has {measures.moments_width}")
    policy = policy.deciding(measures)
    control = policy.control_of(list(stored.moments))
    times = unlike_times(policy, measures, stored, control)
    cells = Cells(measures, policy, stored)
    state, arms = health_of(cells, times.changes), Arms(cells, control, scales)
    arms.not_compared, state = times.reasons, replace(state, notes=(*state.notes, *times.notes))
    signs = _signs(arms, control, [each for each in policy.treatments(control, stored.first_exposures) if each not in times.reasons])
    arms.fewer_items = {name: each.fewer_items for name, each in signs.items() if each.fewer_items is not None}
    state = replace(state, notes=(*state.notes, *(note for each in signs.values() for note in each.notes)))
    if shown is not None:
        arms.show({*shown, *needed_by_verdicts(policy)})
    treatments = policy.treatments(control, stored.first_exposures)
    known = {*stored.moments, *stored.first_exposures, *stored.exposed}
    names = in_order({*known, *(policy.arms or ())}, first=control)
    variants = tuple(_variant(arms, name, measures_of(arms, state, name, max(1, len(treatments))), treatments) for name in names)
    preferences, by_action = preferences_of(policy, state, replace(stored, credits={}) if policy.in_cells or stored.in_cells else stored)
    verdict = _overall(arms, stored, state, control, variants, preferences)
    return ExperimentReport(
        experiment=stored.experiment,
        scope=stored.scope,
        control=control,
        alpha=policy.alpha,
        margin=policy.margin,
        min_users=policy.min_users,
        multi_exposed_users=stored.multi_exposed_users,
        health=state.told(),
        verdict=verdict,
        variants=variants,
        preferences=preferences,
        preferences_by_action=by_action,
        known_from_ms=stored.known_from_ms,
        gate=_gate(verdict, variants, preferences, treatments),
        gate_margin=policy.gate_margin,
        unit=policy.unit,
        stages=stage_reports(cells, control) if policy.stages else (),
        minimum_lift=policy.minimum_lift,
        treatments=max(1, len(treatments)),
        proposal=times.proposal,
    )


def _signs(arms: Arms, control: str | None, treatments: Iterable[str]) -> dict[str, ListSigns]:
    """Return the signs in the lists of each treatment that has lists of the same times as the control."""
    if control is None:
        return {}
    found = {each: arms.like_lists(each, control) for each in treatments}
    return {each: list_signs(arms.measures, lists) for each, lists in found.items() if lists is not None}


def _variant(arms: Arms, variant: str, shown: tuple[MeasureReport, ...], treatments: Collection[str]) -> VariantReport:
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
        gate=_gate_of(arms, verdict, variant, shown) if control is not None and variant in treatments else None,
    )


def _gate_of(arms: Arms, verdict: Verdict | None, variant: str, shown: Iterable[MeasureReport]) -> GateDecision:
    waits = arms.not_compared.get(variant) or arms.too_few(variant, arms.control or "")
    if waits is not None:
        return GateDecision("wait", waits)
    deciding = [
        DecidingMeasure(measure_text(each.metric, each.k), each.verdict, bool(each.within_gate_margin))
        for each in shown
        if each.paging and each.verdict
    ]
    found = gate_of(arms.policy, verdict, deciding, arms.control or "")
    unseen = arms.unseen(variant, arms.control or "") if found.word == "pass" else None
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
    waits = Verdict("inconclusive", arms.waits_for([(each.variant, each.users) for each in variants], control))
    return verdict_of_all(variants) or waits
