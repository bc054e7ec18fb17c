"""Why do two variants differ? Contributions to the difference of two means by segment value and by rank. Exact; integers in. Pure.

A mean is M = sum of w_s m_s over the values s of a segment, with w_s the share of the lists (or items) that have the value, and m_s their
mean. The difference between a treatment t and a control c is the sum over s of

    within_s = (w_ts + w_cs)/2 (m_ts - m_cs)                                  the value itself is better or worse
    mix_s    = (w_ts - w_cs) ((m_ts + m_cs)/2 - (M_t + M_c)/2)                lists moved to values that are better or worse than others

(Kitagawa 1955, "Components of a difference between two rates", JASA 50). The shares of both arms add up to 1, so the last term, the mean
of both arms, changes no sum; it makes a value of average quality contribute nothing by its share. A value that only one arm has has no
effect of its own, so all of it is mix. Sums are fractions of integers: contributions add up to the difference without rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple, TypeAlias


class ValueSums(NamedTuple):
    """The sums of one segment value in one arm: of the measure, in units of 2**-scale_bits, and of its denominator."""

    top: int
    bottom: int


SumsByValue: TypeAlias = Mapping[str, ValueSums]
_NONE = ValueSums(0, 0)


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one segment value contributes to the difference. Means are None if an arm has no such lists."""

    mean: Fraction | None
    control_mean: Fraction | None
    share: Fraction
    control_share: Fraction
    within: Fraction
    mix: Fraction

    @property
    def total(self) -> Fraction:
        return self.within + self.mix


def contributions(treatment: SumsByValue, control: SumsByValue, scale_bits: int = 0) -> dict[str, Contribution]:
    """Return the contribution of each segment value. They add up to the difference of the means; empty if an arm has no lists.

    >>> found = contributions({"a": ValueSums(10, 50), "b": ValueSums(20, 50)}, {"a": ValueSums(25, 50), "b": ValueSums(20, 50)})
    >>> {value: (float(each.within), float(each.mix)) for value, each in found.items()}
    {'a': (-0.15, 0.0), 'b': (0.0, 0.0)}
    """
    all_t, all_c = (sum(value.bottom for value in arm.values()) for arm in (treatment, control))
    if not all_t or not all_c:
        return {}
    unit = 1 << scale_bits
    middle = (_whole_mean(treatment, unit) + _whole_mean(control, unit)) / 2
    contributions = {}
    for value in sorted({*treatment, *control}):
        of_t, of_c = treatment.get(value, _NONE), control.get(value, _NONE)
        mean, control_mean = _mean(of_t, unit), _mean(of_c, unit)
        share, control_share = Fraction(of_t.bottom, all_t), Fraction(of_c.bottom, all_c)
        mean_of_value = mean if mean is not None else control_mean
        against = control_mean if control_mean is not None else mean
        if mean_of_value is None or against is None:
            continue
        within = (share + control_share) / 2 * (mean_of_value - against)
        mix = (share - control_share) * ((mean_of_value + against) / 2 - middle)
        contributions[value] = Contribution(mean, control_mean, share, control_share, within, mix)
    return contributions


def _whole_mean(arm: SumsByValue, unit: int) -> Fraction:
    return Fraction(sum(value.top for value in arm.values()), unit * sum(value.bottom for value in arm.values()))


def _mean(sums: ValueSums, unit: int) -> Fraction | None:
    return Fraction(sums.top, unit * sums.bottom) if sums.bottom else None


def rank_contributions(
    treatment: Sequence[int], control: Sequence[int], bottoms: tuple[int, int], scale_bits: int = 0
) -> tuple[Fraction, ...]:
    """Return the contribution of each band of ranks, for a measure that is a sum over ranks.

    treatment, control: sums of the measure up to each cut-off, ascending. bottoms: the denominators of both arms. Contributions add up to
    the difference at the last cut-off.

    >>> rank_contributions([10, 30], [20, 35], (100, 100))
    (Fraction(-1, 10), Fraction(1, 20))
    """
    if not all(bottoms):
        return ()
    below, slices = (0, 0), []
    for tops in zip(treatment, control, strict=True):
        parts = [Fraction(top - before, bottom << scale_bits) for top, before, bottom in zip(tops, below, bottoms, strict=True)]
        slices.append(parts[0] - parts[1])
        below = tops
    return tuple(slices)


class ListSpread(NamedTuple):
    """The variance of one list's value in an arm, as its users make it: the clustered variance of its mean x its lists; and that mean."""

    per_list: float
    mean: float

    def variance(self, lists: int, mean: float) -> float:
        """Return the variance of the mean of some lists of the arm.

        It is that of as many lists of the whole arm, raised by m (1 - m) of these lists over that of the arm, if that is more. This bound
        of the variance of a value from 0 to 1 (Bhatia, Davis 2000) accounts for lists with a mean nearer to 1/2.

        >>> ListSpread(0.5, 0.1).variance(100, 0.1), round(ListSpread(0.5, 0.1).variance(100, 0.2), 4)
        (0.005, 0.0089)
        """
        of_value, whole = mean * (1 - mean), self.mean * (1 - self.mean)
        return self.per_list / lists * (max(1.0, of_value / whole) if whole > 0 else 1.0)


def corrected_z(alpha: float, comparisons: int) -> float:
    """Return how many standard errors an interval has on each side, if `comparisons` intervals share the error (Bonferroni). One look.

    >>> round(corrected_z(0.05, 1), 2), round(corrected_z(0.05, 10), 2)
    (1.96, 2.81)
    """
    return NormalDist().inv_cdf(1 - alpha / (2 * max(1, comparisons)))
