"""Experiments: users, their totals and the sums over users, by plain counting over final lists.

A list is enrolled once its session has closed, or once its turn is final for windows. A turn of a user is as many panes as `patience_ms`
holds, at least one; CRC-32 of the user id says at which pane the user's turns begin. Everything is counted from scratch.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

from streammetrics.events.model import Exposure, Feedback, Impression
from tests.oracle.cells import Block, Came, entry, first_entry, wider
from tests.oracle.engagement import NAMES as ENGAGEMENT
from tests.oracle.scores import scale_bits
from tests.oracle.tallies import tally_of_one
from tests.oracle.values import Arrival, Settings, ShownList, Step, TaskResult

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
Sums: TypeAlias = tuple[int, int, int, int, int, int]
"""Number of users, and their sums of y, d, y squared, d squared, y times d."""
Shared: TypeAlias = tuple[int, int, int, int, int]
"""Users with lists in both of two variants, and over them the sums of d d', y y', y d', d y'. The first letter is of the first variant."""


UNMATCHED = ("orphan", "out_of_list", "too_old")
"""Outcomes of feedback that matches no list."""


class Times(NamedTuple):
    """The time range of an experiment's lists (end exclusive), the earlier time range of its covariates, and the segment of its strata."""

    first: float = -math.inf
    end: float = math.inf
    earlier: tuple[int, int] | None = None
    strata: str | None = None


@dataclass(slots=True)
class Scope:
    """One experiment in its whole run, or on one day. A user counts in each variant of which they saw a list there.

    `sums` is by (variant, measure); variants without users are absent. `entries` is the same by (variant, measure, entry), in days or
    longer blocks. An entry is that of the user's first list in the run.

    `covariates`, by (variant, measure): users with earlier lists; and over the users with a mean x there, with h = d and X = x d, the sums
    of h, X, hh, hX, XX, hy, Xy, hd, Xd. Keys with only zeros are absent. `credits` is by pair of teams: users, and their sums of d1 (lists
    in
    which the first team has the first item), d2 (the other lists), d1d1, d1d2, d2d2; then for each of `credit_grades` y1, y2 (credit of
    the second team in both kinds of lists), y1y1, y1y2, y2y2, y1d1, y1d2, y2d1, y2d2.

    By block of hours: `hours`, by (block, variant, entry), the lists, and (y, d) of each measure of lists, with its columns of covariates;
    `new_users`, by (block, variant), users by their first list in the scope; `exposed`, by their first exposure. Only in the whole run:
    `values`, by (block, segment, value, stratum, variant), and `moves`, by (block, the only variant until then, another variant).
    `users` is by (variant, entry): users and those with a hit by cut-off. `pairs` is by two variants in order, and measure. Only in the
    whole run, by variant: `reactions`, how many, the sum of the squares of each list's number, and how many came later than 0.9
    `attribution_ms`; and `reacting`, users with feedback in a closed session that ended after their first list, and those of them with
    unmatched feedback.
    """

    sums: dict[tuple[str, str], Sums] = field(default_factory=dict)
    entries: dict[tuple[str, str, Block], Sums] = field(default_factory=dict)
    covariates: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    credits: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    first_list_users: dict[str, int] = field(default_factory=dict)
    exposed: dict[tuple[int, str], int] = field(default_factory=dict)
    hours: dict[tuple[int, str, Block], tuple[int, dict[str, tuple[int, ...]]]] = field(default_factory=dict)
    new_users: dict[tuple[int, str], int] = field(default_factory=dict)
    values: dict[tuple[int, str, str, str, str], int] = field(default_factory=dict)
    moves: dict[tuple[int, str, str], int] = field(default_factory=dict)
    users: dict[tuple[str, Block], tuple[int, ...]] = field(default_factory=dict)
    pairs: dict[tuple[str, str], dict[str, Shared]] = field(default_factory=dict)
    reactions: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    reacting: dict[str, tuple[int, int]] = field(default_factory=dict)


def experiments(
    steps: Sequence[Step],
    result: TaskResult,
    settings: Settings,
    *,
    idle_ms: float = math.inf,
    patience_ms: int = 0,
    times: Mapping[str, Times] = {},
    flush: bool = False,
    w_ms: float | None = None,
) -> dict[tuple[str, int | None], Scope]:
    """Return scopes by experiment and UTC day (None: the whole run). `w_ms` is W before a flush, which ends no experiment.

    Lists in the earlier time range form covariates in the run that begins at most `idle_ms` after that range.
    """
    over_before = (result.w_ms if w_ms is None else w_ms) - settings.lateness_ms
    runs = _runs(steps, result, settings, idle_ms)
    scopes: dict[tuple[str, int | None], Scope] = {}
    supported: set[str] = set()
    """Experiments with a run that begins by the supported time. Without one, the latest run counts."""
    for name, (first, last) in ((name, run) for name, of_name in runs.items() for run in of_name):
        if last + idle_ms < over_before:
            continue
        start, end, earlier, segment = times.get(name, Times())
        enrolled = [
            (impression, dict(impression.experiments)[name])
            for impression in result.lists
            if name in dict(impression.experiments)
            and first <= impression.ts <= last
            and start <= impression.ts < end
            and (_is_over(impression, result, settings) if flush else _is_enrolled(impression, result, settings, patience_ms))
        ]
        exposures = _counted_exposures(steps, result, name, (max(first, start), min(last, end - 1)))
        exposures = [exposure for exposure in exposures if flush or exposure.ts < result.w_ms - settings.lateness_ms]
        is_supported = not flush or first <= result.supported_ts or result.supported_ts == -math.inf
        if name in supported and not is_supported:
            continue  # a wrong clock began this run
        if enrolled or exposures:  # the latest run with enrolled lists or counted exposures is the experiment
            supported |= {name} if is_supported else set()
            scopes = {key: scope for key, scope in scopes.items() if key[0] != name}
        has_covariates = earlier is not None and first <= earlier[1] + idle_ms
        history = (
            [impression for impression in result.lists if earlier[0] <= impression.ts < earlier[1]] if earlier and has_covariates else None
        )
        times_counted = {*(impression.ts for impression, _ in enrolled), *(exposure.ts for exposure in exposures)}
        first_lists = {
            user: min(
                (impression for impression, _ in enrolled if impression.user_id == user),
                key=lambda impression: (impression.ts, impression.impression_id),
            )
            for user in {impression.user_id for impression, _ in enrolled}
        }
        came = {user: _came(impression, segment) for user, impression in first_lists.items()}
        days: list[int | None] = [None, *sorted({ts // DAY_MS for ts in times_counted})]
        for day in days:
            of_day = [(impression, variant) for impression, variant in enrolled if day is None or impression.ts // DAY_MS == day]
            if times_counted:
                scope = scopes[name, day] = _scope(of_day, came, day, history, settings)
                first_list_users = _first_ones([exposure for exposure in exposures if day is None or exposure.ts // DAY_MS == day])
                scope.exposed = dict(Counter((exposure.ts // HOUR_MS, exposure.variant) for exposure in first_list_users))
                if day is None:
                    _add_reacting(scope, of_day, {user: impression.ts for user, impression in first_lists.items()}, steps, result)
    return scopes


def _came(first: ShownList, segment: str | None) -> Came:
    """Return when a user came: the hour; with strata, and the value of the first list."""
    hour = first.ts // HOUR_MS
    return hour if segment is None else (hour, f"{segment}={dict(first.segments).get(segment, '')}")


def _counted_exposures(steps: Sequence[Step], result: TaskResult, name: str, span: tuple[float, float]) -> list[Exposure]:
    """Return the admitted exposures to an experiment within a span of time, both ends inclusive."""
    arrivals = [step for step in steps if isinstance(step, Arrival)]
    admitted = [arrival.event for arrival, outcome in zip(arrivals, result.outcomes, strict=True) if outcome in ("exposure", "duplicate")]
    events_of_user = [event for event in admitted if isinstance(event, Exposure) and event.experiment == name]
    return [event for event in events_of_user if span[0] <= event.ts <= span[1]]


def _first_ones(exposures: Sequence[Exposure]) -> list[Exposure]:
    """Return the first exposure of each user."""
    first: dict[str, Exposure] = {}
    for exposure in sorted(exposures, key=lambda exposure: (exposure.ts, exposure.variant)):
        first.setdefault(exposure.user_id, exposure)
    return list(first.values())


def _runs(steps: Sequence[Step], result: TaskResult, settings: Settings, idle_ms: float) -> dict[str, list[tuple[int, int]]]:
    """Return first and last time of each run: admitted impressions at most `idle_ms` apart. Copies and oversized fragments count.

    An exposure counts from its time until it is no longer valid.
    """
    arrivals = [step for step in steps if isinstance(step, Arrival)]
    spans: dict[str, set[tuple[int, int]]] = {}
    for arrival, outcome in zip(arrivals, result.outcomes, strict=True):
        event = arrival.event
        if isinstance(event, Impression) and outcome in ("shown", "duplicate", "list_id_reused", "too_many_items"):
            for name, _ in event.experiments:
                spans.setdefault(name, set()).add((event.ts, event.ts))
        elif isinstance(event, Exposure) and outcome in ("exposure", "duplicate"):
            assert settings.validity_ms is not None
            spans.setdefault(event.experiment, set()).add((event.ts, event.ts + settings.validity_ms))
    runs: dict[str, list[tuple[int, int]]] = {}
    for name, of_name in spans.items():
        merged: list[tuple[int, int]] = []
        for first, last in sorted(of_name):
            if merged and first - merged[-1][1] <= idle_ms:
                merged[-1] = merged[-1][0], max(merged[-1][1], last)
            else:
                merged.append((first, last))
        runs[name] = merged
    return runs


def _is_over(impression: ShownList, result: TaskResult, settings: Settings) -> bool:
    """Whether a list could get no feedback after the end of the input."""
    within = min(settings.attribution_ms, settings.gap_ms)
    return result.supported_ts == -math.inf or impression.ts + within <= result.supported_ts


def _is_enrolled(impression: ShownList, result: TaskResult, settings: Settings, patience_ms: int) -> bool:
    panes = max(1, patience_ms // settings.pane_ms)
    number = impression.ts // settings.pane_ms
    last = next(pane for pane in range(number, number + panes) if (pane + 1 + zlib.crc32(impression.user_id.encode())) % panes == 0)
    closed = any(
        session.closed and session.user_id == impression.user_id and session.first_ts <= impression.ts <= session.last_ts
        for session in result.sessions
    )
    return closed or (last + 1) * settings.pane_ms <= result.f_ms


def _scope(
    lists: Sequence[tuple[ShownList, str]],
    came: Mapping[str, Came],
    day: int | None,
    history: Sequence[ShownList] | None,
    settings: Settings,
) -> Scope:
    """Return one scope. `came` is when each user came to the run."""
    scope, totals = Scope(), dict[tuple[str, str], dict[str, tuple[int, int]]]()
    means: dict[str, dict[str, int]] = {}
    for user in sorted({impression.user_id for impression, _ in lists}):
        lists_of_user = sorted(
            ((impression, variant) for impression, variant in lists if impression.user_id == user),
            key=lambda one: (one[0].ts, one[0].impression_id),
        )
        earlier = _means([impression for impression in history or () if impression.user_id == user], settings)
        means[user] = {name: round(mean * 2**20) for name, mean in earlier.items() if not name.startswith("user_")}
        for variant in {variant for _, variant in lists_of_user}:
            impression = [impression for impression, of in lists_of_user if of == variant]
            totals[user, variant] = _of_user(impression, settings)
            _add_users(scope, variant, _entry_in(came[user], day), totals[user, variant])
            if variant == "interleaved":
                _add_credits(scope, impression, settings)
        _add_hours(scope, lists_of_user, came[user], means[user], settings)
        if day is None:
            _add_firsts(scope, lists_of_user, came[user])
            for shown_list, variant in lists_of_user:
                _add_reactions(scope, variant, [shown_list], settings)
    assert len({key[0] for key in (*scope.hours, *scope.new_users)}) <= 96, "the oracle counts by the hour"
    scope.first_list_users = dict(sum((Counter({variant: users}) for (_, variant), users in scope.new_users.items()), Counter()))
    for (user, variant), measures in totals.items():
        entry_day = wider(first_entry(came[user]), 24)
        for measure, (y, d) in measures.items():
            one = (1, y, d, y * y, d * d, y * d)
            _add_to(scope.sums, (variant, measure), one)
            _add_to(scope.entries, (variant, measure, entry_day), one)
            if history is not None and not measure.startswith("user_") and any(measures_of := means[user]):
                h, x = (d, d * measures_of[measure]) if measure in measures_of else (0, 0)
                _add_to(scope.covariates, (variant, measure), (1, h, x, h * h, h * x, x * x, h * y, x * y, h * d, x * d))
    _add_pairs(scope, totals)
    return scope


def _add_to(table: dict[Any, Any], key: object, more: Sequence[int]) -> None:
    table[key] = tuple(one + other for one, other in zip(table.get(key, (0,) * len(more)), more, strict=True))


def _entry_in(came: Came, day: int | None) -> Block:
    """Return the entry of a user: when they came to the run; on a day, that of their age when the day began."""
    hour = came[0] if isinstance(came, tuple) else came
    return entry(came, hour if day is None else max(hour, 24 * day), 1)


def _add_users(scope: Scope, variant: str, of: Block, totals: Mapping[str, tuple[int, int]]) -> None:
    hits = [y for name, (y, _) in totals.items() if name.startswith("user_hit_rate@")]
    _add_to(scope.users, (variant, of), (1, *hits))


def _add_hours(
    scope: Scope, lists_of_user: Sequence[tuple[ShownList, str]], came: Came, means: Mapping[str, int], settings: Settings
) -> None:
    """Add one user's lists to the rows of their hours, and the user to the hour of the first one."""
    for impression, variant in lists_of_user:
        hour = impression.ts // HOUR_MS
        key = hour, variant, entry(came, hour, 1)
        lists, values = scope.hours.get(key, (0, {}))
        for name, (y, d) in _of_user([impression], settings).items():
            if not name.startswith("user_"):
                h, x = (d, d * means[name]) if name in means else (0, 0)
                values = values | {name: tuple(one + other for one, other in zip(values.get(name, (0,) * 4), (y, d, h, x), strict=True))}
        scope.hours[key] = lists + 1, values
    first, variant = lists_of_user[0]
    key_of_first = first.ts // HOUR_MS, variant
    scope.new_users[key_of_first] = scope.new_users.get(key_of_first, 0) + 1


def _add_firsts(scope: Scope, lists_of_user: Sequence[tuple[ShownList, str]], came: Came) -> None:
    """Add one user to the values of the first list, and to the moves between variants."""
    first, variant = lists_of_user[0]
    stratum = first_entry(came)[2]
    for segment, value in (*first.segments, *([("", "")] if stratum else [])):
        key = first.ts // HOUR_MS, segment, value, stratum, variant
        scope.values[key] = scope.values.get(key, 0) + 1
    second = next(((impression, of) for impression, of in lists_of_user if of != variant), None)
    if second is not None:
        move = second[0].ts // HOUR_MS, variant, second[1]
        scope.moves[move] = scope.moves.get(move, 0) + 1


def _add_reactions(scope: Scope, variant: str, lists: Sequence[ShownList], settings: Settings) -> None:
    """Add the reactions to one user's lists."""
    for impression in lists:
        late = [ts for ts in impression.reacted_ms if ts - impression.ts > Fraction(9, 10) * settings.attribution_ms]
        if impression.reacted_ms:
            _add_to(scope.reactions, variant, (len(impression.reacted_ms), len(impression.reacted_ms) ** 2, len(late)))


def _add_reacting(
    scope: Scope, lists: Sequence[tuple[ShownList, str]], came: Mapping[str, int], steps: Sequence[Step], result: TaskResult
) -> None:
    """Add users by the feedback of those of their sessions that have closed and ended after their first list."""
    arrivals = [step for step in steps if isinstance(step, Arrival)]
    kinds: dict[str, set[bool]] = {}
    for arrival, outcome in zip(arrivals, result.outcomes, strict=True):
        event = arrival.event
        if isinstance(event, Feedback) and outcome in ("matched", *UNMATCHED) and event.user_id in came:
            sessions = [
                session
                for session in result.sessions
                if session.user_id == event.user_id and session.first_ts <= event.ts <= session.last_ts
            ]
            if any(session.closed and came[event.user_id] <= session.last_ts for session in sessions):
                kinds.setdefault(event.user_id, set()).add(outcome != "matched")
    for user, variant in {(impression.user_id, variant) for impression, variant in lists}:
        if user in kinds:
            _add_to(scope.reacting, variant, (1, int(True in kinds[user])))


def _add_pairs(scope: Scope, totals: Mapping[tuple[str, str], Mapping[str, tuple[int, int]]]) -> None:
    for one, other in combinations(sorted({variant for _, variant in totals}), 2):
        for user in {user for user, _ in totals}:
            if (user, one) in totals and (user, other) in totals:
                for measure, (y, d) in totals[user, one].items():
                    x, e = totals[user, other][measure]
                    _add_to(scope.pairs.setdefault((one, other), {}), measure, (1, d * e, y * x, y * e, d * x))


def _means(lists: Sequence[ShownList], settings: Settings) -> dict[str, Fraction]:
    """Return a user's mean in each measure over some lists. Measures without lists are absent. For hits per user it is the share of
    lists.
    """
    if not lists:
        return {}
    sums = _of_user(lists, settings)
    means = {}
    for name in sums:
        y, d = sums[name.removeprefix("user_")]
        if d:
            means[name] = Fraction(y, d * 2 ** scale_bits(name.removeprefix("user_")))
    return means


def _add_credits(scope: Scope, lists: Sequence[ShownList], settings: Settings) -> None:
    """Add the credits of one user's interleaved lists, for each pair of teams: the second against the first in order."""
    least = credit_grades(settings)
    outcomes: dict[tuple[str, str], list[tuple[bool, list[int]]]] = {}
    for impression in lists:
        teams = [team for team in impression.teams if team]
        for one in set(teams):
            for other in set(teams):
                if one < other:
                    won = [_won(impression, other, grade) - _won(impression, one, grade) for grade in least]
                    outcome = [(balance > 0) - (balance < 0) for balance in won]
                    outcomes.setdefault((one, other), []).append((teams.index(other) < teams.index(one), outcome))
    for pair, of_pair in outcomes.items():
        d = [sum(second is kind for second, _ in of_pair) for kind in (False, True)]
        row = [1, *d, d[0] ** 2, d[0] * d[1], d[1] ** 2]
        for level in range(len(least)):
            y = [sum(won[level] for second, won in of_pair if second is kind) for kind in (False, True)]
            row += [*y, y[0] ** 2, y[0] * y[1], y[1] ** 2, y[0] * d[0], y[0] * d[1], y[1] * d[0], y[1] * d[1]]
        scope.credits[pair] = tuple(left + right for left, right in zip(scope.credits.get(pair, (0,) * len(row)), row, strict=True))


def _won(impression: ShownList, team: str, least: float) -> int:
    """Return the number of a team's items with at least this grade."""
    return sum(of == team and grade >= least for of, grade in zip(impression.teams, impression.grades, strict=False))


def credit_grades(settings: Settings) -> list[float]:
    """Return the least grade of each credit: the relevant one, then each other grade that counts other items."""
    possible = sorted({rule.grade for rule in settings.rules if rule.grade > 0})
    same = min((grade for grade in possible if grade >= settings.relevance_min), default=None)
    return [settings.relevance_min, *(grade for grade in possible if grade != same)]


def _of_user(lists: Sequence[ShownList], settings: Settings) -> dict[str, tuple[int, int]]:
    """Return numerator and denominator of each measure of one user."""
    tallies = [tally_of_one(impression, settings) for impression in lists]
    pairs: dict[str, tuple[int, int]] = {}
    for name in tallies[0].sums:
        total = sum(tally.sums[name] for tally in tallies)
        pairs[name] = (total, len(lists))
        if name.startswith("hit_rate@"):
            pairs[f"user_{name}"] = (int(total > 0), 1)
    for name in tallies[0].hits:
        pairs[name] = (sum(tally.hits[name] for tally in tallies), sum(tally.places[name] for tally in tallies))
    for name in ENGAGEMENT:  # assessment metrics are no measures
        pairs[name] = (sum(tally.engagement[name][0] for tally in tallies), sum(tally.engagement[name][1] for tally in tallies))
    return pairs


def merge(parts: Sequence[Mapping[tuple[str, int | None], Scope]]) -> dict[tuple[str, int | None], Scope]:
    """Sum the scopes of several tasks, which have no users in common."""
    merged: dict[tuple[str, int | None], Scope] = {}
    for part in parts:
        for key, scope in part.items():
            total = merged.setdefault(key, Scope())
            for name in ("first_list_users", "exposed", "new_users", "values", "moves"):
                setattr(total, name, dict(Counter(getattr(total, name)) + Counter(getattr(scope, name))))
            for name in ("sums", "entries", "covariates", "credits", "users", "reactions", "reacting"):
                for of, more in getattr(scope, name).items():
                    _add_to(getattr(total, name), of, more)
            for pair, measures in scope.pairs.items():
                for measure, shared in measures.items():
                    _add_to(total.pairs.setdefault(pair, {}), measure, shared)
            for row, (lists, values) in scope.hours.items():
                sums_before, sums = total.hours.get(row, (0, {}))
                added: dict[str, tuple[int, ...]] = {**sums}
                for measure, more in values.items():
                    _add_to(added, measure, more)
                total.hours[row] = sums_before + lists, added
    return merged
