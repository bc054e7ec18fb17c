"""Real processes killed, frozen and cut off while traffic flows: afterwards every stored integer equals brute force.

What must come out is computed from the records as they lie in the partitions at the end, so a producer that had to send
twice changes nothing but the question.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any, Self

import pytest
from kafka import KafkaProducer

from streammetrics.connectors.redis.keys import TaskKeys
from streammetrics.connectors.simulated import Traffic, generate
from streammetrics.engine.task_state import decode_control
from tests.support.faults import EXECUTED, JUDGED, ReplyThief
from tests.support.real_pipeline import HOUR_MS, PARTITIONS, Pipeline, Service, start_ms
from tests.support.timing import time_bound
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import ServerError, wait_until
from tests.tools.servers.redis import RedisCluster, RedisServer

SEED = 20
SESSION_SECONDS = 2.0
RECOVERY_SECONDS_MAX = SESSION_SECONDS + 2.0
RECORDS_PER_SECOND = 150
SECTIONS: dict[str, dict[str, object]] = {
    "kafka": {"session_timeout_ms": int(SESSION_SECONDS * 1_000)},
    "join": {"gap_ms": 600_000, "attribution_ms": 600_000, "lateness_ms": 10_000, "idle_ms": 3_600_000},
    "windows": {"segments": ["surface"]},
    "redis": {"socket_timeout_ms": 1_000},
}


class Stream:
    """Traffic with faults, sent at an even pace from `__enter__` to `__exit__`; then a last event on every input."""

    def __init__(self, pipeline: Pipeline) -> None:
        impressions, feedback = pipeline.topics
        self._pipeline = pipeline
        self._traffic = Traffic(
            users=200,
            seed=SEED,
            start_ms=start_ms(),
            impressions_per_second=0.5,
            feedback_without_id_rate=0.2,
            duplicate_rate=0.05,
            late_rate=0.03,
            late_ms=60_000,
            malformed_rate=0.03,
            impressions_topic=impressions,
            feedback_topic=feedback,
        )
        self._newest = self._traffic.start_ms
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, name="stream", daemon=True)
        self._failure: BaseException | None = None

    def _send(self) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self._pipeline.broker.bootstrap,
            acks="all",
            linger_ms=5,
            delivery_timeout_ms=60_000,
            reconnect_backoff_max_ms=500,
        )
        try:
            began = time.monotonic()
            for sent, record in enumerate(generate(self._traffic), start=1):
                producer.send(record.topic, record.value, key=record.key, timestamp_ms=record.ts)
                self._newest = max(self._newest, record.ts)
                if self._stop.wait(max(0.0, began + sent / RECORDS_PER_SECOND - time.monotonic())):
                    break
            producer.flush(timeout=60)
        except BaseException as error:
            self._failure = error
        finally:
            producer.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        self._thread.join(90)
        if kind is None:
            if self._failure is not None:
                raise self._failure
            self._pipeline.write_ends(self._newest + 2 * HOUR_MS)


def standings(pipeline: Pipeline, redis: RedisServer) -> dict[int, tuple[int, int]]:
    """Each task's epoch and seq, past the product."""
    database = int(pipeline.settings.redis.url.get_secret_value().rpartition("/")[2])
    with redis.client(db=database) as client:
        values = {task: client.hmget(TaskKeys.of(pipeline.name, task).ctl, "epoch", "seq") for task in range(PARTITIONS)}
    return {task: (int(epoch or 0), int(seq or 0)) for task, (epoch, seq) in values.items()}


def owned(service: Service) -> set[int]:
    """The tasks that a process works on, by its own page; none before its port is open."""
    with contextlib.suppress(OSError):
        return {int(dict(labels)["partition"]) for labels in service.series("streammetrics_lag_records")}
    return set()


def wait_until_all_are_owned(*services: Service) -> None:
    """Wait until these processes share all tasks and each has some."""

    def shared() -> bool:
        tasks = [owned(service) for service in services]
        return all(tasks) and sum(map(len, tasks)) == len(set().union(*tasks)) == PARTITIONS

    wait_until(shared, what=f"{len(services)} processes share {PARTITIONS} tasks")


def wait_for_commits(pipeline: Pipeline, records: int) -> None:
    """Wait until so many more records are behind the committed offsets."""
    target = pipeline.committed() + records
    wait_until(lambda: pipeline.committed() >= target, what=f"{records} more records are committed")


def commits(service: Service, status: str) -> float:
    """How many commits ended so. The worker counts one when it takes the answer, a moment after Redis has it."""
    return service.sample("streammetrics_commits_total", status=status)


def says(service: Service, path: str, *words: str) -> bool:
    with contextlib.suppress(OSError):
        text = service.get(path).text
        return all(word in text for word in words)
    return False


def assert_nothing_lost_nothing_twice(pipeline: Pipeline) -> None:
    """Redis equals brute force, and the dead letters hold all that was refused: some perhaps more than once, nothing else."""
    truth = pipeline.assert_exact()
    assert {reason for reason, _ in truth.counters} >= {"matched", "late", "duplicate", "orphan", "bad_json"}
    letters = {
        (headers["topic"], int(headers["partition"]), int(headers["offset"])): (headers["reason"], value)
        for headers, value in pipeline.letters()
    }
    assert letters == truth.refused


@pytest.fixture
def redis_of_its_own() -> Iterator[RedisServer]:
    """For tests that change what the server keeps."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def pipeline(kafka_broker: KafkaBroker, redis_of_its_own: RedisServer, topic_name: str) -> Pipeline:
    return Pipeline(kafka_broker, redis_of_its_own.url, topic_name, ["impressions", "feedback"], **SECTIONS)


@contextmanager
def running(pipeline: Pipeline, count: int, **sections: Any) -> Iterator[list[Service]]:
    """So many processes that share the tasks."""
    with ExitStack() as stack:
        services = [stack.enter_context(contextlib.closing(pipeline.service(**sections))) for _ in range(count)]
        for service in services:
            service.launch()
        for service in services:
            service.wait_ready()
        wait_until_all_are_owned(*services)
        yield services


@pytest.mark.timeout(1_200)
@time_bound(RECOVERY_SECONDS_MAX)
def test_kills_lose_nothing_and_count_nothing_twice(pipeline: Pipeline, redis_of_its_own: RedisServer, seconds_max: float) -> None:
    """One of two processes is killed and the other takes over, or both are killed at once. The simulation kills at thousands of other
    moments."""
    chance = Random(SEED)
    recoveries = []
    fates = ["one"] * 3 + ["both"]
    chance.shuffle(fates)
    with running(pipeline, 2) as services:
        with Stream(pipeline):
            for fate in fates:
                wait_for_commits(pipeline, chance.randint(1, 150))
                if fate == "both":
                    for service in services:
                        service.kill()
                else:
                    victim = chance.choice(services)
                    tasks = owned(victim)
                    victim.kill()
                    recoveries.append(seconds_until_taken_over(pipeline, redis_of_its_own, tasks))
                for service in services:
                    if not service.alive:
                        service.launch()
                wait_until_all_are_owned(*services)
            wait_for_commits(pipeline, 100)
        print(f"from kill -9 to the first commit of the new owner: {sorted(round(seconds, 2) for seconds in recoveries)} s")
        assert_nothing_lost_nothing_twice(pipeline)
        assert max(recoveries) <= seconds_max


def seconds_until_taken_over(pipeline: Pipeline, redis: RedisServer, tasks: set[int]) -> float:
    """How long from now until each of these tasks has a commit of a new owner."""
    began = time.monotonic()
    before = standings(pipeline, redis)

    def taken_over() -> bool:
        now = standings(pipeline, redis)
        return all(now[task][0] > before[task][0] and now[task][1] > before[task][1] for task in tasks)

    wait_until(taken_over, what=f"tasks {sorted(tasks)} have commits of a new owner")
    return time.monotonic() - began


def test_a_frozen_owner_that_wakes_up_is_fenced(pipeline: Pipeline, redis_of_its_own: RedisServer) -> None:
    """Whether a sleeper wakes up with a commit in hand is chance, so it sleeps until that has happened."""
    chance = Random(SEED)
    with running(pipeline, 2, worker={"commit_ms": 20, "commit_behind_ms": 60}) as services:
        with Stream(pipeline):
            fenced = 0.0
            for _ in range(10):
                wait_for_commits(pipeline, chance.randint(1, 150))
                sleeper = services[0]
                tasks = owned(sleeper)
                sleeper.hang()
                seconds_until_taken_over(pipeline, redis_of_its_own, tasks)
                sleeper.resume()
                wait_until_all_are_owned(*services)
                fenced = sleeper.sample("streammetrics_commits_total", status="fenced")
                if fenced:
                    break
            assert fenced > 0
        assert_nothing_lost_nothing_twice(pipeline)


def test_a_commit_whose_reply_is_lost_counts_once(pipeline: Pipeline, redis_of_its_own: RedisServer) -> None:
    with ExitStack() as stack:
        thief = stack.enter_context(ReplyThief(redis_of_its_own.port))
        (service,) = stack.enter_context(running(pipeline, 1, redis={"url": f"redis://127.0.0.1:{thief.port}/0"}))
        with Stream(pipeline):
            for _ in range(3):
                wait_for_commits(pipeline, 50)
                thief.steal(EXECUTED)
                wait_until(lambda: thief.satisfied, what="a reply was lost")
            wait_for_commits(pipeline, 50)
            wait_until(lambda: commits(service, "already") == 3, what="three commits were known to the store")
            # The client asks again by itself twice: with those replies lost too, it is the worker who must ask again.
            thief.steal(EXECUTED, JUDGED, JUDGED)
            wait_until(lambda: thief.satisfied, what="the client has given up")
            wait_for_commits(pipeline, 50)
            wait_until(lambda: commits(service, "already") == 4, what="a fourth one was known")
            assert commits(service, "failed") == 1
        assert_nothing_lost_nothing_twice(pipeline)


def test_a_broker_that_is_killed_and_returns(pipeline: Pipeline) -> None:
    broker = pipeline.broker
    with running(pipeline, 1) as (service,):
        with Stream(pipeline):
            wait_for_commits(pipeline, 100)
            broker.kill()
            wait_until(lambda: says(service, "/readyz", "source: "), what="/readyz names the source")
            assert says(service, "/healthz", "ok")
            broker.start()
            service.wait_ready()
            wait_for_commits(pipeline, 100)
            assert service.alive
            assert_same_process(service)
        assert_nothing_lost_nothing_twice(pipeline)


def test_a_redis_that_is_killed_and_returns(pipeline: Pipeline, redis_of_its_own: RedisServer) -> None:
    with running(pipeline, 1) as (service,):
        with Stream(pipeline):
            for _ in range(3):
                wait_for_commits(pipeline, 100)
                redis_of_its_own.kill()
                wait_until(lambda: says(service, "/readyz", "store: "), what="/readyz names the store")
                assert says(service, "/healthz", "ok")
                redis_of_its_own.start()
                service.wait_ready()
            wait_for_commits(pipeline, 100)
            assert_same_process(service)
        assert_nothing_lost_nothing_twice(pipeline)


@pytest.mark.parametrize("lost", ["commits", "a claim and commits"])
def test_a_redis_that_loses_its_last_writes(pipeline: Pipeline, redis_of_its_own: RedisServer, lost: str) -> None:
    """As after a failover to a replica that lagged: state, offsets and watermark go back together, and are read again."""
    kept = redis_of_its_own.directory / "appendonlydir"
    earlier = redis_of_its_own.directory / "earlier"
    with running(pipeline, 1) as (service,):
        with Stream(pipeline):
            wait_for_commits(pipeline, 200)
            shutil.copytree(kept, earlier)
            if lost != "commits":
                service.kill()
                service.start()
            wait_for_commits(pipeline, 300)
            after = pipeline.committed()
            redis_of_its_own.kill()
            shutil.rmtree(kept)
            earlier.rename(kept)
            redis_of_its_own.start()
            assert pipeline.committed() < after
            wait_until(lambda: service.sample("streammetrics_commits_total", status="conflict") > 0, what="a commit meets the older state")
            wait_for_commits(pipeline, 400)
            assert_same_process(service)
        assert_nothing_lost_nothing_twice(pipeline)


@pytest.mark.parametrize(
    ("role", "reason"),
    [
        ("worker", "the store has lost all state of task"),
        ("all", "the store has lost all state of task|it was deleted or flushed while it was shown"),  # as who notices first says
    ],
)
def test_a_redis_that_loses_everything_stops_the_worker_with_the_reason(
    pipeline: Pipeline, redis_of_its_own: RedisServer, role: str, reason: str
) -> None:
    with running(pipeline, 1, worker={"role": role}) as (service,), Stream(pipeline):
        wait_for_commits(pipeline, 100)
        with redis_of_its_own.client() as client:
            client.flushall()
        assert service.wait_for_exit() == 1
        assert re.search(reason, service.log)
        assert "another worker" not in service.log


@pytest.mark.parametrize("name", ["users", "due"])  # one that the exporter reads, and one that it does not
def test_a_redis_that_loses_a_key_stops_the_worker_with_its_name(pipeline: Pipeline, redis_of_its_own: RedisServer, name: str) -> None:
    with running(pipeline, 1) as (service,), Stream(pipeline):
        wait_for_commits(pipeline, 100)
        key = getattr(TaskKeys.of(pipeline.name, 0), name)
        with redis_of_its_own.client() as client:
            assert client.delete(key) == 1
        assert service.wait_for_exit() == 1
        assert f"Redis has lost a part of the state of task 0: {key} is missing" in service.log
        for _ in range(2):
            with pytest.raises(ServerError, match="lost a part of the state of task 0"):
                service.start()


def assert_same_process(service: Service) -> None:
    """It has started once and not given up."""
    assert service.alive
    assert service.log.count('"event": "stopped"') == 0


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_a_primary_of_a_cluster_that_is_away_holds_up_its_own_tasks_only(kafka_broker: KafkaBroker, topic_name: str, how: str) -> None:
    """With `cluster-require-full-coverage no`; with `yes`, which is Redis' default, the other primaries refuse to serve as well."""
    with RedisCluster(masters=3, settings={"cluster-require-full-coverage": "no"}) as cluster:
        sections = {**SECTIONS, "redis": {**SECTIONS["redis"], "cluster": True}}
        pipeline = Pipeline(kafka_broker, cluster.url, topic_name, ["impressions", "feedback"], **sections)
        with cluster.client() as client:
            port_of = {task: int(client.get_node_from_key(TaskKeys.of(topic_name, task).ctl).port) for task in range(PARTITIONS)}
        node = next(node for node in cluster.nodes[1:] if node.port in port_of.values())
        others = {task for task, port in port_of.items() if port != node.port}
        assert others
        with pipeline.store() as store, pipeline.service(worker={"role": "worker", "commit_ms": 200}) as service:

            def committed() -> int:
                controls = [decode_control(view.control) for view in store.view(others, {}).values()]
                return sum(offset or 0 for control in controls for offset in control.progress.offsets)

            with Stream(pipeline):
                wait_for_commits(pipeline, 100)
                node.kill() if how == "killed" else node.hang()
                wait_until(lambda: says(service, "/readyz", "store: "), what="/readyz names the store")
                before = committed()
                wait_until(lambda: committed() >= before + 300, what="the other tasks go on")
                node.start() if how == "killed" else node.resume()
                service.wait_ready()
            assert_same_process(service)
            assert_nothing_lost_nothing_twice(pipeline)
