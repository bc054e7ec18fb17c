"""Text of reports: names from events that are safe to display on a page, on a terminal or as a label, and JSON. Pure.

A name may contain line breaks, terminal controls or marks that reverse the reading direction. JSON and files keep names as sent.
"""

from __future__ import annotations

import re

import msgspec

# Control characters, direction marks, line and paragraph separators, lone surrogates, noncharacters.
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def fit(text: str) -> str:
    """Replace each character that is unsafe to display by U+FFFD. `text.js` of the page has the same rule.

    >>> ascii(fit("a\\u202eb\\n"))
    "'a\\\\ufffdb\\\\ufffd'"
    """
    return _UNFIT.sub("\ufffd", text)


def counted(count: int, what: str) -> str:
    """Return a count with its noun. The plural ends in s.

    >>> counted(1, "problem"), counted(12_000, "user")
    ('1 problem', '12,000 users')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def isolated(text: str) -> str:
    """Return a displayable name for the middle of a sentence, between U+2068 and U+2069.

    ASCII names need no marks, because they read from left to right.

    >>> ascii(isolated("treatment")), ascii(isolated("\\u05d0 7"))
    ("'treatment'", "'\\\\u2068\\\\u05d0 7\\\\u2069'")
    """
    return fit(text) if text.isascii() else f"\u2068{fit(text)}\u2069"


def json_lines(value: object) -> bytes:
    """Return a value as indented JSON, with a line end.

    >>> json_lines({"lists": 2}).decode().split()
    ['{', '"lists":', '2', '}']
    """
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
