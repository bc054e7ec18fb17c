"""Findings: what a report says of experiments, read back whole, or refused with the reason."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from streammetrics.cli.output.report_reader import EARLIEST_MS, LATEST_MS, ReportReader, findings_of, health_lines, honesty, moment, to_json
from streammetrics.errors import StreammetricsError
from streammetrics.events.model import TS_MAX
from streammetrics.experiments import ExperimentReport
from streammetrics.reports.history import History
from tests.experiments.samples import experiment

AT_MS = 1_732_183_200_000
WORSE = experiment({"control": 0.5, "treatment": 0.4})
SPLIT = experiment({"control": 0.5, "treatment": 0.5}, name="split", users={"control": 1_800, "treatment": 2_200})


def plain(*experiments: ExperimentReport, **others: object) -> dict[str, object]:
    history = History().add(AT_MS - 120_000, experiments).to_json()
    found = {"version": "1", "experiments": [each.to_json() for each in experiments], "experiments_entered_ms": AT_MS, "history": history}
    return dict(json.loads(json.dumps(found | others)))


def test_a_report_is_read_back_as_it_was() -> None:
    findings = findings_of(plain(WORSE, SPLIT), "here")
    assert findings.experiments == (WORSE, SPLIT)
    assert (findings.at_ms, findings.version) == (AT_MS, "1")
    assert findings_of(json.loads(json.dumps(to_json(findings))), "here") == findings


def test_the_report_itself_is_the_last_look() -> None:
    looks = findings_of(plain(WORSE), "here").looks(WORSE)
    assert [at for at, _ in looks] == [AT_MS - 120_000, AT_MS]
    assert looks[0][1] == looks[1][1]


def test_the_last_look_is_told_once_though_the_history_has_it_too() -> None:
    history = History().add(AT_MS - 120_000, [WORSE]).add(AT_MS, [WORSE])
    assert [at for at, _ in findings_of(plain(WORSE, history=history.to_json()), "here").looks(WORSE)] == [AT_MS - 120_000, AT_MS]


def test_looks_at_an_earlier_life_of_an_experiment_are_not_told() -> None:
    is_snapshot = replace(WORSE, known_from_ms=AT_MS - 60_000)
    assert [at for at, _ in findings_of(plain(is_snapshot), "here").looks(is_snapshot)] == [AT_MS]
    assert findings_of(plain(replace(WORSE, known_from_ms=AT_MS - 120_000)), "here").history == findings_of(plain(WORSE), "here").history


def test_of_an_input_that_has_ended_the_newest_window_says_when() -> None:
    windows = [{"end_ms": AT_MS + 1}, {"end_ms": AT_MS + 60_000}, {"end_ms": None}]
    assert findings_of(plain(WORSE, experiments_entered_ms=None, windows=windows), "here").at_ms == AT_MS + 60_000
    assert findings_of(plain(WORSE, experiments_entered_ms=None), "here").at_ms is None


def test_scopes_come_in_the_order_of_their_length_and_a_first_day_is_not_told_twice() -> None:
    day = experiment({"control": 0.5, "treatment": 0.4}, scope="day")
    later = experiment({"control": 0.5, "treatment": 0.4}, scope="day", users=500)
    assert [each.scope for each in findings_of(plain(day, WORSE), "here").experiments] == ["start", "day"]
    assert [each.scope for each in findings_of(plain(day, WORSE), "here").message()] == ["start"]
    assert [each.scope for each in findings_of(plain(later, WORSE), "here").message()] == ["start", "day"]


def test_experiments_are_chosen_by_name() -> None:
    findings = findings_of(plain(WORSE, SPLIT), "here")
    assert [each.experiment for each in findings.only(["split"]).experiments] == ["split"]
    assert [trail["experiment"] for trail in to_json(findings.only(["split"]))["history"]] == ["split"]
    assert findings.only([]) == findings
    with pytest.raises(StreammetricsError, match="no experiment 'other' in the report; there are: ranker, split"):
        findings.only(["other"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "no report with experiments"),
        ({"windows": []}, "no report with experiments"),
        ({"experiments": [{"experiment": "a"}]}, "another version"),
        ({"experiments": [], "history": 3}, "another version"),
        ({"experiments": [], "experiments_entered_ms": "now"}, "another version"),
        ({"experiments": [], "experiments_entered_ms": 10**18}, "damaged.*the time 1000000000000000000, allowed are -126576000000 to"),
        ({"experiments": [], "experiments_entered_ms": 10**20}, "damaged.*the time 100000000000000000000, allowed are"),
        ({"experiments": [], "experiments_entered_ms": EARLIEST_MS - 1}, "damaged.*the time -126576000001, allowed are"),
        ({"experiments": [], "windows": [{"end_ms": LATEST_MS + 1}]}, "damaged.*to 253402387199999 ms"),
        (plain(WORSE, history=[{"experiment": "a", "scope": "start", "looks": {"kept": [[10**18, ["safe", 1, []]]]}}]), "damaged"),
    ],
)
def test_what_is_no_report_is_refused_by_name(given: object, said: str) -> None:
    with pytest.raises(StreammetricsError, match=f"saved.json is .*{said}"):
        findings_of(given, "saved.json")


@pytest.mark.parametrize(
    ("at_ms", "told"),
    [
        (EARLIEST_MS, "1965-12-28 00:00 UTC"),
        (-1, "1969-12-31 23:59 UTC"),
        (0, "1970-01-01 00:00 UTC"),
        (TS_MAX, "9999-12-31 23:59 UTC"),
        (TS_MAX + 1, "10000-01-01 00:00 UTC"),
        (LATEST_MS, "10000-01-01 23:59 UTC"),
    ],
)
def test_times_that_a_sound_report_may_hold_are_read_and_told(at_ms: int, told: str) -> None:
    assert findings_of(plain(WORSE, experiments_entered_ms=at_ms, history=[]), "here").at_ms == at_ms
    assert moment(at_ms) == told


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"experiments": {"enabled": False}}, "Experiments are switched off: experiments.enabled is false"),
        ({"experiments": {"enabled": True}}, "No experiment has final lists yet, up to 1970-01-01 00:00 UTC"),
        (["another shape"], "No experiment has final lists yet, up to 1970-01-01 00:00 UTC"),
    ],
)
def test_why_there_is_no_experiment_is_told(settings: object, told: str) -> None:
    assert findings_of({"experiments": [], "experiments_entered_ms": 0, "settings": settings}, "here").none_told() == told


def test_health_is_told_in_words() -> None:
    assert health_lines(WORSE) == [
        "split of users: as it should be (p = 1)",
        "users in several variants: 3 (0.075 %), excluded",
        "feedback that counts for no list: 10 %",
    ]
    assert health_lines(SPLIT)[0].startswith("split of users: not as it should be (p = ")
    assert honesty(WORSE).startswith("Intervals hold at every look: one of a measure is ever wrong in at most 5 % of experiments.")


def test_nothing_is_nothing() -> None:
    assert findings_of({"experiments": []}, "here") == ReportReader((), History(), None, "")
