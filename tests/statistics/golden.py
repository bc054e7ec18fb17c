"""Reference results of gbstats and ssrm-test in golden.json. `python -m tests.statistics.golden` computes them again.

Both packages need numpy 1, so they run in a temporary environment. Their results on seeded data are stored in full precision, with
the data. statsmodels and ville are installed, and the tests call them directly.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "golden.json"
PINNED = ("numpy<2", "gbstats==0.8.0", "ssrm-test==0.1.5")


def read(part: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))[part]
    return cases


def make() -> None:
    """Run this file in an environment with both packages and store its output."""
    with tempfile.TemporaryDirectory(prefix="streammetrics-golden-") as directory:
        venv.create(directory, with_pip=True)
        python = Path(directory) / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PINNED], check=True)
        output = subprocess.run([python, __file__, "inside"], check=True, stdout=subprocess.PIPE, text=True).stdout
    FILE.write_text(json.dumps(json.loads(output), separators=(",", ":")) + "\n", encoding="utf-8")


def users(generator: random.Random, count: int, chance: float) -> list[tuple[int, int]]:
    """Draw (lists, hits) of `count` users."""
    rows = []
    for _ in range(count):
        lists = generator.randint(1, 12)
        user_chance = min(1.0, max(0.0, generator.gauss(chance, 0.15)))
        rows.append((lists, sum(generator.random() < user_chance for _ in range(lists))))
    return rows


def of_gbstats() -> list[dict[str, Any]]:
    import numpy as np  # noqa: PLC0415 (the pinned one)
    from gbstats.frequentist.tests import SequentialConfig, SequentialTwoSidedTTest  # noqa: PLC0415
    from gbstats.models.statistics import RatioStatistic, SampleMeanStatistic  # noqa: PLC0415

    def statistic(arm: list[tuple[int, int]]) -> Any:
        d, m = np.array(arm, dtype=float).T
        sums = [SampleMeanStatistic(n=len(arm), sum=float(values.sum()), sum_squares=float((values**2).sum())) for values in (m, d)]
        return RatioStatistic(n=len(arm), m_statistic=sums[0], d_statistic=sums[1], m_d_sum_of_products=float((m * d).sum()))

    cases = []
    generator = random.Random(1)
    for size, chance, tuning, alpha in ((120, 0.4, 5_000, 0.05), (400, 0.35, 1_000, 0.05), (900, 0.5, 20_000, 0.01), (150, 0.1, 500, 0.2)):
        control, treatment = users(generator, size, 0.4), users(generator, size + 37, chance)
        config = SequentialConfig(alpha=alpha, sequential_tuning_parameter=tuning, difference_type="absolute")
        test = SequentialTwoSidedTTest(statistic(control), statistic(treatment), config)
        interval = [float(end) for end in test.confidence_interval]
        results = {"rho": float(test.rho), "variance": float(test.variance), "interval": interval, "p_value": float(test.p_value)}
        cases.append({"control": control, "treatment": treatment, "alpha": alpha, **results})
    return cases


def of_ssrm_test() -> list[dict[str, Any]]:
    from ssrm_test.ssrm_test import sequential_bayes_factors  # noqa: PLC0415

    cases = []
    generator = random.Random(2)
    for shares, skew, concentration in (
        ([0.5, 0.5], 0.0, 10_000),
        ([0.5, 0.5], 0.04, 1_000),
        ([0.2, 0.3, 0.5], 0.03, 100),
        ([0.1, 0.9], 0.0, 50),
    ):
        actual = [shares[0] - skew, *shares[1:-1], shares[-1] + skew]
        steps = [[0] * len(shares) for _ in range(40)]
        for step in steps:
            for _ in range(generator.randint(1, 60)):
                step[generator.choices(range(len(shares)), actual)[0]] += 1
        factors = sequential_bayes_factors(steps, shares, dirichlet_concentration=concentration)
        cases.append(
            {"shares": shares, "concentration": concentration, "steps": steps, "bayes_factors": [float(factor) for factor in factors]}
        )
    return cases


if __name__ == "__main__":
    if sys.argv[1:] == ["inside"]:
        print(json.dumps({"gbstats": of_gbstats(), "ssrm_test": of_ssrm_test()}))
    else:
        make()
