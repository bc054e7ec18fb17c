"""Which of many measures people are shown first, wherever that is: on a terminal, on a page, in the history of looks. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

Named: TypeAlias = tuple[str, int]
"""A measure: its family and its cut-off k."""

FAMILIES: Final = ("ndcg", "mrr", "hit_rate", "user_hit_rate")
"""The main ones, those that say most first."""
CUTOFF: Final = 10


def main_among(measured: Iterable[Named], always: Iterable[Named] = (), *, at_most: int) -> tuple[Named, ...]:
    """Those of `always`, then one of each main family that is not among these, at CUTOFF where there is that.

    The first ones that there are, when none is of those.

    >>> main_among([("mrr", 5), ("mrr", 10), ("ndcg", 20), ("map", 5)], at_most=6)
    (('ndcg', 20), ('mrr', 10))
    >>> main_among([("mrr", 5), ("mrr", 10), ("ndcg", 20)], always=[("mrr", 5)], at_most=6)
    (('mrr', 5), ('ndcg', 20))
    >>> main_among([("recall", 5), ("recall", 10), ("map", 5)], at_most=2)
    (('recall', 5), ('recall', 10))
    """
    measured, chosen = dict.fromkeys(measured), dict.fromkeys(always)
    for family in FAMILIES:
        cutoffs = [k for name, k in measured if name == family]
        if cutoffs and not any(name == family for name, _ in chosen):
            chosen[family, CUTOFF if CUTOFF in cutoffs else cutoffs[0]] = None
    return tuple(chosen or measured)[:at_most]
