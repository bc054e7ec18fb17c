"""Whether a report is recent and complete enough: each limit just within and just beyond it."""

from __future__ import annotations

import pytest

from streammetrics.reports.freshness import ReportTimes

STALE_MS = 120_000
SETTINGS = {
    "out_of_orderness_ms": 5_000,
    "idle_ms": 30_000,
    "lateness_ms": 60_000,
    "attribution_ms": 1_800_000,
    "pane_ms": 60_000,
    "experiments": {"patience_ms": 600_000},
}
NOW_MS = 1_732_183_200_000
BEHIND_MS = STALE_MS + 35_000
ENTERED_MS = STALE_MS + 60_000 + 1_800_000 + 600_000 + 2 * 60_000


def stale(watermark_ms: int | None, entered_ms: int | None = None, **others: object) -> list[str]:
    given: dict[str, object] = {"tasks": 2, "tasks_committed": 2, "ended": False, "settings": SETTINGS, **others}
    return [*ReportTimes(watermark_ms=watermark_ms, entered_ms=entered_ms, **given).staleness(NOW_MS, STALE_MS)]  # type: ignore[arg-type]


def test_a_recent_report_is_not_stale() -> None:
    assert stale(NOW_MS) == []
    assert stale(NOW_MS - BEHIND_MS) == []


def test_a_watermark_beyond_the_limit_is_stale() -> None:
    (reason,) = stale(NOW_MS - BEHIND_MS - 1)
    assert reason == "the data is stale: the watermark is 2.6 min behind the clock, and at most 2.6 min is allowed"
    (reason,) = stale(NOW_MS - 7 * 86_400_000)
    assert "7 days behind" in reason


def test_a_watermark_ahead_of_the_clock_means_a_wrong_clock() -> None:
    assert stale(NOW_MS + STALE_MS) == []
    assert stale(NOW_MS + STALE_MS + 1) == ["the watermark is 2 min ahead of the clock of this machine: one of the clocks is wrong"]
    assert stale(NOW_MS + 3_600_000) == ["the watermark is 60 min ahead of the clock of this machine: one of the clocks is wrong"]


def test_experiments_that_end_too_long_before_the_watermark_are_behind() -> None:
    assert stale(NOW_MS, NOW_MS - ENTERED_MS) == []
    (reason,) = stale(NOW_MS, NOW_MS - ENTERED_MS - 1)
    assert reason.startswith("the experiments are behind: they end 45 min before the watermark")


@pytest.mark.parametrize(("tasks", "committed"), [(3, 2), (0, 0)])
def test_a_report_without_all_tasks_is_incomplete(tasks: int, committed: int) -> None:
    (reason,) = stale(NOW_MS, tasks=tasks, tasks_committed=committed)
    assert reason.endswith("have committed anything: the others are missing")


def test_a_report_without_event_time_is_not_recent() -> None:
    assert stale(None) == ["no event time is known yet"]


def test_a_replay_that_has_ended_has_no_age() -> None:
    assert stale(None, ended=True) == []


def test_settings_that_a_report_lacks_count_as_zero() -> None:
    (reason,) = stale(NOW_MS - STALE_MS - 1, settings={"experiments": None})
    assert reason.startswith("the data is stale")
