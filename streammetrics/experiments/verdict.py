"""Comparisons -> verdicts: one word for alerts, with its reason in plain words. Pure.

With the tolerated drop `margin`, a measure of a variant is

    regressed     certainly worse than the control by more than the margin
    safe          certainly not worse by more than the margin
    improved      certainly better than the control (and so safe)
    mixed         certain, and another measure is certain of the opposite
    inconclusive  none of these yet
    invalid       the experiment itself is broken: do not read its numbers

"Certainly" is one-sided, with the policy's error over all looks together. A verdict describes the current numbers, so it can change.

**Several deciding measures** share the error by a closed test with e-values. Measure i is certain when E_i, and for each number of
other deciding measures the mean of E_i and their smallest values, reach 1/alpha. For two: E_i >= 1/alpha and (E_1 + E_2)/2 >= 1/alpha. A
mean of e-values is an e-value under any dependence (Vovk, Wang 2021, "E-values: calibration, combination and applications"), so this is
a closed test (Marcus, Peritz, Gabriel 1976). It is never later than Bonferroni. `safe` needs every deciding measure at the full error
(intersection-union test; Berger 1982).

**If an arm was silent** for hours, each evidence is the smaller one of two estimates (see `experiment_state`).

**If the effect has changed** for certain (see `effect_change`), all lists together are a mixture of two effects. Then `improved` and `safe`
need the same evidence in the lists since the change alone, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from streammetrics.experiments.cell_estimates import ChangedEffect
from streammetrics.experiments.health import Health
from streammetrics.experiments.measure_words import change_words, interval_words, lift_words, means_words
from streammetrics.experiments.policy import Policy
from streammetrics.metrics.names import metric_text, split_metric
from streammetrics.metrics.records import METRICS
from streammetrics.statistics.estimates import Estimate, Interval, log_evidence_above, log_evidence_below
from streammetrics.statistics.measures import Measure
from streammetrics.statistics.sequence import MeasureScale, Mixture
from streammetrics.words.numbers import confidence, percent
from streammetrics.words.sentences import Part, ReasonedWord, Words, join, named, say
from streammetrics.words.times import HOUR_MS

Word: TypeAlias = Literal["regressed", "safe", "improved", "inconclusive", "mixed", "invalid"]

VERDICT_CODES: Final[Mapping[Word, int]] = {"mixed": -3, "invalid": -2, "regressed": -1, "inconclusive": 0, "safe": 1, "improved": 2}
"""Values of the verdict gauge. Alert on == -1, and separately on == -2 and == -3. Only values above 0 are good news."""

WORST_FIRST: Final[tuple[Word, ...]] = ("invalid", "regressed", "mixed", "inconclusive", "safe", "improved")
"""The order in which verdicts of several variants are combined."""

GAINS: Final = {name: record.plain_gain for name, record in METRICS.items() if record.plain_gain}
"""Normalised metrics and the plain gain each is checked against. A normalised gain can fall while the gain itself rises (Jeunen,
Potapov, Ustimenko 2024, "On (Normalised) Discounted Cumulative Gain as an Off-Policy Evaluation Metric for Top-n Recommendation")."""

_ALIKE: Final = "the users of an arm all have the same value, so no confidence can be given"
"""The reason when the variance is 0."""


@dataclass(frozen=True, slots=True)
class Verdict(ReasonedWord):
    """One word and its reason, as text and in parts."""

    word: Word
    reason: str
    parts: tuple[Part, ...] = field(default=(), repr=False, compare=False)

    @property
    def code(self) -> int:
        return VERDICT_CODES[self.word]


class MeasureComparison(NamedTuple):
    """One measure of a treatment against the control, with enough users.

    `interval` is the lift's, and `difference` that of the difference, for the reason only. `covariance` is that of the two means.
    `by_hour`: the same in cells of the hour alone; None unless an arm was silent for hours. `change`: the certain change of the effect.
    """

    measure: Measure
    treatment: Estimate
    control: Estimate
    scale: MeasureScale
    interval: Interval | None = None
    covariance: float = 0.0
    by_hour: MeasureComparison | None = None
    difference: Interval | None = None
    change: ChangedEffect | None = None

    @property
    def since_change(self) -> MeasureComparison | None:
        """The same in the lists since the change; None without one."""
        since = None if self.change is None else self.change.since
        return since and MeasureComparison(self.measure, since.treatment, since.control, self.scale)

    @property
    def lift(self) -> float | None:
        return self.treatment.mean / self.control.mean - 1 if self.control.mean > 0 else None


class Evidence(NamedTuple):
    """ln E of one comparison: of a drop beyond the margin, of a rise, and of no drop beyond the margin."""

    drop: float
    rise: float
    safe: float


def evidence(policy: Policy, comparison: MeasureComparison) -> Evidence:
    """Return the evidence of one comparison. Each direction detects its own effect.

    A drop beyond the margin detects `minimum_lift` less the margin (at least half of `minimum_lift`). `safe` detects the margin itself:
    the true effect is 0, which is `margin` above the boundary.
    """
    lift, margin = policy.minimum_lift, policy.margin
    rise = _log_evidence(comparison, 0.0, comparison.scale.mixture(lift), better=True)
    return Evidence(
        drop=_log_evidence(comparison, margin, comparison.scale.mixture(max(lift - margin, lift / 2)), better=False),
        rise=rise,
        safe=log_evidence_within(comparison, margin) if margin else rise,
    )


def log_evidence_within(comparison: MeasureComparison, margin: float) -> float:
    """Return ln E of "the treatment is not worse by more than the margin". It detects an effect of the margin's size."""
    return _log_evidence(comparison, margin, comparison.scale.mixture(margin), better=True)


def _log_evidence(comparison: MeasureComparison, margin: float, mixture: Mixture, *, better: bool) -> float:
    """Return ln E of a treatment that is better, or worse, than the control made worse by the margin."""
    lower = comparison.measure.lower_is_better
    lift = margin if lower else -margin
    find = log_evidence_above if better != lower else log_evidence_below
    evidence_found = find(comparison.treatment, comparison.control, lift, mixture, comparison.covariance)
    others = (comparison.by_hour, comparison.since_change if better else None)
    return min([evidence_found, *(_log_evidence(other, margin, mixture, better=better) for other in others if other is not None)])


def judge(
    policy: Policy,
    comparisons: Sequence[MeasureComparison],
    treatments: int = 1,
    against: str = "control",
    doubtful: Mapping[str, str] | None = None,
) -> dict[str, Verdict]:
    """Return the verdict on each measure of one variant, by name.

    comparisons: all measures that can be compared. treatments: the number of treatments that share the error of deciding measures.
    doubtful: measures that are not called improved or safe, with the reason.

    >>> hits = Measure("hit_rate", 10, "mean", 2, 1, 40)
    >>> hits = MeasureComparison(hits, Estimate(0.352, 1e-5, 9000), Estimate(0.4, 1e-5, 9000), MeasureScale(0.02, 0.4))
    >>> judge(Policy(), [hits])["hit_rate@10"].reason
    '12 % fewer lists with a hit in the first 10 than control; 95 % confidence, safe to check at any time'
    """
    evidences = {str(comparison.measure): evidence(policy, comparison) for comparison in comparisons}
    levels = {str(comparison.measure): certainty_level(policy, comparison.measure, treatments) for comparison in comparisons}
    certain = {
        "drop": _certain(policy, {name: measured.drop - levels[name] for name, measured in evidences.items()}),
        "rise": _certain(policy, {name: measured.rise - levels[name] for name, measured in evidences.items()}),
    }
    verdicts = {}
    for comparison in comparisons:
        name = str(comparison.measure)
        words, sure, doubt = _lift_words(comparison, against), confidence(policy.alpha), (doubtful or {}).get(name)
        word: Word = "inconclusive"
        if name in certain["drop"]:
            word, said = "regressed", [words, sure]
        elif doubt is not None:
            said = [say("{words} so far", words=words), say("{doubt}, so a rise means nothing", doubt=doubt)]
        elif name in certain["rise"]:
            word, said = "improved", [words, sure]
        elif evidences[name].safe >= levels[name]:
            word, said = "safe", [words, say("at most {margin} worse", margin=percent(policy.margin)), sure]
        else:
            said = [
                say("{words} so far", words=words),
                *([] if comparison.change else [interval_words(comparison.measure, comparison.interval)]),
            ]
        verdicts[name] = Verdict(word, join([*said, *_change_words(comparison)], "; "))
    return verdicts | _contradictions(policy, comparisons, verdicts, against)


def certainty_level(policy: Policy, measure: Measure, treatments: int) -> float:
    """Return the ln E at which a measure alone is certain. Treatments share the error of deciding measures only."""
    return -math.log(policy.alpha) + (math.log(treatments) if str(measure) in policy.paging else 0.0)


def _certain(policy: Policy, excess: Mapping[str, float]) -> set[str]:
    """Return the names that are certain, from ln E less the level of each. Deciding measures share the error by the closed test.

    A deciding measure without a comparison counts as E = 0, which is never too early.
    """
    deciding = {name: excess.get(name, -math.inf) for name in policy.paging}
    certain = {name for name, value in excess.items() if value >= 0 and name not in deciding}
    for name, value in deciding.items():
        others = sorted(other for name_of, other in deciding.items() if name_of != name)
        if value >= 0 and all(_log_mean([value, *others[:count]]) >= 0 for count in range(len(others) + 1)):
            certain.add(name)
    return certain


def _log_mean(logs: Sequence[float]) -> float:
    return _log_sum(logs) - math.log(len(logs))


def _log_sum(logs: Sequence[float]) -> float:
    high = max(logs)
    return high if math.isinf(high) else high + math.log(math.fsum(math.exp(log_evidence - high) for log_evidence in logs))


def _contradictions(
    policy: Policy, comparisons: Sequence[MeasureComparison], verdicts: Mapping[str, Verdict], against: str
) -> dict[str, Verdict]:
    """Return `mixed` for each measure that contradicts another: two deciding measures, or a deciding one and its plain gain."""
    by_name = {str(comparison.measure): comparison for comparison in comparisons}
    mixed: dict[str, Verdict] = {}
    for one, other in _pairs(policy, {name: comparison.measure for name, comparison in by_name.items()}):
        if {verdicts[one].word, verdicts[other].word} == {"regressed", "improved"}:
            down, up = (one, other) if verdicts[one].word == "regressed" else (other, one)
            reason = say(
                "{down}, but {up}; {sure}; the measures contradict each other: choose which one counts",
                down=_lift_words(by_name[down], against),
                up=_lift_words(by_name[up], against),
                sure=confidence(policy.alpha),
            )
            mixed |= {name: Verdict("mixed", reason) for name in (one, other) if name not in mixed}
    if mixed:  # no deciding measure of this variant may page as a regression
        reason = next(iter(mixed.values())).said
        mixed |= {
            name: Verdict("mixed", say("{words}; also {reason}", words=_lift_words(by_name[name], against), reason=reason))
            for name in policy.paging
            if name not in mixed and name in verdicts and verdicts[name].word == "regressed"
        }
    return mixed


def _change_words(comparison: MeasureComparison) -> list[Words]:
    """Return the sentence about the change of the effect; empty without one."""
    if comparison.change is None:
        return []
    return [
        change_words(
            comparison.measure, comparison.change.lift_before, comparison.change.lift_since, comparison.change.since.first * HOUR_MS
        )
    ]


def _lift_words(comparison: MeasureComparison, against: str) -> Words:
    """Describe the lift; both means if there is no lift."""
    if comparison.lift is not None:
        return lift_words(comparison.measure, comparison.lift, against)
    return means_words(comparison.measure, (comparison.treatment.mean, comparison.control.mean), comparison.difference, against)


def needed_by_verdicts(policy: Policy) -> set[str]:
    """Return the names of the deciding measures, and of the plain gains that may contradict them."""
    return {*policy.paging, *(GAINS[name] + cutoff for name, cutoff in map(split_metric, policy.paging) if name in GAINS)}


def _pairs(policy: Policy, measures: Mapping[str, Measure]) -> Iterator[tuple[str, str]]:
    deciding = [name for name in policy.paging if name in measures]
    for at, one in enumerate(deciding):
        yield from ((one, other) for other in deciding[at + 1 :])
        gain = metric_text(GAINS.get(measures[one].name, ""), measures[one].k)
        if gain in measures and gain not in deciding:
            yield one, gain


def combined(verdicts: Sequence[Verdict]) -> Verdict:
    """Return a variant's verdict from those of its deciding measures, at least one.

    mixed if two contradict; else regressed if any is; improved if one is and the others are at least safe; else the worst.

    >>> combined([Verdict("improved", "more clicks"), Verdict("inconclusive", "ndcg unknown so far")])
    Verdict(word='inconclusive', reason='more clicks; but ndcg unknown so far')
    """
    words = {verdict.word for verdict in verdicts}
    for word in ("invalid", "mixed", "regressed"):
        if word in words:
            return next(verdict for verdict in verdicts if verdict.word == word)
    rises = [verdict for verdict in verdicts if verdict.word == "improved"]
    if rises and words <= {"improved", "safe"}:
        return rises[0]
    worst = min(verdicts, key=severity)
    return Verdict(worst.word, say("{rise}; but {worst}", rise=rises[0].said, worst=worst.said)) if rises else worst


def severity(verdict: Verdict) -> int:
    """Return the place of a verdict in WORST_FIRST."""
    return WORST_FIRST.index(verdict.word)


def alike(measure: Measure, means: tuple[float, float], against: str) -> Verdict:
    """Return the verdict on a measure without variance, from the means of the treatment and the control."""
    return Verdict("inconclusive", say("{words} so far; {alike}", words=means_words(measure, means, None, against), alike=_ALIKE))


def invalid(state: Health) -> Verdict:
    """Return the verdict on everything in a broken experiment."""
    return Verdict("invalid", join(state.troubles, "; "))


def waiting(policy: Policy, users: Mapping[str, int]) -> Verdict:
    """Return the verdict while some arm has too few users."""
    few = [
        say("{variant} has {count:,}", variant=variant if isinstance(variant, Words) else named(variant), count=count)
        for variant, count in users.items()
        if count < policy.min_users
    ]
    said = say("each arm needs at least {least:,} users: {few}", least=policy.min_users, few=join(few, ", "))
    return Verdict("inconclusive", said)
