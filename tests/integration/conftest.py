"""Real servers for the tests in this folder. Each is started once per session, when the first test uses it.

A program that is not installed is an error that names `make servers`. It is never a skip: skipped tests prove nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TypeVar

import pytest

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.store import RedisStore
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.prometheus import PrometheusServer
from tests.tools.servers.redis import RedisCluster, RedisServer
from tests.tools.servers.registry import SchemaRegistry

Shared = KafkaBroker | RedisServer | RedisCluster | PrometheusServer | SchemaRegistry
SharedT = TypeVar("SharedT", bound=Shared)


def _started(server: SharedT, started_servers: list[Shared]) -> Iterator[SharedT]:
    with server:
        started_servers.append(server)
        yield server


@pytest.fixture(scope="session")
def started_servers() -> list[Shared]:
    """The shared servers that were started so far."""
    return []


@pytest.fixture(autouse=True)
def _servers_in_service(started_servers: list[Shared]) -> Iterator[None]:
    """Bring shared servers back after each test, which may freeze, stop or kill them."""
    yield
    for server in started_servers:
        server.revive()


@pytest.fixture(scope="session")
def kafka_broker(started_servers: list[Shared]) -> Iterator[KafkaBroker]:
    yield from _started(KafkaBroker(), started_servers)


@pytest.fixture(scope="session")
def redis_server(started_servers: list[Shared]) -> Iterator[RedisServer]:
    yield from _started(RedisServer(), started_servers)


@pytest.fixture(scope="session")
def schema_registry(started_servers: list[Shared]) -> Iterator[SchemaRegistry]:
    """The shared registry. Tests may freeze it. A test that stops it starts its own, because the schemas would be gone."""
    yield from _started(SchemaRegistry(), started_servers)


@pytest.fixture(scope="session")
def redis_cluster(started_servers: list[Shared]) -> Iterator[RedisCluster]:
    yield from _started(RedisCluster(masters=3), started_servers)


@pytest.fixture(scope="session")
def prometheus_server(started_servers: list[Shared]) -> Iterator[PrometheusServer]:
    yield from _started(PrometheusServer(), started_servers)


@pytest.fixture
def topic_name(started_servers: list[Shared]) -> Iterator[str]:
    """A new topic name. Topics whose names begin with it are deleted after the test: a broker with many topics restarts slowly."""
    name = f"topic-{uuid.uuid4().hex[:12]}"
    yield name
    for server in started_servers:
        if isinstance(server, KafkaBroker):
            server.revive()
            server.delete_topics_of(name)


@pytest.fixture
def topics(kafka_broker: KafkaBroker, topic_name: str) -> tuple[str, str]:
    """Two new topics of four partitions each."""
    names = (f"{topic_name}-shown", f"{topic_name}-clicked")
    for name in names:
        kafka_broker.create_topic(name, partitions=4)
    return names


@pytest.fixture
def namespace() -> str:
    """A new key namespace for a shared Redis or cluster."""
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The URL of an empty database of the shared Redis."""
    return redis_server.fresh_url()


@pytest.fixture
def store(redis_url: str, namespace: str) -> Iterator[RedisStore]:
    """A store in an empty database of the shared Redis. It gives up after 500 ms."""
    store = RedisStore(RedisSettings(url=redis_url, namespace=namespace, socket_timeout_ms=500))
    yield store
    store.close()


@pytest.fixture
def cluster_store(redis_cluster: RedisCluster, namespace: str) -> Iterator[RedisStore]:
    """A store in the shared cluster. It gives up after 500 ms."""
    store = RedisStore(RedisSettings(url=redis_cluster.url, namespace=namespace, cluster=True, socket_timeout_ms=500))
    yield store
    store.close()


@pytest.fixture
def small_redis(namespace: str) -> Iterator[tuple[RedisServer, RedisStore]]:
    """A separate Redis, because the test changes its settings or users."""
    with RedisServer(append_only=False) as server:
        store = RedisStore(RedisSettings(url=server.url, namespace=namespace))
        yield server, store
        store.close()
