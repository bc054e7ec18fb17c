"""promtool runs the true rules over series for which each alert must fire, and over others for which it must not."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
import yaml

from streammetrics.exporters.prometheus.experiments import measure_rows
from tests.alerts.cases import CASES, Case, Fired, one
from tests.support.experiment_states import SITUATIONS, table
from tests.support.paths import ROOT
from tests.support.rules import ALERTS, FOLDER, quick_routes
from tests.tools.servers.alertmanager import AlertmanagerServer, Webhook
from tests.tools.servers.process import wait_until
from tests.tools.servers.tools import find_tool

PROMETHEUS = "https://prometheus.example"
RUNBOOKS = ROOT / "deploy" / "runbooks"
REGRESSED, FELL = "StreammetricsRankingRegressed", "StreammetricsAllVariantsFell"
RULES = [FOLDER / f"{name}_rules.yml" for name in ("recording", "alerting")]


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([find_tool("promtool"), *words], capture_output=True, text=True, check=False)


def links(case: Case, fired: Fired) -> dict[str, str]:
    """The links of an alert that fires, with the values of its labels in them."""
    (alert,) = [alert for alert in ALERTS if (alert.name, alert.severity) == (case.alert, fired.severity)]
    urls = {name: text.replace("{{ $externalURL }}", PROMETHEUS) for name, text in alert.annotations.items() if name.endswith("_url")}
    for label, value in fired.labels.items():
        urls = {name: text.replace(f"{{{{ $labels.{label} | urlquery }}}}", quote_plus(value)) for name, text in urls.items()}
    assert not [text for text in urls.values() if "{{" in text]
    return urls


QUERIED = re.compile(r'job\w*:\w+:\w+|ALERTS{alertname=~"([^"]+)"')


def resting_on(alerts: Iterable[str], rules: Iterable[Path], folder: Path) -> list[Path]:
    """Write the rules of these alerts, and those of the series and alerts that they query, into files of the same names.

    Prometheus evaluates all rules that it has at each step. Some cases last for days, with thousands of steps.
    """
    written = {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in rules}
    groups = [group for rule in written.values() for group in rule["groups"]]
    every = [
        (str(rule.get("alert") or rule["record"]), rule["expr"] + str(rule.get("annotations")))
        for group in groups
        for rule in group["rules"]
    ]
    needed: set[str] = set()
    names = set(alerts)
    while names - needed:
        needed |= names
        queried = [queried[1] or queried[0] for name, text in every if name in needed for queried in QUERIED.finditer(text)]
        names = {name for name, _ in every if any(re.fullmatch(pattern, name) for pattern in queried)}
    for group in groups:
        group["rules"] = [rule for rule in group["rules"] if rule.get("alert", rule.get("record")) in needed]
    for name, content in written.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return [folder / name for name in written]


def as_test(case: Case, rules: Iterable[Path]) -> dict[str, Any]:
    return {
        "rule_files": list(map(str, rules)),
        "evaluation_interval": case.step,
        "group_eval_order": ["streammetrics-recording", "streammetrics-alerts"],  # else an alert may see what was recorded a step ago
        "tests": [
            {
                "interval": case.step,
                "external_url": PROMETHEUS,
                "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
                "alert_rule_test": [
                    {
                        "eval_time": case.at,
                        "alertname": case.alert,
                        "exp_alerts": [
                            {
                                "exp_labels": {"severity": fired.severity, **fired.labels},
                                "exp_annotations": {
                                    "summary": fired.summary,
                                    "description": fired.description,
                                    **links(case, fired),
                                },
                            }
                            for fired in case.fires
                        ],
                    }
                ],
            }
        ],
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alert}: {'fires' if case.fires else 'is silent'}, {case.name}")
def test_an_alert_fires_when_it_must_and_only_then(case: Case, tmp_path: Path) -> None:
    test = tmp_path / "test.yml"
    test.write_text(json.dumps(as_test(case, resting_on([case.alert], RULES, tmp_path))), encoding="utf-8")
    done = promtool("test", "rules", test)
    assert done.returncode == 0, done.stdout + done.stderr


VERDICT_ALERTS = {REGRESSED, "StreammetricsExperimentInvalid", "StreammetricsSampleRatioMismatch", "StreammetricsVerdictMixed"}


def test_the_alerts_of_each_situation_are_those_of_the_page_of_the_gate(tmp_path: Path) -> None:
    """Each situation is an experiment with its own name, and lasts an hour."""
    situations = {str(number): name for number, name in enumerate(SITUATIONS)}
    series: dict[str, str] = {}
    for number, name in situations.items():
        for row in measure_rows(SITUATIONS[name]()):
            labels = {"experiment": number, "variant": row.variant, "metric": row.metric, "k": row.k, "scope": row.scope}
            series[one(f"streammetrics_experiment_{row.series}", **labels)] = f"{float(row.value)}+0x60"
    firing = 'count by (alertname, experiment) (ALERTS{alertstate="firing"})'
    wanted = [(table()[name].alert, number) for number, name in situations.items() if table()[name].alert]
    samples = [
        {"labels": f'{{alertname="{alert}", experiment="{number}"}}', "value": 2 if alert == REGRESSED else 1} for alert, number in wanted
    ]
    test = as_test(Case("", "", series, "50m"), resting_on(VERDICT_ALERTS, RULES, tmp_path))
    test["tests"][0] |= {"alert_rule_test": [], "promql_expr_test": [{"expr": firing, "eval_time": "50m", "exp_samples": samples}]}
    path = tmp_path / "test.yml"
    path.write_text(json.dumps(test), encoding="utf-8")
    done = promtool("test", "rules", path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_such_as_the_oldest_supported_prometheus_reads_without_a_remark() -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", *RULES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_query_of_the_runbooks_is_one_that_prometheus_reads(tmp_path: Path) -> None:
    programs = ("streammetrics ", "curl ", "kafka-", "systemctl ", "kubectl ", "redis-cli ", "python ")
    blocks = [
        line for page in RUNBOOKS.glob("*.md") for line in re.findall(r"^ {7,}(\S.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    queries = [line for line in blocks if not line.startswith(programs)]
    assert len(queries) > 10
    rules = tmp_path / "queries.yml"
    named = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    rules.write_text(json.dumps({"groups": [{"name": "queries", "rules": named}]}), encoding="utf-8")
    done = promtool("check", "rules", rules)
    assert done.returncode == 0, done.stdout + done.stderr


def amtool(*words: str | Path) -> str:
    done = subprocess.run([find_tool("amtool"), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


COMMENTED = (FOLDER / "alertmanager.yml").read_text(encoding="utf-8")
WITH_EXAMPLES = re.sub(r"^  #   ", "    ", COMMENTED, flags=re.MULTILINE)
"""The configuration with its examples of receivers in force."""


@pytest.mark.parametrize("text", [COMMENTED, WITH_EXAMPLES], ids=["as it is", "with its examples"])
def test_alertmanager_takes_its_configuration_and_sends_what_is_critical_to_the_page(text: str, tmp_path: Path) -> None:
    config = tmp_path / "alertmanager.yml"
    config.write_text(text, encoding="utf-8")
    amtool("check-config", config)
    routed = {
        severity: amtool("config", "routes", "test", f"--config.file={config}", f"severity={severity}")
        for severity in ("critical", "warning")
    }
    assert routed == {"critical": "page", "warning": "ticket"}


def test_the_examples_of_receivers_are_for_three_kinds_and_link_to_page_and_runbook() -> None:
    receivers = yaml.safe_load(WITH_EXAMPLES)["receivers"]
    kinds = {kind: configs[0] for receiver in receivers for kind, configs in receiver.items() if kind != "name"}
    assert kinds.keys() == {"pagerduty_configs", "slack_configs", "webhook_configs"}
    for kind in ("pagerduty_configs", "slack_configs"):
        assert {*re.findall(r"\w+_url(?!_)\b", str(kinds[kind]))} - {"api_url"} == {"page_url", "runbook_url"}


SENT = [
    {"alertname": REGRESSED, "severity": "warning", "experiment": "tiny", "variant": "new"},
    {"alertname": FELL, "severity": "critical"},
    {"alertname": FELL, "severity": "warning"},
    {"alertname": REGRESSED, "severity": "critical", "experiment": "ranker", "variant": "a"},
    {"alertname": REGRESSED, "severity": "warning", "experiment": "ranker", "variant": "a"},
    {"alertname": REGRESSED, "severity": "warning", "experiment": "ranker", "variant": "b"},
    {"alertname": "StreammetricsNoTraffic", "job": "other", "severity": "critical", "topic": "impressions"},
    {"alertname": "StreammetricsNoTraffic", "job": "other", "severity": "warning", "topic": "feedback"},
]


def test_an_alert_is_muted_by_its_own_critical_one_only_and_each_regression_is_told_once() -> None:
    """Those of other experiments, variants and topics are sent. Alerts are repeated as Prometheus repeats them."""
    with Webhook() as webhook, AlertmanagerServer(quick_routes(webhook.receivers("page", "ticket"))) as server:
        body = json.dumps([{"labels": {"job": "streammetrics", **labels}} for labels in SENT]).encode()

        def post() -> None:
            request = urllib.request.Request(f"{server.url}/api/v2/alerts", body, {"Content-Type": "application/json"})
            urllib.request.urlopen(request, timeout=10).close()

        def states() -> list[str]:
            return sorted(alert["status"]["state"] for alert in server.alerts())

        post()
        wait_until(lambda: states() == ["active"] * 6 + ["suppressed"] * 2, what="Alertmanager has muted two alerts")
        wait_until(lambda: len(webhook.alerts) >= 6, what="the others are sent")
        post()
        told = [sorted(sent.labels.items()) for sent in webhook.alerts]
    assert sorted(told) == sorted(sorted({"job": "streammetrics", **event}.items()) for event in SENT if event not in (SENT[2], SENT[4]))
