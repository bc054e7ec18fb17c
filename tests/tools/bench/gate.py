"""`python -m tests.tools.bench.gate [--ramps N]`: the gate of ramps whose ranker changes at a step.

Each of 16,000 users keeps their arm: the treatment has 5, 25 and 50 % of those who come in each third of 200 hours. The chance of a click
moves with the time of day, and falls for later users. The package's own reports judge every look, with the default settings, and as a
rollout tool would ask: with the time at which the step began.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click
import numpy as np

from streammetrics.experiments.building import build_report, choose_scales
from streammetrics.experiments.policy import Policy
from streammetrics.words.times import HOUR_MS
from tests.tools.bench.aa_feed import OF_LISTS, looks
from tests.tools.bench.aa_lists import Regime, draw

SEED: Final = 20_261_126
SHARES: Final = (0.05, 0.25, 0.5)
CASES: Final[Mapping[str, tuple[float, float, float]]] = {
    "none": (0, 0, 0),
    "+10 %, then -20 %": (0.1, 0.1, -0.2),
    "none, then -20 %": (0, 0, -0.2),
    "+10 %, then -10 %": (0.1, 0.1, -0.1),
    "-20 %": (-0.2, -0.2, -0.2),
}
"""The true lift in each step."""


class Answers(NamedTuple):
    """What the gate of one ramp answered: the hours of its first pass by step (infinite: never), and of its first fail."""

    passes: tuple[float, ...]
    fail: float


def regime_of(name: str) -> Regime:
    return Regime(name=name, users=16_000, steps=SHARES, season=0.3, drift=-0.3, newer=0.5, effect=CASES[name])


def ask(name: str, number: int, every: int) -> Answers:
    """Draw one ramp and ask its gate at every look."""
    regime = regime_of(name)
    lists = draw(regime, np.random.default_rng([SEED, number, *name.encode()]))
    policy, scales = Policy(paging=(OF_LISTS.names[0],)), dict[str, float]()
    passes, fail = [math.inf] * len(SHARES), math.inf
    for look, stored in enumerate(looks(OF_LISTS, lists, regime.hours, every)):
        hour = (look + 1) * every
        scales |= choose_scales(OF_LISTS, policy, stored, scales)
        if not scales:
            continue
        step = min((hour - 1) // regime.step_hours, len(SHARES) - 1)
        gate = build_report(OF_LISTS, policy, stored, scales, measure_names=(), since_ms=step * regime.step_hours * HOUR_MS).gate
        word = None if gate is None else gate.word
        if word == "pass":
            passes[step] = min(passes[step], hour)
        if word == "fail":
            fail = min(fail, hour)
    return Answers(tuple(passes), fail)


def line_of(name: str, answers: Sequence[Answers]) -> str:
    """Return a row of the table of measurements.md."""
    count, first_end = len(answers), regime_of(name).step_hours
    failed = [ramp.fail for ramp in answers if math.isfinite(ramp.fail)]
    passed = [f"{100 * sum(math.isfinite(ramp.passes[step]) for ramp in answers) / count:.0f} %" for step in range(len(SHARES))]
    early = f"{100 * sum(hour <= first_end for hour in failed) / count:.0f} %"
    median = f"{np.median(failed):.0f}" if failed else "-"
    return f"| {name} | {count} | {100 * len(failed) / count:.0f} % | {early} | {median} | {' | '.join(passed)} |"


@click.command(help=__doc__)
@click.argument("names", nargs=-1, metavar="[CASE]...")
@click.option("--ramps", type=click.IntRange(1), default=100, show_default=True, help="Ramps a case.")
@click.option("--every", type=click.IntRange(1), default=4, show_default=True, help="Hours between two questions.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Add the lines to this file.")
def main(names: tuple[str, ...], ramps: int, every: int, out: Path | None) -> None:
    """Ask the gates of all cases."""
    columns = ("fail", "fail at 5 %", "median hour", *(f"pass at {share:.0%}" for share in SHARES))
    print(f"| true lift | ramps | {' | '.join(columns)} |")
    for name in names or CASES:
        line = line_of(name, [ask(name, number, every) for number in range(ramps)])
        print(line, flush=True)
        if out is not None:
            with out.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")


if __name__ == "__main__":
    main()
