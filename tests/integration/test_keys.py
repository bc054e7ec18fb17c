"""Records that miss their user's partition, on a real broker: found in the log, the report, the series and by `doctor`.

Each case sends the same lists and clicks. Only the keys and the partitioner differ.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from streammetrics.connectors.kafka.partitioner import partition_of
from streammetrics.events.model import Feedback, Impression
from tests.support.command_line import called
from tests.support.native_json import native_json
from tests.support.real_pipeline import PARTITIONS, Pipeline, as_toml, start_ms
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import wait_until
from tests.tools.servers.redis import RedisServer

USERS = 150
PROBLEM = "of users have events on several partitions"
WAY_OUT = "streammetrics repartition"

Place = Callable[[str], int]


def murmur2(user: str) -> int:
    return partition_of(user, PARTITIONS)


def crc32(user: str) -> int:
    return zlib.crc32(user.encode()) % PARTITIONS


RANDOM = random.Random(5)


def anywhere(user: str) -> int:
    return RANDOM.randrange(PARTITIONS)


@dataclass(frozen=True)
class Keys:
    """How a case sends: the partition of lists and of clicks, whether records have keys, and whether users meet."""

    name: str
    lists: Place
    clicks: Place
    has_keys: bool
    is_sound: bool


CASES = (
    Keys("default", murmur2, murmur2, has_keys=True, is_sound=True),
    Keys("crc32", crc32, crc32, has_keys=True, is_sound=True),
    Keys("none", anywhere, anywhere, has_keys=False, is_sound=False),
    Keys("mixed", murmur2, crc32, has_keys=True, is_sound=False),
)


@dataclass(frozen=True)
class Result:
    keys: Keys
    report: dict[str, object]
    metrics: str
    log: str
    doctor: str
    doctor_code: int


@pytest.fixture(scope="module", params=CASES, ids=lambda keys: keys.name)
def result(
    request: pytest.FixtureRequest, kafka_broker: KafkaBroker, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Result:
    keys: Keys = request.param
    pipeline = Pipeline(kafka_broker, redis_server.fresh_url(), f"keys-{keys.name}", ["impressions", "feedback"])
    ts = start_ms()
    with pipeline.producer() as producer:
        for number in range(USERS):
            user = f"user-{number}"
            key = user.encode() if keys.has_keys else None
            impression = Impression(f"r{number}", user, ts + number, ("a", "b"))
            clicked = Feedback(user, ts + number + 300, "b", "click", impression_id=f"r{number}")
            producer.send(pipeline.topics[0], native_json(impression), key=key, partition=keys.lists(user), timestamp_ms=impression.ts)
            producer.send(pipeline.topics[1], native_json(clicked), key=key, partition=keys.clicks(user), timestamp_ms=clicked.ts)
    with pipeline.service() as service:
        wait_until(lambda: service.report().get("counters", {}).get("events") == 2 * USERS, what="all events are counted")
        report, metrics, log = service.report(), service.get("/metrics").text, service.log_path.read_text(encoding="utf-8")
    config = tmp_path_factory.mktemp(keys.name) / "streammetrics.toml"
    config.write_text(as_toml({**pipeline.sections, "http": {"port": 0}}), encoding="utf-8")
    done = called("doctor", "--config", config)
    return Result(keys, report, metrics, log, done.stdout, done.returncode)


def test_the_report_shows_users_on_several_partitions(result: Result) -> None:
    user_partitions, warnings = result.report["user_partitions"], str(result.report["warnings"])
    assert isinstance(user_partitions, dict)
    assert user_partitions["users_sampled"] == USERS
    if result.keys.is_sound:
        assert (user_partitions["on_several"], PROBLEM in warnings) == (0, False)
    else:
        assert user_partitions["on_several"] > 0.4 * USERS
        assert PROBLEM in warnings
        assert WAY_OUT in warnings


def test_the_series_has_the_share(result: Result) -> None:
    line = next(line for line in result.metrics.splitlines() if line.startswith("streammetrics_users_on_several_partitions_ratio"))
    assert (float(line.split()[1]) == 0) == result.keys.is_sound


def test_the_log_warns_once(result: Result) -> None:
    warnings = [json.loads(line) for line in result.log.splitlines() if PROBLEM in line]
    assert [line["level"] for line in warnings] == ([] if result.keys.is_sound else ["warning"])
    assert all(WAY_OUT in line["fix"] for line in warnings)


def test_doctor_fails_with_the_way_out_only_if_users_do_not_meet(result: Result) -> None:
    assert result.doctor_code == (0 if result.keys.is_sound else 1), result.doctor
    assert (PROBLEM in result.doctor) == (WAY_OUT in result.doctor) == (not result.keys.is_sound), result.doctor
    expected = {
        "default": "all topics are partitioned by murmur2",
        "crc32": "all topics are partitioned by CRC32 (librdkafka)",
        "none": "usable records have no key",
        "mixed": "the topics are partitioned by different partitioners",
    }
    assert expected[result.keys.name] in result.doctor
    assert "are users" not in result.doctor
