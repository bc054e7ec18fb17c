"""The changes of tallies when lists change."""

from __future__ import annotations

import pytest

from streammetrics.events.event_time import pane_start
from streammetrics.metrics import Scorer, Spec, TallyLayout
from streammetrics.sessions.item_text import text_of
from streammetrics.sessions.state import ShownList
from streammetrics.windows.tally_deltas import add_tallies, tally_deltas
from tests.support.tables import for_each

HIGHEST = TallyLayout(Scorer(["dcg@1"], Spec(gain="exp2"), grade_max=18))
(BEST,) = HIGHEST.scorer.score_list([18])


def shown(number: int, pane: int, variant: str) -> ShownList:
    reactions = ((0, "click", 18, pane * 60_000, 0),)
    return ShownList(pane * 60_000, f"r{number}", text_of(("a",)), (("ranker", variant),), (), 0, reactions=reactions)


@pytest.mark.parametrize("count", [1, 30_000])
def test_sums_beyond_64_bits_are_exact(count: int) -> None:
    lists = [shown(number, number % 2, "treatment" if number % 3 else "control") for number in range(count)]
    tallies = tally_deltas(lists, HIGHEST, 60_000, lambda experiments, segments: ["all", *(variant for _, variant in experiments)])
    for pane in (0, 60_000):
        for group in ("all", "control", "treatment"):
            mine = [impression for impression in lists if impression.ts == pane and group in ("all", impression.experiments[0][1])]
            if mine:
                assert tallies[pane, group][:3] == [len(mine), len(mine), len(mine) * BEST]
    assert all(type(number) is int for tally in tallies.values() for number in tally)


def test_removed_lists_beyond_64_bits_sum_to_zero() -> None:
    lists = [shown(number, 0, "control") for number in range(30_000)]
    gained = tally_deltas(lists, HIGHEST, 60_000, lambda experiments, segments: ["all"])
    for impression in lists:
        impression.tallied, impression.exists = impression.facts(), False
    lost = tally_deltas(lists, HIGHEST, 60_000, lambda experiments, segments: ["all"])
    assert [one + other for one, other in zip(gained[0, "all"], lost[0, "all"], strict=True)] == HIGHEST.zero()
    assert gained[0, "all"][2] > 1 << 63


def test_a_group_whose_tally_stays_is_left_out() -> None:
    moved = shown(0, 0, "control")
    moved.tallied, moved.experiments = moved.facts(), (("ranker", "treatment"),)
    deltas = tally_deltas([moved], HIGHEST, 60_000, lambda experiments, segments: ["all", *(variant for _, variant in experiments)])
    assert {group: tally[:2] for (_, group), tally in deltas.items()} == {"control": [-1, -1], "treatment": [1, 1]}


@for_each([-60_001, -60_000, -1, 0, 1, 59_999, 60_000, 1_732_183_200_123])
def test_the_inlined_pane_start_agrees_with_the_function(ts: int) -> None:
    lists = [ShownList(ts, "r", text_of(("a",)), (), (), 0)]
    deltas = tally_deltas(lists, HIGHEST, 60_000, lambda experiments, segments: ["all"])
    assert deltas.keys() == {(pane_start(ts, 60_000), "all")}


def test_adding_tallies_is_associative_with_zero_at_any_size() -> None:
    huge = [1 << 80] * HIGHEST.width
    assert add_tallies(huge, HIGHEST.zero()) == huge
    assert add_tallies(add_tallies(huge, huge), huge) == add_tallies(huge, add_tallies(huge, huge))
