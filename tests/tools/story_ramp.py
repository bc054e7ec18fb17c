"""The story of a bad ranker that ramps 1 -> 5 -> 25 % and is stopped at 5 %, and of a good one that breaks at 25 %, by real servers.

`streammetrics simulate` sends the traffic in real time. The gate is watched, as a rollout tool does. When the
gate fails, the traffic goes back, so the next step never comes.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tests.support.command_line import COMMAND, environment
from tests.support.paths import ROOT
from tests.support.real_pipeline import Pipeline
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import HOST
from tests.tools.servers.prometheus import PrometheusServer

EXPERIMENT = "ranker"
WORSE = 0.8
"""Quality of the treatment."""
ENOUGH_USERS = 305
"""Treated users at 5 % with which a drop of 20 % is found in 95 % of runs, by the planner, at a coefficient of variation of 0.85."""
SECTIONS = {
    "join": {"gap_ms": 60_000, "attribution_ms": 60_000, "lateness_ms": 5_000, "out_of_orderness_ms": 2_000, "idle_ms": 10_000},
    "windows": {"pane_ms": 5_000, "windows": ["1m"]},
    "metrics": {"names": ["ndcg", "item_hit_rate"], "cutoffs": [10]},
}
FIRST_SECONDS, SECOND_SECONDS = 40, 480
GOOD_SECONDS = 200
"""How long the good ranker stays at 5 %: it needs 65 s until lists are final, and then enough users."""
EASY = {"gate_margin": 0.5, "minimum_lift": 0.3}
"""Rules with which a good ranker passes within a few minutes."""
DEADLINE_SECONDS = 900


class RampSeen(NamedTuple):
    """What became of the ramp: the steps that were made, the gate's answers after each, and seconds from enough users to the signals.

    enough_seconds: from the start of the step at 5 % until ENOUGH_USERS treated users had a list. gate_seconds: from then until the gate
    failed.
    """

    steps: list[int]
    words: list[str]
    reason: str
    enough_seconds: float
    gate_seconds: float
    series: float


class BrokenStepSeen(NamedTuple):
    """What the gate said of a ranker that breaks at 25 %: before the step, right after it, and in the end, each with its reason.

    fail_seconds: from the step until the gate failed.
    """

    answers: list[tuple[str, str]]
    fail_seconds: float


def iso(ms: int) -> str:
    """Return a time (epoch ms) as ISO-8601."""
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="milliseconds")


def traffic(start_ms: int, share: float, rate: float, seconds: float, quality: float = WORSE) -> list[str]:
    """Return the options of `simulate` for one step. quality: of the treatment."""
    shares = ["--variant", f"control={1 - share:.2f}", "--variant", f"treatment={share:.2f}:{quality}"]
    size = ["--users", "40000", "--rate", str(rate), "--minutes", str(seconds / 60), "--start", iso(start_ms), "--seed", "7"]
    return [*shares, *size]


def enough_at_ms(options: list[str], folder: Path) -> int:
    """Return the time of the list with which ENOUGH_USERS treated users have one: the same seed gives the same traffic."""
    path = folder / "same.ndjson"
    command = [*COMMAND, "simulate", "--out", str(path), *options, "--minutes", "5"]
    subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, timeout=DEADLINE_SECONDS, check=True)
    lists = sorted(
        (event["ts"], event["user_id"])
        for event in map(json.loads, path.read_bytes().splitlines())
        if event["type"] == "impression" and event["experiments"][EXPERIMENT] == "treatment"
    )
    users: set[str] = set()
    for ts, user in lists:
        users.add(user)
        if len(users) == ENOUGH_USERS:
            return int(ts)
    raise AssertionError(f"only {len(users)} treated users")


@contextmanager
def sending(pipeline: Pipeline, options: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Send traffic to Kafka at its own pace until it ends or the block does."""
    kafka = ["--set", f"kafka.bootstrap_servers={pipeline.broker.bootstrap}", "--set", f"kafka.topics={','.join(pipeline.topics)}"]
    command = [*COMMAND, "simulate", "--kafka", *kafka, *options]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()


def asked(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command that may watch for long."""
    command, around = [*COMMAND, *words], environment()
    return subprocess.run(command, cwd=ROOT, env=around, capture_output=True, text=True, timeout=2 * DEADLINE_SECONDS, check=False)


def watch_broken_step(broker: KafkaBroker, redis_url: str) -> BrokenStepSeen:
    """Let a ranker be good at 5 % and broken at 25 %, and return what the gate says of it."""
    first_ms = time.time_ns() // 1_000_000 + 15_000
    second_ms = first_ms + 1_000 * GOOD_SECONDS
    sections = {**SECTIONS, "experiments": {"patience_ms": 0, "named": json.dumps({EXPERIMENT: EASY})}}
    pipeline = Pipeline(broker, redis_url, "story-step", ["impressions", "feedback"], **sections)
    with pipeline.service() as service:
        ask = ["gate", EXPERIMENT, "--url", service.url.rstrip("/"), "--json"]
        watch = [*ask, "--watch", "--every", "1", "--since"]
        with sending(pipeline, traffic(first_ms, 0.05, 200, GOOD_SECONDS, 1.0)) as process:
            good = asked(*watch, iso(first_ms), "--deadline", f"{GOOD_SECONDS}s")
            process.wait(DEADLINE_SECONDS)
        with sending(pipeline, traffic(second_ms, 0.25, 200, DEADLINE_SECONDS, 0.05)):
            time.sleep(max(0.0, second_ms / 1_000 - time.time()))
            just_after = asked(*ask, "--since", iso(second_ms))
            broken = asked(*watch, iso(second_ms), "--deadline", f"{DEADLINE_SECONDS}s")
            failed_ms = time.time_ns() // 1_000_000
    answers = [json.loads(call.stdout) for call in (good, just_after, broken)]
    return BrokenStepSeen([(answer["gate"], answer["reason"]) for answer in answers], (failed_ms - second_ms) / 1_000)


def watch_ramp(broker: KafkaBroker, redis_url: str, prometheus: PrometheusServer, folder: Path) -> RampSeen:
    """Let the ramp happen, and say what the gate and Prometheus made of it."""
    first_ms = time.time_ns() // 1_000_000 + 20_000
    second_ms = first_ms + 1_000 * FIRST_SECONDS
    pipeline = Pipeline(broker, redis_url, "story-ramp", ["impressions", "feedback"], **SECTIONS, experiments={"patience_ms": 0})
    with pipeline.service() as service:
        prometheus.scrape(pipeline.name, f"{HOST}:{service.port}")
        try:
            return _ramp(pipeline, service.url, prometheus, folder, first_ms, second_ms)
        finally:
            prometheus.forget(pipeline.name)


def _ramp(pipeline: Pipeline, url: str, prometheus: PrometheusServer, folder: Path, first_ms: int, second_ms: int) -> RampSeen:
    ask = ["gate", EXPERIMENT, "--url", url.rstrip("/"), "--json"]
    second = traffic(second_ms, 0.05, 200, SECOND_SECONDS)
    with sending(pipeline, traffic(first_ms, 0.01, 20, FIRST_SECONDS)) as process:
        process.wait(DEADLINE_SECONDS)
    at_first = asked(*ask)
    with sending(pipeline, second):  # leaving the block is the rollback
        at_second = asked(*ask, "--since", iso(second_ms), "--watch", "--every", "1", "--deadline", f"{DEADLINE_SECONDS}s")
        failed_ms = time.time_ns() // 1_000_000
    answer, enough_ms = json.loads(at_second.stdout), enough_at_ms(second, folder)
    series = f'streammetrics_experiment_gate{{job="{pipeline.name}", variant="", scope="start"}}'
    (seen,) = prometheus.wait_for(f"{series} == -1", deadline_seconds=DEADLINE_SECONDS)
    return RampSeen(
        steps=[1, 5] if at_second.returncode == 1 else [1, 5, 25],
        words=[json.loads(at_first.stdout)["gate"], answer["gate"]],
        reason=answer["reason"],
        enough_seconds=(enough_ms - second_ms) / 1_000,
        gate_seconds=(failed_ms - enough_ms) / 1_000,
        series=seen.value,
    )
