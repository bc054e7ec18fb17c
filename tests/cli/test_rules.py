"""Tests of `rules` and `dashboards`: the files they write, and what they refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from streammetrics.exporters.grafana.dashboards import dashboards
from streammetrics.exporters.prometheus.rules.options import RuleOptions
from streammetrics.exporters.prometheus.rules.render import files
from streammetrics.exporters.prometheus.rules.thresholds import THRESHOLDS
from tests.support.command_line import called, streammetrics
from tests.support.paths import ROOT


def written(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


class TestRules:
    def test_the_files_are_those_of_the_sources(self, tmp_path: Path) -> None:
        done = streammetrics("rules", "--out", tmp_path / "new" / "folder")
        assert (done.returncode, done.stderr) == (0, "")
        assert written(tmp_path / "new" / "folder") == files()
        assert f"rule_files: [{tmp_path}/new/folder/*_rules.yml]" in done.stdout

    def test_options_change_thresholds_names_and_links(self, tmp_path: Path) -> None:
        links = ["--grafana", "https://grafana.example/", "--runbooks", "https://wiki.example/"]
        done = called("rules", "--threshold", "lag_seconds=900", "--job", "mine", *links, "--out", tmp_path)
        assert done.returncode == 0
        text = (tmp_path / "alerting_rules.yml").read_text(encoding="utf-8")
        assert "job:streammetrics_lag_seconds:max > 900" in text
        assert 'up{job="mine"} == 0' in text
        assert "dashboard_url: https://grafana.example/d/streammetrics-pipeline?" in text
        assert "runbook_url: https://wiki.example/StreammetricsAbsent.md" in text

    @pytest.mark.parametrize("notify", ["slack", "pagerduty", "webhook"])
    def test_every_link_of_a_message_can_be_opened(self, tmp_path: Path, notify: str) -> None:
        """Without the address of Grafana there is no link to a dashboard, rather than one that no reader can open."""
        plain, linked = files(notify=notify), files(RuleOptions(grafana="https://grafana.example"), notify=notify)
        for rule in yaml.safe_load(plain["alerting_rules.yml"])["groups"][0]["rules"]:
            assert [name for name in rule["annotations"] if name.endswith("_url")] == ["runbook_url", "page_url"]
        for rule in yaml.safe_load(linked["alerting_rules.yml"])["groups"][0]["rules"]:
            variables = ["job", *(["experiment"] if "{{ $labels.experiment | urlquery }}" in rule["annotations"]["page_url"] else [])]
            query = "&".join(f"var-{name}={{{{ $labels.{name} | urlquery }}}}" for name in variables)
            assert re.fullmatch(rf"https://grafana\.example/d/streammetrics-\w+\?{re.escape(query)}", rule["annotations"]["dashboard_url"])
        assert ("dashboard_url" in linked["alertmanager.yml"]) == (notify != "webhook")
        assert plain["alertmanager.yml"].count("dashboard_url") == plain["alertmanager.yml"].count("{{ with .Annotations.dashboard_url }}")

    def test_a_runbook_is_an_address_of_the_web(self) -> None:
        rules = yaml.safe_load(files()["alerting_rules.yml"])["groups"][0]["rules"]
        for rule in rules:
            served, _, rest = rule["annotations"]["runbook_url"].partition("{{ else }}")
            address = "".join(re.findall(r'{{ "([^"]+)" }}', rest.removesuffix("{{ end }}")))
            assert served.endswith(f"/help/{rule['alert']}")
            assert address.startswith("https://github.com/")
            assert (ROOT / address.partition("/blob/main/")[2]).is_file()

    def test_the_metric_for_all_traffic_can_be_chosen(self, tmp_path: Path) -> None:
        called("rules", "--metric", "MRR@20", "--out", tmp_path)
        recorded, alerts = ((tmp_path / f"{name}_rules.yml").read_text(encoding="utf-8") for name in ("recording", "alerting"))
        assert 'streammetrics_final_mrr_sum_total{experiment="", k="20"}' in recorded
        assert "fell to a mean mrr@20 of" in alerts
        assert "ndcg" not in recorded + alerts

    def test_a_prefix_and_a_label_reach_every_rule(self, tmp_path: Path) -> None:
        called("rules", "--prefix", "shop_", "--filter", "env=prod", "--out", tmp_path)
        for name in ("recording_rules.yml", "alerting_rules.yml"):
            for rule in yaml.safe_load((tmp_path / name).read_text(encoding="utf-8"))["groups"][0]["rules"]:
                assert rule["expr"].count('env="prod"') >= 1
                assert "(streammetrics_" not in rule["expr"]

    @pytest.mark.parametrize("notify", ["none", "slack", "pagerduty", "webhook"])
    def test_both_receivers_post_their_alerts_as_the_guide_prints_it(self, notify: str, tmp_path: Path) -> None:
        guide = (ROOT / "streammetrics" / "exporters" / "README.md").read_text(encoding="utf-8")
        printed = yaml.safe_load(guide.partition("```yaml\n")[2].partition("```")[0])
        command = re.search(r"`streammetrics (rules .* --marks-user alertmanager)`", guide)
        assert command
        words = command[1].replace("--out rules", f"--out {tmp_path} --notify {notify}").split()
        assert called(*words).returncode == 0
        text = (tmp_path / "alertmanager.yml").read_text(encoding="utf-8")
        for receiver in yaml.safe_load(text)["receivers"]:
            assert receiver["webhook_configs"][-1:] == printed["webhook_configs"]
        assert "# Both also post their alerts to the page" in text

    def test_without_a_login_no_password_is_read(self, tmp_path: Path) -> None:
        called("rules", "--out", tmp_path, "--marks", "http://exporter:9464/")
        for receiver in yaml.safe_load((tmp_path / "alertmanager.yml").read_text(encoding="utf-8"))["receivers"]:
            assert receiver["webhook_configs"] == [{"url": "http://exporter:9464/api/marks", "send_resolved": True, "max_alerts": 30}]

    def test_thresholds_are_listed_with_defaults_and_meanings(self) -> None:
        lines = called("rules", "--show-thresholds").stdout.splitlines()
        assert [line.split()[0] for line in lines] == [threshold.name for threshold in THRESHOLDS]
        assert lines[0].endswith("0.05  " + THRESHOLDS[0].meaning)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--threshold", "lag_seconds"], "--threshold = lag_seconds: write NAME=VALUE, such as lag_seconds=900"),
            (["--threshold", "lag_seconds=soon"], "threshold lag_seconds: got 'soon'; write a number, such as lag_seconds=0.1"),
            (["--threshold", "lag=900"], "threshold: got lag; allowed are commits_failing_share"),
            (["--threshold", "store_share=nan"], "threshold store_share: got nan; allowed are numbers from 0 to 1"),
            (["--threshold", "store_share=90"], "threshold store_share: got 90.0; allowed are numbers from 0 to 1"),
            (["--threshold", "lag_seconds=inf"], "threshold lag_seconds: got inf; allowed are finite numbers from 0"),
            (["--threshold", "lag_seconds=-1"], "threshold lag_seconds: got -1.0; allowed are finite numbers from 0"),
            (["--job", 'a"b'], "job: got 'a\"b'; allowed are printable characters without quotes, backslashes and braces"),
            (["--job", "{{ .Job }}"], "job: got '{{ .Job }}'; allowed are"),
            (["--job", ""], "job: got ''; allowed are"),
            (["--metric", "ndgc@10"], "metric name: got 'ndgc', perhaps for 'ndcg'; allowed are ndcg, "),
            (["--metric", "mrr"], "each with a cut-off"),
            (["--metric", "item_hit_rate@5"], "metric: got 'item_hit_rate@5'; allowed are ndcg, "),
            (["--runbooks", "wiki"], "runbooks: got 'wiki'; allowed are addresses that begin with https://, http:// or /"),
            (["--grafana", "https://{{ evil }}"], "grafana: got 'https://{{ evil }}'; allowed are addresses"),
            (
                ["--marks", "exporter:9464"],
                "marks: got 'exporter:9464'; allowed are addresses of an exporter, such as http://exporter:9464",
            ),
            (["--marks", "http://ada:word@exporter"], "marks: got 'http://ada:word@exporter'; allowed are addresses"),
            (["--marks-user", "ada"], "marks-user: got 'ada'; allowed are users of the exporter in --marks, without a colon"),
            (["--marks", "http://exporter", "--marks-user", "a:b"], "marks-user: got 'a:b'; allowed are users"),
            (["--prefix", "shop-"], "prefix: got 'shop-'; allowed are letters"),
            (["--filter", "env"], "--filter = env: write NAME=VALUE, such as env=prod"),
            (["--filter", "a-b=c"], "filter: got the label 'a-b'; allowed are letters"),
            (["--filter", "experiment=a"], "filter: got the label 'experiment', which the rules use themselves"),
            (["--filter", "env=it's"], 'filter: got "it\'s" for env; allowed are printable characters'),
            (["--filter", "env="], "filter: got '' for env; allowed are"),
        ],
    )
    def test_invalid_options_are_rejected(self, options: list[str], message: str, tmp_path: Path) -> None:
        done = called("rules", "--out", tmp_path, *options)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
        assert written(tmp_path) == {}

    def test_a_folder_is_required(self) -> None:
        done = called("rules")
        assert done.returncode == 2
        assert "Missing option '--out'." in done.stderr


def test_a_changed_file_is_replaced_only_with_force(tmp_path: Path) -> None:
    assert called("rules", "--out", tmp_path).returncode == 0
    (tmp_path / "alertmanager.yml").write_text("mine")
    assert called("rules", "--out", tmp_path, "--threshold", "lag_seconds=900").returncode == 2
    again = called("rules", "--out", tmp_path)
    assert again.returncode == 2
    assert f"--out = {tmp_path}/alertmanager.yml: exists with another content" in again.stderr
    assert "recording_rules" not in again.stderr
    assert called("rules", "--out", tmp_path, "--force").returncode == 0
    assert written(tmp_path) == files()


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = called("dashboards", "--out", tmp_path / "file" / "inside")
    assert done.returncode == 2
    assert "cannot be written: Not a directory" in done.stderr


class TestDashboards:
    def test_the_files_are_those_of_the_sources(self, tmp_path: Path) -> None:
        assert called("dashboards", "--out", tmp_path).returncode == 0
        assert written(tmp_path) == dashboards()
        assert sorted(dashboards()) == ["experiment.json", "pipeline.json", "ranking.json"]

    def test_a_prefix_and_a_label_reach_every_query(self, tmp_path: Path) -> None:
        assert called("dashboards", "--out", tmp_path, "--prefix", "shop_", "--filter", "env=prod").returncode == 0
        for name, plain in dashboards().items():
            queries = list(queries_of(json.loads((tmp_path / name).read_text(encoding="utf-8"))))
            before = list(queries_of(json.loads(plain)))
            assert len(queries) == len(before) > 10
            for query, was in zip(queries, before, strict=True):
                assert ("streammetrics_" in was) == ("shop_streammetrics_" in query)
                assert query.count("shop_streammetrics_") == was.count("streammetrics_")
                assert query.count('env="prod"') >= 1


def queries_of(value: object) -> list[str]:
    """Every query in a dashboard that names a series."""
    if isinstance(value, list):
        return [query for held in value for query in queries_of(held)]
    if not isinstance(value, dict):
        return []
    own = [held for key, held in value.items() if key in ("expr", "query", "definition") and isinstance(held, str)]
    named = [query for query in own if "streammetrics_" in query or "up{" in query or "process_" in query]
    return [*named, *(query for held in value.values() for query in queries_of(held))]
