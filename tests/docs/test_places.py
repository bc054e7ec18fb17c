"""A test lies where people look for it: in the folder of its room, with the name of its module. The page of the tests says so."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.paths import ROOT

PACKAGE, TESTS = ROOT / "streammetrics", ROOT / "tests"
APART = {"alerts", "deploy", "docs", "grafana", "integration", "oracle", "support", "tools"}
"""Folders of what runs through several modules. The page lists it."""

ELSEWHERE: dict[str, str] = {
    "cli/command": "cli/test_main.py",
    "cli/commands/check_config": "cli/test_main.py",
    "cli/commands/dashboards": "cli/commands/test_rules.py",
    "cli/commands/doctor": "cli/doctor/test_checks.py",
    "cli/commands/namespaces": "integration/test_namespaces.py",
    "cli/commands/repartition": "integration/test_repartition.py",
    "cli/commands/run": "integration/test_run.py",
    "cli/commands/spark": "integration/test_spark.py",
    "cli/demo/demo": "cli/commands/test_demo.py",
    "cli/doctor/data": "cli/doctor/test_records.py",
    "cli/doctor/findings": "cli/doctor/test_checks.py",
    "cli/exporter_client": "cli/commands/test_gate.py",
    "cli/output/plan_tables": "cli/commands/test_plan.py",
    "cli/output/standard_output": "cli/test_closed_streams.py",
    "cli/run/service": "integration/test_run.py",
    "cli/run/worker_process": "integration/test_worker_pool.py",
    "connectors/clock": "runtime/publish/test_publisher.py",
    "connectors/file_formats/delimited": "connectors/file_formats/test_reader.py",
    "connectors/file_formats/json_array": "connectors/file_formats/test_reader.py",
    "connectors/file_formats/parquet": "connectors/file_formats/test_reader.py",
    "connectors/redis/shared_values": "integration/test_redis_blob.py",
    "engine/batch": "engine/test_loop.py",
    "enrolment/credits": "enrolment/test_reducer.py",
    "enrolment/feedback_days": "enrolment/test_hour_counts.py",
    "enrolment/records": "enrolment/test_totals.py",
    "enrolment/variant_moments": "enrolment/test_reducer.py",
    "events/model": "events/test_native.py",
    "experiments/arms": "experiments/test_building.py",
    "experiments/stored": "experiments/test_building.py",
    "exporters/http/answers": "exporters/http/test_server.py",
    "exporters/prometheus/rows": "exporters/prometheus/test_exposition.py",
    "metrics/arrays": "metrics/test_checks.py",
    "metrics/kernel/blocks": "metrics/test_scorer.py",
    "metrics/kernel/facts": "metrics/test_scorer_exact_values.py",
    "metrics/kernel/formulas": "metrics/test_scorer_formulas.py",
    "metrics/kernel/grade_levels": "metrics/test_scorer_exact_values.py",
    "metrics/plan": "metrics/test_scorer.py",
    "offline/evaluation/numbers": "offline/evaluation/test_judged.py",
    "offline/evaluation/ranking": "offline/evaluation/test_judged.py",
    "offline/replay/files": "cli/commands/test_replay.py",
    "offline/replay/shards": "cli/commands/test_replay_jobs.py",
    "offline/replay/unusable_files": "cli/commands/test_replay.py",
    "offline/replay/worker": "offline/replay/test_history.py",
    "offline/spark/input_times": "offline/spark/test_passes.py",
    "offline/spark/shard": "offline/spark/test_passes.py",
    "offline/spark/slices": "offline/spark/test_passes.py",
    "offline/spark/tasks": "offline/spark/test_passes.py",
    "reports/explanation_values": "reports/test_explanation.py",
    "reports/result_records": "runtime/publish/test_results_feed.py",
    "reports/rules": "reports/test_merged_runs.py",
    "sessions/rules": "config/test_exposures.py",
    "sessions/session_events": "sessions/test_join_rules.py",
    "sessions/user_sessions": "engine/test_engine.py",
    "windows/pane_tallies": "engine/test_engine.py",
    "wiring/engine": "wiring/test_wiring.py",
    "wiring/http": "wiring/test_wiring.py",
    "wiring/logs": "integration/test_security.py",
    "wiring/reports": "reports/test_freshness_first_events.py",
}
"""Modules without a test module of their own, and without an example in a docstring: where they are tested."""

SEVERAL: set[str] = {
    "cli/test_closed_streams.py",
    "cli/test_warned_verdicts.py",
    "config/test_assessment.py",
    "config/test_exposures.py",
    "config/test_outgoing.py",
    "config/test_secrets.py",
    "config/test_serving.py",
    "connectors/kafka/patches/test_private_names.py",
    "experiments/test_aa.py",
    "experiments/test_import.py",
    "experiments/test_power.py",
    "experiments/test_words.py",
    "metrics/test_import.py",
    "metrics/test_metrics_readme.py",
    "offline/evaluation/test_pytrec_eval.py",
    "reports/test_situations.py",
    "wiring/test_wiring.py",
}
"""Test modules about several modules of their room."""


def modules() -> set[str]:
    paths = (path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py"))
    return {str(path) for path in paths if not path.name.startswith("__")} - {"version"}


def files_of(module: str) -> list[Path]:
    folder, name = (TESTS / module).parent, Path(module).name
    return [path for path in folder.glob("test_*.py") if re.fullmatch(rf"test_{name}(_\w+)?", path.stem)]


def has_example(module: str) -> bool:
    return ">>> " in (PACKAGE / f"{module}.py").read_text(encoding="utf-8")


def test_a_module_has_a_test_of_its_name_or_an_example_or_says_where_it_is_tested() -> None:
    untested = {module for module in modules() if not files_of(module) and not has_example(module)}
    assert untested == set(ELSEWHERE)


def test_what_is_tested_elsewhere_is_tested_in_a_file_that_exists() -> None:
    assert {path for path in ELSEWHERE.values() if not (TESTS / path).exists()} == set()


def test_a_test_module_has_the_name_of_a_module() -> None:
    named = {path for module in modules() for path in files_of(module)}
    rooms = (path for path in TESTS.iterdir() if path.is_dir() and path.name not in APART)
    others = {str(path.relative_to(TESTS)) for room in rooms for path in room.rglob("test_*.py") if path not in named}
    assert {other for other in others if not other.startswith(("readers/", "metrics/golden/"))} == SEVERAL


def test_the_page_names_files_that_exist() -> None:
    page = (TESTS / "README.md").read_text(encoding="utf-8")
    rows = [row.split("|")[2] for row in page.splitlines() if row.startswith("| ") and not row.startswith("| behaviour")]
    named = [name for row in rows for name in re.findall("`([^`]+)`", row)]
    assert len(named) > 20
    assert [name for name in named if not any(TESTS.glob(name))] == []
