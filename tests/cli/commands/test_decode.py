"""Tests of `decode`: what sample records become, and the summary of a sample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
    assert done.stdout.splitlines()[3:] == [
        """    {"type": "page"}""",
        "lists     1, with 10 items",
        "feedback  watch 1: 0 with the id of a list, 1 without; 1 meets a list of the sample",
        "refused   bad_type 1: record 3",
        "3 records: 1 list, 1 feedback, 1 refused",
    ]


def test_a_variant_that_is_a_number_or_a_boolean_is_shown_as_used_and_a_label_that_is_dropped_with_its_reason(tmp_path: Path) -> None:
    labels = {"experiments": {"ranker": True}}, {"experiments": {"ranker": ["on"]}}
    done = called("decode", lines(tmp_path, *({**SHOWN, "items": ["a"], **label} for label in labels)))
    assert done.stdout.splitlines()[:2] == [
        "record 1: list r of [a], ranker=true, user u, 2026-03-01T12:00:00.000Z",
        "record 2: list r of [a], labels not used: label_bad_type, user u, 2026-03-01T12:00:00.000Z",
    ]


def test_no_more_records_than_the_limit_are_shown(tmp_path: Path) -> None:
    done = called("decode", lines(tmp_path, *[SHOWN] * 9), "--limit", "4")
    assert done.stdout.splitlines()[-1] == "4 records: 4 lists"


def test_a_source_that_is_neither_file_nor_topic_is_rejected(tmp_path: Path) -> None:
    done = called("decode", tmp_path / "missing")
    assert done.returncode == 2
    assert "is neither a file nor a topic in kafka.topics (impressions, feedback)" in done.stderr


def test_times_in_seconds_and_actions_without_a_grade_are_named(tmp_path: Path) -> None:
    path = lines(tmp_path, SHOWN | {"ts": 1772366400}, CLICKED | {"ts": 1772366405, "action": "Clicked"})
    _, _, lists, feedback, grade, *_ = called("decode", path).stdout.splitlines()
    fix = "Multiply ts by 1,000 in the reader: it must be in milliseconds, not seconds."
    assert lists == f"warning: The times of the lists of {path} are 1970-01-21 12:19:26 UTC or before. {fix}"
    assert feedback == f"warning: The times of the feedback of {path} are 1970-01-21 12:19:26 UTC or before. {fix}"
    assert grade.startswith(
        "warning: No feedback has a grade: the action of all 1 is unknown, such as Clicked (did you mean click?). Name them"
    )


def test_simulated_traffic_has_no_warning_in_any_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    assert called("simulate", "--out", path, "--minutes", 3, "--rate", 4, "--seed", 1).returncode == 0
    sent = path.read_text().splitlines(keepends=True)
    last = tmp_path / "last.ndjson"
    last.write_text("".join(sent[-100:]))
    for source, limit in ((path, 20), (path, 1_000), (last, 100)):
        done = called("decode", source, "--limit", limit)
        assert (done.returncode, "warning" in done.stdout) == (0, False), done.stdout[-2_000:]


def test_names_of_others_do_not_control_the_terminal(tmp_path: Path) -> None:
    path = lines(tmp_path, SHOWN, CLICKED | {"item_id": "b\u009b2J"}, SHOWN | {"experiments": {"x\u202e": None}})
    done = called("decode", path)
    assert "\u009b" not in done.stdout
    assert "\u202e" not in done.stdout


EXPOSED = {"type": "exposure", "user_id": "u", "ts": 1772366400000, "experiment": "ranker", "variant": "new"}


def test_exposures_are_shown_and_those_to_other_experiments_are_ignored(tmp_path: Path) -> None:
    path = lines(tmp_path, EXPOSED, EXPOSED | {"experiment": "checkout"})
    done = called("decode", path, "--set", "exposures.enabled=true", "--set", "exposures.experiments=ranker")
    assert done.stdout.splitlines() == [
        "record 1: exposure to new of ranker, user u, 2026-03-01T12:00:00.000Z",
        "record 2: ignored: an exposure to an experiment that is not in exposures.experiments",
        "exposures ranker: new 1",
        "ignored   an exposure to an experiment that is not in exposures.experiments 1",
        "2 records: 1 exposure, 1 ignored",
    ]


def test_without_the_setting_an_exposure_is_refused_with_what_to_set(tmp_path: Path) -> None:
    done = called("decode", lines(tmp_path, EXPOSED))
    assert done.returncode == 1
    assert "for exposures, set exposures.enabled = true" in done.stdout


READER = """
from streammetrics.readers import ignore

def read(record):
    event = record.json()
    if event["what"] == "page":
        yield ignore("page view")
        return
    yield {"type": "feedback", "user_id": str(event["who"]), "ts": event["at"], "item_id": event["sku"], "action": event["what"]}
"""
SHARED = {"who": 7, "at": "2026-03-01T12:00:05Z", "sku": "b"}


def test_a_reader_is_tried_and_its_errors_name_the_line(tmp_path: Path) -> None:
    (tmp_path / "reader.py").write_text(READER)
    records = lines(tmp_path, SHARED | {"what": "click"}, {"what": "page"}, {"what": "click", "who": 7, "at": 5})
    done = called("decode", records, "--reader", tmp_path / "reader.py:read")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "record 1: feedback click on b in any list, user 7, 2026-03-01T12:00:05.000Z",
        "record 2: ignored: page view",
        "record 3: refused as reader: KeyError: 'sku', reader.py:9; got "
        + records.read_text().splitlines()[2]
        + "; correct the reader, or let"
        " it yield ignore(…)",
        """    {"what": "click", "who": 7, "at": 5}""",
        "feedback  click 1: 0 with the id of a list, 1 without; 0 meet a list of the sample",
        "refused   reader 1: record 3",
        "ignored   page view 1",
        "3 records: 1 feedback, 1 ignored, 1 refused",
    ]


def test_a_sample_without_any_event_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "reader.py").write_text(READER)
    done = called("decode", lines(tmp_path, {"what": "page"}), "--reader", tmp_path / "reader.py:read")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "1 record: 1 ignored")


def test_a_reader_that_asks_to_wait_ends_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "reader.py").write_text(
        "from streammetrics.readers import Later\ndef read(record):\n    raise Later('the registry is away')\n"
    )
    for command in ("decode", "replay"):
        options = ["--set", f"events.reader={tmp_path / 'reader.py:read'}"]
        done = called(command, lines(tmp_path, SHARED), *options)
        assert done.returncode == 1
        assert "the registry is away" in done.stderr


def test_the_template_of_a_reader_reads_what_it_shows(tmp_path: Path) -> None:
    (tmp_path / "reader.py").write_text(called("config", "--reader").stdout)
    shared = {"user": "u", "at": 1772366400000}
    records = lines(
        tmp_path,
        shared | {"type": "search", "id": "s", "hits": [{"sku": "a"}, {"sku": "b"}], "variant": "new"},
        shared | {"type": "click", "search": "s", "sku": "b"},
        shared | {"type": "order", "lines": [{"sku": "a", "price": 9.9}, {"sku": "b", "price": 1}]},
        shared | {"type": "page"},
    )
    done = called("decode", records, "--reader", tmp_path / "reader.py:read")
    assert done.stdout.splitlines()[-6:] == [
        "lists     1, with 2 items",
        "          ranker: new 1",
        "feedback  purchase 2: 0 with the id of a list, 2 without; 2 meet a list of the sample",
        "          click 1: 1 with the id of a list, 0 without; 1 meets a list of the sample",
        "ignored   page 1",
        "4 records: 3 feedback, 1 list, 1 ignored",
    ]
