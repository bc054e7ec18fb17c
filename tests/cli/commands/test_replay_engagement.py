"""The example of the page on engagement metrics, replayed, and the UBI events of an empty query."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from streammetrics.metrics.names import ENGAGEMENT_NAMES
from streammetrics.metrics.records import METRICS
from tests.support.command_line import called
from tests.support.paths import ROOT

PAGE = (ROOT / "streammetrics" / "windows" / "engagement.md").read_text(encoding="utf-8")


def replayed(tmp_path: Path, settings: str, events: str) -> dict[str, float]:
    """Replay events and return the values of all traffic."""
    config, path, report = tmp_path / "settings.toml", tmp_path / "events.ndjson", tmp_path / "report.json"
    config.write_text(settings)
    path.write_text(events)
    done = called("replay", path, "--config", config, "--report", report, "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    values: dict[str, float] = json.loads(report.read_text())["totals"][0]["values"]
    return values


def test_the_example_of_the_page_gives_its_values(tmp_path: Path) -> None:
    example = PAGE.partition("## Example")[2]
    settings, events = (re.search(rf"```{kind}\n(.*?)```", example, re.DOTALL) for kind in ("toml", "json"))
    assert settings is not None
    assert events is not None
    wanted = {name: float(value) for name, value in re.findall(r"^\| `(\w+(?:@\d)?)` \| ([\d.]+) \|", example, re.MULTILINE)}
    assert {name.partition("@")[0] for name in wanted} == set(ENGAGEMENT_NAMES)
    values = replayed(tmp_path, settings[1], events[1])
    assert {name: values[name] for name in wanted} == pytest.approx(wanted, abs=5e-5)
    assert values["ndcg@10"] < 0.5  # the empty list and the abandoned one count as 0


def test_the_page_defines_every_metric_and_says_which_is_better_when_it_falls() -> None:
    defined = dict(re.findall(r"^\| `(\w+)(?:@k)?`.*\| (lower|higher) \|", PAGE.partition("## Example")[0], re.MULTILINE))
    defined |= dict.fromkeys(("time_to_first_click_p90", "time_to_first_click_p99"), defined["time_to_first_click_p50"])
    assert defined == {name: "lower" if METRICS[name].lower_is_better else "higher" for name in ENGAGEMENT_NAMES}


def test_an_empty_ubi_query_is_a_list_without_items(tmp_path: Path) -> None:
    query = {"client_id": "c", "timestamp": "2024-11-21T10:00:00Z", "application": "shop", "user_query": "x"}
    impression = {"client_id": "c", "timestamp": "2024-11-21T10:00:01Z", "action_name": "impression", "query_id": "q2"}
    place = {"object": {"object_id": "a"}, "position": {"ordinal": 1}}
    documents = [
        {**query, "query_id": "q1", "query_response_hit_ids": []},
        {**query, "query_id": "q2", "query_response_hit_ids": []},  # its items come as impression events all the same
        {**impression, "event_attributes": place},
    ]
    (tmp_path / "reader.py").write_text("from streammetrics.readers import ubi\nread = ubi.reader(empty_lists=True)\n")
    reader = tmp_path / "reader.py:read"
    settings = f'[events]\nreader = "{reader}"\n[engagement]\nnames = ["zero_result_rate", "abandonment_rate"]\n'
    values = replayed(tmp_path, settings, "".join(json.dumps(document) + "\n" for document in documents))
    assert (values["zero_result_rate"], values["abandonment_rate"]) == (0.5, 1.0)
