"""Builds the report of one experiment and scope from stored integers: estimates, comparisons with the control, verdicts. Pure.

**A decided verdict** is one that new lists cannot change any more: see `experiment_state`. Lists of the other arm that come later make
its users differ more, so that intervals grow. So the verdict and the numbers of a deciding measure are frozen with the scales of the
experiment, and shown from then on, until the arm has lists again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from streammetrics.errors import ExperimentError
from streammetrics.experiments.arms import Arms, compared_measures
from streammetrics.experiments.comparing import measures_of
from streammetrics.experiments.comparison_warnings import change_warning, loss_warning, notes_of_times, signs_of, warnings_of
from streammetrics.experiments.experiment_report import (
    SINCE_START,
    ExperimentReport,
    MeasureReport,
    VariantReport,
    judged,
    role_of,
    verdict_of_all,
)
from streammetrics.experiments.experiment_state import ExperimentState, States, states_of
from streammetrics.experiments.gate import (
    DecidingMeasure,
    GateDecision,
    GateWord,
    Step,
    gate_of,
    hour_since,
    step_failure,
    step_of,
    unseen_step,
    whole_gate,
    without_new_lists,
    without_step,
)
from streammetrics.experiments.health import Health, control_setting, health_of
from streammetrics.experiments.measure_words import lift_words
from streammetrics.experiments.policy import INTERLEAVED, Policy
from streammetrics.experiments.preferences import PreferenceReport, preferences_of
from streammetrics.experiments.stored import StoredSums
from streammetrics.experiments.verdict import VERDICT_CODES, Verdict, combined, invalid, needed_by_verdicts, severity
from streammetrics.metrics.names import metric_text
from streammetrics.statistics.measures import LISTS_AT, USERS_AT, Measure, Measures
from streammetrics.statistics.sequence import MeasureScale
from streammetrics.words.names import in_order
from streammetrics.words.numbers import confidence
from streammetrics.words.sentences import DataWarning, Words, advice, join, named, say, without_advice
from streammetrics.words.times import HOUR_MS

FROZEN_NUMBERS: Final = ("lift", "lift_lower", "lift_upper", "judged_lift_upper")
"""What is frozen of a decided measure besides its verdict."""


def build_report(
    measures: Measures,
    policy: Policy,
    stored: StoredSums,
    scales: Mapping[str, float],
    measure_names: Collection[str] | None = None,
    since_ms: int | None = None,
) -> ExperimentReport:
    """Return the report of one experiment in one scope. `scales` are the frozen ones; a measure without one has no interval yet.

    An arm with fewer than `min_users` users shows only users, lists and users by their first list. `measure_names` are those to show;
    None: all. The measures that the verdicts need are always shown. `since_ms` is when the running step of a rollout began; None: it is
    found. Raises ExperimentError for moments of another layout.
    """
    _require_layout(measures, stored)
    policy = policy.deciding(measures)
    control = policy.control_of(list(stored.moments))
    treatments = policy.treatments(control, stored.users)
    states = states_of(measures, policy, stored)
    state, arms = health_of(policy, stored, states.stopped), Arms(measures, policy, stored, control, scales, states)
    state = replace(state, notes=(*state.notes, *notes_of_times(stored)))
    warnings = _find_bias(arms, control, treatments)
    if measure_names is not None:
        arms.show({*measure_names, *needed_by_verdicts(policy)})
    names = in_order({*stored.users, *stored.exposed, *(policy.arms or ())}, first=control)
    steps = _steps(arms, control, treatments, since_ms)
    variants = tuple(_variant(arms, name, measures_of(arms, state, name, max(1, len(treatments))), treatments, steps) for name in names)
    changes = [warning for variant in variants if (warning := change_warning(arms, variant)) is not None]
    preferences, by_action = preferences_of(policy, state, stored)
    verdict = _overall(arms, state, control, variants, preferences)
    if verdict.word == "invalid" or not judged(variants):
        verdict = with_state(verdict, states.whole, None)
    return ExperimentReport(
        experiment=stored.experiment,
        scope=stored.scope,
        control=control,
        alpha=policy.alpha,
        margin=policy.margin,
        min_users=policy.min_users,
        health=state.as_text(),
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
        warnings=(*warnings, *changes),
        state=states.whole,
        last_ms=max(stored.last_ms.values(), default=None),
        decided_ms=decided_ms_of(verdict, states.whole, stored, treatments if control is not None else stored.last_ms, control),
    )


def _require_layout(measures: Measures, stored: StoredSums) -> None:
    for variant, sums in stored.moments.items():
        if len(sums) != measures.moments_width:
            raise ExperimentError(f"moments of {variant!r}", f"got {len(sums)} numbers; the layout has {measures.moments_width}")


def _find_bias(arms: Arms, control: str | None, treatments: Sequence[str]) -> list[DataWarning]:
    """Return what bends the comparisons, and tell `arms`.

    Arms that lose users are not compared. An arm with fewer items per list is not called improved by a measure per item.
    """
    losses = [warning for name in treatments if (warning := loss_warning(arms, name, control)) is not None]
    arms.not_compared = {loss.variant: Words(loss.parts) for loss in losses}
    signs = signs_of(arms, control, treatments)
    arms.fewer_items = {name: of_lists.fewer_items for name, of_lists in signs.items() if of_lists.fewer_items is not None}
    return [*losses, *warnings_of(arms, control, treatments), *(sign for of_lists in signs.values() for sign in of_lists.warnings)]


def _steps(arms: Arms, control: str | None, treatments: Iterable[str], since_ms: int | None) -> dict[str, Step]:
    """Return the running step of each treatment that has one. Fixed shares have no steps but those that are named."""
    if control is None or (since_ms is None and arms.policy.shares is not None):
        return {}
    if since_ms is not None:
        return dict.fromkeys(treatments, Step(hour_since(arms.stored.hours, since_ms), is_named=True))
    hours = {name: step_of(arms.measures, arms.policy, arms.stored, name, control) for name in treatments}
    return {name: Step(hour, is_named=False) for name, hour in hours.items() if hour is not None}


def _variant(
    arms: Arms, variant: str, reports: tuple[MeasureReport, ...], treatments: Collection[str], steps: Mapping[str, Step]
) -> VariantReport:
    control, sums = arms.control, arms.stored.moments.get(variant, (0, 0))
    by_lists = next((measure for measure in arms.measures if measure.kind == "mean"), arms.measures.all[0])
    effective, largest = arms.weight_of_users(by_lists, variant) if sums[USERS_AT] > 0 else (0.0, 0.0)
    role = role_of(variant, control, arms.policy.holdout)
    if variant not in treatments:  # a holdout, or a few users of a label without a share
        reports = tuple(replace(measure, verdict=None, within_gate_margin=None) for measure in reports)
    reports = tuple(with_decision(arms, variant, measure) if measure.paging else measure for measure in reports)
    deciding = [measure.verdict for measure in reports if measure.paging and measure.verdict]
    verdict = combined(deciding) if deciding else None
    state = arms.states.of(variant)
    decided_ms = None if verdict is None else decided_ms_of(verdict, state, arms.stored, [variant], control)
    return VariantReport(
        variant=variant,
        role=role,
        users=sums[USERS_AT],
        lists=sums[LISTS_AT],
        first_list_users=arms.stored.first_list_users.get(variant, 0),
        exposed_users=arms.stored.exposed.get(variant, 0),
        measures=reports,
        effective_users=effective,
        largest_user_share_max=largest,
        verdict=None if verdict is None else with_state(verdict, state, decided_ms),
        gate=_gate_of(arms, verdict, variant, reports, steps.get(variant)) if control is not None and variant in treatments else None,
        state=state,
        last_ms=arms.stored.last_ms.get(variant),
        decided_ms=decided_ms,
    )


def _gate_of(arms: Arms, verdict: Verdict | None, variant: str, reports: Iterable[MeasureReport], step: Step | None) -> GateDecision:
    """Return the decision on a treatment. A pass needs new lists, and a split that is fixed or a step that is named."""
    decision, states = _gate_of_lists(arms, verdict, variant, reports, step), arms.states
    if not _is_news(states.of(variant), states):
        return without_new_lists(decision, states.of(variant).said)
    is_named = arms.policy.shares is not None or (step is not None and step.is_named)
    return decision if is_named or decision.word != "pass" else without_step(decision)


def _is_news(state: ExperimentState, states: States) -> bool:
    """Whether the numbers are no older than usual. What has just ended as planned may still pass."""
    return state.word == "running" or (state.word == "ended" and not states.is_over)


def _gate_of_lists(arms: Arms, verdict: Verdict | None, variant: str, reports: Iterable[MeasureReport], step: Step | None) -> GateDecision:
    control = arms.control or ""
    waits = arms.not_compared.get(variant) or arms.too_few(variant, control)
    if waits is not None:
        return GateDecision("wait", waits)
    deciding = [
        DecidingMeasure(metric_text(measure.metric, measure.k), measure.verdict, bool(measure.within_gate_margin))
        for measure in reports
        if measure.paging and measure.verdict
    ]
    decision = gate_of(arms.policy, verdict, deciding, control)
    if decision.word == "fail" or verdict is None or verdict.word in ("invalid", "mixed"):
        return decision
    if step is None:
        return decision
    names, since_ms = (variant, control), step.first_hour * HOUR_MS
    treatments = len(arms.policy.treatments(control, arms.stored.users))
    in_cells = arms.step(variant, control, step.first_hour)
    failures = [step_failure(arms.policy, measures, names, since_ms, treatments) for measures in in_cells]
    if (failure := failures[0]) is not None and None not in failures:
        return GateDecision("fail", failure)
    if decision.word != "pass" or not step.is_named:
        return decision
    reasons = (unseen_step(arms.policy, measures, names, since_ms, treatments) for measures in in_cells)
    unseen = next((reason for reason in reasons if reason is not None), None)
    return decision if unseen is None else GateDecision("wait", unseen)


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
        worst = [variant.variant for variant in judged(variants) if variant.variant in decisions]
        return whole_gate({name: decisions[name] for name in (*worst, *decisions)})
    words: dict[str, GateWord] = {"improved": "pass", "regressed": "fail"}
    of_teams = (
        (preference.team, GateDecision(words.get(preference.verdict.word, "wait"), preference.verdict.said)) for preference in preferences
    )
    is_news, state = _is_news(states.whole, states), states.whole.said
    return whole_gate({team: decision if is_news else without_new_lists(decision, state) for team, decision in of_teams})


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
    arms: Arms, state: Health, control: str | None, variants: Sequence[VariantReport], preferences: Sequence[PreferenceReport]
) -> Verdict:
    """Return the whole experiment's verdict: invalid, or that of the worst variant."""
    stored = arms.stored
    if state.troubles:
        return invalid(state)
    if preferences and all(variant.role == INTERLEAVED for variant in variants):
        return min((preference.verdict for preference in preferences), key=severity)
    if control is None:
        return Verdict("inconclusive", _no_control(arms.policy, stored.experiment, [arm.variant for arm in variants]))
    if (seen := in_order(stored.users)) and control not in seen:
        return Verdict("inconclusive", _missing_control(arms.policy, stored.experiment, control, seen))
    waits = Verdict("inconclusive", arms.waits_for([(arm.variant, arm.users) for arm in variants]))
    return verdict_of_all(variants) or waits


def choose_scales(measures: Measures, policy: Policy, stored: StoredSums, frozen: Mapping[str, float]) -> dict[str, float]:
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
    compared = ((variant, arms.compared(measure, variant, control)) for variant in treatments)
    ready = [pair.plain for variant, pair in compared if pair is not None and arms.unmet(measure, variant, control) is None]
    alone = arms.alone(measure, control)
    if not ready or alone is None:
        return None
    variance = math.fsum(pair.treatment.variance + pair.control.variance - 2 * pair.covariance for pair in ready) / len(ready)
    has_values = alone.mean > 0 or any(pair.treatment.mean > 0 for pair in ready)
    return MeasureScale(math.sqrt(variance), alone.mean) if 0 < variance < math.inf and has_values else None


def _decision_key(variant: str, measure: MeasureReport, number: str) -> str:
    return f"{metric_text(measure.metric, measure.k)} {variant} decided {number}"


def decided_ms_of(verdict: Verdict, state: ExperimentState, stored: StoredSums, arms: Iterable[str], control: str | None) -> int | None:
    """Return the time of the last list that can change a certain verdict on arms, if it counts; None while the verdict can change."""
    if state.word == "running" or verdict.word in ("inconclusive", "invalid"):
        return None
    last = [min(stored.last_ms[name] for name in {arm, control or arm} if name in stored.last_ms) for arm in arms if arm in stored.last_ms]
    return max(last) if last and max(last) < stored.to_ms else None


def with_decision(arms: Arms, variant: str, report: MeasureReport) -> MeasureReport:
    """Return the measure with the verdict and the numbers that were frozen when its arm, or the control, had stopped."""
    code, at_ms = (arms.scales.get(_decision_key(variant, report, number)) for number in ("verdict", "ms"))
    last = [arms.stored.last_ms[arm] for arm in (variant, arms.control or "") if arm in arms.stored.last_ms]
    is_open = report.verdict is None or report.verdict.word == "invalid" or arms.states.of(variant).word == "running"
    if code is None or is_open or arms.stored.scope != SINCE_START or at_ms != min(last, default=None):
        return report
    numbers: dict[str, Any] = {number: arms.scales.get(_decision_key(variant, report, number)) for number in FROZEN_NUMBERS}
    word = next(word for word, number in VERDICT_CODES.items() if number == code)
    measure = next(measure for measure in arms.measures if str(measure) == metric_text(report.metric, report.k))
    words = lift_words(measure, numbers["lift"], arms.control or "")
    return replace(report, **numbers, verdict=Verdict(word, say("{words}; {sure}", words=words, sure=confidence(arms.policy.alpha))))


def new_decisions(report: ExperimentReport, frozen: Mapping[str, float]) -> dict[str, float]:
    """Return what to freeze, by name: the verdicts and numbers of the deciding measures of decided variants, and the time of the last list.

    report: since the start of the experiment. What is frozen for the same time never changes.
    """
    chosen = dict[str, float]()
    for variant in report.variants:
        for measure in variant.measures if variant.decided_ms is not None else ():
            is_certain = measure.paging and measure.verdict is not None and measure.verdict.word in ("regressed", "improved", "safe")
            if not is_certain or frozen.get(_decision_key(variant.variant, measure, "ms")) == variant.decided_ms:
                continue
            numbers: dict[str, Any] = {number: getattr(measure, number) for number in FROZEN_NUMBERS}
            numbers |= {"verdict": measure.verdict and measure.verdict.code, "ms": variant.decided_ms}
            chosen |= {_decision_key(variant.variant, measure, name): float(value) for name, value in numbers.items() if value is not None}
    return chosen


def with_state(verdict: Verdict, state: ExperimentState, decided_ms: int | None) -> Verdict:
    """Return the verdict that also says why nothing new can change it."""
    if state.word == "running":
        return verdict
    said, how = without_advice(verdict.said)
    template = "{said}; {state}" if decided_ms is None else "{said}; decided: {state}"
    told = say(template, said=said, state=state.said)
    return Verdict(verdict.word, say("{told}.{how}", told=told, how=how) if how else told)
