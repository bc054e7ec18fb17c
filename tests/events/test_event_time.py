"""Event times: pane starts, and the bounds that follow from a watermark."""

from __future__ import annotations

from streammetrics.events.event_time import FOREVER, NEVER, close_bound, final_bound, pane_start


def test_a_pane_includes_its_start_before_and_after_the_epoch() -> None:
    assert [pane_start(ts, 10) for ts in (-11, -10, -1, 0, 9, 10)] == [-20, -10, -10, 0, 0, 10]


def test_bounds_trail_the_watermark_except_at_never_and_forever() -> None:
    assert [close_bound(watermark, 2) for watermark in (NEVER, 20, FOREVER)] == [NEVER, 18, FOREVER]
    assert [final_bound(watermark, 2, 5) for watermark in (NEVER, 20, FOREVER)] == [NEVER, 13, FOREVER]
