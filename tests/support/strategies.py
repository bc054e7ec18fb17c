"""Hypothesis strategies for small, adversarial traces: few users, few ids, few items, and times that sit on the boundaries.

A case is settings plus the steps of one task. Durations are a few milliseconds, so that a step of time drawn from a handful
of values keeps landing exactly at a gap, a lateness or a pane's edge, or one past it. Hypothesis likes the two ends of a
choice best, so rare values stand in the middle.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar

import msgspec
from hypothesis import settings as profile
from hypothesis import strategies as st

from streammetrics.events.model import Event, Exposure, Feedback, Impression
from tests.oracle import Arrival, Idle, Settings, Step, Tick, parse_rules

T = TypeVar("T")
Feature: TypeAlias = Literal["fragments", "feedback_without_id", "ticks", "futures"]

STEPS_MAX = 25
USERS = ("u", "v")
IDS = ("w", "x", "y", "z")
ITEMS = ("a", "b", "c")
ACTIONS = (
    "click",
    "watch",
    "purchase",
    "click",
    "Click",
    "click",
    "watch",
    "skip",
    "hover",
    "watch",
    "click",
    "purchase",
    "click",
    "watch",
)
VALUES = (None, 29.9, 0.0, 48.0, 30.0)
EXPERIMENTS = (
    (),
    (("ranker", "control"),),
    (("ranker", "interleaved"),),
    (("ranker", "treatment"),),
    (("layout", "wide"), ("ranker", "treatment")),
)
TEAMS = ("", "AB", "BA", "A", "ABC", " BA", "")
"""The teams of a list's items: one letter each, a space for none. Some lists have more items, some fewer."""
SEGMENTS = ((), (("surface", "home"),), (("country", "no"), ("surface", "search")))
RULES = tuple(
    parse_rules(text)
    for text in ("purchase=3, watch>=30=2, click=1, skip=0", "watch>=30=2, watch>=10=1, click=0.5", "click=1, click>=30=3, purchase=2")
)
INPUTS = (("impressions", "feedback"), ("feedback", "impressions"), ("events",), ("impressions", "clicks", "purchases"))
START_MS = 1_732_183_200_000
MIDNIGHT_MS = 1_732_233_600_000


def seeds() -> range:
    """Return the seeds of long simulations; tests/conftest.py sets how many."""
    return range(min(100, profile().max_examples))


@dataclass(frozen=True, slots=True)
class Case:
    """The settings of a run and the steps of one task in arrival order."""

    settings: Settings
    steps: tuple[Step, ...]


def settings(*, session_events_max: int = 1_000, exposures: bool = False) -> st.SearchStrategy[Settings]:
    """Settings with short durations; attribution may exceed the gap."""
    return st.builds(
        lambda pane_ms, panes, **others: Settings(pane_ms=pane_ms, windows_ms=tuple(count * pane_ms for count in panes), **others),
        pane_ms=st.sampled_from((4, 1, 10)),
        panes=st.sampled_from(((1, 3), (2,), (1, 5, 100))),
        inputs=st.sampled_from(INPUTS),
        gap_ms=st.sampled_from((7, 3, 0, 7)),
        lateness_ms=st.sampled_from((2, 0, 6, 2)),
        attribution_ms=st.sampled_from((5, 0, 12, 5)),
        out_of_orderness_ms=st.integers(0, 3),
        idle_ms=st.sampled_from((6, 0)),
        future_ms=st.sampled_from((20, 0)),
        support_jump_ms=st.sampled_from((0, 4, 0)),
        support_users=st.sampled_from((1, 2, 1)),
        support_far_ms=st.sampled_from((100, 9, 100)),
        session_events_max=st.just(session_events_max),
        items_max=st.sampled_from((1_000, 2, 1_000)),
        absolute_positions=st.sampled_from((False, True, False)),
        rules=st.sampled_from(RULES),
        segments=st.sampled_from(((), ("surface",), ("surface", "country"))),
        validity_ms=st.sampled_from((9, 0, 3, 40) if exposures else (None,)),
    )


@st.composite
def cases(draw: st.DrawFn, *, session_events_max: int = 1_000, without: Collection[Feature] = (), exposures: bool = False) -> Case:
    """A run of one task. Name in `without` what to leave out where a law holds only without it.

    Time goes forward in small steps and each event lies a little behind it, so that arrivals are out of order, now and then
    late, and sessions sometimes open, sometimes bridge. Without `ticks` no input is ever idle. With `exposures`, they arrive as well.
    """
    chosen = draw(settings(session_events_max=session_events_max, exposures=exposures))
    kinds = ["whole", "whole", "feedback", "again"]
    kinds += [] if "fragments" in without else ["fragment", "fragment"]
    kinds += [] if "ticks" in without else ["pause"]
    kinds += ["exposure"] * 4 if exposures else []
    kinds += ["feedback", "feedback"]
    gap = chosen.gap_ms
    forward = st.sampled_from((0, 0, 1, 0, 2, gap, 0, 3, 0, gap + 1, 0, 1, chosen.attribution_ms, 0, 1, 0))
    behind = st.sampled_from((0, 0, 0, 1, 0, gap, 2, 0, chosen.lateness_ms + chosen.out_of_orderness_ms, 1, 3, 0, 0, 0))
    now = draw(st.sampled_from((0, START_MS, MIDNIGHT_MS - 8)))
    steps: list[Step] = []
    length = draw(st.integers(0, STEPS_MAX))
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=length, max_size=length)):
        now += draw(forward)
        ts = max(0, now - draw(behind))
        arrivals = [step for step in steps if isinstance(step, Arrival)]
        if kind == "pause":
            steps.append(draw(_pauses(chosen, now)))
        elif kind == "again" and arrivals:
            steps.append(_again(draw, draw(st.sampled_from(arrivals)), chosen))
        else:
            event = _event(draw, kind, ts, [step.event for step in arrivals], without)
            if chosen.absolute_positions and isinstance(event, Impression) and event.positions is None:
                event = _with_gaps(event, draw(_GAPS))
            if exposures and isinstance(event, Impression) and draw(_IS_UNLABELLED):
                event = msgspec.structs.replace(event, experiments=())
            record_ts = None if "futures" in without else draw(_record_times(ts, chosen.future_ms))
            steps.append(Arrival(draw(_inputs_for(event, chosen)), event, record_ts))
    return Case(chosen, tuple(steps))


def tiny_session_cases(*, without: Collection[Feature] = ()) -> st.SearchStrategy[Case]:
    """Cases in which a session is sealed after one to three events."""
    return st.sampled_from((1, 2, 3)).flatmap(lambda limit: cases(session_events_max=limit, without=without))


@st.composite
def interleavings(draw: st.DrawFn, case: Case) -> Case:
    """Return the same arrivals with the inputs interleaved differently. Each input keeps its order. Ticks and idle steps are left out."""
    left = {name: [step for step in case.steps if isinstance(step, Arrival) and step.input == name] for name in case.settings.inputs}
    steps: list[Step] = []
    while any(left.values()):
        steps.append(left[draw(st.sampled_from([name for name in case.settings.inputs if left[name]]))].pop(0))
    return replace(case, steps=tuple(steps))


@st.composite
def batches(draw: st.DrawFn, values: Sequence[T]) -> list[list[T]]:
    """Cut the values into consecutive batches; some may be empty."""
    cuts = sorted(draw(st.lists(st.integers(0, len(values)), max_size=6)))
    return [list(values[start:end]) for start, end in zip([0, *cuts], [*cuts, len(values)], strict=True)]


# Strategies that every event uses are made once: making one takes longer than drawing from it.
_SOME_USER = st.sampled_from((USERS[0], USERS[0], USERS[1], USERS[0]))
"""Mostly one user, so that events meet."""
_SOME_ID, _SOME_ACTION, _SOME_VALUE = st.sampled_from(IDS), st.sampled_from(ACTIONS), st.sampled_from(VALUES)
_SOME_EXPERIMENTS, _SOME_SEGMENTS, _SOME_TEAMS = st.sampled_from(EXPERIMENTS), st.sampled_from(SEGMENTS), st.sampled_from(TEAMS)
_ITEMS_OF_FRAGMENT, _ITEMS_OF_LIST = (st.lists(st.sampled_from(ITEMS), max_size=most) for most in (3, 4))
_SOME_EXPOSURE = st.sampled_from((("ranker", "treatment"), ("layout", "wide"), ("ranker", "control"), ("ranker", "treatment")))
_IS_UNLABELLED = st.sampled_from((True, False, True))
_GAPS = st.sampled_from(((), (2,), (0, 1), (), (1, 0, 2)))
_POSITIONS = st.permutations(range(5))
_IS_AIMED = st.sampled_from((True, True, True, False, True, True))


def _impression(draw: st.DrawFn, ts: int, is_fragment: bool) -> Impression:
    items = tuple(draw(_ITEMS_OF_FRAGMENT if is_fragment else _ITEMS_OF_LIST))
    positions = tuple(sorted(draw(_POSITIONS)[: len(items)])) if is_fragment else None
    return Impression(
        impression_id=draw(_SOME_ID),
        user_id=draw(_SOME_USER),
        ts=ts,
        items=items,
        experiments=draw(_SOME_EXPERIMENTS),
        segments=draw(_SOME_SEGMENTS),
        positions=positions,
        teams=_teams_of(draw(_SOME_TEAMS), len(items)),
    )


def _with_gaps(event: Impression, gaps: Sequence[int]) -> Impression:
    """Return a whole list with empty places before its items, as decoders make it of absolute positions."""
    before = [gaps[index] if index < len(gaps) else 0 for index in range(len(event.items))]
    items = [text for item, gap in zip(event.items, before, strict=True) for text in [*[""] * gap, item]]
    teams = [text for team, gap in zip(event.teams, before, strict=False) for text in [*[""] * gap, team]]
    return msgspec.structs.replace(event, items=tuple(items), teams=tuple(teams))


def _teams_of(letters: str, items: int) -> tuple[str, ...]:
    teams = tuple(letter.strip() for letter in letters.ljust(items)[:items])
    return teams if any(teams) else ()


def _feedback(draw: st.DrawFn, ts: int, before: Sequence[Event], with_id_only: bool) -> Feedback:
    """Return feedback, mostly on an item of an earlier list."""
    items: tuple[str, ...] = ITEMS
    user_id, impression_id = draw(_SOME_USER), draw(_SOME_ID)
    lists = [event for event in before if isinstance(event, Impression)]
    if lists and draw(_IS_AIMED):
        aim = draw(st.sampled_from((lists[-1], *lists)))
        user_id, impression_id, items = aim.user_id, aim.impression_id, tuple(filter(None, aim.items)) or ITEMS
    return Feedback(
        user_id=user_id,
        ts=ts,
        item_id=draw(st.sampled_from(items)),
        action=draw(_SOME_ACTION),
        value=draw(_SOME_VALUE),
        impression_id=impression_id if with_id_only else draw(st.sampled_from((impression_id, None))),
    )


def _event(draw: st.DrawFn, kind: str, ts: int, before: Sequence[Event], without: Collection[Feature]) -> Event:
    if kind == "exposure":
        return Exposure(draw(_SOME_USER), ts, *draw(_SOME_EXPOSURE))
    if kind == "feedback":
        return _feedback(draw, ts, before, "feedback_without_id" in without)
    return _impression(draw, ts, kind == "fragment")


def _inputs_for(event: Event, chosen: Settings) -> st.SearchStrategy[str]:
    """Return the input of such an event; sometimes any other."""
    usual = chosen.inputs[0] if isinstance(event, Impression) else chosen.inputs[-1]
    return st.sampled_from((usual, *chosen.inputs, usual, usual))


def _record_times(ts: int, future_ms: int) -> st.SearchStrategy[int | None]:
    """Return a record timestamp: mostly unknown, or one at the limit of what counts as the future, or just beyond."""
    return st.sampled_from((*[None] * 6, *(at for at in (ts, ts - future_ms, ts - future_ms - 1) if at >= 0), *[None] * 6))


def _again(draw: st.DrawFn, arrival: Arrival, chosen: Settings) -> Arrival:
    """Repeat an event: the same or shifted in time, on the same or another input."""
    shift = draw(st.sampled_from((0, 1, chosen.attribution_ms, chosen.attribution_ms + 1, -1, 0)))
    event = msgspec.structs.replace(arrival.event, ts=max(0, arrival.event.ts + shift))
    return Arrival(draw(st.sampled_from((arrival.input, *chosen.inputs))), event)


def _pauses(chosen: Settings, now: int) -> st.SearchStrategy[Step]:
    """Make some inputs idle, or all of them with a tick near the current event time."""
    clock = now + chosen.idle_ms + chosen.out_of_orderness_ms
    ticks = st.sampled_from((-3, 0, 0, 2, chosen.gap_ms + chosen.lateness_ms + 1)).map(lambda ahead: Tick(max(0, clock + ahead)))
    return st.one_of(ticks, st.frozensets(st.sampled_from(chosen.inputs)).map(Idle))
