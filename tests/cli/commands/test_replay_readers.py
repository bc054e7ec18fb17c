"""Tests of `replay` with readers: files of several forms in one replay, by topic, and with the numbers of native events."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import called

READER = """
from streammetrics.readers import Record, ignore, times


def searches(record: Record):
    event = record.json()
    start = int(event.get("from", 0))
    items = [{"id": item, "position": start + place} for place, item in enumerate(event["results"])]
    yield {
        "type": "impression",
        "impression_id": event["search"],
        "user_id": str(event["visitor"]),
        "ts": times.seconds(event["time"]),
        "items": items,
        "fragment": "from" in event,
    }


def shop(record: Record):
    event = record.json()
    if event["event"] == "page":
        yield ignore("page")
    else:
        yield {
            "type": "feedback",
            "user_id": str(event["visitor"]),
            "ts": event["at"],
            "item_id": event["sku"],
            "action": event["event"],
            "impression_id": event.get("search"),
        }
"""
CONFIG = """
[events.reader]
"web.searches" = "reader.py:searches"
shop = "reader.py:shop"
"""
NOON = 1772366400
SEARCH = {"visitor": 7, "time": NOON, "search": "q1", "results": ["a", "b", "c"]}
CLICK = {"visitor": 7, "at": NOON * 1_000 + 5_000, "event": "click", "sku": "b"}
NATIVE = {"type": "impression", "user_id": "u", "ts": NOON * 1_000, "impression_id": "r", "items": ["a"]}


def lines(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "reader.py").write_text(READER)
    (tmp_path / "config.toml").write_text(CONFIG)
    return tmp_path / "config.toml"


def counters(report: Path) -> dict[str, int]:
    counters: dict[str, int] = json.loads(report.read_bytes())["counters"]
    return counters


@pytest.mark.parametrize("jobs", [[], ["--jobs", "2"]], ids=["one process", "two processes"])
def test_files_of_different_forms_are_read_in_one_replay(tmp_path: Path, config: Path, jobs: list[str]) -> None:
    searches = lines(tmp_path / "web.searches.ndjson", SEARCH)
    shop = lines(tmp_path / "shop.2026-03-01.ndjson", CLICK, {"event": "page"}, {"event": "cart"})
    other = lines(tmp_path / "native.ndjson", NATIVE)
    report, letters = tmp_path / "report.json", tmp_path / "letters.ndjson"
    done = called("replay", "--config", config, searches, shop, other, "--report", report, "--dead-letters", letters, *jobs)
    assert done.returncode == 0, done.stderr
    assert counters(report) == {"events": 5, "matched": 1, "ignored": 1, "reader": 1}
    assert json.loads(report.read_bytes())["ignored"] == [{"kind": "ignored", "name": "page", "events": 1, "meant": None}]
    assert "ignored   page 1" in done.stdout
    (letter,) = map(json.loads, letters.read_text().splitlines())
    assert letter["value"] == '{"event": "cart"}'
    assert letter["detail"].startswith("KeyError: 'visitor', reader.py:")


def test_a_row_of_csv_is_the_texts_of_its_columns(tmp_path: Path) -> None:
    (tmp_path / "reader.py").write_text("""
def read(record):
    row = record.row()
    yield {"type": "impression", "impression_id": row["search"], "user_id": row["visitor"], "ts": int(row["time"]) * 1000,
           "items": row["items"].split(",")}
""")
    (tmp_path / "config.toml").write_text('[events]\nreader = "reader.py:read"\n')
    (tmp_path / "searches.csv").write_text(f'visitor,time,search,items\n007,{NOON},q1,"a,b,c"\n')
    done = called("decode", tmp_path / "searches.csv", "--config", tmp_path / "config.toml")
    assert done.stdout.splitlines()[0] == "record 2: list q1 of [a, b, c], user 007, 2026-03-01T12:00:00.000Z"


@pytest.mark.parametrize("command", ["check-config", "replay"])
def test_a_reader_that_cannot_be_loaded_is_a_problem_of_the_configuration(tmp_path: Path, config: Path, command: str) -> None:
    (tmp_path / "reader.py").write_text("import nothing_like_it\n")
    files = [lines(tmp_path / "shop.ndjson", CLICK)] if command == "replay" else ["--set", "kafka.topics=shop"]
    done = called(command, *files, "--config", config)
    assert done.returncode == 2
    assert "events.reader = " in done.stderr
    assert "ModuleNotFoundError: No module named 'nothing_like_it', reader.py:1" in done.stderr


def test_effective_settings_with_readers_can_be_loaded_again(tmp_path: Path, config: Path) -> None:
    first = called("check-config", "--config", config, "--set", "kafka.topics=shop,web.searches")
    (tmp_path / "again.toml").write_text(first.stdout)
    again = called("check-config", "--config", tmp_path / "again.toml")
    assert first.returncode == again.returncode == 0, again.stderr
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
        totals = json.loads(report.read_bytes())["totals"][0]["values"]
        assert [totals.get(name) for name in names] == [value if value is None else pytest.approx(value, abs=1e-12) for value in values]


class TestTopicsOfFiles:
    def test_a_topic_with_dots_is_found(self, tmp_path: Path, config: Path) -> None:
        file = lines(tmp_path / "web.searches.2026-week46.ndjson", SEARCH)
        assert called("replay", file, "--config", config).returncode == 0

    def test_a_file_without_a_topic_says_so_and_the_option_names_it(self, tmp_path: Path, config: Path) -> None:
        file = lines(tmp_path / "export.ndjson", SEARCH)
        refused = called("replay", file, "--config", config)
        assert refused.returncode == 1
        assert "Its name begins with no topic of events.reader (shop, web.searches)" in refused.stderr
        assert "this is no native event" in refused.stderr
        assert called("replay", file, "--config", config, "--topic", "web.searches").returncode == 0
        wrong = called("replay", file, "--config", config, "--topic", "shops")
        assert wrong.returncode == 2
        assert "events.reader names no reader for this topic (shop, web.searches)" in wrong.stderr

    def test_readers_for_topics_that_are_not_read_are_found(self, config: Path) -> None:
        warned = called("check-config", "--config", config, "--set", "kafka.topics=web.searches").stderr
        assert "events.reader names the topic shop, which `run` does not read: kafka.topics is web.searches" in warned
        assert "the topic web.searches" not in warned


PAGES = [SEARCH | {"from": 0, "results": ["a", "b"]}, SEARCH | {"time": NOON + 1, "from": 2, "results": ["c", "d"]}]
LAST = CLICK | {"search": "q1", "sku": "d"}


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        (PAGES, {"events": 3, "matched": 1}),
        ([SEARCH, SEARCH | {"results": ["c", "d"]}], {"events": 3, "list_id_reused": 1, "out_of_list": 1}),
        ([PAGES[0], PAGES[1] | {"from": 0}], {"events": 3, "matched": 1, "place_conflict": 1}),
    ],
    ids=["pages", "one id for two lists", "two items at one place"],
)
def test_pages_of_one_list(tmp_path: Path, config: Path, pages: list[dict[str, Any]], expected: dict[str, int]) -> None:
    files = [lines(tmp_path / "web.searches.ndjson", *pages), lines(tmp_path / "shop.ndjson", LAST)]
    done = called("replay", *files, "--config", config, "--report", tmp_path / "report.json")
    assert done.returncode == 0, done.stderr
    assert counters(tmp_path / "report.json") == expected
    assert ("positions" in done.stderr or "each position" in done.stderr) is (len(expected) > 2)
    if pages is PAGES:
        assert "0.2500" in done.stdout, "the mrr of rank 4"


def test_events_of_another_form_give_the_numbers_of_the_native_events(tmp_path: Path) -> None:
    native, foreign = tmp_path / "native.ndjson", tmp_path / "own.ndjson"
    assert (
        called("simulate", "--out", native, "--minutes", "5", "--variant", "control=0.5", "--variant", "treatment=0.5:0.7").returncode == 0
    )
    with foreign.open("w") as file:
        for event in map(json.loads, native.read_text().splitlines()):
            renamed = {f"our_{name}": value for name, value in event.items()}
            file.write(json.dumps(renamed | ({"our_items": [{"sku": item} for item in event["items"]]} if "items" in event else {})) + "\n")
    (tmp_path / "reader.py").write_text("""
def read(record):
    event = {name.removeprefix("our_"): value for name, value in record.json().items()}
    if "items" in event:
        event["items"] = [item["sku"] for item in event["items"]]
    return [event]
""")
    reports = [tmp_path / "native.json", tmp_path / "own.json"]
    assert called("replay", native, "--report", reports[0]).returncode == 0
    assert called("replay", foreign, "--set", f"events.reader={tmp_path}/reader.py:read", "--report", reports[1]).returncode == 0
    native_report, own_report = [json.loads(report.read_bytes()) for report in reports]
    assert own_report["totals"] == native_report["totals"]
    assert own_report["windows"] == native_report["windows"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('{\n  "type": "impression"\n}\n', "Write each object on one line: jq -c ."),
        ("u7 clicked\nu8 clicked\n", "If its lines have a form of their own, write a reader: streammetrics config --reader"),
    ],
)
def test_a_file_of_another_form_says_how_it_is_read(tmp_path: Path, text: str, hint: str) -> None:
    (tmp_path / "events").write_text(text)
    done = called("replay", tmp_path / "events")
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith(hint)
