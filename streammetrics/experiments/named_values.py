"""Which values of segments may be named as a cause of a difference? Sums of both arms in, names out. One look. Pure.

Two tests, each with half of the error, shared by all values of all segments (Bonferroni). With the shares w of the arms' lists, their
effective users n (Kish), and the pooled share p, the lists of a value **moved** if

    |w_t - w_c| / sqrt(p (1 - p) (1/n_t + 1/n_c)) > q    and    |w_t - w_c| >= SHIFT_MIN

A value that belongs to the user, such as a country, is the worst case, so values that belong to the list are tested too carefully. A
value has an **effect** of its own if its lift e differs from the lift r of all other values of its segment:

    |e - r| / sqrt(Var e + Var r) > q,    in the direction of the difference, or certainly in the other

r compares the means of the other values at their mean shares in both arms. So lists that moved between other values are no effect, and a
drop of the same size everywhere names nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from streammetrics.experiments.contributions import ListSpread, corrected_z

SHIFT_MIN: Final = 0.01
"""The least difference of shares that is named, however certain it is."""
LISTS_MIN: Final = 20
"""Lists that a value needs in each arm to have an effect of its own."""


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
