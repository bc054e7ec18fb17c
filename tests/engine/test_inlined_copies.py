"""Functions that are copied into loops that run for each event, because a call costs too much. Copy and original do the same."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.engine.batch import Batch
from streammetrics.engine.engine import Engine
from streammetrics.engine.experiment_runs import ExperimentRules
from streammetrics.engine.input_progress import InputProgress
from streammetrics.engine.label_index import LabelIndex
from streammetrics.engine.rules import EngineRules
from streammetrics.engine.session_join import SessionJoin
from streammetrics.engine.supported_time import SupportRules
from streammetrics.engine.task_state import TaskState
from streammetrics.events.event_time import pane_start
from streammetrics.events.grades import parse_grades
from streammetrics.events.model import Event, Feedback, Impression
from streammetrics.metrics import Scorer
from streammetrics.sessions.fragments import StoredImpression
from streammetrics.sessions.rules import JoinRules
from streammetrics.sessions.session import Session
from streammetrics.sessions.shown_list import UNCHANGED, ShownList, mark_changed, raise_grade
from streammetrics.windows.tally_deltas import tally_deltas

GAP_MS, ATTRIBUTION_MS, PANE_MS = 25, 30, 7
RULES = EngineRules(
    topics=("lists", "clicks"),
    grades=parse_grades("click=1"),
    join=JoinRules(gap_ms=GAP_MS, attribution_ms=ATTRIBUTION_MS),
    out_of_orderness_ms=5,
    lateness_ms=8,
    support=SupportRules(users=1),
    pane_ms=PANE_MS,
    experiments=ExperimentRules(),
)
ENGINE = Engine(RULES, Scorer(["mrr@3"]))
ROW_RULES = replace(RULES, support=SupportRules(jump_ms=6, users=2, far_ms=20))
ROW_ENGINE = Engine(ROW_RULES, Scorer(["mrr@3"]))
TIMES = st.integers(0, 60)
EXPERIMENTS = ((("ranker", "a"),), (("ranker", "b"),), ())


def shown(ts: int, experiments: int = 0, name: str = "") -> Impression:
    return Impression(name or f"r{ts}", "u", ts, ("i",), EXPERIMENTS[experiments])


def step(state: TaskState, topic: int, *events: Event, engine: Engine = ENGINE) -> list[int]:
    """Take events as one batch; return the numbers of those that are rejected."""
    batch = Batch(topic, [(offset, -1, (event,)) for offset, event in enumerate(events)], len(events))
    engine.take(state, engine.needs(state, batch), {})
    return [rejected.offset for rejected in engine.step(state, batch).refused]


@given(st.lists(st.tuples(st.integers(0, 1), st.lists(st.tuples(st.sampled_from("uv"), TIMES), max_size=6)), max_size=6))
def test_admission(batches: list[tuple[int, list[tuple[str, int]]]]) -> None:
    state, progress = ROW_ENGINE.open(None, {}, ()), InputProgress(ROW_RULES)
    for topic, events in batches:
        rejected = step(state, topic, *[Feedback(user, ts, "i", "click") for user, ts in events], engine=ROW_ENGINE)
        least_other = progress.least_other(topic, set())
        admitted = [progress.admit(topic, user, ts, least_other) for user, ts in events]
        assert rejected == [number for number, each in enumerate(admitted) if not each]
        assert (state.progress.watermarks, state.progress.watermark) == (progress.watermarks, progress.watermark)
        assert [each.stored() for each in state.progress.supported] == [each.stored() for each in progress.supported]


@given(st.lists(st.lists(st.tuples(TIMES, st.integers(0, 2)), min_size=1, max_size=6), max_size=4))
def test_times_of_label_sets(batches: list[list[tuple[int, int]]]) -> None:
    state, labels = ENGINE.open(None, {}, ()), LabelIndex(RULES, lambda group: None)
    for batch in batches:
        events = [shown(ts, experiments) for ts, experiments in batch]
        rejected = step(state, 0, *events)
        for event in [event for number, event in enumerate(events) if number not in rejected]:
            entry = labels.fit(event.experiments, (), 0).entry
            if (event.experiments, ()) not in labels.entries:
                labels.add(entry, event.experiments, (), event.ts, 0)
            if not entry.known_from <= event.ts <= entry.known_until:
                labels.extend_runs(entry, event.ts)
            labels.note(entry, event.ts)
        assert [entry.experiments for entry in state.labels.unflushed] == [entry.experiments for entry in labels.unflushed]
        assert [(entry.oldest, entry.newest) for entry in state.labels.unflushed] == [
            (entry.oldest, entry.newest) for entry in labels.unflushed
        ]
        assert state.labels.groups == labels.groups
        assert state.labels.stored()["runs"] == labels.stored()["runs"]


@given(st.lists(TIMES, min_size=1, max_size=10))
def test_extension_of_a_session(times: list[int]) -> None:
    state, session = ENGINE.open(None, {}, ()), Session(max(times), max(times))
    for ts in sorted(times, reverse=True)[:1] + times:
        if not step(state, 0, Feedback("u", ts, "i", "click")):
            session.extend(ts)
        (extended,) = state.sessions.users["u"].sessions
        assert (extended.first, extended.last, extended.size) == (session.first, session.last, session.size)


@given(st.lists(TIMES, min_size=2, max_size=6))
def test_pane_of_a_list_in_the_check_of_due_users(times: list[int]) -> None:
    checked: list[int] = []
    waiting_ms = PANE_MS + RULES.join.attribution_ms - GAP_MS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SessionJoin, "_note_due", lambda joins, user, event: checked.append(event.ts))
        state = ENGINE.open(None, {}, ())
        for ts in times:
            checked.clear()
            if not step(state, 0, shown(ts)):
                last = max(session.last for session in state.sessions.users["u"].sessions)
                assert checked == ([ts] if last >= pane_start(ts, PANE_MS) + waiting_ms else [])


@given(TIMES)
def test_pane_of_a_list_in_tallies(ts: int) -> None:
    listed = ShownList.new(StoredImpression.of(shown(ts), 0))
    deltas = tally_deltas([listed], ENGINE.layout, PANE_MS, lambda experiments, segments: ["all"])
    assert [start for start, _ in deltas] == [pane_start(ts, PANE_MS)]


@pytest.mark.parametrize("is_changed", [False, True])
def test_mark_of_a_changed_list(is_changed: bool) -> None:
    listed = ShownList.new(StoredImpression.of(shown(1), 0))
    listed.tallied = (1, 2) if is_changed else UNCHANGED
    original, changed, changed_by_copy = copy(listed), [], []
    mark_changed(original, changed)
    raise_grade(listed, 0, 1, changed_by_copy)
    assert listed.tallied == original.tallied
    assert (len(changed), len(changed_by_copy)) == ((0, 0) if is_changed else (1, 1))
