"""The report as JSON."""

from __future__ import annotations

from typing import Any

from streammetrics.events.model import Feedback, Impression
from tests.machine import Machine, engine_of
from tests.oracle import Arrival, Settings

SETTINGS = Settings(inputs=("events",), pane_ms=10, windows_ms=(10,))


def told(*events: Impression | Feedback) -> dict[str, Any]:
    machine = Machine(engine_of(SETTINGS), SETTINGS)
    machine.take([Arrival("events", event) for event in events])
    machine.finish(flush=True)
    return machine.report().to_json(machine.engine.layout)


def test_each_view_of_totals_and_windows_has_its_own_values() -> None:
    report = told(Impression("x", "u", 1, ("i",)), Impression("y", "v", 1, ("i",)), Feedback("u", 2, "i", "click"))
    final = next(window for window in report["windows"] if window["view"] == "final")
    for group in (report["totals"][0], final["groups"][0]):
        assert (group["lists"], group["lists_with_feedback"]) == (2, 1)
        assert (group["values"]["ndcg@3"], group["values_with_feedback"]["ndcg@3"]) == (0.5, 1.0)
