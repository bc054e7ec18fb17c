"""The topic of results through crashes: the newest record of each key has exactly the integers of the store, read by DuckDB."""

from __future__ import annotations

import contextlib
import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from kafka import KafkaConsumer

from streammetrics.connectors.simulated import Traffic, generate
from streammetrics.reports.result_records import pane_rows
from streammetrics.wiring.reports import build_report_builder
from tests.support.command_line import called
from tests.support.paths import ROOT
from tests.support.real_pipeline import HOUR_MS, PARTITIONS, Pipeline, start_ms
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import wait_until
from tests.tools.servers.redis import RedisServer

RECORDS = 2_400
PAGE = ROOT / "streammetrics" / "offline" / "notebook" / "README.md"
READ = """
    create or replace table newest as
    select * from read_json('{path}', format = 'newline_delimited', union_by_name = true)
    qualify row_number() over (partition by type, pane_start_ms, experiment, variant, segments, scope order by "offset" desc) = 1
"""
SUMS = """
    select pane_start_ms, experiment, variant, segments, lists, sums.metric, sums.k, sums.numerator, sums.denominator
    from newest, unnest(metrics) as each(sums) where type = 'pane'
"""


@pytest.fixture
def pipeline(kafka_broker: KafkaBroker, redis_server: RedisServer, topic_name: str) -> Pipeline:
    topic = f"{topic_name}-results"
    kafka_broker.create_topic(topic, configs={"cleanup.policy": "compact"})
    sections: dict[str, dict[str, object]] = {
        "kafka": {"results_topic": topic},
        "join": {"gap_ms": 600_000, "attribution_ms": 300_000, "support_users": 1},
        "windows": {"segments": ["surface"]},
        "experiments": {"min_users": 2},
        "exporter": {"gate_stale_ms": 86_400_000},  # the events are hours old, and verdicts of stale data are not sent
    }
    return Pipeline(kafka_broker, redis_server.fresh_url(), topic_name, ["impressions", "feedback"], **sections)


def send(pipeline: Pipeline, records: list[Any]) -> None:
    with pipeline.producer() as producer:
        for record in records:
            producer.send(record.topic, record.value, key=record.key, timestamp_ms=record.ts)


def stored_sums(pipeline: Pipeline) -> set[tuple[object, ...]]:
    """The integers of all final panes in the store."""
    builder = build_report_builder(pipeline.settings, pipeline.engine)
    for task, view in pipeline.views().items():
        builder.update(task, view)
    layout, pane_ms = builder.layout, builder.rules.pane_ms
    panes = builder.final_panes(builder.report(PARTITIONS), 0)
    rows = (row for start, pane in panes for row in pane_rows(start, pane, final=True, pane_ms=pane_ms, layout=layout))
    return {(*row[:1], *row[2:5], row.lists, row.metric, row.k, row.numerator, row.denominator) for row in rows if row.view == "final"}


def _segments(line: dict[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in line["segments"].items())


def _read_by_pandas(pipeline: Pipeline) -> set[tuple[object, ...]]:
    """Run the lines of the page."""
    match = re.search(r"```python\n(records = .*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None
    lines = match[1].replace("streammetrics-results", pipeline.settings.kafka.results_topic)
    names: dict[str, Any] = {"KafkaConsumer": KafkaConsumer, "json": json, "pd": pd}
    exec(lines.replace("kafka:9092", pipeline.settings.kafka.bootstrap_servers[0]), names)
    columns = ["pane_start_ms", "experiment", "variant", "segments", "lists", "metric", "k", "numerator", "denominator"]
    return set(names["panes"][columns].itertuples(index=False, name=None))


def test_a_warehouse_gets_the_integers_of_the_store_through_crashes(pipeline: Pipeline, tmp_path: Path) -> None:
    impressions, feedback = pipeline.topics
    traffic = Traffic(
        users=120, seed=8, start_ms=start_ms(), impressions_per_second=0.3, impressions_topic=impressions, feedback_topic=feedback
    )
    records = [record for record, _ in zip(generate(traffic), range(RECORDS), strict=False)]
    path = tmp_path / "results.ndjson"
    topic = pipeline.settings.kafka.results_topic

    def read() -> int:
        """Write the topic to a file as a sink connector does, and return its number of records."""
        kept = [value for *_, value, _ in pipeline._read([topic])]
        lines = [b'{"offset":%d,%s' % (at, value[1:]) for at, value in enumerate(kept) if value is not None]
        path.write_bytes(b"\n".join(lines) + b"\n")
        return len(lines)

    with ExitStack() as stack:
        services = [stack.enter_context(contextlib.closing(pipeline.service())) for _ in range(2)]
        for part in range(3):
            send(pipeline, records[part * RECORDS // 3 : (part + 1) * RECORDS // 3])
            for service in services:
                service.launch()
            for service in services:
                service.wait_ready()
            before = read() if part else 0
            wait_until(lambda before=before: read() > before, what="more results are sent")
            if part < 2:
                for service in services:  # in the middle of the work, perhaps of a write
                    service.kill()
        pipeline.write_ends(max(record.ts for record in records) + 2 * HOUR_MS)
        pipeline.assert_exact()
        wanted = stored_sums(pipeline)
        database = duckdb.connect()

        def arrived() -> bool:
            read()
            database.execute(READ.format(path=path))
            return set(database.execute(SUMS).fetchall()) == wanted

        wait_until(arrived, what="the topic has every final pane of the store and nothing else")
        assert len(wanted) > 2_000
        (repeated,) = database.execute(f"select (select count(*) from '{path}') - (select count(*) from newest)").fetchall()
        assert repeated[0] > 0, "two processes and two crashes repeat records"
        panes = tmp_path / "panes.ndjson"
        done = called("report", "--config", services[0].config, "--panes", panes)
        assert (done.returncode, done.stderr) == (0, "")
        lines = [json.loads(line) for line in panes.read_text(encoding="utf-8").splitlines()]
        groups = {(line["pane_start_ms"], line["experiment"], line["variant"], _segments(line), line["lists"]) for line in lines}
        assert groups == {row[:5] for row in wanted}
        assert _read_by_pandas(pipeline) == wanted
        verdicts = database.execute("select experiment, variant, treatment from newest where type = 'verdict' and users > 0").fetchall()
        assert {*verdicts} >= {("ranker", "", "treatment"), ("ranker", "treatment", "treatment")}
