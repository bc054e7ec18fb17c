"""What a pass needs of the stage that runs now, so that a step is never let through unseen. Cells in, a reason in words out. Pure.

Evidence of earlier stages says little about a step whose ranker broke in it. So a pass needs, beside the evidence of all stages together,
`min_users` users of both arms in the running stage, and for each deciding measure a lower bound of the lift there above -minimum_lift:

    (m_t - (1 - minimum_lift) m_c) / sqrt(V_t + (1 - minimum_lift)**2 V_c) >= 1.28

This is the bound of 90 % for a single look, on purpose. The error of a pass at all looks is that of all stages together. The bound only
asks that the running stage does not contradict it. For a measure that gets better when it falls, signs are the opposite.
"""

from __future__ import annotations

import math
from typing import Final

from streammetrics.experiments.estimates import z_value
from streammetrics.experiments.measures import Measure
from streammetrics.experiments.strata import Cells, Combined, StageCounts
from streammetrics.experiments.words import counted_words, join, lift_words, named, percent, say

BOUND_Z: Final = 1.2815515655446004
"""The one-sided bound of 90 % at a single look, in standard errors."""


def unseen_stage(cells: Cells, variant: str, control: str) -> str | None:
    """Return why the running stage does not support a pass yet; None if it does."""
    stage = cells.running
    if stage is None:
        return "no stage has begun"
    where = say("in stage {stage}, which runs now,", stage=named(stage.stage.name))
    if short := _missing_users(cells, stage, variant, control):
        return say("{where} {short}", where=where, short=short)
    for name in cells.policy.paging:
        measure = next((each for each in cells.measures if str(each) == name), None)
        found = None if measure is None else cells.combined(measure, variant, control, stage)
        if measure is None or found is None:
            return say("{where} {name} cannot be compared yet", where=where, name=named(name))
        if not is_near(measure, found, cells.policy.minimum_lift):
            words = lift_words(measure, _lift(found), control)
            return say(
                "{where} {words} so far; it may still be worse by {least}",
                where=where,
                words=words,
                least=percent(cells.policy.minimum_lift),
            )
    return None


def _missing_users(cells: Cells, stage: StageCounts, variant: str, control: str) -> str | None:
    least = cells.policy.min_users
    short = {name: least - stage.users(name) for name in (control, variant) if stage.users(name) < least}
    if not short:
        return None
    more = join(
        (say("{users} of {name}", users=counted_words(users, "more user"), name=named(name)) for name, users in short.items()), " and "
    )
    return say("{more} {are} needed", more=more, are="is" if [*short.values()] == [1] else "are")


def is_near(measure: Measure, found: Combined, lift: float) -> bool:
    """Whether a treatment is not worse by `lift`, by the lower bound at this look. Without a spread, its mean must say so.

    >>> from streammetrics.experiments.estimates import Estimate
    >>> from streammetrics.experiments.floors import EventUsers
    >>> hits = Measure("hit_rate", 10, "mean", 2, 1, 40)
    >>> control = Estimate(0.30, 0.0003, 750)
    >>> arms = [Estimate(mean, 0.0004, 250) for mean in (0.0, 0.28, 0.31)]
    >>> [is_near(hits, Combined(arm, control, 0.0, (250.0, 750.0), EventUsers(56.0, 200.0)), 0.1) for arm in arms]
    [False, False, True]
    """
    ratio, sign = (1 + lift, -1.0) if measure.lower_is_better else (1 - lift, 1.0)
    z = z_value(found.treatment, found.control, ratio, found.covariance)
    if z is None:
        return sign * (found.treatment.mean - ratio * found.control.mean) > 0 and math.isfinite(found.control.variance)
    return sign * z >= BOUND_Z


def _lift(found: Combined) -> float | None:
    return found.treatment.mean / found.control.mean - 1 if found.control.mean > 0 else None
