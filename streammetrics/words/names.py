"""How names from events are shown: which characters are safe to display, and in which order names stand. Pure.

A name may contain line breaks, terminal controls or marks that reverse the reading direction. JSON and files keep names as sent.
Numbers in names count by their value, so `v2` is before `v10`. The page has both rules in `text.js`. Where an order is stored or decides
something, names are sorted by code point.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, TypeAlias

# Control characters, direction marks, line and paragraph separators, lone surrogates, noncharacters.
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")

NameOrder: TypeAlias = tuple[tuple[str | tuple[int, str], ...], str]

_DIGITS: Final = re.compile("([0-9]+)")
_CACHED: Final = 4_096


@lru_cache(_CACHED)
def name_order(name: str) -> NameOrder:
    """Return the sort key of a name. Names that differ only in leading zeros are sorted by code point.

    >>> sorted(["-10", "v10", "-2", "v2", "control", "-1"], key=name_order)
    ['-1', '-2', '-10', 'control', 'v2', 'v10']
    """
    parts = _DIGITS.split(name)  # texts, with a number between each two of them
    numbers = (digits.lstrip("0") for digits in parts[1::2])
    pieces: list[str | tuple[int, str]] = [*parts]
    pieces[1::2] = [(len(digits), digits) for digits in numbers]  # not as int: it refuses to read thousands of digits
    return tuple(pieces), name


def group_order(group: Iterable[str]) -> list[NameOrder]:
    """Return the sort key of several names that belong together, such as an experiment and its variant."""
    return [name_order(name) for name in group]


def in_order(names: Iterable[str], first: str | None = None) -> list[str]:
    """Return each name once, in the order in which they are shown. `first` comes first, if it is among them: the control.

    >>> in_order(["v10", "v2", "base", "v2"], first="v10")
    ['v10', 'base', 'v2']
    """
    return sorted({*names}, key=lambda name: (name != first, name_order(name)))


def fit(text: str) -> str:
    """Replace each character that is unsafe to display by U+FFFD. `text.js` of the page has the same rule.

    >>> ascii(fit("a\\u202eb\\n"))
    "'a\\\\ufffdb\\\\ufffd'"
    """
    return _UNFIT.sub("\ufffd", text)


def isolated(text: str) -> str:
    """Return a displayable name for the middle of a sentence, between U+2068 and U+2069.

    ASCII names need no marks, because they read from left to right.

    >>> ascii(isolated("treatment")), ascii(isolated("\\u05d0 7"))
    ("'treatment'", "'\\\\u2068\\\\u05d0 7\\\\u2069'")
    """
    return fit(text) if text.isascii() else f"\u2068{fit(text)}\u2069"
