"""The example of the page on what lists show, replayed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb
import pytest

import streammetrics
from streammetrics.metrics.names import ASSESSMENT_NAMES
from tests.support.command_line import called
from tests.support.paths import ROOT

PAGE = (ROOT / "streammetrics" / "windows" / "assessment.md").read_text(encoding="utf-8")


def test_the_example_of_the_page_gives_its_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the catalogue is named by its file alone
    example = PAGE.partition("## Example")[2]
    for kind, name in (("csv", "items.csv"), ("toml", "settings.toml"), ("json", "events.ndjson")):
        match = re.search(rf"```{kind}\n(.*?)```", example, re.DOTALL)
        assert match is not None
        Path(name).write_text(match[1], encoding="utf-8")
    wanted = {name: float(value) for name, value in re.findall(r"^\| `(\w+(?:@\d)?)` \| ([\d.]+) \|", example, re.MULTILINE)}
    assert {name.partition("@")[0] for name in wanted} == set(ASSESSMENT_NAMES)
    done = called("replay", "events.ndjson", "--config", "settings.toml", "--report", "report.json", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(Path("report.json").read_text(encoding="utf-8"))
    values = report["totals"][0]["values"]
    assert {name: values[name] for name in wanted} == pytest.approx(wanted, abs=5e-5)
    sums = "sum(numerator) / (sum(denominator) * pow(2, any_value(scale_bits)))"
    where = "view = 'final' and experiment = '' and segments = '' and denominator > 0 and metric in " + str(ASSESSMENT_NAMES)
    panes = streammetrics.replay("events.ndjson", "settings.toml").panes.to_arrow()  # noqa: F841  the query reads it by its name
    rows = duckdb.sql(f"select if(k > 0, metric || '@' || k, metric), {sums} from panes where {where} group by metric, k")
    assert dict(rows.fetchall()) == pytest.approx(wanted, abs=5e-5)
    settings = report["settings"]["assessment"]
    assert len(settings["catalogue"]) == 16
    assert "catalogue_file" not in settings


def test_the_page_defines_every_metric() -> None:
    assert set(re.findall(r"^\| `(\w+)(?:@k)?`", PAGE.partition("## Example")[0], re.MULTILINE)) == set(ASSESSMENT_NAMES)
