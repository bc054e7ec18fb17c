"""The content of a file as its first bytes show: its form, and a stream of bytes or lines that is decompressed.

A byte order mark is left out.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from streammetrics.errors import ConfigError, Problem, SourceError

Form: TypeAlias = Literal["lines", "array", "delimited", "parquet"]
DELIMITERS: Final = "\t,;"
_COLUMN = re.compile(r"[A-Za-z_][\w .:/-]*")
_any = msgspec.json.Decoder(msgspec.Raw).decode
SKIP_BYTES = 1 << 16
Row: TypeAlias = tuple[int, bytes, int]
"""One record of a file: its number from 1, its bytes, and how many bytes of the content it took."""
HEAD_BYTES: Final = 1 << 16
"""How much of a file is read to recognize its form."""
READ_BYTES: Final = 1 << 16
ZSTD_INPUT_BYTES: Final = 1 << 10
"""Compressed bytes that are decompressed at a time. A zstd block of four bytes may become 128 KB, so this limits memory."""
MAGIC_BYTES: Final = 6
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_UTF_8_MARK: Final = b"\xef\xbb\xbf"
_REFUSED: Final = (
    (re.compile(rb"BZh[0-9]"), "compressed with bzip2", "bzcat {}"),
    (re.compile(rb"\xfd7zXZ\x00"), "compressed with xz", "xzcat {}"),
    (re.compile(rb"PK(\x03\x04|\x05\x06)"), "a zip archive", "unzip -p {}"),
    (re.compile(rb"Obj\x01"), "an Avro file", "fastavro {}"),
    (re.compile(rb"\xff\xfe\x00\x00|\x00\x00\xfe\xff"), "text in UTF-32", "iconv -f UTF-32 -t UTF-8 {}"),
    (re.compile(rb"\xff\xfe|\xfe\xff"), "text in UTF-16", "iconv -f UTF-16 -t UTF-8 {}"),
    (re.compile(rb"[{\[]\x00[^\x00]\x00", re.DOTALL), "text in UTF-16", "iconv -f UTF-16LE -t UTF-8 {}"),
    (re.compile(rb"\x00[{\[]\x00[^\x00]", re.DOTALL), "text in UTF-16", "iconv -f UTF-16BE -t UTF-8 {}"),
)
"""First bytes of forms that are not read: what they are, and the command that converts them. JSON begins with two ASCII characters."""


class Content(NamedTuple):
    """The decompressed content of a file: its first bytes, all of it as a stream, and whether it was compressed."""

    head: bytes
    stream: io.BufferedReader
    is_unpacked: bool


def form_of(head: bytes) -> Form:
    """Return the form of a file from the start of its content: the first line at least.

    >>> form_of(b'{"type":"feedback"}'), form_of(b'[ {"type":"feedback"},'), form_of(b"type,user_id,ts")
    ('lines', 'array', 'delimited')

    Lines that are arrays of documents are lines:

    >>> form_of(b'[{"action_name":"click"}]\\n[{"action_name":"click"}]\\n')
    'lines'
    """
    if head.startswith(b"PAR1"):
        return "parquet"
    text = head.lstrip()
    if text.startswith(b"["):
        return "array" if _begins_array(text) else "lines"
    return "lines" if text.startswith(b"{") or header_of(text) is None else "delimited"


def _begins_array(text: bytes) -> bool:
    """Return whether an array of objects begins here that is the whole file, and not only its first line."""
    if text[1:].lstrip()[:1] not in (b"{", b"]", b""):
        return False
    line, _, rest = text.partition(b"\n")
    if not rest.strip():
        return True
    try:
        _any(line)
    except msgspec.DecodeError:
        return True
    return False


def header_of(text: bytes) -> tuple[str, list[str]] | None:
    """Return the delimiter and the column names of a header line; None if the first line is no header.

    >>> header_of(b"type;user_id;ts\\nfeedback;u7;1"), header_of(b"hello, world!"), header_of(b"type,user\\r_id")
    ((';', ['type', 'user_id', 'ts']), None, None)
    """
    try:
        line = text.lstrip().split(b"\n", 1)[0].decode().rstrip("\r")
    except UnicodeDecodeError:
        return None
    for delimiter in DELIMITERS:
        if delimiter in line:
            try:
                names = [name.strip() for name in next(csv.reader([line], delimiter=delimiter))]
            except csv.Error:  # such as a carriage return inside the line
                return None
            return (delimiter, names) if len(names) > 1 and all(map(_COLUMN.fullmatch, names)) else None
    return None


def open_content(raw: io.BufferedReader, path: str) -> Content:
    """Return the content of a file. A file named .gz must be gzip.

    Raises SourceError for a form that is not read, ConfigError if a package is missing, and as `raw.read`.
    """
    start, stream = _peeked(raw, MAGIC_BYTES)
    unpacked = _decompressed(start, stream, path)
    if unpacked is not None:
        start, stream = _peeked(unpacked, MAGIC_BYTES)
    if (refused := refused_form(start)) is not None:
        what, command = refused
        if unpacked is not None:
            raise SourceError(f"{path} holds {what}, compressed once more: decompress it first, then replay says how to convert it")
        convert = command.format("FILE" if path == "-" else shlex.quote(path))
        raise SourceError(f"{path} is {what}, which is not read. Convert it: {convert} | streammetrics replay -")
    head = _head(stream).removeprefix(_UTF_8_MARK)
    return Content(head, rejoined(head, stream), unpacked is not None)


def refused_form(start: bytes) -> tuple[str, str] | None:
    """Return what a file is that is not read, and the command that converts it; None if its first bytes show no such form.

    >>> refused_form(b"PK\\x03\\x04"), refused_form(b'{"type"')
    (('a zip archive', 'unzip -p {}'), None)
    """
    return next(((what, command) for pattern, what, command in _REFUSED if pattern.match(start)), None)


def _decompressed(start: bytes, stream: io.BufferedReader, path: str) -> io.BufferedReader | None:
    """Return the decompressed stream, or None if the content is not compressed. No text begins like compressed data."""
    if path.endswith(".gz") or (start and (start.startswith(_GZIP) or _GZIP.startswith(start))):
        return io.BufferedReader(gzip.GzipFile(fileobj=stream), READ_BYTES)
    if start.startswith(_ZSTD):
        return io.BufferedReader(_Zstd(stream, optional_module("zstandard", path, "compressed with zstd")), READ_BYTES)
    return None


def _peeked(stream: io.BufferedReader, count: int) -> tuple[bytes, io.BufferedReader]:
    """Return the first bytes of a stream, at least `count` of them or its first line, and the whole stream."""
    start = b""
    while len(start) < count and b"\n" not in start and (part := stream.read1(count - len(start))):
        start += part
    return start, rejoined(start, stream)


def _head(stream: io.BufferedReader) -> bytes:
    """Read the first bytes of a stream. Of a pipe, only until its form is clear, because more may not come for a while."""
    head = b""
    while len(head) < HEAD_BYTES and (part := stream.read1(HEAD_BYTES - len(head))):
        head += part
        text = head.removeprefix(_UTF_8_MARK).lstrip()
        if b"\n" in text and not (text.startswith(b"[") and text.index(b"\n") == len(text.rstrip())):
            break
    return head


def rejoined(start: bytes, rest: io.BufferedReader) -> io.BufferedReader:
    """Return a stream of which the first bytes were read already."""
    return io.BufferedReader(_RejoinedStream(start, rest), READ_BYTES)


class _RejoinedStream(io.RawIOBase):
    def __init__(self, start: bytes, rest: io.BufferedReader) -> None:
        self._start, self._rest = start, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if not self._start:
            return self._rest.readinto1(buffer)
        part, self._start = self._start[: len(buffer)], self._start[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


class _Zstd(io.RawIOBase):
    """Decompressed zstd frames. Raises EOFError if the last frame is incomplete, and OSError if the data are damaged."""

    def __init__(self, source: io.BufferedReader, zstandard: Any) -> None:
        self._source, self._zstandard = source, zstandard
        self._frame: Any = None
        self._ready, self._unused = memoryview(b""), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._ready:
            piece = self._next_piece()
            if piece is None:
                return 0
            self._ready = memoryview(piece)
        part, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def _next_piece(self) -> bytes | None:
        """Return the next bytes, perhaps none; None at the end."""
        part = self._unused or self._source.read1(ZSTD_INPUT_BYTES)
        self._unused = b""
        if not part:
            if self._frame is not None:
                raise EOFError("the zstd data end before their end mark")
            return None
        if self._frame is None:
            self._frame = self._zstandard.ZstdDecompressor().decompressobj()
        try:
            piece: bytes = self._frame.decompress(part)
        except self._zstandard.ZstdError as error:
            raise OSError(str(error)) from error
        if self._frame.eof:
            self._unused, self._frame = self._frame.unused_data, None
        return piece


def optional_module(name: str, path: str, what: str) -> Any:
    """Return a module that reads `what`. Raises ConfigError if its package is not installed. `path` is the file that needs it."""
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        advice = f"is {what}, which needs the package {package}: pip install 'streammetrics[files]'"
        raise ConfigError([Problem("FILE", path, advice)]) from None


def read_lines(stream: io.BufferedReader, kept_bytes: int, cut: dict[int, int]) -> Iterator[Row]:
    """Yield the lines without their line ends, blank ones too. Of a line longer than `kept_bytes` only the first bytes are kept.

    The full length of a line that was cut is added to `cut`.
    """
    limit = kept_bytes + 2  # room for a line end of two bytes
    readline, number = stream.readline, 0
    while line := readline(limit):
        number += 1
        size = len(line)
        if line.endswith(b"\n"):
            line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
            full_bytes = len(line)
        elif size > kept_bytes:
            skipped, end_bytes = _skip_rest(stream, line[-1:])
            size += skipped
            full_bytes = size - end_bytes
        else:
            full_bytes = size
        if full_bytes > kept_bytes:
            cut[number] = full_bytes
            line = line[:kept_bytes]
        yield number, line, size


def _skip_rest(stream: io.BufferedReader, last: bytes) -> tuple[int, int]:
    """Read to the end of a line that had `last` as its last byte so far. Returns its further bytes, and how many belong to its line end."""
    skipped = 0
    while part := stream.readline(SKIP_BYTES):
        skipped += len(part)
        if part.endswith(b"\n"):
            return skipped, 2 if (last + part).endswith(b"\r\n") else 1
        last = part[-1:]
    return skipped, 0
