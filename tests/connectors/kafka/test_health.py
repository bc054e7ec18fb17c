"""Tests of the liveness monitor at its limits, with a fake clock, and of how the client's errors become ours."""

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
from streammetrics.connectors.kafka.health import (
    AWAY_SECONDS,
    HUNG_SECONDS,
    QUIET_SECONDS,
    QUOTA_SECONDS,
    STALL_SECONDS,
    STALL_SECONDS_PER_INPUT,
    LivenessMonitor,
    explained,
)
from streammetrics.connectors.kafka.stored_offsets import LogIdentity
from streammetrics.connectors.source import Input
from streammetrics.errors import ConfigError, SourceError, StateError

PLACE, OTHER = Input("clicked", 0), Input("shown", 0)
PARTITION = TopicPartition("shown", 1)


def stalled_at(monitor: LivenessMonitor, now: float, position: int = 3, end: int = 5) -> bool:
    return monitor.answered(now, {PLACE: end}, {PLACE: position}) == [PLACE]


class TestQuota:
    def test_checks_wait_until_the_pause_ends(self) -> None:
        monitor = LivenessMonitor(0.0)
        assert monitor.held_back(0.0, 9.0)
        assert [monitor.poll_begins(now) for now in (3.0, 8.9, 9.0)] == [False, False, True]

    def test_a_quota_is_new_once_a_minute_without_one_has_passed(self) -> None:
        monitor = LivenessMonitor(0.0)
        held_back = [monitor.held_back(now, 2.0) for now in (0.0, 1.0, 2.0 + QUOTA_SECONDS, 5.0 + 2 * QUOTA_SECONDS)]
        assert held_back == [True, False, False, True]
        assert [monitor.has_quota(7.0 + 2 * QUOTA_SECONDS + later) for later in (0.0, QUOTA_SECONDS, QUOTA_SECONDS + 0.1)] == [
            True,
            True,
            False,
        ]

    def test_a_position_that_a_quota_holds_is_no_stall(self) -> None:
        monitor = LivenessMonitor(0.0)
        stalled_at(monitor, 0.0)
        monitor.held_back(STALL_SECONDS - 1, 1.0)
        assert not stalled_at(monitor, STALL_SECONDS)


class TestStall:
    @pytest.mark.parametrize(("seconds", "stalled"), [(STALL_SECONDS - 0.1, False), (STALL_SECONDS, True), (STALL_SECONDS + 0.1, True)])
    def test_an_unmoved_position_below_the_end_is_a_stall_after_a_while(self, seconds: float, stalled: bool) -> None:
        monitor = LivenessMonitor(0.0)
        assert not stalled_at(monitor, 0.0)
        assert stalled_at(monitor, seconds) is stalled

    def test_each_further_input_extends_the_limit(self) -> None:
        monitor = LivenessMonitor(0.0)
        ends, positions = {PLACE: 5, OTHER: 5}, {PLACE: 3, OTHER: 3}
        monitor.answered(0.0, ends, positions)
        assert monitor.answered(STALL_SECONDS, ends, positions) == []
        assert monitor.answered(STALL_SECONDS + STALL_SECONDS_PER_INPUT, ends, positions) == [PLACE, OTHER]

    def test_a_moved_position_restarts_the_time(self) -> None:
        monitor = LivenessMonitor(0.0)
        stalled_at(monitor, 0.0, position=3)
        stalled_at(monitor, STALL_SECONDS - 1, position=4)
        assert not stalled_at(monitor, STALL_SECONDS, position=4)

    def test_a_position_at_the_end_is_never_a_stall(self) -> None:
        monitor = LivenessMonitor(0.0)
        assert not any(stalled_at(monitor, now, position=5) for now in (0.0, 1_000.0))

    def test_changed_ownership_restarts_the_time(self) -> None:
        monitor = LivenessMonitor(0.0)
        stalled_at(monitor, 0.0)
        monitor.reset_positions()
        assert not stalled_at(monitor, STALL_SECONDS)

    def test_time_without_a_poll_does_not_count(self) -> None:
        monitor = LivenessMonitor(0.0)
        stalled_at(monitor, 0.0)
        monitor.poll_begins(AWAY_SECONDS + 0.1)
        assert not stalled_at(monitor, STALL_SECONDS)

    def test_an_outage_does_not_count(self) -> None:
        monitor = LivenessMonitor(0.0)
        stalled_at(monitor, 0.0)
        monitor.unanswered(5.0, "refused", connects=False)
        assert not stalled_at(monitor, STALL_SECONDS)


class TestReachability:
    def test_health_shows_since_when(self) -> None:
        monitor = LivenessMonitor(1.0)
        assert (monitor.health.reachable, monitor.health.since) == (True, 1.0)
        monitor.unanswered(5.0, "refused", connects=False)
        monitor.unanswered(6.0, "refused again", connects=False)
        assert (monitor.health.reachable, monitor.health.since, monitor.health.last_error) == (False, 5.0, "refused again")
        monitor.answered(9.0, {}, {})
        assert (monitor.health.reachable, monitor.health.since, monitor.health.last_error) == (True, 9.0, "refused again")

    def test_records_count_as_an_answer(self) -> None:
        monitor = LivenessMonitor(0.0)
        monitor.unanswered(5.0, "refused", connects=False)
        monitor.records_arrived(6.0)
        assert (monitor.health.reachable, monitor.health.since) == (True, 6.0)

    def test_a_broker_that_is_down_never_causes_a_replacement(self) -> None:
        monitor = LivenessMonitor(0.0)
        assert not any(monitor.unanswered(float(now), "refused", connects=False) for now in range(0, 10_000, 100))

    def test_a_client_is_replaced_after_a_minute_of_connections_without_answers(self) -> None:
        monitor = LivenessMonitor(0.0)
        assert not monitor.unanswered(0.0, "refused", connects=False)
        assert not monitor.unanswered(100.0, "silent", connects=True)
        assert not monitor.unanswered(100.0 + HUNG_SECONDS - 0.1, "silent", connects=True)
        assert monitor.unanswered(100.0 + HUNG_SECONDS, "silent", connects=True)

    def test_a_replacement_is_counted_and_restarts_the_minute(self) -> None:
        monitor = LivenessMonitor(0.0)
        monitor.unanswered(0.0, "silent", connects=True)
        monitor.client_replaced(HUNG_SECONDS)
        assert monitor.health.rebuilds == 1
        assert not monitor.unanswered(HUNG_SECONDS + 1, "silent", connects=True)


def test_a_repeated_error_is_logged_once() -> None:
    """Behind a load balancer that resets connections, a client fails ten times a second."""
    monitor = LivenessMonitor(0.0)
    logged = []
    for tenth in range(1_000):
        monitor.poll_begins(tenth / 10)
        logged.append(monitor.note_error("connection reset"))
    assert logged == [True] + 999 * [False]
    monitor.poll_begins(100 + QUIET_SECONDS)
    assert monitor.note_error("connection reset")


def test_errors_during_an_outage_are_not_logged() -> None:
    monitor = LivenessMonitor(0.0)
    monitor.unanswered(1.0, "no answer", connects=False)
    monitor.poll_begins(2.0)
    assert not monitor.note_error("connection reset")
    assert monitor.health.last_error == "connection reset"


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
        health_after(OffsetOutOfRangeError({PARTITION: offset}))


def test_a_position_is_not_refused_while_the_broker_does_not_answer() -> None:
    assert "no answer" in health_after(OffsetOutOfRangeError({PARTITION: 7}), Client(answers=False))


def test_a_truncated_log_is_refused_by_its_name() -> None:
    with pytest.raises(StateError, match=r"the log of shown \[1\] was truncated"):
        health_after(LogTruncationError({PARTITION: None}))
