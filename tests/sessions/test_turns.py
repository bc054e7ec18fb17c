"""Tests of turns: they cut time without gaps, no list waits longer than patience allows, and users take turns."""

from __future__ import annotations

from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.sessions.turns import Turns
from tests.support.enrolments import NOON_MS, RANKER, SETTINGS, clock, feed, found, machine_of, shown


def turns_of(patience_ms: int) -> Turns:
    return Turns(pane_ms=SETTINGS.pane_ms, patience_ms=patience_ms, attribution_ms=SETTINGS.attribution_ms)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), st.integers(0, 5_000), st.integers(0, 950))
def test_a_list_waits_at_most_for_patience_after_its_pane(user: str, ts: int, patience_ms: int) -> None:
    turns, pane_ms = turns_of(patience_ms), SETTINGS.pane_ms
    pane_end = ts // pane_ms * pane_ms + pane_ms
    end = turns.end_of(user, ts)
    assert pane_end <= end <= pane_end + patience_ms
    assert (turns.ended(user, end - 1) <= ts, turns.ended(user, end), turns.end_of(user, end - 1)) == (True, end, end)
    bound = turns.due(user, ts) + 1
    assert (turns.final(user, bound - 1) < end, turns.final(user, bound)) == (True, end)


def test_users_are_due_at_different_panes() -> None:
    turns = turns_of(1_000)
    ends = {turns.end_of(f"u{number}", 20_000) for number in range(200)}
    assert ends == {20_000 + 100 * pane for pane in range(1, 11)}


def test_the_lists_of_one_turn_are_enrolled_together_while_the_session_is_open() -> None:
    machine = machine_of(patience_ms=400)
    begin = NOON_MS + 2_000
    begin -= (begin // 100 + crc32(b"u")) % 4 * 100
    lists = [shown("u", begin + at, RANKER) for at in (0, 150, 390, 400)]
    feed(machine, *lists, shown("u", begin + 898, RANKER), clock(begin + 898))
    assert found(machine) == {}
    feed(machine, clock(begin + 900))
    assert found(machine)["ranker", None].sums["a", "ndcg@1"][:3] == (1, 0, 3)
    assert machine.state.sessions.open == 2
