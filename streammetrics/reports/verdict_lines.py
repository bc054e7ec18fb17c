"""The verdict line and the answer of the gate: what is decided about an experiment or a variant, why, and the numbers behind it. Pure.

It is made here only. `/api/report` and its page, the answer of the gate, the results topic and the tables of notebooks have it.
`/api/gate/EXPERIMENT` and `streammetrics gate` give the gate's answer. It comes from the experiment's report, and is bound to the age of
that report: a stale report never passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from streammetrics.errors import StreammetricsError
from streammetrics.experiments import ExperimentReport
from streammetrics.experiments.experiment_report import SINCE_START, VariantReport, deciding_measure, judged, worst_first
from streammetrics.experiments.experiment_state import StateWord
from streammetrics.experiments.gate import GATE_WORST_FIRST, GateDecision, GateWord, does
from streammetrics.experiments.verdict import Verdict, Word
from streammetrics.reports.outlook import needed_sentences, needed_words, rounded
from streammetrics.reports.report import Report
from streammetrics.words.names import fit, in_order
from streammetrics.words.sentences import DataWarning, Part, Words, join, parts_of, say

NEEDS_MAX: Final = 3
"""The line of a whole experiment says what so many undecided variants still need, at most."""
_MEANS: Final[dict[GateWord, str]] = {
    "fail": "stop the rollout; the verdict stays",
    "wait": "give it no more traffic yet",
    "pass": "it may get more traffic",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictLine:
    """The verdict on a variant, or on a whole experiment (empty `variant`), in one scope.

    verdict, reason, parts: the verdict with its reason, as text and in parts; None and empty while a treatment is not compared yet.
    treatment, metric, k, lift, lift_lower, lift_upper: the measure that decides, and the treatment that it is of. That of a whole
        experiment is the worst one.
    gate, gate_reason: the decision of the gate; None and empty without one. gate_parts: what of it the verdict does not say.
    needed: what undecided treatments still need until a verdict.
    warnings: what bends the numbers of this variant, or withholds its verdict. The line of a whole experiment has those of all variants.
    users: of the variant, or of all of them.
    since_ms: the event time at which the run of the experiment, or this day of it, began. last_ms: that of the experiment's last list.
    up_to_ms: that up to which lists count, at most `last_ms`.
    state: whether new lists can change it (see `experiment_state`).
    decided_ms: event time of the last list of a certain verdict that nothing new changes; None while it can change.
    """

    experiment: str
    scope: str
    variant: str
    verdict: Word | None
    reason: str
    parts: tuple[Part, ...]
    treatment: str | None
    metric: str | None
    k: int | None
    lift: float | None
    lift_lower: float | None
    lift_upper: float | None
    gate: GateWord | None
    gate_reason: str
    gate_parts: tuple[Part, ...]
    needed: tuple[tuple[Part, ...], ...]
    warnings: tuple[DataWarning, ...]
    users: int
    since_ms: int | None
    up_to_ms: int | None
    state: StateWord = "running"
    last_ms: int | None = None
    decided_ms: int | None = None

    @property
    def about(self) -> tuple[str, str, str]:
        """The experiment, the scope and the variant."""
        return self.experiment, self.scope, self.variant


def verdict_lines(experiments: Iterable[ExperimentReport], up_to_ms: int | None) -> tuple[VerdictLine, ...]:
    """Return the lines of all experiments, worst first: the whole one, then its treatments. For `needed` see `outlook`."""
    return tuple(line for experiment in worst_first(experiments) for line in lines_of(experiment, up_to_ms))


def lines_of(experiment: ExperimentReport, up_to_ms: int | None) -> Iterator[VerdictLine]:
    """Yield the line of the whole experiment, and those of its treatments with a verdict or a gate, worst first."""
    compared = judged(experiment.variants)
    worst = next(iter(compared), None)
    yield _line(experiment, up_to_ms, "", experiment.verdict, experiment.gate, worst)
    for variant in (*compared, *(variant for variant in experiment.variants if variant.verdict is None and variant.gate is not None)):
        yield _line(experiment, up_to_ms, variant.variant, variant.verdict, variant.gate, variant)


def _line(
    experiment: ExperimentReport,
    up_to_ms: int | None,
    variant: str,
    verdict: Verdict | None,
    gate: GateDecision | None,
    of: VariantReport | None,
) -> VerdictLine:
    measure = None if of is None else deciding_measure(of)
    arms = tuple(arm for arm in experiment.variants if variant in ("", arm.variant))
    about = of if variant and of is not None else experiment
    return VerdictLine(
        experiment=experiment.experiment,
        scope=experiment.scope,
        variant=variant,
        verdict=None if verdict is None else verdict.word,
        reason="" if verdict is None else verdict.reason,
        parts=() if verdict is None else verdict.parts,
        treatment=None if of is None else of.variant,
        metric=None if measure is None else measure.metric,
        k=None if measure is None else measure.k,
        lift=None if measure is None else measure.lift,
        lift_lower=None if measure is None else measure.lift_lower,
        lift_upper=None if measure is None else measure.lift_upper,
        gate=None if gate is None else gate.word,
        gate_reason="" if gate is None else gate.reason,
        gate_parts=() if gate is None else parts_of(_gate_words(gate, verdict, [arm for arm in arms if arm.gate is not None])),
        needed=tuple(sentence.parts for sentence in needed_sentences(replace(experiment, variants=arms))[:NEEDS_MAX]),
        warnings=warnings_of(experiment, variant),
        users=sum(arm.users for arm in arms),
        since_ms=experiment.from_ms,
        up_to_ms=ends_ms(experiment, up_to_ms),
        state=about.state.word,
        last_ms=experiment.last_ms,
        decided_ms=about.decided_ms,
    )


def warnings_of(experiment: ExperimentReport, variant: str = "") -> tuple[DataWarning, ...]:
    """Return the warnings about a variant, with those about all; without a variant, all of an experiment."""
    return tuple(warning for warning in experiment.warnings if not variant or warning.variant in ("", variant))


def further_warnings(warnings: Iterable[DataWarning], reason: str) -> list[DataWarning]:
    """Return what the warnings say that the reason of a verdict does not say already, for readers of both. `banner.js` has the same rule.

    Of a warning that the reason has without the names in front of it, the fix is left.

    >>> changed = DataWarning("effect changed", "new on mrr@10: the effect has changed: 2 % lower, 9 % higher since", "set start")
    >>> for reason in ("new: 7 % higher", "new: 7 % higher; the effect has changed: 2 % lower, 9 % higher since"):
    ...     print(*further_warnings([changed], reason))
    new on mrr@10: the effect has changed: 2 % lower, 9 % higher since. Set start.
    Set start
    """
    further = list[DataWarning]()
    for warning in warnings:
        _, _, unnamed = warning.text.partition(": ")
        if unnamed and unnamed in reason and warning.text not in reason and warning.fix:
            further.append(DataWarning(warning.key, f"{warning.fix[:1].upper()}{warning.fix[1:]}", variant=warning.variant))
        elif warning.text not in reason:
            further.append(warning)
    return further


def ends_ms(experiment: ExperimentReport, up_to_ms: int | None) -> int | None:
    """Return the event time up to which an experiment's numbers go: that of its last list, if other traffic goes on."""
    return up_to_ms if up_to_ms is None or experiment.last_ms is None else min(up_to_ms, experiment.last_ms)


def _gate_words(gate: GateDecision, verdict: Verdict | None, decided: list[VariantReport]) -> str:
    """Return what the gate says beyond its word and the verdict, and the users that it waits for."""
    reason = gate.parts if gate.alone is None else gate.alone
    alone = Words(reason) if reason and (verdict is None or reason != verdict.parts) else _MEANS[gate.word]
    waiting = [variant.gate_needed.users for variant in decided if variant.gate_needed is not None] if gate.word == "wait" else []
    told: list[str] = [_counted(decided) if len(decided) > 1 else alone]
    if waiting:
        told.append(say("it passes after about {users} more users, if there is no difference", users=rounded(max(waiting))))
    return join(filter(None, told), "; ")


def _counted(decided: list[VariantReport]) -> Words:
    words = [variant.gate.word for variant in decided if variant.gate is not None]
    counts = {word: words.count(word) for word in GATE_WORST_FIRST if word in words}
    return join((say("{count} {does}", count=count, does=does(word, count)) for word, count in counts.items()), ", ")


class ChangedVerdicts:
    """Finds the lines since the start that are new, were decided, or whose verdict or warnings have changed since the last report."""

    def __init__(self) -> None:
        self._verdicts: dict[tuple[str, str, str], object] = {}

    def of(self, report: Report) -> list[VerdictLine]:
        """Return the changed lines of the next report."""
        if report.entered_ms is None:
            return []
        since_start = [experiment for experiment in report.experiments if experiment.scope == SINCE_START]
        lines = [line for line in verdict_lines(since_start, report.entered_ms) if line.verdict is not None]
        before, self._verdicts = self._verdicts, {line.about: (line.verdict, line.decided_ms, _warned(line)) for line in lines}
        return [line for line in lines if before.get(line.about) != self._verdicts[line.about]]


def _warned(line: VerdictLine) -> list[tuple[str, str]]:
    return [(warning.key, warning.variant) for warning in line.warnings]


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
    reasons = (f"no experiment {name!r} has final lists yet; experiments with final lists: {seen}", *stale, *warnings)
    raise UnknownExperimentError("; ".join(reason.removesuffix(".") for reason in reasons))


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
