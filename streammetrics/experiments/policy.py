"""What the operator decides about an experiment: errors, margins, limits, shares, control. One frozen value, checked on entry."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from streammetrics.experiments.measures import ExperimentError, Measure, Measures
from streammetrics.experiments.sample_ratio import check_shares

CONTROL_NAMES: Final = ("control", "baseline")
"""Variants that others are compared with by convention, in any case of letters, when none is named; the first one seen counts."""
MAIN_MEASURE: Final = "ndcg@10"
"""What decides about an experiment when nothing is named, as far as it is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules of one experiment.

    alpha: chance that an interval is ever wrong; for alarms it is divided over the `paging` measures and the treatments.
    margin: the relative drop that is tolerated: `regressed` is a certain drop by more, `safe` certainly no drop by more.
    min_users: users that an arm needs before anything is shown. The theorem is about large numbers.
    minimum_lift: the relative effect that one wants to find; it makes the scale of the boundary, once.
    paging: measures whose verdicts decide about the experiment and may wake people, such as `ndcg@10`; none: see `deciding`.
    shares: variants with their parts of the traffic; None: equal among those seen.
    control: the variant that others are compared with; None: by convention.
    cuped_verdict: whether verdicts go by the interval with variance reduction, where there is one; else by the plain one.
    sample_ratio_alpha, multi_exposed_share_max, unmatched_share_max: beyond these an experiment is invalid: p-value of the split below,
        users seen in several variants (and those in variants without a share) by users, feedback that counts for no list by feedback.

    Raises ExperimentError for a value that cannot be meant.
    """

    alpha: float = 0.05
    margin: float = 0.01
    min_users: int = 100
    minimum_lift: float = 0.1
    paging: tuple[str, ...] = ()
    shares: Mapping[str, float] | None = field(default=None, hash=False)
    control: str | None = None
    cuped_verdict: bool = False
    sample_ratio_alpha: float = 0.01
    multi_exposed_share_max: float = 0.01
    unmatched_share_max: float = 0.25

    def __post_init__(self) -> None:
        for name in ("alpha", "sample_ratio_alpha"):
            _check(name, getattr(self, name), 0 < getattr(self, name) < 1, "numbers between 0 and 1")
        _check("margin", self.margin, 0 <= self.margin < 1, "numbers from 0 to below 1")
        _check("min_users", self.min_users, self.min_users >= 2, "whole numbers of 2 or more")
        _check("minimum_lift", self.minimum_lift, 0 < self.minimum_lift < math.inf, "finite numbers above 0")
        for name in ("multi_exposed_share_max", "unmatched_share_max"):
            _check(name, getattr(self, name), 0 <= getattr(self, name) <= 1, "numbers from 0 to 1")
        if self.shares is not None:
            _check("shares", dict(self.shares), len(self.shares) > 1, "shares of two variants or more; leave them out for equal ones")
            check_shares(self.shares)
            if self.control is not None:
                _check("control", self.control, self.control in self.shares, f"one of {', '.join(self.shares)}")

    def deciding(self, measures: Measures) -> Policy:
        """The same with at least one paging measure: where none is named, MAIN_MEASURE, or the first there is where that is not measured.

        One alone, so that it keeps all of alpha: whoever looks at the worst of many is wrong more often.
        """
        main = MAIN_MEASURE if MAIN_MEASURE in measures.names else measures.names[0]
        return self if self.paging else replace(self, paging=(main,))

    def interval_alpha(self, measure: Measure) -> float:
        """The error of a measure's interval: alpha; half of it for the share of users with a hit.

        Users who are counted already may still earn their first hit, so that share has more ways to stray than the theorem knows:
        at a full alpha of 5 % it was ever wrong in 4.8 % of simulated experiments of one kind, which leaves no room.
        """
        return self.alpha / 2 if measure.kind == "users" else self.alpha

    def alarm_alpha(self, measure: Measure) -> float:
        """The error of a verdict: the interval's, for a paging measure divided by their number (Bonferroni) and by that of treatments.

        >>> policy = Policy(paging=("ndcg@10", "mrr@10"), shares={"control": 1, "a": 1, "b": 1})
        >>> policy.alarm_alpha(Measure("ndcg", 10, "mean", 2, 1, 40))
        0.0125
        """
        if str(measure) not in self.paging:
            return self.interval_alpha(measure)
        treatments = 1 if self.shares is None else len(self.shares) - 1
        return self.interval_alpha(measure) / (len(self.paging) * treatments)

    def control_of(self, variants: Collection[str]) -> str | None:
        """The variant that others are compared with: the named one, or one of a conventional name; None when there is none.

        >>> Policy().control_of(["treatment", "Control"])
        'Control'
        """
        if self.control is not None:
            return self.control
        known: list[str] = sorted({*variants, *(self.shares or {})})
        return next((variant for name in CONTROL_NAMES for variant in known if variant.casefold() == name), None)


def _check(name: str, value: object, fine: bool, allowed: str) -> None:
    if not fine:
        raise ExperimentError(name, f"got {value!r}; allowed are {allowed}")
