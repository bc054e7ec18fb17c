"""The queries of the rollout files on a real Prometheus, and the files of Argo Rollouts against its published types."""

from __future__ import annotations

import copy
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from streammetrics.exporters.http.answers import HttpAnswers
from tests.deploy.argo import ARGO, ROLLOUTS
from tests.deploy.tools import read_yaml
from tests.support.committed_state import served
from tests.support.gates import MINUTE_MS, gate_answers, report_at
from tests.tools.servers.npm import fetched
from tests.tools.servers.prometheus import PrometheusServer
from tests.tools.servers.tools import find_tool

PACKAGES = ("@kubernetes-models/argo-rollouts@2.0.0", "typescript@5.9.3")
COMPILER = ("--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--moduleResolution", "nodenext", "--target", "es2022")
KINDS = ("AnalysisTemplate", "Rollout")


def type_errors(*documents: Any) -> list[str]:
    """Return what the TypeScript compiler says about documents of Argo Rollouts: wrong types and misspelt keys."""
    packages = fetched("rollouts", *PACKAGES)
    head = [f'import type {{ I{kind} }} from "@kubernetes-models/argo-rollouts/argoproj.io/v1alpha1/{kind}";' for kind in KINDS]
    lines = [f"export const d{at}: I{document['kind']} = {json.dumps(document)};" for at, document in enumerate(documents)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "node_modules").symlink_to(packages)
        (folder / "package.json").write_text('{"type": "module"}')
        (folder / "documents.ts").write_text("\n".join([*head, *lines]), encoding="utf-8")
        command = [find_tool("node"), packages / "typescript" / "bin" / "tsc", *COMPILER, "documents.ts"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    errors = [line for line in done.stdout.splitlines() if line.startswith("documents.ts")]
    assert bool(errors) is bool(done.returncode), done.stdout + done.stderr
    return errors


def test_the_files_of_argo_rollouts_have_valid_types() -> None:
    assert type_errors(*map(read_yaml, ARGO)) == []


def test_a_wrong_type_and_a_misspelt_key_are_found() -> None:
    misspelt, mistyped = (copy.deepcopy(read_yaml(ROLLOUTS / "argo-analysis-web.yaml")) for _ in range(2))
    web = misspelt["spec"]["metrics"][0]["provider"]["web"]
    web["timeoutseconds"] = web.pop("timeoutSeconds")
    mistyped["spec"]["metrics"][0]["interval"] = 60
    errors = type_errors(misspelt, mistyped)
    assert len(errors) == 2
    assert "timeoutseconds" in errors[0]
    assert "interval" in errors[1] or "not assignable to type 'string'" in errors[1]


def queries() -> dict[str, str]:
    """Return the queries of the files with their arguments filled in, except the experiment."""
    flagger = yaml.safe_load_all((ROLLOUTS / "flagger-metric-templates.yaml").read_text(encoding="utf-8"))
    query_by_metric = {metric["metadata"]["name"]: metric["spec"]["query"] for metric in flagger}
    filled = {"{{ variables.job }}": "gates", "{{ variables.experiment }}": "EXPERIMENT"}
    for before, after in filled.items():
        query_by_metric = {name: query.replace(before, after) for name, query in query_by_metric.items()}
    assert not any("{{" in query for query in query_by_metric.values())
    return query_by_metric


@pytest.fixture
def exporters(prometheus_server: PrometheusServer) -> Iterator[tuple[HttpAnswers, PrometheusServer]]:
    """Two exporters of one namespace, scraped by a real Prometheus."""
    one, other = gate_answers(), gate_answers()
    with served(one) as first, served(other) as second:
        prometheus_server.scrape("gates", *(url.removeprefix("http://") for url in (first, second)))
        one.show(report_at(time.time_ns() // 1_000_000))
        other.show(report_at(time.time_ns() // 1_000_000))
        prometheus_server.wait_for('count(streammetrics_experiment_gate{job="gates", experiment="good", variant=""}) == 2')
        try:
            yield one, prometheus_server
        finally:
            prometheus_server.forget("gates")


def test_the_query_gives_the_decision_and_a_failure_while_the_data_is_stale(exporters: tuple[HttpAnswers, PrometheusServer]) -> None:
    answers, prometheus = exporters
    (query,) = queries().values()

    def values(name: str) -> list[float]:
        return [sample.value for sample in prometheus.query(query.replace("EXPERIMENT", name))]

    assert {name: values(name) for name in ("good", "bad", "young", "unknown")} == {"good": [1], "bad": [-1], "young": [0], "unknown": [0]}
    answers.show(report_at(time.time_ns() // 1_000_000, age_ms=10 * MINUTE_MS))  # one of two exporters no longer reads the store
    prometheus.wait_for('time() - min(streammetrics_tasks_watermark_timestamp_seconds{job="gates"}) > 300')
    assert values("bad") == [-1]
