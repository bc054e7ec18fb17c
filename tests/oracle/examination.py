"""Counts for the examination curve, by plain counting over the lists of experiments."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.oracle.values import ShownList


class Counted(NamedTuple):
    """Of one period: (shows, clicks) by item hash and rank, the least hash that does not count (None: all count), and of each variant
    its lists and its (rank, grade) counts."""

    items: dict[tuple[int, int], tuple[int, int]]
    limit: int | None
    variants: dict[tuple[str, str], tuple[int, Counter[tuple[int, float]]]]


def item_hash(context: Sequence[str], segments: dict[str, str], item: str) -> int:
    values = "".join(f"{len(segments.get(name, ''))}:{segments.get(name, '')}" for name in context)
    return int.from_bytes(hashlib.blake2b(f"{len(values)}:{values}{item}".encode(), digest_size=7).digest(), "big")


def count_period(lists: Iterable[ShownList], context: Sequence[str], ranks: int, items_max: int) -> Counted:
    """Count all lists, then keep the items with the lowest hashes."""
    shows: Counter[tuple[int, int]] = Counter()
    clicks: Counter[tuple[int, int]] = Counter()
    variants: dict[tuple[str, str], tuple[int, Counter[tuple[int, float]]]] = {}
    for shown in lists:
        for rank, (item, grade) in enumerate(zip(shown.items, shown.grades, strict=True), 1):
            if item and rank <= ranks and item not in shown.items[: rank - 1]:
                key = item_hash(context, dict(shown.segments), item), rank
                shows[key] += 1
                clicks[key] += grade > 0
        for arm in shown.experiments:
            number, grades = variants.get(arm, (0, Counter()))
            grades.update((rank, grade) for rank, grade in enumerate(shown.grades, 1) if grade > 0 and rank <= ranks)
            variants[arm] = number + 1, grades
    hashes = sorted({found for found, _ in shows})
    kept = set(hashes[:items_max])
    limit = hashes[items_max] if len(hashes) > items_max else None
    return Counted({key: (count, clicks[key]) for key, count in shows.items() if key[0] in kept}, limit, variants)
