"""Tests of stored state: it is decoded unchanged, and state of another version is rejected with what to do."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.engine.task_state import decode_control
from streammetrics.enrolment.records import decode_record
from streammetrics.enrolment.scopes import BASE, decode_row
from streammetrics.errors import StateError
from streammetrics.reports.merged_runs import decode_scales
from streammetrics.sessions.rules import JoinRules
from streammetrics.sessions.session_events import untangle
from streammetrics.sessions.user_codec import decode_user, encode_user
from streammetrics.state.codec import VERSION
from streammetrics.windows.panes import Group, decode_pane, encode_pane
from streammetrics.windows.user_counts import decode_user_counts
from tests.support.brute_force import machine_for
from tests.support.machine import facts_of
from tests.support.strategies import Case, batches, cases
from tests.support.tables import for_each


@given(st.data(), st.one_of(cases(), cases(exposures=True)))
def test_a_decoded_user_equals_the_encoded_one_at_any_time(data: st.DataObject, case: Case) -> None:
    machine = machine_for(case)
    rules = machine.engine.rules.join
    for batch in data.draw(batches(case.steps)):
        machine.feed(batch)
        for user in machine.state.sessions.users.values():
            for session in user.sessions:
                untangle(session, rules, [])
            assert facts_of(decode_user(encode_user(user), rules)) == facts_of(user)


def test_tallies_of_more_than_64_bits_are_decoded_unchanged() -> None:
    pane = {Group("e", "v", "s", "x"): [1, -(1 << 90), 1 << 70]}
    assert decode_pane(encode_pane(pane)) == pane


NEWER = VERSION + 1


DECODERS: dict[str, Callable[[bytes], object]] = {
    "a user's sessions": lambda stored: decode_user(stored, JoinRules()),
    "a user's totals": decode_record,
    "the user counts of a pane": decode_user_counts,
    "a pane": decode_pane,
    "an experiment": lambda stored: decode_row(BASE, stored),
    "an experiment's scales": decode_scales,
    "a task's control record": decode_control,
}
ENCODERS = {"a user's sessions": msgspec.msgpack, "a user's totals": msgspec.msgpack, "the user counts of a pane": msgspec.msgpack}


@for_each(product(DECODERS, [[], ["another shape"], [{}] * 30]))
def test_state_of_another_version_is_rejected_with_what_to_do(case: tuple[str, list[object]]) -> None:
    what, rest = case
    stored = ENCODERS.get(what, msgspec.json).encode((NEWER, *rest))
    with pytest.raises(StateError, match=rf"{what} in the store has version {NEWER}.*run the version that wrote it.*redis\.namespace"):
        DECODERS[what](stored)


@for_each(DECODERS)
def test_state_of_another_shape_is_rejected(what: str) -> None:
    stored = ENCODERS.get(what, msgspec.json).encode((VERSION, "another shape"))
    with pytest.raises(StateError, match=rf"{what} in the store cannot be read"):
        DECODERS[what](stored)


@for_each(product(DECODERS, [b"", b"\xff", b"not it", b"[]", b"{}", b'["3"]', b'"3"', b"\x80", b"\x90", b"\xa13"]))
def test_bytes_that_are_not_state_are_rejected(case: tuple[str, bytes]) -> None:
    what, stored = case
    with pytest.raises(StateError, match="cannot be read"):
        DECODERS[what](stored)
