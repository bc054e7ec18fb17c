"""Exposures on a topic of their own, through a real broker and a real Redis: lists without labels get their variants, also after a kill."""

from __future__ import annotations

import json
import signal
from random import Random

from streammetrics.connectors.kafka.sinks import KafkaSink
from streammetrics.connectors.simulated import Traffic, generate
from streammetrics.connectors.simulated.source import SimulatedRecord
from streammetrics.events.model import Exposure
from tests.support.native_json import native_json
from tests.support.real_pipeline import HOUR_MS, Pipeline, start_ms
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import wait_until

JOIN = {"gap_ms": 600_000, "attribution_ms": 600_000, "lateness_ms": 10_000, "idle_ms": 3_600_000}
VALIDITY_MS = 1_200_000


def send(pipeline: Pipeline, start: int) -> None:
    """Write an hour of lists without labels, and exposures of their users: before, beside or after the lists, and some twice."""
    lists, feedback, exposures = pipeline.topics
    traffic = Traffic(
        users=80, seed=4, start_ms=start, impressions_per_second=0.3, impressions_topic=lists, feedback_topic=feedback, duplicate_rate=0.05
    )
    chance = Random(4)
    with KafkaSink(pipeline.settings.kafka, pipeline.topics) as sink:
        for sent in generate(traffic, until_ms=start + HOUR_MS):
            event = json.loads(sent.value)
            variants = event.pop("experiments", {})
            for experiment, variant in variants.items() if chance.random() < 0.5 else ():
                given = chance.choice(("control", "treatment")) if chance.random() < 0.02 else variant
                exposure = Exposure(event["user_id"], event["ts"] - chance.choice((0, 1, 300, 8_000, -5)), experiment, given)
                for _ in range(chance.choice((1, 1, 2))):
                    value = native_json(exposure)
                    sink.write(SimulatedRecord(exposures, sent.key, exposure.ts, value), exposure.ts)
            sink.write(sent._replace(value=json.dumps(event).encode()), sent.ts)
    pipeline.write_ends(start + 3 * HOUR_MS)


def test_lists_get_the_variants_of_exposures_exactly_and_after_a_kill(kafka_broker: KafkaBroker, redis_url: str) -> None:
    exposures = {"enabled": True, "validity_ms": VALIDITY_MS}
    pipeline = Pipeline(kafka_broker, redis_url, "exposed", ["impressions", "feedback", "exposures"], join=JOIN, exposures=exposures)
    send(pipeline, start_ms())
    with pipeline.service() as killed:
        wait_until(lambda: pipeline.committed() > 300, what="some records are committed")
        killed.signal(signal.SIGKILL)
    with pipeline.service() as service:
        truth = pipeline.assert_exact()
        counts = {reason: sum(count for (name, _), count in truth.counters.items() if name == reason) for reason, _ in truth.counters}
        assert min(counts["exposure"], counts["duplicate"], counts["list_exposed"], counts["list_unexposed"]) > 20
        without_exposure = service.sample("streammetrics_lists_unexposed_total", topic=pipeline.topics[0])
        assert without_exposure == truth.counters["list_unexposed", pipeline.topics[0]]
        variants = {dict(labels)["variant"] for labels in service.samples()["streammetrics_window_lists"]}
        assert {"", "control", "treatment"} <= variants
        assert service.report()["users_open"] == truth.users_open
