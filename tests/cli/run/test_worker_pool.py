"""What the worker processes of one `run` get, and how their ends are described. The integration tests run them."""

from __future__ import annotations

import pickle

import pytest

from streammetrics.cli.run.worker_pool import exit_text, settings_of
from streammetrics.errors import ConfigError, GaveUp, Problem, SourceError, StateError, StoreError, StreammetricsError
from tests.support.settings import by_flags


def test_each_process_consumes_as_a_member_of_its_own() -> None:
    settings = by_flags({"worker.processes": 3, "kafka.group_instance_id": "host", "redis.password": "secret"}).settings
    for number in (1, 2, 3):
        worker_settings = settings_of(settings, number)
        assert (worker_settings.worker.role, worker_settings.worker.processes, worker_settings.kafka.group_instance_id) == (
            "worker",
            1,
            f"host-{number}",
        )
        assert (worker_settings.join, worker_settings.redis, worker_settings.kafka.topics) == (
            settings.join,
            settings.redis,
            settings.kafka.topics,
        )


def test_without_a_member_id_the_processes_have_none() -> None:
    assert settings_of(by_flags({"worker.processes": 2}).settings, 1).kafka.group_instance_id is None


def test_settings_reach_a_process_with_their_passwords() -> None:
    settings = by_flags({"redis.password": "secret", "redis.url": "redis://cache:6379/0"}).settings
    received = pickle.loads(pickle.dumps(settings))
    assert received == settings
    assert received.redis.password.get_secret_value() == "secret"


@pytest.mark.parametrize(
    "error",
    [
        ConfigError([Problem("kafka.topics", "a", "a list of topics"), Problem("http.port", "1", "another port")]),
        StateError("the store has lost it", "restore a backup"),
        StoreError("no answer"),
        SourceError("no broker", "start one"),
        GaveUp("too long"),
        StreammetricsError("failed"),
    ],
)
def test_errors_reach_the_parent_with_their_text(error: StreammetricsError) -> None:
    received = pickle.loads(pickle.dumps(error))
    assert type(received) is type(error)
    assert str(received) == str(error)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "exited with code 0"),
        (2, "exited with code 2"),
        (-15, "was ended by SIGTERM"),
        (-9, "was ended by SIGKILL"),
        (-99, "was ended by signal 99"),
    ],
)
def test_the_end_of_a_process_is_described(code: int, text: str) -> None:
    assert exit_text(code) == text
