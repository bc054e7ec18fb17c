"""Text from outside as it may be shown to people, wherever that is: on a page, on a terminal, as a label. Pure.

A name that was sent may hold what breaks a line, steers a terminal, or turns the reading direction, so that something else is
drawn than was sent. Nothing here changes what a name is: JSON and files hold it as it came.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# Control characters, marks of the reading direction, line and paragraph separators, lone surrogates, what is no character.
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_WORD = r"[^\W_]"


class Name(str):
    """What somebody outside calls something: drawn apart from the words around it, so that its direction does not reorder them."""

    __slots__ = ()


def fit(text: str) -> str:
    """The text with U+FFFD for each character that is not fit to be shown. The page's `text.js` holds the same rule.

    >>> ascii(fit("a\\u202eb\\n"))
    "'a\\\\ufffdb\\\\ufffd'"
    """
    return _UNFIT.sub("\ufffd", text)


def counted(count: int, what: str) -> str:
    """So many of something, whose plural ends in s.

    >>> counted(1, "problem"), counted(12_000, "user")
    ('1 problem', '12,000 users')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def isolated(text: str) -> str:
    """A name for the middle of a sentence that is one piece of text, fit to be shown, between U+2068 and U+2069.

    ASCII needs no such marks, which would only be copied along: it reads from left to right, as the sentence does.

    >>> ascii(isolated("treatment")), ascii(isolated("\\u05d0 7"))
    ("'treatment'", "'\\\\u2068\\\\u05d0 7\\\\u2069'")
    """
    return fit(text) if text.isascii() else f"\u2068{fit(text)}\u2069"


def with_names(sentence: str, names: Iterable[str]) -> Sequence[str]:
    """The parts of a sentence that somebody else has put together; those that are one of the names are a Name.

    >>> [(part, isinstance(part, Name)) for part in with_names("b: 12 % more than b c", ["b", "b c", ""])]
    [('b', True), (': 12 % more than ', False), ('b c', True)]
    """
    known = sorted({name for name in names if name}, key=len, reverse=True)
    if not known:
        return [sentence]
    found = re.split(rf"(?<!{_WORD})({'|'.join(map(re.escape, known))})(?!{_WORD})", sentence)
    return [Name(part) if at % 2 else part for at, part in enumerate(found) if part]
