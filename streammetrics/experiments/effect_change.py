"""Has the effect of a treatment changed? The lift by day, and a certain difference between the first days and those since. Pure.

**Days.** The lists of each UTC day are compared with each other, in cells that end at midnight. A part of the run is one day or several.
Its means are those of its days by their weights.

**A change.** For each midnight, the lists before it are compared with those since. Let r = M_t / M_c be the ratio of the means in all
lists, and V their variances. In each part with D lists,

    m = (D_t M_t / r + D_c M_c) / (D_t + D_c)      the control's mean, if the ratio is r there, too
    x = (M_t - r M_c) / (r m)                      with the variance (V_t + r**2 V_c) / (r m)**2

If the ratio is the same in both parts, x_1 - x_2 is 0 on average, whatever the clicks of both arms do from day to day: a time of day, a
weekend, or later users who click less is no change. The part before is complete, and the other one grows, so the evidence E against "no
change" (see `sequence`) holds at all looks. The midnight after n days has 1 / (n (n + 1)) of `ERROR`, which adds up to `ERROR`.

**Users in both parts.** Lists of a user agree with each other, so the two ratios agree more than those of different users do: their
difference is known better than the sum of the variances says. Users who change their arm may have the opposite effect. Their covariance
C of the whole arms is added, for lists in one arm and one part: 2 C D_t D_c / (M_t M_c) over the smaller D_t D_c of two such parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from streammetrics.experiments.cell_estimates import ChangedEffect, Pair, RunPart, Spread, day_shares, spreads_of
from streammetrics.experiments.hours import LENGTHS, Entry, Hours
from streammetrics.statistics.estimates import Estimate
from streammetrics.statistics.measures import Measure
from streammetrics.statistics.sequence import Mixture, log_evidence_two_sided

ERROR: Final = 0.01
"""The probability that a change is ever certain, although there is none, in one experiment."""
DAYS_MAX: Final = 30
"""Most parts of a run that are shown. If there are more days, blocks of days are shown."""
SIZE: Final = 0.25
"""The change of the ratio to look for, as a part of it."""
_ERROR_MAX: Final = 0.05
"""The largest squared standard error of a mean, relative to the mean, at which a part is compared: that of 20 users with a hit."""
_DAY: Final = 24
_Floats: TypeAlias = npt.NDArray[np.float64]


def parts_by_day(pair: Pair, hours: Hours, measure: Measure, length: int = _DAY) -> tuple[RunPart, ...]:
    """Return what the lists of each day say, in order; of each block if blocks are longer. Days without a cell are left out.

    hours: those that `pair` is about. length: hours that take the place of a day. Not for shares of users, which have no hour.
    """
    length, wholes, (cells, top, bottom) = max(length, hours.length), pair.wholes(measure), pair.columns(measure)
    if wholes is None or not len(cells.hours):
        return ()
    days, of_pieces = np.unique(cells.hours // length, return_inverse=True)
    cells = cells.ending_with(of_pieces)
    parts, of_users = cells.parts(bottom), pair.days(measure)
    arms = []
    for part, lists, values, users, spreads in zip(
        (parts.treatment, parts.control),
        cells.sums(bottom),
        cells.sums(top),
        of_users,
        spreads_of(measure, wholes, of_users),
        strict=True,
    ):
        of_entries = _by_entry(cells.entries, {day: sums.d for day, sums in users.items() if sums.d}, spreads)
        columns = part * lists, part * values, lists, *(part * part * lists * of_entries[:, cells.numbers])
        arms.append(np.stack([np.bincount(of_pieces, weights=column) for column in columns], axis=1).tolist())
    return tuple(
        _part(measure, int(day) * length, length, sums, against) for day, sums, against in zip(days, *arms, strict=True) if sums[0] > 0
    )


def _by_entry(entries: Sequence[Entry], lists: Mapping[Entry, int], spreads: Mapping[Entry, Spread]) -> _Floats:
    """Return the spread of an arm in each entry, shape (3, entries)."""
    columns = np.zeros((3, len(entries)))
    for at, entry in enumerate(entries):
        for day, share in day_shares(entry, lists):
            columns[:, at] += share * np.array(spreads[day])
    return columns


def _part(measure: Measure, first: int, length: int, sums: Sequence[float], against: Sequence[float]) -> RunPart:
    """Return the part of one day. own, against: weight, weighted sum, lists, variance, its least value, and squared lists of both arms."""
    weight = sums[0]
    treatment, control = (
        Estimate(total / weight / 2.0**measure.scale_bits, max(variance, least) / weight**2, 0)
        for _, total, _, variance, least, _ in (sums, against)
    )
    users, more = (weight**2 / squared if squared else 0.0 for *_, squared in (sums, against))
    return RunPart(first, first + length, weight, (sums[2], against[2]), treatment, control, (users, more))


def together(one: RunPart, other: RunPart) -> RunPart:
    """Return two parts as one.

    >>> first = RunPart(0, 24, 30.0, (60, 60), Estimate(0.4, 0.01, 90), Estimate(0.3, 0.01, 90), (80.0, 80.0))
    >>> both = together(first, RunPart(24, 48, 10.0, (20, 20), Estimate(0.2, 0.03, 90), Estimate(0.3, 0.03, 90), (30.0, 20.0)))
    >>> both.end, both.weight, round(both.treatment.mean, 9), both.treatment.variance, [round(users) for users in both.effective_users]
    (48, 40.0, 0.35, 0.0075, [110, 98])
    """
    weight = one.weight + other.weight
    shares = one.weight / weight, other.weight / weight
    treatment, control = (
        Estimate(shares[0] * a.mean + shares[1] * b.mean, shares[0] ** 2 * a.variance + shares[1] ** 2 * b.variance, max(a.users, b.users))
        for a, b in ((one.treatment, other.treatment), (one.control, other.control))
    )
    users, more = (
        1 / (shares[0] ** 2 / a + shares[1] ** 2 / b) if a and b else 0.0
        for a, b in zip(one.effective_users, other.effective_users, strict=True)
    )
    sizes = one.sizes[0] + other.sizes[0], one.sizes[1] + other.sizes[1]
    return RunPart(min(one.first, other.first), max(one.end, other.end), weight, sizes, treatment, control, (users, more))


def blocks_of(parts: Sequence[RunPart]) -> tuple[RunPart, ...]:
    """Return the parts in blocks of days since the epoch, so that there are at most DAYS_MAX."""
    for hours in LENGTHS[LENGTHS.index(_DAY) :]:
        blocks: dict[int, RunPart] = {}
        for part in parts:
            block = part.first // hours
            blocks[block] = together(blocks[block], part) if block in blocks else part
        if len(blocks) <= DAYS_MAX:
            break
    return tuple(blocks.values())


def changed_effect(estimates: Sequence[Sequence[RunPart]], least_users: float, moved: float = 0.0, tests: int = 1) -> ChangedEffect | None:
    """Return the most certain change; None if none is certain.

    estimates: the parts of the run by day; twice if an arm was silent, and then both must be certain (see `experiment_state`). least_users:
    effective users that each arm needs in each part. moved: D_t D_c C of the whole arms. tests: how many share the error.

    >>> def day(number: int, mean: float) -> RunPart:
    ...     arms = Estimate(mean, 4e-5, 2000), Estimate(0.2, 4e-5, 2000)
    ...     return RunPart(24 * number, 24 * number + 24, 500.0, (1000, 1000), *arms, (900.0, 900.0))
    >>> change = changed_effect([[day(7, 0.3), day(8, 0.2), day(9, 0.19), day(10, 0.2)]], 100.0)
    >>> change.since.first // 24, round(change.lift_before, 2), round(change.lift_since, 2)
    (8, 0.5, -0.02)
    >>> changed_effect([[day(7, 0.2), day(8, 0.2), day(9, 0.19), day(10, 0.2)]], 100.0) is None
    True
    """
    evidence = [dict(evidence_by_midnight(parts, least_users, moved)) for parts in estimates]
    least = {hour: min(by_hour[hour][0] for by_hour in evidence) for hour in set.intersection(*map(set, evidence))}
    if not least:
        return None
    start = estimates[0][0].first
    excess = {hour: value - math.log((days := (hour - start) // _DAY) * (days + 1)) for hour, value in sorted(least.items())}
    best = max(excess, key=lambda hour: excess[hour])
    return evidence[0][best][1] if excess[best] >= math.log(tests / ERROR) else None


def evidence_by_midnight(parts: Sequence[RunPart], least_users: float, moved: float) -> Iterable[tuple[int, tuple[float, ChangedEffect]]]:
    """Yield ln E of a change at each midnight at which it can be told, and the two parts."""
    befores = [*accumulate(parts, together)]
    sinces = [*accumulate(reversed(parts), together)][::-1]
    for before, since in zip(befores[:-1], sinces[1:], strict=True):
        value = _log_evidence(before, since, befores[-1].ratio, least_users, moved)
        if value is not None and before.ratio is not None and since.ratio is not None:
            yield since.first, (value, ChangedEffect(before, since, before.ratio - 1, since.ratio - 1))


def _log_evidence(before: RunPart, since: RunPart, ratio: float | None, least_users: float, moved: float) -> float | None:
    """Return ln E of a change between two parts; None if there is too little data in one of them."""
    if not ratio or min(*before.effective_users, *since.effective_users) < least_users:
        return None
    shifts = [_shift(part, ratio) for part in (before, since)]
    if shifts[0] is None or shifts[1] is None:
        return None
    (one, of_one, mean), (other, of_other, other_mean) = shifts[0], shifts[1]
    sizes = min(before.sizes[0] * since.sizes[1], before.sizes[1] * since.sizes[0])
    variance = of_one + of_other + 2 * max(0.0, moved) / sizes / (ratio * mean * other_mean)
    return log_evidence_two_sided((one - other) / math.sqrt(variance), variance, Mixture(SIZE))


def _shift(part: RunPart, ratio: float) -> tuple[float, float, float] | None:
    """Return x of a part, its variance, and m; None if a mean is not known well enough."""
    (treated, of_own), (against, of_against) = ((estimate.mean, estimate.variance) for estimate in (part.treatment, part.control))
    residual = of_own + ratio * ratio * of_against
    if not 0 < residual < math.inf:
        return None
    mean = (part.sizes[0] * treated / ratio + part.sizes[1] * against) / sum(part.sizes)
    if mean <= 0 or max(of_own / ratio**2, of_against) > _ERROR_MAX * mean * mean:
        return None
    return (treated - ratio * against) / (ratio * mean), residual / (ratio * mean) ** 2, mean
