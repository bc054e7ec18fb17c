"""The answer of the gate: whether the treatments of an experiment may get more traffic, and why. Pure.

`/api/gate/EXPERIMENT` and `streammetrics gate` give this answer. The decision comes from the experiment's report. Here it is bound to
the age of that report: a stale report never passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from streammetrics.errors import StreammetricsError
from streammetrics.experiments import ExperimentReport
from streammetrics.experiments.experiment_report import SINCE_START, VariantReport
from streammetrics.experiments.experiment_state import StateWord
from streammetrics.experiments.gate import GateDecision, GateWord
from streammetrics.experiments.verdict import Verdict
from streammetrics.reports.outlook import needed_words
from streammetrics.reports.verdict_lines import VerdictLine, ends_ms, further_warnings, lines_of, warnings_of
from streammetrics.words.names import fit, in_order


class UnknownExperimentError(StreammetricsError):
    """The report has no such experiment, scope or treatment. The message has those that it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateAnswer:
    """The answer for one experiment and scope.

    variant: the treatment that was asked for; None for all of them.
    step_ms: event time from which on lists are of the running step; None if the treatment's share has never risen.
    gate, reason: the decision on it. `wait` if `stale` has an entry and the numbers would pass.
    stale: why the report must not be acted on, in sentences.
    needed: how many more users and how much more time a decision needs, in words; None if that is unknown or decided.
    control, control_users: the control and its users so far.
    treatments: the verdict line of each, with its own decision.
    users: users so far, of all variants.
    up_to_ms: the event time up to which the numbers are complete, at most `last_ms`; None: unknown.
    state: whether the experiment still gets lists (see `experiment_state`). last_ms: event time of its last list.
    answered_ms: the clock (epoch ms) when the answer was made.
    warnings: sentences about what bends these numbers, then about the whole report.
    """

    experiment: str
    scope: str
    variant: str | None
    gate: GateWord
    reason: str
    verdict: Verdict
    stale: tuple[str, ...]
    needed: str | None
    gate_margin: float | None
    control: str | None
    control_users: int
    users: int
    treatments: tuple[VerdictLine, ...]
    up_to_ms: int | None
    answered_ms: int
    step_ms: int | None = None
    state: StateWord = "running"
    last_ms: int | None = None
    warnings: tuple[str, ...] = ()


def find_experiment(
    experiments: Sequence[ExperimentReport],
    name: str,
    scope: str = SINCE_START,
    stale: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> ExperimentReport:
    """Return the report of an experiment in a scope.

    Raises UnknownExperimentError with the experiments that there are, `stale`, and the warnings of the report.
    """
    for experiment in experiments:
        if (experiment.experiment, experiment.scope) == (name, scope):
            return experiment
    if scopes := sorted({experiment.scope for experiment in experiments if experiment.experiment == name}):
        raise UnknownExperimentError(f"experiment {name!r} has no scope {scope!r}; it has: {', '.join(scopes)}")
    seen = ", ".join(fit(experiment) for experiment in in_order(experiment.experiment for experiment in experiments)) or "none"
    raise UnknownExperimentError("; ".join((f"no experiment {name!r} has final lists yet; experiments seen: {seen}", *stale, *warnings)))


def answer_gate(
    experiment: ExperimentReport,
    variant: str | None = None,
    *,
    stale: Sequence[str] = (),
    up_to_ms: int | None,
    answered_ms: int,
    warnings: Sequence[str] = (),
) -> GateAnswer:
    """Return the answer for one experiment, with its outlook if it has one (see `outlook`).

    Raises UnknownExperimentError if the named variant is no treatment of it.
    """
    decision = _decision(experiment, variant)
    control = next((variant for variant in experiment.variants if variant.variant == experiment.control), None)
    chosen = [arm for arm in experiment.variants if arm.gate is not None and variant in (None, arm.variant)]
    names = {variant.variant for variant in chosen}
    answer = GateAnswer(
        experiment=experiment.experiment,
        scope=experiment.scope,
        variant=variant,
        gate=decision.word,
        reason=decision.reason,
        verdict=experiment.verdict,
        stale=(),
        needed=_needed(experiment, chosen, control) if decision.word == "wait" else None,
        gate_margin=experiment.gate_margin,
        control=experiment.control,
        control_users=0 if control is None else control.users,
        users=sum(variant.users for variant in experiment.variants),
        treatments=tuple(line for line in lines_of(experiment, up_to_ms) if line.gate is not None and line.variant in names),
        up_to_ms=ends_ms(experiment, up_to_ms),
        answered_ms=answered_ms,
        step_ms=experiment.step_ms,
        state=experiment.state.word,
        last_ms=experiment.last_ms,
        warnings=(*map(str, further_warnings(warnings_of(experiment, variant or ""), decision.reason)), *warnings),
    )
    return as_stale(answer, stale) if stale else answer


def as_stale(answer: GateAnswer, reasons: Sequence[str]) -> GateAnswer:
    """Return an answer from numbers that are too old, for these reasons. Nothing in it passes any more; a failure stays one."""
    word: GateWord = "wait"
    treatments = tuple(treatment if treatment.gate == "fail" else replace(treatment, gate=word) for treatment in answer.treatments)
    if answer.gate == "fail":
        return replace(answer, reason="; ".join((answer.reason, *reasons)), stale=(*answer.stale, *reasons), treatments=treatments)
    reason = "; ".join((*reasons, f"the last numbers: {answer.reason}"))
    return replace(answer, gate=word, reason=reason, stale=(*answer.stale, *reasons), needed=None, treatments=treatments)


def _decision(experiment: ExperimentReport, variant: str | None) -> GateDecision:
    if experiment.gate is None:
        return GateDecision("wait", "the report is of a version without a gate")
    if variant is None:
        return experiment.gate
    treatments: Mapping[str, GateDecision] = {variant.variant: variant.gate for variant in experiment.variants if variant.gate is not None}
    if variant in treatments:
        return treatments[variant]
    if experiment.verdict.word == "invalid" and any(arm.variant == variant for arm in experiment.variants):
        return experiment.gate
    names = ", ".join(map(fit, treatments)) or "none"
    role = "the control" if variant == experiment.control else "no treatment"
    raise UnknownExperimentError(f"{variant!r} is {role} of experiment {experiment.experiment!r}; treatments: {names}")


def _needed(experiment: ExperimentReport, chosen: Sequence[VariantReport], control: VariantReport | None) -> str | None:
    """Return what a pass still needs: users for the first look, then the planned number of the slowest treatment; None if unknown."""
    arms = [arm for arm in (control, *chosen) if arm is not None]
    short = {arm.variant: experiment.min_users - arm.users for arm in arms if arm.users < experiment.min_users}
    if short:
        return f"at least {' and '.join(f'{users:,} more users in {fit(name)}' for name, users in short.items())}"
    planned = [variant.gate_needed for variant in chosen if variant.gate_needed is not None]
    if not planned:
        return None
    return needed_words(max(planned, key=lambda needed_users: needed_users.users), "to pass, if there is no difference").removeprefix(
        "needs "
    )
