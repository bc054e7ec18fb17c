"""Turns drawn lists into what the product keeps of them, at each look: integers, summed with numpy. The package's own code judges them.

The sums are those that the engine writes: rows of hours by variant and entry, moments by variant and day of entry, users with a hit, and
cross sums of users in both arms. A test compares the estimates with those of the oracle, from raw lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from streammetrics.experiments.hours import Entry, EntrySums, Hours
from streammetrics.experiments.stored import StoredSums
from streammetrics.metrics import Column, Metric
from streammetrics.statistics.measures import Measures
from streammetrics.statistics.moments import CovarianceLayout, add
from streammetrics.words.times import HOUR_MS
from tests.tools.bench.aa_lists import DAY, Ints, Lists, Regime

ARMS = ("control", "treatment", *"BCDE")
BOTH = ("control", "treatment")
"""The key of the cross sums."""


OF_LISTS = Measures([Column(Metric("hit_rate", 10), "sum", 0)])
"""Lists with a click: a mean over lists, and the share of users with one."""
OF_ITEMS = Measures([Column(Metric("item_hit_rate", 10), "hits", 0), Column(Metric("item_hit_rate", 10), "places", 0)])
"""Clicked items of those shown: a ratio. Columns are whole clicks and items, so that sums stay small."""


def measures_of(regime: Regime) -> Measures:
    """Return what is measured in a regime."""
    return OF_ITEMS if regime.items else OF_LISTS.with_covariates if regime.earlier else OF_LISTS


class _Change(NamedTuple):
    """What the lists of one hour add: totals by (arm, came), moments by (arm, day), users and hits by (arm, came), and cross sums."""

    totals: list[tuple[int, int, list[int]]]
    moments: list[tuple[int, int, list[int]]]
    users: list[tuple[int, int, list[int]]]
    cross: list[int] | None
    new_users: list[int]


def looks(measures: Measures, lists: Lists, hours: int, every: int = 1) -> Iterator[StoredSums]:
    """Yield what is stored at the end of every so many hours."""
    feed = _Feed(measures, lists, hours)
    for hour in range(hours):
        feed.add(hour)
        if (hour + 1) % every == 0:
            yield feed.stored(hour)


class _Feed:
    """The sums so far. Each hour is added once."""

    def __init__(self, measures: Measures, lists: Lists, hours: int) -> None:
        self._changes = _changes(measures, lists, hours)
        self._hours, self._moments, self._users = Hours(), EntrySums(DAY), EntrySums()
        self._cross: list[int] | None = None
        self._first = [0] * len(ARMS)
        self._last: dict[str, int] = {}

    def add(self, hour: int) -> None:
        change, row = self._changes[hour], self._hours.row(hour)
        for arm, came, totals in change.totals:
            row.add_totals(ARMS[arm], self._hours.entry_of(came, hour), totals)
            self._last[ARMS[arm]] = hour * HOUR_MS
        for arm, users in enumerate(change.new_users):
            if users:
                row.new_users[ARMS[arm]] = row.new_users.get(ARMS[arm], 0) + users
                self._first[arm] += users
        self._hours.bound()
        for arm, day, moments in change.moments:
            self._moments.add(ARMS[arm], Entry(DAY, day), moments)
        self._moments.bound()
        for arm, came, gained in change.users:
            self._users.add(ARMS[arm], Entry(1, came), gained)
        self._users.bound()
        if change.cross is not None:
            self._cross = change.cross if self._cross is None else add(self._cross, change.cross)

    def stored(self, hour: int) -> StoredSums:
        end_ms = (hour + 1) * HOUR_MS
        return StoredSums(
            experiment="ranker",
            scope="start",
            moments=self._moments.by_variant(),
            first_list_users={arm: users for arm, users in zip(ARMS, self._first, strict=True) if users},
            hours=self._hours,
            run_hours=self._hours,
            entry_moments=self._moments,
            entry_users=self._users,
            pairs={} if self._cross is None else {BOTH: self._cross},
            to_ms=end_ms,
            newest_ms=end_ms,
            last_ms=dict(self._last),
        )


def _changes(measures: Measures, lists: Lists, hours: int) -> list[_Change]:
    """Return what the lists of each hour add."""
    users, when, arms = lists.users, lists.hours, lists.arms
    count = int(users.max(initial=0)) + 1
    came = np.full(count, hours)
    np.minimum.at(came, users, when)
    ones = np.ones(len(users), dtype=np.int64)
    columns = [ones, lists.clicks] + ([lists.items] if measures is OF_ITEMS else [])
    if measures.covariates:
        columns += [ones, lists.earlier]
    groups, inverse = np.unique((when * count + users) * len(ARMS) + arms, return_inverse=True)  # one user, hour and arm
    sums = np.stack([np.bincount(inverse, column, len(groups)).astype(np.int64) for column in columns], axis=1)
    arm, of_user, hour = groups % len(ARMS), groups // len(ARMS) % count, groups // len(ARMS) // count
    after = _running(of_user * len(ARMS) + arm, sums)
    before = after - sums
    row_before, row_after = (_rows(measures, rows) for rows in (before, after))
    left, right = measures.pair_sides
    moments = row_after[:, left] * row_after[:, right] - row_before[:, left] * row_before[:, right]
    totals = _by(hours, hour, arm, came[of_user], sums)
    by_day = _by(hours, hour, arm, came[of_user] // DAY, moments)
    is_new = before[:, 0] == 0
    hits = ((before[:, 1] == 0) & (after[:, 1] > 0)).astype(np.int64)
    gained = np.stack([is_new.astype(np.int64), hits], axis=1)[:, : 1 + len(measures.hits)]
    matters = gained.any(axis=1)
    users_of = _by(hours, hour[matters], arm[matters], came[of_user[matters]], gained[matters])
    cross = _cross(measures, hours, (of_user, arm, hour), sums)
    first = np.zeros((hours, len(ARMS)), dtype=np.int64)
    seen, at = np.unique(users, return_index=True)  # lists are in order of hours
    np.add.at(first, (came[seen], arms[at]), 1)
    return [_Change(totals[hour], by_day[hour], users_of[hour], cross[hour], first[hour].tolist()) for hour in range(hours)]


def _running(key: Ints, sums: Ints) -> Ints:
    """Return for each row the sums of the rows with the same key up to it."""
    order = np.argsort(key, kind="stable")
    total = np.cumsum(sums[order], axis=0)
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    before = np.repeat(total[starts] - sums[order][starts], np.diff(np.append(starts, len(key))), axis=0)
    running = np.empty_like(sums)
    running[order] = total - before
    return running


def _rows(measures: Measures, totals: Ints) -> Ints:
    """Return users' rows; those of a user without lists are 0."""
    hits = [(totals[:, [place - 1]] > 0).astype(np.int64) for place in measures.hits]
    plain, covariates = totals[:, : measures.totals_width], totals[:, measures.totals_width :]
    has = [(covariates[:, :1] > 0).astype(np.int64)] if measures.covariates else []
    return np.concatenate([(totals[:, :1] > 0).astype(np.int64), plain, *hits, *has, covariates], axis=1)


def _by(hours: int, hour: Ints, arm: Ints, entry: Ints, values: Ints) -> list[list[tuple[int, int, list[int]]]]:
    """Return for each hour the sums of values by arm and entry."""
    keys, inverse = np.unique((hour * len(ARMS) + arm) * (hours + 1) + entry, return_inverse=True)
    sums = np.zeros((len(keys), values.shape[1]), dtype=np.int64)
    np.add.at(sums, inverse, values)
    changes_by_hour: list[list[tuple[int, int, list[int]]]] = [[] for _ in range(hours)]
    for key, total in zip(keys.tolist(), sums.tolist(), strict=True):
        place, entry_of_key = divmod(key, hours + 1)
        changes_by_hour[place // len(ARMS)].append((place % len(ARMS), entry_of_key, total))
    return changes_by_hour


def _cross(measures: Measures, hours: int, groups: tuple[Ints, Ints, Ints], sums: Ints) -> list[list[int] | None]:
    """Return for each hour the change of the cross sums of users with lists in both arms."""
    of_user, arm, hour = groups
    mixed = np.isin(of_user, np.intersect1d(of_user[arm == 0], of_user[arm == 1]))
    if not mixed.any():
        return [None] * hours
    of_user, arm, hour, sums = of_user[mixed], arm[mixed], hour[mixed], sums[mixed]
    layout = CovarianceLayout(measures)
    one, other = layout.sides
    rows_of_arms = [_rows(measures, _running(of_user, sums * (arm == side)[:, None])) for side in (0, 1)]  # groups are in order of hours
    both = (rows_of_arms[0][:, 0] > 0) & (rows_of_arms[1][:, 0] > 0)
    after = rows_of_arms[0][:, one] * rows_of_arms[1][:, other] * both[:, None]
    order = np.argsort(of_user, kind="stable")
    change = after[order]
    change[1:] -= np.where((of_user[order][1:] == of_user[order][:-1])[:, None], after[order][:-1], 0)
    sums_by_hour = np.zeros((hours, layout.width), dtype=np.int64)
    np.add.at(sums_by_hour, hour[order], change)
    return [row if any(row) else None for row in sums_by_hour.tolist()]
