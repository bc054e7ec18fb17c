"""What an event costs as one session grows: one user whose events come in the dearest ways. The engine alone, in processor time.

All clicks of a shape must be matched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, islice

from rich.table import Table

from streammetrics.config import Settings
from streammetrics.engine.batch import Batch
from streammetrics.events.model import Event, Feedback, Impression
from streammetrics.wiring.engine import build_engine
from streammetrics.wiring.gc_tuning import tune_garbage_collection
from tests.tools.bench.engine_alone import ITEMS, START_MS, Timed
from tests.tools.bench.parts import WrongAnswerError
from tests.tools.bench.truth import INPUTS

SIZES = (250, 500, 1_000, 2_000)
COMMITS = (2, 100)
"""Events of a commit."""
LENGTH = 10
STEP_MS = 100
GAP_MS = 60_000
USER = "u"
SETTINGS = {
    "join": {"gap_ms": GAP_MS, "attribution_ms": GAP_MS, "out_of_orderness_ms": 86_400_000, "lists_open_max": 10_000},
    "events": {"items_max": 10_000},
    "experiments": {"enabled": False},
}


def items_of(number: int) -> tuple[str, ...]:
    first = number * LENGTH % (len(ITEMS) - LENGTH)
    return tuple(ITEMS[first : first + LENGTH])


def a_list(number: int, ts: int, items: tuple[str, ...] = ()) -> Impression:
    return Impression(f"r{number}", USER, ts, items or items_of(number))


def a_click(number: int, ts: int, named: bool = True, item: str = "") -> Feedback:
    return Feedback(USER, ts, item or items_of(number)[number % LENGTH], "click", None, f"r{number}" if named else None)


def fragments_of(number: int, ts: int) -> Iterator[Impression]:
    for place, item in enumerate(items_of(number)):
        yield Impression(f"r{number}", USER, ts + place, (item,), positions=(place,))


def in_pairs(named: bool) -> Iterator[Event]:
    """Lists, each with a click."""
    for number in count():
        ts = START_MS + number * STEP_MS
        yield from (a_list(number, ts), a_click(number, ts + 50, named))


def in_fragments(named: bool) -> Iterator[Event]:
    """Lists of one event for each item, each with a click."""
    for number in count():
        ts = START_MS + number * STEP_MS
        yield from fragments_of(number, ts)
        yield a_click(number, ts + 50, named)


def one_item() -> Iterator[Event]:
    """Fragments that all show one item, and clicks on it without an id."""
    for number in count():
        ts = START_MS + number * STEP_MS
        yield Impression(f"r{number}", USER, ts, (ITEMS[0],), positions=(0,))
        yield a_click(number, ts + 50, named=False, item=ITEMS[0])


def one_list() -> Iterator[Event]:
    """One list of one event for each item."""
    for number in count():
        yield Impression("r0", USER, START_MS + number, (ITEMS[number],), positions=(number,))


def late_lists() -> Iterator[Event]:
    """Clicks without an id, each before its list arrives."""
    for number in count():
        ts = START_MS + number * STEP_MS
        yield from (a_click(number, ts + 50, named=False), a_list(number, ts))


def earlier_copies() -> Iterator[Event]:
    """Lists with a click, and then a copy that is earlier, with other items."""
    for number in count():
        ts = START_MS + number * STEP_MS
        yield from (a_list(number, ts + 10), a_click(number, ts + 50), a_list(number, ts, tuple(reversed(items_of(number)))))


def bridges() -> Iterator[Event]:
    """A list in a session of its own, then one between it and all events before it, which become one session, and a click."""
    for number in count():
        ts = START_MS + number * 3 * GAP_MS // 2
        yield from (a_list(2 * number, ts), a_list(2 * number + 1, ts - 3 * GAP_MS // 4), a_click(2 * number, ts + 50, named=False))


ONE_LIST = "fragments of one list"
"""Each commit scores the list, which has as many items as there were events. `events.items_max` limits that."""
SHAPES: Mapping[str, Callable[[], Iterator[Event]]] = {
    "lists and clicks": lambda: in_pairs(named=True),
    "clicks without an id": lambda: in_pairs(named=False),
    "clicks without an id, lists later": late_lists,
    "fragments of one item": lambda: in_fragments(named=True),
    "fragments, clicks without an id": lambda: in_fragments(named=False),
    "fragments that show one item": one_item,
    ONE_LIST: one_list,
    "copies that replace their list": earlier_copies,
    "events that join two sessions": bridges,
}


def measure(rounds: int, say: Callable[[str], None]) -> tuple[Table, int, float]:
    """Return the costs of all shapes and sizes, how many clicks were checked, and the greatest growth, without that of the one list.

    Each cost is the least of some rounds, because other programs only add.
    """
    tune_garbage_collection()
    table = Table("events of one session", "events a commit", *(f"{size:,}" for size in SIZES), "times the smallest")
    checked, steepest = 0, 0.0
    for name, shape in SHAPES.items():
        for commit_events in COMMITS:
            say(f"one user: {name}, commits of {commit_events}")
            times = [[us_per_event(list(islice(shape(), size)), commit_events) for _ in range(rounds)] for size in SIZES]
            costs = [min(us for us, _ in of_size) for of_size in times]
            checked += sum(clicks for of_size in times for _, clicks in of_size)
            if name != ONE_LIST:
                steepest = max(steepest, costs[-1] / costs[0])
            table.add_row(name, str(commit_events), *(f"{us:.1f}" for us in costs), f"{costs[-1] / costs[0]:.2f}")
    return table, checked, steepest


def us_per_event(events: Sequence[Event], commit_events: int) -> tuple[float, int]:
    """Return the processor time of step and save for each event, and the number of clicks, which must all be matched."""
    timed = Timed(build_engine(Settings.model_validate(SETTINGS), INPUTS), 10)
    offsets = [0, 0]
    for first in range(0, len(events), commit_events):
        for event in events[first : first + commit_events]:
            topic = int(isinstance(event, Feedback))
            offsets[topic] += 1
            timed.step(Batch(topic, [(offsets[topic] - 1, -1, (event,))], offsets[topic]))
        timed.save()
    spent = timed.step_seconds + timed.save_seconds
    timed.finish()
    counts = timed.state.progress.counts
    if (counts["matched", 1], timed.state.sessions.open) != (offsets[1], 0):
        raise WrongAnswerError(f"{counts['matched', 1]} of {offsets[1]} clicks are matched: {dict(counts)}")
    return spent * 1e6 / len(events), offsets[1]
