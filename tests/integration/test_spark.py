"""Replays on a real Spark with two cores write what `replay` writes, to the last integer."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow
import pyarrow.parquet
import pytest
from kafka import KafkaProducer

from streammetrics import spark as on_spark
from streammetrics.connectors.simulated import SimulatedRecord, Traffic
from streammetrics.errors import CallerError, ConfigError, StreammetricsError
from streammetrics.offline.notebook.replayed import ReplayTables
from streammetrics.offline.notebook.replayed import replay as replayed
from streammetrics.offline.spark.session import spark_session, without_pandas_warning
from tests.offline.spark.samples import GIVEN, by_topic, differing, wrong_clocks
from tests.support.command_line import called
from tests.support.replays import CLEAN, FAULTY, sent, write
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.tools import find_java, find_spark_kafka_jars

TRAFFIC: Traffic = replace(FAULTY, users=600, impressions_per_second=20, late_ms=90_000)
RULES = {**GIVEN, "join.lateness_ms": 20_000}
BLOCK_BYTES = 150_000

pytestmark = pytest.mark.timeout(900)  # Java starts, and compiles what it runs


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    os.environ["JAVA_HOME"] = str(find_java().resolve().parents[1])
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(map(str, find_spark_kafka_jars()))} pyspark-shell"
    with without_pandas_warning():
        session = spark_session("local[2]")
    session.conf.set("spark.sql.files.maxPartitionBytes", str(BLOCK_BYTES))
    yield session
    session.stop()


@contextmanager
def in_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def is_equal(tables: ReplayTables, expected: ReplayTables) -> None:
    assert differing(tables.report, expected.report) == []
    assert tables.panes == expected.panes


@pytest.mark.parametrize("shards", [1, 3])
def test_lines_of_several_files_in_several_blocks(spark: Any, shards: int, tmp_path: Path) -> None:
    records = wrong_clocks(sent(TRAFFIC, 6_000), 0.001, seed=1)
    files = by_topic(records, tmp_path)
    more = tmp_path / "more day.ndjson.gz"
    more.write_bytes(gzip.compress(b"\r\n".join(event.value for event in sent(CLEAN, 600)) + b"\r\n\n"))
    assert files[1].stat().st_size > 3 * BLOCK_BYTES
    expected = replayed([*files, more], RULES, order="log")
    assert expected.report["counters"]["late"]
    assert expected.report["history"]
    is_equal(on_spark.replay(tmp_path, RULES, shards=shards, order="log", spark=spark), expected)


def test_rows_of_parquet(spark: Any, tmp_path: Path) -> None:
    events = [json.loads(event.value) for event in sent(replace(CLEAN, users=300), 4_000)]
    names = ("type", "impression_id", "user_id", "ts", "items", "experiments", "segments", "item_id", "action", "value")
    path = tmp_path / "events.parquet"
    table = pyarrow.Table.from_pylist([{name: event.get(name) for name in names} for event in events])
    pyarrow.parquet.write_table(table, path, row_group_size=500)
    expected = replayed(path, RULES)
    assert expected.report["counters"]["matched"]
    is_equal(on_spark.replay(path, RULES, shards=2, spark=spark), expected)


def test_records_of_a_frame_with_offsets(spark: Any, tmp_path: Path) -> None:
    records = [record for record in sent(replace(TRAFFIC, seed=9), 3_000) if record.value.strip()]  # a file has no blank records
    parts: dict[str, list[SimulatedRecord]] = {}
    for number, record in enumerate(records):
        parts.setdefault(f"{record.topic}:{number % 2}", []).append(record)
    rows = []
    for name, part in parts.items():
        topic, _, partition = name.partition(":")
        rows += [(topic, int(partition), 70 + offset, record.value) for offset, record in enumerate(part)]
    frame = spark.createDataFrame(rows[::-1], "topic string, partition int, offset long, value binary")
    with in_folder(tmp_path):  # so that a file has the name of its partition
        expected = replayed([write(Path(name), part) for name, part in sorted(parts.items())], RULES, order="log")
    replay_result = on_spark.replay(frame, RULES, shards=2, spark=spark)
    places = {place for place, _, _ in differing(replay_result.report, expected.report)}
    assert {place for place in places if not place.startswith(("/inputs/", "/late_inputs/"))} == set(), "offsets of a log, not of lines"
    assert replay_result.panes == expected.panes


def test_offsets_of_kafka(spark: Any, kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    kafka_broker.create_topic("history", partitions=2)
    records = [record for record in sent(TRAFFIC, 1_500) if record.value.strip()]
    first = 100  # of each partition; those before are not read
    producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap)
    for partition in (0, 1):
        for value in [*[b"not read"] * first, *(record.value for record in records[partition::2])]:
            producer.send("history", value, partition=partition)
    producer.close()
    frame = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", kafka_broker.bootstrap)
        .option("subscribe", "history")
        .option("startingOffsets", json.dumps({"history": {"0": first, "1": first}}))
        .option("endingOffsets", "latest")
        .load()
    )
    with in_folder(tmp_path):
        files = [write(Path(f"history:{partition}"), records[partition::2]) for partition in (0, 1)]
        expected = replayed(files, RULES, order="log")
    replay_result = on_spark.replay(frame, RULES, shards=2, spark=spark)
    assert {
        place for place, _, _ in differing(replay_result.report, expected.report) if not place.startswith(("/inputs/", "/late_inputs/"))
    } == set()
    assert [input_position["offset"] for input_position in replay_result.report["inputs"]] == [
        first + len(records[partition::2]) for partition in (0, 1)
    ]
    assert replay_result.panes == expected.panes


def test_a_file_that_is_not_in_order_of_time_is_refused(spark: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "events", sorted(sent(CLEAN, 600), key=lambda record: crc32(record.value)))
    with pytest.raises(
        StreammetricsError, match=r"events is not in order of time.*; sort each file by time before, or use `streammetrics r"
    ):
        on_spark.replay(path, shards=2, spark=spark)
    assert on_spark.replay(path, shards=2, order="log", spark=spark).report["counters"]["late"] > 30


def test_what_cannot_be_read(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.ndjson: cannot be read: .*PATH_NOT_FOUND"):
        on_spark.replay(tmp_path / "missing.ndjson", spark=spark)
    with pytest.raises(CallerError, match="has no column 'offset'; it needs value and offset, and has value"):
        on_spark.replay(spark.createDataFrame([(b"{}",)], "value binary"))
    write(tmp_path / "a.ndjson", sent(CLEAN, 40))
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(ConfigError, match=r"is not named \.parquet, but"):
        on_spark.replay(tmp_path, spark=spark)
    with pytest.raises(ConfigError, match=r"b\.parquet: cannot be read"):
        on_spark.replay(tmp_path / "b.parquet", spark=spark)
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"{}\n" * 100_000)[:-20])
    with pytest.raises(StreammetricsError, match="Spark failed: "):
        on_spark.replay(tmp_path / "cut.gz", spark=spark)


@pytest.mark.usefixtures("spark")
def test_the_command_prints_what_replay_prints(tmp_path: Path) -> None:
    path = write(tmp_path / "events.ndjson", sent(CLEAN, 400))
    words = ["--set", "windows.windows=5m", "--report"]
    ours = called("spark", path, *words, tmp_path / "ours", "--master", "local[2]", "--shards", "2")
    theirs = called("replay", path, *words, tmp_path / "ours")
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout == theirs.stdout
