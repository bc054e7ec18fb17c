"""Short traces written by hand, and what the oracle says about them, for the tests of the oracle's stages.

The settings are those of `Settings()` unless a test changes them: gap 7, lateness 2, attribution 5, panes of 4, windows of 4 and
12, all in milliseconds, and no disorder. There is one user, `u`.
"""

from __future__ import annotations

from typing import TypeAlias

from streammetrics.events.model import Feedback, Impression
from tests.oracle import Arrival, Group, Settings, ShownList, Step, expected_result

ONE = Settings(inputs=("events",))
VERY_LATE = Settings(inputs=("events",), lateness_ms=1_000)
ALL = Group()


Pairs: TypeAlias = tuple[tuple[str, str], ...]


def show(impression_id: str, ts: int, items: str = "ab", *, at: str = "events", experiments: Pairs = (), segments: Pairs = ()) -> Arrival:
    """Return a whole list. Each character of `items` is one item."""
    return Arrival(at, Impression(impression_id, "u", ts, tuple(items), experiments, segments))


def fragment(impression_id: str, ts: int, *placed: tuple[str, int], experiments: Pairs = (), segments: Pairs = ()) -> Arrival:
    """Return a fragment of (item, position) pairs."""
    items, positions = tuple(item for item, _ in placed), tuple(position for _, position in placed)
    return Arrival("events", Impression(impression_id, "u", ts, items, experiments, segments, positions))


def feedback(
    ts: int, item: str, action: str = "click", *, to: str | None = None, value: float | None = None, at: str = "events"
) -> Arrival:
    """Return a feedback of user `u`."""
    return Arrival(at, Feedback("u", ts, item, action, value, to))


def outcomes(*steps: Step, under: Settings = VERY_LATE) -> list[str]:
    return list(expected_result(steps, under).tasks[0].outcomes)


def lists(*steps: Step, under: Settings = VERY_LATE) -> list[ShownList]:
    return list(expected_result(steps, under).tasks[0].lists)


def spans(*steps: Step, under: Settings = VERY_LATE) -> list[tuple[int, int, bool]]:
    """Return (first ts, last ts, closed) of every session."""
    return [(one.first_ts, one.last_ts, one.closed) for one in expected_result(steps, under).tasks[0].sessions]
