"""Panes and their tallies."""

from __future__ import annotations

from streammetrics.metrics import Scorer, TallyLayout
from streammetrics.windows.panes import Group, add_to

LAYOUT = TallyLayout(Scorer(["mrr@10", "item_hit_rate@10"]))
ONE_LIST = [1] + [0] * (LAYOUT.width - 1)


def test_a_tally_of_zeros_is_removed() -> None:
    pane = {Group(): ONE_LIST}
    add_to(pane, Group(), [-number for number in ONE_LIST])
    assert pane == {}
