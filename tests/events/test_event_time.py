"""The arithmetic of event time: where panes start, and how far behind a watermark things are settled."""

from __future__ import annotations

from streammetrics.events.event_time import FOREVER, NEVER, close_bound, final_bound, pane_start


def test_a_pane_starts_with_its_first_millisecond_before_the_epoch_as_after_it() -> None:
    assert [pane_start(ts, 10) for ts in (-11, -10, -1, 0, 9, 10)] == [-20, -10, -10, 0, 0, 10]


def test_bounds_are_behind_the_watermark_and_stay_where_it_has_not_begun_or_has_ended() -> None:
    assert [close_bound(watermark, 2) for watermark in (NEVER, 20, FOREVER)] == [NEVER, 18, FOREVER]
    assert [final_bound(watermark, 2, 5) for watermark in (NEVER, 20, FOREVER)] == [NEVER, 13, FOREVER]
