"""Experiments: users, their totals and the sums over users, by plain counting over final lists.

A list is enrolled once its session has closed, or once its turn is final for windows. A turn of a user is as many panes as `patience_ms`
holds, at least one; CRC-32 of the user id says at which pane the user's turns begin. Everything is counted from scratch.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from streammetrics.events.model import Exposure, Impression
from tests.oracle.engagement import NAMES as ENGAGEMENT
from tests.oracle.scores import scale_bits
from tests.oracle.stages import Cell, Rollout, Shared, cell_of, entries_of, pairs_of, stage_of
from tests.oracle.tallies import tally_of_one
from tests.oracle.values import Arrival, Settings, ShownList, Step, TaskResult

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
Sums: TypeAlias = tuple[int, int, int, int, int, int]
"""Number of users, and their sums of y, d, y squared, d squared, y times d."""


class Times(NamedTuple):
    """The time range of an experiment's lists (end exclusive), the earlier time range of its covariates, and its stages."""

    first: float = -math.inf
    end: float = math.inf
    earlier: tuple[int, int] | None = None
    rollout: Rollout | None = None


@dataclass(slots=True)
class Scope:
    """One experiment in its whole run, or on one day. `sums` is by (variant, measure); variants without users are absent.

    `covariates`, by the same key: over the users, h (1 for users with earlier lists), x (their mean then), and the sums of h, x, xx,
    xy, xd, hy, hd. Keys with only zeros are absent. `credits` is by pair of teams: users, and their sums of d1 (lists in
    which the first team has the first item), d2 (the other lists), d1d1, d1d2, d2d2; then for each of `credit_grades` y1, y2 (credit of
    the second team in both kinds of lists), y1y1, y1y2, y2y2, y1d1, y1d2, y2d1, y2d2.

    With stages, or if users have no variant, the sums are those of all `stages` together, without covariates and credits, and `pairs` has
    what two cells have in common. `stages` are by the stage of the user's first list and that of the list. An experiment of which only the
    stage "" has lists looks like one without stages.

    `arrivals` are users by variant and hour since the epoch of their first exposure, if there are exposures; else of their first list; if
    users have no variant, lists. With stages a user counts in each, and with the first list of all in the whole experiment. `hours` are
    all lists by variant and hour, without those after a user's first list of another variant. `reactions` are of the same lists, by
    variant: how many, the sum of the squares of each list's number, and how many came later than 0.9 `attribution_ms`. In the scope of a
    day the three are empty, and so are the `hours` and `reactions` of a stage.
    """

    sums: dict[tuple[str, str], Sums] = field(default_factory=dict)
    covariates: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    credits: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    first_exposures: dict[str, int] = field(default_factory=dict)
    arrivals: dict[tuple[str, int], int] = field(default_factory=dict)
    hours: dict[tuple[str, int], int] = field(default_factory=dict)
    reactions: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    multi_exposed: int = 0
    exposed: dict[str, int] = field(default_factory=dict)
    stages: dict[tuple[str, str], Scope] = field(default_factory=dict)
    pairs: dict[tuple[Cell, Cell], dict[str, Shared]] = field(default_factory=dict)


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
    found: dict[tuple[str, int | None], Scope] = {}
    supported: set[str] = set()
    """Experiments with a run that begins by the supported time. Without one, the latest run counts."""
    for name, (first, last) in ((name, run) for name, of_name in runs.items() for run in of_name):
        if last + idle_ms < over_before:
            continue
        start, end, earlier, rollout = times.get(name, Times())
        enrolled = [
            (shown, dict(shown.experiments)[name])
            for shown in result.lists
            if name in dict(shown.experiments)
            and first <= shown.ts <= last
            and start <= shown.ts < end
            and (rollout is None or stage_of(shown, rollout) is not None)
            and (flush or _is_enrolled(shown, result, settings, patience_ms))
        ]
        exposures = [] if rollout is not None else _counted_exposures(steps, result, name, (max(first, start), min(last, end - 1)))
        exposures = [each for each in exposures if flush or each.ts < result.w_ms - settings.lateness_ms]
        is_supported = not flush or first <= result.supported_ts or result.supported_ts == -math.inf
        if name in supported and not is_supported:
            continue  # a wrong clock began this run
        if enrolled or exposures:  # the latest run with enrolled lists or counted exposures is the experiment
            supported |= {name} if is_supported else set()
            found = {key: scope for key, scope in found.items() if key[0] != name}
        has_covariates = earlier is not None and first <= earlier[1] + idle_ms
        history = [shown for shown in result.lists if earlier[0] <= shown.ts < earlier[1]] if earlier and has_covariates else None
        times_counted = {*(shown.ts for shown, _ in enrolled), *(each.ts for each in exposures)}
        entries = {} if rollout is None else entries_of((shown for shown, _ in enrolled), rollout)
        days: list[int | None] = [None, *sorted({ts // DAY_MS for ts in times_counted})]
        for day in days:
            of_day = [(shown, variant) for shown, variant in enrolled if day is None or shown.ts // DAY_MS == day]
            if times_counted:
                found[name, day] = (
                    _scope(of_day, history, settings) if rollout is None else _rollout_scope(of_day, rollout, entries, settings)
                )
                first_exposures = _first_ones([each for each in exposures if day is None or each.ts // DAY_MS == day])
                found[name, day].exposed = dict(Counter(each.variant for each in first_exposures))
                if first_exposures:
                    found[name, day].arrivals = dict(Counter((each.variant, each.ts // HOUR_MS) for each in first_exposures))
                if day is not None:
                    for each in (found[name, day], *found[name, day].stages.values()):
                        each.arrivals, each.hours, each.reactions = {}, {}, {}
    return found


def _counted_exposures(steps: Sequence[Step], result: TaskResult, name: str, span: tuple[float, float]) -> list[Exposure]:
    """Return the admitted exposures to an experiment within a span of time, both ends inclusive."""
    arrivals = [step for step in steps if isinstance(step, Arrival)]
    admitted = [each.event for each, outcome in zip(arrivals, result.outcomes, strict=True) if outcome in ("exposure", "duplicate")]
    own = [event for event in admitted if isinstance(event, Exposure) and event.experiment == name]
    return [event for event in own if span[0] <= event.ts <= span[1]]


def _first_ones(exposures: Sequence[Exposure]) -> list[Exposure]:
    """Return the first exposure of each user."""
    first: dict[str, Exposure] = {}
    for each in sorted(exposures, key=lambda each: (each.ts, each.variant)):
        first.setdefault(each.user_id, each)
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


def _is_enrolled(shown: ShownList, result: TaskResult, settings: Settings, patience_ms: int) -> bool:
    panes = max(1, patience_ms // settings.pane_ms)
    number = shown.ts // settings.pane_ms
    last = next(pane for pane in range(number, number + panes) if (pane + 1 + zlib.crc32(shown.user_id.encode())) % panes == 0)
    closed = any(
        session.closed and session.user_id == shown.user_id and session.first_ts <= shown.ts <= session.last_ts
        for session in result.sessions
    )
    return closed or (last + 1) * settings.pane_ms <= result.f_ms


def _scope(lists: Sequence[tuple[ShownList, str]], history: Sequence[ShownList] | None, settings: Settings) -> Scope:
    scope, first, arrivals, hours = Scope(), Counter[str](), Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    before: dict[str, list[dict[str, Fraction]]] = {}
    totals: dict[str, list[dict[str, tuple[int, int]]]] = {}
    for user in sorted({shown.user_id for shown, _ in lists}):
        own = sorted(
            ((shown.ts, shown.impression_id, variant, shown) for shown, variant in lists if shown.user_id == user), key=lambda one: one[:2]
        )
        first[own[0][2]] += 1
        arrivals[own[0][2], own[0][0] // HOUR_MS] += 1
        before_others = list(takewhile(lambda one, of=own[0][2]: one[2] == of, own))
        hours.update((variant, ts // HOUR_MS) for ts, _, variant, _ in before_others)
        _add_reactions(scope, own[0][2], [shown for *_, shown in before_others], settings)
        if len({variant for _, _, variant, _ in own}) > 1:
            scope.multi_exposed += 1
        else:
            shown = [shown for *_, shown in own]
            totals.setdefault(own[0][2], []).append(_of_user(shown, settings))
            earlier = [shown for shown in history or () if shown.user_id == user]
            before.setdefault(own[0][2], []).append(_means(earlier, settings))
            if own[0][2] == "interleaved":
                _add_credits(scope, shown, settings)
    scope.first_exposures, scope.arrivals, scope.hours = dict(first), dict(arrivals), dict(hours)
    for variant, users in totals.items():
        for measure in users[0]:
            pairs = [user[measure] for user in users]
            scope.sums[variant, measure] = (
                len(pairs),
                sum(y for y, _ in pairs),
                sum(d for _, d in pairs),
                sum(y * y for y, _ in pairs),
                sum(d * d for _, d in pairs),
                sum(y * d for y, d in pairs),
            )
            if history is not None:
                means = [round(known[measure] * 2**40) if measure in known else None for known in before[variant]]
                there = [(x, y, d) for x, (y, d) in zip(means, pairs, strict=True) if x is not None]
                products = [(1, x, x * x, x * y, x * d, y, d) for x, y, d in there]
                if products:
                    scope.covariates[variant, measure] = tuple(sum(column) for column in zip(*products, strict=True))
    return scope


def _add_reactions(scope: Scope, variant: str, lists: Sequence[ShownList], settings: Settings) -> None:
    """Add the reactions to one user's lists."""
    for shown in lists:
        late = [ts for ts in shown.reacted_ms if ts - shown.ts > Fraction(9, 10) * settings.attribution_ms]
        if shown.reacted_ms:
            count, squares, known = scope.reactions.get(variant, (0, 0, 0))
            scope.reactions[variant] = count + len(shown.reacted_ms), squares + len(shown.reacted_ms) ** 2, known + len(late)


def _rollout_scope(lists: Sequence[tuple[ShownList, str]], rollout: Rollout, entries: Mapping[str, str], settings: Settings) -> Scope:
    """Return the scope of an experiment with cells: the lists of two stages counted by themselves, and the pairs of cells.

    `entries`: the stage of each user's first list of all.
    """
    of_stages: dict[tuple[str, str], list[tuple[ShownList, str]]] = {}
    for shown, variant in lists:
        of_stages.setdefault(cell_of(shown, variant, rollout, entries)[:2], []).append((shown, variant))
    if set(of_stages) == {("", "")} and not rollout.by_list:
        return _scope(lists, None, settings)
    stages: dict[tuple[str, str], Scope] = {}
    for stage, own in of_stages.items():
        groups = [[one for one in own if one[1] == variant] for variant in {variant for _, variant in own}] if rollout.by_list else [own]
        stages[stage] = _sum_scopes([_scope(group, None, settings) for group in groups])
        stages[stage].credits = {}
        if rollout.by_list:
            stages[stage].arrivals = dict(Counter((variant, shown.ts // HOUR_MS) for shown, variant in own))
    total = _sum_scopes(list(stages.values()))
    for each in stages.values():
        each.hours, each.reactions = {}, {}
    total.stages = stages
    total.arrivals = dict(sum((Counter(each.arrivals) for (entry, stage), each in stages.items() if entry == stage), Counter()))
    users = []
    for user in {shown.user_id for shown, _ in lists}:
        cells: dict[Cell, list[ShownList]] = {}
        for shown, variant in lists:
            if shown.user_id == user:
                cells.setdefault(cell_of(shown, variant, rollout, entries), []).append(shown)
        seen = Counter(cell[:2] for cell in cells)
        users.append({cell: _of_user(own, settings) for cell, own in cells.items() if rollout.by_list or seen[cell[:2]] == 1})
    measures = sorted({measure for user in users for own in user.values() for measure in own})
    total.pairs = pairs_of(users, measures)
    return total


def _sum_scopes(parts: Sequence[Scope]) -> Scope:
    merged = merge([{("", None): part} for part in parts])
    return merged["", None]


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
    for shown in lists:
        teams = [team for team in shown.teams if team]
        for one in set(teams):
            for other in set(teams):
                if one < other:
                    won = [_won(shown, other, grade) - _won(shown, one, grade) for grade in least]
                    outcome = [(each > 0) - (each < 0) for each in won]
                    outcomes.setdefault((one, other), []).append((teams.index(other) < teams.index(one), outcome))
    for pair, of_pair in outcomes.items():
        d = [sum(second is kind for second, _ in of_pair) for kind in (False, True)]
        own = [1, *d, d[0] ** 2, d[0] * d[1], d[1] ** 2]
        for level in range(len(least)):
            y = [sum(won[level] for second, won in of_pair if second is kind) for kind in (False, True)]
            own += [*y, y[0] ** 2, y[0] * y[1], y[1] ** 2, y[0] * d[0], y[0] * d[1], y[1] * d[0], y[1] * d[1]]
        scope.credits[pair] = tuple(left + right for left, right in zip(scope.credits.get(pair, (0,) * len(own)), own, strict=True))


def _won(shown: ShownList, team: str, least: float) -> int:
    """Return the number of a team's items with at least this grade."""
    return sum(of == team and grade >= least for of, grade in zip(shown.teams, shown.grades, strict=False))


def credit_grades(settings: Settings) -> list[float]:
    """Return the least grade of each credit: the relevant one, then each other grade that counts other items."""
    possible = sorted({rule.grade for rule in settings.rules if rule.grade > 0})
    same = min((grade for grade in possible if grade >= settings.relevance_min), default=None)
    return [settings.relevance_min, *(grade for grade in possible if grade != same)]


def _of_user(lists: Sequence[ShownList], settings: Settings) -> dict[str, tuple[int, int]]:
    """Return numerator and denominator of each measure of one user."""
    tallies = [tally_of_one(shown, settings) for shown in lists]
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
    for key in {key for part in parts for key in part}:
        of_key = [part[key] for part in parts if key in part]
        total = merged[key] = Scope(multi_exposed=sum(scope.multi_exposed for scope in of_key))
        for scope in of_key:
            total.first_exposures = dict(Counter(total.first_exposures) + Counter(scope.first_exposures))
            total.hours = dict(Counter(total.hours) + Counter(scope.hours))
            total.exposed = dict(Counter(total.exposed) + Counter(scope.exposed))
            for variant, (count, squares, late) in scope.reactions.items():
                known = total.reactions.get(variant, (0, 0, 0))
                total.reactions[variant] = known[0] + count, known[1] + squares, known[2] + late
            if scope.exposed or not any(each.exposed for each in of_key):
                total.arrivals = dict(Counter(total.arrivals) + Counter(scope.arrivals))
            for name, sums in scope.sums.items():
                before = total.sums.get(name, (0,) * 6)
                total.sums[name] = tuple(one + other for one, other in zip(before, sums, strict=True))  # type: ignore[assignment]
            for found, own in ((total.covariates, scope.covariates), (total.credits, scope.credits)):
                for name, more in own.items():
                    found[name] = tuple(one + other for one, other in zip(found.get(name, (0,) * len(more)), more, strict=True))
        if any(scope.stages for scope in of_key):  # a part without stages has lists of stage "" only
            total.credits = {}
            staged = [scope.stages or {("", ""): replace(scope, credits={}, hours={}, reactions={})} for scope in of_key]
            names = {stage for stages in staged for stage in stages}
            total.stages = {name: _sum_scopes([stages[name] for stages in staged if name in stages]) for name in names}
        for scope in of_key:
            for pair, measures in scope.pairs.items():
                of_pair = total.pairs.setdefault(pair, {})
                for measure, shared in measures.items():
                    before = of_pair.get(measure, (0,) * 5)
                    of_pair[measure] = tuple(one + other for one, other in zip(before, shared, strict=True))  # type: ignore[assignment]
    return merged
