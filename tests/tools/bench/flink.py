"""The same records by the worker and by a Flink job, in turns: the default metrics of each pane and variant, without experiments.

The job is `flink_job/RankingJob.java`: exactly once, state on the heap, a thread for each processor. Its first run fetches Flink (83 MB).
Both start with an empty state, and both answers are compared with brute force. The processor time of each has its start in it. Two sizes
give what the start costs, and what each further million events costs.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kafka import KafkaConsumer, TopicPartition

from tests.tools.bench.end_to_end import Scene, Size, Way, checkable, run_workers, scene_of, settings_of
from tests.tools.bench.parts import WrongAnswerError
from tests.tools.bench.truth import Rows, require_equal
from tests.tools.servers.install import ensure_flink
from tests.tools.servers.tools import find_java, find_tool

SOURCE = Path(__file__).parent / "flink_job" / "RankingJob.java"
HEAP_MB = 1_536
OPENED = ("java.lang", "java.util", "java.time")
"""Packages that Flink's serializers look into."""
RELATIVE_ERROR_MAX = 1e-9
"""The worker's sums are exact integers. Those of the job are doubles, added in any order."""


class Spent(NamedTuple):
    """One run: seconds of processor time with the start, seconds on the clock (with the start for Flink alone), and peak memory."""

    processor: float
    wall: float
    peak_mb: float


class Contest(NamedTuple):
    """The runs of both sides over the same records, in turns, and how many panes of the job and integers of the worker were compared."""

    size: Size
    ours: list[Spent]
    flink: list[Spent]
    panes: int
    integers: int

    def ratio(self) -> float:
        """Our processor time as a multiple of Flink's in the same turn: the median."""
        return statistics.median(one.processor / other.processor for one, other in zip(self.ours, self.flink, strict=True))


def measure(size: Size, rounds: int, say: Callable[[str], None]) -> Contest:
    classes = class_path()
    ours, flink, panes, integers = [], [], 0, 0
    with scene_of(size, say) as scene:
        for number in range(rounds):
            say(f"{size.events:,} events: Flink, round {number + 1} of {rounds}")
            spent, compared = run_flink(scene, classes, f"flink-{number}")
            flink.append(spent)
            panes += compared
            say(f"{size.events:,} events: our worker, round {number + 1} of {rounds}")
            way = Way(experiments=False)
            given = settings_of(scene.broker, scene.redis.fresh_url(), f"beside{number}", scene.topics, way)
            worker, redis, _, rows = run_workers(given, size.events, scene.redis, scene.log)
            integers += require_equal("the worker", *checkable(rows, scene.expected, way))
            ours.append(Spent(worker["start_seconds"] + worker["processor_seconds"] + redis, worker["seconds"], worker["peak_mb"]))
    return Contest(size, ours, flink, panes, integers)


def slope(few: Contest, many: Contest, side: Callable[[Contest], list[Spent]]) -> tuple[float, float]:
    """Return the processor seconds of the start, and of each further million events."""
    at_few, at_many = (statistics.median(spent.processor for spent in side(events)) for events in (few, many))
    each_million = (at_many - at_few) * 1e6 / (many.size.events - few.size.events)
    return at_few - each_million * few.size.events / 1e6, each_million


@cache
def class_path() -> str:
    """Compile the job, and return where Java finds it and Flink."""
    jars = ensure_flink()
    classes = jars.parent / f"{jars.name}-classes"
    command: list[str | Path] = [find_tool("javac"), "-proc:none", "-nowarn", "-d", classes, "-cp", f"{jars}/*", SOURCE]
    subprocess.run(command, check=True)
    return f"{classes}:{jars}/*"


def run_flink(scene: Scene, classes: str, answers: str) -> tuple[Spent, int]:
    """Let the job read all records. Returns what it spent, and how many panes were compared."""
    scene.broker.create_topic(answers, 1, {"retention.ms": "-1"})
    with tempfile.TemporaryDirectory(prefix="streammetrics-flink-") as checkpoints:
        command: list[str | Path] = [
            *(find_java(), f"-Xmx{HEAP_MB}m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
            *("-cp", classes, "RankingJob", scene.broker.bootstrap, *scene.topics, answers),
            *(str(os.cpu_count()), Path(checkpoints).as_uri()),
        ]
        began = time.monotonic()
        with scene.log.open("ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)  # so that it is not waited for again
    if process.returncode:
        raise RuntimeError(f"the Flink job exited with {process.returncode}\n{scene.log.read_text(errors='replace')[-4_000:]}")
    spent = Spent(used.ru_utime + used.ru_stime, time.monotonic() - began, used.ru_maxrss / 1_024)
    return spent, require_close(read_answers(scene, answers), scene.expected)


def read_answers(scene: Scene, topic: str) -> dict[tuple[int, str], list[float]]:
    """Return the newest committed sums of each (pane, variant): lists, NDCG, reciprocal rank, hit rate, hit places and places."""
    consumer = KafkaConsumer(bootstrap_servers=scene.broker.bootstrap, enable_auto_commit=False, isolation_level="read_committed")
    place = TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek_to_beginning()
    end, sums_by_window = consumer.end_offsets([place])[place], {}
    while consumer.position(place) < end:
        for record in consumer.poll(timeout_ms=200).get(place, []):
            answer = json.loads(record.value)
            sums = [answer[name] for name in ("lists", "ndcg", "mrr", "hit_rate", "hits", "places")]
            sums_by_window[answer["pane"], answer["variant"]] = sums
    consumer.close()
    return sums_by_window


def require_close(sums_by_window: dict[tuple[int, str], list[float]], expected: Rows) -> int:
    """Raise WrongAnswerError unless the job has every pane of every variant with its sums. Returns the number of panes."""
    wanted = {(start, variant): row for (start, experiment, variant), row in expected.items() if experiment}
    if sums_by_window.keys() != wanted.keys():
        raise WrongAnswerError(f"Flink has {len(sums_by_window)} panes of variants, brute force {len(wanted)}")
    for pane, sums in sums_by_window.items():
        lists, _, ndcg, mrr, hit_rate, hits, places = wanted[pane][:7]
        exact = [lists, ndcg / 2**40, mrr / 2**40, hit_rate / 2**40, hits, places]
        for one, other in zip(sums, exact, strict=True):
            if abs(one - other) > RELATIVE_ERROR_MAX * max(1.0, abs(other)):
                raise WrongAnswerError(f"pane {pane} is {sums} by Flink, brute force says {exact}")
    return len(sums_by_window)
