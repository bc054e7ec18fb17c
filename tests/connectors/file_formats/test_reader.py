"""Every form of file gives the same events, with numbers that name the place, and in bounded memory."""

from __future__ import annotations

import bz2
import datetime
import decimal
import gzip
import io
import json
import lzma
import subprocess
import sys
import tracemalloc
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.connectors.file_formats import json_array, streams
from streammetrics.connectors.file_formats.delimited import ROW_BYTES_MAX
from streammetrics.connectors.file_formats.reader import CHUNK_BYTES_MAX, FileReader, SortedFile, SortedReader, sort_records
from streammetrics.connectors.files import FileSource
from streammetrics.connectors.source import Input, InputRecord
from streammetrics.errors import ConfigError, SourceError
from streammetrics.events import EventLimits, native_decoder
from tests.connectors.file_formats.forms import (
    COLUMNS,
    EVENTS,
    FORMS,
    PACKINGS,
    array,
    combinations,
    delimited,
    lines,
    parquet,
    pretty_array,
    write,
)

KEPT = 1 << 20
decode = native_decoder(EventLimits())
Timed = tuple[int, int, bytes]


def read(path: str, kept: int = KEPT, count: int = 1_000) -> list[tuple[int, bytes]]:
    """Return the number and the bytes of every record."""
    reader = FileReader(path, kept)
    try:
        records = []
        while not reader.ended:
            records += reader.take(count)
        return [(record.offset, record.value or b"") for record in records]
    finally:
        reader.close()


def decoded(records: list[tuple[int, bytes]]) -> list[Any]:
    return [event for _, value in records for event in decode(value)]


@pytest.mark.parametrize(("form", "packing"), combinations())
def test_every_form_gives_the_same_events(form: str, packing: str, tmp_path: Path) -> None:
    path = write(tmp_path / "events", PACKINGS[packing](FORMS[form](EVENTS)))
    records = read(path, count=3)
    assert decoded(records) == [decode(json.dumps(event).encode())[0] for event in EVENTS]
    first = 2 if "sv" in form else 1
    assert [number for number, _ in records] == list(range(first, first + len(EVENTS)))


@pytest.mark.parametrize("form", [form for form in FORMS if form != "parquet"])
@pytest.mark.parametrize("packing", ["plain", "zstd"])
def test_every_form_but_parquet_is_read_from_a_pipe(form: str, packing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = PACKINGS[packing](FORMS[form](EVENTS))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))
    assert len(decoded(read("-"))) == len(EVENTS)


def test_parquet_is_read_only_from_a_plain_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match=r"events is Parquet, which cannot be read from a pipe or compressed again"):
        read(write(tmp_path / "events", gzip.compress(parquet(EVENTS))))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(parquet(EVENTS)))))
    with pytest.raises(SourceError, match="- is Parquet"):
        read("-")


@pytest.mark.parametrize(("form", "packing"), combinations())
def test_progress_grows_to_the_size_of_the_file(form: str, packing: str, tmp_path: Path) -> None:
    path = write(tmp_path / "events", PACKINGS[packing](FORMS[form](EVENTS * 1_000)))
    reader = FileReader(path, KEPT)
    seen = [reader.bytes_read]
    while not reader.ended:
        reader.take(500)
        seen.append(reader.bytes_read)
    reader.close()
    assert (seen[0], seen[-1], reader.bytes_read) == (0, Path(path).stat().st_size, Path(path).stat().st_size)
    assert seen == sorted(seen)


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
@pytest.mark.parametrize("form", ["lines", "csv"])
def test_a_compressed_file_that_is_cut_short_is_an_error(form: str, packing: str, tmp_path: Path) -> None:
    content = PACKINGS[packing](FORMS[form](EVENTS))
    with pytest.raises(SourceError, match=r"broken cannot be read beyond (line|row) \d"):
        read(write(tmp_path / "broken", content[:-5]))


@pytest.mark.parametrize("form", ["array", "pretty array", "parquet"])
def test_a_file_that_is_cut_short_is_an_error(form: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"broken cannot be read beyond (line|row) \d"):
        read(write(tmp_path / "broken", FORMS[form](EVENTS)[:-5]))


@pytest.mark.parametrize(("content", "package"), [(parquet([]), "duckdb"), (zstandard.compress(b"{}"), "zstandard")])
def test_a_missing_package_is_named_with_its_extra(content: bytes, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_module(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(streams, "import_module", no_module)
    with pytest.raises(ConfigError, match=rf"needs the package {package}: pip install 'streammetrics\[files\]'"):
        read(write(tmp_path / "events", content))


UTF_16 = lines(EVENTS).decode()


@pytest.mark.parametrize(
    ("content", "what", "command"),
    [
        (bz2.compress(lines(EVENTS)), "compressed with bzip2", "bzcat"),
        (lzma.compress(lines(EVENTS)), "compressed with xz", "xzcat"),
        (b"PK\x03\x04" + bytes(100), "a zip archive", "unzip -p"),
        (b"PK\x05\x06" + bytes(18), "a zip archive", "unzip -p"),
        (b"Obj\x01" + bytes(100), "an Avro file", "fastavro"),
        (UTF_16.encode("utf-16"), "text in UTF-16", "iconv -f UTF-16 -t UTF-8"),
        (b"\xfe\xff" + UTF_16.encode("utf-16-be"), "text in UTF-16", "iconv -f UTF-16 -t UTF-8"),
        (UTF_16.encode("utf-16-le"), "text in UTF-16", "iconv -f UTF-16LE -t UTF-8"),
        (UTF_16.encode("utf-16-be"), "text in UTF-16", "iconv -f UTF-16BE -t UTF-8"),
        (UTF_16.encode("utf-32"), "text in UTF-32", "iconv -f UTF-32 -t UTF-8"),
    ],
)
def test_another_form_is_refused_with_the_command_that_converts_it(content: bytes, what: str, command: str, tmp_path: Path) -> None:
    path = write(tmp_path / "my events", content)
    with pytest.raises(SourceError) as caught:
        read(path)
    assert str(caught.value) == f"{path} is {what}, which is not read. Convert it: {command} '{path}' | streammetrics replay -"
    with pytest.raises(SourceError, match=f"packed holds {what}, compressed once more: decompress it first"):
        read(write(tmp_path / "packed", gzip.compress(content)))


@pytest.mark.parametrize(
    ("content", "command"), [(bz2.compress(lines(EVENTS)), "bzcat"), (UTF_16.encode("utf-16"), "iconv -f UTF-16 -t UTF-8")]
)
def test_the_command_makes_a_file_that_is_read(content: bytes, command: str, tmp_path: Path) -> None:
    path = write(tmp_path / "events", content)
    converted = subprocess.run([*command.split(), path], capture_output=True, check=True).stdout
    assert len(decoded(read(write(tmp_path / "converted", converted)))) == len(EVENTS)


def test_two_compressed_parts_are_one_file(tmp_path: Path) -> None:
    halves = EVENTS[:2], EVENTS[2:]
    for packing in ("gzip", "zstd"):
        content = b"".join(PACKINGS[packing](lines(half)) for half in halves)
        assert len(decoded(read(write(tmp_path / packing, content)))) == len(EVENTS)


class TestArrays:
    def test_lines_that_are_arrays_stay_lines(self, tmp_path: Path) -> None:
        path = write(tmp_path / "events", b'[{"a":1},{"b":2}]\n[{"c":3}]\n')
        assert read(path) == [(1, b'[{"a":1},{"b":2}]'), (2, b'[{"c":3}]')]

    def test_only_elements_of_the_outer_array_are_records(self, tmp_path: Path) -> None:
        content = b' [ {"a":[1,{"b":"],{\\"\\\\"}]} ,\n\t{"c":"\\\\"},{}, {"d":[[]]}\n]\n'
        expected = [b'{"a":[1,{"b":"],{\\"\\\\"}]}', b'{"c":"\\\\"}', b"{}", b'{"d":[[]]}']
        assert read(write(tmp_path / "events", content)) == list(enumerate(expected, 1))

    def test_an_empty_array_has_no_record(self, tmp_path: Path) -> None:
        assert read(write(tmp_path / "events", b"[ ]\n")) == []

    def test_a_bracket_too_many_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="closing bracket too many"):
            read(write(tmp_path / "events", b'[{"a":1}]]'))

    def test_an_element_that_is_too_long_is_cut(self, tmp_path: Path) -> None:
        path = write(tmp_path / "events", b'[{"a":"' + b"x" * 2_000_000 + b'"},\n {"b":1}]')
        reader = FileReader(path, 100)
        tracemalloc.start()
        records = reader.take(10)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        reader.close()
        assert [len(record.value or b"") for record in records] == [100, 7]
        assert reader.cut == {1: 2_000_008}
        assert peak < 20 * json_array.BLOCK_BYTES

    @given(
        values=st.lists(st.dictionaries(st.text(), st.lists(st.text() | st.dictionaries(st.text(), st.text())), max_size=3), max_size=6),
        indent=st.none() | st.integers(0, 3),
        block=st.integers(1, 30),
    )
    def test_elements_come_whole_with_any_size_of_block(
        self, tmp_path_factory: pytest.TempPathFactory, values: list[Any], indent: int | None, block: int
    ) -> None:
        path = write(tmp_path_factory.mktemp("array") / "events", json.dumps(values, indent=indent, ensure_ascii=False).encode())
        before, json_array.BLOCK_BYTES = json_array.BLOCK_BYTES, block  # type: ignore[misc]  # Hypothesis forbids monkeypatch
        try:
            assert [json.loads(value) for _, value in read(path)] == values
        finally:
            json_array.BLOCK_BYTES = before  # type: ignore[misc]


class TestDelimited:
    def rows(self, tmp_path: Path, content: bytes) -> list[tuple[int, Any]]:
        return [(number, json.loads(value)) for number, value in read(write(tmp_path / "events", content))]

    @pytest.mark.parametrize(
        ("cell", "items"),
        [
            ("['a', 'b']", "['a', 'b']"),  # a list that Python printed is not one item
            ("[a b]", "[a b]"),
            ("[]", []),
            ("[new] lamp|[old] lamp", ["[new] lamp", "[old] lamp"]),
            ("[new] lamp", ["[new] lamp"]),
            ("a", ["a"]),
            ("a,b", "a,b"),  # neither one item nor a list in the form of this column
            ("a;b", "a;b"),
            ("a b", "a b"),
            ("a b|c", ["a b", "c"]),
        ],
    )
    def test_what_may_be_a_list_in_another_form_stays_text(self, tmp_path: Path, cell: str, items: object) -> None:
        assert self.rows(tmp_path, f'type,items\nimpression,"{cell}"\n'.encode()) == [(2, {"type": "impression", "items": items})]

    def test_cells_become_fields_by_the_name_of_their_column(self, tmp_path: Path) -> None:
        header = b"type,ts,items,experiments,segments,value,fragment,other\n"
        assert self.rows(tmp_path, header + b"impression,12,a|b|c,ranker=control|price=low,s=x,2.50,true,7\n") == [
            (
                2,
                {
                    "type": "impression",
                    "ts": 12,
                    "items": ["a", "b", "c"],
                    "experiments": {"ranker": "control", "price": "low"},
                    "segments": {"s": "x"},
                    "value": 2.5,
                    "fragment": True,
                    "other": "7",
                },
            )
        ]
        assert self.rows(tmp_path, header + b'impression,2026-01-01T00:00Z,"[{""id"":""a"",""position"":4}]",[,{,x,maybe\n') == [
            (
                2,
                {
                    "type": "impression",
                    "ts": "2026-01-01T00:00Z",
                    "items": [{"id": "a", "position": 4}],
                    "experiments": "[",
                    "segments": "{",
                    "value": "x",
                    "fragment": "maybe",
                },
            )
        ]

    def test_a_row_is_numbered_by_the_line_on_which_it_begins(self, tmp_path: Path) -> None:
        content = b'\ntype,item_id\r\n\r\nfeedback,"a\nb"\nfeedback,c\n'
        assert self.rows(tmp_path, content) == [(4, {"type": "feedback", "item_id": "a\nb"}), (6, {"type": "feedback", "item_id": "c"})]

    def test_empty_and_missing_cells_are_absent_fields(self, tmp_path: Path) -> None:
        assert self.rows(tmp_path, b"type,item_id,value\nfeedback,,\nfeedback\n") == [(2, {"type": "feedback"}), (3, {"type": "feedback"})]

    @pytest.mark.parametrize("row", [b"feedback,a,b", b"feedback,\xff", b'feedback,"' + b"x" * 200])
    def test_a_row_that_is_not_readable_is_refused_and_the_next_one_counts(self, row: bytes, tmp_path: Path) -> None:
        path = write(tmp_path / "events", b"type,item_id\n" + row + b"\nfeedback,c\n")
        records = read(path, kept=100)
        assert records[-1] == (3, b'{"type":"feedback","item_id":"c"}') or row.endswith(b"x")
        assert records[0][1].startswith(b"row has 3 cells, and the header has 2: ") == (row == b"feedback,a,b")
        assert [event.reason for event in decode(records[0][1])] == ["bad_json"]
        assert all(len(value) <= 210 for _, value in records)


class TestTables:
    def test_times_and_labels_of_parquet_types(self, tmp_path: Path) -> None:
        table = pa.table(
            {
                "ts": pa.array([1_772_359_200_000_000], pa.timestamp("us", "UTC")),
                "experiments": [{"ranker": "control", "price": None}],
                "items": [[{"id": "a", "position": 3}, {"id": "b", "position": 1}]],
            }
        )
        pq.write_table(table, tmp_path / "events")
        assert [json.loads(value) for _, value in read(str(tmp_path / "events"))] == [
            {
                "ts": 1_772_359_200_000,
                "experiments": {"ranker": "control"},
                "items": [{"id": "a", "position": 3}, {"id": "b", "position": 1}],
            }
        ]

    @pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("ns")])
    def test_times_are_milliseconds_for_native_events_and_texts_for_readers(self, kind: pa.DataType, tmp_path: Path) -> None:
        moment = datetime.datetime(2026, 3, 1, 10, tzinfo=datetime.UTC)
        pq.write_table(pa.table({"ts": pa.array([moment if kind.tz else moment.replace(tzinfo=None)], kind)}), tmp_path / "events")
        assert read(str(tmp_path / "events")) == [(1, b'{"ts":1772359200000}')]
        reader = FileReader(str(tmp_path / "events"), KEPT, texts=True)
        assert reader.take(1)[0].value == (b'{"ts":"2026-03-01T10:00:00Z"}' if kind.tz else b'{"ts":"2026-03-01T10:00:00"}')
        reader.close()

    def test_whole_numbers_are_exact(self, tmp_path: Path) -> None:
        numbers = [2**53 + 1, -(2**63), 2**63 - 1]
        pq.write_table(pa.table({"n": numbers, "u": pa.array([2**64 - 1] * 3, pa.uint64())}), tmp_path / "events")
        assert [json.loads(value) for _, value in read(str(tmp_path / "events"))] == [{"n": n, "u": 2**64 - 1} for n in numbers]

    def test_names_of_files_and_columns_may_have_any_character(self, tmp_path: Path) -> None:
        path = tmp_path / "a[1]*?'.parquet"
        pq.write_table(pa.table({'the "b"': [1]}), path)
        assert read(str(path)) == [(1, b'{"the \\"b\\"":1}')]

    def test_whole_times_in_a_column_of_floats_are_integers(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"ts": [1_772_359_200_000.0, None]}), tmp_path / "events")
        assert [value for _, value in read(str(tmp_path / "events"))] == [b'{"ts":1772359200000}', b'{"ts":null}']

    def test_values_of_other_types_do_not_end_the_read(self, tmp_path: Path) -> None:
        columns = {"a": [decimal.Decimal("1.5")], "b": [datetime.date(2026, 1, 2)], "c": [b"\xff"], "d": [float("nan")]}
        pq.write_table(pa.table(columns), tmp_path / "events")
        assert read(str(tmp_path / "events")) == [(1, b'{"a":1.5,"b":"2026-01-02","c":"/w==","d":null}')]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_the_folders_of_a_path_are_columns_unless_the_file_has_them(form: str, tmp_path: Path) -> None:
    folder = tmp_path / "day=2026-03-01" / "variant=the%20control" / "type=x" / "shop=__HIVE_DEFAULT_PARTITION__"
    folder.mkdir(parents=True)
    (_, value), *_ = read(write(folder / "part-0", FORMS[form](EVENTS)))
    row = json.loads(value)
    assert [row.get(name) for name in ("day", "variant", "type", "shop")] == ["2026-03-01", "the control", "impression", None]


def table_of(column: pa.Array) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"user_id": column}), file, compression="zstd")
    return file.getvalue()


def no_columns() -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({}), file)
    return file.getvalue()


def long_text(mebibytes: int) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"user_id": ["x" * (mebibytes << 20)]}), file, compression="zstd", use_dictionary=False)
    return file.getvalue()


def open_quote() -> bytes:
    return b'a,b\n1,"' + b'","\n' * (ROW_BYTES_MAX // 4 + 10)


HOSTILE = {
    "Parquet with a list of many millions": (
        lambda: table_of(pa.ListArray.from_arrays([0, 3_000_000], pa.repeat(0, 3_000_000))),
        "more than 1,000,000 elements",
    ),
    "Parquet that unpacks to more than its rows may take": (lambda: long_text(300), "need more than"),
    "Parquet without columns": (no_columns, "at least one non-root column"),
    "CSV with a quote that does not end": (open_quote, "a row has more than 64 MiB: perhaps a quote does not end"),
}


READ_ALONE = """
import pathlib, re, sys
from streammetrics.connectors.file_formats import parquet, reader
from streammetrics.errors import SourceError
parquet.MEMORY_BYTES_MAX = 256 << 20
file = reader.FileReader(sys.argv[1], 1 << 20)
try:
    while not file.ended:
        file.take(1_000)
except SourceError as error:
    peak_kib = int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
    print(peak_kib >> 10, error)
"""


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_would_fill_the_memory_is_refused_with_a_message(name: str, tmp_path: Path) -> None:
    make, says = HOSTILE[name]
    path = write(tmp_path / "events", make())
    done = subprocess.run([sys.executable, "-c", READ_ALONE, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    peak_mib, message = done.stdout.split(" ", 1)
    assert says in message
    assert message.startswith(f"{path} cannot be read beyond")
    assert int(peak_mib) < 600


def test_long_rows_of_parquet_are_read_in_bounded_memory(tmp_path: Path) -> None:
    random = Random(1)
    rows = [{**EVENTS[0], "context": random.randbytes(60_000).hex()} for _ in range(2_500)]
    for row in rows:
        del row["experiments"], row["segments"]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "events", compression="zstd")
    reader = FileReader(str(tmp_path / "events"), KEPT)
    records = reader.take(1_000)
    assert sum(len(record.value or b"") for record in records) < CHUNK_BYTES_MAX + 200_000
    while not reader.ended:
        records += reader.take(1_000)
    reader.close()
    assert [json.loads(record.value or b"") for record in records] == rows


@pytest.mark.parametrize("make", [array, pretty_array, delimited, parquet])
def test_memory_does_not_grow_with_the_file(make: Any, tmp_path: Path) -> None:
    peaks = []
    for copies in (3_000, 12_000):
        path = write(tmp_path / "events", make(EVENTS * copies))
        reader = FileReader(path, KEPT)
        tracemalloc.start()
        while not reader.ended:
            reader.take(1_000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        reader.close()
    assert peaks[1] < 1.5 * peaks[0] + 200_000


def test_the_columns_of_the_tests_are_those_of_native_events() -> None:
    assert {name for event in EVENTS for name in event} <= set(COLUMNS)


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
        patch.setattr("streammetrics.connectors.file_formats.reader.RUN_BYTES", run_bytes)
        patch.setattr("streammetrics.connectors.file_formats.reader.RUNS_MERGED", 2)
        path = sort_records(records, folder)
    assert list(folder.iterdir()) == [path], "only the result is left"
    reader = SortedReader("events", SortedFile(path, {3: 99}, len(records)))
    read_records: list[InputRecord] = []
    while not reader.ended:
        read_records += reader.take(count)
    reader.close()
    assert read_records == [InputRecord(number, -1, value) for _, number, value in sorted(records)]
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
