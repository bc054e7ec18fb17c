"""Lists and tallies of windows."""

from __future__ import annotations

from streammetrics.events.model import Impression
from streammetrics.metrics import Scorer, TallyLayout
from streammetrics.sessions.item_text import text_of
from streammetrics.sessions.state import GradedPositions, ShownList, pairs_of
from streammetrics.windows.panes import WindowRules
from tests.oracle import Arrival

LAYOUT = TallyLayout(Scorer(["mrr@10", "item_hit_rate@10"]))
RULES = WindowRules(pane_ms=10, windows_ms=(20,), lateness_ms=2, attribution_ms=5)


def final(arrival: Arrival, hits: GradedPositions = ()) -> ShownList:
    """The final list of an impression, with these places and grades."""
    assert isinstance(arrival.event, Impression)
    event = arrival.event
    reactions = tuple((int(place), "click", grade, event.ts, 0) for place, grade in pairs_of(hits))
    return ShownList(event.ts, event.impression_id, text_of(event.items), event.experiments, event.segments, 0, reactions=reactions)


def tally(lists: int, with_feedback: int = 0, mrr: float = 0.0, hits: int = 0, places: int = 0, places_with_feedback: int = 0) -> list[int]:
    return [lists, with_feedback, int(mrr * 2**40), hits, places, places_with_feedback]
