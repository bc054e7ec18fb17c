"""Tests of `doctor` with real servers: findings, fixes, and that it changes nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
import redis

from streammetrics.config import load
from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.connectors.source import Input
from streammetrics.connectors.store import Commit, CommitOutcome
from streammetrics.wiring.engine import build_engine
from tests.support.command_line import called, streammetrics
from tests.support.kafka_member import delete_before, numbered, send
from tests.support.timing import time_bound
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import HOST, free_port
from tests.tools.servers.redis import RedisCluster, RedisServer

BOUND_SECONDS = 15.0
"""The deadline of doctor, plus the time to start a process on a busy machine."""


@pytest.fixture
def topics(kafka_broker: KafkaBroker, topic_name: str) -> list[str]:
    """Impressions, feedback, dead letters."""
    names = [f"{topic_name}-{part}" for part in ("shown", "done", "refused")]
    for name in names:
        kafka_broker.create_topic(name, partitions=3)
    return names


def words(broker: str, url: str, namespace: str, topics: Sequence[str], **more: str) -> list[str]:
    given = {
        "kafka.bootstrap_servers": broker,
        "kafka.topics": ",".join(topics[:2]),
        "kafka.dead_letter_topic": topics[2],
        "redis.url": url,
        "redis.namespace": namespace,
        "http.port": str(free_port()),
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    return [word for key, value in given.items() for word in ("--set", f"{key}={value}")]


def test_a_healthy_setup_has_only_ok_findings(kafka_broker: KafkaBroker, redis_url: str, namespace: str, topics: list[str]) -> None:
    done = called("doctor", *words(kafka_broker.bootstrap, redis_url, namespace, topics))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    for text in (
        "1 broker, cluster id ",
        f"topic {topics[0]}: 3 partitions",
        f"topic {topics[1]}: 3 partitions",
        f"dead-letter topic {topics[2]}: 3 partitions",
        ", standalone, master",
        "maxmemory-policy noeviction",
        "appendonly yes, appendfsync ",
        "the namespace is new",
        "the clocks of this machine and of Redis differ by ",
        "Live numbers come with the first lists, final ones 31 min to 32 min after them",
        "A first verdict comes 31 min to 41 min after the first lists",
        "no problem found",
    ):
        assert text in done.stdout
    assert "fail" not in done.stdout
    assert "warn" not in done.stdout
    assert "\x1b" not in done.stdout, "colours are for terminals"


def test_it_changes_nothing(kafka_broker: KafkaBroker, redis_url: str, namespace: str, topic_name: str) -> None:
    missing = [f"{topic_name}-{part}" for part in ("shown", "done", "refused")]
    done = called("doctor", *words(kafka_broker.bootstrap, redis_url, namespace, missing, kafka__group_id=topic_name))
    assert done.returncode == 1
    with kafka_broker.admin() as admin:
        assert not set(missing) & set(admin.list_topics())
        assert topic_name not in [group["group_id"] for group in admin.list_groups()]
    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
    for name in missing:
        assert f"topic {name} does not exist" in done.stdout
    assert "fix: create it" in done.stdout
    assert "3 failures, 0 warnings" in done.stdout


def test_topics_with_different_partition_counts_are_a_failure(
    kafka_broker: KafkaBroker, redis_url: str, namespace: str, topics: list[str]
) -> None:
    kafka_broker.create_topic(f"{topics[1]}-wider", partitions=4)
    done = called("doctor", *words(kafka_broker.bootstrap, redis_url, namespace, [topics[0], f"{topics[1]}-wider", topics[2]]))
    assert done.returncode == 1
    assert "the topics have different partition counts" in done.stdout


def test_more_worker_processes_than_partitions_are_a_warning(
    kafka_broker: KafkaBroker, redis_url: str, namespace: str, topics: list[str]
) -> None:
    def said(processes: int) -> str:
        done = called("doctor", *words(kafka_broker.bootstrap, redis_url, namespace, topics, worker__processes=str(processes)))
        assert done.returncode == 0, done.stdout
        return done.stdout

    assert "warn  worker.processes is 5, and the topics have 3 partitions: 2 worker processes have nothing to read" in said(5)
    assert "ok    3 worker processes for 3 partitions" in said(3)


def test_a_namespace_with_another_partition_count_is_a_failure(
    kafka_broker: KafkaBroker, redis_url: str, namespace: str, topics: list[str]
) -> None:
    store = RedisStore(RedisSettings(url=redis_url, namespace=namespace))
    store.announce(5)
    store.close()
    done = called("doctor", *words(kafka_broker.bootstrap, redis_url, namespace, topics))
    assert done.returncode == 1
    assert "the namespace has 5 tasks, 0 of them with state" in done.stdout
    assert "the namespace was made for topics with 5 partitions, but the topics have 3" in done.stdout
    assert "start a new redis.namespace" in done.stdout


def test_stored_offsets_are_compared_with_the_records_that_are_left(
    kafka_broker: KafkaBroker, redis_url: str, namespace: str, topics: list[str]
) -> None:
    engine = build_engine(load(None, {}, {}).settings, topics[:2])
    state = engine.open(None)
    state.progress.offsets = [5, 0]
    store = RedisStore(RedisSettings(url=redis_url, namespace=namespace))
    store.announce(3)
    claim = store.claim(1, "token")
    changes = replace(engine.save(state).changes, users={"u7": b"state"}, due={"u7": 1})
    assert store.commit(Commit(1, claim.epoch, "token", claim.seq + 1, changes)) is CommitOutcome.WRITTEN
    store.close()
    place = Input(topics[0], 1)
    send(kafka_broker, place, numbered(20))
    given = words(kafka_broker.bootstrap, redis_url, namespace, topics)
    assert "ok    the topics have all records from the stored offsets on\n" in streammetrics("doctor", *given).stdout
    delete_before(kafka_broker, place, 12)
    done = streammetrics("doctor", *given)
    assert done.returncode == 1
    assert f"fail  Kafka does not hold the next records: {topics[0]} [1]: 7 records (5 to 11) deleted unread" in done.stdout
    skipped = f"{topics[0]}:1:5-11"
    assert f'set kafka.skip_records = ["{skipped}"]' in done.stdout
    left_out = streammetrics("doctor", *given, "--set", f"kafka.skip_records={skipped}")
    assert "ok    the topics have all records from the stored offsets on\n" in left_out.stdout


def test_state_of_other_settings_is_a_failure(kafka_broker: KafkaBroker, redis_url: str, namespace: str, topics: list[str]) -> None:
    engine = build_engine(load(None, {}, {}).settings, topics[:2])
    changes = replace(engine.save(engine.open(None)).changes, users={"u7": b"state"}, due={"u7": 1})
    store = RedisStore(RedisSettings(url=redis_url, namespace=namespace))
    store.announce(3)
    claim = store.claim(1, "token")
    commit = Commit(1, claim.epoch, "token", claim.seq + 1, changes)
    assert store.commit(commit) is CommitOutcome.WRITTEN
    store.close()
    same = called("doctor", *words(kafka_broker.bootstrap, redis_url, namespace, topics))
    assert same.returncode == 0, same.stdout
    assert "the namespace has 3 tasks, 1 of them with state; 1 user with open sessions" in same.stdout
    assert "the namespace fits topics with 3 partitions" in same.stdout
    other = called("doctor", *words(kafka_broker.bootstrap, redis_url, namespace, topics, join__gap_ms="1"))
    assert other.returncode == 1
    assert "the stored state was made with other settings" in other.stdout
    assert "\n          join.gap_ms: stored 1800000; now 1\n" in other.stdout
    off = called("doctor", *words(kafka_broker.bootstrap, redis_url, namespace, topics, experiments__enabled="false"))
    assert off.returncode == 0, off.stdout
    assert "experiments are off, but the state was stored with experiments on" in off.stdout
    measures = called("doctor", *words(kafka_broker.bootstrap, redis_url, namespace, topics, experiments__metrics="ndcg@10"))
    assert measures.returncode == 1
    assert "experiments.enabled = false" in measures.stdout


def test_a_redis_that_may_lose_state_is_reported_with_a_fix(kafka_broker: KafkaBroker, namespace: str, topics: list[str]) -> None:
    with RedisServer(append_only=False, settings={"maxmemory-policy": "allkeys-lru", "save": ""}) as server:
        done = called("doctor", *words(kafka_broker.bootstrap, server.url, namespace, topics))
        assert done.returncode == 1
        assert "maxmemory-policy is allkeys-lru" in done.stdout
        assert "CONFIG SET maxmemory-policy noeviction" in done.stdout
        assert "appendonly is no" in done.stdout
        accepted = called("doctor", *words(kafka_broker.bootstrap, server.url, namespace, topics, redis__allow_eviction="true"))
        assert accepted.returncode == 0
        assert "0 failures, 2 warnings" in accepted.stdout


def test_a_replica_is_a_failure(kafka_broker: KafkaBroker, namespace: str, topics: list[str]) -> None:
    with RedisServer() as server:
        with server.client() as client:
            client.replicaof(HOST, free_port())
        done = called("doctor", *words(kafka_broker.bootstrap, server.url, namespace, topics))
    assert done.returncode == 1
    assert "redis.url: a replica" in done.stdout


def test_no_password_is_printed(kafka_broker: KafkaBroker, namespace: str, topics: list[str]) -> None:
    with RedisServer() as server:
        with server.client() as client:
            client.config_set("requirepass", "hunter2")
        url = server.url.replace("redis://", "redis://:wr0ng@")
        refused = called("doctor", *words(kafka_broker.bootstrap, url, namespace, topics))
        assert refused.returncode == 1
        assert "check redis.username and redis.password" in refused.stdout
        assert "wr0ng" not in refused.stdout + refused.stderr
        environ = {"STREAMMETRICS_REDIS_PASSWORD": "hunter2"}
        accepted = called("doctor", *words(kafka_broker.bootstrap, server.url, namespace, topics), environ=environ)
        assert accepted.returncode == 0
        assert "hunter2" not in accepted.stdout + accepted.stderr


def test_a_cluster_is_recognized(kafka_broker: KafkaBroker, redis_cluster: RedisCluster, namespace: str, topics: list[str]) -> None:
    done = called("doctor", *words(kafka_broker.bootstrap, redis_cluster.url, namespace, topics, redis__cluster="true"))
    assert done.returncode == 0, done.stdout
    assert "cluster, master" in done.stdout
    without_cluster = called("doctor", *words(kafka_broker.bootstrap, redis_cluster.url, namespace, topics))
    assert without_cluster.returncode == 1
    assert "redis.cluster" in without_cluster.stdout


@time_bound(BOUND_SECONDS)
def test_hanging_servers_delay_it_by_seconds_only(
    kafka_broker: KafkaBroker, redis_server: RedisServer, redis_url: str, namespace: str, topics: list[str], seconds_max: float
) -> None:
    kafka_broker.hang()
    redis_server.hang()
    began = time.monotonic()
    done = streammetrics("doctor", *words(kafka_broker.bootstrap, redis_url, namespace, topics))
    assert time.monotonic() - began < seconds_max
    assert done.returncode == 1
    assert done.stdout.count("  fail  ") == 2, done.stdout


@time_bound(BOUND_SECONDS)
def test_unreachable_servers_are_reported_at_once_with_a_fix(namespace: str, seconds_max: float) -> None:
    unused_port = free_port()
    began = time.monotonic()
    done = called("doctor", *words(f"127.0.0.1:{unused_port}", f"redis://127.0.0.1:{unused_port}/0", namespace, ["a", "b", "c"]))
    assert time.monotonic() - began < seconds_max
    assert done.returncode == 1
    assert "correct kafka.bootstrap_servers" in done.stdout
    assert "check that Redis runs, and redis.url" in done.stdout


def test_a_port_in_use_is_a_warning(
    kafka_broker: KafkaBroker, redis_server: RedisServer, redis_url: str, namespace: str, topics: list[str]
) -> None:
    done = called("doctor", *words(kafka_broker.bootstrap, redis_url, namespace, topics, http__port=str(redis_server.port)))
    assert done.returncode == 0
    assert f"cannot listen: {os.strerror(98)}" in done.stdout
