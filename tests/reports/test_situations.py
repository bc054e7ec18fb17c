"""Each situation of an experiment as the report, the gate, the series and the sentences of the page show it: the table of gate.md."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streammetrics.experiments import ExperimentReport
from streammetrics.exporters.prometheus.experiments import measure_rows
from streammetrics.reports.verdict_lines import VerdictLine, answer_gate, lines_of
from streammetrics.statistics.measures import LISTS_AT
from tests.support.experiment_states import BEGIN_MS, DAY, HOUR_MS, SITUATIONS, STOP_MS, WORSE, SituationRow, report_of, stored_arms, table

NOW_MS = BEGIN_MS + 2 * HOUR_MS
SENTENCES = {
    "stopped": "has had no list since 2024-10-04 00:50 UTC",
    "silent": "the experiment has had no list since 2024-10-04 01:00 UTC",
    "ended": "the experiment ended at 2024-10-04 01:00 UTC",
}


def test_the_table_has_all_situations() -> None:
    assert [*table()] == [*SITUATIONS]


def whole_line(report: ExperimentReport) -> VerdictLine:
    return next(iter(lines_of(report, NOW_MS)))


@pytest.mark.parametrize("situation", SITUATIONS)
def test_all_channels_show_what_the_table_says(situation: str) -> None:
    wanted, report = table()[situation], SITUATIONS[situation]()
    line, answer = whole_line(report), answer_gate(report, up_to_ms=NOW_MS, answered_ms=NOW_MS)
    decided = "yes" if line.decided_ms is not None else ""
    assert SituationRow(line.state, line.verdict or "", decided, line.gate or "", wanted.alert) == wanted
    assert (answer.state, answer.verdict.word, answer.gate) == (wanted.state, wanted.verdict, wanted.gate)
    rows = {row.series: row.value for row in measure_rows(report) if not row.variant and not row.metric}
    assert (rows["running"], rows["verdict"], rows["gate"]) == (
        wanted.state == "running",
        report.verdict.code,
        {"pass": 1, "wait": 0, "fail": -1}[wanted.gate],
    )
    assert rows["last_list_timestamp_seconds"] == (BEGIN_MS + HOUR_MS) / 1_000
    assert line.up_to_ms == answer.up_to_ms == answer.last_ms == BEGIN_MS + HOUR_MS


@pytest.mark.parametrize("situation", [name for name, row in table().items() if row.state != "running"])
def test_verdict_and_gate_say_why_nothing_new_comes(situation: str) -> None:
    report = SITUATIONS[situation]()
    line, sentence = whole_line(report), SENTENCES[report.state.word]
    assert sentence in line.reason
    assert "".join(part.text for part in line.parts) == line.reason
    assert line.reason.count(sentence) == 1
    assert (f"decided: {report.state.reason}" in line.reason) == (line.decided_ms is not None)
    if table()[situation].gate == "wait":
        assert line.gate_reason.endswith(sentence if report.verdict.word == "invalid" else "a pass needs new lists")
        assert sentence in line.gate_reason


def test_the_time_of_a_decision_is_that_of_the_last_list_that_could_change_it() -> None:
    stopped, silent = (whole_line(SITUATIONS[f"worse, {name}"]()) for name in ("the treatment has stopped", "no list for a day"))
    assert (stopped.decided_ms, silent.decided_ms) == (STOP_MS, BEGIN_MS + HOUR_MS)


def test_an_end_that_was_set_too_late_takes_nothing_back_and_says_so() -> None:
    kept = stored_arms(WORSE, hours=DAY, end_ms=BEGIN_MS - HOUR_MS)
    notes = report_of(kept).health.notes
    late = sum(sums[LISTS_AT] for sums in kept.moments.values())
    assert notes == (f"{late:,} lists from 2024-10-03 23:00 UTC on had counted before the end was set: they stay in the numbers",)


def test_a_start_that_was_set_too_late_takes_nothing_back_and_says_so() -> None:
    kept = stored_arms(WORSE, hours=DAY, from_ms=BEGIN_MS + 2 * HOUR_MS)
    (warning,) = report_of(kept).warnings
    early = sum(sums[LISTS_AT] for sums in kept.moments.values())
    words = f"{early:,} lists before 2024-10-04 02:00 UTC had counted before the start was set: they stay in the numbers"
    assert (warning.key, warning.text) == ("early lists", words)


def test_a_day_without_lists_of_an_arm_that_has_stopped_says_so() -> None:
    run = stored_arms(WORSE, stopped=("treatment",), hours=DAY)
    alone = {"control": run.moments["control"]}
    day = replace(
        stored_arms({"control": 0.5}), scope="day", moments=alone, run_hours=run.hours, last_ms=run.last_ms, lists_since=run.lists_since
    )
    report = report_of(day, fixed=False)
    assert report.state.word == "stopped"
    assert (
        report.verdict.reason == f"only control has users so far; a comparison needs another variant, too; treatment {SENTENCES['stopped']}"
    )


def test_each_treatment_has_a_state_of_its_own() -> None:
    report = SITUATIONS["one treatment is worse and has stopped, another is better"]()
    a, b = (next(line for line in lines_of(report, NOW_MS) if line.variant == name) for name in "ab")
    assert (a.state, a.verdict, a.decided_ms, a.gate) == ("stopped", "regressed", STOP_MS, "fail")
    assert (b.state, b.verdict, b.decided_ms, b.gate) == ("running", "improved", None, "pass")
    running = {row.variant: row.value for row in measure_rows(report) if row.series == "running"}
    assert running == {"": True, "control": True, "a": False, "b": True}
