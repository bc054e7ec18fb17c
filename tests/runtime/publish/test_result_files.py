"""Result files: one file per span, written once all of it is final; equal when written again; and verdicts once per change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

from streammetrics.connectors.parquet.directory import ResultDirectory
from streammetrics.errors import SourceError
from streammetrics.experiments import SINCE_START
from streammetrics.experiments.verdict import Verdict, Word
from streammetrics.metrics import Scorer, TallyLayout
from streammetrics.runtime.publish import outbox
from streammetrics.runtime.publish.result_files import ResultFiles
from streammetrics.runtime.status import ProcessStatus
from streammetrics.windows.panes import Group, Pane
from tests.servers.process import wait_until
from tests.support.tallies import tally_of

LAYOUT = TallyLayout(Scorer(["hit_rate@2"]))
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
START = 1_732_183_200_000  # 2024-11-21 10:00 UTC
REPORT: Any = SimpleNamespace(experiments=(), entered_ms=None)


def pane(lists: int) -> Pane:
    return {Group("x", "a"): tally_of(LAYOUT, [[1]] * lists)}


class Stored:
    """The part of a report builder that is read: panes by start, of which those in `span` are final and still stored."""

    def __init__(self) -> None:
        self.rules = SimpleNamespace(pane_ms=MINUTE_MS)
        self.layout = LAYOUT
        self.aggregator = self
        self.revisions = 0
        self.panes: dict[int, Pane] = {}
        self.span: tuple[int, int] | None = (START, START)

    def final_span(self, report: object) -> tuple[int, int] | None:
        return self.span

    def starts(self, first: int, end: int) -> list[int]:
        return sorted(start for start in self.panes if first <= start < end)

    def frozen_pane(self, start: int) -> Callable[[], Pane]:
        known = self.panes[start]
        return lambda: known


class Process:
    """One process that writes, with its state."""

    def __init__(self, path: Path, stored: Stored) -> None:
        self.stored, self.status, self._stop, self.is_settled = stored, ProcessStatus(), threading.Event(), True
        self.directory = ResultDirectory(path, {})
        self.files = ResultFiles(stored, self.directory, HOUR_MS, self.status, lambda report: self.is_settled)  # type: ignore[arg-type]
        self._thread = threading.Thread(target=self.files.run, args=(self._stop,))
        self._thread.start()

    def take(self, report: Any = REPORT) -> None:
        """Give it a report, and wait until it has written everything that is due."""
        self.files.take(report)
        wait_until(lambda: self.files._outbox.is_free, what="the parcel is written")

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


Starting = Callable[[Stored], Process]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Starting]:
    monkeypatch.setattr(outbox, "BACKOFF_SECONDS_MAX", 0.01)
    started: list[Process] = []

    def starting(stored: Stored) -> Process:
        started.append(Process(tmp_path, stored))
        return started[-1]

    yield starting
    for process in started:
        process.end()


def lists_of(path: Path) -> list[tuple[int, ...]]:
    """The start of each pane in the directory, in minutes from START, with its lists."""
    rows = duckdb.sql(f"select pane_start_ms, lists from '{path}/panes/*/*.parquet' order by 1").fetchall()
    return [((start_ms - START) // MINUTE_MS, lists) for start_ms, lists in rows]


def test_a_file_appears_once_its_whole_span_is_final(tmp_path: Path, start: Starting) -> None:
    stored = Stored()
    process = start(stored)
    stored.panes = {START: pane(1), START + 59 * MINUTE_MS: pane(2), START + HOUR_MS: pane(3)}
    stored.span = START, START + 59 * MINUTE_MS
    process.take()
    assert not list(tmp_path.glob("panes/*/*"))
    assert process.status.result_files_lag_ms == 59 * MINUTE_MS
    stored.span = START, START + HOUR_MS
    process.take()
    assert [str(each.relative_to(tmp_path)) for each in tmp_path.glob("panes/*/*")] == [
        "panes/date=2024-11-21/panes-20241121T1000Z.parquet"
    ]
    assert lists_of(tmp_path) == [(0, 1), (59, 2)]
    process.take()
    assert (process.status.result_files_lag_ms, process.status.result_rows) == (0, 2)
    assert process.status.result_files == {"written": 1, "unchanged": 0, "failed": 0}


def test_a_second_process_finds_the_same_files_and_a_part_never_replaces_one(tmp_path: Path, start: Starting) -> None:
    stored = Stored()
    stored.panes = {START + at * MINUTE_MS: pane(1) for at in range(150)}
    stored.span = START, START + 150 * MINUTE_MS
    first = start(stored)
    for _ in range(3):
        first.take()
    again = Stored()
    again.panes = {at: one for at, one in stored.panes.items() if at >= START + 30 * MINUTE_MS}
    again.span = START + 30 * MINUTE_MS, START + 180 * MINUTE_MS
    second = start(again)
    for _ in range(3):
        second.take()
    assert lists_of(tmp_path) == [(at, 1) for at in range(150)]
    assert first.status.result_files == {"written": 2, "unchanged": 0, "failed": 0}
    assert second.status.result_files == {"written": 1, "unchanged": 1, "failed": 0}


def test_the_rest_of_a_span_is_written_if_there_is_no_file(tmp_path: Path, start: Starting) -> None:
    stored = Stored()
    stored.panes = {START + 30 * MINUTE_MS: pane(1)}
    stored.span = START + 30 * MINUTE_MS, START + HOUR_MS
    start(stored).take()
    assert lists_of(tmp_path) == [(30, 1)]


def test_panes_that_changed_after_they_were_final_replace_their_file(tmp_path: Path, start: Starting) -> None:
    stored = Stored()
    stored.panes = {START: pane(1)}
    stored.span = START, START + HOUR_MS
    process = start(stored)
    process.take()
    stored.panes, stored.revisions = {START: pane(2)}, 1
    process.take()
    assert lists_of(tmp_path) == [(0, 2)]


def test_what_a_failing_disk_refuses_is_written_later(tmp_path: Path, start: Starting, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Stored()
    stored.panes = {START + at * HOUR_MS: pane(at + 1) for at in range(3)}
    stored.span = START, START + 3 * HOUR_MS
    process = start(stored)
    write = process.directory.write

    def fail(*given: object) -> Any:
        raise SourceError("the disk is full")

    monkeypatch.setattr(process.directory, "write", fail)
    process.files.take(REPORT)
    wait_until(lambda: process.status.result_files["failed"] > 1, what="two tries have failed")
    process.files.take(REPORT)  # a report is taken while the file waits
    assert process.status.result_files_lag_ms == 3 * HOUR_MS
    monkeypatch.setattr(process.directory, "write", write)
    wait_until(lambda: process.files.take(REPORT) or process.status.result_files_lag_ms == 0, what="all files are written")
    assert lists_of(tmp_path) == [(0, 1), (60, 2), (120, 3)]


def report_of(up_to_ms: int, **verdicts: Word) -> Any:
    """A report with the verdict on experiment x, and on its variants."""
    of = {name: Verdict(word, f"because of {name}") for name, word in verdicts.items()}
    variants = tuple(SimpleNamespace(variant=name, verdict=verdict) for name, verdict in of.items() if name != "whole")
    experiment = SimpleNamespace(experiment="x", scope=SINCE_START, verdict=of["whole"], variants=variants)
    return SimpleNamespace(experiments=(experiment,), entered_ms=up_to_ms)


def verdicts_of(path: Path) -> list[tuple[Any, ...]]:
    return duckdb.sql(
        f"select variant, verdict, up_to_ms - {START} from '{path}/verdicts/*/*.parquet' order by up_to_ms, variant"
    ).fetchall()


def test_each_change_of_a_verdict_is_one_row_whoever_sees_it(tmp_path: Path, start: Starting) -> None:
    first, second = start(Stored()), start(Stored())
    first.take(report_of(START, whole="inconclusive", t="inconclusive"))
    second.take(report_of(START + 7, whole="inconclusive", t="inconclusive"))
    first.take(report_of(START + 20, whole="regressed", t="regressed"))
    second.take(report_of(START + 10, whole="inconclusive", t="inconclusive"))
    second.take(report_of(START + 21, whole="regressed", t="regressed"))
    start(Stored()).take(report_of(START + 30, whole="regressed", t="regressed"))
    start(Stored()).take(report_of(START + 15, whole="inconclusive", t="inconclusive"))  # it reads an older state
    assert verdicts_of(tmp_path) == [
        ("", "inconclusive", 0),
        ("t", "inconclusive", 0),
        ("", "regressed", 20),
        ("t", "regressed", 20),
    ]


def test_verdicts_wait_until_the_report_is_settled(tmp_path: Path, start: Starting) -> None:
    process = start(Stored())
    process.take(report_of(START, whole="inconclusive", t="inconclusive"))
    process.is_settled = False
    for minute, word in enumerate(("regressed", "inconclusive", "regressed", "inconclusive")):
        process.take(report_of(START + minute * MINUTE_MS, whole=word, t=word))
    process.is_settled = True
    process.take(report_of(START + 9 * MINUTE_MS, whole="regressed", t="inconclusive"))
    assert verdicts_of(tmp_path) == [("", "inconclusive", 0), ("t", "inconclusive", 0), ("", "regressed", 9 * MINUTE_MS)]


def test_verdicts_of_several_days_are_in_a_file_per_day(tmp_path: Path, start: Starting) -> None:
    start(Stored()).take(report_of(START, whole="inconclusive", t="safe"))
    start(Stored()).take(report_of(START + DAY_MS, whole="improved", t="safe"))
    last = start(Stored())
    last.take(report_of(START + 2 * DAY_MS, whole="improved", t="safe"))
    assert verdicts_of(tmp_path) == [("", "inconclusive", 0), ("t", "safe", 0), ("", "improved", DAY_MS)]
    assert [each.parent.name for each in sorted(tmp_path.glob("verdicts/*/*"))] == ["date=2024-11-21", "date=2024-11-22"]
    assert last.status.result_rows == 0
