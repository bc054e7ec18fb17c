"""Recognizes the form of a file by the first bytes of its content. Pure."""

from __future__ import annotations

import csv
import re
from typing import Final, Literal, TypeAlias

import msgspec

Form: TypeAlias = Literal["lines", "array", "delimited", "parquet"]

DELIMITERS: Final = "\t,;"
_COLUMN = re.compile(r"[A-Za-z_][\w .:/-]*")
_any = msgspec.json.Decoder(msgspec.Raw).decode


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
