"""What the client's errors become: ours, or a word in the source's health."""

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

from streammetrics.connectors.kafka.client import KafkaConnection
from streammetrics.connectors.kafka.errors import explained
from streammetrics.connectors.kafka.liveness import LivenessMonitor
from streammetrics.connectors.kafka.log_identity import LogIdentity
from streammetrics.errors import ConfigError, SourceError, StateError

PLACE = TopicPartition("shown", 1)


class Client:
    """As much of a client as an error is explained with: its logs go from 10 to 20, if it answers."""

    def __init__(self, answers: bool = True) -> None:
        self._answers = answers

    def beginning_offsets(self, places: Sequence[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        if not self._answers:
            raise KafkaTimeoutError("no answer")
        return dict.fromkeys(places, 10)

    def end_offsets(self, places: Sequence[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 20)


def health_after(error: KafkaError, client: Client | None = None) -> str:
    """The words that are kept of an error which is not raised."""
    settings = KafkaConnection(bootstrap_servers=("nowhere",), topics=("shown",), group_instance_id="first")
    watchdog = LivenessMonitor(0.0)
    with explained(client or Client(), settings, LogIdentity(settings, {"shown": ""}, partitions=2), watchdog):
        raise error
    return watchdog.health.last_error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (UnsupportedCodecError("zstd"), r"this Python cannot read \(.*zstd.*\); install lz4, python-snappy or zstandard"),
        (TopicAuthorizationFailedError("shown"), "Kafka cannot be read: TopicAuthorizationFailedError: .*shown"),
    ],
)
def test_what_does_not_mend_itself_is_raised_with_what_to_do(error: KafkaError, told: str) -> None:
    with pytest.raises(SourceError, match=told):
        health_after(error)


def test_an_instance_id_that_another_process_has_taken_is_an_error_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.group_instance_id = first: another process .*; give each worker its own"):
        health_after(FencedInstanceIdError())


def test_what_mends_itself_is_kept_and_not_raised() -> None:
    assert health_after(NotLeaderForPartitionError("an election")) == "NotLeaderForPartitionError: an election"
    assert health_after(KafkaConnectionError("ECONNRESET")) == "KafkaConnectionError: ECONNRESET"


@pytest.mark.parametrize(("offset", "told"), [(7, r"shown \[1\]: 3 records \(7 to 9\)"), (25, "ends at 20, 5 records short")])
def test_a_position_outside_of_the_log_is_refused_with_what_is_missing(offset: int, told: str) -> None:
    with pytest.raises(StateError, match=told):
        health_after(OffsetOutOfRangeError({PLACE: offset}))


def test_a_position_is_not_refused_while_the_broker_does_not_say_what_there_is() -> None:
    assert "no answer" in health_after(OffsetOutOfRangeError({PLACE: 7}), Client(answers=False))


def test_a_log_that_was_cut_back_is_refused_by_its_name() -> None:
    with pytest.raises(StateError, match=r"the log of shown \[1\] was cut back"):
        health_after(LogTruncationError({PLACE: None}))
