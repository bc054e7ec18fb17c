"""Scales: the two numbers per measure that fix its boundary. They are chosen once, stored, and never change during a run.

Stored are plain numbers by name, so that they merge with what is frozen already: `ndcg@10` is the standard error of the difference at
the freezing look, and `ndcg@10 control` the control's mean then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from streammetrics.experiments.measures import Measure
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


def scale_of(measure: Measure, frozen: Mapping[str, float]) -> MeasureScale | None:
    """Return a measure's scale among the frozen numbers; None if it is not frozen yet.

    >>> scale_of(Measure("ndcg", 10, "mean", 2, 1, 40), {"ndcg@10": 0.02, "ndcg@10 control": 0.4}).mixture(0.1)
    Mixture(tau=0.02, effect=0.04000000000000001)
    """
    tau = frozen.get(str(measure))
    return None if tau is None else MeasureScale(tau, frozen[f"{measure} control"])
