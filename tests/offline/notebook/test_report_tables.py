"""Replays and reports as tables: the integers of the command's files, frames of three libraries, and clear errors."""

from __future__ import annotations

import html
import http.server
import json
import threading
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pytest

import streammetrics
from streammetrics.errors import ConfigError, StreammetricsError
from streammetrics.offline.notebook.replayed import ReplayTables
from streammetrics.offline.notebook.report_tables import ReportTables
from tests.offline.notebook.conftest import GIVEN
from tests.support.command_line import called
from tests.support.sockets import receiver, replying

WORDS = [word for key, value in GIVEN.items() for word in ("--set", f"{key}={','.join(value) if isinstance(value, list) else value}")]


def of_lines(path: Path) -> dict[tuple[object, ...], int]:
    """The first sum of each metric in the lines of `replay --panes`."""
    tables = {}
    for line in map(json.loads, path.read_bytes().splitlines()):
        place = (line["pane_start_ms"], line["experiment"], line["variant"], *line["segments"].values(), line["view"])
        tables |= {(*place, metric): sums.get("sum_raw", sums.get("hits")) for metric, sums in line["metrics"].items()}
    return tables


def of_rows(rows: list[dict[str, Any]]) -> dict[tuple[object, ...], int]:
    """The same from the table of panes."""
    tables = {}
    for row in rows:
        segments = [part.partition("=")[2] for part in row["segments"].split(",") if part]
        place = (row["pane_start_ms"], row["experiment"], row["variant"], *segments, row["view"])
        tables[*place, f"{row['metric']}@{row['k']}"] = row["numerator"]
    return tables


def test_a_replay_has_the_numbers_of_the_command(events: Path, result: ReplayTables, tmp_path: Path) -> None:
    panes, report = tmp_path / "panes.ndjson", tmp_path / "report.json"
    done = called("replay", events, "--panes", panes, "--report", report, "--quiet", *WORDS)
    assert (done.returncode, done.stderr) == (0, "")
    assert result.report == json.loads(report.read_bytes())
    tables = of_rows(result.panes.rows())
    assert len(tables) > 1_000
    assert tables == of_lines(panes)


def test_the_verdict_comes_first(result: ReplayTables) -> None:
    (start,) = (row for row in result.verdicts.rows() if row["scope"] == "start")
    (report,) = (experiment for experiment in result.report["experiments"] if experiment["scope"] == "start")
    assert (start["verdict"], start["reason"]) == (report["verdict"]["word"], report["verdict"]["reason"])
    assert (start["treatment"], start["users"]) == ("treatment", sum(variant["users"] for variant in report["variants"]))
    first = f"{start['experiment']}: {start['verdict']}, {start['reason']}" + (f"; {start['warnings']}" if start["warnings"] else "")
    assert repr(result).splitlines()[0] == first
    assert result._repr_html_().startswith(f"<p>{html.escape(first)}</p>")


def test_the_names_of_a_notebook_are_completed() -> None:
    assert {"replay", "evaluate", "read_report", "from_run", "spark", "__version__"} <= set(dir(streammetrics))


def test_jobs_do_not_change_the_panes(events: Path, result: ReplayTables) -> None:
    assert sorted(map(tuple, (row.values() for row in streammetrics.replay([events], GIVEN, jobs=2).panes.rows()))) == sorted(
        map(tuple, (row.values() for row in result.panes.rows()))
    )


def test_duckdb_reads_the_panes_with_the_same_integers(result: ReplayTables, tmp_path: Path) -> None:
    path = tmp_path / "panes.parquet"
    result.panes.to_polars().write_parquet(path)
    names = [name for name in result.panes if name != "value"]
    read = duckdb.sql(f"select {', '.join(names)} from '{path}'").fetchall()
    assert read == list(zip(*(result.panes[name] for name in names), strict=True))  # decimals equal integers
    means = duckdb.sql(
        f"select variant, sum(numerator) / (sum(denominator) * pow(2, any_value(scale_bits))) from '{path}' "
        "where view = 'final' and segments = '' and experiment <> '' and metric = 'ndcg' and k = 10 group by variant"
    ).fetchall()
    totals = result.totals.where(metric="ndcg", k=10).rows()
    expected = {row["variant"]: row["value"] for row in totals if row["experiment"]}
    assert {variant: float(mean) for variant, mean in means} == pytest.approx(expected, rel=1e-9)


def test_tables_become_frames_of_three_libraries(result: ReplayTables) -> None:
    rows = result.windows.shape[0]
    assert isinstance(result.windows.to_pandas(), pd.DataFrame)
    assert isinstance(result.windows.to_polars(), pl.DataFrame)
    assert result.windows.to_pandas().shape[0] == result.windows.to_polars().height == result.windows.to_arrow().num_rows == rows > 20
    windows = result.windows
    assert pl.DataFrame(windows.to_arrow()).height == rows
    assert duckdb.from_arrow(windows.to_arrow()).count("*").fetchall() == [(rows,)]


def test_experiments_have_lifts_verdicts_and_a_history(result: ReplayTables) -> None:
    row = next(row for row in result.experiments.rows() if row["role"] == "treatment")
    assert {"lift", "lift_lower", "verdict", "reason"} <= row.keys()
    assert "control" in result.experiments["role"]
    assert set(result.history) >= {"end_ms", "lift", "lift_upper"}
    assert repr(result).splitlines()[1].startswith("10,000 events, experiments ")
    assert "<table>" in result._repr_html_()


NAMED = {"experiment": "<i>", "scope": "start", "variants": []}
VERDICT = {
    "experiment": "<i>",
    "scope": "start",
    "variant": "",
    "verdict": "safe",
    "reason": "<u> is fine",
    "warnings": [{"text": "<b> bends"}, {"text": "is fine"}],
}


def test_the_warnings_and_names_of_a_report_are_shown_and_are_no_markup() -> None:
    report = {"warnings": ["<b> is refused"], "counters": {"events": 2}, "totals": [], "experiments": [NAMED], "verdicts": [VERDICT]}
    tables = ReportTables(report)
    assert repr(tables).splitlines()[:3] == ["<i>: safe, <u> is fine; <b> bends", "2 events, experiments <i>", "warning: <b> is refused"]
    assert tables._repr_html_().startswith(
        "<p>&lt;i&gt;: safe, &lt;u&gt; is fine; &lt;b&gt; bends</p><p>2 events, experiments &lt;i&gt;</p>"
        "<p>warning: &lt;b&gt; is refused</p>"
    )


@pytest.mark.parametrize("way", ["file", "server"])
def test_a_report_is_read_from_a_file_or_a_server(result: ReplayTables, tmp_path: Path, way: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(result.report))
    if way == "file":
        assert streammetrics.read_report(path).report == result.report
        return

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(tmp_path))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        read = streammetrics.read_report(f"http://127.0.0.1:{server.server_port}/report.json")
        server.shutdown()
        thread.join()
    assert isinstance(read, ReportTables)
    assert read.totals.rows() == result.totals.rows()


def test_what_is_no_report_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content, message in (("no json", "not a report: it is not JSON"), ("[1]", "not a report; allowed is what `streammetrics replay")):
        path.write_text(content)
        with pytest.raises(StreammetricsError, match=message):
            streammetrics.read_report(path)
    with pytest.raises(StreammetricsError, match="cannot be read: No such file"):
        streammetrics.read_report(tmp_path / "none")


def test_a_server_without_a_report_is_rejected() -> None:
    refusal = b"HTTP/1.1 503 no\r\nContent-Length: 0\r\n\r\n"
    for sent, why in ((b"220 smtp ready\r\n", r"cannot be read: .*220 smtp"), (refusal, "the server answered 503")):
        with receiver(replying(sent)) as url, pytest.raises(StreammetricsError, match=why):
            streammetrics.read_report(url)
    with pytest.raises(StreammetricsError, match="not a URL"):
        streammetrics.read_report("http://localhost:port/api/report")


def test_settings_may_be_a_file_and_errors_name_the_key(events: Path, tmp_path: Path) -> None:
    path = tmp_path / "streammetrics.toml"
    path.write_text("[metrics]\nnames = ['err']\ncutoffs = [3]\n")
    assert set(streammetrics.replay(events, path).totals["metric"]) == {"err"}
    with pytest.raises(ConfigError, match=r"metrics\.names"):
        streammetrics.replay(events, {"metrics.names": ["ndgc"]})
    with pytest.raises(ConfigError):
        streammetrics.replay(tmp_path / "none.ndjson")


def test_what_is_no_path_or_no_setting_is_named(events: Path) -> None:
    with pytest.raises(ValueError, match="paths: got 5; allowed are a path or several"):
        streammetrics.replay(5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"join.gap = .* \(from settings\): unknown key; did you mean join.gap_ms"):
        streammetrics.replay(events, {"join.gap": 3})
