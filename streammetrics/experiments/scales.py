"""Scales: the two numbers per measure that fix its boundary. They are chosen once, stored, and never change during a run.

Stored are plain numbers by name, so that they merge with what is frozen already: `ndcg@10` is the standard error of the difference at
the freezing look, and `ndcg@10 control` the control's mean then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from streammetrics.experiments.estimates import Estimate, estimate
from streammetrics.experiments.floors import unmet_floor
from streammetrics.experiments.interleaving import INTERLEAVED
from streammetrics.experiments.measures import USERS_AT, Measure, Measures
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.sequence import Mixture


class MeasureScale(NamedTuple):
    """The frozen numbers of one measure.

    tau: the standard error of the difference at the freezing look. control_mean: the control's mean then.
    """

    tau: float
    control_mean: float

    def mixture(self, lift: float) -> Mixture:
        """Return the mixture that detects a relative effect, such as `minimum_lift`."""
        return Mixture(self.tau, lift * self.control_mean)


NO_SCALE: Final = MeasureScale(0.0, 0.0)
"""The scale of a comparison that needs none, because no arm has a spread."""


def scale_of(measure: Measure, frozen: Mapping[str, float]) -> MeasureScale | None:
    """Return a measure's scale among the frozen numbers; None if it is not frozen yet.

    >>> scale_of(Measure("ndcg", 10, "mean", 2, 1, 40), {"ndcg@10": 0.02, "ndcg@10 control": 0.4}).mixture(0.1)
    Mixture(tau=0.02, effect=0.04000000000000001)
    """
    tau = frozen.get(str(measure))
    return None if tau is None else MeasureScale(tau, frozen[f"{measure} control"])


def choose_scales(
    measures: Measures, policy: Policy, moments: Mapping[str, Sequence[int]], frozen: Mapping[str, float]
) -> dict[str, float]:
    """Return the numbers that can be frozen now, by name, without those in `frozen`. Store them once and never change them.

    A measure's scale is chosen at the first look at which the control and a treatment have `min_users` users and pass the floors. All
    such treatments contribute. It does not depend on their difference from the control.
    """
    control = policy.control_of(list(moments))
    if control is None or moments.get(control, (0,))[USERS_AT] < policy.min_users:
        return {}
    apart = (control, policy.holdout, INTERLEAVED)
    treatments = [variant for variant, each in moments.items() if variant not in apart and each[USERS_AT] >= policy.min_users]
    chosen: dict[str, float] = {}
    for measure in measures:
        if str(measure) not in frozen:
            ready = [name for name in treatments if _passes(measures, policy, measure, (name, moments[name]), (control, moments[control]))]
            found = [estimate(measures, measure, moments[name]) for name in (control, *ready)]
            scale = choose_scale([each for each in found if each is not None]) if ready else None
            if scale is not None:
                chosen |= frozen_numbers(measure, scale)
    return chosen


def frozen_numbers(measure: Measure, scale: MeasureScale) -> dict[str, float]:
    """Return the numbers of a scale to store, by name."""
    return {str(measure): scale.tau, f"{measure} control": scale.control_mean}


def choose_scale(estimates: Sequence[Estimate]) -> MeasureScale | None:
    """Return the scale from the estimates of the control (first) and the treatments; None while all means or variances are 0.

    tau is the standard error of a difference, with the mean variance of all arms.

    >>> choose_scale([Estimate(0.4, 0.002, 100), Estimate(0.5, 0.0025, 100)])  # doctest: +ELLIPSIS
    MeasureScale(tau=0.0670..., control_mean=0.4)
    """
    variance = math.fsum(each.variance for each in estimates)
    if not any(each.mean > 0 for each in estimates) or not 0 < variance < math.inf:
        return None
    return MeasureScale(math.sqrt(2 * variance / len(estimates)), estimates[0].mean)


def _passes(
    measures: Measures, policy: Policy, measure: Measure, treatment: tuple[str, Sequence[int]], control: tuple[str, Sequence[int]]
) -> bool:
    return unmet_floor(measures, measure, treatment, control, policy.effective_users_min, policy.hit_users_min) is None
