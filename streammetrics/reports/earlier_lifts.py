"""The lifts since the start up to earlier times, for a process that read the lists late. Pure.

A snapshot of the history is taken when a report is made. After a backlog, or in a new process without a stored history, there is none of
earlier event times. What is counted by hour still has them: the lift up to the end of each block of hours. Its interval uses the spread
of the users that is known today, and takes users with lists in both arms for different ones. There is no verdict on an earlier time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from streammetrics.experiments import Measures, Policy, Stored
from streammetrics.experiments.arms import Arms
from streammetrics.experiments.cell_estimates import RunPart
from streammetrics.experiments.effect_change import together
from streammetrics.reports.headline_metrics import MEASURES_MAX, choose_headline
from streammetrics.reports.history import POINTS_MAX, HistorySnapshot, Point
from streammetrics.statistics.estimates import lift_interval
from streammetrics.statistics.measures import Measure
from streammetrics.statistics.sequence import scale_of
from streammetrics.words.times import HOUR_MS


class _UsersUntil(NamedTuple):
    """The users who had come up to an hour (since the epoch), by the variant of their first list."""

    hour: int
    users: Mapping[str, int]


def earlier_snapshots(
    measures: Measures, policy: Policy, stored: Stored, scales: Mapping[str, float], after_ms: int, before_ms: int
) -> Iterator[tuple[int, HistorySnapshot]]:
    """Yield a snapshot at the end of each block of hours with lists between two event times, in order.

    A variant has a point once it and the control have `min_users` users. Shares of users have none, because they are not counted by hour.
    """
    reached = [point for point in _users_by_block(stored) if after_ms < point.hour * HOUR_MS < before_ms]
    policy = policy.deciding(measures)
    control = policy.control_of(list(stored.moments))
    if not reached or control is None:
        return
    arms, points = Arms(measures, policy, stored, control, scales), dict[int, list[Point]]()
    compared = policy.treatments(control, stored.first_exposures)[:POINTS_MAX]
    for variant in compared:
        for measure in _headline(measures, policy, POINTS_MAX // max(1, len(compared))):
            for part in accumulate(arms.days(measure, variant, control, 1)[0], together):
                points.setdefault(part.end, []).append(_point(arms, measure, variant, part))
    for hour_point in reached:
        large = {variant for variant, users in hour_point.users.items() if users >= policy.min_users}
        kept = tuple(point for point in points.get(hour_point.hour, ()) if {point.variant, control} <= large)
        yield hour_point.hour * HOUR_MS, HistorySnapshot(None, sum(hour_point.users.values()), kept)


def _users_by_block(stored: Stored) -> Iterator[_UsersUntil]:
    hours, users = stored.hours, dict[str, int]()
    for block in sorted(hours.rows):
        for variant, count in hours.rows[block].new_users.items():
            users[variant] = users.get(variant, 0) + count
        yield _UsersUntil((block + 1) * hours.length, {**users})


def _headline(measures: Measures, policy: Policy, at_most: int) -> Sequence[Measure]:
    """Return the measures that a snapshot has, without shares of users."""
    named = {(measure.name, measure.k): measure for measure in measures if measure.kind != "users"}
    deciding = [name for name, measure in named.items() if str(measure) in policy.paging]
    return [named[name] for name in choose_headline(named, deciding, at_most=max(1, min(MEASURES_MAX, at_most)))]


def _point(arms: Arms, measure: Measure, variant: str, part: RunPart) -> Point:
    scale = scale_of(measure, arms.scales)
    mixture = None if scale is None else scale.mixture(arms.policy.minimum_lift)
    interval = None if mixture is None else lift_interval(part.treatment, part.control, mixture, arms.policy.alpha)
    lift = None if part.ratio is None else part.ratio - 1
    return Point(variant, measure.name, measure.k, lift, *((interval.lower, interval.upper) if interval else (None, None)))
