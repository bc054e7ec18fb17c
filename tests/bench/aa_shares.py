"""Experiments whose arms have users of different times: ramps, ends and outages without any setting. The package's own reports judge.

Users keep their arm and arrive with their first list. An experiment lasts three days. Measures and sums are those of `aa_hard`. Looks
after the alarm are judged twice: as they are, and without what is stored of times, which is what a comparison of whole arms says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from streammetrics.experiments import Policy, Stored, build_report, choose_scales
from streammetrics.experiments.arrivals import HOUR_MS, NO_ARRIVALS, Arrivals, merge_hours
from streammetrics.experiments.unlike_times import unlike_times
from tests.bench.aa_hard import MEASURES, moments_at_looks
from tests.bench.aa_traffic import Floats, Ints

SHARE_EXPERIMENTS: Final = 500
SHARE_LOOKS: Final = 36
HOURS: Final = 72
BEGINS_HOUR: Final = 494_208
"""The first hour of an experiment, since the epoch."""
DAYS: Final = 3
ARMS: Final = ("control", "treatment")
CERTAIN: Final = ("regressed", "improved", "mixed")


@dataclass(frozen=True, slots=True)
class ShareRegime:
    """Traffic of one kind. Both arms are the same, unless `lift` is the treatment's change of clicks.

    shares: the treatment's share of the users who arrive, by equal part of the time. later: how much fewer clicks users have who arrive in
    the second half. drift: how much clicks fall for all from start to end. off: when the treatment ends. early: all users come in the first
    two hours. outage: when it logs nothing, from and to. season: clicks swing to 0 and back. nights: no traffic at night, and users click
    less and less each day. household: users who are assigned and arrive together, at most. chances: of a click by equal part of the time,
    with one list a user; empty: users differ, 37 % on average. configured: equal shares are configured. Times are parts of the whole.
    """

    name: str
    shares: tuple[float, ...] = (0.5,)
    users: int = 4_000
    later: float = 0.0
    drift: float = 0.0
    off: float = 1.0
    early: bool = False
    outage: tuple[float, float] = (1.0, 1.0)
    season: bool = False
    nights: bool = False
    household: int = 1
    chances: tuple[float, ...] = ()
    lift: float = 0.0
    configured: bool = False


RAMP = ShareRegime("5 → 50 %, users keep their arm, later ones click 30 % less", (0.05, 0.5), later=0.3)
CHANGED = ShareRegime("50 → 10 %, the treatment is 20 % worse", (0.5, *5 * (0.1,)), 12_000, chances=(0.25, *5 * (0.05,)), lift=-0.2)
ENDED = ShareRegime("the treatment ends at half time, clicks fall by 30 %", off=0.5, drift=0.3)
ENDED_EARLY = replace(ENDED, name=f"{ENDED.name}, no new users", early=True)
OUTAGE = ShareRegime("the treatment logs nothing for 15 % of the time, season", outage=(0.4, 0.55), season=True)
CHANGING = (RAMP, CHANGED, ENDED, ENDED_EARLY, OUTAGE, replace(OUTAGE, name=f"{OUTAGE.name}, shares configured", configured=True))
"""Regimes whose arms cannot be compared as a whole."""
STEADY = (
    ShareRegime("ordinary"),
    ShareRegime("traffic stops at night, morning users differ", nights=True),
    ShareRegime("households of 1 to 3 users", users=6_000, household=3),
)
"""Regimes without a change: an alarm is false."""


@dataclass(slots=True)
class ShareResult:
    """What came up in an experiment. alarm: the first look (from 0) at which the shares have changed for certain; None: never.

    before, after: the wrong verdicts that are certain, before the alarm and from it on. unchecked: those without the check.
    """

    alarm: int | None = None
    before: set[str] = field(default_factory=set)
    after: set[str] = field(default_factory=set)
    unchecked: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class ShareRates:
    """Shares of experiments: with a wrong verdict, without the check; by wrong verdict, with it; with one after the alarm; with an alarm.

    alarm_at: the median time of the alarm, as a part of the whole.
    """

    unchecked: float
    ever: Mapping[str, float]
    after: float
    alarms: float
    alarm_at: float | None


def share_rates(regime: ShareRegime, experiments: int, seed: int, advance: Callable[[int], None]) -> ShareRates:
    """Judge experiments at every look."""
    results = []
    for number in range(experiments):
        results.append(judge_shares(regime, np.random.default_rng((seed, number, *regime.name.encode()))))
        advance(1)
    alarms = [(each.alarm + 1) / SHARE_LOOKS for each in results if each.alarm is not None]
    return ShareRates(
        unchecked=sum(bool(each.unchecked) for each in results) / experiments,
        ever={word: sum(word in each.before | each.after for each in results) / experiments for word in CERTAIN},
        after=sum(bool(each.after) for each in results) / experiments,
        alarms=len(alarms) / experiments,
        alarm_at=float(np.median(alarms)) if alarms else None,
    )


def judge_shares(regime: ShareRegime, random: np.random.Generator) -> ShareResult:
    """Draw one experiment, look SHARE_LOOKS times, and return what came up."""
    policy = Policy(margin=0.0, shares=dict.fromkeys(ARMS, 1.0) if regime.configured else None).deciding(MEASURES)
    wrong = {*CERTAIN} - ({"regressed"} if regime.lift < 0 else set())
    result, scales = ShareResult(), dict[str, float]()
    for look, stored in enumerate(stored_at_looks(*draw_shares(regime, random))):
        scales |= choose_scales(MEASURES, policy, stored, scales)
        if result.alarm is None and unlike_times(policy, MEASURES, stored, "control").reasons:
            result.alarm = look
        found = _words(policy, stored, scales) & wrong
        if result.alarm is None:
            result.before |= found
            result.unchecked |= found
        else:
            result.after |= found
            if not result.unchecked:
                result.unchecked |= _words(policy, replace(stored, arrivals=NO_ARRIVALS, last_ms={}, recent_lists={}), scales) & wrong
    return result


def _words(policy: Policy, stored: Stored, scales: Mapping[str, float]) -> set[str]:
    report = build_report(MEASURES, policy, stored, scales, ())
    deciding = [each.verdict for variant in report.variants for each in variant.measures if each.paging]
    return {each.word for each in (report.verdict, *(each.verdict for each in report.variants), *deciding) if each}


def draw_shares(regime: ShareRegime, random: np.random.Generator) -> tuple[Ints, Ints, Floats, npt.NDArray[np.bool_]]:
    """Draw (user of each list, arm of each user, time of each list, clicks of each list: shape (lists, 10))."""
    count = regime.users
    home = np.repeat(np.arange(count), random.integers(1, regime.household + 1, count))[:count]
    starts = (2 / HOURS if regime.early else 0.98) * random.random(count)[home]
    if regime.household > 1:  # the members come within the same hour
        starts = (np.floor(starts * HOURS) + random.random(count)) / HOURS
    share = np.array(regime.shares)[np.minimum((starts * len(regime.shares)).astype(np.int64), len(regime.shares) - 1)]
    arms = (random.random(count)[home] < share).astype(np.int64)
    lists = np.ones(count, dtype=np.int64) if regime.chances else random.geometric(1 / 5, count)
    users = np.repeat(np.arange(count), lists)
    times = starts[users] + (1 - starts[users]) * random.random(len(users))
    times[np.cumsum(lists) - lists] = starts
    chance = random.beta(1.2, 2, count)[users] * np.where(starts[users] > 0.5, 1 - regime.later, 1.0) * (1 - regime.drift * times)
    if regime.chances:
        chance = np.array(regime.chances)[np.minimum((times * len(regime.chances)).astype(np.int64), len(regime.chances) - 1)]
    if regime.season:
        chance = chance * (0.5 + 0.5 * np.cos(2 * np.pi * times))
    if regime.nights:
        of_day = times * DAYS % 1
        times, chance = (np.floor(times * DAYS) + 0.6 * of_day) / DAYS, chance * (1 - 0.6 * of_day)
    clicked = random.random(len(users)) < chance * np.where(arms[users] == 1, 1 + regime.lift, 1.0)
    clicks = clicked[:, None] & (random.random((len(users), 10)) < 0.7 / np.arange(1, 11) ** 0.8)
    lost = (arms[users] == 1) & ((times >= regime.off) | ((times >= regime.outage[0]) & (times < regime.outage[1])))
    return users[~lost], arms, times[~lost], clicks[~lost]


def stored_at_looks(users: Ints, arms: Ints, times: Floats, clicks: npt.NDArray[np.bool_]) -> Iterator[Stored]:
    """Yield what is stored at each look. An experiment begins with its first hour."""
    moments = moments_at_looks([*ARMS], users, arms, times, clicks, looks=SHARE_LOOKS)
    first = np.full(len(arms), np.inf)
    np.minimum.at(first, users, times)
    came = np.isfinite(first)
    arrivals = [_by_hour(first[came & (arms == arm)]) for arm in range(len(ARMS))]
    lists = [_by_hour(times[arms[users] == arm]) for arm in range(len(ARMS))]
    for look, of_arms in enumerate(moments):
        end = BEGINS_HOUR + HOURS * (look + 1) // SHARE_LOOKS
        kept = Stored(
            experiment="ranker",
            scope="start",
            moments=of_arms,
            first_exposures={name: sums[0] for name, sums in of_arms.items()},
            multi_exposed_users=0,
            from_ms=BEGINS_HOUR * HOUR_MS,
            to_ms=end * HOUR_MS,
            newest_ms=end * HOUR_MS,
            arrivals=Arrivals.of({name: _until(hours, end) for name, hours in zip(ARMS, arrivals, strict=True) if name in of_arms}),
            last_ms={name: (max(_until(hours, end)) + 1) * HOUR_MS - 1 for name, hours in zip(ARMS, lists, strict=True) if name in of_arms},
            recent_lists={name: merge_hours([_until(hours, end)]) for name, hours in zip(ARMS, lists, strict=True) if name in of_arms},
        )
        yield kept


def _by_hour(times: Floats) -> dict[int, int]:
    counts = np.bincount((times * HOURS).astype(np.int64), minlength=HOURS)
    return {BEGINS_HOUR + hour: count for hour, count in enumerate(counts.tolist()) if count}


def _until(hours: Mapping[int, int], end: int) -> dict[int, int]:
    return {hour: count for hour, count in hours.items() if hour < end}
