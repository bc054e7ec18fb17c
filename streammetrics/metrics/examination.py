"""The examination curve: how likely users look at each rank, estimated from items that were shown at several ranks.

The position-based model (Richardson, Dominowska, Ragno 2007; Craswell et al. 2008) says that a user clicks an item x at rank k if they
look at the rank and the item attracts them: P(click) = p_k r_x. Only the ratios p_k / p_1 can be known, so the curve has p_1 = 1.

**Intervention harvesting** (Agarwal, Zaitsev, Wang, Li, Najork, Joachims, "Estimating position bias without intrusive interventions",
WSDM 2019): where rankers differ, one item is shown at two ranks, and its attraction cancels out. The items shown at both k and k' are
the interventional set of these ranks. As in their all-pairs estimator, all sets count at once. The weights differ: theirs depend on how
often each ranker was used, these are the numbers of shows themselves. With N shows and C clicks of item x at rank k, p solves

    sum over x of (C_xk - C_x N_xk p_k / (sum over j of N_xj p_j)) = 0    for each k > 1,  C_x = sum over j of C_xj

It is the Poisson regression with one effect for each item (Hausman, Hall, Griliches 1984; Wooldridge 1999). Each term has mean 0 if
P(click) = p_k r_x, whatever r_x is and however few shows an item has. With two ranks near p = 1 it is the ratio of Mantel and Haenszel
(1959). An item shown at one rank adds 0.

**Band.** The variance of ln p is the sandwich of the same equations: with one cluster for each item, or with the variances of independent
clicks, whichever is larger. The first one alone is too small with few items. Items count as independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from streammetrics.metrics.arrays import Bools, Floats, Ints
from streammetrics.metrics.checks import whole_numbers
from streammetrics.metrics.names import MetricError
from streammetrics.metrics.tables import DataTable, Tabled

RANKS_MAX: Final = 50
"""The most ranks of a curve. The work grows with their square."""
CLICKS_MIN: Final = 30
"""Fewest clicks at a rank, on items shown at several ranks, for an estimate. With fewer, the band of a ratio cannot be trusted."""
CONFIDENCE: Final = 0.95
_STEPS_MAX: Final = 200
_PRECISION: Final = 1e-10

NO_SHOWS: Final = "nothing was shown at this rank"
NO_SHARED_ITEMS: Final = "no item shown at several ranks links this rank to rank 1"
FEW_CLICKS: Final = f"items shown at several ranks have fewer than {CLICKS_MIN} clicks here"


@dataclass(frozen=True, slots=True)
class RankExamination:
    """The estimate of one rank, relative to rank 1, and what it was made from.

    examination, lower, upper: the estimate and its band; None without an estimate. shows, clicks: of all items at this rank.
    shared_shows, shared_clicks: of items that were shown at several ranks, which alone count. why_not: why there is no estimate.
    """

    rank: int
    examination: float | None
    lower: float | None
    upper: float | None
    shows: int
    clicks: int
    shared_shows: int
    shared_clicks: int
    why_not: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class ExaminationCurve(Tabled):
    """An estimated examination curve, ranks 1 to R. It is an estimate: it holds as far as the position-based model does.

    items: distinct items (in their contexts). shared_items: those that were shown at several of the ranks. confidence: of the band, rank
    by rank and for one look.
    """

    ranks: tuple[RankExamination, ...]
    items: int
    shared_items: int
    confidence: float = CONFIDENCE

    @property
    def values(self) -> tuple[float | None, ...]:
        """The estimate of each rank."""
        return tuple(each.examination for each in self.ranks)

    @property
    def known_to(self) -> int:
        """The rank down to which every rank has an estimate; 0 if rank 1 has none."""
        return next((at for at, value in enumerate(self.values) if value is None), len(self.ranks))

    def table(self) -> DataTable:
        """One row for each rank, with the reason in words where there is no estimate."""
        rows = [
            {
                "rank": each.rank,
                "examination": each.examination,
                "lower": each.lower,
                "upper": each.upper,
                "shared_clicks": each.shared_clicks,
                "why_not": each.why_not,
            }
            for each in self.ranks
        ]
        return DataTable.of_rows(["rank", "examination", "lower", "upper", "shared_clicks", "why_not"], rows)


def examination_curve(
    items: npt.ArrayLike,
    ranks: npt.ArrayLike,
    shows: npt.ArrayLike,
    clicks: npt.ArrayLike,
    *,
    ranks_max: int = 10,
    confidence: float = CONFIDENCE,
) -> ExaminationCurve:
    """Estimate the examination curve from counts: one entry for each item (in its context) and rank. Entries of a pair are added up.

    items: int64, shape (n,): the number of the item. Give an item another number in another context, such as a query, if its attraction
        differs there. ranks: int64, shape (n,): 1 is the best. shows, clicks: int64, shape (n,): how often the item was shown at the
        rank, and in how many of these lists it was clicked. ranks_max: entries of later ranks are left out. confidence: of the band.

    Raises MetricError for arrays of different lengths, ranks below 1, negative counts, and more clicks than shows.

    >>> curve = examination_curve([1, 1, 2, 2], [1, 2, 1, 2], [1000, 1000, 500, 500], [400, 200, 300, 150], ranks_max=3)
    >>> curve
    rank  examination  lower   upper   shared_clicks  why_not
    1     1.0000       1.0000  1.0000  700            -
    2     0.5000       0.4499  0.5556  350            -
    3     -            -       -       0              nothing was shown at this rank
    """
    if type(ranks_max) is not int or not 1 <= ranks_max <= RANKS_MAX:
        raise MetricError("ranks_max", f"got {ranks_max!r}; allowed are whole numbers 1..{RANKS_MAX}")
    if not 0 < confidence < 1:
        raise MetricError("confidence", f"got {confidence!r}; allowed are numbers above 0 and below 1")
    names, n, c = _matrices(items, ranks, shows, clicks, ranks_max)
    shared = (n > 0).sum(axis=1) > 1
    kept, reasons = _estimable(n[shared], c[shared])
    logs, errors = np.zeros(ranks_max), np.zeros(ranks_max)
    if kept.sum() > 1:
        logs[kept], errors[kept] = _fitted(n[shared][:, kept], c[shared][:, kept])
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    counts = np.stack([n.sum(axis=0), c.sum(axis=0), n[shared].sum(axis=0), c[shared].sum(axis=0)], axis=1).astype(np.int64).tolist()
    found = []
    for at, (shown, clicked, shared_shows, shared_clicks) in enumerate(counts):
        if kept[at]:
            value, lower, upper = (math.exp(logs[at] + side * z * errors[at]) for side in (0, -1, 1))
            found.append(RankExamination(at + 1, value, lower, upper, shown, clicked, shared_shows, shared_clicks))
        else:
            why_not = reasons[at] if shown else NO_SHOWS
            found.append(RankExamination(at + 1, None, None, None, shown, clicked, shared_shows, shared_clicks, why_not))
    return ExaminationCurve(tuple(found), len(names), int(shared.sum()), confidence)


def _matrices(
    items: npt.ArrayLike, ranks: npt.ArrayLike, shows: npt.ArrayLike, clicks: npt.ArrayLike, ranks_max: int
) -> tuple[Ints, Floats, Floats]:
    """Return the distinct items, and their shows and clicks by rank: shape (items, ranks_max)."""
    named = zip(("items", "ranks", "shows", "clicks"), (items, ranks, shows, clicks), strict=True)
    item, rank, show, click = (whole_numbers(name, values) for name, values in named)
    if len({array.size for array in (item, rank, show, click)}) > 1:
        sizes = ", ".join(str(array.size) for array in (item, rank, show, click))
        raise MetricError("counts", f"got {sizes} items, ranks, shows and clicks; allowed are as many of each")
    for name, given, wrong, allowed in (
        ("ranks", rank, rank < 1, "ranks from 1"),
        ("shows", show, show < 0, "counts from 0"),
        ("clicks", click, (click < 0) | (click > show), "counts from 0 to the shows of the entry"),
    ):
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise MetricError(name, f"got {given[at]} at entry {at}; allowed are {allowed}")
    inside = (rank <= ranks_max) & (show > 0)
    names, rows = np.unique(item[inside], return_inverse=True)
    n, c = (np.zeros((len(names), ranks_max)) for _ in range(2))
    np.add.at(n, (rows, rank[inside] - 1), show[inside])
    np.add.at(c, (rows, rank[inside] - 1), click[inside])
    return names, n, c


def _estimable(n: Floats, c: Floats) -> tuple[Bools, list[str]]:
    """Return which ranks can be estimated against rank 1, and why the others cannot. `n` and `c` are those of shared items.

    The equations have one finite solution if any two of the ranks are linked in both directions by items with a click at one and shows
    at the other, directly or through further ranks (Ford 1957, for the same equations in paired comparisons).
    """
    ranks = n.shape[1]
    kept = np.ones(ranks, dtype=bool)
    reasons = [NO_SHARED_ITEMS] * ranks
    while kept.any():
        shown, clicked = n * kept, c * kept
        used = (shown > 0).sum(axis=1) > 1
        few = kept & (clicked[used].sum(axis=0) < CLICKS_MIN)
        linked = _linked_to_first(shown[used], clicked[used])
        lost = kept & (few | ~linked)
        if not kept[0] or lost[0]:
            lost = kept
        if not lost.any():
            break
        for at in np.flatnonzero(lost):
            reasons[at] = FEW_CLICKS if few[at] and shown[used][:, at].any() else NO_SHARED_ITEMS
        kept = kept & ~lost
    return kept, reasons


def _linked_to_first(n: Floats, c: Floats) -> Bools:
    """Return the ranks that rank 1 reaches and that reach rank 1, where j leads to i if an item has shows at j and a click at i."""
    leads = ((n > 0).T.astype(np.float64) @ (c > 0).astype(np.float64)) > 0
    reach = np.eye(len(leads), dtype=bool) | leads
    for _ in range(max(1, len(leads).bit_length())):
        reach = (reach.astype(np.float64) @ reach.astype(np.float64)) > 0
    return np.asarray(reach[0] & reach[:, 0])


def _fitted(n: Floats, c: Floats) -> tuple[Floats, Floats]:
    """Return ln p of each rank and its standard error; both 0 at rank 1. Newton's method on a concave likelihood."""
    used = ((n > 0).sum(axis=1) > 1) & (c.sum(axis=1) > 0)
    n, c = n[used], c[used]
    clicks, per_rank = c.sum(axis=1), c.sum(axis=0)
    logs = np.zeros(n.shape[1])

    def likelihood(at: Floats) -> float:
        return float(per_rank @ at - clicks @ np.log(n @ np.exp(at)))

    def parts(at: Floats) -> tuple[Floats, Floats]:
        """The terms of each item: shape (items, ranks - 1); and the information matrix."""
        weights = n * np.exp(at)
        shares = weights / weights.sum(axis=1, keepdims=True)
        expected = clicks[:, None] * shares
        information = np.diag(expected.sum(axis=0)) - expected.T @ shares
        return (c - expected)[:, 1:], information[1:, 1:]

    best = likelihood(logs)
    for _ in range(_STEPS_MAX):
        terms, information = parts(logs)
        step = np.concatenate([[0.0], np.linalg.solve(information, terms.sum(axis=0))])
        while (reached := likelihood(logs + step)) < best - abs(best) * 1e-14 and np.abs(step).max() > _PRECISION:
            step = step / 2
        logs, best = logs + step, reached
        if np.abs(step).max() < _PRECISION:
            break
    terms, information = parts(logs)
    inverse = np.linalg.inv(information)
    clustered = terms.T @ terms * (len(n) / max(1, len(n) - 1))
    variances = [np.diag(inverse @ middle @ inverse) for middle in (clustered, _independent(n, clicks, logs))]
    return logs, np.concatenate([[0.0], np.sqrt(np.maximum(*variances))])


def _independent(n: Floats, clicks: Floats, logs: Floats) -> Floats:
    """Return the variance of the equations if clicks are independent: shape (ranks - 1, ranks - 1)."""
    weights = n * np.exp(logs)
    totals = weights.sum(axis=1, keepdims=True)
    shares = weights / totals
    rates = np.minimum(clicks[:, None] / totals * np.exp(logs), 1.0)
    of_counts = n * rates * (1 - rates)
    crossed = shares.T @ of_counts
    variance = np.diag(of_counts.sum(axis=0)) - crossed - crossed.T + shares.T @ (of_counts.sum(axis=1, keepdims=True) * shares)
    return np.asarray(variance[1:, 1:])
