"""Tests of the rules and connections that are built from settings."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from streammetrics.config import (
    render_effective,
)
from streammetrics.config.times import epoch_ms
from streammetrics.connectors.kafka.stored_offsets import start_text
from streammetrics.events.json_text import iso_ms
from streammetrics.windows.unique_users import UniqueUserRules
from streammetrics.wiring.engine import build_engine
from tests.support.settings import NAMED, by_flags, configured
from tests.support.tables import for_each


def test_the_times_of_an_experiment_become_milliseconds(tmp_path):
    rules = build_engine(configured(tmp_path, NAMED).settings, ["events"]).rules.experiments
    assert rules is not None
    assert rules.span("ranker-v7") == (1_769_850_000_000, 1_772_319_600_000)
    assert rules.span("another") == (None, None)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-01-31T09:00:00.123900+00:00", 1_769_850_000_123),
        ("2026-01-31T10:00:00.999999+01:00", 1_769_850_000_999),
        ("9999-12-31T23:59:59.999999+00:00", 253_402_300_799_999),
    ],
)
def test_a_time_is_the_same_number_in_every_setting(tmp_path, text, ms):
    toml = f'[kafka]\nstart = "{text}"\n[experiments.named]\nbegins = {{ start = "{text}", cuped_days = 1 }}\nends = {{ end = "{text}" }}\n'
    settings = configured(tmp_path, toml).settings
    rules = build_engine(settings, ["events"]).rules.experiments
    assert rules is not None
    assert rules.span("begins") == (ms, None)
    assert rules.span("ends") == (None, ms)
    assert rules.earlier == (("begins", ms - 86_400_000, ms),)
    assert epoch_ms(settings.kafka.start) == ms == iso_ms(text)


@for_each(
    [
        ("2026-01-31T10:00:00.5+01:00", 1_769_850_000_500),
        ("2026-01-31T09:00:00.0009999Z", 1_769_850_000_000),
        (1_769_850_000_001, 1_769_850_000_001),
        ("1769850000001", 1_769_850_000_001),
        ("1970-01-01T00:00:00Z", 0),
        ("earliest", "earliest"),
        ("latest", "latest"),
    ]
)
def test_reading_can_start_at_a_time(case: tuple[Any, Any]) -> None:
    given, ms = case
    start = by_flags({"kafka.start": given}).settings.kafka.start
    assert (start if isinstance(start, str) else epoch_ms(start)) == ms


def test_a_start_time_from_a_file_is_shown_as_toml(tmp_path):
    for text in ("2026-01-31T09:00:00.250Z", '"2026-01-31T09:00:00.250Z"', "1769850000250", '"1769850000250"'):
        loaded = configured(tmp_path, f"[kafka]\nstart = {text}\n")
        assert tomllib.loads(render_effective(loaded))["kafka"]["start"] == loaded.settings.kafka.start
        assert start_text(loaded.settings.kafka) == "2026-01-31T09:00:00.250+00:00"


def test_the_days_before_an_experiment_become_a_covariate_period(tmp_path):
    toml = "[experiments]\ncuped_verdict = true\n[experiments.named.x]\nstart = 2026-01-31T09:00:00Z\ncuped_days = 2\n"
    toml += '[experiments.named.y]\nstart = "2026-03-01T00:00:00+01:00"\ncuped_verdict = false\n'
    settings = configured(tmp_path, toml).settings
    rules = build_engine(settings, ["events"]).rules.experiments
    assert rules is not None
    assert rules.earlier == (("x", 1_769_850_000_000 - 2 * 86_400_000, 1_769_850_000_000),)
    assert [settings.experiments.policy(name).cuped_verdict for name in ("x", "y", "z")] == [True, False, True]


def test_experiments_can_be_disabled(tmp_path):
    assert build_engine(configured(tmp_path, "[experiments]\nenabled = false\n").settings, ["events"]).user_totals is None


@pytest.mark.parametrize(
    ("users", "enabled", "counted"),
    [("auto", True, True), ("auto", False, False), ("on", False, True), ("on", True, True), ("off", True, False)],
)
def test_users_are_counted_in_windows_if_enabled_or_with_experiments(tmp_path, users, enabled, counted):
    text = f'[windows]\nusers = "{users}"\n[experiments]\nenabled = {str(enabled).lower()}\npatience_ms = 7\n'
    rules = build_engine(configured(tmp_path, text).settings, ["events"]).rules.unique_users
    assert rules == (UniqueUserRules(panes=60, patience_ms=7) if counted else None)
