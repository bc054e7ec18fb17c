"""What the final lists of a task add to experiments: users, their totals, the sums over users, by plain counting.

A list counts once its session has closed, or some patience after it is final for windows. Written from the semantics: nothing is
updated, everything is counted anew from the lists.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from streammetrics.events.model import Impression
from tests.oracle.tallies import tally_of_one
from tests.oracle.values import Arrival, Settings, ShownList, Step, TaskResult

DAY_MS = 86_400_000
Sums: TypeAlias = tuple[int, int, int, int, int, int]
"""Users, and over them the sums of y, d, y squared, d squared, y times d."""
Scores: TypeAlias = Callable[[list[float]], dict[str, int]]


@dataclass(slots=True)
class Scope:
    """One experiment in its whole life, or on one day. `sums` is by (variant, measure); variants without users are absent."""

    sums: dict[tuple[str, str], Sums] = field(default_factory=dict)
    first_exposures: dict[str, int] = field(default_factory=dict)
    multi_exposed: int = 0


def experiments(
    steps: Sequence[Step],
    result: TaskResult,
    settings: Settings,
    score: Scores,
    *,
    idle_ms: float = math.inf,
    patience_ms: int = 0,
    spans: Mapping[str, tuple[float, float]] = {},
    flush: bool = False,
    w_ms: float | None = None,
) -> dict[tuple[str, int | None], Scope]:
    """By experiment and UTC day (None: its whole life). `w_ms` is W before a flush, which ends no experiment."""
    over_before = (result.w_ms if w_ms is None else w_ms) - settings.lateness_ms
    lives = _lives(steps, result, idle_ms)
    found: dict[tuple[str, int | None], Scope] = {}
    for name, (first, last) in ((name, life) for name, of_name in lives.items() for life in of_name):
        if last + idle_ms < over_before:
            continue
        start, end = spans.get(name, (-math.inf, math.inf))
        entered = [
            (shown, dict(shown.experiments)[name])
            for shown in result.lists
            if name in dict(shown.experiments)
            and first <= shown.ts <= last
            and start <= shown.ts < end
            and (flush or _has_entered(shown, result, settings, patience_ms))
        ]
        if entered:  # the latest life that lists have entered is the experiment
            found = {key: scope for key, scope in found.items() if key[0] != name}
        days: list[int | None] = [None, *sorted({shown.ts // DAY_MS for shown, _ in entered})]
        for day in days:
            of_day = [(shown, variant) for shown, variant in entered if day is None or shown.ts // DAY_MS == day]
            if of_day:
                found[name, day] = _scope(of_day, settings, score)
    return found


def _lives(steps: Sequence[Step], result: TaskResult, idle_ms: float) -> dict[str, list[tuple[int, int]]]:
    """First and last time of each life: admitted lists, copies too, no more than `idle_ms` apart."""
    arrivals = [step for step in steps if isinstance(step, Arrival)]
    times: dict[str, set[int]] = {}
    for arrival, fate in zip(arrivals, result.fates, strict=True):
        if isinstance(arrival.event, Impression) and fate in ("shown", "duplicate"):
            for name, _ in arrival.event.experiments:
                times.setdefault(name, set()).add(arrival.event.ts)
    lives: dict[str, list[tuple[int, int]]] = {}
    for name, seen in times.items():
        in_order = sorted(seen)
        starts = [ts for before, ts in zip([None, *in_order], in_order, strict=False) if before is None or ts - before > idle_ms]
        lives[name] = [
            (start, max(ts for ts in in_order if ts < until)) for start, until in zip(starts, [*starts[1:], math.inf], strict=True)
        ]
    return lives


def _has_entered(shown: ShownList, result: TaskResult, settings: Settings, patience_ms: int) -> bool:
    pane_end = shown.ts // settings.pane_ms * settings.pane_ms + settings.pane_ms
    closed = any(
        session.closed and session.user_id == shown.user_id and session.first_ts <= shown.ts <= session.last_ts
        for session in result.sessions
    )
    return closed or pane_end + patience_ms <= result.f_ms


def _scope(lists: Sequence[tuple[ShownList, str]], settings: Settings, score: Scores) -> Scope:
    scope, first = Scope(), Counter[str]()
    totals: dict[str, list[dict[str, tuple[int, int]]]] = {}
    for user in sorted({shown.user_id for shown, _ in lists}):
        own = sorted(
            ((shown.ts, shown.impression_id, variant, shown) for shown, variant in lists if shown.user_id == user), key=lambda one: one[:2]
        )
        first[own[0][2]] += 1
        if len({variant for _, _, variant, _ in own}) > 1:
            scope.multi_exposed += 1
        else:
            totals.setdefault(own[0][2], []).append(_of_user([shown for *_, shown in own], settings, score))
    scope.first_exposures = dict(first)
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
    return scope


def _of_user(lists: Sequence[ShownList], settings: Settings, score: Scores) -> dict[str, tuple[int, int]]:
    """What is above and below in each measure of one user."""
    tallies = [tally_of_one(shown, settings, score) for shown in lists]
    pairs: dict[str, tuple[int, int]] = {}
    for name in tallies[0].sums:
        total = sum(tally.sums[name] for tally in tallies)
        pairs[name] = (total, len(lists))
        if name.startswith("hit_rate@"):
            pairs[f"user_{name}"] = (int(total > 0), 1)
    for name in tallies[0].hits:
        pairs[name] = (sum(tally.hits[name] for tally in tallies), sum(tally.places[name] for tally in tallies))
    return pairs


def merge(parts: Sequence[Mapping[tuple[str, int | None], Scope]]) -> dict[tuple[str, int | None], Scope]:
    """Add up several tasks, which have no users in common."""
    merged: dict[tuple[str, int | None], Scope] = {}
    for key in {key for part in parts for key in part}:
        of_key = [part[key] for part in parts if key in part]
        total = merged[key] = Scope(multi_exposed=sum(scope.multi_exposed for scope in of_key))
        for scope in of_key:
            total.first_exposures = dict(Counter(total.first_exposures) + Counter(scope.first_exposures))
            for name, sums in scope.sums.items():
                before = total.sums.get(name, (0,) * 6)
                total.sums[name] = tuple(one + other for one, other in zip(before, sums, strict=True))  # type: ignore[assignment]
    return merged
