"""A directory of Parquet files: whole files only, equal files left alone, and errors that say what to do."""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from streammetrics.connectors.parquet.directory import IDENTITY_FILE, PART_SECONDS, ResultDirectory
from streammetrics.connectors.parquet.table import ROWS
from streammetrics.errors import ConfigError, SourceError

COLUMNS = {"name": "string", "k": "int32", "at": "int64", "total": "integer"}
IDENTITY = {"namespace": "sm"}


def directory(path: Path, **identity: object) -> ResultDirectory:
    return ResultDirectory(path, identity or IDENTITY)


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size. The error is that of a limit, at the same call as that of a full disk."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def files(path: Path) -> list[str]:
    return sorted(str(each.relative_to(path)) for each in path.rglob("*") if each.is_file())


def test_rows_are_read_back_by_a_warehouse_with_integers_of_any_size(tmp_path: Path) -> None:
    rows = [("x", 10, 1 << 40, (1 << 100) + number) for number in range(ROWS + 1)]
    assert directory(tmp_path).write("a/t.parquet", COLUMNS, iter(rows)) == (ROWS + 1, True)
    assert duckdb.sql(f"select * from '{tmp_path}/**/*.parquet'").fetchall() == rows


def test_a_file_with_the_same_rows_is_left_alone(tmp_path: Path) -> None:
    first, second = directory(tmp_path), directory(tmp_path)
    first.write("t.parquet", COLUMNS, [("x", 1, 2, 3)])
    before = (tmp_path / "t.parquet").stat()
    assert second.write("t.parquet", COLUMNS, [("x", 1, 2, 3)]) == (1, False)
    assert (tmp_path / "t.parquet").stat().st_ino == before.st_ino
    assert second.write("t.parquet", COLUMNS, [("x", 1, 2, 4)]) == (1, True)
    assert [row["total"] for row in first.read("t.parquet")] == [4]
    assert files(tmp_path) == [IDENTITY_FILE, "t.parquet"]


def test_a_full_disk_leaves_no_part_and_keeps_the_old_file(tmp_path: Path) -> None:
    results = directory(tmp_path)
    results.write("t.parquet", COLUMNS, [("x", 1, 2, 3)])
    many = [(str(os.urandom(16)), number, number, number) for number in range(5_000)]
    with full_disk(20_000), pytest.raises(SourceError, match=r"results.directory .*t.parquet: File too large; check the disk"):
        results.write("t.parquet", COLUMNS, many)
    assert files(tmp_path) == [IDENTITY_FILE, "t.parquet"]
    assert len(results.read("t.parquet")) == 1
    assert results.write("t.parquet", COLUMNS, many) == (5_000, True)


def test_a_place_that_is_no_directory_is_named_and_tried_again(tmp_path: Path) -> None:
    place = tmp_path / "results"
    place.write_text("")
    results = directory(place)
    with pytest.raises(SourceError, match="results: File exists"):
        results.write("t.parquet", COLUMNS, [])
    place.unlink()
    assert results.write("t.parquet", COLUMNS, []) == (0, True)


def test_every_question_to_a_place_that_cannot_be_used_may_be_asked_again(tmp_path: Path) -> None:
    found = directory(tmp_path / ("x" * 300))
    for ask in (lambda: found.has("t.parquet"), lambda: found.read("t.parquet"), lambda: found.names("a/*.parquet"), found.prepare):
        with pytest.raises(SourceError, match="File name too long"):
            ask()


def test_a_directory_that_was_removed_is_made_again(tmp_path: Path) -> None:
    results = directory(tmp_path / "results")
    results.write("t.parquet", COLUMNS, [])
    (tmp_path / "results").rename(tmp_path / "elsewhere")
    results.write("a/t.parquet", COLUMNS, [])
    assert "results/a/t.parquet" in files(tmp_path)


def test_files_of_another_stream_are_refused(tmp_path: Path) -> None:
    late = directory(tmp_path, namespace="other")
    directory(tmp_path).write("t.parquet", COLUMNS, [])
    with pytest.raises(ConfigError, match=r'has files of another stream or span, {"namespace": "sm"}.*name a new directory'):
        directory(tmp_path, namespace="other")
    with pytest.raises(SourceError, match="has files of another stream"):
        late.write("t.parquet", COLUMNS, [("x", 1, 2, 3)])
    assert directory(tmp_path).read("t.parquet") == []


def test_what_a_dead_process_left_is_removed_after_a_day(tmp_path: Path) -> None:
    old, new = tmp_path / ".old.parquet.1.part", tmp_path / ".new.parquet.1.part"
    for part in (old, new):
        part.write_text("")
    os.utime(old, (0, new.stat().st_mtime - PART_SECONDS - 1))
    directory(tmp_path).prepare()
    assert not old.exists()
    assert new.exists()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(SourceError, match=r"t.parquet: .*; move the damaged file away"):
        directory(tmp_path).read("t.parquet")


def test_one_process_at_a_time_holds_the_lock(tmp_path: Path) -> None:
    entered, seen = threading.Event(), list[str]()

    def other() -> None:
        entered.set()
        with directory(tmp_path).locked():
            seen.append("other")

    with directory(tmp_path).locked():
        thread = threading.Thread(target=other)
        thread.start()
        assert entered.wait(60)
        thread.join(0.2)  # it waits; a shorter wait would only miss a fault
        seen.append("first")
    thread.join()
    assert seen == ["first", "other"]
