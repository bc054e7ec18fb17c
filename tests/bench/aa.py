"""`python -m tests.bench.aa [--quick] [--experiments N]`: how often do experiments without any effect alarm, ever?

Two arms that are the same (an A/A test) in four regimes of traffic and in five harder ones, looked at 400 times each; the share of
experiments in which a rule is *ever* certain of a difference, for our rules and for the usual ones on the same data. And, with a true
drop, how many users it takes to find it. Everything is drawn from a seed. Our boundaries and scales are the package's; moments are summed
by numpy, and for one experiment in fifty they are compared with the package's own before anything is printed.

One regime goes through the product as well: events, engine, store, reports. What these reports said is compared with what numpy
says of the same lists, look by look, before it is printed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache

import click
import numpy as np
import numpy.typing as npt
from rich.box import MARKDOWN
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from streammetrics.cli.process.logs import configure_quiet_logs
from streammetrics.experiments.estimates import Estimate, choose_tau
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.sequence import one_sided
from tests.bench.aa_check import Last, check_against_package
from tests.bench.aa_engine import SETTINGS, arms_of, run
from tests.bench.aa_traffic import REGIMES, STRESSES, Floats, Regime, Traffic, draw

Flags = npt.NDArray[np.bool_]

ALPHA = 0.05
LOOKS = 400
MIN_USERS = Policy().min_users
MINIMUM_LIFT = Policy().minimum_lift
FIXED = 1.959963984540054
"""The boundary of those who look once."""
SEED = 20_241_121
GRID = np.geomspace(1e-7, 1e5, 20_001)

RULES = {
    "interval": "interval of the difference excludes 0",
    "alarm": "one-sided alarm",
    "reduced": "interval, with variance reduction",
    "user hits": "interval, share of users with a hit",
    "fixed": "fixed 1.96, clustered by user",
    "per list": "fixed 1.96, lists as independent",
}
OURS = ("interval", "alarm", "reduced", "user hits")
ENGINE_REGIME = replace(REGIMES[0], name=f"{REGIMES[0].name}: the engine", users=600)
"""Fewer users than elsewhere: a look through the engine costs a thousand times as much as one through numpy."""
ENGINE_EXPERIMENTS_MAX = 1_008
SHARED = SETTINGS.events.experiments_max
"""Experiments that share one traffic: as many as a list may carry."""
BY_ENGINE = ("interval", "alarm", "user hits", "fixed")
"""The rules whose row is what the reports said; the others are numpy's word on the same lists."""
DROPS = {0.2: (4_000, 2_000), 0.1: (12_000, 5_500)}
"""True drops with the users that an experiment has, and within how many the median experiment must find it."""
CHECK_EVERY = 50
ENOUGH = 500


@dataclass(frozen=True, slots=True)
class Arms:
    """Sums at every look, shape (looks, 2 arms): users, lists, and what the estimates need."""

    k: Floats
    n: Floats
    y: Floats
    yy: Floats
    nn: Floats
    yn: Floats
    squares: Floats
    hitters: Floats
    x: Floats
    xx: Floats
    xy: Floats
    xn: Floats


@dataclass(frozen=True, slots=True)
class Seen:
    """What the rules said at each look, shape (looks,): True where they were certain. `users` of both arms together.

    last: estimates at the last look; None if there never were users enough. reduction: share of variance that the covariate removes.
    """

    certain: dict[str, Flags]
    users: Floats
    last: Last | None = None
    reduction: float = 0.0


@cache
def one_sided_table(alpha: float) -> Floats:
    return np.array([one_sided(float(ratio), alpha) for ratio in GRID])


def one_sided_at(ratios: Floats, alpha: float) -> Floats:
    """The package's one-sided boundary, read off a fine table: right to 1e-6."""
    found: Floats = np.interp(np.log(ratios), np.log(GRID), one_sided_table(alpha))
    return found


def two_sided_at(ratios: Floats, alpha: float) -> Floats:
    found: Floats = np.sqrt((1 + ratios) * (-2 * np.log(alpha) + np.log1p(1 / ratios)))
    return found


def sums(traffic: Traffic, looks: int) -> Arms:
    """Each list changes its user's totals from (n, y) to (n + 1, y + worth); what that changes is added up by look and arm."""
    order = np.lexsort((traffic.times, traffic.users))
    users, worth = traffic.users[order], traffic.worth[order]
    first = np.concatenate([[True], users[1:] != users[:-1]])
    starts = np.flatnonzero(first)
    lengths = np.diff(np.append(starts, len(users)))
    total = np.cumsum(worth)
    y = total - worth - np.repeat(total[starts] - worth[starts], lengths)
    n = np.arange(len(users), dtype=np.float64) - np.repeat(starts, lengths)
    arms = traffic.arms[users]
    x = traffic.earlier[users] - traffic.earlier.mean().round()
    cells = np.minimum((traffic.times[order] * looks).astype(np.int64), looks - 1) * 2 + arms

    def summed(change: Floats) -> Floats:
        return np.bincount(cells, change, 2 * looks).reshape(looks, 2).cumsum(axis=0)

    return Arms(
        k=summed(first.astype(np.float64)),
        n=summed(np.ones(len(users))),
        y=summed(worth),
        yy=summed(worth * (2 * y + worth)),
        nn=summed(2 * n + 1),
        yn=summed(y + worth * (n + 1)),
        squares=summed(worth * worth),
        hitters=summed(((y == 0) & (worth > 0)).astype(np.float64)),
        x=summed(x * first),
        xx=summed(x * x * first),
        xy=summed(x * worth),
        xn=summed(x),
    )


def judge(traffic: Traffic, looks: int = LOOKS, alpha: float = ALPHA) -> Seen:
    """What every rule says at every look; nothing before MIN_USERS an arm."""
    arms = sums(traffic, looks)
    ready = (arms.k >= MIN_USERS).all(axis=1) & (arms.y > 0).all(axis=1)
    certain = {rule: np.zeros(looks, dtype=bool) for rule in RULES}
    if not ready.any():
        return Seen(certain, arms.k.sum(axis=1))
    with np.errstate(all="ignore"):
        means = arms.y / arms.n
        variances = arms.k / (arms.k - 1) * (arms.yy - 2 * means * arms.yn + means**2 * arms.nn) / arms.n**2
        per_list = (arms.squares / arms.n - means**2) / arms.n
        rates = arms.hitters / arms.k
        rate_variances = rates * (1 - rates) / (arms.k - 1)
        reduced, reduced_variances = reduce_variance(arms, means, variances)
    first = int(np.argmax(ready))
    rules = {
        "interval": two_sided_certain(means, variances, arms.k, first, alpha),
        "alarm": alarm_certain(means, variances, arms.k, first, alpha),
        "user hits": two_sided_certain(rates, rate_variances, arms.k, first, alpha / 2),
        "reduced": two_sided_certain(reduced, reduced_variances, arms.k, first, alpha, scale=means),
        "fixed": np.abs(standardised(means, variances)) > FIXED,
        "per list": np.abs(standardised(means, per_list)) > FIXED,
    }
    last = Last((means[-1], variances[-1]), (rates[-1], rate_variances[-1]), (reduced[-1], reduced_variances[-1]))
    reduction = float(1 - reduced_variances[-1].sum() / variances[-1].sum())
    return Seen({rule: said & ready for rule, said in rules.items()}, arms.k.sum(axis=1), last, reduction)


def standardised(means: Floats, variances: Floats) -> Floats:
    """Arm 1 less arm 0 in standard errors, shape (looks,)."""
    with np.errstate(all="ignore"):
        found: Floats = np.nan_to_num((means[:, 1] - means[:, 0]) / np.sqrt(variances.sum(axis=1)))
    return found


def ratios_of(means: Floats, variances: Floats, users: Floats, first: int) -> Floats:
    """V / tau**2 at every look, tau as the package chooses it at the first look at which there are users enough."""
    at_first = [Estimate(float(means[first, arm]), float(variances[first, arm]), int(users[first, arm])) for arm in (0, 1)]
    tau = choose_tau(at_first, MINIMUM_LIFT)
    assert tau is not None
    found: Floats = np.clip(np.nan_to_num(variances.sum(axis=1) / tau**2, nan=1.0), GRID[0], GRID[-1])
    return found


def two_sided_certain(means: Floats, variances: Floats, users: Floats, first: int, alpha: float, scale: Floats | None = None) -> Flags:
    ratios = ratios_of(means if scale is None else scale, variances, users, first)
    return np.abs(standardised(means, variances)) > two_sided_at(ratios, alpha)


def alarm_certain(means: Floats, variances: Floats, users: Floats, first: int, alpha: float) -> Flags:
    return -standardised(means, variances) > one_sided_at(ratios_of(means, variances, users, first), alpha)


def reduce_variance(arms: Arms, means: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Means less what the users' earlier means explain, as `streammetrics.experiments.cuped` does it."""
    centre = arms.x.sum(axis=1, keepdims=True) / arms.k.sum(axis=1, keepdims=True)
    shift = arms.x / arms.k - centre
    spread = (arms.xx - arms.x**2 / arms.k) / (arms.k * (arms.k - 1))
    both = (arms.xy - means * arms.xn) / (arms.n * (arms.k - 1))
    slope = both.sum(axis=1, keepdims=True) / spread.sum(axis=1, keepdims=True)
    return means - slope * shift, variances - 2 * slope * both + slope**2 * spread


def nobody(count: int) -> None:
    """Nobody wants to know how far it is."""


def false_alarms(
    regime: Regime, experiments: int, looks: int, seed: int, advance: Callable[[int], None] = nobody
) -> tuple[dict[str, int], float]:
    """In how many experiments each rule is ever certain, and the median reduction of variance at the end."""
    ever = dict.fromkeys(RULES, 0)
    reductions = []
    for number in range(experiments):
        traffic = draw(regime, (seed, number, *regime.name.encode()))
        seen = judge(traffic, looks)
        if number % CHECK_EVERY == 0 and seen.last is not None:
            check_against_package(traffic, seen.last)
        for rule, said in seen.certain.items():
            ever[rule] += bool(said.any())
        reductions.append(seen.reduction)
        advance(1)
    return ever, float(np.median(reductions))


def engine_alarms(
    regime: Regime, experiments: int, looks: int, seed: int, advance: Callable[[int], None] = nobody
) -> tuple[dict[str, int], float, int]:
    """The same through the engine, SHARED experiments at a time, and how many of them were ever called invalid.

    Raises AssertionError where a report was certain at another look than numpy. Not asked of alarms: these are silent in an
    experiment that is called invalid.
    """
    ever, invalid, reductions = dict.fromkeys(RULES, 0), 0, []
    for start in range(0, experiments, SHARED):
        traffic = draw(regime, (seed, start, *regime.name.encode()))
        names = [f"experiment-{number}" for number in range(start, min(start + SHARED, experiments))]
        arms = {name: arms_of(name, len(traffic.arms)) for name in names}
        for name, found in run(traffic, arms, looks).items():
            seen = judge(replace(traffic, arms=arms[name]), looks)
            for rule, said in seen.certain.items():
                at = set(np.flatnonzero(said).tolist())
                assert rule not in BY_ENGINE or rule == "alarm" or found.certain[rule] == at, (name, rule)
                ever[rule] += bool(found.certain[rule] if rule in BY_ENGINE else at)
            invalid += found.invalid
            reductions.append(seen.reduction)
        advance(len(names))
    return ever, float(np.median(reductions)), invalid


def users_to_find(
    drop: float, users: int, experiments: int, looks: int, seed: int, advance: Callable[[int], None] = nobody
) -> dict[str, float]:
    """Median users of both arms together when a true drop is first certain; infinite if half of the experiments do not find it."""
    regime = Regime("power", users, 12, staggered=True, taste=0.7)
    found: dict[str, list[float]] = {rule: [] for rule in RULES}
    for number in range(experiments):
        seen = judge(draw(regime, (seed, round(1_000 * drop), number), drop), looks)
        for rule, said in seen.certain.items():
            found[rule].append(float(seen.users[np.argmax(said)]) if said.any() else math.inf)
        advance(1)
    return {rule: float(np.median(each)) for rule, each in found.items()}


def binomial_error(count: int, experiments: int) -> float:
    """The 95 % half width of a share, by the normal approximation with two experiments added to each side (Agresti, Coull 1998)."""
    share = (count + 2) / (experiments + 4)
    return FIXED * math.sqrt(share * (1 - share) / (experiments + 4))


console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error for as long as the block runs, on a terminal only."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=(errors := Console(stderr=True)), transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


def alarms_table(title: str) -> Table:
    return Table("regime", *RULES, "variance removed", title=title, box=MARKDOWN)


def add_alarms(table: Table, regime: Regime, ever: dict[str, int], reduction: float, experiments: int) -> float:
    """A row of the table; returns the greatest share of ours."""
    shares = (f"{count / experiments:.1%} ± {binomial_error(count, experiments):.1%}" for count in ever.values())
    table.add_row(regime.name, *shares, f"{reduction:.0%}")
    return max(ever[rule] for rule in OURS) / experiments


def show_false_alarms(title: str, regimes: tuple[Regime, ...], experiments: int, looks: int, seed: int) -> dict[str, dict[str, int]]:
    table = alarms_table(title)
    found = {}
    for regime in regimes:
        with progress(regime.name, experiments) as advance:
            found[regime.name], reduction = false_alarms(regime, experiments, looks, seed, advance)
        add_alarms(table, regime, found[regime.name], reduction, experiments)
    console.print(table)
    return found


def show_engine_alarms(experiments: int, looks: int, seed: int) -> None:
    regime = ENGINE_REGIME
    with progress(regime.name, experiments) as advance:
        ever, reduction, invalid = engine_alarms(regime, experiments, looks, seed, advance)
    table = alarms_table(
        f"The same through events, engine, store and reports ({experiments:,} experiments, {SHARED} a list; {looks} looks)"
    )
    worst = add_alarms(table, regime, ever, reduction, experiments)
    console.print(table)
    console.print(goal(worst <= ALPHA, experiments, f"through the engine: {worst:.1%} at most, wanted at most {ALPHA:.0%}"))
    share, allowed = invalid / experiments, Policy().sample_ratio_alpha
    told = f"called invalid for their split, through the engine: {share:.1%}, wanted at most {allowed:.0%}"
    console.print(goal(share <= allowed, experiments, told))


def goal(reached: bool, experiments: int, text: str) -> str:
    if experiments < ENOUGH:
        return f"too few experiments to judge: {text}"
    return f"{'reached' if reached else 'NOT reached'}: {text}"


@click.command(help=__doc__)
@click.option("--quick", is_flag=True, help="60 experiments of each kind, for a look: too few to judge by.")
@click.option("--experiments", type=click.IntRange(1), help="Experiments a regime; 2,000 by default.")
@click.option("--looks", type=click.IntRange(2), default=LOOKS, show_default=True, help="Looks an experiment.")
@click.option("--seed", type=click.IntRange(0), default=SEED, show_default=True)
def main(quick: bool, experiments: int | None, looks: int, seed: int) -> None:
    configure_quiet_logs("info", "auto")
    count = experiments or (60 if quick else 2_000)
    for rule, what in RULES.items():
        console.print(f"{rule:>10}  {what}")
    about = f"{count:,} experiments, {looks} looks, error {ALPHA:.0%}"
    found = show_false_alarms(f"A/A: experiments that are ever certain of a difference ({about})", REGIMES, count, looks, seed)
    for rule in OURS:
        worst = max(ever[rule] for ever in found.values()) / count
        console.print(goal(worst <= ALPHA, count, f"{RULES[rule]}: {worst:.1%} at most, wanted at most {ALPHA:.0%}"))
    show_engine_alarms(min(count, ENGINE_EXPERIMENTS_MAX), looks, seed)
    show_false_alarms("The same where the theorem has a harder time", STRESSES, max(count // 2, 1), looks, seed)
    table = Table("true drop", *RULES, title="Median users of both arms when a true drop is first certain (staggered users)", box=MARKDOWN)
    for drop, (users, wanted) in DROPS.items():
        with progress(f"a true drop of {drop:.0%}", max(count // 4, 1)) as advance:
            medians = users_to_find(drop, users, max(count // 4, 1), looks, seed, advance)
        table.add_row(f"{drop:.0%}", *(f"{median:,.0f}" for median in medians.values()))
        console.print(goal(medians["alarm"] <= wanted, count, f"{drop:.0%} drop: {medians['alarm']:,.0f} users, wanted at most {wanted:,}"))
    console.print(table)
    console.print("The fixed rules find drops early because they are also certain of drops that are not there.")


if __name__ == "__main__":
    main()
