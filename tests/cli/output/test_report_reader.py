"""Tests of reading the experiments of a report from JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from streammetrics.cli.output.report_reader import (
    EARLIEST_MS,
    LATEST_MS,
    ExperimentResults,
    confidence_text,
    health_lines,
    read_report,
    saved_report,
)
from streammetrics.errors import StreammetricsError
from streammetrics.events.model import TS_MAX
from streammetrics.reports.history import History
from streammetrics.reports.published import encoded
from streammetrics.words.times import minute_text
from tests.support.experiment_samples import experiment
from tests.support.report_page import AT_MS, plain
from tests.support.tables import for_each

WORSE = experiment({"control": 0.5, "treatment": 0.4})
SPLIT = experiment({"control": 0.5, "treatment": 0.5}, name="split", users={"control": 1_800, "treatment": 2_200})


def test_a_report_is_read_back_unchanged() -> None:
    results = read_report(plain(WORSE, SPLIT), "here")
    assert results.experiments == (SPLIT, WORSE)  # the worst comes first
    assert (results.at_ms, results.version) == (AT_MS, "1")
    assert read_report(json.loads(encoded(saved_report(results))), "here") == results


def test_snapshots_of_an_earlier_run_are_left_out() -> None:
    later = replace(WORSE, known_from_ms=AT_MS - 60_000)
    assert [at for at, _ in read_report(plain(WORSE), "here").history.of(WORSE.experiment, "start").snapshots.kept] == [AT_MS - 120_000]
    assert read_report(plain(later), "here").history == History()
    assert read_report(plain(replace(WORSE, known_from_ms=AT_MS - 120_000)), "here").history == read_report(plain(WORSE), "here").history


def test_after_a_replay_the_newest_window_gives_the_time() -> None:
    windows = [{"end_ms": AT_MS + 1}, {"end_ms": AT_MS + 60_000}, {"end_ms": None}]
    assert read_report(plain(WORSE, experiments_entered_ms=None, windows=windows), "here").at_ms == AT_MS + 60_000
    assert read_report(plain(WORSE, experiments_entered_ms=None), "here").at_ms is None


def test_scopes_are_ordered_and_a_first_day_is_shown_once() -> None:
    day = experiment({"control": 0.5, "treatment": 0.4}, scope="day")
    later = experiment({"control": 0.5, "treatment": 0.4}, scope="day", users=500)
    assert [experiment.scope for experiment in read_report(plain(day, WORSE), "here").experiments] == ["start", "day"]
    assert [experiment.scope for (experiment,) in read_report(plain(day, WORSE), "here").scopes_by_experiment()] == ["start"]
    assert [experiment.scope for scopes in read_report(plain(later, WORSE), "here").scopes_by_experiment() for experiment in scopes] == [
        "start",
        "day",
    ]


def test_experiments_can_be_chosen_by_name() -> None:
    results = read_report(plain(WORSE, SPLIT), "here")
    assert [experiment.experiment for experiment in results.only(["split"]).experiments] == ["split"]
    assert [line.experiment for line in saved_report(results.only(["split"])).history] == ["split"]
    assert results.only([]) == results
    with pytest.raises(StreammetricsError, match="the report has no experiment 'other'; it has: ranker, split"):
        results.only(["other"])


@for_each(
    [
        ([], "not a report with experiments"),
        ({"windows": []}, "not a report with experiments"),
        ({"experiments": [{"experiment": "a"}]}, "another version"),
        ({"experiments": [], "history": 3}, "another version"),
        ({"experiments": [], "experiments_entered_ms": "now"}, "another version"),
        ({"experiments": [], "experiments_entered_ms": 10**18}, "damaged.*the time 1000000000000000000 is not from -126576000000 to"),
        ({"experiments": [], "experiments_entered_ms": 10**20}, "damaged.*the time 100000000000000000000 is not from"),
        ({"experiments": [], "experiments_entered_ms": EARLIEST_MS - 1}, "damaged.*the time -126576000001 is not from"),
        ({"experiments": [], "windows": [{"end_ms": LATEST_MS + 1}]}, "damaged.*to 253402387199999 epoch ms"),
        (plain(WORSE, history=[{"experiment": "a", "scope": "start", "looks": {"kept": [[10**18, ["safe", 1, []]]]}}]), "damaged"),
    ]
)
def test_a_value_that_is_not_a_report_is_rejected(case: tuple[object, str]) -> None:
    given, message = case
    with pytest.raises(StreammetricsError, match=f"saved.json is .*{message}"):
        read_report(given, "saved.json")


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (EARLIEST_MS, "1965-12-28 00:00 UTC"),
        (-1, "1969-12-31 23:59 UTC"),
        (0, "1970-01-01 00:00 UTC"),
        (TS_MAX, "9999-12-31 23:59 UTC"),
        (TS_MAX + 1, "10000-01-01 00:00 UTC"),
        (LATEST_MS, "10000-01-01 23:59 UTC"),
    ],
)
def test_all_times_of_a_valid_report_can_be_formatted(at_ms: int, text: str) -> None:
    assert read_report(plain(WORSE, experiments_entered_ms=at_ms, history=[]), "here").at_ms == at_ms
    assert minute_text(at_ms) == text


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"experiments": {"enabled": False}}, "Experiments are switched off: experiments.enabled is false"),
        ({"experiments": {"enabled": True}}, "No experiment has final lists yet, up to 1970-01-01 00:00 UTC"),
        ({}, "No experiment has final lists yet, up to 1970-01-01 00:00 UTC"),
    ],
)
def test_the_reason_for_no_experiments_is_shown(settings: object, text: str) -> None:
    assert read_report({"experiments": [], "experiments_entered_ms": 0, "settings": settings}, "here").empty_text() == text


def test_health_checks_are_described() -> None:
    assert health_lines(WORSE) == [
        "split of users: as configured (p = 1)",
        "feedback without a matching list: 10 %",
    ]
    assert health_lines(SPLIT)[0].startswith("split of users: not as configured (p = ")
    assert confidence_text(WORSE).startswith("Intervals have 95 % confidence and are safe to check at any time.")


def test_an_empty_report_has_no_results() -> None:
    assert read_report({"experiments": []}, "here") == ExperimentResults((), History(), None, "")
