"""Result files through crashes and a disk that fails: DuckDB reads exactly the integers of `replay` from them, and each verdict once."""

from __future__ import annotations

import contextlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import pytest

from streammetrics.connectors.simulated import Traffic, generate
from streammetrics.events.event_time import pane_start
from tests.servers.kafka import KafkaBroker
from tests.servers.process import wait_until
from tests.servers.redis import RedisServer
from tests.support.command_line import called
from tests.support.real_pipeline import HOUR_MS, Pipeline, Service, start_ms

RECORDS = 2_400
FILE_MS = 600_000
NAMES = "pane_start_ms, pane_ms, experiment, variant, segments, lists, lists_with_feedback, metric, k, numerator, denominator, scale_bits"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def pipeline(kafka_broker: KafkaBroker, redis_server: RedisServer, topic_name: str, directory: Path) -> Pipeline:
    sections: dict[str, dict[str, object]] = {
        "results": {"directory": str(directory), "file_ms": FILE_MS},
        "join": {"gap_ms": 600_000, "attribution_ms": 300_000, "support_users": 1},
        "windows": {"segments": ["surface"]},
        "experiments": {"min_users": 2},
        "exporter": {"gate_stale_ms": 86_400_000},  # the events are hours old, and verdicts of stale data are not sent
    }
    return Pipeline(kafka_broker, redis_server.fresh_url(), topic_name, ["impressions", "feedback"], **sections)


def replayed(pipeline: Pipeline, records: list[Any], folder: Path) -> Path:
    """Replay the records, one file a topic, with the settings of the pipeline. Returns the panes."""
    files = [folder / f"{topic}.ndjson" for topic in pipeline.topics]
    for topic, file in zip(pipeline.topics, files, strict=True):
        file.write_bytes(b"".join(record.value + b"\n" for record in records if record.topic == topic))
    service, panes = pipeline.service(), folder / "replay.parquet"
    service.prepare()
    done = called("replay", *files, "--config", service.config, "--panes", panes, "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    return panes


def rows_of(database: duckdb.DuckDBPyConnection, files: str | Path) -> list[tuple[Any, ...]]:
    return database.execute(f"select {NAMES} from '{files}' where view = 'final' order by all").fetchall()


def test_a_warehouse_reads_the_integers_of_a_replay_through_crashes(pipeline: Pipeline, tmp_path: Path, directory: Path) -> None:
    impressions, feedback = pipeline.topics
    traffic = Traffic(
        users=120, seed=8, start_ms=start_ms(), impressions_per_second=0.3, impressions_topic=impressions, feedback_topic=feedback
    )
    records = [record for record, _ in zip(generate(traffic), range(RECORDS), strict=False)]
    database = duckdb.connect()
    panes = f"{directory}/panes/*/*.parquet"

    def files() -> int:
        return len(list(directory.glob("panes/*/*.parquet")))

    with ExitStack() as stack:
        services = [stack.enter_context(contextlib.closing(pipeline.service())) for _ in range(2)]
        for part in range(3):
            before = files()
            with pipeline.producer() as producer:
                for record in records[part * RECORDS // 3 : (part + 1) * RECORDS // 3]:
                    producer.send(record.topic, record.value, key=record.key, timestamp_ms=record.ts)
            for service in services:
                service.launch()
            wait_until(lambda before=before: files() > before, what="more files are written", deadline_seconds=120)
            if part < 2:
                rows_of(database, panes)  # what is there can be read while more is written
                for service in services:  # in the middle of the work, perhaps of a file
                    service.kill()
        pipeline.write_ends(max(record.ts for record in records) + 2 * HOUR_MS)
        pipeline.assert_exact()
        wanted = rows_of(database, replayed(pipeline, records, tmp_path))
        assert len(wanted) > 2_000
        wait_until(lambda: rows_of(database, panes) == wanted, what="the files have the panes of the replay", deadline_seconds=120)
        assert files() == len({pane_start(row[0], FILE_MS) for row in wanted})
        assert_verdicts(services[0], database, directory)
        assert_series(services, len(wanted))


def assert_verdicts(service: Service, database: duckdb.DuckDBPyConnection, directory: Path) -> None:
    """The newest verdict about each variant is that of the report, and no two neighbouring ones are equal."""
    table = f"'{directory}/verdicts/*/*.parquet'"
    (report,) = [each for each in service.report()["experiments"] if each["experiment"] == "ranker" and each["scope"] == "start"]
    shown = {"": report["verdict"]["word"], **{each["variant"]: each["verdict"]["word"] for each in report["variants"] if each["verdict"]}}

    def newest() -> dict[str, str]:
        found = database.execute(f"select variant, arg_max(verdict, up_to_ms) from {table} where experiment = 'ranker' group by 1")
        return dict(found.fetchall())

    wait_until(lambda: newest() == shown, what="the newest verdicts are in the files", deadline_seconds=120)
    repeated = database.execute(
        f"select * from {table} qualify verdict = lag(verdict) over (partition by experiment, variant, scope order by up_to_ms)"
    )
    assert repeated.fetchall() == []


def assert_series(services: list[Service], rows: int) -> None:
    for service in services:
        wait_until(
            lambda service=service: service.sample("streammetrics_result_files_lag_seconds") == 0,
            what="no final pane waits",
            deadline_seconds=120,
        )
    counts = [
        {status: service.sample("streammetrics_result_files_total", status=status) for status in ("written", "unchanged", "failed")}
        for service in services
    ]
    assert sum(each["unchanged"] for each in counts) > 0, "a process that started found files of the other, or of its last life"
    assert all(each["failed"] == 0 for each in counts)
    assert sum(service.sample("streammetrics_result_rows_total") for service in services) > 0


def test_a_directory_that_cannot_be_written_stops_no_metric_and_loses_nothing(pipeline: Pipeline, directory: Path, tmp_path: Path) -> None:
    impressions, feedback = pipeline.topics
    traffic = Traffic(
        users=40, seed=3, start_ms=start_ms(), impressions_per_second=0.3, impressions_topic=impressions, feedback_topic=feedback
    )
    records = [record for record, _ in zip(generate(traffic), range(400), strict=False)]
    directory.write_text("a file where the directory should be")
    with pipeline.producer() as producer:
        for record in records:
            producer.send(record.topic, record.value, key=record.key, timestamp_ms=record.ts)
    with contextlib.closing(pipeline.service()) as service:
        service.launch()
        service.wait_ready()
        pipeline.write_ends(max(record.ts for record in records) + 2 * HOUR_MS)
        pipeline.assert_exact()
        wait_until(lambda: service.sample("streammetrics_result_files_total", status="failed") > 0, what="a write has failed")
        wait_until(lambda: service.sample("streammetrics_result_files_lag_seconds") > 0, what="panes wait")
        assert service.get("/readyz").status == 200
        assert sum(service.samples()["streammetrics_final_lists_total"].values()) > 0, "the metrics go on"
        assert "results cannot be written to files, trying again" in service.log
        directory.unlink()
        wanted = rows_of(duckdb.connect(), replayed(pipeline, records, tmp_path))

        def arrived() -> bool:
            return (
                directory.is_dir()
                and any(directory.glob("panes/*/*.parquet"))
                and rows_of(duckdb.connect(), f"{directory}/panes/*/*.parquet") == wanted
            )

        wait_until(arrived, what="everything is written once it can be", deadline_seconds=120)
