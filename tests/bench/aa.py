"""`python -m tests.bench.aa [--quick] [--experiments N]`: how often do experiments without an effect raise an alarm?

Both arms are the same (an A/A test). The harness draws traffic from a seed, looks 400 times, and counts the experiments in which a rule
*ever* finds a difference. It compares our rules with the usual ones on the same data. With a true drop it counts the users until the
drop is found. For one experiment in fifty the numpy sums are compared with the package's exact ones before anything is printed.

One regime also goes through the product: events, engine, store, reports. The reports must decide at the same looks as numpy. Hard
traffic (bots, one dominant user, late arms, many arms), shares that change over time, and rollouts (stages, lists assigned one by one) are
judged by the package's own reports at every look.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import click
import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from streammetrics.wiring.logs import configure_quiet_logs
from tests.bench.aa_check import check_against_package
from tests.bench.aa_engine import SETTINGS, arms_of, run
from tests.bench.aa_hard import HARD, HARD_EXPERIMENTS, HARD_LOOKS, WORDS, ever_wrong
from tests.bench.aa_ramps import LIFTED, LIFTS, RAMP_LOOKS, RAMPS, SPLITS, ramp_rates
from tests.bench.aa_rules import ALPHA, FIXED, OURS, POLICY, RULES, judge
from tests.bench.aa_shares import CERTAIN, CHANGING, SHARE_EXPERIMENTS, SHARE_LOOKS, STEADY, share_rates
from tests.bench.aa_traffic import REGIMES, STRESSES, Regime, draw

LOOKS = 400
SEED = 20_241_121

ENGINE_REGIME = replace(REGIMES[0], name=f"{REGIMES[0].name}: the engine", users=600)
"""Fewer users than elsewhere: a look through the engine costs a thousand times as much as one through numpy."""
ENGINE_EXPERIMENTS_MAX = 1_008
SHARED = SETTINGS.events.experiments_max
"""Experiments that share one traffic: the most that a list may carry."""
BY_ENGINE = ("interval", "alarm", "user hits", "fixed")
"""Rules whose row comes from the reports. The others come from numpy on the same lists."""
DROPS = {0.2: (4_000, 2_000), 0.1: (12_000, 5_500)}
"""True drops, with the users of an experiment and the most users until the median experiment finds the drop."""
VERDICTS = ("regressed", "improved", "mixed", "safe")
CHECK_EVERY = 50
ENOUGH = 500
"""Experiments that a goal needs to be judged."""


def no_progress(count: int) -> None:
    """Show no progress."""


def false_alarms(
    regime: Regime, experiments: int, looks: int, seed: int, advance: Callable[[int], None] = no_progress
) -> tuple[dict[str, int], float]:
    """Return in how many experiments each rule ever finds a difference, and the median reduction of variance."""
    ever = dict.fromkeys(RULES, 0)
    reductions = []
    for number in range(experiments):
        traffic = draw(regime, (seed, number, *regime.name.encode()))
        found = judge(traffic, looks)
        if number % CHECK_EVERY == 0 and found.last is not None:
            check_against_package(traffic, found.last)
        for rule, certain in found.certain.items():
            ever[rule] += bool(certain.any())
        reductions.append(found.reduction)
        advance(1)
    return ever, float(np.median(reductions))


def engine_alarms(
    regime: Regime, experiments: int, looks: int, seed: int, advance: Callable[[int], None] = no_progress
) -> tuple[dict[str, int], float, int]:
    """Return the same through the engine, SHARED experiments at a time, and how many were ever invalid.

    Raises AssertionError where a report decides at another look than numpy. Alarms are not compared, because an invalid experiment has
    none.
    """
    ever, invalid, reductions = dict.fromkeys(RULES, 0), 0, []
    for start in range(0, experiments, SHARED):
        traffic = draw(regime, (seed, start, *regime.name.encode()))
        names = [f"experiment-{number}" for number in range(start, min(start + SHARED, experiments))]
        arms = {name: arms_of(name, len(traffic.arms)) for name in names}
        for name, reported in run(traffic, arms, looks).items():
            found = judge(replace(traffic, arms=arms[name]), looks)
            for rule, certain in found.certain.items():
                at = set(np.flatnonzero(certain).tolist())
                assert rule not in BY_ENGINE or rule == "alarm" or reported.certain[rule] == at, (name, rule)
                ever[rule] += bool(reported.certain[rule] if rule in BY_ENGINE else at)
            invalid += reported.invalid
            reductions.append(found.reduction)
        advance(len(names))
    return ever, float(np.median(reductions)), invalid


def users_to_find(
    drop: float, users: int, experiments: int, looks: int, seed: int, advance: Callable[[int], None] = no_progress
) -> dict[str, float]:
    """Return the median users of both arms until a true drop is found; infinite if half of the experiments do not find it."""
    regime = Regime("power", users, 12, staggered=True, taste=0.7)
    until: dict[str, list[float]] = {rule: [] for rule in RULES}
    for number in range(experiments):
        found = judge(draw(regime, (seed, round(1_000 * drop), number), drop), looks)
        for rule, certain in found.certain.items():
            until[rule].append(float(found.users[np.argmax(certain)]) if certain.any() else math.inf)
        advance(1)
    return {rule: float(np.median(each)) for rule, each in until.items()}


def binomial_error(count: int, experiments: int) -> float:
    """Return the 95 % half width of a share: the normal approximation with two experiments added to each side (Agresti, Coull 1998)."""
    share = (count + 2) / (experiments + 4)
    return FIXED * math.sqrt(share * (1 - share) / (experiments + 4))


console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error while the block runs, on a terminal only."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=(errors := Console(stderr=True)), transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task(label, total=total)
        yield lambda count: bar.advance(task, count)


def alarms_table(title: str) -> Table:
    return Table("regime", *RULES, "variance removed", title=title, box=MARKDOWN)


def add_alarms(table: Table, regime: Regime, ever: dict[str, int], reduction: float, experiments: int) -> float:
    """Add a row to the table; return the largest share of our rules."""
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
    share, allowed = invalid / experiments, POLICY.sample_ratio_alpha
    message = f"invalid for their split, through the engine: {share:.1%}, wanted at most {allowed:.0%}"
    console.print(goal(share <= allowed, experiments, message))


def show_hard(experiments: int, seed: int) -> None:
    """Show how often the package's reports are ever wrong in hard traffic: a verdict, an interval without 0, or an invalid split."""
    title = f"A/A in hard traffic, judged by the package's reports ({experiments:,} experiments, {HARD_LOOKS} looks, error {ALPHA:.0%})"
    table = Table("regime", *WORDS, "ever wrong", "looks with a verdict", title=title, box=MARKDOWN)
    worst = 0.0
    for regime in HARD:
        with progress(regime.name, experiments) as advance:
            found = ever_wrong(regime, experiments, seed, advance)
        share = found.wrong / experiments
        shares = (f"{found.ever[word] / experiments:.1%}" for word in WORDS)
        table.add_row(regime.name, *shares, f"{share:.1%} ± {binomial_error(found.wrong, experiments):.1%}", f"{found.open_share:.0%}")
        worst = max(worst, share)
    console.print(table)
    console.print(goal(worst <= ALPHA, experiments, f"hard traffic: {worst:.1%} ever wrong at most, wanted at most {ALPHA:.0%}"))


def show_shares(experiments: int, seed: int) -> None:
    """Show how often a verdict is wrong if the arms' shares change over time, and how often the check of shares has a false alarm."""
    title = f"Shares that change over time, default settings ({experiments:,} experiments, {SHARE_LOOKS} looks, error {ALPHA:.0%})"
    columns = ("wrong without the check", *CERTAIN, "after the alarm", "alarm", "median time of the alarm")
    table = Table("regime", *columns, title=title, box=MARKDOWN)
    worst = 0.0
    for regime in (*CHANGING, *STEADY):
        with progress(regime.name, experiments) as advance:
            found = share_rates(regime, experiments, seed, advance)
        words = (f"{share:.1%} ± {binomial_error(round(share * experiments), experiments):.1%}" for share in found.ever.values())
        at = "-" if found.alarm_at is None else f"{found.alarm_at:.0%}"
        table.add_row(regime.name, f"{found.unchecked:.1%}", *words, f"{found.after:.1%}", f"{found.alarms:.1%}", at)
        worst = max(worst, *found.ever.values())
    console.print(table)
    console.print(goal(worst <= ALPHA, experiments, f"changing shares: {worst:.1%} at most of each verdict, wanted at most {ALPHA:.0%}"))


def show_ramps(experiments: int, seed: int) -> None:
    """Show how often reports are ever wrong in rollouts by stages and by list, and what they find of a true lift."""
    title = f"A/A in rollouts, judged by the package's reports ({experiments:,} experiments, {RAMP_LOOKS} looks, error {ALPHA:.0%})"
    table = Table("rollout", *WORDS, "ever wrong", "looks with a verdict", title=title, box=MARKDOWN)
    worst = 0.0
    for ramp in (*RAMPS, *SPLITS):
        with progress(ramp.name, experiments) as advance:
            found = ramp_rates(ramp, experiments, seed, advance)
        error = binomial_error(round(found.wrong * experiments), experiments)
        words = (f"{found.ever.get(word, 0):.1%}" for word in WORDS)
        table.add_row(ramp.name, *words, f"{found.wrong:.1%} ± {error:.1%}", f"{found.open_share:.0%}")
        worst = max(worst, *(found.ever.get(word, 0) for word in WORDS if word != "interval"))  # two measures have 5 % each there
    console.print(table)
    console.print(goal(worst <= ALPHA, experiments, f"rollouts: {worst:.1%} at most of each verdict, wanted at most {ALPHA:.0%}"))
    table = Table("rollout", "true lift", *VERDICTS, "before the last stage", title="Verdicts that ever came up", box=MARKDOWN)
    for ramp in LIFTED:
        for lift in LIFTS:
            with progress(f"{ramp.name}, {lift:+.0%}", max(experiments // 4, 1)) as advance:
                found = ramp_rates(ramp, max(experiments // 4, 1), seed, advance, lift)
            early = f"{found.early:.0%}" if len(ramp.shares) > 1 else "-"
            table.add_row(ramp.name, f"{lift:+.0%}", *(f"{found.verdicts.get(word, 0):.1%}" for word in VERDICTS), early)
    console.print(table)


def goal(reached: bool, experiments: int, text: str) -> str:
    if experiments < ENOUGH:
        return f"too few experiments to judge: {text}"
    return f"{'reached' if reached else 'NOT reached'}: {text}"


@click.command(help=__doc__)
@click.option("--quick", is_flag=True, help="60 experiments of each kind, as a preview: too few to judge by.")
@click.option("--experiments", type=click.IntRange(1), help="Experiments a regime; 2,000 by default.")
@click.option("--looks", type=click.IntRange(2), default=LOOKS, show_default=True, help="Looks an experiment.")
@click.option("--seed", type=click.IntRange(0), default=SEED, show_default=True)
def main(quick: bool, experiments: int | None, looks: int, seed: int) -> None:
    configure_quiet_logs("info", "auto")
    count = experiments or (60 if quick else 2_000)
    for rule, meaning in RULES.items():
        console.print(f"{rule:>10}  {meaning}")
    about = f"{count:,} experiments, {looks} looks, error {ALPHA:.0%}"
    found = show_false_alarms(f"A/A: experiments in which a rule ever finds a difference ({about})", REGIMES, count, looks, seed)
    for rule in OURS:
        worst = max(ever[rule] for ever in found.values()) / count
        console.print(goal(worst <= ALPHA, count, f"{RULES[rule]}: {worst:.1%} at most, wanted at most {ALPHA:.0%}"))
    show_engine_alarms(min(count, ENGINE_EXPERIMENTS_MAX), looks, seed)
    show_false_alarms("The same in harder regimes", STRESSES, max(count // 2, 1), looks, seed)
    table = Table("true drop", *RULES, title="Median users of both arms until a true drop is found (staggered users)", box=MARKDOWN)
    for drop, (users, wanted) in DROPS.items():
        with progress(f"a true drop of {drop:.0%}", max(count // 4, 1)) as advance:
            medians = users_to_find(drop, users, max(count // 4, 1), looks, seed, advance)
        table.add_row(f"{drop:.0%}", *(f"{median:,.0f}" for median in medians.values()))
        console.print(goal(medians["alarm"] <= wanted, count, f"{drop:.0%} drop: {medians['alarm']:,.0f} users, wanted at most {wanted:,}"))
    console.print(table)
    console.print("The fixed rules find drops early because they also find drops that are not there.")
    show_hard(min(count, HARD_EXPERIMENTS), seed)
    show_shares(min(count, SHARE_EXPERIMENTS), seed)
    show_ramps(min(count, HARD_EXPERIMENTS), seed)


if __name__ == "__main__":
    main()
