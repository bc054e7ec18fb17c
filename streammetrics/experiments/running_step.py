"""The step of a rollout that runs now: since when it runs, and what it alone says about a treatment. Pure.

A ranker that was good at 5 % may break at 25 %, and evidence of earlier steps says little about it. So a pass needs support from the
lists since the step began, and these lists alone may fail.

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
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from streammetrics.experiments.cell_estimates import Combined
from streammetrics.experiments.hours import HOUR_MS, Hours
from streammetrics.experiments.measure_words import lift_words
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.silent_arms import lists_per_user
from streammetrics.experiments.stored import Stored
from streammetrics.experiments.verdict import MeasureComparison, certainty_level, evidence, log_evidence_within
from streammetrics.statistics.measures import Measure, Measures
from streammetrics.statistics.sequence import MeasureScale
from streammetrics.words.numbers import confidence, counted, percent
from streammetrics.words.sentences import Words, join, named, say
from streammetrics.words.times import minute_text

STEP_PART: Final = 0.2
"""The part of the error that the step alone has for a failure, beside that of the whole run."""
_RISE_MIN: Final = 4 / 3
"""The least rise of the treatment's share that is a step."""
_LOG_LIKELIHOOD_MIN: Final = 8.0


class Step(NamedTuple):
    """The running step: the first hour whose lists are of it, and whether it was named or found."""

    first_hour: int
    is_named: bool


class Assigned(NamedTuple):
    """New users, or lists, of one block of hours: those of the treatment, and those of both arms."""

    first_hour: int
    treatment: int
    both: int


def found_step(blocks: Iterable[Assigned], per_unit: float = 1.0) -> int | None:
    """Return the first hour of the step that runs; None if the share has never risen.

    blocks: in order of time. per_unit: how many of them belong together: 1 for users, and the lists of a user (sum d**2 / sum d) for lists.

    >>> ramp = [Assigned(hour, share, 100) for hour, share in enumerate([5] * 20 + [25] * 20 + [50] * 3)]
    >>> found_step(ramp), found_step(ramp[:39]), found_step(ramp[:19]), found_step(ramp, per_unit=25.0)
    (40, 20, None, 20)
    """
    counted = [block for block in blocks if block.both]
    begin = 0
    while (at := _greatest_rise(counted[begin:], per_unit)) is not None:
        begin += at
    return counted[begin].first_hour if begin else None


def _greatest_rise(blocks: Sequence[Assigned], per_unit: float) -> int | None:
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


def step_of(measures: Measures, policy: Policy, stored: Stored, treatment: str, control: str) -> int | None:
    """Return the first hour of the running step of two arms; None if the treatment's share has never risen."""
    hours, arms = stored.run_hours, (treatment, control)
    in_both = stored.pairs.get((min(arms), max(arms)))
    if policy.unit == "user" and in_both is None:
        counts = ((block, [row.new_users.get(arm, 0) for arm in arms]) for block, row in sorted(hours.rows.items()))
        return found_step(Assigned(block * hours.length, treated, treated + other) for block, (treated, other) in counts)
    treated, others = (hours.lists(arm) for arm in arms)
    blocks = sorted(treated.keys() | others.keys())
    lists = (Assigned(block * hours.length, treated.get(block, 0), treated.get(block, 0) + others.get(block, 0)) for block in blocks)
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
    combined: Combined | None
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
                "since {since}, when the running step began: {words}; {sure}",
                since=minute_text(since_ms),
                words=lift_words(measure.measure, comparison.lift, names[1]),
                sure=confidence(policy.alpha),
            )
    return None


def unseen_step(policy: Policy, measures: Sequence[StepMeasure], names: tuple[str, str], since_ms: int, treatments: int) -> Words | None:
    """Return why the running step does not support a pass yet; None if it does. names: of the treatment and the control."""
    where = say("since {since}, when the running step began,", since=minute_text(since_ms))
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
