"""Simulated clicks with a known examination curve: an A/B test of two rankers, and lists that interleave both by team draft."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streammetrics.metrics.arrays import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class SimulatedClicks:
    """L lists of R ranks: the query of each list, shape (L,); item numbers, clicks, and attraction of the items, shape (L, R)."""

    queries: Ints
    items: Ints
    clicks: Bools
    attraction: Floats

    def entries(self) -> tuple[Ints, Ints, Ints, Ints]:
        """One entry for each place of each list: item, rank, 1 show, clicks."""
        ranks = np.broadcast_to(np.arange(1, self.items.shape[1] + 1), self.items.shape)
        return self.items.ravel(), ranks.ravel(), np.ones(self.items.size, dtype=np.int64), self.clicks.ravel().astype(np.int64)


def simulate(
    seed: int, examination: Floats, *, lists: int = 100_000, queries: int = 200, pool: int = 20, cascade: bool = False
) -> SimulatedClicks:
    """Simulate lists: a third by ranker A, a third by B, a third interleaved. Frequent queries are much more frequent than others.

    A user clicks an item that attracts them, independently, if they look at its rank. cascade: they look from the top, and stop at the
    first click, whatever `examination` says.
    """
    draw = np.random.default_rng(seed)
    attraction = draw.beta(1.2, 2.5, (queries, pool))
    rankers = [np.argsort(-(attraction + draw.normal(0, 0.25, attraction.shape)), axis=1) for _ in range(2)]
    depth = len(examination)
    orders = np.stack([rankers[0][:, :depth], rankers[1][:, :depth], *_interleaved(draw, rankers, depth)])
    weights = 1 / np.arange(1, queries + 1)
    query = draw.choice(queries, lists, p=weights / weights.sum())
    kind = draw.choice(len(orders), lists, p=[1 / 3, 1 / 3, *[1 / 3 / (len(orders) - 2)] * (len(orders) - 2)])
    shown = orders[kind, query]
    attracts = attraction[query[:, None], shown]
    attracted = draw.random(attracts.shape) < attracts
    looked = np.cumsum(attracted, axis=1) == 1 if cascade else draw.random(attracts.shape) < examination
    return SimulatedClicks(query, query[:, None] * pool + shown, attracted & looked, attracts)


def _interleaved(draw: np.random.Generator, rankers: list[Ints], depth: int, drafts: int = 8) -> list[Ints]:
    """Some team drafts of both rankers for each query (Radlinski, Kurup, Joachims 2008): a coin decides in each round who picks first."""
    made = []
    for _ in range(drafts):
        orders = np.zeros((len(rankers[0]), depth), dtype=np.int64)
        for query in range(len(orders)):
            picked: list[int] = []
            while len(picked) < depth:
                for team in draw.permutation(2)[: depth - len(picked)]:
                    picked.append(next(item for item in rankers[team][query].tolist() if item not in picked))
            orders[query] = picked
        made.append(orders)
    return made
