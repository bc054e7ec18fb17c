"""How tallies merge."""

from __future__ import annotations

from streammetrics.metrics import Scorer, TallyLayout
from streammetrics.windows.panes import Group, add_to
from streammetrics.windows.tally_deltas import add

LAYOUT = TallyLayout(Scorer(["mrr@10", "item_hit_rate@10"]), moments=False)
ONE_LIST = [1] + [0] * (LAYOUT.width - 1)


def test_a_tally_that_returns_to_zero_is_forgotten() -> None:
    pane = {Group(): ONE_LIST}
    add_to(pane, Group(), [-number for number in ONE_LIST])
    assert pane == {}


def test_tallies_are_a_monoid_at_any_size() -> None:
    huge = [1 << 80] * LAYOUT.width
    assert add(huge, LAYOUT.zero()) == huge
    assert add(add(huge, huge), huge) == add(huge, add(huge, huge))
