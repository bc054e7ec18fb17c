"""Settings of exposures, and what they contradict."""

from __future__ import annotations

from streammetrics.config import Settings
from streammetrics.sessions.rules import ExposureRules


def test_exposures_are_off_unless_they_are_switched_on() -> None:
    assert Settings().exposures.rules(16) is None
    assert not Settings().event_limits.exposures
    on = Settings.model_validate({"exposures": {"enabled": True, "validity_ms": 5}})
    assert on.exposures.rules(3) == ExposureRules(5, 1_000, 3)
    assert on.event_limits.exposures
