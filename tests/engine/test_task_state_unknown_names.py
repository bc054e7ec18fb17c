"""Unknown actions and event types are counted by name, whatever the batches and crashes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.engine.batch import Batch
from streammetrics.engine.task_state import NAMES_MAX, UnknownNames
from streammetrics.errors import MalformedEvent
from streammetrics.events import EventLimits, native_decoder
from streammetrics.events.model import Feedback
from streammetrics.state.tables import LoadedUsers
from tests.oracle import Arrival, Settings
from tests.support.machine import Machine, engine_of

SETTINGS = replace(Settings(), inputs=("events",))


def of_names(names: UnknownNames) -> list[tuple[str, str, int]]:
    return names.stored()


@given(st.data(), st.lists(st.sampled_from(["click", "Click", "hover", "CLICK"]), max_size=12))
def test_actions_without_a_grade_are_counted_by_name(data: st.DataObject, actions: list[str]) -> None:
    machine = Machine(engine_of(SETTINGS), SETTINGS)
    machine.feed_all([Arrival("events", Feedback("u", ts, "i", action)) for ts, action in enumerate(actions)], data)
    machine.finish(flush=True)
    expected = [("action", name, actions.count(name)) for name in sorted({*actions} - {"click"})]
    assert of_names(machine.state.unknown_names) == expected
    assert sum(count for _, _, count in expected) == machine.state.progress.counts["unknown_action", 0]
    assert {(name_count.name, name_count.events) for name_count in machine.report().unknown_names} == {
        (name, count) for _, name, count in expected
    }


def test_types_that_are_no_event_are_counted_by_name() -> None:
    machine = Machine(engine_of(SETTINGS), SETTINGS)
    values = [b'{"type":"page_view"}', b'{"type":"page_view"}', b'{"type":7}', b"{}", b'{"type":"click"}']
    batch = Batch(0, [(offset, -1, native_decoder(EventLimits())(value)) for offset, value in enumerate(values)], len(values))
    machine.engine.load(machine.state, machine.engine.needs(machine.state, batch), LoadedUsers({}))
    machine.engine.step(machine.state, batch)
    assert of_names(machine.state.unknown_names) == [("type", "click", 1), ("type", "page_view", 2)]


def test_lists_with_a_null_variant_are_counted_by_experiment() -> None:
    machine = Machine(engine_of(SETTINGS), SETTINGS)
    sent = b'{"type":"impression","impression_id":"%d","user_id":"u","ts":5,"items":["a"],"experiments":{"one":"x","other":%s}}'
    values = [sent % (number, variant) for number, variant in enumerate((b"null", b'"y"', b"null"))]
    batch = Batch(0, [(offset, -1, native_decoder(EventLimits())(value)) for offset, value in enumerate(values)], len(values))
    machine.engine.load(machine.state, machine.engine.needs(machine.state, batch), LoadedUsers({}))
    machine.engine.step(machine.state, batch)
    assert of_names(machine.state.unknown_names) == [("null_variant", "other", 2)]


def test_names_beyond_the_limit_are_counted_together() -> None:
    names = UnknownNames()
    for number in range(NAMES_MAX + 5):
        names.add("action", f"a{number:02}")
    names.add("action", "a00")
    names.add("type", "x" * 1_000)
    stored = of_names(names)
    assert len(stored) == NAMES_MAX + 2
    assert stored[:2] == [("action", "", 5), ("action", "a00", 2)]
    assert stored[-1] == ("type", "x" * 128, 1)


def test_a_malformed_event_without_a_type_has_no_name() -> None:
    assert MalformedEvent("bad_id", "").unknown_type is None
