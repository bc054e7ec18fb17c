"""The gate of a rollout: whether a treatment may get more traffic. Verdicts and evidence in; one word and a reason out. Pure.

    pass   every deciding measure is certainly not worse than the control by more than `gate_margin`
    fail   the verdict is `regressed`: certainly worse by more than `margin`
    wait   neither yet, or the numbers must not be used (invalid, mixed)

The statistics are those of the verdict `safe`, with `gate_margin` in the place of `margin`: E_i >= 1/alpha for every deciding measure
(intersection-union test; Berger 1982). It holds at all looks together, with the frozen scales of the measure. A measure whose verdict is
`improved`, or `safe` at a margin of at most `gate_margin`, passes too: both say more.

A drop between `margin` and `gate_margin` may do either: it is tolerated by the gate, and it is a regression. `fail` comes first if both are
certain.

**The step of a rollout that runs now** is judged alone, too. A ranker that was good at 5 % may break at 25 %, and evidence of earlier steps
says little about it. So a pass needs support from the lists since the step began, and these lists alone may fail.

**Since when?** A tool that makes the step knows it. Otherwise it is found: the latest hour from which on the treatment has a certainly
larger share of those who are assigned than before, by a third or more. These are the new users; or all lists, if users may change their
arm. With ln L of the counts before and since, and of both together,

    ln L(before) + ln L(since) - ln L(both together) >= 8

which is about four standard errors. The search goes on after each step that is found.

**What a pass needs.** `min_users` effective users of each arm in the cells since then, and for each deciding measure the certainty that the
treatment is not worse by `minimum_lift` there: E >= 1/alpha, as for the verdict `safe`, at all looks together. So a step that is worse by
`minimum_lift` or more passes in at most 5 % of rollouts, whatever came before it.

**What fails.** A drop that is certain in the step alone, at a fifth of the error. So a step adds at most 1 % to the error of a failure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from streammetrics.experiments.cell_estimates import PairEstimate
from streammetrics.experiments.experiment_state import lists_per_user
from streammetrics.experiments.hours import Hours
from streammetrics.experiments.measure_words import lift_words
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.stored import StoredSums
from streammetrics.experiments.verdict import MeasureComparison, Verdict, certainty_level, evidence, log_evidence_within
from streammetrics.statistics.measures import Measure, Measures
from streammetrics.statistics.sequence import MeasureScale
from streammetrics.words.numbers import confidence, counted, percent
from streammetrics.words.sentences import Part, ReasonedWord, Words, advice, join, measure_name, named, say
from streammetrics.words.times import HOUR_MS, minute_text

GateWord: TypeAlias = Literal["pass", "wait", "fail"]

GATE_CODES: Final[Mapping[GateWord, int]] = {"pass": 1, "wait": 0, "fail": -1}
"""Values of the gauge of the gate. Only 1 lets a rollout go on."""

GATE_WORST_FIRST: Final[tuple[GateWord, ...]] = ("fail", "wait", "pass")
_DOES: Final[Mapping[GateWord, str]] = {"fail": "fails", "wait": "waits", "pass": "passes"}
STEP_PART: Final = 0.2
"""The part of the error that the step alone has for a failure, beside that of the whole run."""
_RISE_MIN: Final = 4 / 3
"""The least rise of the treatment's share that is a step."""
_LOG_LIKELIHOOD_MIN: Final = 8.0


@dataclass(frozen=True, slots=True)
class GateDecision(ReasonedWord):
    """One word and its reason, as text and in parts. `alone` is the part that the verdict does not say; None: all of it."""

    word: GateWord
    reason: str
    parts: tuple[Part, ...] = field(default=(), repr=False, compare=False)
    alone: tuple[Part, ...] | None = field(default=None, repr=False, compare=False)

    @property
    def code(self) -> int:
        return GATE_CODES[self.word]


class DecidingMeasure(NamedTuple):
    """One deciding measure of a treatment: its name, its verdict, and whether it is within the margin of the gate for certain."""

    name: str
    verdict: Verdict
    is_within: bool


def within_gate_margin(policy: Policy, comparisons: Sequence[MeasureComparison], treatments: int = 1) -> set[str]:
    """Return the measures that are certainly not worse than the control by more than `gate_margin`.

    treatments: the number of treatments that share the error, as in `judge`.

    >>> from streammetrics.statistics.estimates import Estimate
    >>> from streammetrics.statistics.measures import Measure
    >>> from streammetrics.statistics.sequence import MeasureScale
    >>> ndcg, scale = Measure("ndcg", 10, "mean", 2, 1, 40), MeasureScale(0.02, 0.4)
    >>> alike = [MeasureComparison(ndcg, Estimate(0.4, error**2, 9000), Estimate(0.4, error**2, 9000), scale) for error in (0.01, 0.004)]
    >>> [within_gate_margin(Policy(), [measure]) for measure in alike]
    [set(), {'ndcg@10'}]
    """
    margin = policy.gate_margin
    return {
        str(comparison.measure)
        for comparison in comparisons
        if log_evidence_within(comparison, margin) >= certainty_level(policy, comparison.measure, treatments)
    }


def gate_of(policy: Policy, verdict: Verdict | None, deciding: Sequence[DecidingMeasure], against: str) -> GateDecision:
    """Return the decision on one treatment.

    verdict: the treatment's; None while nothing is compared. deciding: its deciding measures that are compared.

    >>> safe = DecidingMeasure("ndcg@10", Verdict("inconclusive", "1 % lower ndcg@10 than control so far"), True)
    >>> gate_of(Policy(paging=("ndcg@10",)), safe.verdict, [safe], "control").reason
    'at most 5 % worse than control in ndcg@10; 95 % confidence, safe to check at any time'
    """
    if verdict is None:
        return GateDecision("wait", "there is nothing to compare yet")
    if verdict.word == "regressed":
        return GateDecision("fail", verdict.said, alone=())
    if verdict.word in ("invalid", "mixed"):
        return GateDecision("wait", verdict.said, alone=())
    by_name = {measure.name: measure for measure in deciding}
    missing = [name for name in policy.paging if name not in by_name]
    if missing:
        return GateDecision("wait", say("{missing} cannot be compared yet", missing=join(map(measure_name, missing), " and ")))
    unsure = [measure for measure in deciding if not _passes(policy, measure)]
    if unsure:
        reason = say("not yet certain that it is at most {margin} worse", margin=percent(policy.gate_margin))
        return GateDecision("wait", join([unsure[0].verdict.said, reason], "; "), alone=reason.parts)
    if verdict.word == "improved":
        return GateDecision("pass", verdict.said, alone=())
    names = join((measure_name(measure.name) for measure in deciding), " and ")
    return GateDecision(
        "pass",
        say(
            "at most {margin} worse than {against} in {names}; {sure}",
            margin=percent(policy.gate_margin),
            against=named(against),
            names=names,
            sure=confidence(policy.alpha),
        ),
    )


def without_step(passes: GateDecision) -> GateDecision:
    """Return a wait in place of a pass: the gate was not given the time at which the running step began.

    >>> without_step(GateDecision("pass", "9 % higher ndcg@10 than control")).reason
    '9 % higher ndcg@10 than control; a pass needs the time at which the running step of the rollout began: give it as since'
    """
    how = ": give it as since"
    reason = say("a pass needs the time at which the running step of the rollout began{how}", how=advice(how))
    return GateDecision("wait", join([passes.said, reason], "; "), alone=reason.parts)


def without_new_lists(decision: GateDecision, state: str) -> GateDecision:
    """Return the decision on a treatment that gets no more lists. Only a failure stays. state: the sentence of that.

    >>> passes = GateDecision("pass", "9 % higher ndcg@10 than control")
    >>> decision = without_new_lists(passes, "new has had no list since 2026-03-01 12:00 UTC")
    >>> decision.word, decision.reason
    ('wait', '9 % higher ndcg@10 than control; new has had no list since 2026-03-01 12:00 UTC: a pass needs new lists')
    """
    if decision.word == "fail":
        return GateDecision("fail", join([decision.said, state], "; "), alone=say("it gets no more lists").parts)
    reason = say("a pass needs new lists")
    return GateDecision("wait", say("{decision}; {state}: {own}", decision=decision.said, state=state, own=reason), alone=reason.parts)


def _passes(policy: Policy, measure: DecidingMeasure) -> bool:
    says_more = measure.verdict.word == "improved" or (measure.verdict.word == "safe" and policy.margin <= policy.gate_margin)
    return measure.is_within or says_more


def does(word: GateWord, count: int) -> str:
    """Return the verb of so many treatments.

    >>> does("pass", 1), does("pass", 2)
    ('passes', 'pass')
    """
    return _DOES[word] if count == 1 else word


def whole_gate(decisions: Mapping[str, GateDecision]) -> GateDecision:
    """Return the decision on several treatments, by name, the worst first: any `fail` fails, and all must pass.

    >>> whole_gate({"a": GateDecision("pass", "fine"), "b": GateDecision("fail", "12 % lower"), "c": GateDecision("wait", "too few")})
    GateDecision(word='fail', reason='b: 12 % lower')
    >>> whole_gate({"a": GateDecision("pass", "fine"), "b": GateDecision("pass", "better")}).reason
    'a: fine; 1 more passes'
    """
    if not decisions:
        return GateDecision("wait", "no treatment to compare yet")
    word = min((decision.word for decision in decisions.values()), key=GATE_WORST_FIRST.index)
    (first, decision), *others = [(name, other_decision) for name, other_decision in decisions.items() if other_decision.word == word]
    said = say("{first}: {reason}", first=named(first), reason=decision.said)
    more = say("{count} more {does}", count=len(others), does=does(word, len(others)))
    return GateDecision(word, join([said, more], "; ") if others else said, alone=decision.alone)


class Step(NamedTuple):
    """The running step: the first hour whose lists are of it, and whether it was named or found."""

    first_hour: int
    is_named: bool


class AssignedCounts(NamedTuple):
    """New users, or lists, of one block of hours: those of the treatment, and those of both arms."""

    first_hour: int
    treatment: int
    both: int


def found_step(blocks: Iterable[AssignedCounts], per_unit: float = 1.0) -> int | None:
    """Return the first hour of the step that runs; None if the share has never risen.

    blocks: in order of time. per_unit: how many of them belong together: 1 for users, and the lists of a user (sum d**2 / sum d) for lists.

    >>> ramp = [AssignedCounts(hour, share, 100) for hour, share in enumerate([5] * 20 + [25] * 20 + [50] * 3)]
    >>> found_step(ramp), found_step(ramp[:39]), found_step(ramp[:19]), found_step(ramp, per_unit=25.0)
    (40, 20, None, 20)
    """
    counted = [block for block in blocks if block.both]
    begin = 0
    while (at := _greatest_rise(counted[begin:], per_unit)) is not None:
        begin += at
    return counted[begin].first_hour if begin else None


def _greatest_rise(blocks: Sequence[AssignedCounts], per_unit: float) -> int | None:
    """Return the number of the block from which on the share is most certainly larger; None if it is not certain."""
    treated, both = (sum(column) for column in zip(*((block.treatment, block.both) for block in blocks), strict=True)) if blocks else (0, 0)
    best, step, before, before_both = _LOG_LIKELIHOOD_MIN * per_unit + _log_likelihood(treated, both), None, 0, 0
    for at, block in enumerate(blocks[:-1], 1):
        before, before_both = before + block.treatment, before_both + block.both
        since, since_both = treated - before, both - before_both
        likelihood = _log_likelihood(before, before_both) + _log_likelihood(since, since_both)
        if since * before_both >= _RISE_MIN * before * since_both and likelihood >= best:
            best, step = likelihood, at
    return step


def _log_likelihood(part: int, whole: int) -> float:
    """Return ln of the greatest likelihood of a share."""
    return sum(count * math.log(count / whole) for count in (part, whole - part) if count)


def step_of(measures: Measures, policy: Policy, stored: StoredSums, treatment: str, control: str) -> int | None:
    """Return the first hour of the running step of two arms; None if the treatment's share has never risen."""
    hours, arms = stored.run_hours, (treatment, control)
    in_both = stored.pairs.get((min(arms), max(arms)))
    if policy.unit == "user" and in_both is None:
        counts = ((block, [row.new_users.get(arm, 0) for arm in arms]) for block, row in sorted(hours.rows.items()))
        return found_step(AssignedCounts(block * hours.length, treated, treated + other) for block, (treated, other) in counts)
    treated, others = (hours.lists(arm) for arm in arms)
    blocks = sorted(treated.keys() | others.keys())
    lists = (AssignedCounts(block * hours.length, treated.get(block, 0), treated.get(block, 0) + others.get(block, 0)) for block in blocks)
    return found_step(lists, lists_per_user(measures, [stored.moments[arm] for arm in arms if arm in stored.moments]))


def hour_since(hours: Hours, since_ms: int) -> int:
    """Return the first hour of the first block that begins at or after a time: earlier blocks have lists of the step before.

    >>> hour_since(Hours(), 3 * HOUR_MS), hour_since(Hours(), 3 * HOUR_MS + 1), hour_since(Hours(4), 3 * HOUR_MS)
    (3, 4, 4)
    """
    block_ms = hours.length * HOUR_MS
    return -(-since_ms // block_ms) * hours.length


class StepMeasure(NamedTuple):
    """One deciding measure in the cells since the step began; `found` is None while it cannot be compared. `scale` is the frozen one."""

    measure: Measure
    combined: PairEstimate | None
    scale: MeasureScale | None

    def comparison(self, policy: Policy, names: tuple[str, str]) -> MeasureComparison | None:
        """Return the comparison in the step; None while it has too few users."""
        combined, scale = self.combined, self.scale
        if combined is None or scale is None or min(combined.effective_users) < policy.min_users:
            return None
        if combined.unmet_floor(policy, self.measure, *names) is not None:
            return None
        return MeasureComparison(self.measure, combined.treatment, combined.control, scale, covariance=combined.covariance)


def step_failure(policy: Policy, measures: Sequence[StepMeasure], names: tuple[str, str], since_ms: int, treatments: int) -> Words | None:
    """Say which measure is certainly worse in the step alone; None if none is. names: of the treatment and the control."""
    level = math.log(treatments * max(1, len(measures)) / (STEP_PART * policy.alpha))
    for measure in measures:
        comparison = measure.comparison(policy, names)
        if comparison is not None and evidence(policy, comparison).drop >= level:
            return say(
                "in the running step, whose lists count from {since} on: {words}; {sure}",
                since=minute_text(since_ms),
                words=lift_words(measure.measure, comparison.lift, names[1]),
                sure=confidence(policy.alpha),
            )
    return None


def unseen_step(policy: Policy, measures: Sequence[StepMeasure], names: tuple[str, str], since_ms: int, treatments: int) -> Words | None:
    """Return why the running step does not support a pass yet; None if it does. names: of the treatment and the control."""
    where = say("in the running step, whose lists count from {since} on,", since=minute_text(since_ms))
    for measure in measures:
        if measure.combined is None or measure.scale is None:
            return say("{where} no lists of {one} and {other} can be compared yet", where=where, one=named(names[0]), other=named(names[1]))
        short = [
            say("{users} of {name}", users=counted(math.ceil(policy.min_users - count), "more user"), name=named(name))
            for name, count in zip(names, measure.combined.effective_users, strict=True)
            if count < policy.min_users
        ]
        if short:
            return say("{where} about {short} are needed", where=where, short=join(short, " and "))
        comparison = measure.comparison(policy, names)
        level = certainty_level(policy, measure.measure, treatments)
        if comparison is None or log_evidence_within(comparison, policy.minimum_lift) < level:
            in_step = MeasureComparison(measure.measure, measure.combined.treatment, measure.combined.control, measure.scale)
            return say(
                "{where} {words} so far; it may still be worse by {least}",
                where=where,
                words=lift_words(measure.measure, in_step.lift, names[1]),
                least=percent(policy.minimum_lift),
            )
    return None
