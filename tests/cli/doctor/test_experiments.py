"""What `doctor` says about experiments: running with a certain verdict, decided, without lists for long, and past their end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streammetrics.cli.doctor.experiments import RecentExperiments, experiment_findings
from streammetrics.cli.doctor.findings import DoctorFinding
from streammetrics.config import Settings
from streammetrics.reports.samples import LISTS_MIN
from streammetrics.reports.verdict_lines import VerdictLine

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
LAST_MS = 1_767_225_600_000
"""2026-01-01 00:00 UTC."""
NOW_MS = LAST_MS + 60_000
LINE = VerdictLine(
    experiment="ranker", scope="start", variant="", verdict="inconclusive", reason="treatment: 1 % lower mrr@10 so far", parts=(),
    treatment="treatment", metric="mrr", k=10, lift=-0.01, lift_lower=-0.1, lift_upper=0.1, gate="wait", gate_reason="", gate_parts=(),
    needed=(), warnings=(), users=900, since_ms=0, up_to_ms=LAST_MS, last_ms=LAST_MS,
)  # fmt: skip
REGRESSED = replace(LINE, verdict="regressed", reason="treatment: 15 % lower mrr@10 than control")
KEEP = "first keep the numbers (`streammetrics report --experiment ranker --format json`, and print the page)"
END = 'set end = "2026-01-01T00:01Z" for it in experiments.named'


def findings_of(
    line: VerdictLine | None = None, *, now_ms: int = NOW_MS, recent: RecentExperiments | None = None, **rules: Any
) -> list[DoctorFinding]:
    named = {"ranker": rules} if rules else {}
    settings = Settings.model_validate({"experiments": {"named": named}}).experiments
    lines = {} if line is None else {line.experiment: line}
    return [*experiment_findings(settings, lines, recent or RecentExperiments(), now_ms)]


def test_a_regression_asks_to_keep_the_numbers_before_the_variant_is_switched_off() -> None:
    (finding,) = findings_of(REGRESSED)
    assert finding.level == "warn"
    assert finding.text == "experiment ranker is running. Its verdict is regressed: treatment: 15 % lower mrr@10 than control"
    steps = (
        KEEP,
        "set its end in experiments.named if the label will mean something else later",
        "give the users of treatment the control",
    )
    places = [finding.fix.index(step) for step in steps]
    assert places == sorted(places)
    assert places[0] == 0


@pytest.mark.parametrize("verdict", ["improved", "safe", "mixed", "inconclusive", "invalid"])
def test_any_other_running_experiment_is_no_problem_and_has_the_advice(verdict: Any) -> None:
    finding, advice = findings_of(replace(LINE, verdict=verdict, reason="a reason"))
    assert finding == ("ok", f"experiment ranker is running. Its verdict is {verdict}: a reason", "")
    assert advice.level == "ok"
    assert advice.text.startswith("Before you switch a variant off, first keep the numbers (`streammetrics report --experiment NAME")
    assert advice.text.endswith("A verdict that is certain then stays; another one does not become certain any more")


def test_an_experiment_that_recent_lists_lack_is_said_to_be_so() -> None:
    recent = RecentExperiments(LISTS_MIN, {"home": [LAST_MS]})
    finding, _ = findings_of(LINE, recent=recent)
    assert finding.text.startswith(f"experiment ranker is running, and none of {LISTS_MIN} recent lists is in it. ")
    assert findings_of(LINE, recent=replace(recent, lists=LISTS_MIN - 1))[0].text.startswith("experiment ranker is running. ")


def test_a_decided_experiment_needs_nothing() -> None:
    decided = replace(REGRESSED, state="stopped", decided_ms=LAST_MS, reason="15 % lower; decided: treatment has had no list since 00:00")
    assert findings_of(decided, control="control") == [
        ("ok", f"experiment ranker is decided. Its verdict is regressed: {decided.reason}", "")
    ]


def test_an_arm_that_stopped_before_a_verdict_is_a_warning() -> None:
    (finding,) = findings_of(replace(LINE, state="stopped", reason="undecided; treatment has had no list since 00:00"))
    assert finding.level == "warn"
    assert "has an arm without new lists, and is not decided" in finding.text
    assert finding.fix == f"if no variant was switched off, look for its lists from then on; if it is over, {END}"


@pytest.mark.parametrize(
    ("state", "age_ms", "ago"), [("silent", 3 * HOUR_MS, "3 h ago"), ("running", 3 * DAY_MS, "3 days ago")], ids=["stream", "clock"]
)
def test_an_experiment_without_lists_for_long_that_has_no_end_is_a_warning(state: Any, age_ms: int, ago: str) -> None:
    (finding,) = findings_of(replace(LINE, state=state), now_ms=LAST_MS + age_ms, control="control")
    assert finding.level == "warn"
    assert finding.text.startswith(f"experiment ranker is still set to run, and its last list was at 2026-01-01 00:00 UTC, {ago}. ")
    dropped = "its state is dropped after 30 days without a list"
    assert finding.fix == f"if it is over, {KEEP} ({dropped}), then {END}; if not, look for its lists"


def test_lists_that_come_again_make_it_run() -> None:
    recent = RecentExperiments(200, {"ranker": [LAST_MS + 3 * HOUR_MS]})
    finding, _ = findings_of(replace(LINE, state="silent"), now_ms=LAST_MS + 3 * HOUR_MS, recent=recent)
    assert finding.text.startswith("experiment ranker is running. ")


def test_a_decided_experiment_without_settings_may_stay_as_it_is() -> None:
    silent = replace(REGRESSED, state="silent", decided_ms=LAST_MS)
    (finding,) = findings_of(silent, now_ms=LAST_MS + 3 * HOUR_MS)
    assert finding.level == "ok"
    assert finding.text.startswith("experiment ranker is decided: its last list was at 2026-01-01 00:00 UTC, 3 h ago. ")
    assert findings_of(silent, now_ms=LAST_MS + 3 * HOUR_MS, control="control")[0].level == "warn"


def test_an_experiment_past_its_end_has_its_verdict_and_the_lists_that_still_come() -> None:
    ended = replace(REGRESSED, state="ended", decided_ms=LAST_MS)
    (over,) = findings_of(ended, now_ms=NOW_MS, end="2026-01-01T00:00Z")
    text = "experiment ranker is over: it ended at 2026-01-01 00:00 UTC, and "
    assert over == ("ok", f"{text}no recent list has its label. Its verdict is regressed: {ended.reason}", "")
    recent = RecentExperiments(100, {"ranker": [LAST_MS - 1, LAST_MS, LAST_MS + 9]})
    (still,) = findings_of(ended, recent=recent, end="2026-01-01T00:00Z")
    assert still.level == "warn"
    assert still.text.startswith(f"{text}2 recent lists with its label do not count. ")


def test_an_end_that_only_the_workers_have_is_a_warning() -> None:
    (finding,) = findings_of(replace(REGRESSED, state="ended", decided_ms=LAST_MS))
    assert finding.level == "warn"
    assert finding.text.startswith("experiment ranker has ended for the workers, and experiments.named here has no such end. ")
    assert finding.fix == "give all processes the same configuration"


def test_an_end_that_has_not_come_changes_nothing() -> None:
    assert findings_of(REGRESSED, end="2026-02-01T00:00Z") == findings_of(REGRESSED)
    assert findings_of(None, end="2026-02-01T00:00Z") == []
