"""Inputs with many late events are reported first, with the cause."""

from __future__ import annotations

from typing import Any

from streammetrics.engine.batch import Batch
from streammetrics.events.model import Feedback, Impression
from streammetrics.reports.published import plain, report_state
from streammetrics.state.tables import LoadedUsers
from tests.oracle import Arrival, Settings
from tests.support.machine import Machine, engine_of

HOUR_MS = 3_600_000
NOW_MS = 1_772_359_200_000
SETTINGS = Settings(inputs=("events",), lateness_ms=60_000, pane_ms=60_000, windows_ms=(60_000,), gap_ms=1_000)


def report_of(late: int, in_time: int) -> dict[str, Any]:
    """One event an hour ahead sets the time, as the settings allow. Some events are two seconds too old then."""
    machine = Machine(engine_of(SETTINGS), SETTINGS)
    impressions = [Impression("first", "fast", NOW_MS + HOUR_MS, ("a",))]
    impressions += [Impression(f"r{number}", "u", NOW_MS + HOUR_MS - 62_000, ("a",)) for number in range(late)]
    impressions += [Impression(f"s{number}", f"v{number}", NOW_MS + HOUR_MS, ("a",)) for number in range(in_time)]
    machine.feed([Arrival("events", event) for event in impressions])
    machine.finish(flush=True)
    report: dict[str, Any] = plain(report_state(machine.report(), machine.engine.layout))
    return report


def test_a_report_with_many_late_events_says_so_first() -> None:
    report = report_of(late=3, in_time=6)
    assert next(iter(report)) == "warnings"
    (warning,) = report["warnings"]
    assert warning.startswith("30 % of the events of events (partition 0) are late and refused, 3 of 10. They are ")
    assert "at most 2 s: the event of user fast at offset 0, dated 2026-03-01 11:00:00 UTC, had moved the watermark." in warning
    (late_input,) = report["late_inputs"]
    assert (late_input["events"], late_input["late"], late_input["late_by_max_ms"]) == (10, 3, 2_000)
    assert late_input["watermark_set_by"] == {"offset": 0, "user_id": "fast", "ts": NOW_MS + HOUR_MS}


def test_a_few_late_events_are_only_counted() -> None:
    report = report_of(late=1, in_time=18)
    assert (report["warnings"], report["counters"]["late"]) == ([], 1)


def test_the_detail_of_a_late_event_names_the_event_that_moved_the_watermark() -> None:
    engine = engine_of(SETTINGS)
    machine = Machine(engine, SETTINGS)
    machine.feed([Arrival("events", Impression("first", "fast", NOW_MS + HOUR_MS, ("a",)))])
    (late,) = machine_step(machine, Feedback("u", NOW_MS, "a", "click"))
    assert late.startswith(f"ts {NOW_MS} is 3540000 ms older than the watermark {NOW_MS + HOUR_MS} less the allowed lateness of 60000 ms")
    assert late.endswith(f"set by the event of user 'fast' at offset 0 with ts {NOW_MS + HOUR_MS}")


def machine_step(machine: Machine, event: Feedback) -> list[str]:
    """Take one event and return the details of what was refused."""
    batch = Batch(0, [(1, -1, (event,))], 2)
    machine.engine.load(machine.state, machine.engine.needs(machine.state, batch), LoadedUsers({}))
    return [rejected.detail for rejected in machine.engine.step(machine.state, batch).refused]
