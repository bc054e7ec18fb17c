"""Tests of how the client's errors become ours, or an entry in the source's health."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from kafka.errors import (
    FencedInstanceIdError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    NotLeaderForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnsupportedCodecError,
)
from kafka.structs import TopicPartition

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.errors import explained
from streammetrics.connectors.kafka.liveness import LivenessMonitor
from streammetrics.connectors.kafka.log_identity import LogIdentity
from streammetrics.errors import ConfigError, SourceError, StateError

PLACE = TopicPartition("shown", 1)


class Client:
    """A fake client whose logs hold offsets 10 to 20, if it answers."""

    def __init__(self, answers: bool = True) -> None:
        self._answers = answers

    def beginning_offsets(self, places: Sequence[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        if not self._answers:
            raise KafkaTimeoutError("no answer")
        return dict.fromkeys(places, 10)

    def end_offsets(self, places: Sequence[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 20)


def health_after(error: KafkaError, client: Client | None = None) -> str:
    """Return the text that is kept of an error which is not raised."""
    settings = KafkaSettings(bootstrap_servers=("nowhere:1",), topics=("shown",), group_instance_id="first")
    monitor = LivenessMonitor(0.0)
    with explained(client or Client(), settings, LogIdentity(settings, {"shown": ""}, partitions=2), monitor):
        raise error
    return monitor.health.last_error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (UnsupportedCodecError("zstd"), r"this Python cannot read .*compression \(.*zstd.*\); install lz4, python-snappy or zstandard"),
        (TopicAuthorizationFailedError("shown"), "Kafka cannot be read: TopicAuthorizationFailedError: .*shown"),
    ],
)
def test_errors_that_last_are_raised_with_a_fix(error: KafkaError, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        health_after(error)


def test_a_taken_instance_id_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.group_instance_id = first: another process .*; give each worker its own"):
        health_after(FencedInstanceIdError())


def test_retriable_errors_are_kept_and_not_raised() -> None:
    assert health_after(NotLeaderForPartitionError("an election")) == "NotLeaderForPartitionError: an election"
    assert health_after(KafkaConnectionError("ECONNRESET")) == "KafkaConnectionError: ECONNRESET"


@pytest.mark.parametrize(
    ("offset", "message"), [(7, r"shown \[1\]: 3 records \(7 to 9\)"), (25, "ends at 20, 5 records before the stored offset 25")]
)
def test_a_position_outside_the_log_is_refused_with_the_missing_records(offset: int, message: str) -> None:
    with pytest.raises(StateError, match=message):
        health_after(OffsetOutOfRangeError({PLACE: offset}))


def test_a_position_is_not_refused_while_the_broker_does_not_answer() -> None:
    assert "no answer" in health_after(OffsetOutOfRangeError({PLACE: 7}), Client(answers=False))


def test_a_truncated_log_is_refused_by_its_name() -> None:
    with pytest.raises(StateError, match=r"the log of shown \[1\] was truncated"):
        health_after(LogTruncationError({PLACE: None}))
