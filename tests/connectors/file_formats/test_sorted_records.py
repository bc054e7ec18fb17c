"""Records come in the order of their times, whatever fits into memory, and are read as those of any file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.connectors.file_formats import sorted_records
from streammetrics.connectors.file_formats.sorted_records import SortedFile, SortedReader, sort_records
from streammetrics.connectors.files import FileSource
from streammetrics.connectors.source import Input, InputRecord
from streammetrics.errors import SourceError

Timed = tuple[int, int, bytes]


@given(
    times=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=20)), max_size=60),
    run_bytes=st.integers(1, 3_000),
    count=st.integers(1, 7),
)
def test_records_come_by_time_then_by_number(
    times: list[tuple[int, bytes]], run_bytes: int, count: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    records = [(time, number, value) for number, (time, value) in enumerate(times, 1)]
    folder = tmp_path_factory.mktemp("sorted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_records, "RUN_BYTES", run_bytes)
        patch.setattr(sorted_records, "RUNS_MERGED", 2)
        path = sort_records(records, folder)
    assert list(folder.iterdir()) == [path], "only the result is left"
    reader = SortedReader("events", SortedFile(path, {3: 99}, len(records)))
    found: list[InputRecord] = []
    while not reader.ended:
        found += reader.take(count)
    reader.close()
    assert found == [InputRecord(number, -1, value) for _, number, value in sorted(records)]
    assert (reader.cut, reader.bytes_read) == ({3: 99}, reader.bytes_total)


def test_a_source_reads_a_sorted_file_in_place_of_the_original(tmp_path: Path) -> None:
    (tmp_path / "events").write_bytes(b"two\none\n")
    name = str(tmp_path / "events")
    (tmp_path / "folder").mkdir()
    path = sort_records([(20, 1, b"two"), (10, 2, b"one")], tmp_path / "folder")
    source = FileSource([name], sorted_files={name: SortedFile(path, {}, 2)})
    source.poll(0)
    source.start(0, {})
    place = Input(name, 0)
    assert source.ends()[place] > 3
    assert source.poll(0).records == {place: [InputRecord(2, -1, b"one"), InputRecord(1, -1, b"two")]}
    assert (source.exhausted, source.ends(), source.lines) == (True, {place: 2}, {name: 2})
    source.close()


def test_a_disk_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        SourceError, match=rf"sorting by time failed in {tmp_path}: No such file or directory; name a larger disk in TMPDIR"
    ):
        sort_records([(1, 1, b"")], tmp_path / "gone")
