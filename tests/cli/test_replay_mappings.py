"""Tests of `replay` with mappings: files of several formats in one replay, and what is ignored or not mapped."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from streammetrics.events.advice.suggest import suggested_mappings
from tests.support.command_line import called

CONFIG = """
[[events.mappings]]
topics = ["searches"]
kind = "impression"
user_id = "visitor"
ts = "time"
ts_unit = "s"
impression_id = "search"
items = "results"

[[events.mappings]]
topics = ["shop"]
kind = "feedback"
when = { event = "click" }
user_id = "visitor"
ts = "at"
item_id = "sku"
action = "event"

[[events.mappings]]
topics = ["shop"]
kind = "ignore"
when = { event = "page" }
"""
NOON = 1772366400
SEARCH = {"visitor": 7, "time": NOON, "search": "q1", "results": ["a", "b", "c"]}
CLICK = {"visitor": 7, "at": NOON * 1_000 + 5_000, "event": "click", "sku": "b"}
NATIVE = {"type": "impression", "user_id": "u", "ts": NOON * 1_000, "impression_id": "r", "items": ["a"]}


def lines(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_files_of_different_formats_are_read_in_one_replay(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    searches = lines(tmp_path / "searches.ndjson", SEARCH)
    shop = lines(tmp_path / "shop.2026-03-01.ndjson", CLICK, {"event": "page"}, {"event": "cart"})
    other = lines(tmp_path / "native.ndjson", NATIVE)
    report, letters = tmp_path / "report.json", tmp_path / "letters.ndjson"
    done = called(
        "replay", "--config", tmp_path / "config.toml", searches, shop, other, "--report", report, "--dead-letters", letters
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_bytes())
    assert found["counters"] == {"events": 5, "matched": 1, "ignored": 1, "bad_type": 1}
    (letter,) = letters.read_text().splitlines()
    assert 'event is "cart"' in json.loads(letter)["detail"]


def test_a_preset_reads_a_file_without_further_settings(tmp_path: Path) -> None:
    path = lines(tmp_path / "events", {"event": "ranking", "id": "r", "user": "u", "timestamp": str(NOON * 1_000), "items": [{"id": "a"}]})
    done = called("replay", path, "--set", "events.format=metarank")
    assert done.returncode == 0, done.stderr
    assert "1.0000" not in done.stdout
    assert "events    1" in done.stdout


def test_a_file_of_a_known_format_names_the_setting(tmp_path: Path) -> None:
    path = lines(tmp_path / "events", {"event": "ranking", "id": "r", "user": "u", "timestamp": str(NOON), "items": [{"id": "a"}]})
    done = called("replay", path)
    assert done.returncode == 1
    assert 'set events.format = "metarank"' in done.stderr


def test_a_file_that_no_mapping_applies_to_fails_with_the_values(tmp_path: Path) -> None:
    path = lines(tmp_path / "events", {"event": "feedback"})
    done = called("replay", path, "--set", "events.format=metarank")
    assert done.returncode == 1
    assert 'no mapping applies to this record: event is "feedback"' in done.stderr


@pytest.mark.parametrize("command", ["check-config", "replay"])
def test_all_problems_of_mappings_are_reported(tmp_path: Path, command: str) -> None:
    (tmp_path / "config.toml").write_text('[[events.mappings]]\nkind = "feedback"\nuser = "x"\n[[events.mappings]]\nkind = "lists"\n')
    files = [lines(tmp_path / "events", NATIVE)] if command == "replay" else []
    done = called(command, *files, "--config", tmp_path / "config.toml")
    assert done.returncode == 2
    for problem in ("mapping 1: unknown key user; did you mean user_id?", "mapping 1: ts is required", "mapping 2: kind must be one of"):
        assert problem in done.stderr


def test_effective_settings_with_mappings_can_be_loaded_again(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    first = called("check-config", "--config", tmp_path / "config.toml")
    (tmp_path / "again.toml").write_text(first.stdout)
    again = called("check-config", "--config", tmp_path / "again.toml")
    assert first.returncode == again.returncode == 0
    assert [line.partition("  #")[0] for line in first.stdout.splitlines()] == [
        line.partition("  #")[0] for line in again.stdout.splitlines()
    ]


def test_a_second_page_keeps_its_places(tmp_path: Path) -> None:
    page = [{"id": item, "position": place} for place, item in enumerate("abc", 11)]
    click = {"type": "feedback", "user_id": "u", "ts": NOON * 1_000, "item_id": "a", "action": "click", "impression_id": "r"}
    file = lines(tmp_path / "events.ndjson", NATIVE | {"items": page}, click)
    report, names = tmp_path / "report.json", ("ndcg@10", "ndcg@20", "mrr@20", "hit_rate@10", "item_hit_rate@10", "item_hit_rate@20")
    for positions, values in (("absolute", [0, 1 / math.log2(12), 1 / 11, 0, None, 1 / 3]), ("order", [1, 1, 1, 1, 1 / 3, 1 / 3])):
        settings = ("--set", f"events.positions={positions}", "--set", "metrics.cutoffs=10,20")
        assert called("replay", file, *settings, "--report", report).returncode == 0
        found = json.loads(report.read_bytes())["totals"][0]["values"]
        assert [found.get(name) for name in names] == [value if value is None else pytest.approx(value, abs=1e-12) for value in values]


def test_a_file_of_tab_separated_lines_without_a_header_is_read(tmp_path: Path) -> None:
    behaviors, report = tmp_path / "behaviors.tsv", tmp_path / "report.json"
    behaviors.write_text("1\tU1\t11/11/2019 9:05:58 AM\tN1 N2\tN3-0 N4-1\n2\tU2\t11/11/2019 9:06:58 PM\t\tN3-1 N4-0\n")
    done = called("replay", behaviors, "--set", "events.format=mind", "--report", report)
    assert done.returncode == 0, done.stderr
    assert json.loads(report.read_bytes())["counters"] == {"events": 4, "matched": 2}


def test_a_path_that_finds_nothing_is_reported_and_so_is_its_experiment(tmp_path: Path) -> None:
    config, file, report = tmp_path / "named.toml", tmp_path / "searches.ndjson", tmp_path / "r.json"
    mapping = CONFIG.replace('items = "results"', 'items = "results"\nexperiments = { ranker = "ab.ranker" }')
    config.write_text(mapping + '[experiments.named.ranker]\ncontrol = "old"\n')
    searches = [SEARCH | {"search": f"q{number}", "abs": {"ranker": "new"}} for number in range(3)]
    file.write_text("".join(json.dumps(each) + "\n" for each in searches))
    result = called("replay", file, "--config", config, "--report", report)
    problem = f"mapping 1: experiments.ranker (ab.ranker) has no value in any of 3 records of {file}; did you mean abs.ranker?"
    warnings = json.loads(report.read_text())["warnings"]
    assert warnings[0] == problem
    assert warnings[1].startswith("None of 3 lists is in experiment ranker, which has settings.")
    assert f"warning: {problem}" in result.stderr
    assert f"warning: {problem}" in called("decode", file, "--config", config).stdout


@pytest.mark.parametrize("column", ["items", "shown"])
def test_a_column_of_a_csv_means_what_its_mapping_says(tmp_path: Path, column: str) -> None:
    (tmp_path / "searches.csv").write_text(f'visitor,time,search,{column}\n7,{NOON},q1,"a,b,c"\n')
    (tmp_path / "shop.ndjson").write_text(json.dumps(CLICK))
    config = CONFIG.replace('items = "results"', f'items = "{column}"\nitem_separator = ","')
    (tmp_path / "config.toml").write_text(config)
    report = tmp_path / "r.json"
    files = [tmp_path / "searches.csv", tmp_path / "shop.ndjson"]
    called("replay", *files, "--config", tmp_path / "config.toml", "--report", report)
    totals = json.loads(report.read_text())["totals"]
    assert totals[0]["values"]["ndcg@10"] == pytest.approx(1 / math.log2(3), abs=1e-9)


class TestTopicsOfFiles:
    CONFIG = CONFIG.replace('"searches"', '"web.searches"') + '[kafka]\ntopics = ["web.searches"]\n'

    @pytest.fixture
    def config(self, tmp_path: Path) -> Path:
        (tmp_path / "config.toml").write_text(self.CONFIG)
        return tmp_path / "config.toml"

    def test_a_topic_with_dots_is_found(self, tmp_path: Path, config: Path) -> None:
        file = tmp_path / "web.searches.2026-week46.ndjson"
        file.write_text(json.dumps(SEARCH))
        assert called("replay", file, "--config", config).returncode == 0

    def test_a_file_without_a_topic_says_so_and_the_option_names_it(self, tmp_path: Path, config: Path) -> None:
        file = tmp_path / "export.ndjson"
        file.write_text(json.dumps(SEARCH))
        refused = called("replay", file, "--config", config)
        assert refused.returncode == 1
        assert "Its name begins with no topic of a mapping (shop, web.searches)" in refused.stderr
        assert "this is no native event" in refused.stderr
        assert called("replay", file, "--config", config, "--topic", "web.searches").returncode == 0
        wrong = called("replay", file, "--config", config, "--topic", "shops")
        assert wrong.returncode == 2
        assert "no mapping and no [events.topics] has this topic (shop, web.searches)" in wrong.stderr

    def test_mappings_for_topics_that_are_not_read_are_found(self, config: Path) -> None:
        warned = called("check-config", "--config", config).stderr
        assert "mapping 2 is for shop, which `run` does not read: kafka.topics is web.searches" in warned
        assert "mapping 1" not in warned


PAGED: dict[str, Any] = {"kind": "impression", "when": {"kind": "page"}, "user_id": "user", "ts": "at", "impression_id": "search"}
PAGED |= {"items": "hits"}
CLICKS: dict[str, Any] = {"kind": "feedback", "when": {"kind": "click"}, "user_id": "user", "ts": "at", "item_id": "hit"}
CLICKS |= {"action": "kind", "impression_id": "search"}
PAGES = [
    {"kind": "page", "user": "u", "at": NOON * 1_000, "search": "s", "hits": ["a", "b"]},
    {"kind": "page", "user": "u", "at": NOON * 1_000 + 5, "search": "s", "hits": ["c", "d"], "from": 2},
    {"kind": "click", "user": "u", "at": NOON * 1_000 + 9, "search": "s", "hit": "d"},
]


@pytest.mark.parametrize(
    ("own", "counters"),
    [
        ({"page_start": "from"}, {"events": 3, "matched": 1}),
        ({}, {"events": 3, "list_id_reused": 1, "out_of_list": 1}),
        ({"page_start": "skip"}, {"events": 3, "matched": 1, "place_conflict": 1}),
    ],
    ids=["pages", "one id for two lists", "two items at one place"],
)
def test_a_report_warns_if_pages_of_one_list_are_not_read_as_such(tmp_path: Path, own: dict[str, Any], counters: dict[str, int]) -> None:
    report, mappings = tmp_path / "report.json", json.dumps([PAGED | own, CLICKS])
    done = called("replay", lines(tmp_path / "pages.ndjson", *PAGES), "--set", f"events.mappings={mappings}", "--report", report)
    assert done.returncode == 0, done.stderr
    assert json.loads(report.read_bytes())["counters"] == counters
    assert ("page_start" in done.stderr) is ("matched" not in counters or "place_conflict" in counters)


def test_the_rank_of_an_item_on_a_later_page_is_that_of_the_whole_list(tmp_path: Path) -> None:
    mappings = json.dumps([PAGED | {"page_start": "from"}, CLICKS])
    done = called("replay", lines(tmp_path / "pages.ndjson", *PAGES), "--set", f"events.mappings={mappings}")
    assert "0.2500" in done.stdout  # the mrr of rank 4


def test_proposed_mappings_give_the_numbers_of_the_native_events(tmp_path: Path) -> None:
    assert called("simulate", "--out", tmp_path / "native.ndjson", "--minutes", "5", "--regression", "treatment:0.7").returncode == 0
    searches, clicks = list[dict[str, Any]](), list[dict[str, Any]]()
    for event in map(json.loads, (tmp_path / "native.ndjson").read_text().splitlines()):
        own = {"visitor": event["user_id"], "at": event["ts"]}
        if event["type"] == "impression":
            results = [{"sku": item, "rank": rank} for rank, item in enumerate(event["items"], 1)]
            searches.append({**own, "search": {"id": event["impression_id"], "results": results}, "ab": event["experiments"]})
        else:
            reaction = {
                "search_id": event["impression_id"],
                "sku": event["item_id"],
                "what": event["action"],
                "seconds": event.get("value"),
            }
            clicks.append(own | reaction)
    graded = ["purchase", "watch", "click", "skip"]
    proposed = [suggested_mappings(records, graded, topic).text for records, topic in ((searches, "searches"), (clicks, "clicks"))]
    (tmp_path / "config.toml").write_text("\n".join(proposed))
    files = [lines(tmp_path / "searches.ndjson", *searches), lines(tmp_path / "clicks.ndjson", *clicks)]
    reports = [tmp_path / "native.json", tmp_path / "own.json"]
    assert called("replay", tmp_path / "native.ndjson", "--report", reports[0]).returncode == 0
    assert called("replay", *files, "--config", tmp_path / "config.toml", "--report", reports[1]).returncode == 0
    native, own_report = [json.loads(report.read_bytes()) for report in reports]
    assert own_report["totals"] == native["totals"]
