"""`python -m tests.bench.position_bias [--seeds N]`: how near is the examination curve to a known one, in simulated clicks?

Two rankers in an A/B test, and interleaved lists of both.
"""

from __future__ import annotations

import click
import numpy as np

from streammetrics.metrics.examination import examination_curve
from tests.support.click_simulation import simulate

RANKS = np.arange(1, 11)
CURVES = {"1 / sqrt(k)": 1 / np.sqrt(RANKS), "1 / k": 1 / RANKS}


@click.command()
@click.option("--seeds", default=20, show_default=True, help="Simulations of each curve.")
@click.option("--lists", default=100_000, show_default=True, help="Lists of each simulation.")
def main(seeds: int, lists: int) -> None:
    """Print the errors of the estimate and the width of its band."""
    heads = (
        "known curve",
        "greatest error of any rank: median, worst",
        "all ranks within 5 %",
        "half width, ranks 2 and 10",
        "in the band",
    )
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for name, known in CURVES.items():
        errors, widths, held = [], [], []
        for seed in range(seeds):
            curve = examination_curve(*simulate(seed, known, lists=lists).entries())
            value, lower, upper = np.array([(each.examination, each.lower, each.upper) for each in curve.ranks]).T
            errors.append(np.abs(value / known - 1).max())
            widths.append(upper / value - 1)
            held.append((lower <= known)[1:] & (known <= upper)[1:])
        second, last = np.mean(widths, axis=0)[[1, -1]]
        near = np.mean(np.array(errors) < 0.05)
        cells = (name, f"{np.median(errors):.1%}, {max(errors):.1%}", f"{near:.0%}", f"{second:.1%}, {last:.1%}", f"{np.mean(held):.0%}")
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
