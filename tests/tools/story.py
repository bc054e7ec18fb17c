"""Experiments from simulated clicks to an alert, by real servers: a ranker that got worse, one that did not, a broken split, and two ramps.

`python -m tests.tools.story` (after `make servers`) starts Kafka, Redis and Prometheus, lets `streammetrics simulate` send the traffic of
each experiment, runs `streammetrics run` on it, and shows what Prometheus saw and what `streammetrics report` says.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.support.command_line import streammetrics
from tests.support.real_pipeline import HOUR_MS, Pipeline, Service, start_ms
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import HOST
from tests.tools.servers.prometheus import PrometheusServer
from tests.tools.servers.redis import RedisServer
from tests.tools.story_ramp import ENOUGH_USERS, iso, watch_broken_step, watch_ramp

MINUTES = 30
ENDS_MS = 3 * HOUR_MS
"""A last event this long after the start makes everything final."""
PATIENCE_SECONDS = 120.0
SECTIONS = {
    "join": {"gap_ms": 600_000, "attribution_ms": 600_000, "lateness_ms": 10_000, "idle_ms": HOUR_MS},
    "metrics": {"names": ["ndcg", "hit_rate"], "cutoffs": [10]},
    "experiments": {"paging": ["ndcg@10"], "named": '{"ranker": {"shares": {"control": 1, "treatment": 1}}}'},
}


@dataclass(frozen=True, slots=True)
class Story:
    """What is simulated, beside what all stories share, and what must come of it."""

    name: str
    says: str
    wishes: tuple[str, ...]
    word: str


def shares(control: str, treatment: str) -> tuple[str, ...]:
    """Return the options that give both variants their shares."""
    return ("--variant", f"control={control}", "--variant", f"treatment={treatment}")


STORIES = (
    Story("worse", "the treatment ranks 15 % worse from the start", shares("0.5", "0.5:0.85"), "regressed"),
    Story("same", "both variants rank alike", (), ""),
    Story("uneven", "both rank alike, but users are split 45 to 55", shares("0.45", "0.55"), "invalid"),
)


class Observation(NamedTuple):
    """What became of a story: the verdict on the whole experiment, the least one that Prometheus ever saw, and the words."""

    code: float
    least: float
    alarms: int
    users: float
    text: str
    words: set[str]
    """The verdicts in the report."""


def send(story: Story, pipeline: Pipeline) -> None:
    """Half an hour of traffic by `simulate`, then one event on each input that ends it."""
    begin = start_ms()
    start = iso(begin)
    kafka = ["--set", f"kafka.bootstrap_servers={pipeline.broker.bootstrap}", "--set", f"kafka.topics={','.join(pipeline.topics)}"]
    size = ["--minutes", str(MINUTES), "--users", "3000", "--rate", "20", "--start", start, "--seed", "7"]
    done = streammetrics("simulate", "--kafka", *kafka, *size, *story.wishes)
    assert done.returncode == 0, done.stderr
    pipeline.write_ends(begin + ENDS_MS)


@contextmanager
def running(story: Story, broker: KafkaBroker, redis_url: str, prometheus: PrometheusServer) -> Iterator[tuple[Pipeline, Service]]:
    """A process that consumes the story's traffic while Prometheus scrapes it; Prometheus looks before the first event arrives."""
    pipeline = Pipeline(broker, redis_url, f"story-{story.name}", ["impressions", "feedback"], **SECTIONS)
    with pipeline.service() as service:
        prometheus.scrape(pipeline.name, f"{HOST}:{service.port}")
        try:
            prometheus.wait_for(f'streammetrics_build_info{{job="{pipeline.name}"}}')
            send(story, pipeline)
            yield pipeline, service
        finally:
            prometheus.forget(pipeline.name)


def verdict(job: str) -> str:
    """The verdict on the whole experiment since it began, as PromQL."""
    return f'streammetrics_experiment_verdict{{job="{job}", metric="", scope="start"}}'


def watch(story: Story, broker: KafkaBroker, redis_url: str, prometheus: PrometheusServer) -> Observation:
    """Let a story happen, until all of its lists are in its experiment, and say what Prometheus and the report made of it."""
    with running(story, broker, redis_url, prometheus) as (pipeline, service):
        job = pipeline.name
        all_in = f'streammetrics_experiment_entered_timestamp_seconds{{job="{job}"}} >= {(start_ms() + HOUR_MS) / 1_000}'
        prometheus.wait_for(all_in, deadline_seconds=PATIENCE_SECONDS)
        (last,) = prometheus.wait_for(verdict(job))
        (least,) = prometheus.query(f"min_over_time({verdict(job)}[10m])")
        alarms = prometheus.query(f'min_over_time(streammetrics_experiment_verdict{{job="{job}", metric="ndcg", k="10"}}[10m]) == -1')
        users = sum(sample.value for sample in prometheus.query(f'streammetrics_experiment_users{{job="{job}", scope="start"}}'))
        text, plain = (streammetrics("report", "--config", service.config, "--format", form) for form in ("text", "json"))
        assert (text.returncode, plain.returncode) == (0, 0), text.stderr + plain.stderr
        words = {experiment["verdict"]["word"] for experiment in json.loads(plain.stdout)["experiments"]}
        return Observation(last.value, least.value, len(alarms), users, text.stdout, words)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    with KafkaBroker() as broker, RedisServer() as redis, PrometheusServer() as prometheus:
        for story in STORIES:
            seen = watch(story, broker, redis.fresh_url(), prometheus)
            print(f"\n{story.name}: {story.says}")
            print(f"Prometheus {prometheus.url}: verdict {seen.code:g} of {seen.users:,.0f} users, least verdict ever {seen.least:g}")
            print(f"\n{seen.text}")
        ramp = watch_ramp(broker, redis.fresh_url(), prometheus, folder)
        print("\nramp: a ranker that is 20 % worse goes 1 → 5 → 25 %")
        print(f"steps made: {', '.join(f'{step} %' for step in ramp.steps)}; the gate said {', then '.join(ramp.words)}: {ramp.reason}")
        print(f"{ENOUGH_USERS} treated users had a list {ramp.enough_seconds:.0f} s after the step to 5 %")
        print(f"from then to the failed gate: {ramp.gate_seconds:.0f} s (target: 300 s)")
        step = watch_broken_step(broker, redis.fresh_url())
        print("\nstep: a ranker that is as good as the control at 5 % breaks at 25 %")
        for when, (word, reason) in zip(("at 5 %", "right after the step", "in the end"), step.answers, strict=True):
            print(f"{when} the gate said {word}: {reason}")
        print(f"from the step to the failed gate: {step.fail_seconds:.0f} s")


if __name__ == "__main__":
    main()
