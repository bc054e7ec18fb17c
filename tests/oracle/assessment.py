"""What lists show, by plain counting over pairs of items. Two of the three items of the traces are in the catalogue."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

from tests.oracle.values import ShownList

ATTRIBUTES = {"a": ("red", "big", "new"), "b": ("red", "small", "old")}
INTERACTIONS = {"a": 5, "b": 2}
USERS = {"a": 3, "b": 0}
ALL_USERS = 10
FALLBACK = ("surface", "home")
CUTOFFS = (1, 3)
NAMES = (*(f"{name}@{k}" for k in CUTOFFS for name in ("diversity", "novelty", "popularity_share", "catalogue_share")), "fallback_share")
SHARE_ONE, NOVELTY_ONE = 2**40, 2**32


def assessment_sums(impression: ShownList) -> dict[str, tuple[int, int]]:
    """Return the numerator and the denominator that one list adds to each metric, both as stored integers."""
    pairs = {"fallback_share": (int(FALLBACK in impression.segments), 1)}
    for k in CUTOFFS:
        items = [item for item in impression.items[:k] if item != ""]
        known_items = [item for item in items if item in ATTRIBUTES]
        pairs[f"catalogue_share@{k}"] = (len(known_items), len(items))
        pairs[f"diversity@{k}"] = (round(_diversity(known_items) * SHARE_ONE), int(bool(known_items)))
        if not items:
            pairs[f"novelty@{k}"] = pairs[f"popularity_share@{k}"] = (0, 0)
            continue
        novelty = sum(round(math.log2(ALL_USERS / max(USERS.get(item, 0), 1)) * NOVELTY_ONE) for item in items)
        popularity = Fraction(sum(INTERACTIONS.get(item, 0) for item in items), sum(INTERACTIONS.values()))
        pairs[f"novelty@{k}"] = (round(Fraction(novelty, len(items))), 1)
        pairs[f"popularity_share@{k}"] = (round(popularity / len(items) * SHARE_ONE), 1)
    return pairs


def _diversity(items: list[str]) -> Fraction:
    shares = [
        Fraction(sum(one != other for one, other in zip(ATTRIBUTES[first], ATTRIBUTES[second], strict=True)), 3)
        for first, second in combinations(items, 2)
    ]
    return sum(shares, Fraction()) / len(shares) if shares else Fraction()
