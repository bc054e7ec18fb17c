"""What is stored is read back as it was, and what another version wrote is refused with the way out."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from streammetrics.errors import StateError
from streammetrics.sessions import JoinRules, User
from streammetrics.state import VERSION, decode_pane, decode_user, encode_pane, encode_user
from streammetrics.windows import Group
from tests.strategies import Case, cases
from tests.test_engine import machine_for


def facts_of(user: User) -> list[object]:
    return [
        (
            session.first,
            session.last,
            session.size,
            {identity: (shown.facts, dict(shown.hits or {})) for identity, shown in session.lists.items()},
            session.feedback,
            session.parts,
            session.orphan_ids,
            session.idless_last,
        )
        for session in user.sessions
    ]


@given(cases())
def test_a_user_is_read_back_with_the_same_hits_and_the_same_memory(case: Case) -> None:
    machine = machine_for(case)
    machine.take(case.steps)
    for user in machine.state.users.values():
        for session in user.sessions:
            session.rejoin(case.settings.attribution_ms, [])
        assert facts_of(decode_user(encode_user(user), machine.engine.rules.join)) == facts_of(user)


def test_tallies_beyond_64_bits_are_read_back_whole() -> None:
    pane = {Group("e", "v", "s", "x"): [1, -(1 << 90), 1 << 70]}
    assert decode_pane(encode_pane(pane)) == pane


NEWER = VERSION + 1


def test_a_user_of_another_version_is_refused_and_the_way_out_is_named() -> None:
    with pytest.raises(StateError, match=rf"version {NEWER}.*redis\.namespace"):
        decode_user(msgspec.msgpack.encode((NEWER, [])), JoinRules())


def test_a_pane_of_another_version_is_refused_and_the_way_out_is_named() -> None:
    with pytest.raises(StateError, match=rf"version {NEWER}.*redis\.namespace"):
        decode_pane(msgspec.json.encode((NEWER, [])))


@pytest.mark.parametrize("stored", [b"", b"\xff", b"not it"])
def test_bytes_that_are_no_state_are_refused(stored: bytes) -> None:
    with pytest.raises(StateError, match="cannot be read"):
        decode_pane(stored)
