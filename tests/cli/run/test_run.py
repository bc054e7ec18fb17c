"""Tests of the log while there are no events."""

from __future__ import annotations

from structlog.testing import capture_logs

from streammetrics.cli.run.run import QUIET_SECONDS, FirstEventsLog
from streammetrics.reports.first_numbers import FirstVerdictWait
from streammetrics.reports.freshness import EXAMPLES, FirstEvents
from streammetrics.reports.history import History
from streammetrics.reports.report import Report
from tests.support.committed_state import Now, Pipeline, two_variants


class Clock(Now):
    def monotonic(self) -> float:
        return self.seconds

    def wall_ms(self) -> int:
        return 0


def test_a_wait_is_logged_once_with_an_example_and_so_is_its_end() -> None:
    clock, reports = Clock(1_000.0), list[Report]()
    lines = FirstEventsLog(FirstEvents(("impressions",)), clock, lambda report, history: reports.append(report))
    nothing, numbers = Pipeline().report(), two_variants().report()
    with capture_logs() as logged:
        lines.on_report(nothing, History())
        clock.seconds += QUIET_SECONDS - 1
        lines.on_report(nothing, History())
    assert logged == []
    with capture_logs() as logged:
        clock.seconds += 1
        for report in (nothing, nothing, numbers, numbers):
            lines.on_report(report, History())
    assert [line["event"].partition(".")[0] for line in logged] == [
        "Numbers appear when every task has read events",
        "the first events have come",
    ]
    assert EXAMPLES[0] in logged[0]["example"]
    assert reports == [nothing, nothing, nothing, nothing, numbers, numbers]


def test_events_at_once_are_not_logged() -> None:
    clock = Clock(0.0)
    lines = FirstEventsLog(FirstEvents(("impressions",)), clock, lambda report, history: None)
    with capture_logs() as logged:
        for _ in range(3):
            clock.seconds += QUIET_SECONDS
            lines.on_report(two_variants().report(), History())
    assert logged == []


def test_the_end_of_a_wait_says_when_the_first_verdict_can_come() -> None:
    clock, wait = Clock(0.0), FirstVerdictWait(1_865_000, 600_000)
    lines = FirstEventsLog(FirstEvents(("impressions",), verdict=wait), clock, lambda report, history: None)
    numbers = two_variants().report()
    lines.on_report(Pipeline().report(), History())
    clock.seconds += QUIET_SECONDS
    with capture_logs() as logged:
        lines.on_report(Pipeline().report(), History())
        lines.on_report(numbers, History())
    assert numbers.watermark_ms is not None
    assert logged[-1]["first_verdict"] == f"between {wait.at_text(numbers.watermark_ms)}, or later if users are few"
