"""The lift by day and a change of the effect, by brute force from raw lists. Fractions up to the evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.oracle.cells import PairResult, RawList, compare, length_of


class Days(NamedTuple):
    """Two arms in the hours from the first on and before the end, and the lists of each (by d)."""

    first: int
    end: int
    arms: PairResult
    sizes: tuple[int, int]


def by_day(lists: Sequence[RawList], treatment: str, control: str) -> list[Days]:
    """Return the comparison of each day, or of each block if blocks are longer."""
    length = max(24, length_of({impression.hour for impression in lists}))
    days = []
    for first in sorted({impression.hour // length * length for impression in lists}):
        end = first + length
        arms = compare(lists, treatment, control, within=(first, end))
        if arms is not None:
            lists_of_block = [impression for impression in lists if first <= impression.hour < end]
            sizes = [sum(impression.d for impression in lists_of_block if impression.variant == arm) for arm in (treatment, control)]
            days.append(Days(first, end, arms, (sizes[0], sizes[1])))
    return days


class Joint(NamedTuple):
    """Several days as one: means, variances, effective users and lists of both arms."""

    means: tuple[Fraction, Fraction]
    variances: tuple[Fraction, Fraction]
    effective_users: tuple[float, float]
    sizes: tuple[int, int]


def joint(days: Sequence[Days]) -> Joint:
    whole = sum(day.arms.weight for day in days)
    shares = [day.arms.weight / whole for day in days]
    arms = [[day.arms[at] for day in days] for at in (0, 1)]
    means = [sum((share * arm.mean for share, arm in zip(shares, arm_lists, strict=True)), Fraction(0)) for arm_lists in arms]
    variances = [sum((share**2 * arm.variance for share, arm in zip(shares, arm_lists, strict=True)), Fraction(0)) for arm_lists in arms]
    users = [
        0.0
        if not all(arm.effective_users for arm in arm_lists)
        else float(1 / sum((share**2 / arm.effective_users for share, arm in zip(shares, arm_lists, strict=True)), Fraction(0)))
        for arm_lists in arms
    ]
    sizes = [sum(day.sizes[at] for day in days) for at in (0, 1)]
    return Joint((means[0], means[1]), (variances[0], variances[1]), (users[0], users[1]), (sizes[0], sizes[1]))


class Change(NamedTuple):
    """ln E at a midnight, and the lifts before it and since."""

    log_evidence: float
    before: Fraction
    since: Fraction


def changes(days: Sequence[Days], least_users: float, moved: Fraction) -> dict[int, Change]:
    """Return the evidence at each midnight. moved: the sum over users in both arms of the products of their residuals."""
    change_by_day: dict[int, Change] = {}
    whole = joint(days) if days else None
    if whole is None or not all(whole.means):
        return change_by_day
    ratio = whole.means[0] / whole.means[1]
    for at in range(1, len(days)):
        parts = [joint(days[:at]), joint(days[at:])]
        if min(min(part.effective_users) for part in parts) < least_users or not all(part.means[1] for part in parts):
            continue
        shifts, variance, levels = [], 0.0, []
        for part in parts:
            (m_t, m_c), (v_t, v_c) = part.means, part.variances
            residual = v_t + ratio**2 * v_c
            level = (part.sizes[0] * m_t / ratio + part.sizes[1] * m_c) / sum(part.sizes)
            if not residual or not level or max(v_t / ratio**2, v_c) > level**2 / 20:
                break
            shifts.append(float((m_t - ratio * m_c) / (ratio * level)))
            variance += float(residual / (ratio * level) ** 2)
            levels.append(level)
        if len(levels) < 2:
            continue
        sizes = min(parts[0].sizes[0] * parts[1].sizes[1], parts[0].sizes[1] * parts[1].sizes[0])
        variance += 2 * max(0.0, float(moved)) / sizes / float(ratio * levels[0] * levels[1])
        jumps = 0.25**2 / variance
        z = (shifts[0] - shifts[1]) / math.sqrt(variance)
        log_evidence = z * z / 2 * jumps / (1 + jumps) - math.log1p(jumps) / 2
        lifts = [part.means[0] / part.means[1] - 1 for part in parts]
        change_by_day[days[at].first] = Change(log_evidence, lifts[0], lifts[1])
    return change_by_day
