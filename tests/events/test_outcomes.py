"""The table of fates has every reason under which anything is counted, and says of each what the rest of the product does with it."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given

from streammetrics.engine.experiment_runs import ExperimentRules
from streammetrics.events.outcomes import NOT_REFUSED, OUTCOMES, UNMATCHED, names_of
from streammetrics.exporters.prometheus.series import SERIES
from tests.oracle import REASONS
from tests.support.machine import Machine, engine_of
from tests.support.reasons import FOLDER, counted_reasons, refused_reasons
from tests.support.strategies import Case, cases

ROOT = FOLDER.parent
NAMES = {fate.name for fate in OUTCOMES}
EXPERIMENTS = ExperimentRules(idle_ms=20, patience_ms=0)


def text(*path: str) -> str:
    return Path(ROOT, *path).read_text(encoding="utf-8")


def test_the_table_has_the_reasons_that_the_source_counts_and_no_others() -> None:
    assert counted_reasons() == NAMES


def test_no_reason_stands_in_the_table_twice() -> None:
    assert len(NAMES) == len(OUTCOMES)


@given(cases())
def test_whatever_traffic_is_counted_under_is_in_the_table(case: Case) -> None:
    machine = Machine(engine_of(case.settings, experiments=EXPERIMENTS, lists_open_max=3, groups_max=5), case.settings)
    machine.take(case.steps)
    machine.finish(flush=True)
    assert {reason for reason, _ in machine.state.counts} <= NAMES


def test_the_oracle_judges_by_reasons_of_the_table() -> None:
    assert set(REASONS) <= NAMES


def test_what_is_refused_one_by_one_can_be_read_back_and_nothing_else() -> None:
    assert {fate.name for fate in OUTCOMES if fate.is_dead_lettered} == refused_reasons()
    assert refused_reasons() <= NAMES - NOT_REFUSED


def test_the_docs_name_the_one_refusal_that_cannot_be_read_back() -> None:
    (kept_nowhere,) = (fate.name for fate in OUTCOMES if fate.name not in NOT_REFUSED and not fate.is_dead_lettered)
    assert f"`join.session_events_max` (`{kept_nowhere}`)" in text("README.md")
    told = " ".join(text("deploy", "runbooks", "StreammetricsEventsRefused.md").split())
    assert f"All but `{kept_nowhere}` (and fragments of a list that has grown beyond `events.items_max`) can be read back" in told


def test_every_counter_of_its_own_is_one_of_the_series_by_topic() -> None:
    assert {SERIES[f"streammetrics_{fate.series}_total"].labels for fate in OUTCOMES if fate.series} == {("topic",)}


def test_the_help_of_the_series_names_every_reason_of_unmatched_feedback() -> None:
    *others, last = UNMATCHED
    assert f"by reason: {', '.join(others)} or {last}." in SERIES["streammetrics_feedback_unmatched_total"].help


def test_the_page_has_words_for_every_fate() -> None:
    words = re.search(r"const REASONS = \{(.*?)\};", text("streammetrics", "exporters", "http", "static", "page_words.js"), re.DOTALL)
    feedback = re.search(r"const FEEDBACK = \[(.*?)\];", text("streammetrics", "exporters", "http", "static", "page_pipeline.js"))
    assert words is not None
    assert feedback is not None
    assert set(re.findall(r"(\w+): \"", words[1])) == NAMES
    assert set(re.findall(r"\"(\w+)\"", feedback[1])) == set(names_of("feedback", "unmatched")) - {"repeated"}
