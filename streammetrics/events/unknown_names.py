"""Names of events that are not used: actions without a grade, event types, null variants. For messages: which name is meant? Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Final

ACTION: Final = "action"
TYPE: Final = "type"
NULL_VARIANT: Final = "null_variant"
NULL_NOTE: Final = "null_variant:"
"""Begins the note of a list about an experiment whose variant is null. The name of the experiment follows."""
NAME_CHARS_MAX: Final = 128
"""Longer names are cut in messages and reports."""

_ALIKE = 0.7
_OF_PAGES = frozenset({"page", "pages", "screen", "session"})
"""Events about a whole page are no events of a list or an item."""
_WORDS = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MEANINGS: Final = (
    ("impression", {"impression", "impressions", "view", "viewed", "exposure", "exposed", "shown", "displayed", "ranking"}),
    ("feedback", {"feedback", "interaction", "reaction"}),
    ("click", {"click", "clicked", "clicks", "select", "selected", "tap", "tapped", "open", "opened"}),
    ("purchase", {"purchase", "purchased", "buy", "bought", "order", "ordered", "checkout", "conversion", "converted"}),
    ("watch", {"watch", "watched", "play", "played", "listen", "listened", "dwell"}),
    ("skip", {"skip", "skipped", "dismiss", "dismissed"}),
)


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """Return the known name that an unknown one probably means; None if none is close.

    >>> [nearest(name, ["click", "purchase", "impression"]) for name in ("CLICK", "Product Clicked", "clik", "view", "page_view")]
    ['click', 'click', 'click', 'impression', None]
    """
    names = sorted(allowed)
    words = _words(name)
    if not _OF_PAGES.isdisjoint(words):
        return None
    for one in names:
        if _words(one) == words or one.casefold() in words:
            return one
    best = max(((SequenceMatcher(None, name.casefold(), one.casefold()).ratio(), one) for one in names), default=(0.0, ""))
    if best[0] >= _ALIKE:
        return best[1]
    for meaning, forms in _MEANINGS:
        if meaning in names and not forms.isdisjoint(words):
            return meaning
    return None


def _words(name: str) -> list[str]:
    """The words of a name such as `Product Clicked`, `itemClick` or `select_item`, in lower case."""
    return [word.casefold() for word in _WORDS.findall(_CAMEL.sub(" ", name[:NAME_CHARS_MAX]))]
