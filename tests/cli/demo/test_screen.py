"""Tests of the terminal output of `demo`."""

from __future__ import annotations

import pytest

from streammetrics.cli.demo.demo import TOPICS, load_demo
from streammetrics.cli.demo.screen import LINE_SECONDS, Screen
from streammetrics.connectors.source import Input
from streammetrics.runtime.status import ProcessStatus
from streammetrics.wiring.engine import build_engine
from streammetrics.wiring.reports import build_report_builder
from tests.support.faults import HandClock


def test_a_rate_is_shown_from_the_second_refresh_on(capsys: pytest.CaptureFixture[str]) -> None:
    settings, status, clock = load_demo(None, {}, {}).settings, ProcessStatus(), HandClock(0, look_seconds=0)
    engine = build_engine(settings, TOPICS)
    screen = Screen(settings, engine.layout, status, clock, "treatment")
    screen.on_report(build_report_builder(settings, engine).report(1))
    for count in (10_000, 10_500):
        status.records[Input("impressions", 0)] = count
        screen.refresh()
        clock.sleep(LINE_SECONDS)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("10,000 events · live up to")
    assert second.startswith(f"10,500 events · {500 / LINE_SECONDS:,.0f} events/s · live up to")
