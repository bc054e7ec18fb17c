"""Scales: the two numbers per measure that fix its boundary. They are chosen once, stored, and never change during a run.

Stored are plain numbers by name, so that they merge with what is frozen already: `ndcg@10` is the standard error of the difference at
the freezing look, and `ndcg@10 control` the control's mean then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from streammetrics.experiments.interleaving import INTERLEAVED
from streammetrics.experiments.measures import Measure, Measures
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.sequence import Mixture
from streammetrics.experiments.stored import Stored
from streammetrics.experiments.strata import Cells


class MeasureScale(NamedTuple):
    """The frozen numbers of one measure.

    tau: the standard error of the difference at the freezing look. control_mean: the control's mean then.
    """

    tau: float
    control_mean: float

    def mixture(self, lift: float) -> Mixture:
        """Return the mixture that detects a relative effect, such as `minimum_lift`."""
        return Mixture(self.tau, lift * self.control_mean)


def scale_of(measure: Measure, frozen: Mapping[str, float]) -> MeasureScale | None:
    """Return a measure's scale among the frozen numbers; None if it is not frozen yet.

    >>> scale_of(Measure("ndcg", 10, "mean", 2, 1, 40), {"ndcg@10": 0.02, "ndcg@10 control": 0.4}).mixture(0.1)
    Mixture(tau=0.02, effect=0.04000000000000001)
    """
    tau = frozen.get(str(measure))
    return None if tau is None else MeasureScale(tau, frozen[f"{measure} control"])


def choose_scales(measures: Measures, policy: Policy, stored: Stored, frozen: Mapping[str, float]) -> dict[str, float]:
    """Return the numbers that can be frozen now, by name, without those in `frozen`. Store them once and never change them.

    stored: since the start of the experiment. A measure's scale is chosen at the first look at which the control and a treatment have
    `min_users` users and pass the floors, in the stages that count for them. All such treatments contribute. It does not depend on their
    difference from the control.
    """
    control = policy.control_of(list(stored.moments))
    if control is None:
        return {}
    cells, chosen = Cells(measures, policy, stored), dict[str, float]()
    for measure in cells.compared_measures:
        if str(measure) not in frozen and (scale := _scale(cells, measure, control)) is not None:
            chosen |= {str(measure): scale.tau, f"{measure} control": scale.control_mean}
    return chosen


def _scale(cells: Cells, measure: Measure, control: str) -> MeasureScale | None:
    """Return the scale of a measure; None while no treatment is ready, or while all means or variances are 0.

    tau is the standard error of a difference, with the mean variance of all arms.
    """
    policy = cells.policy
    treatments = sorted({*cells.stored.moments} - {control, policy.holdout, INTERLEAVED})
    found = [(variant, cells.combined(measure, variant, control)) for variant in treatments]
    ready = [
        each
        for variant, each in found
        if each is not None and min(each.users) >= policy.min_users and each.unmet_floor(policy, measure, variant, control) is None
    ]
    alone = cells.alone(measure, control) if ready else None
    if alone is None:
        return None
    arms = [alone[0], *(each.treatment for each in ready)]
    covariance = math.fsum(each.covariance for each in ready) / len(ready)
    variance = 2 * (math.fsum(each.variance for each in arms)) / len(arms) - 2 * covariance
    return MeasureScale(math.sqrt(variance), arms[0].mean) if 0 < variance < math.inf and any(each.mean > 0 for each in arms) else None
