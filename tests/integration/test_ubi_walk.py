"""The walk of a UBI file through real servers, as README has it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT


def walk(file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.tools.servers.ubi", str(file)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)


def test_a_file_goes_through_and_what_metrics_say_is_printed(tmp_path: Path) -> None:
    def event(action: str, item: str, second: int, ordinal: int | None = None) -> dict[str, object]:
        attributes: dict[str, object] = {"object": {"object_id": item}}
        if ordinal is not None:
            attributes["position"] = {"ordinal": ordinal}
        named = {"application": "shop", "action_name": action, "client_id": "c", "query_id": "q"}
        return {**named, "timestamp": f"2025-01-23T13:18:{second:02d}Z", "event_attributes": attributes}

    impressions = [event("impression", item, 1, ordinal) for ordinal, item in enumerate("ab", start=1)]
    lines = [{"index": {"_index": "ubi_events"}}, *impressions, event("click", "a", 5), event("click", "z", 6)]
    file = tmp_path / "ubi.ndjson"
    file.write_text("".join(json.dumps(line) + "\n\n" for line in lines), encoding="utf-8")
    done = walk(file)
    assert (done.returncode, done.stderr) == (0, "")
    assert ": 4 records in topic ubi; Redis redis://" in done.stdout
    assert "counters  events 4, matched 1, out_of_list 1\n" in done.stdout
    assert '  streammetrics_ndcg{experiment="",k="10",segments="",variant="",window="366d"} 1.0\n' in done.stdout
    assert '  streammetrics_window_lists{experiment="",segments="",variant="",view="final",window="366d"} 1.0\n' in done.stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"client_id":"c"}\n<html>\n', "line 2 is not JSON"),
        ('{"index":{}}\n[1]\n', "no line is a UBI document"),
        (None, "No such file"),
    ],
)
def test_an_unusable_file_is_reported_before_a_server_starts(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "file"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    done = walk(file)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert str(file) in done.stderr
    assert "Traceback" not in done.stderr
