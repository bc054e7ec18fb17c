"""Brute force: what the tallies of some events must be, by the tests' oracle, one user at a time.

Tallies are sums over lists, and a session belongs to one user, so each user is computed alone. Admission depends on whole inputs and is
left out: `require_nothing_late` checks that every event is admitted.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TypeAlias

from streammetrics.config import Settings
from streammetrics.engine.engine import Engine
from streammetrics.events.model import Event
from streammetrics.metrics import TallyLayout
from streammetrics.wiring.engine import build_engine
from tests.oracle import Arrival, Group, Tally, expected_result, parse_rules
from tests.oracle import Settings as OracleSettings
from tests.support.brute_force import engagement_row
from tests.tools.bench.parts import WrongAnswerError

INPUTS = ("impressions", "feedback")
USERS_AT_ONCE = 500
Rows: TypeAlias = dict[tuple[int, str, str], list[int]]
"""The stored integers of each (pane start, experiment, variant)."""


def oracle_settings(settings: Settings) -> OracleSettings:
    join, windows = settings.join, settings.windows
    return OracleSettings(
        inputs=INPUTS,
        gap_ms=join.gap_ms,
        lateness_ms=join.lateness_ms,
        attribution_ms=join.attribution_ms,
        out_of_orderness_ms=join.out_of_orderness_ms,
        idle_ms=join.idle_ms,
        future_ms=1 << 60,
        pane_ms=windows.pane_ms,
        windows_ms=(windows.pane_ms,),
        session_events_max=join.session_events_max,
        items_max=settings.events.limits.items_max,
        rules=parse_rules(join.grades),
        cutoffs=tuple(settings.metrics.cutoffs),
        reformulation_ms=min(settings.engagement.reformulation_ms, join.attribution_ms),
    )


def row_of(tally: Tally, layout: TallyLayout) -> list[int]:
    row = [tally.lists, tally.lists_with_feedback]
    for column in layout.scorer.columns:
        row.append({"sum": tally.sums, "hits": tally.hits, "places": tally.places}[column.kind][str(column.metric)])
    row += [tally.places_with_feedback[str(layout.scorer.columns[index].metric)] for index in layout.place_columns]
    return row + engagement_row(tally, layout)


def add_rows(into: Rows, more: Mapping[tuple[int, str, str], Sequence[int]]) -> None:
    for key, row in more.items():
        sums_before = into.get(key)
        into[key] = list(row) if sums_before is None else [one + other for one, other in zip(sums_before, row, strict=True)]


def brute_force(by_user: Mapping[str, list[tuple[str, Event]]], settings: Settings) -> Rows:
    """Return the tallies of all events, computed on all processors. Events are (input, event), in the order of arrival by user."""
    users = list(by_user)
    portions = [
        ([by_user[user] for user in users[first : first + USERS_AT_ONCE]], settings) for first in range(0, len(users), USERS_AT_ONCE)
    ]
    rows: Rows = {}
    with multiprocessing.get_context("fork").Pool() as pool:
        for part in pool.imap_unordered(_judge_users, portions):
            add_rows(rows, part)
    return rows


def _judge_users(portion: tuple[list[list[tuple[str, Event]]], Settings]) -> Rows:
    users, settings = portion
    engine = _engine(settings.model_dump_json())
    steps = {number: [Arrival(name, event) for name, event in events] for number, events in enumerate(users)}
    result = expected_result(steps, oracle_settings(settings))
    return {(start, *_named(group)): row_of(tally, engine.layout) for (start, group), tally in result.panes.items()}


def _named(group: Group) -> tuple[str, str]:
    return group.experiment, group.variant


@cache
def _engine(settings: str) -> Engine:
    return build_engine(Settings.model_validate_json(settings), INPUTS)


def require_nothing_late(times_by_input: Iterable[Sequence[int]], settings: Settings) -> None:
    """Raise unless every event would be admitted: none is older than the watermark of its input less the allowed lateness."""
    allowed_ms = settings.join.out_of_orderness_ms + settings.join.lateness_ms
    for times in times_by_input:
        newest = 0
        for ts in times:
            if ts < newest - allowed_ms:
                raise WrongAnswerError(f"an event is {newest - ts} ms behind its input: brute force by user would not be the truth")
            newest = max(newest, ts)


def require_equal(what: str, rows: Rows, expected: Rows) -> int:
    """Raise WrongAnswerError at the first difference; returns how many integers were compared."""
    for key in sorted({*rows, *expected}):
        if rows.get(key) != expected.get(key):
            raise WrongAnswerError(f"{what}: pane {key} is {rows.get(key)}, brute force says {expected.get(key)}")
    return sum(map(len, expected.values()))
