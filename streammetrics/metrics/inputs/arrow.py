"""Reads columns from an Arrow C stream with ctypes and numpy only. pandas, polars, pyarrow, DuckDB and others export such streams.

The structures are those of the Arrow C data and C stream interfaces (arrow.apache.org/docs/format/CDataInterface.html). Values are
copied, and all received structures are released, also after errors.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streammetrics.metrics.arrays import AnyArray
from streammetrics.metrics.names import MetricError

_NUMBERS: Final = {
    "c": np.int8, "C": np.uint8, "s": np.int16, "S": np.uint16, "i": np.int32, "I": np.uint32, "l": np.int64, "L": np.uint64,
    "e": np.float16, "f": np.float32, "g": np.float64,
}  # fmt: skip
_TEXTS: Final = {"u": np.int32, "U": np.int64}
_VIEW: Final = np.dtype([("length", np.int32), ("head", "S4"), ("buffer", np.int32), ("offset", np.int32)])
_VIEW_INLINE_MAX: Final = 12


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.POINTER(_Schema)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))),
    ("private_data", ctypes.c_void_p),
]
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.POINTER(_Array)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))),
    ("private_data", ctypes.c_void_p),
]
_Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Schema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Array))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(_Stream))),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Stream))),
    ("private_data", ctypes.c_void_p),
]


class ArrowStreamError(Exception):
    """The source failed to export its Arrow stream."""


def read_columns(source: Any, wanted: Collection[str]) -> dict[str, AnyArray]:
    """Read the named columns of an object with `__arrow_c_stream__`, one array per column.

    Numbers and booleans keep their dtype; with missing values they become float64 with NaN. Text becomes an object array of str,
    with None for missing values. Dictionary encoding (categories) is resolved.

    Raises MetricError for a missing or repeated column and for other types. Raises ArrowStreamError if the source fails to export
    its stream.
    """
    try:
        capsule = source.__arrow_c_stream__()
    except Exception as error:
        raise ArrowStreamError(f"its Arrow stream cannot be had ({type(error).__name__}: {error})") from error
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    stream = _Stream.from_address(get_pointer(capsule, b"arrow_array_stream"))
    with _released(stream), _released(_Schema()) as schema:
        _ask(stream, stream.get_schema, schema)
        if schema.format != b"+s":
            raise MetricError("frame", f"got a stream of Arrow type {_text(schema.format)}; allowed is one of records with named columns")
        places = _places([_text(schema.children[at].contents.name) for at in range(schema.n_children)], wanted)
        chunks: dict[str, list[AnyArray]] = {name: [] for name in wanted}
        for array in _arrays(stream):
            for name, at in places.items():
                child = array.children[at].contents
                chunks[name].append(_values(name, schema.children[at].contents, child, array.offset, array.length))
        return {name: _joined(parts) for name, parts in chunks.items()}


def _places(names: Sequence[str], wanted: Collection[str]) -> dict[str, int]:
    for name in wanted:
        if names.count(name) != 1:
            raise MetricError("column", f"got {names.count(name)} named {name!r}; allowed is one; the frame has {', '.join(names)}")
    return {name: names.index(name) for name in wanted}


@contextmanager
def _released(held: Any) -> Iterator[Any]:
    """Call the release function of a structure that the exporter filled."""
    try:
        yield held
    finally:
        if held.release:
            held.release(ctypes.byref(held))


def _ask(stream: _Stream, question: Callable[..., int], answer: Any) -> None:
    code = question(ctypes.byref(stream), ctypes.byref(answer))
    if code:
        reason = stream.get_last_error(ctypes.byref(stream)) or b"no reason given"
        raise MetricError("frame", f"its Arrow stream failed with code {code}: {_text(reason)}")


def _arrays(stream: _Stream) -> Iterator[_Array]:
    while True:
        with _released(_Array()) as array:
            _ask(stream, stream.get_next, array)
            if not array.release:
                return
            yield array


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace")


def _joined(parts: Sequence[AnyArray]) -> AnyArray:
    return np.concatenate(parts) if parts else np.zeros(0)


def _values(name: str, schema: _Schema, array: _Array, offset: int, length: int) -> AnyArray:
    """`length` rows from `offset` of an array, which may itself have an offset into its buffers."""
    start = array.offset + offset
    missing = _missing(array, start, length)
    if schema.dictionary:
        indices = _fixed(array, _NUMBERS[_text(schema.format)], start, length)
        entries = array.dictionary.contents
        values = _values(name, schema.dictionary.contents, entries, 0, entries.length)
        taken = values[np.where(missing, 0, indices).astype(np.int64)] if values.size else np.full(length, None, dtype=object)
        return _with_missing(taken, missing)
    return _with_missing(_plain(name, _text(schema.format), array, start, length), missing)


def _plain(name: str, kind: str, array: _Array, start: int, length: int) -> AnyArray:
    if kind in _NUMBERS:
        return _fixed(array, _NUMBERS[kind], start, length).copy()
    if kind == "b":
        return _bits(array.buffers[1], start, length)
    if kind in _TEXTS:
        return _texts(array, _TEXTS[kind], start, length)
    if kind == "vu":
        return _views(array, start, length)
    if kind == "n":
        return np.full(length, None, dtype=object)
    raise MetricError(f"column {name!r}", f"got Arrow type {kind!r}; allowed are whole numbers, floats, booleans and text")


def _with_missing(values: AnyArray, missing: npt.NDArray[np.bool_]) -> AnyArray:
    if not missing.any():
        return values
    if values.dtype != object:
        values = values.astype(np.float64)
    values[missing] = None if values.dtype == object else np.nan
    return values


def _missing(array: _Array, start: int, length: int) -> npt.NDArray[np.bool_]:
    if array.null_count == 0 or array.n_buffers == 0 or not array.buffers[0]:
        return np.zeros(length, dtype=np.bool_)
    return ~_bits(array.buffers[0], start, length)


def _bits(address: int | None, start: int, length: int) -> npt.NDArray[np.bool_]:
    raw = _bytes_at(address, (start + length + 7) // 8)
    return np.unpackbits(raw, bitorder="little")[start : start + length].astype(np.bool_)


def _fixed(array: _Array, dtype: Any, start: int, length: int) -> AnyArray:
    size = np.dtype(dtype).itemsize
    values: AnyArray = _bytes_at(array.buffers[1], (start + length) * size).view(dtype)
    return values[start:]


def _bytes_at(address: int | None, size: int) -> npt.NDArray[np.uint8]:
    if not size or not address:
        return np.zeros(0, dtype=np.uint8)
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), dtype=np.uint8)


def _texts(array: _Array, dtype: Any, start: int, length: int) -> AnyArray:
    """UTF-8 text with offsets."""
    values = np.empty(length, dtype=object)
    if not length:
        return values
    borders = _fixed(array, dtype, start, length + 1).tolist()
    raw = _bytes_at(array.buffers[2], borders[-1])[borders[0] :].tobytes()
    borders = [border - borders[0] for border in borders]
    text = raw.decode("utf-8")
    if len(text) == len(raw):  # ASCII: byte offsets are character offsets
        values[:] = [text[begin:end] for begin, end in pairwise(borders)]
    else:
        values[:] = [raw[begin:end].decode("utf-8") for begin, end in pairwise(borders)]
    return values


def _views(array: _Array, start: int, length: int) -> AnyArray:
    """Text as string views: up to 12 bytes are in the view itself, longer text is in the data buffers."""
    values = np.empty(length, dtype=object)
    raw = _bytes_at(array.buffers[1], (start + length) * 16)[start * 16 :]
    inline = raw.tobytes()
    views = raw.view(_VIEW)
    further = array.n_buffers - 3  # the last buffer holds the sizes of the data buffers
    sizes = _bytes_at(array.buffers[array.n_buffers - 1], 8 * further).view(np.int64).tolist()
    data = [_bytes_at(array.buffers[2 + at], size).tobytes() for at, size in enumerate(sizes)]
    rows = zip(views["length"].tolist(), views["buffer"].tolist(), views["offset"].tolist(), strict=True)
    for at, (size, buffer, offset) in enumerate(rows):
        if size <= _VIEW_INLINE_MAX:
            values[at] = inline[16 * at + 4 : 16 * at + 4 + size].decode("utf-8")
        else:
            values[at] = data[buffer][offset : offset + size].decode("utf-8")
    return values
