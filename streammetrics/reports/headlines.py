"""What a reader must know first of each experiment and scope, in words: one line for each experiment, the worst first. Pure.

The page draws its overview and its banners from these. They have the verdict with its reason, the lift behind it, what the gate says
beyond the verdict, and what is still needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from streammetrics.experiments import ExperimentReport
from streammetrics.experiments.experiment_report import VariantReport
from streammetrics.experiments.gate import GATE_WORST_FIRST, GateWord, does
from streammetrics.experiments.measures import measure_text
from streammetrics.experiments.needed import needed_sentences, rounded
from streammetrics.experiments.verdict import Word
from streammetrics.experiments.words import Part, Words, join, measure_name, named, parts_of, say
from streammetrics.experiments.worst_first import deciding_measure, judged, others_words, worst_first

NEEDS_MAX: Final = 3
"""The report says what so many undecided variants still need, at most."""
_MEANS: Final[dict[GateWord, str]] = {
    "fail": "stop the rollout",
    "wait": "give it no more traffic yet",
    "pass": "it may get more traffic",
}


@dataclass(frozen=True, slots=True)
class Headline:
    """One experiment in one scope.

    reason: why it has this verdict, the worst treatment first. brief: the same in one line, without numbers.
    variant, metric, k, lift: that treatment, and the measure that decides.
    gate, gate_says: the word of the gate, and what it says beyond the verdict. needs: what undecided treatments still need.
    users: of all variants. multi_exposed_users: users that are excluded because they saw several variants.
    """

    experiment: str
    scope: str
    verdict: Word
    reason: tuple[Part, ...]
    brief: tuple[Part, ...]
    variant: str | None
    metric: str | None
    k: int | None
    lift: float | None
    gate: GateWord | None
    gate_says: tuple[Part, ...]
    needs: tuple[tuple[Part, ...], ...]
    users: int
    multi_exposed_users: int


def headlines(experiments: Iterable[ExperimentReport]) -> tuple[Headline, ...]:
    """Return a headline for each experiment and scope. `needed` must have been added: see `outlook`."""
    return tuple(map(_headline, worst_first(experiments)))


def _headline(experiment: ExperimentReport) -> Headline:
    worst = next(iter(judged(experiment.variants)), None)
    measure = None if worst is None else deciding_measure(worst)
    return Headline(
        experiment=experiment.experiment,
        scope=experiment.scope,
        verdict=experiment.verdict.word,
        reason=experiment.verdict.parts,
        brief=parts_of(_brief(experiment)),
        variant=None if worst is None else worst.variant,
        metric=None if measure is None else measure.metric,
        k=None if measure is None else measure.k,
        lift=None if measure is None else measure.lift,
        gate=None if experiment.gate is None else experiment.gate.word,
        gate_says=parts_of(_gate_words(experiment)),
        needs=tuple(each.parts for each in needed_sentences(experiment)[:NEEDS_MAX]),
        users=sum(each.users for each in experiment.variants),
        multi_exposed_users=experiment.multi_exposed_users,
    )


def _brief(experiment: ExperimentReport) -> str:
    if experiment.verdict.word == "invalid":
        return "the experiment is broken; do not use its numbers"
    found = judged(experiment.variants)
    if not found:
        return "nothing is compared yet"
    first, *others = found
    measure = deciding_measure(first)
    of = measure_name("" if measure is None else measure_text(measure.metric, measure.k))
    said = say("{variant} {measure}", variant=named(first.variant), measure=of)
    return join([said, others_words(others)], "; ") if others else said


def _gate_words(experiment: ExperimentReport) -> str:
    """Return what the gate says beyond its word and the verdict, and the users that it waits for."""
    if experiment.gate is None:
        return ""
    word, decided = experiment.gate.word, [each for each in experiment.variants if each.gate is not None]
    waiting = [each.gate_needed for each in decided if each.gate_needed is not None] if word == "wait" else []
    told: list[str] = [_counted(decided) if len(decided) > 1 else _own_words(experiment)]
    if waiting:
        most = max(each.users for each in waiting)
        told.append(say("it passes after about {users} more users, if there is no difference", users=rounded(most)))
    return join(filter(None, told), "; ")


def _own_words(experiment: ExperimentReport) -> str:
    gate = experiment.gate
    assert gate is not None
    own = gate.parts if gate.own is None else gate.own
    return Words(own) if own and own != experiment.verdict.parts else _MEANS[gate.word]


def _counted(decided: list[VariantReport]) -> Words:
    words = [each.gate.word for each in decided if each.gate is not None]
    counts = {word: words.count(word) for word in GATE_WORST_FIRST if word in words}
    told = [say("{count} {does}", count=count, does=does(word, count)) for word, count in counts.items()]
    return join(told, ", ")
