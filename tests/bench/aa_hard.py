"""A/A experiments with hard traffic: dominant users, rare events, late arms, many arms. The package's own reports judge every look.

Users have lists of 10 items and click on some. Two measures decide, as by default: ndcg@10 and item_hit_rate@10. All sums are integers,
so the moments of a look equal the engine's. Nothing is configured but what a regime says: no shares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from streammetrics.experiments import Measures, Policy, Stored, build_report, choose_scales
from streammetrics.metrics import Scorer
from streammetrics.metrics.engagement import EngagementLayout
from streammetrics.metrics.names import Metric
from tests.bench.aa_traffic import Floats, Ints

HARD_LOOKS = 100
HARD_EXPERIMENTS = 500
BITS = 16
"""List values are multiples of 2**-BITS here, so that products of a user's totals stay within int64."""
WORDS = ("regressed", "improved", "mixed", "invalid", "interval")
"""What is wrong in an A/A experiment: a verdict of these words, or an interval of a deciding measure without 0."""
MEASURES = Measures(Scorer(["ndcg@10", "hit_rate@10", "item_hit_rate@10"]).columns)
WITH_ABANDONMENT = Measures([*Scorer(["ndcg@10", "hit_rate@10"]).columns, *EngagementLayout([Metric("abandonment_rate")]).columns])
"""The same with `abandonment_rate`, lists without a click per list, in the place of `item_hit_rate@10`."""


@dataclass(frozen=True, slots=True)
class HardRegime:
    """Traffic of one kind. `shares` are the arms' parts of the users; the first arm is the control.

    bots: users with 800 to 2,500 lists. pareto: tail index of the lists per user; 0: geometric with mean 5. largest: one user's share of
    the lists of their arm. hits: share of lists with a click; 0: users differ, 37 % on average. late: time at which arms other than the
    first two start. drift: how much the chance of a click falls from start to end. misses: share of lists without a click, where almost all
    have one; 0: see hits. decides: the deciding measure; empty: those of the defaults.
    """

    name: str
    users: int = 2_000
    shares: tuple[float, ...] = (0.5, 0.5)
    bots: int = 0
    pareto: float = 0.0
    largest: float = 0.0
    hits: float = 0.0
    late: float = 0.0
    drift: float = 0.0
    misses: float = 0.0
    decides: str = ""

    @property
    def measures(self) -> Measures:
        return WITH_ABANDONMENT if self.decides == "abandonment_rate" else MEASURES


HARD = (
    HardRegime("4 bots among 600 users", 600, bots=4),
    HardRegime("Pareto 0.9 lists per user", 600, pareto=0.9),
    HardRegime("one user with 40 % of an arm's lists", largest=0.4),
    HardRegime("a late arm, with drift", 3_000, (0.34, 0.33, 0.33), late=0.5, drift=0.5),
    HardRegime("5 arms without shares", 3_000, (0.2, 0.2, 0.2, 0.2, 0.2)),
    HardRegime("a 5 % arm with 2 % hits", 6_000, (0.95, 0.05), hits=0.02),
    HardRegime("a 90/10 split without shares", 3_000, (0.9, 0.1)),
    HardRegime("hit_rate@10 of 98 % decides, 95/5", 16_000, (0.95, 0.05), misses=0.02, decides="hit_rate@10"),
    HardRegime("hit_rate@10 of 98 % decides, 99/1", 40_000, (0.99, 0.01), misses=0.02, decides="hit_rate@10"),
    HardRegime("abandonment of 98 % decides, 95/5", 16_000, (0.95, 0.05), hits=0.02, decides="abandonment_rate"),
    HardRegime("abandonment of 96 % decides, 90/10", 8_000, (0.9, 0.1), hits=0.04, decides="abandonment_rate"),
)


@dataclass(slots=True)
class HardResult:
    """In how many experiments each of WORDS ever came up, and any of them; looks with a verdict that counts, as a share of all."""

    ever: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WORDS, 0))
    wrong: int = 0
    open_share: float = 0.0


def ever_wrong(regime: HardRegime, experiments: int, seed: int, advance: Callable[[int], None]) -> HardResult:
    """Judge experiments without an effect at every look."""
    result, open_looks = HardResult(), 0
    for number in range(experiments):
        random = np.random.default_rng((seed, number, *regime.name.encode()))
        wrong, opened = judge_hard(regime, *draw_hard(regime, random))
        for word in wrong:
            result.ever[word] += 1
        result.wrong += bool(wrong)
        open_looks += opened
        advance(1)
    result.open_share = open_looks / (experiments * HARD_LOOKS)
    return result


def draw_hard(regime: HardRegime, random: np.random.Generator) -> tuple[Ints, Ints, Floats, npt.NDArray[np.bool_]]:
    """Draw (user of each list, arm of each user, time of each list, clicks of each list: shape (lists, 10))."""
    count = regime.users
    arms = random.choice(len(regime.shares), count, p=np.array(regime.shares) / sum(regime.shares))
    begins = np.where((arms >= 2) & (regime.late > 0), regime.late, 0.0)
    starts = begins + (0.98 - begins) * random.random(count)
    lists = random.geometric(1 / 5, count)
    if regime.pareto:
        lists = np.minimum((random.pareto(regime.pareto, count) * 2 + 1).astype(np.int64), 5_000)
    if regime.bots:
        lists[random.choice(count, regime.bots, replace=False)] = random.integers(800, 2_500, regime.bots)
    if regime.largest:
        user = int(random.integers(count))
        others = lists[arms == arms[user]].sum()
        lists[user], starts[user] = int(others * regime.largest / (1 - regime.largest)), 0.02 * random.random()
    users = np.repeat(np.arange(count), lists)
    times = starts[users] + (1 - starts[users]) * random.random(len(users))
    taste = np.minimum(random.gamma(0.3, 1, count) * regime.hits / 0.3, 1) if regime.hits else random.beta(1.2, 2, count)
    if regime.misses:
        taste = 1 - np.minimum(random.gamma(0.3, 1, count) * regime.misses / 0.3, 1)
    chance = taste[users] * (1 - regime.drift * times)
    clicked = random.random(len(users)) < chance
    ranks = np.arange(1, 11)
    clicks = clicked[:, None] & (random.random((len(users), 10)) < 0.7 / ranks**0.8)
    if regime.misses:
        clicks[:, 0] |= clicked
    return users, arms, times, clicks


def judge_hard(regime: HardRegime, users: Ints, arms: Ints, times: Floats, clicks: npt.NDArray[np.bool_]) -> tuple[set[str], int]:
    """Return what ever came up of WORDS, and the number of looks with a verdict that counts."""
    names = ["control", *(f"treatment-{number}" for number in range(1, len(regime.shares)))]
    policy = Policy(margin=0.0, paging=(regime.decides,) if regime.decides else ())
    measures, scales, wrong, opened = regime.measures, dict[str, float](), set[str](), 0
    for look, moments in enumerate(moments_at_looks(names, users, arms, times, clicks, measures)):
        first = {name: sums[0] for name, sums in moments.items()}
        kept = Stored(
            experiment="ranker",
            scope="start",
            moments=moments,
            first_exposures=first,
            multi_exposed_users=0,
            variants_since_ms={name: int(regime.late * 1_000) for name in names[2:]},
            to_ms=int(1_000 * (look + 1) / HARD_LOOKS),
        )
        scales |= choose_scales(measures, policy, kept, scales)
        report = build_report(measures, policy, kept, scales)
        deciding = [each for variant in report.variants for each in variant.measures if each.paging]
        verdicts = [report.verdict, *(each.verdict for each in report.variants), *(each.verdict for each in deciding)]
        wrong |= {each.word for each in verdicts if each} & {*WORDS}
        bounds = [(each.lift_lower, each.lift_upper) for each in deciding if len(names) == 2]
        if any((low is not None and low > 0) or (high is not None and high < 0) for low, high in bounds):
            wrong.add("interval")
        opened += any(each.tau is not None for each in deciding)
    return wrong, opened


def moments_at_looks(
    names: list[str],
    users: Ints,
    arms: Ints,
    times: Floats,
    clicks: npt.NDArray[np.bool_],
    measures: Measures = MEASURES,
    looks: int = HARD_LOOKS,
) -> list[Mapping[str, list[int]]]:
    """Return the moments of each arm at each look, as sums of what each list changes. Arms without users are left out."""
    discounts = 1 / np.log2(np.arange(2, 12))
    ideal = np.concatenate([[1.0], np.cumsum(discounts)])
    hits = clicks.sum(axis=1)
    ndcg = np.rint(clicks @ discounts / ideal[hits] * (1 << BITS)).astype(np.int64)
    ratio = (hits == 0, np.ones(len(users))) if measures is WITH_ABANDONMENT else (hits, np.full(len(users), 10))
    of_lists = np.column_stack([np.ones(len(users)), ndcg, hits > 0, *ratio]).astype(np.int64)
    order = np.lexsort((times, users))
    rows, owner = of_lists[order], users[order]
    first = np.concatenate([[True], owner[1:] != owner[:-1]])
    starts = np.flatnonzero(first)
    before = np.cumsum(rows, axis=0) - rows
    before -= np.repeat(before[starts], np.diff(np.append(starts, len(owner))), axis=0)
    look = np.minimum((times[order] * looks).astype(np.int64), looks - 1)
    cells = look * len(names) + arms[owner]
    totals = [_with_user(before, ~first), _with_user(before + rows, np.ones(len(owner), dtype=bool))]
    sums = np.zeros((looks * len(names), measures.moments_width), dtype=np.int64)
    for at, (one, other) in enumerate(measures.pairs):
        np.add.at(sums[:, at], cells, totals[1][:, one] * totals[1][:, other] - totals[0][:, one] * totals[0][:, other])
    cumulative = sums.reshape(looks, len(names), -1).cumsum(axis=0)
    shift = np.array([(40 - BITS) * ((one in _SCALED) + (other in _SCALED)) for one, other in measures.pairs])
    return [
        {
            name: [int(value) << int(bits) for value, bits in zip(own, shift, strict=True)]
            for name, own in zip(names, each, strict=True)
            if own[0]
        }
        for each in cumulative
    ]


_SCALED = {2, 3}
"""Entries of a row in units of 2**-40: ndcg and hit_rate."""


def _with_user(totals: Ints, known: npt.NDArray[np.bool_]) -> Ints:
    """Return rows [1, lists, *columns, 1 if hits else 0] of users that are known, and zeros for the others."""
    lists, ndcg, hit, hits, places = totals.T
    rows = np.column_stack([np.ones(len(totals), dtype=np.int64), lists, ndcg, hit << BITS, hits, places, hit > 0])
    return np.where(known[:, None], rows, 0).astype(np.int64)
