"""Where a task begins, by what a broker says of its logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError
from kafka.structs import OffsetAndTimestamp, TopicPartition
from structlog.testing import capture_logs

from streammetrics.connectors.base import Input
from streammetrics.connectors.kafka.client import KafkaConnection
from streammetrics.connectors.kafka.log_identity import LogIdentity
from streammetrics.connectors.kafka.start_offsets import StartOffset, StartOffsets
from streammetrics.errors import SourceError, StateError

SHOWN, CLICKED = Input("shown", 0), Input("clicked", 0)
OTHER_SHOWN, OTHER_CLICKED = Input("shown", 1), Input("clicked", 1)
TASK, OTHER_TASK = (SHOWN, CLICKED), (OTHER_SHOWN, OTHER_CLICKED)
TIME_MS = 1_700_000_000_000


class Client:
    """As much of a client as beginnings are found with: it knows logs, and what a group has read of them.

    `logs` are the timestamps of records by offset. `silent` names a question that is not answered.
    """

    def __init__(self, logs: Mapping[Input, Mapping[int, int]], read: Mapping[Input, int] | None = None, silent: str | None = None) -> None:
        self._logs, self._read, self._silent = logs, read or {}, silent
        self.asked: list[set[Any]] = []

    def _heard(self, question: str) -> None:
        if question == self._silent:
            raise KafkaTimeoutError("no answer")

    def beginning_offsets(self, places: Sequence[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        self._heard("beginning_offsets")
        self.asked.append({Input(*place) for place in places})
        return {place: min(self._logs[Input(*place)]) for place in places}

    def end_offsets(self, places: Sequence[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        self._heard("end_offsets")
        return {place: max(self._logs[Input(*place)]) + 1 for place in places}

    def offsets_for_times(self, times: Mapping[TopicPartition, int], timeout_ms: int) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        self._heard("offsets_for_times")
        found: dict[TopicPartition, OffsetAndTimestamp | None] = dict.fromkeys(times)
        for place, since in times.items():
            for offset, stamp in reversed(self._logs[Input(*place)].items()):
                if stamp >= since:
                    found[place] = OffsetAndTimestamp(offset, stamp, -1)
        return found

    def committed(self, place: TopicPartition, timeout_ms: int) -> int | None:
        self._heard("committed")
        return self._read.get(Input(*place))


def log_of(first: int, *stamps: int) -> dict[int, int]:
    return {first + number: stamp for number, stamp in enumerate(stamps)}


LOGS = {
    SHOWN: log_of(10, TIME_MS - 9, TIME_MS - 1, TIME_MS, TIME_MS + 1),
    CLICKED: log_of(20, TIME_MS - 9, TIME_MS - 1),
    OTHER_SHOWN: log_of(0, TIME_MS),
    OTHER_CLICKED: log_of(0, TIME_MS),
}


def beginnings(start: Any = "earliest") -> StartOffsets:
    settings = KafkaConnection(bootstrap_servers=("nowhere",), topics=("shown", "clicked"), start=start)
    return StartOffsets(settings, LogIdentity(settings, {"shown": "", "clicked": ""}, partitions=2))


class TestOffsets:
    @pytest.mark.parametrize(
        ("start", "shown", "clicked"), [("earliest", 10, 20), ("latest", 14, 22), (TIME_MS, 12, 22), (TIME_MS - 1, 11, 21)]
    )
    def test_without_stored_offsets_the_setting_says_where(self, start: Any, shown: int, clicked: int) -> None:
        found = beginnings(start).find(Client(LOGS), TASK, {}, TASK)
        assert found == {SHOWN: StartOffset(shown, end=14), CLICKED: StartOffset(clicked, end=22)}

    @pytest.mark.parametrize("start", ["earliest", "latest", TIME_MS])
    def test_a_stored_offset_counts_whatever_the_setting_says(self, start: Any) -> None:
        found = beginnings(start).find(Client(LOGS), TASK, {SHOWN: 13, CLICKED: 21}, TASK)
        assert found == {SHOWN: StartOffset(13, end=14), CLICKED: StartOffset(21, end=22)}

    def test_an_input_without_an_offset_does_not_move_the_others(self) -> None:
        found = beginnings("latest").find(Client(LOGS), TASK, {SHOWN: 11}, TASK)
        assert found == {SHOWN: StartOffset(11, end=14), CLICKED: StartOffset(22, end=22)}


class TestWhatTheLogHolds:
    @pytest.mark.parametrize("offset", [10, 14])
    def test_an_offset_at_either_end_of_the_log_is_held(self, offset: int) -> None:
        assert beginnings().find(Client(LOGS), TASK, {SHOWN: offset, CLICKED: 20}, TASK)[SHOWN].offset == offset

    @pytest.mark.parametrize(
        ("offset", "message"),
        [(9, r"shown \[0\]: 1 records \(9 to 9\) were deleted"), (15, r"shown \[0\]: the log ends at 14, 1 records short")],
    )
    def test_an_offset_outside_of_it_is_refused_and_not_replaced(self, offset: int, message: str) -> None:
        with pytest.raises(StateError, match=message):
            beginnings().find(Client(LOGS), TASK, {SHOWN: offset, CLICKED: 20}, TASK)


class TestAsking:
    def test_tasks_that_wait_together_are_asked_about_once(self) -> None:
        client, found = Client(LOGS), beginnings()
        found.find(client, TASK, {}, (*TASK, *OTHER_TASK))
        assert found.find(client, OTHER_TASK, {}, OTHER_TASK) == dict.fromkeys(OTHER_TASK, StartOffset(0, end=1))
        assert client.asked == [{*TASK, *OTHER_TASK}]

    def test_a_task_that_begins_again_is_asked_about_again(self) -> None:
        client, found = Client(LOGS), beginnings()
        for _ in range(2):
            found.find(client, TASK, {}, TASK)
        assert client.asked == [set(TASK)] * 2

    def test_what_was_known_before_tasks_changed_hands_is_forgotten(self) -> None:
        client, found = Client(LOGS), beginnings()
        found.find(client, TASK, {}, (*TASK, *OTHER_TASK))
        found.forget()
        found.find(client, OTHER_TASK, {}, OTHER_TASK)
        assert client.asked == [{*TASK, *OTHER_TASK}, set(OTHER_TASK)]

    def test_a_log_that_has_grown_since_it_was_asked_about_is_asked_about_again_before_an_offset_is_refused(self) -> None:
        logs = {place: dict(log) for place, log in LOGS.items()}
        client, found = Client(logs), beginnings()
        found.find(client, TASK, {}, (*TASK, *OTHER_TASK))
        logs[OTHER_SHOWN] |= log_of(1, TIME_MS, TIME_MS)
        assert found.find(client, OTHER_TASK, {OTHER_SHOWN: 2}, OTHER_TASK) == {
            OTHER_SHOWN: StartOffset(2, end=3),
            OTHER_CLICKED: StartOffset(0, end=1),
        }
        assert client.asked == [{*TASK, *OTHER_TASK}, set(OTHER_TASK)]
        with pytest.raises(StateError, match="ends at 3, 1 records short"):
            found.find(client, OTHER_TASK, {OTHER_SHOWN: 4}, OTHER_TASK)

    @pytest.mark.parametrize(
        ("silent", "message"),
        [
            ("beginning_offsets", "where its logs begin and end: .*no answer"),
            ("end_offsets", "where its logs begin and end: .*no answer"),
            ("offsets_for_times", r"which records are of kafka\.start or later: .*no answer"),
        ],
    )
    def test_a_broker_that_does_not_answer_is_an_error(self, silent: str, message: str) -> None:
        with pytest.raises(SourceError, match=message):
            beginnings(TIME_MS).find(Client(LOGS, silent=silent), TASK, {}, TASK)


class TestLostState:
    def message(self, client: Client, offsets: Mapping[Input, int]) -> list[Any]:
        with capture_logs() as lines:
            beginnings(TIME_MS).find(client, TASK, offsets, TASK)
        return [(line["was_read"], line["begins"]) for line in lines]

    def test_inputs_that_only_the_group_knows_are_told_of(self) -> None:
        client = Client(LOGS, read={SHOWN: 13, CLICKED: 21})
        assert self.message(client, {SHOWN: 13}) == [(["clicked [0] to 21"], "2023-11-14T22:13:20.000+00:00")]

    @pytest.mark.parametrize("read", [{}, {SHOWN: 0}])
    def test_where_nobody_has_read_nothing_is_told(self, read: Mapping[Input, int]) -> None:
        assert self.message(Client(LOGS, read), {}) == []

    def test_a_broker_that_does_not_say_what_the_group_has_read_holds_nothing_up(self) -> None:
        assert self.message(Client(LOGS, read={SHOWN: 13}, silent="committed"), {}) == []
