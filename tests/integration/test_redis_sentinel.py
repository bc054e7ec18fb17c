"""State in a Redis that sentinels watch: the product follows a failover, and its numbers stay exact."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer
from pydantic import SecretStr

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.client import place_of
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.connectors.store import CommitOutcome
from streammetrics.errors import StoreError
from streammetrics.events.model import Feedback, Impression
from tests.support.command_line import called
from tests.support.native_json import native_json
from tests.support.real_pipeline import Pipeline, start_ms
from tests.support.redis_store import commit_when_served
from tests.support.store_contract import Owner
from tests.tools.servers.certificates import Authority
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import wait_until
from tests.tools.servers.redis import Guard
from tests.tools.servers.sentinel import PASSWORD, SERVICE, SentinelService

USERS = 60


@pytest.fixture
def service() -> Iterator[SentinelService]:
    with SentinelService() as service:
        yield service


def connection(service: SentinelService, namespace: str, url: str = "", password: str = PASSWORD) -> RedisSettings:
    return RedisSettings(
        url=url or service.url,
        namespace=namespace,
        sentinels=service.addresses,
        sentinel_password=password,
        socket_timeout_ms=500,
    )


def test_a_store_follows_a_failover(service: SentinelService, namespace: str) -> None:
    store = RedisStore(connection(service, namespace))
    try:
        owner, former = Owner(store, 0), service.primary()
        owner.must_commit(users={"a": b"1"}, due={"a": 1})
        service.wait_for_replica()
        last = owner.next(users={"b": b"2"})
        former.kill()
        assert commit_when_served(store, last) is CommitOutcome.WRITTEN
        owner.seq += 1
        assert service.primary() is not former
        assert owner.load("ab").users == {"a": b"1", "b": b"2"}
        assert store.nodes()[0].name == f"service {SERVICE}"
        former.start()  # it says that it is a primary until a sentinel makes it a replica
        owner.must_commit(users={"c": b"3"})
        assert owner.load("abc").users == {"a": b"1", "b": b"2", "c": b"3"}
    finally:
        store.close()


def test_a_store_follows_a_failover_with_tls_and_logins(namespace: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    guard = Guard(authority, "user default on >data-word ~* &* +@all\n", "default", "data-word")
    redis_client = authority.client("streammetrics")
    with SentinelService(guard) as service:
        files = {"ssl_cafile": str(authority.cafile), "ssl_certfile": str(redis_client.certfile), "ssl_keyfile": str(redis_client.keyfile)}
        store = RedisStore(connection(service, namespace).model_copy(update={"password": SecretStr("data-word"), **files}))
        try:
            owner, former = Owner(store, 0), service.primary()
            owner.must_commit(users={"a": b"1"}, due={"a": 1})
            service.wait_for_replica()
            former.kill()
            assert commit_when_served(store, owner.next(users={"b": b"2"})) is CommitOutcome.WRITTEN
            assert owner.load("ab").users == {"a": b"1", "b": b"2"}
        finally:
            store.close()


def test_errors_name_what_is_wrong(service: SentinelService, namespace: str) -> None:
    for wrong, words in (
        (connection(service, namespace, url="redis://other/0"), "No master found for 'other'.*the host of redis.url"),
        (connection(service, namespace, password="wrong"), r"No master found|invalid username-password"),
    ):
        store = RedisStore(wrong)
        with pytest.raises(StoreError, match=words) as caught:
            store.ping()
        assert f"Redis at {place_of(wrong)}" in str(caught.value)
        store.close()
    for sentinel in service.sentinels[:2]:
        sentinel.kill()
    store = RedisStore(connection(service, namespace))
    store.ping()  # one sentinel is enough to find the primary
    store.close()


def send(pipeline: Pipeline, producer: KafkaProducer, first: int) -> None:
    ts = start_ms() + first * 1_000
    for number in range(first, first + USERS):
        user, ts = f"user-{number}", ts + 1_000
        for topic, event in (
            (pipeline.topics[0], Impression(f"list-{number}", user, ts, ("a", "b", "c"), (("ranker", "new" if number % 2 else "old"),))),
            (pipeline.topics[1], Feedback(user, ts + 500, "abc"[number % 3], "click", None, f"list-{number}")),
        ):
            producer.send(topic, native_json(event), key=user.encode(), timestamp_ms=event.ts)


def test_a_failover_changes_no_number(kafka_broker: KafkaBroker, service: SentinelService, topic_name: str) -> None:
    redis = {"sentinels": list(service.addresses), "sentinel_password": PASSWORD, "socket_timeout_ms": 500}
    pipeline = Pipeline(kafka_broker, service.url, topic_name, ["impressions", "feedback"], redis={**redis, "url": service.url})
    with pipeline.producer() as producer:
        send(pipeline, producer, 0)
    with pipeline.service() as process:
        wait_until(lambda: pipeline.committed() >= 2 * USERS, what="the first records are committed")
        former = service.primary()
        former.kill()
        with pipeline.producer() as producer:
            send(pipeline, producer, USERS)
        service.wait_for_failover(former)
        pipeline.write_ends(start_ms() + 9 * 3_600_000)
        pipeline.assert_exact()
        assert process.get("/readyz").status == 200


def test_doctor_reaches_the_primary_through_the_sentinels(
    kafka_broker: KafkaBroker, service: SentinelService, topics: tuple[str, str]
) -> None:
    given = {
        "kafka.bootstrap_servers": kafka_broker.bootstrap,
        "kafka.topics": ",".join(topics),
        "kafka.dead_letter_topic": "",
        "redis.url": service.url,
        "redis.sentinels": ",".join(service.addresses),
        "http.port": "0",
    }
    flags = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
    done = called("doctor", *flags, environ={"STREAMMETRICS_REDIS_SENTINEL_PASSWORD": PASSWORD})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Redis 7" in done.stdout
    assert PASSWORD not in done.stdout
