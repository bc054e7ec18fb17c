"""`python -m tests.tools.bench.effect_change [REGIME ...] [--experiments N] [--every HOURS]`: when a change of the effect is said.

Lists are drawn from a seed (`aa_lists`), summed as the engine sums them (`aa_feed`), and tested by the package's own rule at each look. A
change may be certain in 1 % of the experiments with a constant effect. A line has its regime, experiments x looks, the share in which a
change was ever certain, and the median hour of those.
"""

from __future__ import annotations

import math

import click
import numpy as np

from streammetrics.experiments.arms import Arms
from streammetrics.experiments.policy import Policy
from tests.tools.bench.aa_feed import ARMS, looks, measures_of
from tests.tools.bench.aa_lists import DAY, Regime, draw

SEED = 20_261_128
_HOURS = 8 * DAY
_HALF = (0.5,) * 8
"""Eight equal steps, so that an effect may change with a day."""
_RAMP = (0.02, 0.18, 0.34, 0.5)
CONSTANT = (
    Regime(name="no effect", hours=_HOURS, season=0.4),
    Regime(name="+20 %, later users click less", hours=_HOURS, season=0.4, drift=-0.5, effect=(0.2,)),
    Regime(name="ramp 2 → 50 %, later users click less", hours=_HOURS, steps=_RAMP, season=0.4, drift=-0.5),
    Regime(name="silent for 15 %, bad hours", hours=_HOURS, outage=(0.42, 0.15), season=0.5, newer=0.8, bad=0.6),
    Regime(name="half of its lists lost for 15 %", hours=_HOURS, outage=(0.42, 0.15), outage_part=0.5, season=0.5, newer=0.8, bad=0.6),
    Regime(name="Pareto 1.5 lists", hours=_HOURS, rate=0.02, spread=1.5, activity="pareto", season=0.4),
    Regime(name="hits of 2 %, an arm of 5 %", hours=_HOURS, users=20_000, base=0.02, steps=(0.05,)),
    Regime(name="by list, strong tastes", hours=_HOURS, unit="list", users=2_000, rate=0.06, taste=1.2),
    Regime(name="users move with the ramp", hours=_HOURS, unit="hash", steps=_RAMP, season=0.4, drift=-0.5),
    Regime(name="300 users, 50 lists each", hours=_HOURS, users=300, rate=0.3, spread=0.5, fading=0.0, season=0.4),
    Regime(name="three times the clicks in the first hour", hours=_HOURS, users=3_000, base=0.1, rate=0.08, fading=0.0, newer=2.0),
)
CHANGING = (
    Regime(name="+60 % for a day, then -15 %", hours=_HOURS, users=12_000, steps=_HALF, effect=(0.6, *(-0.15,) * 7)),
    Regime(name="none for four days, then -30 %", hours=_HOURS, users=12_000, steps=_HALF, effect=(0.0,) * 4 + (-0.3,) * 4),
    Regime(name="+20 % for four days, then +10 %", hours=_HOURS, users=12_000, steps=_HALF, effect=(0.2,) * 4 + (0.1,) * 4),
)


def first_change(regime: Regime, number: int, every: int) -> float:
    """Return the hour of the first look at which a change is certain; infinite: never."""
    lists, measures = draw(regime, np.random.default_rng([SEED, number, *regime.name.encode()])), measures_of(regime)
    policy = Policy(paging=measures.names[:1], unit="list" if regime.unit == "list" else "user")
    for look, stored in enumerate(looks(measures, lists, regime.hours, every), 1):
        arms, measure = Arms(measures, policy, stored, ARMS[0], {}), measures.all[0]
        if arms.compared(measure, ARMS[1], ARMS[0]) is None:
            continue
        days = arms.days(measure, ARMS[1], ARMS[0])
        if days[0] and arms.change(measure, ARMS[1], ARMS[0], days, 1) is not None:
            return look * every
    return math.inf


@click.command(help=__doc__)
@click.argument("names", nargs=-1, metavar="[REGIME]...")
@click.option("--experiments", type=click.IntRange(1), default=300, show_default=True, help="Experiments of a regime.")
@click.option("--every", type=click.IntRange(1), default=12, show_default=True, help="Hours between two looks.")
def main(names: tuple[str, ...], experiments: int, every: int) -> None:
    """Test the regimes, one after the other."""
    for regime in (*CHANGING, *CONSTANT):
        if names and not any(name in regime.name for name in names):
            continue
        hours = [hour for number in range(experiments) if math.isfinite(hour := first_change(regime, number, every))]
        median = f"{np.median(hours):.0f} h" if hours else ""
        print(f"| {regime.name} | {experiments} x {regime.hours // every} | {100 * len(hours) / experiments:.1f} | {median} |", flush=True)


if __name__ == "__main__":
    main()
