"""Why do two variants differ? Contributions to the difference of two means by segment value and by rank. Exact; integers in. Pure.

A mean is M = sum of w_s m_s over the values s of a segment, with w_s the share of the lists (or items) that have the value, and m_s their
mean. The difference between a treatment t and a control c is the sum over s of

    within_s = (w_ts + w_cs)/2 (m_ts - m_cs)                                  the value itself is better or worse
    mix_s    = (w_ts - w_cs) ((m_ts + m_cs)/2 - (M_t + M_c)/2)                lists moved to values that are better or worse than others

(Kitagawa 1955, "Components of a difference between two rates", JASA 50). The shares of both arms add up to 1, so the last term, the mean
of both arms, changes no sum; it makes a value of average quality contribute nothing by its share. A value that only one arm has has no
effect of its own, so all of it is mix. Sums are fractions of integers: contributions add up to the difference without rounding.

`named_values` says which values may be named as a cause, in one look at both arms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Final, NamedTuple, TypeAlias

SHIFT_MIN: Final = 0.01
"""The least difference of shares that is named, however certain it is."""
LISTS_MIN: Final = 20
"""Lists that a value needs in each arm to have an effect of its own."""


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

    >>> of_values = contributions({"a": ValueSums(10, 50), "b": ValueSums(20, 50)}, {"a": ValueSums(25, 50), "b": ValueSums(20, 50)})
    >>> {value: (float(contribution.within), float(contribution.mix)) for value, contribution in of_values.items()}
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


class ValueLists(NamedTuple):
    """One value in one arm: its lists, the sum of the measure, and the denominator of its mean."""

    lists: int
    top: float
    bottom: int

    @property
    def mean(self) -> float:
        return self.top / self.bottom


class Arm(NamedTuple):
    """One arm: its effective users among these lists, the spread of its lists, and its values by segment."""

    effective_users: float
    spread: ListSpread
    segments: Mapping[str, Mapping[str, ValueLists]]


@dataclass(frozen=True, slots=True)
class NamedValue:
    """What is certain of a value: whether its lists moved, and its own lift with that of all other values if these differ."""

    moved: bool
    lift: float | None = None
    others_lift: float | None = None


def named_values(treatment: Arm, control: Arm, difference: float, alpha: float) -> dict[tuple[str, str], NamedValue]:
    """Return the (segment, value) pairs that may be named. `difference`: treatment less control, of all lists.

    >>> spread = ListSpread(0.24, 0.4)
    >>> even = {"surface": {"home": ValueLists(5000, 2000, 5000), "search": ValueLists(5000, 2000, 5000)}}
    >>> worse = {"surface": {"home": ValueLists(5000, 1000, 5000), "search": ValueLists(5000, 2000, 5000)}}
    >>> named_values(Arm(9000, spread, worse), Arm(9000, spread, even), -0.1, 0.05)[("surface", "home")]
    NamedValue(moved=False, lift=-0.5, others_lift=0.0)
    """
    pairs = [(segment, value) for segment in {**treatment.segments, **control.segments} for value in _values(segment, treatment, control)]
    z = corrected_z(alpha / 2, len(pairs))
    changes = {}
    for segment, value in pairs:
        sides = tuple(arm.segments.get(segment, {}) for arm in (treatment, control))
        lists = [sum(cell.lists for cell in side.values()) for side in sides]
        counts = [side[value].lists if value in side else 0 for side in sides]
        moved = all(lists) and _moved(counts, lists, (treatment.effective_users, control.effective_users), z)
        lifts = _lifts(value, sides, (treatment.spread, control.spread), difference, z)
        if moved or lifts is not None:
            changes[segment, value] = NamedValue(moved, *(lifts or (None, None)))
    return changes


def _values(segment: str, treatment: Arm, control: Arm) -> list[str]:
    return sorted({*treatment.segments.get(segment, {}), *control.segments.get(segment, {})})


def _moved(counts: list[int], lists: list[int], effective: tuple[float, float], z: float) -> bool:
    shift = counts[0] / lists[0] - counts[1] / lists[1]
    pooled = sum(counts) / sum(lists)
    if not all(effective) or not 0 < pooled < 1:
        return False
    return abs(shift) >= SHIFT_MIN and abs(shift) > z * math.sqrt(pooled * (1 - pooled) * (1 / effective[0] + 1 / effective[1]))


def _lifts(
    value: str, sides: tuple[Mapping[str, ValueLists], ...], spreads: tuple[ListSpread, ListSpread], difference: float, z: float
) -> tuple[float, float] | None:
    """Return the lifts of a value and of all others, if they differ for certain."""
    sure = [name for name in sides[1] if name in sides[0] and min(side[name].lists for side in sides) >= LISTS_MIN]
    others = [name for name in sure if name != value]
    if value not in sure or not others or sides[1][value].mean <= 0:
        return None
    bottoms = [sum(cell.bottom for cell in side.values()) for side in sides]
    shares = {name: sum(side[name].bottom / bottom for side, bottom in zip(sides, bottoms, strict=True)) for name in others}
    means = [math.fsum(shares[name] * side[name].mean for name in others) / math.fsum(shares.values()) for side in sides]
    if means[1] <= 0:
        return None
    lift, others_lift = sides[0][value].mean / sides[1][value].mean - 1, means[0] / means[1] - 1
    of_value = _relative_variance([(side[value].lists, side[value].mean) for side in sides], spreads)
    rest = _relative_variance([(sum(side[name].lists for name in others), mean) for side, mean in zip(sides, means, strict=True)], spreads)
    apart = abs(lift - others_lift) > z * math.sqrt(of_value + rest)
    is_same_way = (lift - others_lift) * difference > 0
    is_against = lift * difference < 0 and abs(lift) > z * math.sqrt(of_value)
    return (lift, others_lift) if apart and (is_same_way or is_against) else None


def _relative_variance(arms: list[tuple[int, float]], spreads: tuple[ListSpread, ListSpread]) -> float:
    """Return the variance of a lift by the delta method. `arms`: lists and mean of treatment and control."""
    (lists, mean), (control_lists, control_mean) = arms
    ratio = mean / control_mean
    variance = spreads[0].variance(lists, mean) + ratio * ratio * spreads[1].variance(control_lists, control_mean)
    return variance / control_mean**2
