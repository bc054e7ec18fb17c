"""Send damaged records and files of every form through the decoders and a worker, and print what came of them.

    python -m tests.tools.fuzz 1000000 --seed 1

The laws: nothing raises but the refusal of a file; every event that a decoder returns is counted once; the typed parser finds what the
explainer finds; memory is bounded. One record in five comes from a file. A part of 50,000 records has settings of its own.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

import structlog

from tests.tools.fuzz.laws import Outcomes, table
from tests.tools.fuzz.run import PART, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=int, nargs="?", default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))  # the log lines of wrong times would hide the result
    outcomes, counts, ends, began, left, seed = Outcomes(), Counter[str](), Counter[str](), time.monotonic(), given.records, given.seed
    while left > 0:
        part = run(outcomes, min(PART, left), seed)
        counts, ends, left, seed = counts + part.counts, ends + part.ends, given.records - outcomes.total, seed + 1
        print(f"seed {seed - 1}: {outcomes.total:,} records in {time.monotonic() - began:.0f} s", flush=True)
    print(table(outcomes))
    print("files:", ", ".join(f"{number:,} {name}" for name, number in ends.most_common()))
    print("counters:", ", ".join(f"{name} {number:,}" for name, number in counts.most_common() if number))


if __name__ == "__main__":
    main()
