"""The items of a shown list as one text: a line feed, and each item with a line feed after it. No id holds a control character.

Most items are never asked for. Ten short texts and their tuple take five times the memory of one text, and time to find them again.
"""

from __future__ import annotations

from collections.abc import Iterable


def text_of(items: Iterable[str]) -> str:
    """Return items as one text.

    >>> text_of(("a", "b")), text_of(("",)), text_of(())
    ('\\na\\nb\\n', '\\n\\n', '\\n')
    """
    return "\n".join(("", *items, ""))


def items_of(text: str) -> tuple[str, ...]:
    """Return the items of a text.

    >>> [items_of(text_of(items)) for items in (("a", "", "b"), ("",), ())]
    [('a', '', 'b'), ('',), ()]
    """
    return tuple(text.split("\n")[1:-1])


def length_of(text: str) -> int:
    """Return the number of items.

    >>> [length_of(text_of(items)) for items in (("a", "", "b"), ("",), ())]
    [3, 1, 0]
    """
    return text.count("\n") - 1


def place_of(text: str, item: str) -> int:
    """Return the first place of an item (from 0), or -1.

    >>> [place_of(text_of(("ab", "", "b", "ab")), item) for item in ("ab", "b", "a")]
    [0, 2, -1]
    """
    at = text.find(f"\n{item}\n")
    return -1 if at < 0 else text.count("\n", 0, at)
