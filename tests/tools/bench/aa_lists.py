"""Draws the lists of one experiment: who saw which arm in which hour, and whether they clicked. Numpy, from a seed.

Users come over all hours. Half of them fade: their visits become rare within a day. Each user has a rate of visits and a taste of their
own. How the arms are assigned, and what goes wrong, is the regime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from streammetrics.statistics.measures import COVARIATE_BITS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Activity: TypeAlias = Literal["log-normal", "pareto"]

DAY: int = 24
FADE = 0.15
"""The rate at which the visits of a fading user become rare, an hour."""
LISTS_MAX = 3_000
"""Most lists of one user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regime:
    """Traffic and assignment of one experiment.

    rate, spread, activity: lists an hour and user, and how much users differ in it. taste: how much users differ in clicks. base: the
    chance of a click. fading: the share of users who fade. early: the share of users who come in the first 12 hours. drift: how many more
    clicks the latest users have than the first. season: of clicks, by the time of day. newer: how many more clicks a user has in their
    first hour. activity_taste: how much more active users click. bad: how many fewer clicks there are during an outage.
    steps: the treatment's share of new users, by equal parts of the time, from `steps_from` hours on. slope: a share that grows evenly.
    tide: of the share, by the time of day. by_hour: a share of its own in each hour. unit: what is assigned; "hash": the users below a
    threshold have the treatment, and the threshold follows the steps. devices: the share of users with two devices and two arms.
    outage: begin and length of the time in which the treatment logs nothing, as shares of all hours; outage_part: of its lists.
    items: whether a list has several items. bots: users without clicks who make 200 lists each. arms: the control, and treatments that have
    the share together. several: whether several measures decide. earlier: how many lists each user had before the experiment (CUPED).
    effect: the true lift; of several, each for an equal part of the time, at the steps.
    """

    name: str
    users: int = 6_000
    hours: int = 200
    rate: float = 0.03
    spread: float = 0.8
    activity: Activity = "log-normal"
    taste: float = 0.4
    base: float = 0.3
    fading: float = 0.5
    early: float = 0.0
    drift: float = 0.0
    season: float = 0.0
    newer: float = 0.0
    activity_taste: float = 0.0
    bad: float = 0.0
    steps: Sequence[float] = (0.5,)
    steps_hours: int | None = None
    slope: tuple[float, float] | None = None
    tide: float = 0.0
    by_hour: bool = False
    unit: Literal["user", "list", "hash"] = "user"
    devices: float = 0.0
    outage: tuple[float, float] | None = None
    outage_part: float = 1.0
    control_first: float = 1.0
    items: bool = False
    bots: int = 0
    arms: int = 2
    several: bool = False
    earlier: int = 0
    effect: Sequence[float] = field(default=(0.0,))

    @property
    def step_hours(self) -> int:
        """How long a step of the share lasts, in hours."""
        return self.steps_hours or -(-self.hours // len(self.steps))


class Lists(NamedTuple):
    """Lists in the order of their hours: the user, hour, arm (0: control) and items of each, and how many are clicked.

    earlier: the mean of the user's lists before the experiment, in units of a covariate.
    """

    users: Ints
    hours: Ints
    arms: Ints
    items: Ints
    clicks: Ints
    earlier: Ints


def draw(regime: Regime, random: np.random.Generator) -> Lists:
    """Draw one experiment."""
    count, hours = regime.users, regime.hours
    came = np.floor(hours * random.random(count)).astype(np.int64)
    came = np.where(random.random(count) < regime.early, np.floor(12 * random.random(count)).astype(np.int64), came)
    users, when, rate = _visits(regime, random, came)
    taste = regime.base * np.exp(random.normal(0, regime.taste, count) - regime.taste**2 / 2)
    if regime.activity_taste:
        taste *= np.exp(regime.activity_taste * (np.log(rate) - np.log(rate).mean()))
    taste = np.clip(taste * (1 + regime.drift * came / hours), 0.0005, 0.995)
    arms = _arms(regime, random, came, users, when)
    chance = taste[users] * (1 + regime.season * np.sin(2 * np.pi * when / DAY))
    chance *= np.where(when == came[users], 1 + regime.newer, 1)
    silent = np.zeros(len(users), dtype=np.bool_)
    if regime.outage is not None:
        first = int(hours * regime.outage[0])
        end = first + max(1, int(hours * regime.outage[1]))
        within = (when >= first) & (when < end)
        silent = within & (arms > 0) & (random.random(len(users)) < regime.outage_part)
        chance *= np.where(within, (1 - regime.bad) * regime.control_first, 1)
    effect = np.array(regime.effect)[np.minimum(when // regime.step_hours, len(regime.effect) - 1)]
    chance = np.clip(chance * (1 + effect * (arms > 0)), 0, 0.999)
    items = random.integers(4, 11, len(users)) if regime.items else np.ones(len(users), dtype=np.int64)
    clicks = random.binomial(items, chance / 3 if regime.items else chance)
    earlier = np.zeros(count, dtype=np.int64)
    if regime.earlier:
        earlier += np.round(random.binomial(regime.earlier, taste) / regime.earlier * 2**COVARIATE_BITS).astype(np.int64)
    lists = Lists(*(column[~silent] for column in (users, when, arms, items, clicks, earlier[users])))
    if regime.bots:
        lists = _with_bots(regime, random, lists)
    order = np.argsort(lists.hours, kind="stable")
    return Lists(*(column[order] for column in lists))


def _visits(regime: Regime, random: np.random.Generator, came: Ints) -> tuple[Ints, Ints, Floats]:
    """Return the user and hour of each list, and users' rates. Each user has a list in the hour in which they come."""
    count = len(came)
    if regime.activity == "pareto":
        rate = regime.rate * (random.pareto(regime.spread, count) + 0.2)
    else:
        rate = regime.rate * np.exp(random.normal(0, regime.spread, count))
    fading, left = random.random(count) < regime.fading, regime.hours - came
    visits = random.poisson(np.where(fading, rate / FADE * (1 - np.exp(-FADE * left)), rate * left))
    users = np.repeat(np.arange(count), np.minimum(visits, LISTS_MAX))
    at = random.random(len(users))
    after = np.where(fading[users], -np.log(1 - at * (1 - np.exp(-FADE * left[users]))) / FADE, at * left[users])
    when = np.minimum((came[users] + after).astype(np.int64), regime.hours - 1)
    return np.concatenate([users, np.arange(count)]), np.concatenate([when, came]), rate


def share_at(regime: Regime, random: np.random.Generator, hour: Ints) -> Floats:
    """Return the treatment's share of those who are assigned in each hour."""
    if regime.by_hour:
        return np.asarray(random.uniform(0.1, 0.9, regime.hours)[hour])
    if regime.slope is not None:
        low, high = regime.slope
        return low + (high - low) * hour / regime.hours
    share = np.array(regime.steps)[np.minimum(hour // regime.step_hours, len(regime.steps) - 1)]
    return np.clip(share + regime.tide * np.sin(2 * np.pi * hour / DAY), 0.01, 0.99) if regime.tide else share


def _arms(regime: Regime, random: np.random.Generator, came: Ints, users: Ints, when: Ints) -> Ints:
    """Return the arm of each list."""
    drawn = random.random(regime.users)
    if regime.unit == "list":
        return (random.random(len(users)) < share_at(regime, random, when)).astype(np.int64)
    if regime.unit == "hash":
        return (drawn[users] < share_at(regime, random, when)).astype(np.int64)
    of_users: Ints = (drawn < share_at(regime, random, came)).astype(np.int64)
    if regime.arms > 2:
        of_users *= random.integers(1, regime.arms, regime.users)
    arms = of_users[users]
    if regime.devices:
        two, other = random.random(regime.users) < regime.devices, (random.random(regime.users) < 0.5).astype(np.int64)
        arms = np.where(two[users] & (random.random(len(users)) < 0.5), other[users], arms)
    return arms


def _with_bots(regime: Regime, random: np.random.Generator, lists: Lists) -> Lists:
    numbers = np.arange(regime.bots)
    bots = np.repeat(numbers, random.poisson(200, regime.bots))
    when = np.minimum(random.integers(0, regime.hours, regime.bots)[bots] + random.integers(0, 60, len(bots)), regime.hours - 1)
    arms = (random.random(regime.bots) < 0.5).astype(np.int64)[bots]
    ones = np.ones(len(bots), dtype=np.int64)
    more = (regime.users + bots, when, arms, ones, 0 * ones, 0 * ones)
    return Lists(*(np.concatenate([column, extra]) for column, extra in zip(lists, more, strict=True)))
