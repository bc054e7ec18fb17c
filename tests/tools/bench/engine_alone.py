"""The engine alone in memory: decoded events in, tallies out. Each number of users has its own process.

A visit is three lists of twelve items, each with two feedbacks. Every user comes back once an hour of event time, so that sessions open
and close all the time. Time is processor time, so other programs on the machine do not count. Commits go to the product's memory store,
outside the measured time.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from streammetrics.config import Settings
from streammetrics.connectors.memory import MemoryStore
from streammetrics.connectors.store import Commit
from streammetrics.engine.batch import Batch
from streammetrics.engine.engine import Engine
from streammetrics.engine.task_state import TaskState
from streammetrics.events.event_time import FOREVER
from streammetrics.events.model import Event, Feedback, Impression
from streammetrics.reports.builder import ReportBuilder
from streammetrics.runtime.consume.consumer import CHUNK_RECORDS_MAX
from streammetrics.runtime.consume.limits import CommitRoom, WorkerRules
from streammetrics.runtime.consume.prefetch import with_due
from streammetrics.windows.panes import WindowRules
from streammetrics.wiring.engine import build_engine
from streammetrics.wiring.gc_tuning import tune_garbage_collection
from tests.oracle import stored_values
from tests.tools.bench.parts import WrongAnswerError, peak_mb, read_given, reply
from tests.tools.bench.truth import INPUTS, Rows, require_equal

START_MS = 1_732_183_200_000
RETURN_MS = 3_600_000
LIST_GAP_MS = 45_000
LISTS_A_VISIT = 3
ITEMS = [f"i{number:05d}" for number in range(10_000)]
LENGTH = 12
COMMIT_EVENTS = 20_000
"""Most events of a commit: about those of a second, after which the service commits."""
VARIANTS, SEGMENTS = ((("ranker", "control"),), (("ranker", "treatment"),)), (("surface", "home"),)
"""Equal label sets are one object, as the decoder makes them."""
REACTIONS = (("click", None, 1), ("watch", 48.0, 2), ("click", None, 1), ("purchase", None, 3), ("skip", None, 0), ("watch", 3.0, 0))


def user_of(visit: int, users: int) -> str:
    return f"u{visit * 7_919 % users}"


def places_of(visit: int, turn: int) -> tuple[int, int]:
    """Return the two places of a list (from 0) that get feedback. The first places are more likely, and both may be the same."""
    number = visit * LISTS_A_VISIT + turn
    return (number * 7 % 12) * (number * 5 % 12) // 12, number * 11 % 12


def reaction_of(visit: int, turn: int, which: int) -> tuple[str, float | None, int]:
    return REACTIONS[(visit + 2 * turn + 3 * which) % len(REACTIONS)]


def shown_at(visit: int, turn: int, users: int) -> int:
    return START_MS + visit * RETURN_MS // users + turn * LIST_GAP_MS


def lists(users: int, visits: int) -> Iterator[Impression]:
    """All lists in the order of time."""

    def of_turn(turn: int) -> Iterator[tuple[int, Impression]]:
        for visit in range(visits):
            ts, first = shown_at(visit, turn, users), (visit * 31 + turn * 997) % (len(ITEMS) - LENGTH)
            labels = VARIANTS[visit * 7_919 % users % 2]
            items = tuple(ITEMS[first : first + LENGTH])
            yield ts, Impression(f"r{visit}-{turn}", user_of(visit, users), ts, items, labels, SEGMENTS)

    for _, event in heapq.merge(*map(of_turn, range(LISTS_A_VISIT)), key=lambda pair: pair[0]):
        yield event


def reactions(users: int, visits: int) -> Iterator[Feedback]:
    """All feedback in the order of time: 5 and 20 s after its list."""

    def of_turn(turn: int, which: int) -> Iterator[tuple[int, Feedback]]:
        for visit in range(visits):
            ts = shown_at(visit, turn, users) + (20_000 if which else 5_000)
            first = (visit * 31 + turn * 997) % (len(ITEMS) - LENGTH)
            action, value, _ = reaction_of(visit, turn, which)
            item = ITEMS[first + places_of(visit, turn)[which]]
            yield ts, Feedback(user_of(visit, users), ts, item, action, value, f"r{visit}-{turn}")

    for _, event in heapq.merge(*(of_turn(turn, which) for turn in range(LISTS_A_VISIT) for which in (0, 1)), key=lambda pair: pair[0]):
        yield event


def expected_rows(users: int, visits: int, engine: Engine, cutoffs: tuple[int, ...]) -> Rows:
    """Return the tallies by plain counting: the lists of each pane and variant, each scored by itself."""
    patterns: Counter[tuple[int, str, str, tuple[int, ...]]] = Counter()
    for visit in range(visits):
        variant = "treatment" if visit * 7_919 % users % 2 else "control"
        for turn in range(LISTS_A_VISIT):
            grades = [0] * LENGTH
            for which, place in enumerate(places_of(visit, turn)):
                grades[place] = max(grades[place], reaction_of(visit, turn, which)[2])
            start = shown_at(visit, turn, users) // engine.rules.pane_ms * engine.rules.pane_ms
            patterns[start, "", "", tuple(grades)] += 1
            patterns[start, "ranker", variant, tuple(grades)] += 1
    rows: Rows = {}
    for (start, experiment, variant, pattern), count in patterns.items():
        row = rows.setdefault((start, experiment, variant), engine.layout.zero())
        for index, value in enumerate(_row(pattern, engine, stored_values(pattern, cutoffs))):
            row[index] += count * value
    return rows


def _row(grades: tuple[int, ...], engine: Engine, sums: dict[str, int]) -> list[int]:
    graded, columns = int(any(grades)), engine.layout.scorer.columns
    row = [1, graded]
    for column in columns:
        if column.kind == "sum":
            row.append(sums[str(column.metric)])
        else:
            row.append(sum(grade >= 1 for grade in grades[: column.metric.k]) if column.kind == "hits" else min(column.metric.k, LENGTH))
    return row + [graded * min(columns[index].metric.k, LENGTH) for index in engine.layout.place_columns]


class Timed:
    """One task, stepped as the service does it. The time of the engine is measured separately."""

    def __init__(self, engine: Engine, users_max: int) -> None:
        self.engine, self.users_max, self.room = engine, users_max, CommitRoom(WorkerRules())
        self.store = MemoryStore()
        self.claim = self.store.claim(0, "bench")
        self.state: TaskState = engine.open(None)
        self.seq = 0
        self.step_seconds = self.save_seconds = 0.0
        self.saves = self.users_saved = 0

    def step(self, batch: Batch | None, flush: bool = False) -> None:
        engine, state = self.engine, self.state
        began = time.process_time()
        needs = engine.needs(state, batch)
        asked = time.process_time()
        due_wanted = self.room.due_query(needs.due_before_ms)
        loaded = with_due(self.store, 0, self.store.load(0, needs.users, due_wanted, needs.totals), state.sessions.users)
        answered = time.process_time()
        engine.load(state, needs, loaded)
        engine.step(state, batch, loaded.due, ended_until=FOREVER if flush else None)
        self.step_seconds += time.process_time() - answered + asked - began

    def save(self) -> None:
        if self.engine.needs(self.state, None).totals:
            self.step(None)
        began = time.process_time()
        save = self.engine.save(self.state)
        saved = time.process_time()
        self.seq += 1
        self.store.commit(Commit(0, self.claim.epoch, "bench", self.seq, save.changes))
        self.saves += 1
        self.users_saved += len(save.changes.users)
        committed = time.process_time()
        self.engine.forget(self.state, self.users_max)
        self.save_seconds += time.process_time() - committed + saved - began

    def finish(self) -> None:
        self.step(None, flush=True)
        self.save()
        while self.engine.needs(self.state, None).due_before_ms is not None:
            self.step(None)
            self.save()


def feed(timed: Timed, users: int, visits: int, users_per_commit: int) -> int:
    """Lists and feedback in chunks as the service cuts them, in step by event time. Returns the number of events."""
    sources: tuple[Iterator[Event], Iterator[Event]] = (lists(users, visits), reactions(users, visits))
    offsets, events, saved = [0, 0], 0, 0
    while True:
        before = events
        for topic in (0, 1, 1):
            records = [(offsets[topic] + index, -1, (event,)) for index, event in enumerate(islice(sources[topic], CHUNK_RECORDS_MAX))]
            if records:
                offsets[topic] += len(records)
                events += len(records)
                if len(timed.state.sessions.dirty) + len(records) // 2 > users_per_commit or events - saved > COMMIT_EVENTS:
                    timed.save()
                    saved = events
                timed.step(Batch(topic, records, offsets[topic]))
        if events == before:
            return events


def main() -> None:
    given = read_given()
    users, visits = given["users"], given["visits"]
    settings = Settings.model_validate({"experiments": {"enabled": given.get("experiments", True)}})
    engine = build_engine(settings, INPUTS)
    tune_garbage_collection()
    timed = Timed(engine, users + 10_000)
    events = feed(timed, users, visits, WorkerRules().commit_users_max)
    step_seconds, save_seconds = timed.step_seconds, timed.save_seconds
    peak = peak_mb()
    sessions_open = timed.state.sessions.open
    timed.finish()
    checked = check(timed, users, visits, settings)
    reply(
        {
            "events": events,
            "step_seconds": step_seconds,
            "save_seconds": save_seconds,
            "saves": timed.saves,
            "users_saved": timed.users_saved,
            "sessions_open": sessions_open,
            "peak_mb": peak,
            "checked": checked,
        }
    )


def check(timed: Timed, users: int, visits: int, settings: Settings) -> int:
    windows = WindowRules(pane_ms=60_000, windows_ms=(60_000,), lateness_ms=0, attribution_ms=0)
    builder = ReportBuilder(timed.engine.layout, windows, {}, timed.engine.signature)
    view = timed.store.view([0], {})[0]
    builder.update(0, view)
    if (view.users, timed.state.sessions.open) != (0, 0):
        raise WrongAnswerError(f"{view.users} users and {timed.state.sessions.open} sessions are left after all have closed")
    kept = timed.state.panes.oldest_kept
    rows = {
        (start, group.experiment, group.variant): tally
        for start in builder.aggregator.starts()
        for group, tally in builder.aggregator.pane(start).items()
    }
    expected = expected_rows(users, visits, timed.engine, settings.metrics.cutoffs)
    totals = {key: sum(row[0] for (_, *group), row in expected.items() if tuple(group) == key) for key in {key[1:] for key in expected}}
    if {key: total[0] for key, total in timed.state.panes.totals.items()} != totals:
        raise WrongAnswerError("the cumulative totals are not the sums over all panes")
    return require_equal("engine alone", rows, {key: row for key, row in expected.items() if key[0] >= kept})


if __name__ == "__main__":
    main()
