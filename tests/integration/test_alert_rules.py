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

from streammetrics.exporters.prometheus.rules.alertmanager import RECEIVERS, alertmanager
from streammetrics.exporters.prometheus.rules.links import RUNBOOKS as PUBLISHED
from streammetrics.exporters.prometheus.rules.options import RuleOptions
from streammetrics.exporters.prometheus.rules.render import alerting_rule
from streammetrics.exporters.prometheus.rules.table import ALERTS
from tests.alerts.cases import CASES, Case, Fired
from tests.servers.alertmanager import AlertmanagerServer, Webhook
from tests.servers.process import wait_until
from tests.servers.tools import find_tool
from tests.support.command_line import called
from tests.support.paths import ROOT

RUNBOOKS = ROOT / "deploy" / "runbooks"
RULES = [ROOT / "deploy" / "prometheus" / f"{name}_rules.yml" for name in ("recording", "alerting")]


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([find_tool("promtool"), *words], capture_output=True, text=True, check=False)


def links(case: Case, fired: Fired) -> dict[str, str]:
    """The annotations that are the same for every firing, with the labels in them."""
    (rule,) = [alerting_rule(each, RuleOptions()) for each in ALERTS if (each.name, each.severity) == (case.alert, fired.severity)]
    card = "".join(rule["annotations"]["page_url"].partition("#")[1:])
    for label, value in fired.labels.items():
        card = card.replace(f"{{{{ $labels.{label} | urlquery }}}}", quote_plus(value))
    assert "{{" not in card
    served = any("streammetrics_tasks{" in series for series in case.series)
    page = "http://exporter:9464/" if served else "http:///"
    runbook = f"{page}help/{case.alert}" if served else f"{PUBLISHED}{case.alert}.md"
    return {"runbook_url": runbook, "page_url": page + card}


QUERIED = re.compile(r'job\w*:\w+:\w+|ALERTS{alertname=~"([^"]+)"')


def resting_on(alerts: Iterable[str], rules: Iterable[Path], folder: Path) -> list[Path]:
    """Write the rules of these alerts, and those of the series and alerts that they query, into files of the same names.

    Prometheus evaluates all rules that it has at each step. Some cases last for days, with thousands of steps.
    """
    written = {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in rules}
    groups = [group for each in written.values() for group in each["groups"]]
    every = [
        (str(rule.get("alert") or rule["record"]), rule["expr"] + str(rule.get("annotations")))
        for group in groups
        for rule in group["rules"]
    ]
    needed: set[str] = set()
    found = set(alerts)
    while found - needed:
        needed |= found
        queried = [queried[1] or queried[0] for name, text in every if name in needed for queried in QUERIED.finditer(text)]
        found = {name for name, _ in every if any(re.fullmatch(each, name) for each in queried)}
    for group in groups:
        group["rules"] = [rule for rule in group["rules"] if rule.get("alert", rule.get("record")) in needed]
    for name, each in written.items():
        (folder / name).write_text(json.dumps(each), encoding="utf-8")
    return [folder / name for name in written]


def as_test(case: Case, rules: Iterable[Path]) -> dict[str, Any]:
    return {
        "rule_files": list(map(str, rules)),
        "evaluation_interval": case.step,
        "group_eval_order": ["streammetrics-recording", "streammetrics-alerts"],  # else an alert may see what was recorded a step ago
        "tests": [
            {
                "interval": case.step,
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


FALLEN = [case for case in CASES if case.alert == "StreammetricsAllVariantsFell" and case.fires]


@pytest.mark.parametrize("case", FALLEN, ids=lambda case: case.name)
def test_the_ranking_as_a_whole_may_be_judged_by_another_metric(case: Case, tmp_path: Path) -> None:
    assert called("rules", "--metric", "mrr@20", "--out", tmp_path).returncode == 0
    rules = resting_on([case.alert], [tmp_path / path.name for path in RULES], tmp_path)
    as_other = json.dumps(as_test(case, rules))
    for here, there in (("final_ndcg_sum_total", "final_mrr_sum_total"), ('k=\\"10\\"', 'k=\\"20\\"'), ("ndcg@10", "mrr@20")):
        assert here in as_other
        as_other = as_other.replace(here, there)
    test = tmp_path / "test.yml"
    test.write_text(as_other, encoding="utf-8")
    done = promtool("test", "rules", test)
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


@pytest.mark.parametrize(("alert", "step"), sorted({(case.alert, case.step) for case in CASES if case.fires}))
def test_rules_with_a_prefix_and_a_label_decide_the_same_and_ignore_other_labels(alert: str, step: str, tmp_path: Path) -> None:
    assert called("rules", "--prefix", "shop_", "--filter", "env=prod", "--out", tmp_path).returncode == 0
    cases = [case for case in CASES if (case.alert, case.step) == (alert, step) and case.fires]
    rules = resting_on([alert], [tmp_path / path.name for path in RULES], tmp_path)
    files = [as_test(case, rules) for case in cases]
    for case in (case for file in files for case in file["tests"]):
        case["input_series"] = [
            {"series": of_environment(each["series"], env), "values": each["values"] if env == "prod" else "0+0x20"}
            for each in case["input_series"]
            for env in ("prod", "test")
        ]
        for fired in case["alert_rule_test"][0]["exp_alerts"]:
            fired["exp_labels"]["env"] = "prod"
    test = tmp_path / "test.yml"
    test.write_text(json.dumps({**files[0], "tests": [case for file in files for case in file["tests"]]}), encoding="utf-8")
    done = promtool("test", "rules", test)
    assert done.returncode == 0, done.stdout + done.stderr


def of_environment(series: str, env: str) -> str:
    return re.sub("^streammetrics_", "shop_streammetrics_", series).replace("{", f'{{env="{env}",', 1)


def amtool(*words: str | Path) -> str:
    done = subprocess.run([find_tool("amtool"), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("notify", RECEIVERS)
def test_alertmanager_takes_its_configuration_and_sends_what_is_critical_to_the_page(notify: str, tmp_path: Path) -> None:
    assert called("rules", "--notify", notify, "--out", tmp_path).returncode == 0
    config = tmp_path / "alertmanager.yml"
    amtool("check-config", config)
    routed = {
        severity: amtool("config", "routes", "test", f"--config.file={config}", f"severity={severity}")
        for severity in ("critical", "warning")
    }
    assert routed == {"critical": "page", "warning": "ticket"}


REGRESSED, FELL = "StreammetricsRankingRegressed", "StreammetricsAllVariantsFell"
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
    with Webhook() as webhook, AlertmanagerServer(alertmanager(webhook.receivers("page", "ticket"), at_once=True)) as server:
        body = json.dumps([{"labels": {"job": "streammetrics", **labels}} for labels in SENT]).encode()

        def post() -> None:
            request = urllib.request.Request(f"{server.url}/api/v2/alerts", body, {"Content-Type": "application/json"})
            urllib.request.urlopen(request, timeout=10).close()

        def states() -> list[str]:
            return sorted(each["status"]["state"] for each in server.alerts())

        post()
        wait_until(lambda: states() == ["active"] * 6 + ["suppressed"] * 2, what="Alertmanager has muted two alerts")
        wait_until(lambda: len(webhook.alerts) >= 6, what="the others are sent")
        post()
        told = [sorted(sent.labels.items()) for sent in webhook.alerts]
    assert sorted(told) == sorted(sorted({"job": "streammetrics", **each}.items()) for each in SENT if each not in (SENT[2], SENT[4]))
