"""Tests of `rules` and `dashboards`: the files they write, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.command_line import called, streammetrics
from tests.support.paths import ROOT
from tests.support.rules import FOLDER


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


class TestRules:
    def test_the_files_are_those_of_the_sources(self, tmp_path: Path) -> None:
        done = streammetrics("rules", "--out", tmp_path / "new" / "folder")
        assert (done.returncode, done.stderr) == (0, "")
        assert texts(tmp_path / "new" / "folder") == texts(FOLDER)
        assert f"rule_files: [{tmp_path}/new/folder/*_rules.yml]" in done.stdout
        assert "Links of alerts lead to http://localhost:9464. --page sets another address." in done.stdout

    def test_links_lead_to_the_page_that_is_given(self, tmp_path: Path) -> None:
        done = called("rules", "--page", "https://ranking.example/live/", "--out", tmp_path)
        assert done.returncode == 0
        assert "Links of alerts" not in done.stdout
        assert not [name for name, text in texts(tmp_path).items() if "localhost" in text]
        rules = yaml.safe_load((tmp_path / "alerting_rules.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
        links = {rule["alert"]: rule["annotations"] for rule in rules}
        assert links["StreammetricsNoTraffic"]["page_url"] == "https://ranking.example/live/"
        assert links["StreammetricsNoTraffic"]["runbook_url"] == "https://ranking.example/live/help/StreammetricsNoTraffic"

    @pytest.mark.parametrize("page", ["", "/", "ranking.example", "https://{{ evil }}", 'https://a"b', "https://a/#b", "https://a b"])
    def test_what_is_no_address_is_rejected(self, page: str, tmp_path: Path) -> None:
        done = called("rules", "--out", tmp_path, "--page", page)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"--page = {page}: write an address that begins with https:// or http://" in done.stderr
        assert texts(tmp_path) == {}

    def test_a_folder_is_required(self) -> None:
        done = called("rules")
        assert done.returncode == 2
        assert "Missing option '--out'." in done.stderr


def test_a_changed_file_is_replaced_only_with_force(tmp_path: Path) -> None:
    assert called("rules", "--out", tmp_path).returncode == 0
    (tmp_path / "alertmanager.yml").write_text("mine")
    again = called("rules", "--out", tmp_path)
    assert again.returncode == 2
    assert f"--out = {tmp_path}/alertmanager.yml: exists with another content" in again.stderr
    assert "recording_rules" not in again.stderr
    assert called("rules", "--out", tmp_path, "--force").returncode == 0
    assert texts(tmp_path) == texts(FOLDER)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = called("dashboards", "--out", tmp_path / "file" / "inside")
    assert done.returncode == 2
    assert "cannot be written: Not a directory" in done.stderr


def test_the_dashboards_are_those_of_the_sources(tmp_path: Path) -> None:
    assert called("dashboards", "--out", tmp_path).returncode == 0
    assert texts(tmp_path) == {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "grafana").glob("*.json")}
    assert sorted(texts(tmp_path)) == ["experiment.json", "pipeline.json", "ranking.json"]
