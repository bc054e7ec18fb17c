"""The inputs and outputs of the oracle. Plain values that compare with `==`; no rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from streammetrics.events.model import Event
from tests.oracle.grades import Rule, parse_rules

OUTCOMES_AT_CLOSE = ("orphan", "out_of_list", "too_old", "matched", "too_many_items", "list_id_reused")
"""Outcomes that are counted when the session closes, like `repeated`."""

LISTS_AT_CLOSE = ("list_exposed", "list_unexposed")
"""Counters of the lists of closed sessions, with exposures: those with some variant, and those without."""

REASONS = (
    *("events", "ahead", "future", "late", "session_full", "duplicate", "unknown_action", *OUTCOMES_AT_CLOSE, "repeated"),
    *("exposure", *LISTS_AT_CLOSE, "place_conflict"),
)
"""All counters. `events` counts all arrivals. `ahead` and `repeated` are counted on top, and so is `exposure`: all admitted exposures,
duplicates included. `place_conflict` counts lists. Each event has at most one of the others."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that change numbers, durations in milliseconds, `inputs` in configuration order.

    `items_max` limits the items of all fragments of a list. Larger single events are refused earlier. With one supporting user,
    every event sets the time of its input, as most traces expect. With `absolute_positions`, an item's rank is its
    position (from 0) plus one; whole lists then have an empty text at each place that shows no item. `validity_ms` is how long an
    exposure gives lists its variant; None without exposures.
    """

    inputs: tuple[str, ...] = ("impressions", "feedback")
    gap_ms: int = 7
    lateness_ms: int = 2
    attribution_ms: int = 5
    out_of_orderness_ms: int = 0
    idle_ms: int = 6
    future_ms: int = 20
    support_jump_ms: int = 0
    support_users: int = 1
    support_far_ms: int = 100
    pane_ms: int = 4
    windows_ms: tuple[int, ...] = (4, 12)
    session_events_max: int = 1_000
    items_max: int = 1_000
    absolute_positions: bool = False
    rules: tuple[Rule, ...] = parse_rules("purchase=3, watch>=30=2, click=1, skip=0")
    segments: tuple[str, ...] = ()
    cutoffs: tuple[int, ...] = (1, 3)
    relevance_min: float = 1
    purchases: tuple[str, ...] = ("purchase",)
    reformulation_ms: int = 3
    satisfied_min: float = 2
    validity_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    """A decoded event of one input. `record_ts` is the record's own time, None if unknown."""

    input: str
    event: Event
    record_ts: int | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """All inputs are caught up and silent at the time `now_ms`."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class Idle:
    """From now on exactly these inputs are caught up and silent, each until something arrives on it."""

    inputs: frozenset[str]


Step: TypeAlias = Arrival | Tick | Idle


@dataclass(frozen=True, slots=True)
class Admitted:
    """An admitted event. `number` is its place among the task's arrivals."""

    number: int
    input: str
    event: Event


class Group(NamedTuple):
    """The key of a tally. `segments` has one (name, value) pair or none."""

    experiment: str = ""
    variant: str = ""
    segments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Engagement:
    """What a user did with one list. `delay_ms` and `rank` are those of the first click, None without one."""

    delay_ms: int | None
    rank: int | None
    purchases: int
    value: int
    opens: bool
    followed: bool


@dataclass(frozen=True, slots=True)
class ShownList:
    """A list with grades: `grades[i]` belongs to `items[i]`, best rank first. An empty text is a place that shows no item.

    `engagement` is what its user did with it. `reacted_ms` are the times of the first reaction with each action to each item.
    """

    user_id: str
    impression_id: str
    ts: int
    items: tuple[str, ...]
    grades: tuple[float, ...]
    experiments: tuple[tuple[str, str], ...]
    segments: tuple[tuple[str, str], ...]
    teams: tuple[str, ...]
    final: bool
    engagement: Engagement
    reacted_ms: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Session:
    """One session: its user, first and last time, number of events, and whether it has closed."""

    user_id: str
    first_ts: int
    last_ts: int
    events: int
    closed: bool


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over the lists of one (pane, group), or over several panes of one group.

    `sums` are the scaled integers of the list metrics by name. `hits`, `places` and `places_with_feedback` belong to the item hit rate.
    The latter is over lists with feedback only. `engagement` has the numerator and denominator of each engagement and assessment metric,
    `delays` the number of lists by the time to their first click in ms.
    """

    lists: int
    lists_with_feedback: int
    sums: Mapping[str, int]
    hits: Mapping[str, int]
    places: Mapping[str, int]
    places_with_feedback: Mapping[str, int]
    engagement: Mapping[str, tuple[int, int]]
    delays: Mapping[int, int]


Panes: TypeAlias = dict[tuple[int, Group], Tally]


@dataclass(frozen=True, slots=True)
class Window:
    """One window: the panes that end at or before `end_ms`. Groups without lists are absent."""

    end_ms: int | None
    groups: Mapping[Group, Tally]


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of one task. W and F are integers, or plus or minus infinity. `outcomes[i]` is that of arrival i.

    `supported_ts` is the greatest time of any input at its end, minus infinity if there is none.

    The outcome of an impression that counts is `shown`. Counters are by (reason, input), without zeros.
    """

    w_ms: float
    f_ms: float
    newest_ts: int | None
    supported_ts: float
    outcomes: tuple[str, ...]
    counters: Mapping[tuple[str, str], int]
    sessions: tuple[Session, ...]
    lists: tuple[ShownList, ...]
    panes: Panes


@dataclass(frozen=True, slots=True)
class Result:
    """All tasks merged. `windows` is by (window_ms, view); `totals` has every reason, over all inputs."""

    tasks: Mapping[int, TaskResult]
    settings: Settings
    w_ms: float
    f_ms: float
    counters: Mapping[tuple[str, str], int]
    totals: Mapping[str, int]
    panes: Panes
    windows: Mapping[tuple[int, str], Window]
