"""Lists whose grades changed, as sums."""

from __future__ import annotations

import pytest

from streammetrics.metrics import Scorer, Spec, TallyLayout
from streammetrics.sessions.fragments import StoredImpression
from streammetrics.sessions.shown_list import ShownList
from streammetrics.windows.tally_deltas import changes

HIGHEST = TallyLayout(Scorer(["dcg@1"], Spec(gain="exp2"), grade_max=18), moments=False)
(BEST,) = HIGHEST.scorer.score_list([18])


def shown(number: int, pane: int, variant: str) -> ShownList:
    impression = StoredImpression(f"r{number}", pane * 60_000, ("a",), (("ranker", variant),), (), (), 0)
    return ShownList(impression, impression.ts, impression.items, (0, 18), None)


@pytest.mark.parametrize("count", [1, 30_000])
def test_sums_beyond_64_bits_are_exact_however_many_lists_a_commit_has(count: int) -> None:
    lists = [shown(number, number % 2, "treatment" if number % 3 else "control") for number in range(count)]
    tallies = changes(lists, HIGHEST, 60_000, lambda experiments, segments: ["all", *(variant for _, variant in experiments)])
    for pane in (0, 60_000):
        for group in ("all", "control", "treatment"):
            mine = [each for each in lists if each.ts == pane and group in ("all", each.impression.experiments[0][1])]
            if mine:
                assert tallies[pane, group][:3] == [len(mine), len(mine), len(mine) * BEST]
    assert all(type(number) is int for tally in tallies.values() for number in tally)


def test_what_is_taken_back_beyond_64_bits_leaves_nothing() -> None:
    lists = [shown(number, 0, "control") for number in range(30_000)]
    gained = changes(lists, HIGHEST, 60_000, lambda experiments, segments: ["all"])
    for each in lists:
        each.tallied, each.hits = each.hits, None
    lost = changes(lists, HIGHEST, 60_000, lambda experiments, segments: ["all"])
    assert [one + other for one, other in zip(gained[0, "all"], lost[0, "all"], strict=True)] == HIGHEST.zero()
    assert gained[0, "all"][2] > 1 << 63
