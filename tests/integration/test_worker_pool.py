"""`streammetrics run --workers N` between a real broker and a real Redis: one port for all processes, and exact results whatever dies."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from streammetrics.events.model import Feedback, Impression
from tests.support.native_json import native_json
from tests.support.real_pipeline import PARTITIONS, Pipeline, Service, start_ms
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import wait_until

TWO = {"processes": 2, "commit_ms": 200, "commit_behind_ms": 600}


@pytest.fixture
def pipeline(kafka_broker: KafkaBroker, redis_url: str, topic_name: str) -> Pipeline:
    return Pipeline(kafka_broker, redis_url, topic_name, ["impressions", "feedback"])


def produce(pipeline: Pipeline, first: int, count: int, clicker: str = "u") -> None:
    """Send so many lists of the users u0, u1 …, and as many clicks of the users whose names begin with `clicker`.

    Without lists, clicks would wait until that input is idle.
    """
    with pipeline.producer() as producer:
        for number in range(first, first + count):
            user = f"u{number}"
            events = Impression(f"l{number}", user, start_ms(), ("any",)), Feedback(f"{clicker}{number}", start_ms(), "any", "click")
            for topic, event in zip(pipeline.topics, events, strict=True):
                producer.send(topic, native_json(event), key=event.user_id.encode())


def logged(service: Service, event: str) -> list[dict[str, Any]]:
    lines = (json.loads(line) for line in service.log.splitlines() if line.startswith("{") and line.endswith("}"))
    return [line for line in lines if line["event"].startswith(event)]


def pids(service: Service) -> dict[str, int]:
    """Return the process id of each worker by name, of its last start."""
    return {line["worker"]: line["pid"] for line in logged(service, "worker process started")}


def members(pipeline: Pipeline) -> list[Any]:
    """Return the members of the group. A new broker describes no group until its first one exists, but it lists them."""
    with pipeline.broker.admin() as admin:
        if pipeline.name not in [group["group_id"] for group in admin.list_groups()]:
            return []
        return list(admin.describe_groups([pipeline.name])[pipeline.name]["members"])


def lagging_inputs(service: Service) -> int:
    return len(service.series("streammetrics_lag_records"))


def test_one_port_covers_all_processes(pipeline: Pipeline) -> None:
    with pipeline.service(worker=TWO, kafka={"group_instance_id": "pool"}) as service:
        wait_until(lambda: lagging_inputs(service) == 2 * PARTITIONS, what="the inputs of both processes have a lag")
        assert {member["group_instance_id"] for member in members(pipeline)} == {"pool-1", "pool-2"}
        produce(pipeline, 0, 100)
        wait_until(lambda: service.sample("streammetrics_cached_users") > 0, what="users are in memory")
        wait_until(lambda: service.report().get("counters", {}).get("events") == 200, what="the report covers both")
        assert service.get("/healthz").status == service.get("/readyz").status == 200
        assert service.sample("streammetrics_source_up") == service.sample("streammetrics_store_up") == 1
        assert service.sample("streammetrics_commits_total", status="written") >= PARTITIONS
        descriptors = len(list(Path(f"/proc/{service.pid}/fd").iterdir()))
        assert service.sample("process_open_fds") > descriptors + 2 * 5
        wait_until(lambda: {line["worker"] for line in logged(service, "task claimed")} == {"1", "2"}, what="both claim tasks")
        assert {line["task"] for line in logged(service, "task claimed")} == set(range(PARTITIONS))
        pipeline.assert_exact()


def test_a_killed_process_is_started_again_and_nothing_is_lost(pipeline: Pipeline) -> None:
    with pipeline.service(worker=TWO) as service:
        produce(pipeline, 0, 200)
        wait_until(lambda: pipeline.committed() == 400, what="the first events are committed")
        commits = service.sample("streammetrics_commits_total", status="written")
        for tries in (1, 2):
            os.kill(pids(service)["2"], signal.SIGKILL)
            wait_until(lambda: "worker 2: was ended by SIGKILL" in service.get("/readyz").text, what="/readyz names the process")
            assert service.get("/healthz").status == 200
            wait_until(lambda: len(logged(service, "worker process started")) == 2 + tries, what="it starts again")  # noqa: B023
        produce(pipeline, 200, 200)
        service.wait_ready()
        pipeline.assert_exact()
        assert [line["restart_seconds"] for line in logged(service, "worker process ended, starting it again")] == [1.0, 2.0]
        assert service.sample("streammetrics_commits_total", status="written") >= commits


def test_sigterm_to_the_parent_commits_everything_and_leaves_the_group(pipeline: Pipeline) -> None:
    patient = {"worker": {"processes": 2, "commit_ms": 60_000}, "kafka": {"session_timeout_ms": 60_000}}
    with pipeline.service(**patient) as service:
        wait_until(lambda: len(members(pipeline)) == 2, what="both processes are members of the group")
        wait_until(lambda: lagging_inputs(service) == 2 * PARTITIONS, what="all tasks are claimed")
        before = pipeline.committed()
        produce(pipeline, 0, 50, clicker="clicker")
        wait_until(lambda: service.sample("streammetrics_cached_users") == 100, what="all lists and all clicks are read")
        assert pipeline.committed() == before
        processes = pids(service)
        service.signal(signal.SIGTERM)
        assert service.wait_for_exit() == 0
        assert [line["event"] for line in logged(service, "")][-1] == "stopped"
        assert not any(Path(f"/proc/{pid}").exists() for pid in processes.values())
    assert pipeline.committed() == 100
    assert members(pipeline) == []


def test_a_signal_to_all_processes_is_a_clean_stop_too(pipeline: Pipeline) -> None:
    """A terminal sends Ctrl-C to every process, and systemd SIGTERM."""
    with pipeline.service(worker={"processes": 2, "commit_ms": 60_000}) as service:
        wait_until(lambda: lagging_inputs(service) == 2 * PARTITIONS, what="all tasks are claimed")
        produce(pipeline, 0, 50, clicker="clicker")
        wait_until(lambda: service.sample("streammetrics_cached_users") == 100, what="all lists and all clicks are read")
        service.signal(signal.SIGTERM)
        for pid in pids(service).values():
            os.kill(pid, signal.SIGTERM)
        assert service.wait_for_exit() == 0
        assert logged(service, "worker process ended, starting it again") == []
    assert pipeline.committed() == 100
    assert members(pipeline) == []


def test_processes_stop_when_their_parent_is_killed(pipeline: Pipeline) -> None:
    service = pipeline.service(worker=TWO)
    service.start()
    try:
        processes = pids(service)
        service.signal(signal.SIGKILL)
        service.wait_for_exit()
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in processes.values()), what="the processes have ended")
        assert members(pipeline) == []
    finally:
        service.close()


def test_a_process_that_cannot_start_ends_all_with_its_reason(pipeline: Pipeline, topic_name: str) -> None:
    pipeline.broker.create_topic(f"{topic_name}-wider", partitions=PARTITIONS + 1)
    service = pipeline.service(worker=TWO, kafka={"topics": [pipeline.topics[0], f"{topic_name}-wider"]})
    service.launch()
    try:
        assert service.wait_for_exit() == 2
        assert f"{topic_name}-wider has {PARTITIONS + 1}" in service.log.splitlines()[-1]
        assert members(pipeline) == []
    finally:
        service.close()
