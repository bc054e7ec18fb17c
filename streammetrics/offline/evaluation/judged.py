"""Judged lists: the input of `evaluate`. Built by the readers of this folder. Reads no files.

Rankings and judgments whose ids never match, such as text against numbers, are rejected: every value would silently be 0. Some list
id, and some item of a list that both have, must occur on both sides. The error shows one id of each side.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Number
from typing import Any, TypeAlias

import numpy as np

from streammetrics.metrics.arrays import Floats, Ints
from streammetrics.metrics.names import MetricError
from streammetrics.offline.evaluation.numbers import is_missing
from streammetrics.offline.evaluation.ranking import GradedItems, ItemLists, NegativeGrades, TieRule, find, rank

Users: TypeAlias = Mapping[Any, Hashable] | Sequence[Hashable]
NO_INTS: Ints = np.zeros(0, dtype=np.int64)
NO_GRADES: Floats = np.zeros(0, dtype=np.float64)
_NUMBER = re.compile(r"\s*0*(\d+)(?:\.0+)?\s*")
_PREFIXED = re.compile(r"\D*?[\W_a-zA-Z]0*(\d+)")


@dataclass(frozen=True, slots=True, eq=False)
class JudgedLists:
    """Ranked lists with the grades of their items. Built by the `from_...` functions, read by `evaluate`.

    lists: L distinct list ids.
    lengths: int64, shape (L,): the number of items that each list shows.
    rows, positions, grades: shape (H,): list (index into `lists`), position (from 0) and grade of each shown item with a grade
        above 0. All other shown items have grade 0.
    unseen_rows, unseen_grades: shape (U,): relevant items that a list did not show.
    users: the user of each list, L of them, or None.
    only_ranked, only_judged: ids of the lists that were left out because they had no judgments, or no ranking.
    """

    lists: tuple[Hashable, ...]
    lengths: Ints
    rows: Ints
    positions: Ints
    grades: Floats
    unseen_rows: Ints = field(default_factory=lambda: NO_INTS)
    unseen_grades: Floats = field(default_factory=lambda: NO_GRADES)
    users: tuple[Hashable, ...] | None = None
    only_ranked: tuple[Hashable, ...] = ()
    only_judged: tuple[Hashable, ...] = ()

    def __len__(self) -> int:
        return len(self.lists)


def judge(
    item_lists: ItemLists,
    judgments: Sequence[Mapping[Any, float]],
    *,
    ties: TieRule = "order",
    negative: NegativeGrades = "error",
    users: Users | None = None,
    left_out: tuple[tuple[Hashable, ...], tuple[Hashable, ...]] = ((), ()),
) -> JudgedLists:
    """Match lists of item ids with one mapping of item -> grade per list. Shared by all readers with item ids."""
    if negative not in ("error", "zero"):
        raise MetricError("negative", f"got {negative!r}; allowed are error, zero")
    graded = find(item_lists, rank(item_lists, ties), judgments, negative)
    if not graded.rows.size:
        require_matching_items(item_lists, judgments)
    return build_judged(item_lists, graded, users, left_out)


def build_judged(
    item_lists: ItemLists,
    graded: GradedItems,
    users: Users | None,
    left_out: tuple[tuple[Hashable, ...], tuple[Hashable, ...]] = ((), ()),
) -> JudgedLists:
    """Put ranked lists and their judged items together. `left_out` is (only ranked, only judged)."""
    return JudgedLists(
        tuple(item_lists.lists),
        np.diff(item_lists.offsets),
        *graded,
        _users_of(item_lists.lists, users),
        only_ranked=left_out[0],
        only_judged=left_out[1],
    )


def _users_of(lists: Sequence[Hashable], users: Users | None) -> tuple[Hashable, ...] | None:
    if users is None:
        return None
    if isinstance(users, Mapping):
        given = tuple(users.get(name) for name in lists)
    else:
        given = tuple(users.tolist() if isinstance(users, np.ndarray) else users)
    if len(given) != len(lists):
        raise MetricError("users", f"got {len(given)}; allowed are {len(lists)}, one per list")
    for user, name in zip(given, lists, strict=True):
        # Without this check all lists with an unknown user would form one cluster.
        if is_missing(user) or not isinstance(user, Hashable):
            raise MetricError(
                "users", f"got {'none' if is_missing(user) else repr(user)} for list {name!r}; allowed is a hashable id for every list"
            )
    return given


def require_common_lists(ranked: Collection[Hashable], judged: Collection[Hashable]) -> None:
    """Raise MetricError if both sides have lists and no list id is on both.

    >>> require_common_lists([1, 2], ["1", "2"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    streammetrics.metrics.names.MetricError: list ids: got 1 (int) in the ranking and '1' (str) in the judgments; allowed are ids of one...
    """
    if not ranked or not judged or any(name in judged for name in ranked):
        return
    one, other = _closest(ranked, judged)
    rule = "ids of one type" if _types(ranked).isdisjoint(_types(judged)) else "ids that both have; none is"
    raise _mismatch("list ids", one, other, rule)


def require_matching_items(item_lists: ItemLists, judgments: Sequence[Mapping[Any, float]]) -> None:
    """Raise MetricError if no list shows any of its judged items, relevant or not.

    The error names the reason if ids have different types, or differ only in case, blanks, leading zeros, a prefix or a trailing ".0".
    Call it if no list shows a relevant item.
    """
    if item_lists.items is None:
        return
    types: tuple[set[str], set[str]] = (set(), set())
    first: tuple[Hashable, Hashable] | None = None
    alike: tuple[Hashable, Hashable] | None = None
    for row, judged in enumerate(judgments):
        items = item_lists.items[int(item_lists.offsets[row]) : int(item_lists.offsets[row + 1])]
        if not items or not judged:
            continue
        if any(item in judged for item in items):
            return
        types[0].update(map(_type_of, items))
        types[1].update(map(_type_of, judged))
        first = first or (next(iter(items)), next(iter(judged)))
        alike = alike or _alike(items, judged)
    if first is None:
        return
    if types[0].isdisjoint(types[1]):
        raise _mismatch("item ids", *(alike or first), "ids of one type")
    if alike is not None:
        raise _mismatch("item ids", *alike, "ids of one form")
    raise _mismatch("item ids", *first, "ids that both have; none is")


def _mismatch(subject: str, one: Hashable, other: Hashable, rule: str) -> MetricError:
    got = f"{one!r} ({type(one).__name__}) in the ranking and {other!r} ({type(other).__name__}) in the judgments"
    return MetricError(subject, f"got {got}; allowed are {rule}")


def _closest(ranked: Iterable[Hashable], judged: Iterable[Hashable]) -> tuple[Hashable, Hashable]:
    """One id of each side, alike if there are such."""
    return _alike(ranked, judged) or (next(iter(ranked)), next(iter(judged)))


def _alike(ranked: Iterable[Hashable], judged: Iterable[Hashable]) -> tuple[Hashable, Hashable] | None:
    """The first two ids of two sides that have the same canonical form."""
    by_form = {_plain(one): one for one in judged}
    for one in ranked:
        if _plain(one) in by_form:
            return one, by_form[_plain(one)]
    by_number = {number: one for one in judged if (number := _number_after_prefix(one))}
    for one in ranked:  # `item_12` against 12
        if _plain(one) in by_number:
            return one, by_number[_plain(one)]
        if _number_after_prefix(one) in by_form:
            return one, by_form[_number_after_prefix(one)]
    return None


def _text(name: Hashable) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


def _plain(name: Hashable) -> str:
    """The text of an id without what writers of files change: case, blanks around it, leading zeros, a trailing `.0`."""
    text = _text(name)
    number = _NUMBER.fullmatch(text)
    return number[1] if number else text.strip().casefold()


def _number_after_prefix(name: Hashable) -> str:
    """The number of an id such as `item_12`; empty for another form."""
    match = _PREFIXED.fullmatch(_text(name).strip())
    return match[1] if match else ""


def _types(names: Iterable[Hashable]) -> set[str]:
    return set(map(_type_of, names))


def _type_of(name: Hashable) -> str:
    """The kind of an id. Numbers of all types are equal if their values are."""
    return "text" if isinstance(name, str) else "number" if isinstance(name, Number) else type(name).__name__
