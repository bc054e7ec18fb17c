"""Tests of users that are stored in pieces: what is read back equals what was there, at any time, and a commit writes only what changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.engine.engine import SaveResult
from streammetrics.errors import StateError
from streammetrics.events.model import Feedback, Impression
from streammetrics.sessions import user_codec
from streammetrics.sessions.rules import JoinRules
from streammetrics.sessions.state import User
from streammetrics.sessions.user_codec import GROWING_BYTES, PIECES_MIN, decode_user
from tests.oracle import Arrival, Step
from tests.support.brute_force import assert_equals_brute_force, machine_for
from tests.support.enrolments import NOON_MS, SETTINGS
from tests.support.machine import Machine, engine_of, facts_of
from tests.support.strategies import Case, batches, cases, tiny_session_cases


@contextmanager
def small_pieces(pieces_min: int) -> Iterator[None]:
    """Store every user in pieces, and whole again after a few of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(user_codec, "GROWING_BYTES", 1)
        patch.setattr(user_codec, "PIECES_MIN", pieces_min)
        yield


PIECES = st.sampled_from((0, 2, 1_000))


@given(st.data(), st.one_of(cases(), tiny_session_cases()), PIECES)
def test_a_growing_user_is_read_back_as_it_was(data: st.DataObject, case: Case, pieces_min: int) -> None:
    machine = machine_for(case)
    with small_pieces(pieces_min):
        for batch in data.draw(batches(case.steps)):
            machine.feed(batch)
            machine.commit()
            stored = machine.store.load(0, list(machine.state.sessions.users)).users
            for user_id, user in machine.state.sessions.users.items():
                if user.sessions:
                    again = decode_user(stored[user_id], machine.engine.rules.join)
                    assert (facts_of(again), again.handed_on_before) == (facts_of(user), user.handed_on_before)
                    assert vars_of(again) == vars_of(user)


def vars_of(user: User) -> tuple[int, int, int]:
    return user.pieces, user.whole_bytes, user.piece_bytes


@given(st.data(), st.one_of(cases(), tiny_session_cases()), PIECES)
def test_tasks_with_growing_users_equal_brute_force_in_any_batches_commits_and_crashes(
    data: st.DataObject, case: Case, pieces_min: int
) -> None:
    machine = machine_for(case)
    with small_pieces(pieces_min):
        machine.feed_all(case.steps, data)
        machine.finish(flush=True)
    assert_equals_brute_force(machine, case, flush=True)


def visit(number: int) -> list[Step]:
    items = tuple(f"item-{number}-{place}" for place in range(10))
    ts = NOON_MS + 200 * number
    return [
        Arrival("events", Impression(f"list-{number}", "u", ts, items)),
        Arrival("events", Feedback("u", ts + 50, items[3], "click", impression_id=f"list-{number}")),
    ]


def saves(visits: int) -> tuple[Machine, list[SaveResult]]:
    """Take one list and one click of a user in each commit."""
    machine = Machine(engine_of(SETTINGS), SETTINGS)
    results: list[SaveResult] = []
    save = machine.engine.save
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine.engine, "save", lambda state, **options: results.append(save(state, **options)) or results[-1])
        for number in range(visits):
            machine.feed(visit(number))
            machine.commit()
    return machine, results


def test_what_a_commit_writes_of_a_user_does_not_grow_with_the_session() -> None:
    machine, result = saves(300)
    assert machine.state.sessions.open == 1
    written = [sum(map(len, changes.users.values())) + sum(len(piece.data) for piece in changes.pieces.values()) for changes, _ in result]
    first, last = sum(written[20:60]) / 40, sum(written[100:]) / 200
    assert last < 1.5 * first
    assert max(piece.state_bytes for changes, _ in result for piece in changes.pieces.values()) > 20 * GROWING_BYTES
    assert sum(written[100:]) / 200 < 1_000  # a list of ten long ids, and a click


def test_pieces_are_deleted_when_the_state_is_whole_again_or_gone() -> None:
    machine, result = saves(200)
    numbers, deleted = 0, 0
    for changes, _ in result:
        if "u" in changes.pieces_gone:
            assert changes.pieces_gone["u"] == numbers
            numbers, deleted = 0, deleted + 1
        for piece in changes.pieces.values():
            numbers += 1
            assert piece.number == numbers
    assert (deleted > 1, numbers >= 1) == (True, True)
    last = machine.engine.save
    gone: list[SaveResult] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine.engine, "save", lambda state, **options: gone.append(last(state, **options)) or gone[-1])
        machine.finish(flush=True)
    assert [changes.pieces_gone["u"] for changes, _ in gone if changes.users_gone] == [numbers]


def test_a_growing_state_that_is_cut_off_is_rejected() -> None:
    machine, _ = saves(2 * PIECES_MIN)
    stored = machine.store.load(0, ["u"]).users["u"]
    for end in (1, 3, 9, len(stored) - 1):
        with pytest.raises(StateError, match="a user's sessions in the store cannot be read"):
            decode_user(stored[:end], JoinRules())
    with pytest.raises(StateError, match="has version 99"):
        decode_user(stored[:6] + b"\x63" + stored[7:], JoinRules())
