"""A replay in several processes writes the same bytes as one in one process."""

from __future__ import annotations

import gzip
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from streammetrics.connectors.simulated import Traffic
from streammetrics.offline.replay.shards import MergedPanes, merged_panes
from streammetrics.windows.pane_tallies import FinalPane
from streammetrics.windows.panes import Group
from tests.support.command_line import called, started
from tests.support.replays import FAULTY, replayed, sent, write
from tests.tools.servers.process import wait_until

MANY: Traffic = replace(FAULTY, users=600, impressions_per_second=20)
"""Enough users for intervals, so that scales are frozen on the way."""
ALL = Group()


LATE: Traffic = replace(FAULTY, late_rate=0.1, late_ms=90_000)


@pytest.mark.parametrize(
    ("traffic", "count", "words"),
    [
        (FAULTY, 4_000, ["--no-flush"]),
        (MANY, 12_000, []),
        (FAULTY, 40, []),
        (LATE, 1_000, ["--set", "join.lateness_ms=20000", "--order", "log"]),
    ],
)
def test_several_processes_write_the_bytes_of_one(traffic: Traffic, count: int, words: list[str], tmp_path: Path) -> None:
    records = sent(traffic, count)
    files = [write(tmp_path / topic, (record for record in records if record.topic == topic)) for topic in ("impressions", "feedback")]
    panes, report, letters = replayed(tmp_path, *files, words=words)
    split_panes, split_report, split_letters = replayed(tmp_path, *files, words=[*words, "--jobs", "3"])
    assert split_panes == panes
    assert [key for key in report.keys() | split_report.keys() if report.get(key) != split_report.get(key)] == []
    assert sorted(map(str, split_letters)) == sorted(map(str, letters))
    if traffic is MANY:
        assert report["history"]
        assert split_letters != []
    if traffic is LATE:
        assert report["late_inputs"]


def test_what_can_be_read_only_once_is_refused(tmp_path: Path) -> None:
    done = called("replay", "-", "--jobs", "2", stdin=b"")
    assert (done.returncode, "can be read only once: use --jobs 1, or name a file" in done.stderr) == (2, True)


def test_an_error_of_a_process_ends_the_replay(tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    cut.write_bytes(gzip.compress(write(tmp_path / "events", sent(FAULTY, 200)).read_bytes())[:-20])
    done = called("replay", cut, "--jobs", "2", "--panes", tmp_path / "panes")
    assert (done.returncode, "cut cannot be read beyond line" in done.stderr, "Traceback" in done.stderr) == (1, True, False)
    assert not (tmp_path / "panes").exists()


def test_ctrl_c_never_reaches_the_processes_of_a_replay(tmp_path: Path) -> None:
    """Not even while they start: they would print a traceback."""
    path = write(tmp_path / "many", sent(MANY, 40_000))
    with started("replay", path, "--jobs", "2", "--quiet") as process:
        listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        workers: dict[str, int] = {}

        def seen() -> bool:
            for child in listed.read_text().split():
                with suppress(OSError):
                    if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text():
                        masks = dict(line.split(":\t") for line in Path(f"/proc/{child}/status").read_text().splitlines() if ":\t" in line)
                        workers.setdefault(child, int(masks["SigBlk"], 16) | int(masks["SigIgn"], 16))
            return len(workers) == 2

        wait_until(seen, what="both processes have started")
        process.terminate()
        process.communicate(timeout=120)
    assert all(mask >> (signal.SIGINT - 1) & 1 for mask in workers.values())


def test_a_limit_on_labels_that_is_reached_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "events", sent(FAULTY, 400))
    done = called("replay", path, "--jobs", "2", "--set", "windows.segments=surface", "--set", "windows.groups_max=4")
    assert (done.returncode, "use --jobs 1, or raise the limit" in done.stderr) == (1, True)


def test_a_pane_is_complete_when_all_processes_have_passed_it() -> None:
    merged = MergedPanes(2)
    merged.add(0, [FinalPane(10, {ALL: [1, 2]}), FinalPane(30, {ALL: [1, 1]})])
    assert merged.take_complete() == []
    merged.add(1, [FinalPane(20, {ALL: [5, 5]})])
    assert merged.take_complete() == [FinalPane(10, {ALL: [1, 2]}), FinalPane(20, {ALL: [5, 5]})]
    merged.add(1, [FinalPane(30, {ALL: [2, 3]})])
    assert merged.take_complete() == [FinalPane(30, {ALL: [3, 4]})]
    assert merged.take_rest() == []


def test_panes_of_several_processes_are_added() -> None:
    variant = Group("ranker", "new")
    parts = [[FinalPane(20, {ALL: [1]})], [FinalPane(10, {ALL: [2]}), FinalPane(20, {ALL: [3], variant: [3]})]]
    assert merged_panes(parts) == [FinalPane(10, {ALL: [2]}), FinalPane(20, {ALL: [4], variant: [3]})]
