"""`python -m tests.tools.bench.metrics [--lists N] [--rounds N]`: the metric core beside other libraries, on lists of 10 to 50 items.

Answers are compared before anything is timed. Every line is the median over rounds. In each round our library and the other one run in
turns in this process, so that a busy machine slows both. A slow library gets fewer lists, and its rate counts. Ours uses one thread.
"""

from __future__ import annotations

import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from streammetrics import evaluate, from_run
from streammetrics.metrics import Scorer, Spec
from tests.tools.bench import rivals
from tests.tools.bench.rivals import Lists, Means

THREE = ["ndcg@10", "mrr@10", "hit_rate@10"]
MANY = [f"{name}@{k}" for name in ("ndcg", "dcg", "mrr", "hit_rate", "precision", "recall", "map", "f1") for k in (5, 10, 20)]

COLD = """
import time
def peak_kib():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
bare = peak_kib()
start = time.perf_counter()
from streammetrics.metrics import Scorer
Scorer(["ndcg@10"]).score_list([0, 1])
print(time.perf_counter() - start, (peak_kib() - bare) / 1024)
"""

console = Console(width=None if sys.stdout.isatty() else 130, highlight=False)


@dataclass(frozen=True)
class Line:
    """One comparison: ours over so many lists, a rival over so many, and how many times faster ours should be."""

    what: str
    rival: str
    module: str
    goal: float
    ours: Callable[[], Means]
    lists: int
    make_rival: Callable[[Lists], Callable[[], Means]]
    rival_lists: Lists
    check: Callable[[Lists], Means]


def means(scorer: Scorer, lists: Lists) -> Means:
    """Score lists and return the mean of each metric."""
    sums = scorer.score_ragged(lists.flat, lists.offsets).sum(axis=0).tolist()
    return {str(column.metric): total / (lists.count << column.scale_bits) for column, total in zip(scorer.columns, sums, strict=True)}


def check_same(line: Line, theirs: Means) -> None:
    """Check that our means of the other library's lists equal its own."""
    mine = line.check(line.rival_lists)
    for name, value in theirs.items():
        assert math.isclose(mine[name], value, abs_tol=1e-9), f"{line.what}, {line.rival}: {name} is {mine[name]}, there {value}"


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def measure(line: Line, rounds: int) -> tuple[float, float, float]:
    """Median rates (lists/s) of ours and of the rival, and the median of their ratios."""
    theirs = line.make_rival(line.rival_lists)
    check_same(line, theirs())
    line.ours()
    rates = [(line.lists / seconds(line.ours), line.rival_lists.count / seconds(theirs)) for _ in range(rounds)]
    ratio = statistics.median(mine / other for mine, other in rates)
    return statistics.median(mine for mine, _ in rates), statistics.median(other for _, other in rates), ratio


def lines_of(lists: Lists) -> list[Line]:
    three, many, ndcg = Scorer(THREE), Scorer(MANY), Scorer(["ndcg@10"])
    yes_or_no = Scorer(THREE, Spec(gain="binary", ideal="full"))
    checked = Scorer([*dict.fromkeys([*THREE, *MANY]), "mrr"], items_max=50)

    def read(scorer: Scorer) -> Callable[[Lists], Means]:
        return lambda some: means(scorer, some)

    def ragged(scorer: Scorer) -> Callable[[], Means]:
        return lambda: means(scorer, lists)

    threads = os.environ.get("NUMBA_NUM_THREADS", str(os.cpu_count()))
    ranx, trec = f"ranx kernels, {threads} threads", "pytrec_eval"
    some, few = lists.first(min(lists.count, 30_000)), lists.first(min(lists.count, 5_000))

    def trec_three(of: Lists) -> Callable[[], Means]:
        return rivals.pytrec_eval(of, many=False)

    def trec_many(of: Lists) -> Callable[[], Means]:
        return rivals.pytrec_eval(of, many=True)

    def of_dicts(of: Lists) -> Means:
        return evaluate(from_run(*rivals.dicts(of)), THREE).means

    count = lists.count
    run, qrels = rivals.dicts(some)
    return [
        Line("3 values", ranx, "ranx", 5, ragged(three), count, rivals.ranx_kernels, some, read(three)),
        Line("3 values", trec, "pytrec_eval", 5, ragged(three), count, trec_three, few, read(checked)),
        Line("ndcg", "scikit-learn", "sklearn", 5, ragged(ndcg), count, rivals.sklearn_ndcg, some, read(ndcg)),
        Line("3 values", "RecTools", "rectools", 5, ragged(yes_or_no), count, rivals.rectools, some.graded_only(), read(yes_or_no)),
        Line("24 values", trec, "pytrec_eval", 5, ragged(many), count, trec_many, few, read(checked)),
        Line(
            "3 values, from dicts",
            "pytrec_eval, from dicts",
            "pytrec_eval",
            1,
            lambda: evaluate(from_run(run, qrels), THREE).means,
            some.count,
            rivals.pytrec_eval_from_dicts,
            some,
            of_dicts,
        ),
    ]


def alone(lists: Lists, rounds: int) -> Table:
    """Measure what no other library does: means from doubles, and of one event."""
    some = lists.first(min(lists.count, 200_000))
    doubles = Lists(some.flat.astype(np.float64), some.offsets)
    scorer, chance = Scorer(THREE), random.Random(5)
    lengths = [chance.randint(10, 50) for _ in range(20_000)]
    clicked = [(length, chance.randrange(length)) for length in lengths]
    events = [[0] * place + [chance.randint(1, 3)] + [0] * (length - place - 1) for length, place in clicked]

    def one_by_one() -> None:
        for grades in events:
            scorer.score_list(grades)

    acts: list[tuple[str, Callable[[], object], int]] = [
        ("from doubles", lambda: means(scorer, doubles), some.count),
        ("one list at a time, one graded item", one_by_one, len(events)),
    ]
    took = [[seconds(act) / count for _, act, count in acts] for _ in range(rounds)]
    table = Table("ours alone, 3 values", "M lists/s", "µs a list", "best µs a list")
    for (what, _, _), mine in zip(acts, zip(*took, strict=True), strict=True):
        middle = statistics.median(mine)
        table.add_row(what, f"{1e-6 / middle:.2f}", f"{1e6 * middle:.3f}", f"{1e6 * min(mine):.3f}")
    return table


def cold_start(rounds: int) -> tuple[float, float]:
    """Return the seconds and MiB that a new process takes until its first value: the median of several."""
    lines = [subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True, check=True).stdout.split() for _ in range(rounds)]
    return statistics.median(float(one[0]) for one in lines), statistics.median(float(one[1]) for one in lines)


@click.command()
@click.option("--lists", default=1_000_000, show_default=True, help="How many lists ours scores.")
@click.option("--rounds", default=7, show_default=True, help="How often ours and each rival take turns.")
def main(lists: int, rounds: int) -> None:
    """The metric core beside other libraries: rates, ratios, and whether the goal is reached."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    made = rivals.made(lists)
    table = Table("ours", "rival", "ours, M lists/s", "rival, M lists/s", "ratio", "goal")
    for line in lines_of(made):
        if not rivals.installed(line.module):
            table.add_row(line.what, line.rival, "", "not installed", "", f">= {line.goal:g}")
            continue
        mine, other, ratio = measure(line, rounds)
        reached = "reached" if ratio >= line.goal else "NOT reached"
        table.add_row(line.what, line.rival, f"{mine / 1e6:.2f}", f"{other / 1e6:.4f}", f"{ratio:.1f}", f"{reached}: >= {line.goal:g}")
    console.print(f"numpy {np.__version__}; {made.count:,} lists of 10 to 50 items")
    console.print("the means of every rival that is timed equal ours to 1e-9 (checked before)")
    console.print(table)
    console.print(alone(made, rounds))
    took, mib = cold_start(rounds)
    console.print(f"cold start to a first value: {took:.3f} s (goal 0.2), {mib:.1f} MiB more than bare Python (goal 30)")


if __name__ == "__main__":
    main()
