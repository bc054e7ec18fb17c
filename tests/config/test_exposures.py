"""Settings of exposures, and what they contradict."""

from __future__ import annotations

from pathlib import Path

import pytest

from streammetrics.config import Settings
from streammetrics.sessions.rules import ExposureRules
from tests.support.command_line import called

EXPOSURES = """
[[events.mappings]]
kind = "exposure"
user_id = "user"
ts = "at"
experiment = "flag"
variant = "arm"
"""


def test_exposures_are_off_unless_they_are_switched_on() -> None:
    assert Settings().exposures.rules(16) is None
    assert not Settings().event_limits.exposures
    on = Settings.model_validate({"exposures": {"enabled": True, "validity_ms": 5}})
    assert on.exposures.rules(3) == ExposureRules(5, 1_000, 3)
    assert on.event_limits.exposures


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (EXPOSURES, "events.mappings makes exposures (exposure)"),
        ('[events]\nformat = "otel"', "events.format makes exposures (otel)"),
        ('[events.topics.flags]\nformat = "openfeature"', "events.topics.flags makes exposures (openfeature)"),
    ],
)
def test_a_source_of_exposures_needs_the_switch(tmp_path: Path, text: str, key: str) -> None:
    path = tmp_path / "streammetrics.toml"
    path.write_text(text)
    done = called("check-config", "--config", path)
    assert done.returncode == 2
    assert f"must be true, because {key}" in done.stderr
    assert called("check-config", "--config", path, "--set", "exposures.enabled=true").returncode == 0
