"""A running system and a replay of its topics: equal, and with a list that was late online only."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pytest

from streammetrics.connectors.simulated import Traffic, generate
from streammetrics.events.model import Impression
from tests.support.command_line import called
from tests.support.native_json import native_json
from tests.support.real_pipeline import HOUR_MS, Pipeline, start_ms
from tests.support.report_differences import pane_differences
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import wait_until
from tests.tools.servers.redis import RedisServer

RECORDS = 2_000
LATENESS_MS = 6 * HOUR_MS


@pytest.fixture
def pipeline(kafka_broker: KafkaBroker, redis_server: RedisServer, topic_name: str) -> Pipeline:
    results = f"{topic_name}-results"
    kafka_broker.create_topic(results, configs={"cleanup.policy": "compact"})
    sections: dict[str, dict[str, object]] = {
        "kafka": {"results_topic": results},
        "join": {"gap_ms": 600_000, "attribution_ms": 300_000, "support_users": 1},
    }
    return Pipeline(kafka_broker, redis_server.fresh_url(), topic_name, ["impressions", "feedback"], **sections)


def replayed(pipeline: Pipeline, folder: Path, name: str, *words: str) -> Path:
    """Replay the topics, one file each, with the settings of the pipeline; returns the file of panes."""
    files = [folder / f"{topic}.ndjson" for topic in pipeline.topics]
    for topic, file in zip(pipeline.topics, files, strict=True):
        records = sorted(pipeline.records([topic]), key=lambda kept: kept.timestamp_ms)
        file.write_bytes(b"".join((kept.value or b"") + b"\n" for kept in records))
    config, panes = folder / f"{name}.toml", folder / f"{name}.ndjson"
    service = pipeline.service()
    service.prepare()
    config.write_text(service.config.read_text())
    done = called("replay", *files, "--config", config, "--panes", panes, "--quiet", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return panes


def test_a_running_system_equals_a_replay_and_a_late_list_is_the_only_difference(pipeline: Pipeline, tmp_path: Path) -> None:
    impressions, feedback = pipeline.topics
    first = start_ms()
    traffic = Traffic(users=100, seed=4, start_ms=first, impressions_per_second=0.3, impressions_topic=impressions, feedback_topic=feedback)
    records = [record for record, _ in zip(generate(traffic), range(RECORDS), strict=False)]
    last = max(record.ts for record in records)
    online_panes, topic_panes = tmp_path / "online.ndjson", tmp_path / "topic.ndjson"

    with contextlib.closing(pipeline.service()) as service:
        with pipeline.producer() as producer:
            for record in records:
                producer.send(record.topic, record.value, key=record.key, timestamp_ms=record.ts)
        service.launch()
        service.wait_ready()
        pipeline.write_ends(last + 2 * HOUR_MS)
        pipeline.assert_exact()
        late = native_json(Impression("late", "user-late", first + 60_000, ("a", "b")))
        with pipeline.producer() as producer:
            producer.send(impressions, late, key=b"user-late", timestamp_ms=last + 2 * HOUR_MS + 1)
        wait_until(
            lambda: service.report()["counters"].get("late") == 1,
            what="the late list is read",
            deadline_seconds=120,
        )
        done = called("report", "--config", service.config, "--panes", online_panes)
        assert (done.returncode, done.stderr) == (0, "")
        wanted = len(final_panes(pipeline, topic_panes))
        assert wanted > 10

        same = replayed(pipeline, tmp_path, "same")
        patient = replayed(pipeline, tmp_path, "patient", "--set", f"join.lateness_ms={LATENESS_MS}")
        start = (first + 60_000) // 60_000 * 60_000
        for panes in (online_panes, topic_panes):
            assert pane_differences(panes, same) == []
            changed = pane_differences(panes, patient)
            assert [line for line in changed if not line.startswith(f"({start}, '', '', '') ")] == []
            (lists,) = (line for line in changed if " lists: " in line)
            online, offline = map(int, re.findall(r"(?:online|offline) (\d+)", lists))
            assert offline - online == 1


def final_panes(pipeline: Pipeline, path: Path) -> set[int]:
    """Write the records of the results topic to a file, one value per line, when it has all panes; returns their starts."""
    topic = pipeline.settings.kafka.results_topic
    stored = {start for start, _ in pipeline.stored()[1]}

    def arrived() -> set[int]:
        values = [value for *_, value, _ in pipeline._read([topic]) if value is not None]
        path.write_bytes(b"".join(value + b"\n" for value in values))
        return {one["pane_start_ms"] for one in map(json.loads, values) if one["type"] == "pane"}

    wait_until(lambda: len(arrived()) >= len(stored) - 1, what="the topic has the panes")
    return arrived()
