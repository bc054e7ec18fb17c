"""The gate of simulated ramps: how often it fails without a reason, how soon it stops a bad ranker, and whether it ever passes while stale.

    python -m tests.bench.gate_ramps [experiments] [processes]

Each ramp goes 1 → 5 → 25 %, with returning users. The gate is asked at every look. Part of the time the exporter is behind: it then
shows an older look again, as after a crash or while workers catch up. The package's own reports and answers judge every question.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from streammetrics.experiments import ExperimentReport, Policy, build_report, choose_scales
from streammetrics.reports.freshness import ReportTimes
from streammetrics.reports.gate_answer import GateAnswer, answer_gate
from tests.bench.aa_hard import MEASURES
from tests.bench.aa_ramps import RAMP_LOOKS, Ramp, draw_ramp, looks_of, policy_of

SHARES = (0.01, 0.05, 0.25)
LOOK_MS = 600_000
STALE_MS = 900_000
"""A look is 10 minutes, so an exporter that shows the last look is fresh, and one that is two looks behind is stale."""
OUTAGE_RATE = 0.05
OUTAGE_LOOKS = 4.0
"""Chance that an outage begins at a look, and its mean length in looks."""


@dataclass(slots=True)
class GateResult:
    """What the gate said in one ramp.

    words: whatever came up. stage: the stage (0 to 2) of the first `fail`, with the treated users that counted then; None: never.
    held_back, stale_passes: questions to a stale exporter whose numbers would pass, and those that passed. treated_before: treated users
    at the end of the 5 % stage.
    """

    words: set[str] = field(default_factory=set)
    stage: int | None = None
    treated: int = 0
    treated_before: int = 0
    held_back: int = 0
    stale_passes: int = 0


def lags(random: np.random.Generator) -> list[int]:
    """Return how many looks the exporter is behind at each look: 0, or growing during an outage until it has caught up at once."""
    found, left, behind = [], 0, 0
    for _ in range(RAMP_LOOKS):
        if left == 0 and random.random() < OUTAGE_RATE:
            left = int(random.geometric(1 / OUTAGE_LOOKS))
        left, behind = (left - 1, behind + 1) if left else (0, 0)
        found.append(behind)
    return found


def ask_all_looks(ramp: Ramp, policy: Policy, random: np.random.Generator, lift: float) -> GateResult:
    """Draw one ramp and ask its gate at every look."""
    result, scales, reports = GateResult(), dict[str, float](), list[ExperimentReport]()
    for stored in looks_of(ramp, *draw_ramp(ramp, random, lift)):
        scales |= choose_scales(MEASURES, policy, stored, scales)
        reports.append(build_report(MEASURES, policy, stored, scales))
    for look, behind in enumerate(lags(random)):
        seen = look - min(behind, look)
        answer = _answer(reports[seen], (look + 1) * LOOK_MS, (seen + 1) * LOOK_MS)
        result.words.add(answer.gate)
        if (look - seen) * LOOK_MS > STALE_MS:
            decision = reports[seen].gate
            result.held_back += decision is not None and decision.word == "pass"
            result.stale_passes += answer.gate == "pass"
        stage = min(look * len(SHARES) // RAMP_LOOKS, len(SHARES) - 1)
        treated = next((each.users for each in answer.treatments), 0)
        if stage == 1:
            result.treated_before = treated
        if answer.gate == "fail" and result.stage is None:
            result.stage, result.treated = stage, treated
    return result


def _answer(report: ExperimentReport, now_ms: int, seen_ms: int) -> GateAnswer:
    times = ReportTimes(tasks=1, tasks_committed=1, watermark_ms=seen_ms, entered_ms=seen_ms, ended=False)
    return answer_gate(report, stale=[*times.staleness(now_ms, STALE_MS)], up_to_ms=seen_ms, answered_ms=now_ms)


def one_ramp(seed: int, users: int, lift: float) -> GateResult:
    ramp = Ramp("1 → 5 → 25 %", SHARES, users)
    return ask_all_looks(ramp, policy_of(ramp, margin=0.01), np.random.default_rng((seed, users)), lift)


CASES = (("no difference", 24_000, 0.0), ("20 % worse", 24_000, -0.2), ("5 % worse", 24_000, -0.05))


def main(experiments: int, processes: int) -> None:
    columns = ("treatment", "users", "ramps", "ever fail", "in the 1 or 5 % stage", "ever pass", "stale, would pass", "stale, passed")
    table = Table(*columns, box=MARKDOWN)
    with ProcessPoolExecutor(processes) as pool:
        for name, users, lift in CASES:
            count = experiments if lift == 0 else max(1, experiments // 5)
            results = list(pool.map(partial(one_ramp, users=users, lift=lift), range(count), chunksize=5))
            table.add_row(name, f"{users:,}", f"{count:,}", *_shares(results))
            print(f"{name}: {', '.join(f'{what} {value}' for what, value in zip(columns[3:], _shares(results), strict=True))}", flush=True)
            enough = [each for each in results if each.treated_before >= 512]
            if lift <= -0.2:
                stopped = sum(each.stage is not None and each.stage <= 1 for each in enough)
                print(f"{name}: {stopped} of {len(enough)} ramps with 512 or more treated users by the end of the 5 % stage stop there")
    Console(width=140).print(table)


def _shares(results: Iterable[GateResult]) -> tuple[str, ...]:
    found = list(results)
    count = len(found)
    failed, passed = (sum(word in each.words for each in found) for word in ("fail", "pass"))
    early = sum(each.stage is not None and each.stage <= 1 for each in found)
    held_back, wrong = sum(each.held_back for each in found), sum(each.stale_passes for each in found)
    return (*(f"{100 * each / count:.1f} %" for each in (failed, early, passed)), f"{held_back:,}", str(wrong))


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:]]
    main(*(numbers + [1_000, 2][len(numbers) :]))
