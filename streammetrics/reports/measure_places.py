"""Where a tally has the sums of a measure, and of its parts by rank. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from streammetrics.metrics import TallyLayout
from streammetrics.metrics.names import K_MAX, Metric
from streammetrics.metrics.records import METRICS

RANK_FAMILIES: Final = tuple(sorted((name for name in METRICS if METRICS[name].rank_place), key=lambda name: METRICS[name].rank_place))
"""Families whose value at a cut-off is a sum over ranks, the nearest to ndcg first. `hit_rate` and `mrr` count a list's first hit."""


class MeasurePlaces(NamedTuple):
    """Indexes in a tally: the sum of a measure, and its denominator. `lists` is that of all lists, `top` is in units of 2**-scale_bits."""

    lists: int
    top: int
    bottom: int
    scale_bits: int

    def sums(self, tally: Sequence[int]) -> tuple[int, int, int]:
        """Return lists, top and bottom of a tally."""
        return tally[self.lists], tally[self.top], tally[self.bottom]


class RankPlaces(NamedTuple):
    """Cut-offs of one family, ascending, each with its places. The denominator of all is that of the last one."""

    family: str
    cutoffs: tuple[int, ...]
    places: tuple[MeasurePlaces, ...]


LISTS: Final = 0
"""The index of the number of lists in a tally."""


def places_of(layout: TallyLayout, name: str) -> MeasurePlaces | None:
    """Return where a measure's sums are; None for one that tallies do not have, such as `user_hit_rate@10`.

    >>> from streammetrics.metrics import Scorer
    >>> layout = TallyLayout(Scorer(["hit_rate@10", "item_hit_rate@10"]))
    >>> places_of(layout, "item_hit_rate@10"), places_of(layout, "user_hit_rate@10")
    (MeasurePlaces(lists=0, top=3, bottom=4, scale_bits=0), None)
    """
    for index, column in enumerate(layout.columns):
        if str(column.metric) == name and column.kind in ("sum", "hits", "numerator"):
            place = layout.place_of(index)
            return MeasurePlaces(LISTS, place, LISTS if column.kind == "sum" else place + 1, column.scale_bits)
    return None


def rank_places(layout: TallyLayout, family: str, k: int) -> RankPlaces | None:
    """Return the places of the sums by rank up to k (0: all tallied ranks), of the measure's own family or another sum over ranks.

    None if no such family has two cut-offs.

    >>> from streammetrics.metrics import Scorer
    >>> layout = TallyLayout(Scorer(["ndcg@10", "mrr@5", "mrr@10"]))
    >>> rank_places(layout, "ndcg", 10).family, rank_places(layout, "ndcg", 5)
    ('mrr', None)
    """
    ranks, families = k or K_MAX, (family, *RANK_FAMILIES) if family in RANK_FAMILIES else RANK_FAMILIES
    for name in families:
        cutoffs = sorted({column.metric.k for column in layout.columns if column.metric.name == name and 0 < column.metric.k <= ranks})
        places = tuple(place for cutoff in cutoffs if (place := places_of(layout, str(Metric(name, cutoff)))) is not None)
        if len(places) > 1 and len(places) == len(cutoffs):
            return RankPlaces(name, tuple(cutoffs), places)
    return None
