"""Tests of `replay`: the same numbers for any form of input, complete output files, and the printed table."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import os
import random
import shlex
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from streammetrics.cli.signals import SIGNALS
from streammetrics.connectors.simulated import SimulatedRecord
from streammetrics.events.outcomes import MALFORMED
from tests.connectors.file_formats.forms import FORMS, array
from tests.support.command_line import COMMAND, called, environment, is_asleep, started
from tests.support.paths import ROOT
from tests.support.replays import CLEAN, DAY_MS, FAULTY, NOON_MS, QUICK, SETTINGS, replayed, sent, write
from tests.tools.servers.process import wait_until


def numbers(report: dict[str, object]) -> dict[str, object]:
    """Return the parts of a report that do not depend on file names or on snapshots."""
    return {key: value for key, value in report.items() if key not in ("inputs", "counters_by_topic", "history")}


def differing(one: dict[str, object], other: dict[str, object]) -> list[str]:
    """Return the names of the differing parts of two reports; a full diff would take minutes."""
    ones, others = numbers(one), numbers(other)
    return [key for key in ones.keys() | others.keys() if ones.get(key) != others.get(key)]


def shown(user: str, ts: int, experiment: str = "") -> SimulatedRecord:
    """A list of two items, in the control of an experiment or in none."""
    arms = {experiment: "control"} if experiment else {}
    event = {"type": "impression", "impression_id": f"{user}{ts}", "user_id": user, "ts": ts, "items": ["a", "b"], "experiments": arms}
    return SimulatedRecord("events", user.encode(), ts, json.dumps(event).encode())


def later(ts: int) -> list[SimulatedRecord]:
    """Lists without an experiment, two hours later: the lists before have had all their time for feedback."""
    return [shown(f"later{number}", ts + 7_200_000 + number) for number in range(20)]


def answered(user: str, ts: int) -> SimulatedRecord:
    """A click on an item of a list that was never shown."""
    event = {"type": "feedback", "impression_id": "none", "user_id": user, "item_id": "a", "ts": ts, "action": "click"}
    return SimulatedRecord("events", user.encode(), ts, json.dumps(event).encode())


def test_a_file_standard_input_and_a_compressed_file_give_the_same_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "events.ndjson", sent(FAULTY))
    packed = tmp_path / "events.ndjson.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    misnamed = tmp_path / "packed.ndjson"
    misnamed.write_bytes(packed.read_bytes())
    panes, report, letters = replayed(tmp_path, path)
    assert len(panes.splitlines()) > 100
    assert letters
    for other, stdin in (("-", path.read_bytes()), ("-", packed.read_bytes()), (str(packed), b""), (str(misnamed), b"")):
        other_panes, other_report, other_letters = replayed(tmp_path, other, stdin=stdin)
        assert other_panes == panes
        assert differing(other_report, report) == []
        named = [{**letter, "input": str(path), "key": str(letter["key"]).replace(other, str(path))} for letter in other_letters]
        assert named == letters


def test_the_order_of_the_files_changes_no_number(tmp_path: Path) -> None:
    records = sent(FAULTY)
    files = [write(tmp_path / topic, (record for record in records if record.topic == topic)) for topic in ("impressions", "feedback")]
    panes, report, letters = replayed(tmp_path, *files)
    again_panes, again_report, again_letters = replayed(tmp_path, *reversed(files))
    assert again_panes == panes
    assert differing(again_report, report) == []
    assert sorted(map(str, again_letters)) == sorted(map(str, letters))


def test_splitting_input_without_late_events_changes_no_number(tmp_path: Path) -> None:
    records = sent(CLEAN)
    panes, report, _ = replayed(tmp_path, write(tmp_path / "whole", records))
    chance = random.Random(6)
    for parts in (2, 5):
        dealt = [(chance.randrange(parts), record) for record in records]
        files = [write(tmp_path / f"part{part}", (record for chosen, record in dealt if chosen == part)) for part in range(parts)]
        split_panes, split_report, split_letters = replayed(tmp_path, *files)
        assert split_panes == panes
        assert differing(split_report, report) == []
        assert split_letters == []


def test_cutting_a_log_into_files_changes_no_number(tmp_path: Path) -> None:
    records = sent(CLEAN)
    whole = write(tmp_path / "whole", records)
    (tmp_path / "empty").touch()
    (tmp_path / "blank").write_bytes(b"\n \n\n")
    for words in ((), ("--no-flush",)):
        panes, report, _ = replayed(tmp_path, whole, words=words)
        assert report["watermark_ms"] == (max(json.loads(record.value)["ts"] for record in records) - 5_000 if words else None)
        for cuts in ((2_000,), (500, 700, 3_999), (1_000, 1_001, 2_000, 3_000)):
            ends = [0, *cuts, len(records)]
            files = [write(tmp_path / f"part{end}", records[start:end]) for start, end in itertools.pairwise(ends)]
            with files[0].open("ab") as file:
                file.write(b"\n\n")
            cut_panes, cut_report, letters = replayed(tmp_path, *files, tmp_path / "empty", tmp_path / "blank", words=words)
            assert letters == []
            assert differing(cut_report, report) == []
            assert cut_panes == panes


ONE_EVENT_SETS_THE_TIME = ["--set", "join.support_users=1"]


def test_an_ended_experiment_is_not_reported_for_any_cut_of_its_log(tmp_path: Path) -> None:
    old = [shown("a", NOON_MS + number, "old") for number in range(10)]
    new = [*(shown("b", NOON_MS + 40 * DAY_MS + number, "new") for number in range(10)), *later(NOON_MS + 40 * DAY_MS)]
    for files in ((write(tmp_path / "whole", [*old, *new]),), (write(tmp_path / "1", old), write(tmp_path / "2", new))):
        _, report, _ = replayed(tmp_path, *files, words=ONE_EVENT_SETS_THE_TIME)
        experiments = report["experiments"]
        assert isinstance(experiments, list)
        assert {experiment["experiment"] for experiment in experiments} == {"new"}


@pytest.mark.parametrize(("place", "jobs"), [(0, "1"), (30, "1"), (1, "2")])
def test_a_list_of_a_clock_that_is_a_year_ahead_does_not_become_the_experiment(tmp_path: Path, place: int, jobs: str) -> None:
    lines = [shown(f"u{number}", NOON_MS + number, "exp") for number in range(60)]
    lines[place] = shown("phone", NOON_MS + 365 * DAY_MS, "exp")
    done = called("replay", write(tmp_path / "events", [*lines, *later(NOON_MS)]), "--report", tmp_path / "report", "--jobs", jobs)
    assert done.returncode == 0, done.stderr
    experiments = json.loads((tmp_path / "report").read_bytes())["experiments"]
    assert [variant["users"] for experiment in experiments if experiment["scope"] == "start" for variant in experiment["variants"]] == [59]


def test_the_names_of_files_do_not_change_experiments(tmp_path: Path) -> None:
    """One file has feedback on a day without lists; another file has the same experiment on a later day."""
    old = [
        *(shown(f"u{number}", NOON_MS + number, "exp") for number in range(20)),
        *(answered(f"u{number}", NOON_MS + 2 * DAY_MS + number) for number in range(20)),
        *(shown(f"u{number}", NOON_MS + 5 * DAY_MS + number) for number in range(20)),
    ]
    new = [shown(f"v{number}", NOON_MS + 5 * DAY_MS + 20 + number, "exp") for number in range(20)]
    experiments = []
    for names in (("old1", "new2"), ("old2", "new1")):
        files = [write(tmp_path / name, records) for name, records in zip(names, (old, new), strict=True)]
        _, report, _ = replayed(tmp_path, *files)
        experiments.append(report["experiments"])
    assert experiments[0] == experiments[1]
    assert {experiment["health"]["unmatched_share"] for experiment in experiments[0] if experiment["scope"] == "start"} == {1.0}


def test_the_number_of_commits_changes_no_number(tmp_path: Path) -> None:
    path = write(tmp_path / "events", sent(replace(FAULTY, impressions_per_second=1), 1_000))
    seldom = replayed(tmp_path, path, words=["--set", "worker.commit_ms=60000", "--set", "worker.commit_users_max=100000"])
    often = replayed(tmp_path, path, words=["--set", "worker.commit_ms=0", "--set", "worker.commit_users_max=1"])
    assert often == seldom


def test_panes_are_sorted_and_final_panes_are_in_both_views(tmp_path: Path) -> None:
    panes, report, _ = replayed(tmp_path, write(tmp_path / "events", sent(CLEAN)))
    lines = [json.loads(line) for line in panes.splitlines()]
    keys = [(line["pane_start_ms"], line["experiment"], line["variant"], sorted(line["segments"].items()), line["view"]) for line in lines]
    assert keys == sorted(keys)
    assert len(set(map(str, keys))) == len(keys)
    views = {view: [{**line, "view": ""} for line in lines if line["view"] == view] for view in ("final", "live")}
    assert views["final"] == views["live"]
    everything = [line for line in views["final"] if line["experiment"] == "" and not line["segments"]]
    total = next(total for total in report["totals"] if total["experiment"] == "")  # type: ignore[attr-defined]
    assert sum(line["lists"] for line in everything) == total["lists"] > 0


def test_without_a_flush_recent_panes_stay_live(tmp_path: Path) -> None:
    path = write(tmp_path / "events", sent(CLEAN))
    flushed, _, _ = replayed(tmp_path, path)
    panes, report, _ = replayed(tmp_path, path, words=["--no-flush"])
    lines = [json.loads(line) for line in panes.splitlines()]
    final_ms = report["final_ms"]
    assert isinstance(final_ms, int)
    assert report["ended"] is False
    final = [line for line in lines if line["view"] == "final"]
    assert final
    assert all(line["pane_start_ms"] + line["pane_ms"] <= final_ms for line in final)
    assert max(line["pane_start_ms"] for line in lines if line["view"] == "live") > final_ms
    assert set(map(str, final)) < {str(json.loads(line)) for line in flushed.splitlines()}
    assert [{**line, "view": ""} for line in lines if line["view"] == "live"] == [
        {**json.loads(line), "view": ""} for line in flushed.splitlines() if json.loads(line)["view"] == "live"
    ]


def test_dead_letters_have_the_raw_line_reason_and_place(tmp_path: Path) -> None:
    records = sent(FAULTY)
    path = write(tmp_path / "events", records)
    _, report, letters = replayed(tmp_path, path)
    counters = report["counters"]
    assert isinstance(counters, dict)
    refused = {reason: count for reason, count in counters.items() if reason in (*MALFORMED, "late")}
    assert {"bad_json", "late"} <= set(refused)
    assert {reason: sum(letter["reason"] == reason for letter in letters) for reason in refused} == refused
    lines = path.read_bytes().splitlines()
    for letter in letters:
        line = letter["line"]
        assert isinstance(line, int)
        raw = base64.b64decode(str(letter["value_base64"])) if "value_base64" in letter else str(letter["value"]).encode()
        assert raw == lines[line - 1]
        assert letter["input"] == str(path)
        assert letter["key"] == f"{path}:0:{line}"
        assert letter["detail"]


def test_a_line_that_is_too_long_is_a_complete_dead_letter(tmp_path: Path) -> None:
    path = write(tmp_path / "events", sent(CLEAN, 10))
    line = '{"type":"impression","items":["' + "x" * 900_000 + '"]}'
    with path.open("a") as file:
        file.write(f"{line}\n")
    _, _, (letter,) = replayed(tmp_path, path)
    assert (letter["reason"], letter["value"]) == ("oversized", line)
    assert "value_bytes" not in letter


def test_all_unreadable_files_are_reported_and_nothing_is_written(tmp_path: Path) -> None:
    good = write(tmp_path / "events", sent(CLEAN, 10))
    panes = tmp_path / "panes"
    letters = tmp_path / "letters"
    letters.write_text("of an earlier replay")
    empty = tmp_path / "empty"
    empty.mkdir()
    done = called("replay", good, tmp_path / "none", empty, good, "--panes", panes, "--dead-letters", letters)
    assert done.returncode == 2
    for message in (f"{tmp_path / 'none'}: does not exist", f"{empty}: is a folder without files", f"{good}: is named twice"):
        assert message in done.stderr
    assert not panes.exists()
    assert letters.read_text() == "of an earlier replay"


def test_a_failed_replay_keeps_the_old_files_and_leaves_no_partial_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "events", sent(CLEAN))
    cut = tmp_path / "cut.ndjson.gz"
    cut.write_bytes(gzip.compress(path.read_bytes())[:-100])
    panes, report, letters = tmp_path / "panes", tmp_path / "report", tmp_path / "letters"
    panes.write_text("the former one")
    letters.write_text("former letters")
    done = called("replay", cut, "--panes", panes, "--report", report, "--dead-letters", letters, *SETTINGS, *QUICK)
    assert done.returncode == 1
    assert "cannot be read beyond line" in done.stderr
    assert done.stdout == ""
    assert (panes.read_text(), letters.read_text()) == ("the former one", "former letters")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut.ndjson.gz", "events", "letters", "panes"]


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupted_replay_keeps_the_old_files_and_leaves_no_partial_ones(number: signal.Signals, tmp_path: Path) -> None:
    pipe, report = tmp_path / "events", tmp_path / "report.json"
    os.mkfifo(pipe)
    report.write_text("former")
    words = ["--report", report, "--panes", tmp_path / "panes", "--dead-letters", tmp_path / "letters"]
    with started("replay", pipe, *words) as process, pipe.open("wb"):
        wait_until(lambda: len(list(tmp_path.glob("*.part"))) == 3, what="the replay has opened what it writes")
        wait_until(lambda: is_asleep(process), what="the replay waits for events")
        process.send_signal(number)
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 1
    assert stderr.endswith("streammetrics: interrupted; no partial file was written\n")
    assert report.read_text() == "former"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events", "report.json"]


def test_ctrl_c_ends_a_command_without_a_loop_with_a_message(tmp_path: Path) -> None:
    pipe = tmp_path / "events"
    os.mkfifo(pipe)
    with started("decode", pipe) as process, pipe.open("wb"):
        wait_until(lambda: is_asleep(process), what="it waits for events")
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=120)
    assert (process.returncode, stderr) == (1, "streammetrics: interrupted\n")


def test_more_files_than_may_be_open_are_one_problem(tmp_path: Path) -> None:
    for number in range(80):
        (tmp_path / f"{number}.ndjson").write_text("{}\n")
    words = shlex.join(["exec", *COMMAND, "replay", str(tmp_path)])
    done = subprocess.run(["sh", "-c", f"ulimit -n 64; {words}"], check=False, cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 2
    assert "are 80 files, more than this process may have open; raise the limit: ulimit -n 180" in done.stderr


def test_only_the_first_of_many_problems_are_printed(tmp_path: Path) -> None:
    done = called("replay", *[tmp_path / f"missing{number}" for number in range(50)])
    lines = done.stderr.splitlines()
    assert (lines[0], len(lines), lines[-1]) == ("streammetrics: 50 problems:", 22, "  and 30 more")


@pytest.mark.parametrize("option", ["--panes", "--report", "--dead-letters"])
def test_an_unwritable_output_is_reported_with_its_option(option: str, tmp_path: Path) -> None:
    path = write(tmp_path / "events", sent(CLEAN, 10))
    done = called("replay", path, option, tmp_path / "no" / "such" / "folder")
    assert done.returncode == 2
    assert f"{option} = {tmp_path / 'no' / 'such' / 'folder'}: cannot be written: No such file or directory" in done.stderr


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(["FILE", "--panes", "--report", "--dead-letters"], 2)))
def test_no_output_overwrites_an_input_or_another_output(one: str, other: str, tmp_path: Path) -> None:
    path = write(tmp_path / "events", sent(CLEAN, 10))
    before = path.read_bytes()
    target = path if one == "FILE" else tmp_path / "target"
    (tmp_path / "link").symlink_to(target)
    done = called("replay", path, *([] if one == "FILE" else [one, target]), other, tmp_path / "link")
    assert done.returncode == 2
    assert f"is also given as {one}" in done.stderr
    assert path.read_bytes() == before
    assert target.exists() == (one == "FILE")


@pytest.mark.parametrize("form", ["symbolic", "hard"])
def test_an_output_must_not_be_a_link_to_an_input(form: str, tmp_path: Path) -> None:
    path = write(tmp_path / "events", sent(CLEAN, 10))
    before, link = path.read_bytes(), tmp_path / "link"
    link.symlink_to(path) if form == "symbolic" else link.hardlink_to(path)
    done = called("replay", path, "--dead-letters", link)
    assert (done.returncode, path.read_bytes()) == (2, before)
    assert f"--dead-letters = {link}: is also given as FILE; choose another output file" in done.stderr


def test_outputs_do_not_touch_files_with_similar_names(tmp_path: Path) -> None:
    path = write(tmp_path / "events.part", sent(CLEAN, 10))
    before = path.read_bytes()
    panes, report, letters = tmp_path / "events", tmp_path / "letters.part", tmp_path / "letters"
    done = called("replay", path, "--panes", panes, "--report", report, "--dead-letters", letters, "--quiet")
    assert (done.returncode, path.read_bytes()) == (0, before)
    assert panes.read_bytes().startswith(b'{"pane_start_ms"')
    assert json.loads(report.read_bytes())["counters"]["events"] == 10
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events", "events.part", "letters", "letters.part"]


@pytest.mark.parametrize("option", ["--panes", "--report", "--dead-letters"])
def test_outputs_cannot_go_to_standard_output(option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "events", sent(CLEAN, 10))
    done = called("replay", path, option, "-")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Invalid value for '{option}': standard output is not allowed here" in " ".join(done.stderr.split())
    assert called("replay", path, option, "./-", "--quiet").returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["-", "events"]


@pytest.mark.parametrize("option", ["--panes", "--report", "--dead-letters"])
@pytest.mark.parametrize("name", ["x.html", "x.HTM", "x.svg"])
def test_data_are_not_written_under_a_name_that_a_browser_runs(option: str, name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "events", sent(CLEAN, 10))
    done = called("replay", path, option, tmp_path / name)
    assert (done.returncode, done.stdout) == (2, "")
    said = "".join(done.stderr.split())
    assert f"{tmp_path}/{name}isthenameofapage,andthisfileholdsdata" in said
    assert [path.name for path in tmp_path.iterdir()] == ["events"]


@pytest.mark.parametrize("option", ["--panes", "--report", "--dead-letters"])
def test_a_full_disk_is_reported_with_the_option_and_file(option: str, tmp_path: Path) -> None:
    path = write(tmp_path / "events", sent(FAULTY))
    done = called("replay", path, option, "/dev/full", "--quiet")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"{option} = /dev/full: " in done.stderr
    assert "No space left on device" in done.stderr


def test_a_device_is_written_to_and_stays_a_device(tmp_path: Path) -> None:
    path = write(tmp_path / "events", sent(CLEAN, 10))
    device = tmp_path / "pipe"
    os.mkfifo(device)
    reader = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
    try:
        done = called("replay", path, "--report", device, "--quiet")
        assert done.returncode == 0
        assert json.loads(os.read(reader, 1 << 20))["counters"]["events"] == 10
    finally:
        os.close(reader)
    assert device.is_fifo()


def test_the_table_shows_events_refused_events_and_each_variant(tmp_path: Path) -> None:
    path = write(tmp_path / "events", sent(FAULTY))
    _, report, letters = replayed(tmp_path, path)
    done = called("replay", path, *SETTINGS, *QUICK)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"refused   {len(letters)}: " in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    for total in report["totals"]:  # type: ignore[attr-defined]
        labels = [total["experiment"], total["variant"]] if total["experiment"] else ["all"]
        values = [f"{total['values'][metric]:.4f}" for metric in ("ndcg@10", "mrr@10", "hit_rate@10")]
        wanted = [*labels, f"{total['lists']:,}", f"{total['lists_with_feedback']:,}", *values]
        assert any(row[-len(wanted) :] == wanted for row in rows)
    assert "last 1m" in done.stdout
    assert "last 5m" in done.stdout


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_each_reason_of_refused_events_is_shown_with_an_example(jobs: str, tmp_path: Path) -> None:
    path = tmp_path / "events"
    seconds = b'{"type":"impression","impression_id":"a","user_id":"u","ts":"1732183200","items":["x"]}\n'
    good = b"".join(event.value + b"\n" for event in sent(CLEAN, 40))
    path.write_bytes(good + b"{\n" + seconds + seconds + b'{"type":"page_view"}\n')
    other = tmp_path / "other"
    other.write_bytes(b"not an event\n")
    done = called("replay", path, other, "--jobs", jobs)
    lines = done.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("refused   5: bad_json 2, bad_ts 2, bad_type 1"))
    line_by_topic = {line.split(",")[0].strip(): line for line in lines[at + 1 : at + 4]}
    assert [line.startswith(" " * 10) for line in lines[at + 1 : at + 5]] == [True, True, True, False]
    assert f"such as line 41 of {path}: Input data was truncated" in line_by_topic["bad_json"]
    assert f"such as line 42 of {path}: ts must be" in line_by_topic["bad_ts"]
    assert (
        'got "page_view"; send other events to another topic, or write a reader that yields ignore(…) for them' in line_by_topic["bad_type"]
    )
    assert f"no line of {other} is an event. Line 1 is refused as bad_json: " in done.stderr, "it has its own message"
    assert f"9.1 % of the events of {path} are refused, 4 of 44: bad_ts 2, bad_json 1, bad_type 1." in done.stderr
    assert f"events of {other}" not in done.stderr


def test_the_verdicts_are_printed_with_the_way_to_their_numbers(tmp_path: Path) -> None:
    events, report = tmp_path / "events.ndjson", tmp_path / "my report.json"
    variants = [word for share in ("control=0.4", "worse=0.3:0.6", "same=0.3") for word in ("--variant", share)]
    assert called("simulate", "--out", events, "--minutes", "60", "--rate", "4", *variants).returncode == 0
    lines = called("replay", events).stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("verdict"))
    assert lines[at].startswith("verdict   ranker: regressed (worse: ")
    assert lines[at].endswith("; same is inconclusive)")
    assert lines[-1].endswith("replay again with --report report.json, then streammetrics report report.json")
    assert called("replay", events, "--report", report).stdout.splitlines()[-1].endswith(f": streammetrics report '{report}'")
    assert called("report", report).stdout.splitlines()[1].startswith("REGRESSED  worse: ")


def test_without_experiments_no_verdict_is_printed(tmp_path: Path) -> None:
    events = tmp_path / "events.ndjson"
    assert called("simulate", "--out", events, "--minutes", "1").returncode == 0
    assert "verdict" not in called("replay", events, "--set", "experiments.enabled=false").stdout


def test_names_from_events_are_not_markup(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_text(
        json.dumps(
            {"type": "impression", "impression_id": "r", "user_id": "u", "ts": 0, "items": ["a"], "experiments": {"[red]x": ":smile:"}}
        )
    )
    done = called("replay", path)
    assert "[red]x" in done.stdout
    assert ":smile:" in done.stdout


def test_names_with_direction_controls_are_sanitized_in_the_table(tmp_path: Path) -> None:
    name = "new\u202eretteb"
    event = {"type": "impression", "impression_id": "a", "user_id": "u", "ts": 0, "items": ["x"], "experiments": {name: name}}
    (tmp_path / "events").write_text(json.dumps(event))
    output = called("replay", tmp_path / "events", *SETTINGS).stdout
    assert "\u202e" not in output
    assert output.count("new\ufffdretteb") >= 2


def test_unknown_actions_and_types_are_shown_by_name(tmp_path: Path) -> None:
    path, report = tmp_path / "events", tmp_path / "report"
    impression = {"type": "impression", "impression_id": "r", "user_id": "u", "ts": 0, "items": ["a"]}
    clicked = {"type": "feedback", "user_id": "u", "ts": 1, "item_id": "a", "action": "Product Clicked"}
    path.write_text("\n".join(map(json.dumps, [impression, clicked, clicked, {"type": "Impression"}])))
    done = called("replay", path, "--report", report)
    assert "unknown   action: Product Clicked 2 (did you mean click?)\n" in done.stdout
    assert "unknown   type: Impression 1 (did you mean impression?)\n" in done.stdout
    assert json.loads(report.read_bytes())["unknown_names"] == [
        {"kind": "action", "name": "Product Clicked", "events": 2, "meant": "click"},
        {"kind": "type", "name": "Impression", "events": 1, "meant": "impression"},
    ]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"type,user_id,ts\n"])
def test_input_from_which_nothing_is_read_fails_and_an_empty_file_beside_others_does_not(content: bytes, tmp_path: Path) -> None:
    path, good = tmp_path / "events", write(tmp_path / "good", sent(CLEAN, 200))
    path.write_bytes(content)
    done = called("replay", path)
    assert (done.returncode, done.stderr) == (1, f"streammetrics: nothing was read: {path} has no line, or only a header\n")
    assert "no lists" in done.stdout
    done = called("replay", path, good, "--set", "experiments.enabled=false")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("line", ["u7\tclick", "a,b", "id;name\r"])
def test_a_single_line_that_names_no_field_of_an_event_is_no_header(line: str) -> None:
    done = called("replay", "-", stdin=f"{line}\n".encode())
    assert done.returncode == 1
    assert "no line of standard input is an event. Line 1 is refused as bad_json: " in done.stderr


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_a_file_without_events_fails_and_the_others_count(quiet: list[str], tmp_path: Path) -> None:
    good, other, report = write(tmp_path / "good", sent(CLEAN, 200)), tmp_path / "other", tmp_path / "report"
    other.write_text("type,user_id\nimpression,u\n")
    done = called("replay", good, other, "--report", report, "--set", "experiments.enabled=false", *quiet)
    assert (done.returncode, done.stderr.splitlines()) == (
        1,
        [
            f"streammetrics: no line of {other} is an event. Line 2 is refused as missing_field: impression_id is required and must not "
            "be null; send impression_id"
        ],
    )
    assert json.loads(report.read_bytes())["counters"]["events"] == 201
    missing = called("replay", "-", *quiet, stdin=b"\n{}\n")
    assert missing.returncode == 1
    assert (
        "no line of standard input is an event. Line 2 is refused as missing_field: this is no native event: type is missing"
        in missing.stderr
    )


def test_a_file_of_late_events_is_not_a_warning(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text('{"type":"impression","impression_id":"a","user_id":"u","ts":0,"items":["x"]}\n')
    assert called("replay", write(tmp_path / "good", sent(CLEAN, 200)), old, "--set", "experiments.enabled=false").stderr == ""


def test_times_that_look_like_seconds_are_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_text('{"type":"impression","impression_id":"a","user_id":"u","ts":1732183200,"items":["x"]}\n')
    fix = "Multiply ts by 1,000 in the reader: it must be in milliseconds, not seconds."
    warning = f"The times of the events of {path} are 1970-01-21 01:09:43 UTC or before. {fix}"
    assert called("replay", path, "--quiet").stderr == f"streammetrics: warning: {warning}\n"


def test_every_form_of_file_gives_the_numbers_of_its_lines(tmp_path: Path) -> None:
    records = sent(CLEAN, 1_000)
    panes, report, _ = replayed(tmp_path, write(tmp_path / "lines", records))
    events = [json.loads(record.value) for record in records]
    for number, (form, make) in enumerate(FORMS.items()):
        other = tmp_path / f"file{number}"
        other.write_bytes(make(events))
        other_panes, other_report, letters = replayed(tmp_path, other)
        assert (form, other_panes == panes, differing(other_report, report), letters) == (form, True, [], [])


def test_a_folder_and_a_pattern_name_the_files_that_they_hold(tmp_path: Path) -> None:
    records = sent(CLEAN, 1_000)
    panes, report, _ = replayed(tmp_path, write(tmp_path / "whole", records))
    folder = tmp_path / "day"
    (folder / "hour").mkdir(parents=True)
    write(folder / "a.ndjson", records[:500])
    (folder / "hour" / "b.json.zst").write_bytes(zstandard.compress(array([json.loads(record.value) for record in records[500:]])))
    (folder / "_SUCCESS").write_text("not an event")
    for named in (folder, str(folder / "**" / "*.*")):
        other_panes, other_report, _ = replayed(tmp_path, named)
        assert (other_panes == panes, differing(other_report, report)) == (True, [])
        inputs = other_report["inputs"]
        assert isinstance(inputs, list)
        assert [input_position["topic"] for input_position in inputs] == [str(folder / "a.ndjson"), str(folder / "hour" / "b.json.zst")]


def test_a_dead_letter_names_the_row(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("type,user_id,ts,item_id,action\nfeedback,u,1772359200000,a,click\nfeedback,,1772359200000,a,click\n")
    _, _, (letter,) = replayed(tmp_path, path)
    assert (letter["line"], letter["reason"], letter["key"]) == (3, "missing_field", f"{path}:0:3")


def test_one_wrong_clock_in_a_file_makes_no_other_event_late(tmp_path: Path) -> None:
    good = [shown(f"u{number}", NOON_MS + number * 60_000) for number in range(90)]
    wrong = shown("phone", NOON_MS + 365 * DAY_MS)
    path, output, letters = write(tmp_path / "events", [good[0], wrong, *good[1:]]), tmp_path / "report.json", tmp_path / "letters"
    done = called("replay", path, "--report", output, "--dead-letters", letters)
    assert (done.returncode, letters.read_bytes()) == (0, b"")
    assert "an event was ahead of the other events of its input and moved no watermark" in done.stderr
    report = json.loads(output.read_text())
    assert report["counters"] == {"ahead": 1, "events": 91}
    hour = next(window for window in report["windows"] if window["window_ms"] == 3_600_000)
    assert hour["groups"][0]["lists"] == 60


def test_a_replay_with_many_late_events_warns_first(tmp_path: Path) -> None:
    events = [shown("fast", NOON_MS + 3_600_000), *(shown(f"u{number}", NOON_MS + number) for number in range(9))]
    path = write(tmp_path / "events", events)
    done = called("replay", path, *ONE_EVENT_SETS_THE_TIME, "--order", "log")
    assert done.stderr.startswith(f"streammetrics: warning: 90 % of the events of {path} (partition 0) are late and refused, 9 of 10.")
