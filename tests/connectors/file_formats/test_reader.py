"""Every form of file gives the same events, with numbers that name the place, and in bounded memory."""

from __future__ import annotations

import gzip
import io
import json
import resource
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from fastavro._read_common import HEADER_SCHEMA
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.connectors.file_formats import extras, json_array
from streammetrics.connectors.file_formats.memory_limit import TOO_LARGE as LARGE
from streammetrics.connectors.file_formats.reader import FileReader
from streammetrics.errors import ConfigError, SourceError
from streammetrics.events import EventLimits, native_decoder
from tests.connectors.file_formats.forms import (
    BINARY,
    COLUMNS,
    EVENTS,
    FORMS,
    PACKINGS,
    array,
    avro,
    combinations,
    delimited,
    lines,
    parquet,
    pretty_array,
    write,
)

KEPT = 1 << 20
decode = native_decoder(EventLimits())


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


@pytest.mark.parametrize("packing", ["gzip", "bz2", "zstd", "xz"])
@pytest.mark.parametrize("form", ["lines", "csv", "avro"])
def test_a_compressed_file_that_is_cut_short_is_an_error(form: str, packing: str, tmp_path: Path) -> None:
    content = PACKINGS[packing](FORMS[form](EVENTS))
    with pytest.raises(SourceError, match=r"broken cannot be read beyond (line|row) \d"):
        read(write(tmp_path / "broken", content[:-5]))


@pytest.mark.parametrize("form", ["array", "pretty array", *BINARY])
def test_a_file_that_is_cut_short_is_an_error(form: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"broken cannot be read beyond (line|row) \d"):
        read(write(tmp_path / "broken", FORMS[form](EVENTS)[:-5]))


@pytest.mark.parametrize(
    ("content", "package"), [(parquet([]), "pyarrow"), (avro([]), "fastavro"), (zstandard.compress(b"{}"), "zstandard")]
)
def test_a_missing_package_is_named_with_its_extra(content: bytes, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_module(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(extras, "import_module", no_module)
    with pytest.raises(ConfigError, match=rf"needs the package {package}: pip install 'streammetrics\[files\]'"):
        read(write(tmp_path / "events", content))


def zipped(path: Path, files: dict[str, bytes]) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return str(path)


def test_a_zip_archive_with_one_file_is_that_file(tmp_path: Path) -> None:
    found = read(zipped(tmp_path / "export.zip", {"events/": b"", "events/a.ndjson": lines(EVENTS), "__MACOSX/._a": b"x"}))
    assert [json.loads(value) for _, value in found] == EVENTS


@pytest.mark.parametrize("files", [{}, {"a.ndjson": b"{}", "b.ndjson": b"{}"}])
def test_a_zip_archive_with_several_files_is_an_error(files: dict[str, bytes], tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=f"a zip archive with {len(files)} files: extract them"):
        read(zipped(tmp_path / "export.zip", files))


def test_a_damaged_zip_archive_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "export.zip").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(SourceError, match="cannot be read"):
        read(str(tmp_path / "export.zip"))


@pytest.mark.parametrize("codec", ["deflate", "zstandard"])
def test_blocks_of_an_avro_file_may_be_compressed(codec: str, tmp_path: Path) -> None:
    schema = {"type": "record", "name": "event", "fields": [{"name": "item_id", "type": "string"}]}
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, schema, [{"item_id": "a"}], codec=codec)
    assert read(str(tmp_path / "a.avro")) == [(1, b'{"item_id":"a"}')]


def test_two_compressed_parts_are_one_file(tmp_path: Path) -> None:
    halves = EVENTS[:2], EVENTS[2:]
    for packing in ("gzip", "bz2", "zstd", "xz"):
        content = b"".join(PACKINGS[packing](lines(half)) for half in halves)
        assert len(decoded(read(write(tmp_path / packing, content)))) == len(EVENTS)


def test_a_lone_surrogate_in_utf_16_refuses_only_its_line(tmp_path: Path) -> None:
    content = lines(EVENTS[:1]) + b'{"a":"?"}\n' + lines(EVENTS[1:])
    path = write(tmp_path / "events", content.decode().encode("utf-16").replace("?".encode("utf-16-le"), b"\x00\xd8"))
    reasons = [getattr(event, "reason", "") for event in decoded(read(path))]
    assert reasons == ["", "bad_json", "", "", ""]


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

    def test_whole_times_in_a_column_of_floats_are_integers(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"ts": [1_772_359_200_000.0, None]}), tmp_path / "events")
        assert [value for _, value in read(str(tmp_path / "events"))] == [b'{"ts":1772359200000}', b'{"ts":null}']

    def test_values_of_other_types_do_not_end_the_read(self, tmp_path: Path) -> None:
        import datetime  # noqa: PLC0415
        import decimal  # noqa: PLC0415

        columns = {"a": [decimal.Decimal("1.5")], "b": [datetime.date(2026, 1, 2)], "c": [b"\xff"], "d": [float("nan")]}
        pq.write_table(pa.table(columns), tmp_path / "events")
        assert read(str(tmp_path / "events")) == [(1, b'{"a":"1.5","b":"2026-01-02","c":"/w==","d":null}')]


def container(schema: object, *blocks: tuple[int, bytes], codec: bytes = b"null") -> bytes:
    """Return an Avro file of blocks: the number of rows that each claims, and its data."""
    file, sync = io.BytesIO(), b"s" * 16
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    fastavro.schemaless_writer(file, HEADER_SCHEMA, {"magic": b"Obj\x01", "meta": {"avro.schema": text, "avro.codec": codec}, "sync": sync})
    for rows, data in blocks:
        file.write(avro_long(rows) + avro_long(len(data)) + data + sync)
    return file.getvalue()


def avro_long(number: int) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, "long", number)
    return file.getvalue()


def record(**types: object) -> dict[str, object]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": type_} for name, type_ in types.items()]}


def deflated_zeros(mebibytes: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(mebibytes)) + packer.flush()


def table_of(column: pa.Array) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"user_id": column}), file, compression="zstd")
    return file.getvalue()


def no_columns() -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({}), file)
    return file.getvalue()


ONE_TEXT = pa.DictionaryArray.from_arrays(pa.array([0] * 3_000, pa.int32()), pa.array(["x" * 400_000]))
NODE = record(next=["null", "R"])
HOSTILE = {
    "Avro that contains itself": (lambda: container(NODE, (1, b"\x02" * 3_000_000 + b"\x00")), "nested too deeply"),
    "Avro with a deep schema": (lambda: container(b'{"type":"array","items":' * 90_000 + b'"int"' + b"}" * 90_000), "nested too deeply"),
    "Avro with elements of no bytes": (
        lambda: container(record(a={"type": "array", "items": "null"}), (1, avro_long(1 << 33) + b"\x00")),
        "an array of values without bytes",
    ),
    "Avro with rows of no bytes": (lambda: container(record(), (1 << 40, b"")), "its rows have no bytes"),
    "Avro that is not what its schema is": (lambda: container(b"{}", (1, b"\x00")), "not a valid Avro schema"),
    "Avro with a block that unpacks to gigabytes": (
        lambda: container(record(a="bytes"), (1, deflated_zeros(300)), codec=b"deflate"),
        LARGE,
    ),
    "Avro that claims a text of a terabyte": (lambda: container(record(a="bytes"), (1, avro_long(1 << 40))), "cannot be read beyond"),
    "Avro that claims a block of a terabyte": (lambda: container(record(a="bytes")) + avro_long(1) + avro_long(1 << 40), LARGE),
    "Parquet with a list of many millions": (lambda: table_of(pa.ListArray.from_arrays([0, 30_000_000], pa.repeat(0, 30_000_000))), LARGE),
    "Parquet with one long text in many rows": (lambda: table_of(ONE_TEXT), LARGE),
    "Parquet without columns": (no_columns, "it has no columns"),
}


READ_ALONE = """
import functools, pathlib, re, resource, sys
from streammetrics.connectors.file_formats import memory_limit, reader as module
from streammetrics.errors import SourceError
module.memory_limit = functools.partial(memory_limit.memory_limit, 150 << 20)
reader = module.FileReader(sys.argv[1], 1 << 20)
try:
    while not reader.ended:
        reader.take(1_000)
except SourceError as error:
    peak_kib = int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
    print(peak_kib >> 10, resource.getrlimit(resource.RLIMIT_DATA)[0], error)
"""


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_would_end_the_process_or_fill_its_memory_is_refused_with_a_message(name: str, tmp_path: Path) -> None:
    make, says = HOSTILE[name]
    path = write(tmp_path / "events", make())
    done = subprocess.run([sys.executable, "-c", READ_ALONE, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    peak_mib, limit, message = done.stdout.split(" ", 2)
    assert says in message
    assert message.startswith(path)
    assert int(peak_mib) < 500
    assert int(limit) == resource.getrlimit(resource.RLIMIT_DATA)[0], "the limit outlived the read"


def test_a_schema_that_contains_itself_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "events", container(NODE, (2, b"\x02\x02\x00" + b"\x00")))
    assert read(path) == [(1, b'{"next":{"next":{"next":null}}}'), (2, b'{"next":null}')]


@pytest.mark.parametrize("make", [array, pretty_array, delimited, avro, parquet])
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
