"""Real servers for the tests of this folder: each is started once a session, when the first test asks for it.

A program that is not installed is an error which names `make servers`, never a skip: a suite that skips its servers
proves nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.servers.kafka import KafkaBroker
from tests.servers.prometheus import PrometheusServer
from tests.servers.redis import RedisCluster, RedisServer

Shared = KafkaBroker | RedisServer | RedisCluster | PrometheusServer


@pytest.fixture(scope="session")
def started_servers() -> list[Shared]:
    """The servers that the session shares and has started so far."""
    return []


@pytest.fixture(autouse=True)
def _servers_in_service(started_servers: list[Shared]) -> Iterator[None]:
    """A test may freeze, stop or kill a shared server; the next test finds it in service."""
    yield
    for server in started_servers:
        server.revive()


@pytest.fixture(scope="session")
def kafka_broker(started_servers: list[Shared]) -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        started_servers.append(broker)
        yield broker


@pytest.fixture(scope="session")
def redis_server(started_servers: list[Shared]) -> Iterator[RedisServer]:
    with RedisServer() as server:
        started_servers.append(server)
        yield server


@pytest.fixture(scope="session")
def redis_cluster(started_servers: list[Shared]) -> Iterator[RedisCluster]:
    with RedisCluster(masters=3) as cluster:
        started_servers.append(cluster)
        yield cluster


@pytest.fixture(scope="session")
def prometheus_server(started_servers: list[Shared]) -> Iterator[PrometheusServer]:
    with PrometheusServer() as server:
        started_servers.append(server)
        yield server


@pytest.fixture
def topic_name() -> str:
    """A topic name that nobody has used; the topic does not exist yet."""
    return f"topic-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def namespace() -> str:
    """A key namespace that nobody has used, for a shared Redis or cluster."""
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """An empty database of the shared Redis, this test's own."""
    return redis_server.fresh_url()
