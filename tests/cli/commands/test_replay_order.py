"""An export has no order of time: its replay has the numbers of the sorted events. A log keeps its order."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.connectors.file_formats.forms import FORMS, Event
from tests.support.command_line import COMMAND, called, environment

START_MS, DAY_MS = 1_772_323_200_000, 86_400_000


def events(days: int = 3, lists: int = 100) -> list[Event]:
    """Lists of three items on several days, with a click on the second item of each."""
    written: list[Event] = []
    for number in range(days * lists):
        ts, user = START_MS + number * DAY_MS // lists, f"u{number % 60}"
        impression = {"type": "impression", "impression_id": f"r{number}", "user_id": user, "ts": ts, "items": ["a", "b", "c"]}
        click = {"type": "feedback", "impression_id": f"r{number}", "user_id": user, "ts": ts + 5_000, "item_id": "b", "action": "click"}
        written += [impression, click]
    return written


EVENTS = events()
ORDERS: dict[str, Callable[[Event], Any]] = {
    "shuffled": lambda event: Random(event["impression_id"] + event["type"]).random(),
    "by user": lambda event: (event["user_id"], event["ts"]),
    "newest first": lambda event: -event["ts"],
    "all lists, then all clicks": lambda event: event["type"] == "feedback",
}


def replayed(folder: Path, *files: str | Path, words: tuple[str, ...] = (), stdin: bytes = b"") -> tuple[dict[str, Any], bytes, str]:
    """Return the report, the panes and what was printed on standard error."""
    outputs = ["--report", folder / "report", "--panes", folder / "panes", "--dead-letters", folder / "letters"]
    done = called("replay", *files, *outputs, "--quiet", "--set", "experiments.enabled=false", *words, stdin=stdin)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return json.loads((folder / "report").read_bytes()), (folder / "panes").read_bytes(), done.stderr


def numbers(report: dict[str, Any]) -> dict[str, Any]:
    return {name: report[name] for name in ("counters", "totals", "windows", "final_ms", "watermark_ms")}


@pytest.mark.parametrize("words", [(), ("--jobs", "2")], ids=["one process", "two"])
@pytest.mark.parametrize("order", ORDERS)
def test_an_export_in_any_order_has_the_numbers_of_the_sorted_events(order: str, words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "sorted").write_bytes(FORMS["lines"](EVENTS))
    (tmp_path / "export").write_bytes(FORMS["lines"](sorted(EVENTS, key=ORDERS[order])))
    expected, expected_panes, printed = replayed(tmp_path, tmp_path / "sorted")
    assert (expected["counters"]["matched"], expected["sorted_inputs"], printed) == (300, [], "")
    report, panes, printed = replayed(tmp_path, tmp_path / "export", words=words)
    assert numbers(report) == numbers(expected)
    assert panes == expected_panes
    ((topic, count, misplaced),) = [tuple(sorted_input.values()) for sorted_input in report["sorted_inputs"]]
    assert (topic, count, misplaced > 150) == (str(tmp_path / "export"), 600, True)
    assert report["warnings"] == [
        f"{tmp_path}/export is not in order of time: in its order {misplaced} of 600 events are late or far ahead. So its events were "
        "sorted by time. If it is the log of a topic, replay it with --order log, in the order that `run` reads."
    ]
    if not words:
        assert printed == f"streammetrics: warning: {report['warnings'][0]}\n"


@pytest.mark.parametrize("form", ["csv", "array", "parquet"])
def test_any_form_of_file_is_sorted(form: str, tmp_path: Path) -> None:
    (tmp_path / "export").write_bytes(FORMS[form](sorted(EVENTS, key=ORDERS["shuffled"])))
    report, _, _ = replayed(tmp_path, tmp_path / "export")
    assert (report["counters"], len(report["sorted_inputs"])) == ({"events": 600, "matched": 300}, 1)


def test_parts_of_one_export_are_sorted_and_read_in_step(tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    for number in range(4):
        (parts / f"part-{number}").write_bytes(FORMS["lines"](sorted(EVENTS, key=ORDERS["shuffled"])[number::4]))
    report, _, _ = replayed(tmp_path, parts)
    assert (report["counters"], len(report["sorted_inputs"])) == ({"events": 600, "matched": 300}, 4)
    assert report["warnings"][0].startswith(f"4 files are not in order of time, such as {parts}/part-")


def test_a_few_clicks_after_many_lists_are_out_of_order(tmp_path: Path) -> None:
    """They are too few to be a share of all events that stands out."""
    lists, clicks = ([event for event in events(lists=700) if event["type"] == kind] for kind in ("impression", "feedback"))
    (tmp_path / "export").write_bytes(FORMS["lines"]([*lists, *clicks[:40]]))
    report, _, _ = replayed(tmp_path, tmp_path / "export")
    assert report["counters"] == {"events": 2_140, "matched": 40}


def test_a_log_keeps_its_order_and_its_late_events(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(FORMS["lines"](sorted(EVENTS, key=ORDERS["shuffled"])))
    report, _, printed = replayed(tmp_path, tmp_path / "log", words=("--order", "log"))
    assert report["counters"]["late"] > 400
    assert (report["sorted_inputs"], len(report["late_inputs"])) == ([], 1)
    assert "are late and refused" in printed


def test_some_late_events_of_a_log_stay_late(tmp_path: Path) -> None:
    log = events(lists=400)
    for place in range(100, len(log), 60):
        log[place], log[place - 90] = log[place - 90], log[place]
    (tmp_path / "log").write_bytes(FORMS["lines"](log))
    auto, panes, _ = replayed(tmp_path, tmp_path / "log")
    as_log, log_panes, _ = replayed(tmp_path, tmp_path / "log", words=("--order", "log"))
    assert 20 < auto["counters"]["late"] < 0.05 * len(log)
    assert (auto, panes) == (as_log, log_panes)


def test_all_files_are_sorted_where_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "export").write_bytes(FORMS["lines"](sorted(EVENTS, key=ORDERS["shuffled"])))
    report, _, printed = replayed(tmp_path, tmp_path / "export", words=("--order", "time"))
    assert (report["counters"], printed) == ({"events": 600, "matched": 300}, "")
    assert report["sorted_inputs"] == [{"topic": str(tmp_path / "export"), "events": 600, "misplaced": 0}]


def test_standard_input_out_of_order_ends_with_the_way_out(tmp_path: Path) -> None:
    content = FORMS["lines"](sorted(EVENTS, key=ORDERS["shuffled"]))
    done = called("replay", "-", "--report", tmp_path / "report", stdin=content)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("streammetrics: - is not in order of time: in its order ")
    assert done.stderr.endswith(
        " of 600 events are late or far ahead; save it to a file or pass --order time, so that it is sorted. "
        "--order log keeps the order, for the log of a topic\n"
    )
    assert not (tmp_path / "report").exists()
    report, _, _ = replayed(tmp_path, "-", words=("--order", "time"), stdin=content)
    assert report["counters"] == {"events": 600, "matched": 300}


def test_a_dead_letter_names_the_line_of_the_export(tmp_path: Path) -> None:
    lines = FORMS["lines"](sorted(EVENTS, key=ORDERS["shuffled"])).splitlines(keepends=True)
    (tmp_path / "export").write_bytes(b"".join([*lines[:200], b"broken\n", *lines[200:]]))
    replayed(tmp_path, tmp_path / "export")
    (letter,) = map(json.loads, (tmp_path / "letters").read_bytes().splitlines())
    assert (letter["line"], letter["value"], letter["reason"]) == (201, "broken", "bad_json")


def test_a_pipe_gets_the_panes_of_the_sorted_events_once(tmp_path: Path) -> None:
    (tmp_path / "export").write_bytes(FORMS["lines"](sorted(EVENTS, key=ORDERS["shuffled"])))
    _, panes, _ = replayed(tmp_path, tmp_path / "export")
    os.mkfifo(tmp_path / "pipe")
    reports: list[bytes] = []
    reader = threading.Thread(target=lambda: reports.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    words = [*COMMAND, "replay", str(tmp_path / "export"), "--panes", str(tmp_path / "pipe"), "--quiet"]
    subprocess.run(words, env=environment(), check=True, capture_output=True)
    reader.join()
    assert reports == [panes]


def test_times_in_seconds_among_others_in_milliseconds_have_no_order(tmp_path: Path) -> None:
    start, of_user, path = 1_772_366_400, {"item_id": "a", "action": "click"}, tmp_path / "mixed"
    impressions = [
        {"type": "impression", "user_id": f"u{n}", "ts": 1_000 * (start + n), "impression_id": f"r{n}", "items": ["a"]} for n in range(200)
    ]
    clicked = [{"type": "feedback", "user_id": f"u{n}", "ts": start + n, **of_user} for n in range(200)]
    path.write_text("".join(json.dumps(event) + "\n" for pair in zip(impressions, clicked, strict=True) for event in pair))
    report, _, printed = replayed(tmp_path, path)
    assert report["sorted_inputs"] == []
    assert "They are dated 1970-01-21 12:" in printed
    assert (
        "their times are in seconds, and others in milliseconds. Compare the times of lists and of feedback, and multiply ts by" in printed
    )
