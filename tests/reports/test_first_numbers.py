"""What a young stream waits for: before it has a time, while its first pane is open, and until its first lists are final."""

from __future__ import annotations

from streammetrics.reports.first_numbers import FirstNumber
from streammetrics.windows.panes import Window
from tests.support.committed_state import MINUTE_MS, START_MS, Pipeline, clicked, shown, two_variants

IDLE_SECONDS = 35.0
"""join.idle_ms and join.out_of_orderness_ms: the longest time until inputs with few events have a watermark."""


def live_of(pipeline: Pipeline) -> Window:
    return next(window for window in pipeline.report().windows if window.view == "live")


def test_the_first_list_has_live_numbers_before_the_inputs_agree_on_a_time() -> None:
    pipeline = Pipeline(support_users=5).feed("impressions", shown("u1", "control", ts=START_MS + 20_000))
    pipeline.feed("feedback", clicked("u1", "a", ts=START_MS + 30_000))
    report, live = pipeline.report(), live_of(pipeline)
    assert report.watermark_ms is None
    assert live.end_ms == START_MS + MINUTE_MS
    assert [(values.group.variant, values.lists, values.values["ndcg@10"]) for values in live.groups if not values.group.segment] == [
        ("", 1, 1.0),
        ("control", 1, 1.0),
    ]
    assert report.first_numbers == (
        FirstNumber("live", START_MS + MINUTE_MS, 30 + IDLE_SECONDS),
        FirstNumber("final", START_MS + 32 * MINUTE_MS, 31 * 60 + 30 + IDLE_SECONDS),
    )


def test_what_has_come_is_not_waited_for() -> None:
    pipeline = Pipeline().feed("impressions", shown("u1", "control")).move_on(START_MS + 2 * MINUTE_MS)
    assert [number.number for number in pipeline.report().first_numbers] == ["final", "verdict"]
    pipeline.move_on(START_MS + 33 * MINUTE_MS)
    assert [number.number for number in pipeline.report().first_numbers] == ["verdict"]


def test_a_stream_without_lists_and_one_with_everything_wait_for_nothing() -> None:
    assert Pipeline().report().first_numbers == ()
    assert two_variants().move_on(START_MS + 50 * MINUTE_MS).report().first_numbers == ()
