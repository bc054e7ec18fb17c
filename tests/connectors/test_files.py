"""Files as a source: every line once, in order, with a length limit; and dead letters that can be read back."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import random
import sys
import threading
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from streammetrics.connectors import files
from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.file_formats import streams
from streammetrics.connectors.file_formats.streams import form_of, refused_form
from streammetrics.connectors.files import FileDeadLetters, FileSource, expanded_paths
from streammetrics.connectors.source import Input, InputRecord
from streammetrics.errors import ConfigError, SourceError

MARK = b"\xef\xbb\xbf"
PACKED = gzip.compress(b"one\n" * 10_000, mtime=0)


def write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def started(paths: Sequence[str], offsets: Mapping[Input, int] | None = None, **options: int) -> FileSource:
    source = FileSource(paths, **options)
    assert source.poll(0).assigned == {0}
    source.start(0, offsets or {})
    return source


def read_all(source: FileSource) -> dict[str, list[tuple[int, bytes | None]]]:
    """Return all records by path, as (line, bytes)."""
    got: dict[str, list[tuple[int, bytes | None]]] = {place.topic: [] for place in source.inputs_of(0)}
    with closing(source):
        while not source.exhausted:
            for place, records in source.poll(0).records.items():
                got[place.topic] += [(record.offset, record.value) for record in records]
    return got


class TestLines:
    def test_each_line_is_a_record_with_its_number_and_no_timestamp(self, tmp_path: Path) -> None:
        path = write(tmp_path / "events", b"one\ntwo\n")
        source = started([path])
        assert source.poll(0).records == {Input(path, 0): [InputRecord(1, -1, b"one"), InputRecord(2, -1, b"two")]}
        source.close()

    def test_blank_lines_are_skipped_but_count_as_lines(self, tmp_path: Path) -> None:
        path = write(tmp_path / "events", b"\n  \t\r\none\n\n\ntwo\n\n")
        assert read_all(started([path])) == {path: [(3, b"one"), (6, b"two")]}

    def test_a_last_line_without_a_line_end_is_an_event(self, tmp_path: Path) -> None:
        path = write(tmp_path / "events", b"one\ntwo")
        assert read_all(started([path])) == {path: [(1, b"one"), (2, b"two")]}

    def test_windows_line_ends_are_not_part_of_the_event(self, tmp_path: Path) -> None:
        path = write(tmp_path / "events", b"one\r\ntwo\r\n")
        assert read_all(started([path])) == {path: [(1, b"one"), (2, b"two")]}

    @pytest.mark.parametrize("pack", [bytes, lambda content: gzip.compress(content, mtime=0)], ids=["plain", "gzip"])
    def test_a_byte_order_mark_is_no_part_of_the_first_event(self, tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
        path = write(tmp_path / "events", pack(MARK + b"one\n" + MARK + b"two\n"))
        source = started([path])
        assert read_all(source) == {path: [(1, b"one"), (2, MARK + b"two")]}
        assert source.bytes_read == source.bytes_total

    def test_a_byte_order_mark_on_stdin_is_no_part_of_the_first_event(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(MARK + b"one\n"))))
        assert read_all(started(["-"])) == {"-": [(1, b"one")]}

    @pytest.mark.parametrize("content", [MARK, MARK + b"\n", MARK + b"\r\n"])
    def test_a_byte_order_mark_alone_is_no_event(self, tmp_path: Path, content: bytes) -> None:
        path = write(tmp_path / "events", content)
        assert read_all(started([path])) == {path: []}

    def test_an_empty_file_ends_at_once(self, tmp_path: Path) -> None:
        path = write(tmp_path / "events", b"")
        assert read_all(started([path])) == {path: []}

    @pytest.mark.parametrize("mark", [b"", MARK], ids=["", "marked"])
    @pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b""])
    @pytest.mark.parametrize(("size", "kept"), [(9, 9), (10, 10), (11, 11), (12, 11), (13, 11), (14, 11), (200_000, 11)])
    def test_a_too_long_line_is_cut_and_its_full_length_is_known(
        self, tmp_path: Path, size: int, kept: int, line_end: bytes, mark: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(files, "LINE_BYTES_MAX", 11)
        after = b"next\n" if line_end else b""
        path = write(tmp_path / "events", mark + b"x" * size + line_end + after)
        expected = [(1, b"x" * kept)] + ([(2, b"next")] if line_end else [])
        source = started([path], event_bytes_max=10)
        assert read_all(source) == {path: expected}
        assert source.cut == {Input(path, 0): {1: size} if size > kept else {}}

    @pytest.mark.parametrize("size", range(11, 40))
    def test_the_length_of_a_line_never_includes_its_end(self, tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "LINE_BYTES_MAX", 4)
        monkeypatch.setattr(streams, "SKIP_BYTES", 7)
        path = write(tmp_path / "events", b"first\n" + b"x" * (size - 1) + b"\r\r\nnext\n")
        source = started([path], event_bytes_max=10)
        assert read_all(source)[path] == [(1, b"first"), (2, (b"x" * (size - 1) + b"\r")[:11]), (3, b"next")]
        assert source.cut == {Input(path, 0): {2: size} if size > 11 else {}}

    def test_a_line_too_long_for_an_event_is_still_kept_whole(self, tmp_path: Path) -> None:
        path = write(tmp_path / "events", b"x" * 2_000_000 + b"\nnext\n")
        source = started([path], event_bytes_max=1_000)
        assert read_all(source) == {path: [(1, b"x" * 2_000_000), (2, b"next")]}

    def test_a_huge_line_does_not_fill_the_memory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "LINE_BYTES_MAX", 1_001)
        path = write(tmp_path / "events", b"x" * 20_000_000 + b"\nnext\n")
        source = started([path], event_bytes_max=1_000)
        tracemalloc.start()
        try:
            got = read_all(source)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert [len(value or b"") for _, value in got[path]] == [1_001, 4]
        assert peak < 1_000_000

    @given(
        lines=st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line and b"\r" not in line), max_size=30),
        chunk=st.integers(1, 7),
    )
    @example(lines=[MARK], chunk=1)
    @example(lines=[MARK + b"x", MARK + b"y"], chunk=1)
    @example(lines=[b"\x00["], chunk=1)
    @example(lines=[b"{\x00", b"", b"x"], chunk=1)
    def test_all_lines_come_once_in_order_with_any_chunk_size(
        self, tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], chunk: int
    ) -> None:
        content = b"\n".join(lines)
        assume(not content.startswith(b"\x1f"))  # compressed
        assume(refused_form(content) is None)
        assume(form_of(content.removeprefix(MARK)) == "lines")
        path = write(tmp_path_factory.mktemp("lines") / "events", content)
        unmarked = [line.removeprefix(MARK) if number == 1 else line for number, line in enumerate(lines, 1)]
        expected = [(number, line) for number, line in enumerate(unmarked, 1) if line.strip()]
        assert read_all(started([path], chunk_lines_max=chunk)) == {path: expected}

    @pytest.mark.parametrize("name", ["events.ndjson.gz", "events.ndjson"])
    def test_a_gzip_file_is_decompressed_with_any_name(self, tmp_path: Path, name: str) -> None:
        path = write(tmp_path / name, gzip.compress(b"one\ntwo\n", mtime=0))
        source = started([path])
        assert source.bytes_total == Path(path).stat().st_size
        assert read_all(source) == {path: [(1, b"one"), (2, b"two")]}
        assert source.bytes_read == source.bytes_total

    @pytest.mark.parametrize(
        "content",
        [PACKED[:-20], b"this is no gzip", PACKED[:10] + b"\xff" * 20, PACKED[:-8] + b"\0" * 8],
        ids=["cut short", "no gzip", "broken inside", "wrong sum"],
    )
    def test_a_damaged_gzip_file_is_an_error_that_names_it(self, tmp_path: Path, content: bytes) -> None:
        source = started([write(tmp_path / "broken.gz", content)])
        with pytest.raises(SourceError, match=r"broken\.gz"):
            read_all(source)
        source.close()

    def test_progress_through_a_gzip_file_counts_bytes_on_disk(self, tmp_path: Path) -> None:
        lines = random.Random(1).randbytes(1_000_000).hex("\n", 100).encode()
        source = started([write(tmp_path / "events", gzip.compress(lines, mtime=0))], chunk_lines_max=1_000)
        seen = [source.bytes_read]
        while not source.exhausted:
            source.poll(0)
            seen.append(source.bytes_read)
        source.close()
        assert (seen[0], seen[-1], source.bytes_read) == (0, source.bytes_total, source.bytes_total)
        assert (seen == sorted(seen), len(set(seen)) > 3) == (True, True)

    def test_an_empty_file_named_gz_has_no_lines(self, tmp_path: Path) -> None:
        path = write(tmp_path / "events.gz", b"")
        assert read_all(started([path])) == {path: []}

    @pytest.mark.parametrize("content", [b"\x1f", PACKED[:2], PACKED[:-1]])
    def test_a_file_that_only_begins_like_gzip_is_an_error_that_names_it(self, tmp_path: Path, content: bytes) -> None:
        source = started([write(tmp_path / "events", content)])
        with pytest.raises(SourceError, match="events cannot be read beyond line"):
            read_all(source)
        source.close()

    @pytest.mark.parametrize("name", ["events.gz", "events"])
    def test_a_gzip_stream_from_a_pipe_is_decompressed(self, tmp_path: Path, name: str) -> None:
        pipe = tmp_path / name
        os.mkfifo(pipe)
        writer = threading.Thread(target=lambda: pipe.write_bytes(PACKED))
        writer.start()
        source = started([str(pipe)])
        assert source.bytes_total is None
        got = read_all(source)
        writer.join()
        assert [value for _, value in got[str(pipe)]] == [b"one"] * 10_000
        assert source.bytes_read == len(b"one\n" * 10_000)

    def test_stdin_is_an_input_of_unknown_size(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"one\ntwo\n"))))
        source = started(["-"])
        assert source.bytes_total is None
        assert read_all(source) == {"-": [(1, b"one"), (2, b"two")]}
        assert source.bytes_read == 8

    def test_gzip_on_stdin_is_decompressed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(PACKED))))
        got = read_all(started(["-"]))
        assert [value for _, value in got["-"]] == [b"one"] * 10_000

    def test_gzip_that_comes_byte_by_byte_is_decompressed(self, tmp_path: Path) -> None:
        pipe = tmp_path / "events"
        os.mkfifo(pipe)

        def send() -> None:
            with pipe.open("wb", buffering=0) as end:
                for byte in gzip.compress(b"one\ntwo\n", mtime=0):
                    end.write(bytes([byte]))

        writer = threading.Thread(target=send)
        writer.start()
        got = read_all(started([str(pipe)]))
        writer.join()
        assert got == {str(pipe): [(1, b"one"), (2, b"two")]}

    def test_nothing_is_read_before_the_first_poll(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as silent, os.fdopen(writing, "wb"):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(silent))
            source = FileSource(["-"])
            assert (source.poll(0).assigned, source.bytes_read) == ({0}, 0)
            source.close()


class TestOrder:
    def test_without_a_preference_inputs_are_read_in_turn(self, tmp_path: Path) -> None:
        paths = [write(tmp_path / name, b"1\n2\n3\n") for name in ("a", "b")]
        source = started(paths, chunk_lines_max=1)
        order = [place.topic for _ in range(4) for place in source.poll(0).records]
        assert order == [paths[0], paths[1], paths[0], paths[1]]
        source.close()

    def test_the_preferred_input_is_read_until_it_ends(self, tmp_path: Path) -> None:
        first, second = (Input(write(tmp_path / name, b"1\n2\n"), 0) for name in ("a", "b"))
        source = started([first.topic, second.topic], chunk_lines_max=1)
        source.prefer([second, first])
        order = []
        while not source.exhausted:
            order += list(source.poll(0).records)
        assert order == [second, second, first, first]
        assert source.ended == {first, second}
        source.close()

    def test_a_paused_input_stays_paused_until_it_is_resumed(self, tmp_path: Path) -> None:
        first, second = (Input(write(tmp_path / name, b"1\n"), 0) for name in ("a", "b"))
        source = started([first.topic, second.topic])
        source.pause([first])
        assert [list(source.poll(0).records) for _ in range(4)] == [[second], [], [], []]
        assert not source.exhausted
        source.resume([first])
        assert list(source.poll(0).records) == [first]
        source.close()

    def test_no_record_comes_before_the_task_is_started(self, tmp_path: Path) -> None:
        source = FileSource([write(tmp_path / "a", b"1\n")])
        assert source.poll(0).assigned == {0}
        assert source.poll(0).records == {}
        source.start(0, {})
        assert len(source.poll(0).records) == 1
        source.close()

    def test_reading_continues_at_the_stored_offset(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a", b"1\n2\n3\n")
        assert read_all(started([path], {Input(path, 0): 3})) == {path: [(3, b"3")]}

    def test_an_input_is_caught_up_only_at_its_end(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a", b"1\n2\n")
        place = Input(path, 0)
        source = started([path], chunk_lines_max=1)
        while not source.exhausted:
            for records in source.poll(0).records.values():
                assert source.ends()[place] > records[-1].offset + 1
        assert source.ends()[place] == 3
        source.close()

    @pytest.mark.parametrize("content", [b"", b"\n \n\n", b"{}\n\n{}\n\n\n"])
    def test_blank_lines_do_not_count_as_waiting_to_be_read(self, tmp_path: Path, content: bytes) -> None:
        path = write(tmp_path / "a", content)
        source = FileSource([path])
        source.poll(0)
        (place, offset), *_ = source.start(0, {}).items()
        offsets = [offset]
        while not source.exhausted:
            offsets += [record.offset + 1 for records in source.poll(0).records.values() for record in records]
        assert source.ends()[place] == offsets[-1]
        source.close()

    def test_progress_goes_from_nothing_to_all(self, tmp_path: Path) -> None:
        source = started([write(tmp_path / "a", b"1\n" * 50), write(tmp_path / "b", b"2\n" * 50)], chunk_lines_max=10)
        seen = [source.bytes_read]
        while not source.exhausted:
            source.poll(0)
            seen.append(source.bytes_read)
        assert (seen[0], seen[-1], source.bytes_total) == (0, 200, 200)
        assert seen == sorted(seen)
        source.close()


class TestWrongFiles:
    def test_all_wrong_files_are_named_together(self, tmp_path: Path) -> None:
        good = write(tmp_path / "good", b"")
        with pytest.raises(ConfigError) as caught:
            FileSource([str(tmp_path / "nowhere"), str(tmp_path / "no*"), str(tmp_path), good, good])
        assert [(problem.value, problem.allowed) for problem in caught.value.problems] == [
            (str(tmp_path / "nowhere"), "does not exist"),
            (str(tmp_path / "no*"), "matches no file"),
            (str(tmp_path), "is a folder without files"),
            (good, "is named twice: its events would count as duplicates"),
        ]

    def test_at_least_one_file_is_required(self) -> None:
        with pytest.raises(ConfigError, match="at least one file"):
            FileSource([])


class TestDeadLetters:
    def test_dead_letters_can_be_read_back(self) -> None:
        file = io.BytesIO()
        FileDeadLetters(file, {Input("in.ndjson", 0): {8: 30_000_000}}).write(
            [
                DeadLetter("bad_json", "at byte 3", Input("in.ndjson", 0), 7, '{"ä'.encode()),
                DeadLetter("oversized", "no UTF-8", Input("in.ndjson", 0), 8, b"\xff\x00"),
                DeadLetter("empty", "lone \ud800", Input("in.ndjson", 0), 9, None),
            ]
        )
        read = [json.loads(line) for line in file.getvalue().splitlines()]
        assert read[0] == {
            "key": "in.ndjson:0:7",
            "reason": "bad_json",
            "detail": "at byte 3",
            "input": "in.ndjson",
            "line": 7,
            "value": '{"ä',
        }
        assert base64.b64decode(read[1]["value_base64"]) == b"\xff\x00"
        assert read[1]["value_bytes"] == 30_000_000
        assert "value" not in read[1]
        assert (read[2]["value"], read[2]["detail"]) == (None, r"lone \ud800")

    @given(value=st.binary(max_size=50))
    def test_any_bytes_can_be_read_back(self, value: bytes) -> None:
        file = io.BytesIO()
        FileDeadLetters(file).write([DeadLetter("late", "", Input("in", 0), 1, value)])
        (line,) = file.getvalue().splitlines()
        read = json.loads(line)
        assert value == (read["value"].encode() if "value" in read else base64.b64decode(read["value_base64"]))

    def test_without_a_file_nothing_is_kept(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        FileDeadLetters(None).write([DeadLetter("late", "", Input("in", 0), 1, b"")])
        assert list(tmp_path.iterdir()) == []


def made(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_a_folder_names_the_files_in_and_below_it(tmp_path: Path) -> None:
    made(tmp_path, "b", "a", "sub/c", ".hidden", "_SUCCESS", "_temporary/d", "sub/.crc")
    assert expanded_paths([str(tmp_path)]) == [str(tmp_path / name) for name in ("a", "b", "sub/c")]


def test_a_pattern_names_the_files_that_match(tmp_path: Path) -> None:
    made(tmp_path, "2026-01.csv", "2026-02.csv", "2025-12.csv", "x/2026-03.csv")
    assert expanded_paths([str(tmp_path / "2026-*")]) == [str(tmp_path / f"2026-0{month}.csv") for month in (1, 2)]
    assert len(expanded_paths([str(tmp_path / "**" / "*.csv")])) == 4


def test_other_paths_stay_as_given(tmp_path: Path) -> None:
    made(tmp_path, "a[1]")
    named = ["-", str(tmp_path / "none"), str(tmp_path / "*.none"), str(tmp_path / "a[1]")]
    assert expanded_paths(named) == named


def test_the_order_of_the_arguments_is_kept(tmp_path: Path) -> None:
    made(tmp_path, "one/a", "two/b")
    assert expanded_paths([str(tmp_path / "two"), str(tmp_path / "one")]) == [str(tmp_path / "two/b"), str(tmp_path / "one/a")]
