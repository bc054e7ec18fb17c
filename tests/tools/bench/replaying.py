"""`streammetrics replay` of one file, with a report: processor time of an event and memory; a child process of its own for each way.

Time is that of the replay itself: the start of the interpreter and the imports are left out. A replay without a report takes no
snapshots of experiments, so it is cheaper.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.table import Table

from streammetrics.config import Settings
from streammetrics.connectors.simulated import Traffic, generate
from streammetrics.metrics import TallyLayout
from streammetrics.offline.replay.files import ReplayOutputs, replay
from streammetrics.reports.report import Report
from tests.tools.bench import parts
from tests.tools.bench.parts import WrongAnswerError, read_given, reply
from tests.tools.bench.truth import INPUTS

VISITS, LONG = "visits of 4 lists", "visits of 60 lists"
TRAFFIC = {VISITS: Traffic(users=20_000, seed=7), LONG: Traffic(users=20_000, seed=7, lists_per_visit=60)}
GOALS_US = {True: 16, False: 12}
"""Microseconds of an event with experiments and without."""


class ReplayCost(NamedTuple):
    """Microseconds of processor time of an event, and the peak memory of the process."""

    us: float
    peak_mb: float


class ReplayCosts(NamedTuple):
    """The costs by traffic, by experiments and by whether a report was written."""

    ways: dict[tuple[str, bool, bool], ReplayCost]
    events: int
    checked: int

    def table(self) -> Table:
        table = Table("users make", "experiments", "report", "µs per event", "peak MB")
        for (name, experiments, report), cost in self.ways.items():
            table.add_row(name, _on(experiments), "yes" if report else "no", f"{cost.us:.1f}", f"{cost.peak_mb:.0f}")
        return table

    def goals(self) -> list[tuple[bool, str]]:
        """Return whether each goal is reached, in words: for the dearer traffic, with a report."""
        return [
            (most <= wanted, f"{most:.1f} µs per event of a replay, experiments {_on(experiments)}, wanted at most {wanted}")
            for experiments, wanted in GOALS_US.items()
            for most in [max(cost.us for (_, of, report), cost in self.ways.items() if of == experiments and report)]
        ]


def _on(experiments: bool) -> str:
    return "on" if experiments else "off"


def measure(events: int, rounds: int, say: Callable[[str], None]) -> ReplayCosts:
    """Replay the same events in all ways, in turns."""
    ways = [(name, experiments, report) for name in TRAFFIC for experiments in (True, False) for report in (True, False)]
    costs_by_way: dict[tuple[str, bool, bool], list[ReplayCost]] = {way: [] for way in ways}
    checked = 0
    with tempfile.TemporaryDirectory(prefix="streammetrics-bench-") as directory:
        expected = {name: _write(Path(directory) / name, traffic, events) for name, traffic in TRAFFIC.items()}
        for number in range(rounds):
            for way, costs in costs_by_way.items():
                name, experiments, report = way
                say(f"replay: {name}, experiments {_on(experiments)}, round {number + 1} of {rounds}")
                given = {"file": str(Path(directory) / name), "report": report, "experiments": experiments}
                answer = parts.measure("replaying", given, Path(directory) / "log")
                if answer["counts"] != expected[name]:
                    raise WrongAnswerError(f"replay of {name}: {answer['counts']}, and plain counting finds {expected[name]}")
                checked += len(expected[name])
                costs.append(ReplayCost(answer["seconds"] * 1e6 / events, answer["peak_mb"]))
    medians = {way: ReplayCost(*(statistics.median(column) for column in zip(*costs, strict=True))) for way, costs in costs_by_way.items()}
    return ReplayCosts(medians, events, checked)


def _write(path: Path, traffic: Traffic, events: int) -> dict[str, int]:
    """Write events to a file; return how many lists there are, and how much feedback on them. All are to count.

    Records arrive a little out of order, so the list of the last feedback may be beyond the end of the file.
    """
    ids: dict[str, list[str]] = {name: [] for name in INPUTS}
    with path.open("wb") as file:
        for record in islice(generate(traffic), events):
            ids[record.topic].append(msgspec.json.decode(record.value)["impression_id"])
            file.write(record.value + b"\n")
    lists, feedback = (ids[name] for name in INPUTS)
    list_ids = set(lists)
    return {"matched": sum(reaction in list_ids for reaction in feedback), "lists": len(lists)}


def main() -> None:
    given = read_given()
    settings = Settings.model_validate({"experiments": {"enabled": given["experiments"]}})
    with tempfile.TemporaryDirectory(prefix="streammetrics-bench-") as directory:
        outputs = ReplayOutputs(report=Path(directory) / "report.json" if given["report"] else None)
        began = time.process_time()
        result = replay(settings, [given["file"]], outputs)
        seconds = time.process_time() - began
    reply({"seconds": seconds, "peak_mb": parts.peak_mb(), "counts": _counts(result.report, result.engine.layout)})


def _counts(report: Report, layout: TallyLayout) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for (reason, _), count in report.counts.items():
        counts[reason] += count
    (everything,) = [total.tally for total in report.totals if not total.experiment]
    return {"matched": counts["matched"], "lists": layout.lists(everything)}


if __name__ == "__main__":
    main()
