"""`python -m tests.tools.bench.interleaving [--runs N]`: how many lists does interleaving need, beside an A/B test of the same two rankers?

Lists, rankers, clicks and the draft are those of `streammetrics simulate` (`connectors.simulated.people`), drawn with numpy: twelve
candidates, a control of quality 1 and a treatment of less. In a second regime users differ: each has a propensity to click (Beta(0.5,
1.5)), and more lists. Users come one after the other. Both ways look whenever there are 2 % more users, from 100 users (per arm) on, with
the package's own boundary: the credit of interleaved lists, and for the A/B test whichever of ndcg@10 and item_hit_rate@10 first
finds the drop. Each has the whole error, which flatters the A/B test. Before anything is printed, the draft must give both teams half of
the first places, and equal rankers no preference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import click
import numpy as np
import numpy.typing as npt
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from streammetrics.connectors.simulated.people import APPEAL_MAX, APPEAL_POWER, NOISE_POWER
from streammetrics.connectors.simulated.traffic import Traffic
from streammetrics.metrics import Scorer
from streammetrics.statistics.interleaving import Preference, credit_moments, preference
from streammetrics.statistics.sequence import Mixture, one_sided

Floats = npt.NDArray[np.float64]

QUALITIES = (0.95, 0.9, 0.8, 0.7)
ALPHA, MINIMUM_LIFT, FIRST_USERS = 0.05, 0.1, 100
GROWTH = 1.02
INTERLEAVED_MAX, AB_MAX = 200_000, 2_000_000
"""Most lists of a run; a run without a verdict by then counts as infinite."""
WANTED = 50
"""The A/B test should need at least this many times the lists."""
ITEMS = Traffic().items_per_list
EXAMINED = np.arange(1, ITEMS + 1) ** -Traffic().examination_power
BLOCK = 50_000


class Habits(NamedTuple):
    """How users behave: lists per user on average, and whether they differ in how readily they click."""

    name: str
    lists: float
    differ: bool


REGIMES = (Habits("all users alike, as `simulate`", 3.0, False), Habits("users differ", 10.0, True))


class Visits(NamedTuple):
    """The lists of some users: the number of each user's lists, the user of each list, and how readily they click."""

    lists: Floats
    user: npt.NDArray[np.int64]
    propensity: Floats


def scores(random: np.random.Generator, appeal: Floats, quality: float) -> Floats:
    """Return what a ranker of this quality sees of each candidate."""
    return appeal + APPEAL_MAX * quality**-NOISE_POWER * random.random(appeal.shape)


def clicks_of(random: np.random.Generator, appeal: Floats, propensity: Floats) -> Floats:
    """Return 1 for each clicked item of lists of appeals in rank order."""
    return (random.random(appeal.shape) < EXAMINED * appeal * propensity[:, None]).astype(np.float64)


def drafted(random: np.random.Generator, visits: Visits, quality: float) -> tuple[Floats, Floats]:
    """Return the clicks of interleaved lists, and the team (1: treatment) of each item."""
    lists = visits.user.size
    appeal = APPEAL_MAX * random.random((lists, ITEMS)) ** APPEAL_POWER
    seen = [scores(random, appeal, ranker_quality) for ranker_quality in (1.0, quality)]
    order, teams = np.zeros((lists, ITEMS), dtype=np.int64), np.zeros((lists, ITEMS))
    rows, coin = np.arange(lists), np.zeros(lists)
    for pick in range(ITEMS):
        coin = (random.random(lists) < 0.5).astype(np.float64) if pick % 2 == 0 else 1 - coin
        best = np.where(coin[:, None] == 1, seen[1], seen[0]).argmax(axis=1)
        order[:, pick], teams[:, pick] = best, coin
        for scores_of_ranker in seen:
            scores_of_ranker[rows, best] = -1.0
    return clicks_of(random, np.take_along_axis(appeal, order, axis=1), visits.propensity[visits.user]), teams


def ranked(random: np.random.Generator, visits: Visits, quality: float) -> Floats:
    """Return the clicks of lists of one ranker."""
    appeal = APPEAL_MAX * random.random((visits.user.size, ITEMS)) ** APPEAL_POWER
    order = np.argsort(-scores(random, appeal, quality), axis=1)
    return clicks_of(random, np.take_along_axis(appeal, order, axis=1), visits.propensity[visits.user])


def visits_of(random: np.random.Generator, habits: Habits, lists_max: int) -> Visits:
    """Return users with about `lists_max` lists together."""
    lists = random.geometric(1 / habits.lists, int(lists_max / habits.lists))
    propensity = random.beta(0.5, 1.5, lists.size) if habits.differ else np.ones(lists.size)
    return Visits(lists.astype(np.float64), np.repeat(np.arange(lists.size), lists), propensity)


def looks(users: int) -> Iterator[int]:
    """Yield the numbers of users at which both ways look."""
    at = float(FIRST_USERS)
    while at < users:
        yield int(at)
        at = max(at * GROWTH, at + 1)


def credits_of_users(random: np.random.Generator, habits: Habits, quality: float, lists_max: int) -> Floats:
    """Return per user: lists in which the control drafted first, the other lists, and the credit of both."""
    visits = visits_of(random, habits, lists_max)
    clicks, teams = drafted(random, visits, quality)
    credit = np.sign((clicks * teams).sum(axis=1) - (clicks * (1 - teams)).sum(axis=1))
    second = teams[:, 0]
    columns = (1 - second, second, (1 - second) * credit, second * credit)
    return np.stack([np.bincount(visits.user, column, visits.lists.size) for column in columns], axis=1)


def interleaved_lists(random: np.random.Generator, habits: Habits, quality: float) -> float:
    """Return the lists until users certainly prefer the control; infinite if they never do."""
    users = credits_of_users(random, habits, quality, INTERLEAVED_MAX)
    moments = np.cumsum([credit_moments([int(total) for total in row]) for row in users.tolist()], axis=0)
    for count in looks(len(users)):
        estimate = preference(moments[count - 1].tolist(), ALPHA, FIRST_USERS)
        if estimate is not None and estimate.disliked:
            return float(estimate.lists)
    return math.inf


def ab_lists(random: np.random.Generator, habits: Habits, quality: float) -> float:
    """Return the lists of both arms until a drop is certain; infinite if it never is."""
    scorer = Scorer(["ndcg@10", "item_hit_rate@10"])
    sums: list[Floats] = [np.zeros((0, 4)), np.zeros((0, 4))]
    frozen: dict[int, Mixture] = {}
    looked = 0
    while sum(float(arm[:, 0].sum()) for arm in sums) < AB_MAX:
        for arm, of_arm in enumerate((1.0, quality)):
            sums[arm] = np.concatenate([sums[arm], _arm(random, scorer, habits, of_arm)])
        users = min(map(len, sums))
        totals = [np.cumsum(_products(arm[:users]), axis=0) for arm in sums]
        for count in looks(users):
            if count > looked and _found(totals, count, frozen):
                return float(sum(arm[:count, 0].sum() for arm in sums))
        looked = users
    return math.inf


def _arm(random: np.random.Generator, scorer: Scorer, habits: Habits, quality: float) -> Floats:
    """Return per user of one block: lists, ndcg, hits, places."""
    visits = visits_of(random, habits, BLOCK)
    grades = ranked(random, visits, quality)
    scored = scorer.score_ragged(grades.ravel(), np.arange(0, grades.size + 1, grades.shape[1])).astype(np.float64)
    scored[:, 0] /= 2.0**40
    return np.stack([visits.lists, *(np.bincount(visits.user, column, visits.lists.size) for column in scored.T)], axis=1)


def _products(users: Floats) -> Floats:
    """Return for both measures: y, d, yy, dd, yd of each user."""
    columns = []
    for top, bottom in ((1, 0), (2, 3)):
        y, d = users[:, top], users[:, bottom]
        columns += [y, d, y * y, d * d, y * d]
    return np.stack(columns, axis=1)


def _found(totals: list[Floats], count: int, frozen: dict[int, Mixture]) -> bool:
    """Return whether one of the measures certainly fell, with this many users in each arm."""
    for measure in (0, 1):
        means, variance = [], 0.0
        for total in totals:
            y, d, yy, dd, yd = total[count - 1, 5 * measure : 5 * measure + 5]
            means.append(y / d)
            variance += count / (count - 1) * (yy - 2 * means[-1] * yd + means[-1] ** 2 * dd) / d**2
        mixture = frozen.setdefault(measure, Mixture(math.sqrt(variance), MINIMUM_LIFT * means[0]))
        z = (means[0] - means[1]) / math.sqrt(variance)
        if z > 1 and z >= one_sided(variance, mixture, ALPHA):
            return True
    return False


def check(habits: Habits, seed: int) -> None:
    """Raise AssertionError if the draft is not fair, or if equal rankers have a preference."""
    rows = credits_of_users(np.random.default_rng((seed, 0)), habits, 1.0, INTERLEAVED_MAX)
    moments = np.sum([credit_moments([int(total) for total in row]) for row in rows.tolist()], axis=0)
    estimate = preference(moments.tolist(), ALPHA)
    assert isinstance(estimate, Preference)
    assert abs(estimate.first_share - 0.5) < 0.01, estimate
    assert abs(estimate.mean) < 4 * math.sqrt(estimate.variance), estimate


@click.command(help=__doc__)
@click.option("--runs", type=click.IntRange(1), default=60, show_default=True, help="Runs of each kind.")
@click.option("--seed", type=click.IntRange(0), default=20_241_121, show_default=True)
def main(runs: int, seed: int) -> None:
    title = f"Lists until the worse ranker is found (median of {runs} runs, error {ALPHA:.0%})"
    table = Table("users", "quality", "interleaved", "A/B, both arms", "A/B / interleaved", title=title, box=MARKDOWN)
    ratios = []
    for regime, habits in enumerate(REGIMES):
        check(habits, seed)
        for number, quality in enumerate(QUALITIES, 1):
            medians = []
            for kind, lists in enumerate((interleaved_lists, ab_lists)):
                seeds = ((seed, regime, number, kind, run) for run in range(runs))
                medians.append(float(np.median([lists(np.random.default_rng(seed), habits, quality) for seed in seeds])))
            ratios.append(medians[1] / medians[0])
            table.add_row(habits.name, f"{quality:g}", *(f"{median:,.0f}" for median in medians), f"{ratios[-1]:.1f}")
    console = Console(width=140, highlight=False)
    console.print(table)
    word = "reached" if min(ratios) >= WANTED else "NOT reached"
    console.print(f"{word}: the A/B test needs {min(ratios):.1f} to {max(ratios):.1f} times the lists, wanted {WANTED}")


if __name__ == "__main__":
    main()
