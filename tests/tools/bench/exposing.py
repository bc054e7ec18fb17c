"""End to end with labels on lists, and with exposures on a topic of their own, in turns: what the join of exposures costs.

Both ways have the same lists and feedback. Exposures say what the labels say: one before each visit of four lists, and some of users who
leave. So both must come to the same tallies, as far as lists have their variants.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from rich.table import Table

from streammetrics.config import Settings
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.connectors.simulated import SimulatedRecord, generate
from streammetrics.engine.task_state import decode_control
from tests.tools.bench.end_to_end import PARTITIONS, Scene, Size, checkable, produce, run_workers, scene_of, traffic_of
from tests.tools.bench.parts import WrongAnswerError
from tests.tools.bench.truth import Rows, require_equal

CHECKED_SHARE_MIN = 0.9
"""Of the tallies: those of the last minutes have lists that wait for exposures."""


class ExposureCost(NamedTuple):
    """Seconds of processor time of one run: of the worker, by stage, and of Redis; and memory."""

    stages: dict[str, float]
    other: float
    redis: float
    peak_mb: float
    redis_peak_mb: float

    @property
    def all(self) -> float:
        return sum(self.stages.values()) + self.other + self.redis


class ExposureCosts(NamedTuple):
    """The runs of both ways, in turns. `records` are those of each way."""

    labels: list[ExposureCost]
    exposures: list[ExposureCost]
    records: tuple[int, int]
    checked: int

    def ratio(self) -> float:
        """The processor time with exposures as a multiple of that with labels in the same turn: the median."""
        return statistics.median(one.all / other.all for one, other in zip(self.exposures, self.labels, strict=True))

    def us_per_exposure(self) -> float:
        """What exposures cost in sum, for each of them: the median."""
        more = self.records[1] - self.records[0]
        return statistics.median((one.all - other.all) * 1e6 / more for one, other in zip(self.exposures, self.labels, strict=True))

    def table(self) -> Table:
        names = list(self.labels[0].stages)
        table = Table("variants from", "records", *names, "other threads", "Redis", "sum", "peak MB", "Redis MB", title="CPU s, by stage")
        for way, of, records in zip(("labels", "exposures"), (self.labels, self.exposures), self.records, strict=True):
            stages = (statistics.median(run.stages.get(name, 0.0) for run in of) for name in names)
            rest = (statistics.median(column) for column in zip(*((run.other, run.redis, run.all) for run in of), strict=True))
            memory = (statistics.median(column) for column in zip(*((run.peak_mb, run.redis_peak_mb) for run in of), strict=True))
            table.add_row(way, f"{records:,}", *(f"{number:.2f}" for number in (*stages, *rest)), *(f"{number:.0f}" for number in memory))
        return table


def measure(size: Size, rounds: int, say: Callable[[str], None]) -> ExposureCosts:
    costs: tuple[list[ExposureCost], list[ExposureCost]] = ([], [])
    with scene_of(size, say) as scene:
        sent = with_exposures(scene.sent, size)
        topics = {name: f"{name}-exposed" for name in ("impressions", "feedback", "exposures")}
        for topic in topics.values():
            scene.broker.create_topic(topic, PARTITIONS, {"retention.ms": "-1"})
        say("producing lists without labels, and exposures")
        produce(scene.broker, sent, topics)
        checked = 0
        for number in range(rounds):
            for way in (0, 1) if number % 2 == 0 else (1, 0):
                say(f"{('labels', 'exposures')[way]}, round {number + 1} of {rounds}")
                given = scene.settings(f"exposing{number}-{way}")
                if way:
                    given["kafka"]["topics"] = list(topics.values())
                    given["exposures"] = {"enabled": True}
                cost, of_run = run(scene, given, len(sent) if way else len(scene.sent))
                checked += of_run
                costs[way].append(cost)
    return ExposureCosts(*costs, (len(scene.sent), len(sent)), checked)


def with_exposures(labelled: list[SimulatedRecord], size: Size) -> list[SimulatedRecord]:
    """Return the same lists and feedback, but without labels, and the exposures up to the last list."""
    last_ms = max(record.ts for record in labelled if record.topic == "impressions")
    wanted = {"impressions": 0, "feedback": 0}
    for record in labelled:
        wanted[record.topic] += 1
    costs = []
    for record in generate(replace(traffic_of(size.users), exposures=True)):
        if record.topic == "exposures":
            if record.ts <= last_ms:
                costs.append(record)
        elif wanted[record.topic]:
            wanted[record.topic] -= 1
            costs.append(record)
        elif not any(wanted.values()) and record.ts > last_ms + 60_000:  # all exposures before the last list have arrived
            return costs
    raise AssertionError("the traffic is endless")


def run(scene: Scene, given: dict[str, Any], records: int) -> tuple[ExposureCost, int]:
    """Let a worker read all records. Returns its costs, and how many stored integers equal brute force."""
    worker, redis_seconds, redis_peak_mb, rows = run_workers(given, records, scene.redis, scene.log)
    settings = Settings.model_validate(given)
    before = labelled_before(settings)
    rows_before, expected = (until(exposure, before - settings.windows.pane_ms) for exposure in checkable(rows, scene.expected))
    if len(expected) < CHECKED_SHARE_MIN * len(scene.expected):
        raise WrongAnswerError(f"only {len(expected)} of {len(scene.expected)} tallies are of lists that have their variants")
    checked = require_equal(given["redis"]["namespace"], rows_before, expected)
    return ExposureCost(worker["stages"], worker["other_seconds"], redis_seconds, worker["peak_mb"], redis_peak_mb), checked


def labelled_before(settings: Settings) -> int:
    """Return the time before which all lists have their variants."""
    store = RedisStore(settings.redis)
    views = store.view(range(PARTITIONS), {})
    store.close()
    return min(decode_control(view.control).labelled_before for view in views.values())


def until(rows: Rows, last_start_ms: int) -> Rows:
    return {key: row for key, row in rows.items() if key[0] <= last_start_ms}
