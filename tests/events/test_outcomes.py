"""The table of outcomes has every counted reason, and agrees with the code, the docs and the page."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given

from streammetrics.enrolment.rules import ExperimentRules
from streammetrics.events.outcomes import LABELS, NOT_REFUSED, OUTCOMES, UNMATCHED, names_of
from streammetrics.exporters.prometheus.series import SERIES
from tests.oracle import REASONS
from tests.support.machine import Machine, engine_of
from tests.support.reasons import FOLDER, counted_reasons, refused_reasons
from tests.support.strategies import Case, cases

ROOT = FOLDER.parent
NAMES = {outcome.name for outcome in OUTCOMES}
EXPERIMENTS = ExperimentRules(idle_ms=20, patience_ms=0)


def text(*path: str) -> str:
    return Path(ROOT, *path).read_text(encoding="utf-8")


def test_the_table_has_exactly_the_reasons_that_the_source_counts() -> None:
    assert counted_reasons() == NAMES


def test_no_reason_is_in_the_table_twice() -> None:
    assert len(NAMES) == len(OUTCOMES)


@given(cases())
def test_all_counters_of_random_traffic_are_in_the_table(case: Case) -> None:
    machine = Machine(engine_of(case.settings, experiments=EXPERIMENTS, lists_open_max=3, groups_max=5), case.settings)
    machine.run(case.steps)
    assert {reason for reason, _ in machine.state.progress.counts} <= NAMES


def test_the_oracle_uses_reasons_of_the_table() -> None:
    assert set(REASONS) <= NAMES


def test_exactly_the_singly_refused_events_are_dead_lettered() -> None:
    assert {outcome.name for outcome in OUTCOMES if outcome.is_dead_lettered} == refused_reasons()
    assert refused_reasons() <= NAMES - NOT_REFUSED


def test_the_docs_name_the_refusals_that_are_not_dead_lettered() -> None:
    events, exposures = (outcome.name for outcome in OUTCOMES if outcome.name not in NOT_REFUSED and not outcome.is_dead_lettered)
    page = text("streammetrics", "engine", "README.md")
    assert f"`join.session_events_max` (`{events}`)" in page
    assert f"`exposures.user_exposures_max` (`{exposures}`)" in page
    runbook = " ".join(text("deploy", "runbooks", "StreammetricsEventsRefused.md").split())
    kept = f"All but `{events}` and `{exposures}` (and fragments of a list that has grown beyond `events.items_max`) can be read back"
    assert kept in runbook


def test_each_outcome_counter_is_a_series_by_topic() -> None:
    assert {SERIES[f"streammetrics_{outcome.series}_total"].labels for outcome in OUTCOMES if outcome.series} == {("topic",)}


def test_the_series_help_names_every_reason_of_unmatched_feedback() -> None:
    *others, last = UNMATCHED
    assert f"by reason: {', '.join(others)} or {last}." in SERIES["streammetrics_feedback_unmatched_total"].help


def test_the_page_has_words_for_every_outcome() -> None:
    words = re.search(r"const REASONS = \{(.*?)\};", text("streammetrics", "exporters", "http", "static", "text.js"), re.DOTALL)
    feedback = re.search(r"const FEEDBACK = \[(.*?)\];", text("streammetrics", "exporters", "http", "static", "pipeline.js"))
    assert words is not None
    assert feedback is not None
    assert set(re.findall(r"(\w+): \"", words[1])) == NAMES
    assert set(re.findall(r"\"(\w+)\"", feedback[1])) == set(names_of("feedback", "unmatched")) - {"repeated"}
    labels = re.search(r"const LABELS = \[(.*?)\];", text("streammetrics", "exporters", "http", "static", "pipeline.js"))
    assert labels is not None
    assert tuple(re.findall(r"\"(\w+)\"", labels[1])) == LABELS
