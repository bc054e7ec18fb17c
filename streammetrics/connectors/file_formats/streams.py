"""Byte streams: decompresses and recodes the content of a file, as its first bytes show.

Text becomes UTF-8 without a byte order mark.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import re
import zipfile
from typing import Any, Final, NamedTuple, cast

from streammetrics.connectors.file_formats.extras import optional_module
from streammetrics.errors import SourceError

HEAD_BYTES: Final = 1 << 16
"""How much of a file is read to recognize its form."""
READ_BYTES: Final = 1 << 16
ZSTD_INPUT_BYTES: Final = 1 << 10
"""Compressed bytes that are decompressed at a time. A zstd block of four bytes may become 128 KB, so this limits memory."""
MAGIC_BYTES: Final = 6

_GZIP: Final = b"\x1f\x8b"
_BZIP2: Final = b"BZh"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
"""The second one is an archive without files."""
_XZ: Final = b"\xfd7zXZ\x00"
_UTF_8_MARK: Final = b"\xef\xbb\xbf"
_MARKS: Final = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
"""The byte order marks of other encodings."""
_UNMARKED: Final = (
    (re.compile(rb"[{\[]\x00[^\x00]\x00", re.DOTALL), "utf-16-le"),
    (re.compile(rb"\x00[{\[]\x00[^\x00]", re.DOTALL), "utf-16-be"),
)
"""The first two characters of JSON in UTF-16 without a byte order mark. Both are ASCII (RFC 4627, section 3)."""


class Content(NamedTuple):
    """The decompressed content of a file: its first bytes, all of it as a stream, and whether the bytes differ from those on disk."""

    head: bytes
    stream: io.BufferedReader
    is_converted: bool


def open_content(raw: io.BufferedReader, path: str) -> Content:
    """Return the content of a file. A file named .gz must be gzip. Raises ConfigError if a package is missing, and as `raw.read`."""
    start, stream = _peeked(raw, MAGIC_BYTES)
    unpacked = _unzipped(raw, path) if start.startswith(_ZIP) else _decompressed(start, stream, path)
    if unpacked is not None:
        start, stream = _peeked(unpacked, MAGIC_BYTES)
    encoding = encoding_of(start)
    if encoding is not None:
        stream = io.BufferedReader(_Recoded(stream, encoding), READ_BYTES)
    head = _head(stream).removeprefix(_UTF_8_MARK)
    return Content(head, rejoined(head, stream), unpacked is not None or encoding is not None)


def encoding_of(start: bytes) -> str | None:
    """Return the encoding that the first bytes of a text show, or None if they look like UTF-8."""
    marked = (name for mark, name in _MARKS if start.startswith(mark))
    unmarked = (name for pattern, name in _UNMARKED if pattern.match(start))
    return next(marked, None) or next(unmarked, None)


def _decompressed(start: bytes, stream: io.BufferedReader, path: str) -> io.BufferedReader | None:
    """Return the decompressed stream, or None if the content is not compressed. No text begins like compressed data."""
    if path.endswith(".gz") or (start and (start.startswith(_GZIP) or _GZIP.startswith(start))):
        return io.BufferedReader(gzip.GzipFile(fileobj=stream), READ_BYTES)
    if start.startswith(_BZIP2) and start[3:4].isdigit():
        return io.BufferedReader(bz2.BZ2File(stream), READ_BYTES)
    if start.startswith(_XZ):
        return io.BufferedReader(lzma.LZMAFile(stream), READ_BYTES)
    if start.startswith(_ZSTD):
        return io.BufferedReader(_Zstd(stream, optional_module("zstandard", path, "compressed with zstd")), READ_BYTES)
    return None


def _unzipped(raw: io.BufferedReader, path: str) -> io.BufferedReader:
    """Return the only file of a zip archive. Raises SourceError if it has several, or comes from a pipe."""
    if not raw.seekable():
        raise SourceError(f"{path} is a zip archive, which cannot be read from a pipe: name a file")
    raw.seek(0)
    archive = zipfile.ZipFile(raw)
    names = [each.filename for each in archive.infolist() if not each.is_dir() and not each.filename.startswith("__MACOSX/")]
    if len(names) != 1:
        raise SourceError(f"{path} is a zip archive with {len(names)} files: extract them (unzip), and name the files or their folder")
    return io.BufferedReader(cast(io.BufferedReader, archive.open(names[0])), READ_BYTES)


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
    return io.BufferedReader(_Rejoined(start, rest), READ_BYTES)


class _Rejoined(io.RawIOBase):
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


class _Converted(io.RawIOBase):
    """A stream that a subclass produces piece by piece."""

    def __init__(self, source: io.BufferedReader) -> None:
        self._source = source
        self._ready = memoryview(b"")

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
        raise NotImplementedError


class _Zstd(_Converted):
    """Decompressed zstd frames. Raises EOFError if the last frame is incomplete, and OSError if the data are damaged."""

    def __init__(self, source: io.BufferedReader, zstandard: Any) -> None:
        super().__init__(source)
        self._zstandard = zstandard
        self._frame: Any = None
        self._unused = b""

    def _next_piece(self) -> bytes | None:
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


class _Recoded(_Converted):
    """Text in another encoding, as UTF-8. A lone surrogate becomes invalid UTF-8, so that only its own line is refused."""

    def __init__(self, source: io.BufferedReader, encoding: str) -> None:
        super().__init__(source)
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")

    def _next_piece(self) -> bytes | None:
        part = self._source.read1(READ_BYTES)
        try:
            text = self._decoder.decode(part, final=not part)
        except UnicodeDecodeError as error:
            raise OSError(f"the text is no valid {error.encoding}: {error.reason}") from error
        return text.encode("utf-8", "surrogatepass") if part or text else None
