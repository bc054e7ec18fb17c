"""The gate of ramps 5 → 25 → 50 % whose ranker changes at a step: does it pass a step unseen, and how soon does it fail?

    python -m tests.bench.gate_steps [ramps] [processes]

Each of 16,000 users has the treatment from the stage on in which its share reaches them. The chance of a click moves with the time of day.
The package's own reports judge every look, at the defaults with the stages of the ramp.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from streammetrics.experiments import build_report, choose_scales
from tests.bench import aa_ramps
from tests.bench.aa_hard import MEASURES
from tests.bench.aa_ramps import Ramp, looks_of, policy_of
from tests.bench.aa_traffic import Floats, Ints

SHARES = (0.05, 0.25, 0.5)
USERS = 16_000
LOOKS = 24
SEED = 20_261_126
RAMP = Ramp("5 → 25 → 50 %", SHARES, USERS)
CASES: dict[str, tuple[float, float, float]] = {
    "no difference": (0, 0, 0),
    "+10 %, then -20 %": (0.1, 0.1, -0.2),
    "same, then -20 %": (0, 0, -0.2),
    "same, then -10 %": (0, 0, -0.1),
    "same, then -95 %": (0, 0, -0.95),
    "same, -20 % in the 2nd, same": (0, -0.2, 0),
    "-20 % always": (-0.2, -0.2, -0.2),
    "+10 % always": (0.1, 0.1, 0.1),
}
"""The true lift in each stage."""


class Steps(NamedTuple):
    """The stages (0 to 2) in which the gate passed, and the first look at which it failed, as a share of the time; None: never."""

    passed: frozenset[int]
    failed: float | None


def draw(random: np.random.Generator, lifts: Sequence[float]) -> tuple[Ints, Ints, Floats, npt.NDArray[np.bool_]]:
    """Draw lists as `aa_ramps.draw_ramp` does, with a lift of its own in each stage."""
    lists, taste, starts = random.geometric(0.2, USERS), random.beta(1.2, 2, USERS), 0.97 * random.random(USERS)
    owner = np.repeat(np.arange(USERS), lists)
    times = starts[owner] + (1 - starts[owner]) * random.random(len(owner))
    stage = np.minimum((times * len(SHARES)).astype(np.int64), len(SHARES) - 1)
    arm = (random.random(USERS)[owner] < np.array(SHARES)[stage]).astype(np.int64)
    lift = np.array(lifts)[stage] * arm
    chance = np.clip(taste[owner] * (0.85 + 0.15 * np.cos(6 * np.pi * times)), 0, 1)
    clicked = random.random(len(owner)) < chance * (1 + np.minimum(lift, 0))
    clicked |= (lift > 0) & ~clicked & (random.random(len(owner)) < lift * chance / np.maximum(1 - chance, 0.2))
    clicks = (random.random((len(owner), 10)) < 0.7 / np.arange(1, 11) ** 0.8) & clicked[:, None]
    return owner, 2 * stage + arm, times, clicks


def one_ramp(number: int, name: str) -> Steps:
    """Draw one ramp and ask its gate at every look."""
    aa_ramps.RAMP_LOOKS = LOOKS
    random, policy, scales = np.random.default_rng([SEED, number, 606, *name.encode()]), policy_of(RAMP, margin=0.01), dict[str, float]()
    passed, failed = set[int](), None
    for look, stored in enumerate(looks_of(RAMP, *draw(random, CASES[name]))):
        scales |= choose_scales(MEASURES, policy, stored, scales)
        gate = build_report(MEASURES, policy, stored, scales).gate
        if gate is not None and gate.word == "pass":
            passed.add(min(look * len(SHARES) // LOOKS, len(SHARES) - 1))
        if gate is not None and gate.word == "fail" and failed is None:
            failed = (look + 1) / LOOKS
    return Steps(frozenset(passed), failed)


def main(ramps: int, processes: int) -> None:
    table = Table("true lift", "ramps", "ever fail", "median time", *(f"pass in the {share:.0%} stage" for share in SHARES), box=MARKDOWN)
    with ProcessPoolExecutor(processes) as pool:
        for name in CASES:
            found = list(pool.map(partial(one_ramp, name=name), range(ramps)))
            failed = [each.failed for each in found if each.failed is not None]
            when = f"{np.median(failed):.2f}" if failed else "-"
            shares = [f"{100 * sum(stage in each.passed for each in found) / ramps:.1f} %" for stage in range(len(SHARES))]
            table.add_row(name, str(ramps), f"{100 * len(failed) / ramps:.1f} %", when, *shares)
            print(f"{name}: {len(failed)} of {ramps} fail, at {when}; pass {', '.join(shares)}", file=sys.stderr, flush=True)
    Console(width=140).print(table)


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:]]
    main(*(numbers + [240, 2][len(numbers) :]))
