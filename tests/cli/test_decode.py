"""Tests of `decode`: what sample records become, and proposed mappings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import called

SHOWN = {"type": "impression", "user_id": "u", "ts": 1772366400000, "impression_id": "r", "items": list("abcdefghij")}
CLICKED = {"type": "feedback", "user_id": "u", "ts": 1772366405000, "item_id": "b", "action": "watch", "value": 4}


def lines(folder: Path, *records: Any) -> Path:
    path = folder / "events.ndjson"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_each_record_is_shown_with_what_it_becomes_or_why_not(tmp_path: Path) -> None:
    done = called("decode", lines(tmp_path, SHOWN, CLICKED, {"type": "page"}))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == [
        "record 1: list r of [a, b, c, d, e, f, g, h and 2 more], user u, 2026-03-01T12:00:00.000Z",
        "record 2: feedback watch = 4 on b in any list, user u, 2026-03-01T12:00:05.000Z",
    ]
    assert done.stdout.splitlines()[2].startswith("record 3: refused as bad_type: type must be impression or feedback")
    assert done.stdout.splitlines()[-1] == "3 records: 1 list, 1 feedback, 1 refused"


def test_no_more_records_than_the_limit_are_shown(tmp_path: Path) -> None:
    done = called("decode", lines(tmp_path, *[SHOWN] * 9), "--limit", "4")
    assert done.stdout.splitlines()[-1] == "4 records: 4 lists"


def test_ignored_records_are_shown_and_a_file_of_only_these_fails(tmp_path: Path) -> None:
    done = called("decode", lines(tmp_path, {"event": "item"}), "--set", "events.format=metarank")
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["record 1: ignored: a mapping with kind = ignore applies", "1 record: 1 ignored"]


def test_a_source_that_is_neither_file_nor_topic_is_rejected(tmp_path: Path) -> None:
    done = called("decode", tmp_path / "missing")
    assert done.returncode == 2
    assert "is neither a file nor a topic in kafka.topics (impressions, feedback)" in done.stderr


def test_proposed_mappings_read_the_file_that_they_were_made_from(tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        {"event": "search", "user": "u", "ts": 1772366400000, "search_id": "s", "skus": ["a", "b"]},
        {"event": "click", "user": "u", "ts": 1772366405000, "search_id": "s", "sku": "b"},
    )
    (tmp_path / "mappings.toml").write_text(called("decode", path, "--suggest").stdout)
    done = called("decode", path, "--config", tmp_path / "mappings.toml")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "2 records: 1 list, 1 feedback"


def test_a_shipped_format_is_named_before_the_proposal(tmp_path: Path) -> None:
    path = lines(tmp_path, {"event": "ranking", "id": "r", "user": "u", "timestamp": "1772366400000", "items": [{"id": "a"}]})
    assert called("decode", path, "--suggest").stdout.startswith("# These seem to be Metarank events.")


def test_records_that_need_no_mapping_get_none(tmp_path: Path) -> None:
    done = called("decode", lines(tmp_path, SHOWN, CLICKED), "--suggest")
    assert done.stdout == "# 2 records read, and all are lists or feedback already: no mapping is needed.\n"
    assert "no mapping is needed" not in called("decode", lines(tmp_path, SHOWN, {"type": "page"}), "--suggest").stdout


UBI = {"action_name": "impression", "query_id": "q", "client_id": "u", "timestamp": "2026-03-01T12:00:00Z"}
UBI_SHOWN = UBI | {"event_attributes": {"object": {"object_id": "b"}, "position": {"ordinal": 1}}}
UBI_CLICKED = UBI_SHOWN | {"action_name": "click"}
UBI_QUERY = {"query_id": "q", "client_id": "u", "user_query": "lamp", "timestamp": "2026-03-01T12:00:00Z", "query_response_hit_ids": ["b"]}


@pytest.mark.parametrize(
    ("records", "settings"),
    [
        ([UBI_SHOWN, UBI_CLICKED], ['format = "ubi"']),
        ([[UBI_SHOWN], [UBI_CLICKED]], ['format = "ubi"']),
        ([{"_index": "ubi", "_source": UBI_SHOWN}], ['envelope = "hits"', 'format = "ubi"']),
        ([UBI_QUERY, UBI_CLICKED], ['format = "ubi"', 'ubi_lists = "hit_ids"']),
        ([{"specversion": "1.0", "type": "a.b", "data": SHOWN}], ['envelope = "cloudevents"']),
        ([{"topic": "t", "partition": 0, "offset": 1, "payload": json.dumps(SHOWN)}], ['envelope = "kcat"']),
        ([SHOWN | {"impression_id": 7, "items": [1, 2]}], ["numeric_ids = true"]),
    ],
)
def test_settings_that_read_the_records_are_proposed_instead_of_mappings(tmp_path: Path, records: list[Any], settings: list[str]) -> None:
    path = lines(tmp_path, *records)
    proposed = called("decode", path, "--suggest").stdout
    assert [line for line in proposed.splitlines() if line and line[0] != "#"] == ["[events]", *settings]
    (tmp_path / "proposed.toml").write_text(proposed)
    done = called("decode", path, "--config", tmp_path / "proposed.toml")
    assert (done.returncode, "refused" in done.stdout) == (0, False), done.stdout


def test_other_types_among_native_events_are_ignored_by_the_proposal(tmp_path: Path) -> None:
    path = lines(tmp_path, *[{"type": "page_view", "user_id": "u", "ts": 1772366400000}] * 30, SHOWN, CLICKED)
    (tmp_path / "proposed.toml").write_text(called("decode", path, "--suggest").stdout)
    done = called("decode", path, "--config", tmp_path / "proposed.toml", "--limit", "99")
    assert done.stdout.splitlines()[-1] == "32 records: 30 ignored, 1 list, 1 feedback"


def test_times_in_seconds_and_actions_without_a_grade_are_named(tmp_path: Path) -> None:
    path = lines(tmp_path, SHOWN | {"ts": 1772366400}, CLICKED | {"ts": 1772366405, "action": "Clicked"})
    *_, seconds, grade, _ = called("decode", path).stdout.splitlines()
    assert seconds == "the times of 2 events are in 1970: ts must be in milliseconds, not seconds"
    assert grade.startswith("no grade for Clicked 1 (did you mean click?): name it in join.grades")


EXPOSED = {"type": "exposure", "user_id": "u", "ts": 1772366400000, "experiment": "ranker", "variant": "new"}


def test_exposures_are_shown_and_those_to_other_experiments_are_ignored(tmp_path: Path) -> None:
    path = lines(tmp_path, EXPOSED, EXPOSED | {"experiment": "checkout"})
    done = called("decode", path, "--set", "exposures.enabled=true", "--set", "exposures.experiments=ranker")
    assert done.stdout.splitlines() == [
        "record 1: exposure to new of ranker, user u, 2026-03-01T12:00:00.000Z",
        "record 2: ignored: an exposure to an experiment that is not in exposures.experiments",
        "2 records: 1 exposure, 1 ignored",
    ]


def test_parts_of_a_list_are_tried_as_one_list(tmp_path: Path) -> None:
    part = {"event": "item_impression", "user": "u1", "list_id": "l1", "ts": 1772366400000}
    parts = [part | {"item_id": item, "position": at} for at, item in enumerate("abc")]
    done = called("decode", lines(tmp_path, *parts, part | {"event": "item_click", "item_id": "b"}), "--suggest")
    assert "fragment = true" in done.stdout
    assert "# Tried on these records: 1 list, 1 feedback, 1 of it on an item" in done.stdout
    assert done.returncode == 0


def test_mappings_that_refuse_many_of_the_records_end_with_1(tmp_path: Path) -> None:
    search = {"type": "search", "user": "u1", "search_id": "s1", "ts": 1772366400000, "skus": ["a", "b"]}
    done = called("decode", lines(tmp_path, search, search | {"search_id": "s2"}, search | {"search_id": "s3", "user": None}), "--suggest")
    assert "2 lists, 0 feedback" in done.stdout
    assert "# Refused as missing_field" in done.stdout
    assert done.returncode == 1


def test_a_suggestion_is_tried_on_the_records_and_a_skeleton_ends_with_1(tmp_path: Path) -> None:
    search = {"who": "u", "at": "2026-03-01T12:00:00Z", "query": "q", "hits": [{"code": "a"}, {"code": "b"}]}
    clicks = [
        {"who": "u", "at": "2026-03-01T12:00:05Z", "query": "q", "code": "b"},
        {"who": "u", "at": "2026-03-01T12:00:05Z", "code": "x"},
    ]
    done = called("decode", lines(tmp_path, search, *clicks), "--suggest")
    tried = "# Tried on these records: 1 list, 2 feedback, 1 of it on an item that a list of its user shows, 0 ignored, 0 refused."
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, tried)
    batch = {"batch": [{"type": "impression", "impression_id": "r", "user_id": "u", "ts": 5, "items": ["a"]}]}
    of_settings = called("decode", lines(tmp_path, batch), "--suggest").stdout
    assert of_settings.splitlines()[-3] == 'envelope = "batch"'
    assert of_settings.splitlines()[-1].startswith("# Tried on these records: 1 list, 0 feedback")
    unknown = called("decode", lines(tmp_path, {"sensor": "s", "celsius": 21.5}), "--suggest")
    assert unknown.returncode == 1
    assert "#   celsius  such as 21.5" in unknown.stdout


def test_refused_records_are_shown_whole_and_without_their_envelope(tmp_path: Path) -> None:
    record = {"type": "impression", "note": "x" * 200}
    done = called("decode", lines(tmp_path, {"payload": record}), "--set", "events.envelope=connect")
    assert json.dumps(record, separators=(",", ":")) in done.stdout.replace('": ', '":').replace(', "', ',"')


def test_without_the_setting_an_exposure_is_refused_with_what_to_set(tmp_path: Path) -> None:
    done = called("decode", lines(tmp_path, EXPOSED))
    assert done.returncode == 1
    assert "for exposures, set exposures.enabled = true" in done.stdout
