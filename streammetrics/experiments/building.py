"""Builds the report of one experiment and scope from stored integers: estimates, comparisons with the control, verdicts. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from streammetrics.experiments.arms import Arms, compared_measures
from streammetrics.experiments.comparing import measures_of
from streammetrics.experiments.decisions import decided_ms_of, with_decision, with_state
from streammetrics.experiments.experiment_report import HOLDOUT, SINCE_START, ExperimentReport, MeasureReport, VariantReport, role_of
from streammetrics.experiments.experiment_state import ExperimentState, States, states_of
from streammetrics.experiments.gate import (
    DecidingMeasure,
    GateDecision,
    GateWord,
    gate_of,
    whole_gate,
    without_new_lists,
    without_step,
)
from streammetrics.experiments.health import Health, control_setting, health_of
from streammetrics.experiments.hours import HOUR_MS, Hours
from streammetrics.experiments.interleaving import INTERLEAVED
from streammetrics.experiments.list_signs import ListSigns, list_signs
from streammetrics.experiments.losses import losses_of
from streammetrics.experiments.measures import LISTS_AT, USERS_AT, ExperimentError, Measure, Measures, measure_text
from streammetrics.experiments.name_order import in_order
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.preferences import PreferenceReport, preferences_of
from streammetrics.experiments.running_step import Step, hour_since, step_failure, step_of, unseen_step
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
    states = states_of(measures, stored, control, treatments)
    state, arms = health_of(policy, stored, states.stopped), Arms(measures, policy, stored, control, scales, states)
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
    if verdict.word == "invalid" or not judged(variants):
        verdict = with_state(verdict, states.whole, None)
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
        gate=_gate(verdict, variants, preferences, treatments, states),
        gate_margin=policy.gate_margin,
        unit=policy.unit,
        minimum_lift=policy.minimum_lift,
        treatments=max(1, len(treatments)),
        step_ms=max((step.first_hour * HOUR_MS for step in steps.values()), default=None),
        warnings=warnings,
        state=states.whole,
        last_ms=max(stored.last_ms.values(), default=None),
        decided_ms=decided_ms_of(verdict, states.whole, stored, treatments if control is not None else stored.last_ms, control),
    )


def _loss(arms: Arms, treatment: str, control: str | None) -> DataWarning | None:
    """Say that one of two arms loses users, or has other users, so that they are not compared; None if neither is certain."""
    if control is None:
        return None
    if (lost := losses_of(arms.policy, arms.stored, treatment, control, arms.states.stopped)) is not None:
        return DataWarning("losses", lost, variant=treatment)
    uneven = uneven_shares(arms.policy, arms.stored, treatment, control)
    return None if uneven is None else DataWarning("uneven shares", uneven, variant=treatment)


def _steps(arms: Arms, control: str | None, treatments: Iterable[str], since_ms: int | None) -> dict[str, Step]:
    """Return the running step of each treatment that has one. Fixed shares have no steps but those that are named."""
    if control is None or (since_ms is None and arms.policy.shares is not None):
        return {}
    if since_ms is not None:
        return dict.fromkeys(treatments, Step(hour_since(arms.stored.hours, since_ms), is_named=True))
    found = {name: step_of(arms.measures, arms.policy, arms.stored, name, control) for name in treatments}
    return {name: Step(hour, is_named=False) for name, hour in found.items() if hour is not None}


def _notes_of_times(stored: Stored) -> Iterator[str]:
    """Yield which lists under this name are not in the numbers."""
    if stored.open_lists:
        yield say(
            "{lists} at the end of the input {do} not count: feedback on them may not have come yet",
            lists=counted_words(stored.open_lists, "list"),
            do="does" if stored.open_lists == 1 else "do",
        )
    if stored.end_ms is not None and (late := _lists_from(stored.hours, stored.end_ms)):
        yield say(
            "{lists} from {end} on had counted before the end was set: {stay} in the numbers",
            lists=counted_words(late, "list"),
            end=utc(stored.end_ms),
            stay="it stays" if late == 1 else "they stay",
        )
    if stored.former_last_ms is not None and stored.scope == SINCE_START:
        yield say(
            "an earlier run under this name is not in these numbers: its last list was at {last}, and this run began at {first}",
            last=utc(stored.former_last_ms),
            first=utc(stored.from_ms),
        )


def _lists_from(hours: Hours, from_ms: int) -> int:
    """Return the lists in the blocks of hours that begin at or after a time."""
    block_ms = hours.length * HOUR_MS
    return sum(totals[0] for block, row in hours.rows.items() if block * block_ms >= from_ms for totals in row.totals.values())


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
        uneven = uneven_shares(arms.policy, arms.stored, treatment, control, of_windows=False)
        if uneven is not None:
            yield DataWarning("uneven shares", uneven, variant=treatment)
        one, other = sorted((treatment, control))
        both = arms.stored.pairs.get((one, other), (0,))[USERS_AT]
        users = sum(arms.stored.moments[arm][USERS_AT] for arm in (one, other) if arm in arms.stored.moments) - both
        if arms.policy.unit == "user" and not arms.states.stopped.keys() & {one, other} and both > BOTH_ARMS_MIN * users:
            said = say(
                "{share} of the users have lists of both {treatment} and {control}: all count in the variant that they show, so the arms"
                " differ less than two rankers would",
                share=percent(both / users),
                treatment=named(treatment),
                control=named(control),
            )
            yield DataWarning("users in both arms", said, variant=treatment)


def _changed(arms: Arms, variant: VariantReport) -> DataWarning | None:
    """Say that the effect on a deciding measure has changed: the verdict is about a mixture of two effects. None without a verdict."""
    found = next((each for each in variant.measures if each.change is not None), None)
    if (
        variant.verdict is None
        or variant.verdict.word == "invalid"
        or found is None
        or found.change is None
        or found.change.before.lift is None
        or found.change.since.lift is None
    ):
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
    stopped = arms.states.stopped  # users of an arm that has stopped have no more lists, so its signs would mean nothing
    found = {each: arms.like_lists(each, control) for each in treatments if not stopped.keys() & {each, control}}
    return {each: list_signs(arms.measures, lists) for each, lists in found.items() if lists is not None}


def _variant(
    arms: Arms, variant: str, shown: tuple[MeasureReport, ...], treatments: Collection[str], steps: Mapping[str, Step]
) -> VariantReport:
    control, sums = arms.control, arms.stored.moments.get(variant, (0, 0))
    by_lists = next((measure for measure in arms.measures if measure.kind == "mean"), arms.measures.all[0])
    effective, largest = arms.weight_of_users(by_lists, variant) if sums[USERS_AT] > 0 else (0.0, 0.0)
    role = role_of(variant, control, arms.policy.holdout)
    if role == HOLDOUT:
        shown = tuple(replace(each, verdict=None, within_gate_margin=None) for each in shown)
    shown = tuple(with_decision(arms, variant, each) if each.paging else each for each in shown)
    deciding = [each.verdict for each in shown if each.paging and each.verdict]
    verdict = combined(deciding) if deciding else None
    state = arms.states.of(variant)
    decided_ms = None if verdict is None else decided_ms_of(verdict, state, arms.stored, [variant], control)
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
        verdict=None if verdict is None else with_state(verdict, state, decided_ms),
        gate=_gate_of(arms, verdict, variant, shown, steps.get(variant)) if control is not None and variant in treatments else None,
        state=state,
        last_ms=arms.stored.last_ms.get(variant),
        decided_ms=decided_ms,
    )


def _gate_of(arms: Arms, verdict: Verdict | None, variant: str, shown: Iterable[MeasureReport], step: Step | None) -> GateDecision:
    """Return the decision on a treatment. A pass needs new lists, and a split that is fixed or a step that is named."""
    found, states = _gate_of_lists(arms, verdict, variant, shown, step), arms.states
    if not _is_news(states.of(variant), states):
        return without_new_lists(found, states.of(variant).said)
    is_named = arms.policy.shares is not None or (step is not None and step.is_named)
    return found if is_named or found.word != "pass" else without_step(found)


def _is_news(state: ExperimentState, states: States) -> bool:
    """Whether the numbers are no older than usual. What has just ended as planned may still pass."""
    return state.word == "running" or (state.word == "ended" and not states.is_over)


def _gate_of_lists(arms: Arms, verdict: Verdict | None, variant: str, shown: Iterable[MeasureReport], step: Step | None) -> GateDecision:
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
    if found.word == "fail" or verdict is None or verdict.word in ("invalid", "mixed"):
        return found
    if step is None:
        return found
    names, since_ms = (variant, control), step.first_hour * HOUR_MS
    treatments = len(arms.policy.treatments(control, arms.stored.first_exposures))
    in_cells = arms.step(variant, control, step.first_hour)
    failures = [step_failure(arms.policy, measures, names, since_ms, treatments) for measures in in_cells]
    if (failure := failures[0]) is not None and None not in failures:
        return GateDecision("fail", failure)
    if found.word != "pass" or not step.is_named:
        return found
    reasons = (unseen_step(arms.policy, measures, names, since_ms, treatments) for measures in in_cells)
    unseen = next((reason for reason in reasons if reason is not None), None)
    return found if unseen is None else GateDecision("wait", unseen)


def _gate(
    verdict: Verdict,
    variants: Iterable[VariantReport],
    preferences: Sequence[PreferenceReport],
    treatments: Collection[str],
    states: States,
) -> GateDecision:
    """Return the decision on the whole experiment. A treatment that has stopped does not count beside others that go on.

    Of rankers that are interleaved, only a preferred one passes.
    """
    decided = [variant for variant in variants if variant.gate is not None]
    goes_on = [variant for variant in decided if variant.state.word == "running"]
    decisions = {variant.variant: variant.gate for variant in goes_on or decided if variant.gate is not None}
    if verdict.word == "invalid" or not (decisions or preferences):
        return GateDecision("wait", verdict.said)
    if treatments:
        worst = [each.variant for each in judged(variants) if each.variant in decisions]
        return whole_gate({name: decisions[name] for name in (*worst, *decisions)})
    words: dict[str, GateWord] = {"improved": "pass", "regressed": "fail"}
    of_teams = ((each.team, GateDecision(words.get(each.verdict.word, "wait"), each.verdict.said)) for each in preferences)
    is_news, state = _is_news(states.whole, states), states.whole.said
    return whole_gate({team: found if is_news else without_new_lists(found, state) for team, found in of_teams})


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
    `min_users` users and enough effective users. All such treatments contribute. It does not depend on their
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
