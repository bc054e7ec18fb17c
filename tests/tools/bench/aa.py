"""`python -m tests.tools.bench.aa [REGIME ...] [--experiments N] [--every HOURS]`: how often experiments without an effect have a verdict.

Both arms are the same in most regimes (an A/A test); in the others the treatment has a true effect. Lists are drawn from a seed
(`aa_lists`), summed as the engine sums them (`aa_feed`), and judged by the package's own reports at every look, with the default settings
and margin 0. An experiment is wrong if a verdict is ever `regressed`, or ever `improved`; each may be 5 %.

Each line is printed and added to --out as soon as its regime is done. Regimes that are in that file are left out, so the command may be
stopped and run again. REGIME are groups or parts of names; all regimes take hours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

from streammetrics.experiments.arms import ArmComparison, Arms
from streammetrics.experiments.building import build_report, choose_scales
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.stored import StoredSums
from streammetrics.statistics.estimates import estimate, z_value
from streammetrics.statistics.measures import Measures
from tests.tools.bench.aa_feed import ARMS, looks, measures_of
from tests.tools.bench.aa_lists import Regime, draw

SEED = 20_261_128
ALPHA = 0.05
Z_LEAST = math.sqrt(2 * math.log(1 / ALPHA))
"""A mixture of likelihood ratios is at most exp(z**2 / 2), so E is below 1 / ALPHA for a smaller |z|."""
CONSTANT = "constant shares"
CHANGING = "shares that change"
SILENT = "an arm without lists"
HARD = "hard traffic"
SETTINGS = "several arms or measures, CUPED"
MOVING = "users in both arms"
EFFECTS = "true effects"

RAMP = (0.02, 0.18, 0.34, 0.5)
REGIMES: Mapping[str, Sequence[Regime]] = {
    CONSTANT: (
        Regime(name="half and half"),
        Regime(name="season, later users click less", season=0.4, drift=-0.5),
        Regime(name="90:10, season", steps=(0.1,), season=0.4, drift=-0.4),
        Regime(name="99:1", steps=(0.01,), users=12_000, season=0.3, drift=-0.4),
        Regime(name="first hour 1.8 times the clicks", newer=0.8, season=0.4),
        Regime(name="200 users a day", users=1_600, season=0.4),
        Regime(name="200 users a day, 90:10", users=1_600, season=0.4, steps=(0.1,)),
        Regime(name="items of a list", items=True, season=0.4),
        Regime(name="20 days", users=8_000, hours=480, season=0.4, drift=-0.4),
        Regime(name="60,000 users", users=60_000, season=0.4, drift=-0.4, newer=0.8),
    ),
    CHANGING: (
        Regime(name="ramp 2 → 50 %", steps=RAMP, drift=-0.5),
        Regime(name="ramp 2 → 50 %, season", steps=RAMP, drift=-0.5, season=0.4),
        Regime(name="ramp 2 → 50 %, no step at a day's begin", steps=RAMP, steps_hours=45, drift=-0.5, season=0.4),
        Regime(name="ramp 2 → 50 %, first hour 1.8 times the clicks", steps=RAMP, newer=0.8),
        Regime(
            name="ramp 1 → 5 → 25 → 50 % within 12 hours",
            steps=(0.01, 0.05, 0.25, 0.5),
            steps_hours=3,
            early=0.3,
            newer=0.8,
            drift=-0.5,
            season=0.4,
        ),
        Regime(name="share grows evenly from 2 to 50 %", slope=(0.02, 0.5), drift=-0.5),
        Regime(name="share grows evenly from 35 to 50 %", slope=(0.35, 0.5), drift=-0.5),
        Regime(name="45 → 50 %, later users click 60 % less", steps=(0.45, 0.5), drift=-0.6),
        Regime(name="a share of its own in each hour", by_hour=True, season=0.5),
        Regime(name="share by the time of day", tide=0.4, season=0.5),
        Regime(name="share by the time of day, first hour 1.8 times the clicks", tide=0.4, season=0.4, newer=0.8),
        Regime(name="ramp 2 → 50 %, items of a list", steps=RAMP, drift=-0.5, items=True, season=0.4),
        Regime(name="ramp 10 → 50 %, 200 users a day", steps=(0.1, 0.23, 0.37, 0.5), users=1_600, drift=-0.5, newer=0.8),
        Regime(name="ramp 2 → 50 %, 60,000 users", steps=RAMP, users=60_000, drift=-0.4, season=0.4, newer=0.8),
        Regime(name="ramp 2 → 50 %, 20 days", steps=RAMP, users=8_000, hours=480, drift=-0.5, season=0.4),
    ),
    SILENT: (
        Regime(name="silent for 15 % of the time", outage=(0.42, 0.15), season=0.5),
        Regime(name="silent for 15 %, users came before, bad hours", outage=(0.42, 0.15), season=0.5, early=1.0, bad=0.6),
        Regime(name="silent for 4 %, bad hours", outage=(0.42, 0.04), season=0.5, bad=0.6),
        Regime(name="half of its lists lost for 15 %, bad hours", outage=(0.42, 0.15), outage_part=0.5, season=0.5, early=1.0, bad=0.6),
        Regime(name="silent for 15 %, bad hours, first hour 1.8 times", outage=(0.42, 0.15), season=0.5, newer=0.8, bad=0.6),
        Regime(name="half lost, bad hours, first hour 1.8 times", outage=(0.42, 0.15), outage_part=0.5, season=0.5, newer=0.8, bad=0.6),
        Regime(name="ends at half time", outage=(0.5, 1.0), drift=-0.4, season=0.3),
        Regime(name="ends at 80 %", outage=(0.8, 1.0), drift=-0.6, early=1.0, season=0.4),
        Regime(name="begins 10 % later", outage=(0.0, 0.1), season=0.5, early=0.5),
        Regime(name="begins 10 % later, first hour 1.8 times", outage=(0.0, 0.1), season=0.5, early=0.5, newer=0.8),
        Regime(name="begins 30 % later, first hour 1.8 times", outage=(0.0, 0.3), season=0.5, early=0.3, newer=0.8),
        Regime(name="begins 4 hours later, 2.5 times the clicks then", outage=(0.0, 0.02), control_first=2.5, early=0.3),
        Regime(name="ramp 2 → 50 %, silent for 15 %", outage=(0.42, 0.15), steps=RAMP, season=0.4, drift=-0.4),
    ),
    HARD: (
        Regime(name="log-normal 1.6 lists", rate=0.02, spread=1.6, season=0.4, drift=-0.4),
        Regime(name="Pareto 1.5 lists", rate=0.02, spread=1.5, activity="pareto", season=0.4),
        Regime(name="Pareto 1.3 lists, ramp 2 → 50 %", rate=0.02, spread=1.3, activity="pareto", steps=RAMP, drift=-0.5),
        Regime(name="300 users, 60 lists each", users=300, rate=0.4, spread=0.5, fading=0.0, season=0.4),
        Regime(name="300 users, ramp 10 → 50 %", users=300, rate=0.4, spread=0.5, fading=0.0, steps=(0.1, 0.23, 0.37, 0.5), drift=-0.5),
        Regime(name="hits of 2 %", base=0.02, season=0.4),
        Regime(name="hits of 2 %, ramp 2 → 50 %", base=0.02, steps=RAMP, drift=-0.5),
        Regime(name="hits of 2 %, an arm of 5 %", base=0.02, steps=(0.05,)),
        Regime(name="hits of 97 %, an arm of 5 %", base=0.97, taste=0.02, steps=(0.05,)),
        Regime(name="active users click more", activity_taste=0.4, spread=1.0, season=0.4),
        Regime(name="800 users for weeks", users=800, rate=0.15, fading=0.0, season=0.4, early=0.7),
        Regime(name="24 bots among 1,500 users", users=1_500, bots=24),
    ),
    SETTINGS: (
        Regime(name="six arms", arms=6, users=12_000, season=0.4),
        Regime(name="six arms, 200 users a day in each", arms=6, users=9_600, season=0.4),
        Regime(name="six arms, ramp 10 → 83 %", arms=6, users=12_000, steps=(0.1, 0.3, 0.6, 5 / 6), season=0.4, drift=-0.5),
        Regime(name="two deciding measures", several=True, season=0.4),
        Regime(name="two deciding measures, ramp 2 → 50 %", several=True, steps=RAMP, drift=-0.5),
        Regime(name="CUPED, half and half", earlier=10, season=0.4),
        Regime(name="CUPED, ramp 2 → 50 %", earlier=10, steps=RAMP, drift=-0.5),
    ),
    MOVING: (
        Regime(name="by list, half and half", unit="list", season=0.4),
        Regime(name="by list, 5 → 50 %", unit="list", slope=(0.05, 0.5), season=0.4, drift=-0.4),
        Regime(name="by list, strong tastes", unit="list", users=2_000, rate=0.1, taste=1.2),
        Regime(name="users move with the ramp, 5 → 50 %", unit="hash", steps=(0.05, 0.2, 0.35, 0.5), season=0.4, drift=-0.5),
        Regime(name="3 % of the users have two devices", devices=0.03, season=0.4),
    ),
    EFFECTS: (
        Regime(name="a drop of 10 %, half and half", effect=(-0.1,)),
        Regime(name="a drop of 20 %, 99:1", users=20_000, steps=(0.01,), effect=(-0.2,)),
        Regime(name="a drop of 20 %, 200 users a day", users=1_600, effect=(-0.2,)),
        Regime(name="a drop of 20 %, ramp 2 → 50 %", steps=RAMP, effect=(-0.2,), drift=-0.4),
        Regime(name="a drop of 20 %, silent for 15 %", outage=(0.42, 0.15), effect=(-0.2,), season=0.4, newer=0.8),
    ),
}


class JudgedLists(NamedTuple):
    """One experiment: the first hour with each verdict (infinite: never), the share of looks with an interval, and the last look's numbers.

    difference, error: of the means of the first treatment, with the clustered standard error; None without cells. price: its variance over
    that of whole arms.
    """

    regressed: float
    improved: float
    open_share: float
    difference: float | None
    error: float | None
    price: float | None


def judge(regime: Regime, number: int, every: int = 1) -> JudgedLists:
    """Draw one experiment and judge it at every look.

    A report is built only if a difference is at least Z_LEAST standard errors: before that no verdict can be certain.
    """
    lists = draw(regime, np.random.default_rng([SEED, number, *regime.name.encode()]))
    measures = measures_of(regime)
    policy = Policy(
        margin=0.0,
        paging=measures.names if regime.several else measures.names[:1],
        unit="list" if regime.unit == "list" else "user",
        cuped_verdict=regime.earlier > 0,
    )
    scales, first, seen, opened, last = dict[str, float](), {"regressed": math.inf, "improved": math.inf}, 0, 0, list[ArmComparison]()
    for look, stored in enumerate(looks(measures, lists, regime.hours, every)):
        seen += 1
        if not scales.keys() >= {*policy.paging}:
            scales |= choose_scales(measures, policy, stored, scales)
        arms = Arms(measures, policy, stored, ARMS[0], scales)
        last, greatest = _compared(arms, regime.arms)
        opened += not math.isnan(greatest)
        if greatest >= Z_LEAST:
            word = build_report(measures, policy, stored, scales, measure_names=()).verdict.word
            if word in first:
                first[word] = min(first[word], (look + 1) * every)
    return JudgedLists(first["regressed"], first["improved"], opened / max(seen, 1), *_numbers(measures, last[0] if last else None, stored))


def _compared(arms: Arms, count: int) -> tuple[list[ArmComparison], float]:
    """Return the treatments in the first deciding measure, and the greatest |z| of all with an interval; not a number without any."""
    of_first, greatest = list[ArmComparison](), math.nan
    for measure in arms.estimates:
        for name in ARMS[1:count] if str(measure) in arms.policy.paging else ():
            compared = arms.compared(measure, name, ARMS[0])
            if compared is not None and str(measure) == arms.policy.paging[0]:
                of_first.append(compared)
            if compared is not None and str(measure) in arms.scales and arms.unmet(measure, name, ARMS[0]) is None:
                used = compared.plain if compared.reduced is None else compared.reduced.adjusted
                z = z_value(used.treatment, used.control, 1.0, used.covariance)
                greatest = max(0.0 if z is None else abs(z), 0.0 if math.isnan(greatest) else greatest)
    return of_first, greatest


def _numbers(measures: Measures, compared: ArmComparison | None, stored: StoredSums) -> tuple[float | None, float | None, float | None]:
    if compared is None:
        return None, None, None
    used = compared.plain if compared.reduced is None else compared.reduced.adjusted
    variance = used.treatment.variance + used.control.variance - 2 * used.covariance
    pooled = [estimate(measures, measures.all[0], stored.moments[arm]) for arm in ARMS[:2]]
    whole = math.fsum(estimate.variance for estimate in pooled if estimate is not None)
    price = variance / whole if whole and not stored.pairs else None
    return used.treatment.mean - used.control.mean, math.sqrt(max(variance, 0.0)), price


def line_of(regime: Regime, judged: Sequence[JudgedLists], every: int) -> str:
    """Return a row of the table of measurements.md."""
    count = len(judged)
    times = [[experiment.regressed for experiment in judged], [experiment.improved for experiment in judged]]
    drop, rise = (sum(math.isfinite(at) for at in of_direction) for of_direction in times)
    measured = [experiment for experiment in judged if experiment.difference is not None and experiment.error]
    spread = (
        float(np.std([experiment.difference for experiment in measured if experiment.difference is not None]))
        if len(measured) > 1
        else math.nan
    )
    errors = (
        math.sqrt(float(np.mean([experiment.error**2 for experiment in measured if experiment.error is not None])))
        if measured
        else math.nan
    )
    prices = [experiment.price for experiment in measured if experiment.price is not None]
    price = f"{np.mean(prices):.3f}" if prices else "-"
    opened = np.mean([experiment.open_share for experiment in judged])
    shares = f"{100 * drop / count:.1f} | {100 * rise / count:.1f}"
    median = f" | {np.median(times[0]):.0f} h" if any(regime.effect) else ""
    return (
        f"| {regime.name} | {count} x {regime.hours // every} | {shares} | {errors / spread:.2f} | {price} | {100 * opened:.0f} %{median} |"
    )


def wrong_regimes(judged: Mapping[str, Sequence[JudgedLists]]) -> Iterator[str]:
    """Yield the regimes with more wrong drops or rises than 5 % and two standard errors."""
    for name, experiments in judged.items():
        limit = ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / len(experiments))
        for word in ("regressed", "improved"):
            share = sum(math.isfinite(getattr(one, word)) for one in experiments) / len(experiments)
            if share > limit:
                yield f"{name}: {word} in {share:.1%}, wanted at most 5 %"


@click.command(help=__doc__)
@click.argument("names", nargs=-1, metavar="[REGIME]...")
@click.option("--experiments", type=click.IntRange(1), default=300, show_default=True, help="Experiments a regime.")
@click.option("--every", type=click.IntRange(1), default=1, show_default=True, help="Hours between two looks.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Add the lines to this file.")
def main(names: tuple[str, ...], experiments: int, every: int, out: Path | None) -> None:
    """Judge the regimes, one after the other."""
    done: dict[str, list[JudgedLists]] = {}
    text_before = out.read_text(encoding="utf-8") if out is not None and out.exists() else ""
    for group, regimes in REGIMES.items():
        chosen = [regime for regime in regimes if not names or any(name == group or name in regime.name for name in names)]
        for regime in chosen:
            if f"| {regime.name} | {experiments} x {regime.hours // every} |" in text_before:
                continue
            judged = [judge(regime, number, every) for number in range(experiments)]
            line = line_of(regime, judged, every)
            print(line, flush=True)
            if out is not None:
                with out.open("a", encoding="utf-8") as file:
                    file.write(f"{group} {line}\n")
            if not any(regime.effect):
                done[regime.name] = judged
    for trouble in wrong_regimes(done):
        print(f"NOT reached: {trouble}")


if __name__ == "__main__":
    main()
