"""The gate of a rollout: whether a treatment may get more traffic. Verdicts and evidence in; one word and a reason out. Pure.

    pass   every deciding measure is certainly not worse than the control by more than `gate_margin`
    fail   the verdict is `regressed`: certainly worse by more than `margin`
    wait   neither yet, or the numbers must not be used (invalid, mixed)

The statistics are those of the verdict `safe`, with `gate_margin` in the place of `margin`: E_i >= 1/alpha for every deciding measure
(intersection-union test; Berger 1982). It holds at all looks together, with the frozen scales of the measure. A measure whose verdict is
`improved`, or `safe` at a margin of at most `gate_margin`, passes too: both say more.

A drop between `margin` and `gate_margin` may do either: it is tolerated by the gate, and it is a regression. `fail` comes first if both are
certain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from streammetrics.experiments.policy import Policy
from streammetrics.experiments.verdict import MeasureComparison, Verdict, certainty_level, log_evidence_within
from streammetrics.words.numbers import confidence, percent
from streammetrics.words.sentences import Part, Reasoned, advice, join, measure_name, named, say

GateWord: TypeAlias = Literal["pass", "wait", "fail"]

GATE_CODES: Final[Mapping[GateWord, int]] = {"pass": 1, "wait": 0, "fail": -1}
"""Values of the gauge of the gate. Only 1 lets a rollout go on."""

GATE_WORST_FIRST: Final[tuple[GateWord, ...]] = ("fail", "wait", "pass")
_DOES: Final[Mapping[GateWord, str]] = {"fail": "fails", "wait": "waits", "pass": "passes"}


@dataclass(frozen=True, slots=True)
class GateDecision(Reasoned):
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
    >>> [within_gate_margin(Policy(), [each]) for each in alike]
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

    >>> found = without_new_lists(GateDecision("pass", "9 % higher ndcg@10 than control"), "new has had no list since 2026-03-01 12:00 UTC")
    >>> found.word, found.reason
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
