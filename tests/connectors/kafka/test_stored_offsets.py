"""Tests of whether a topic is still the log of the stored offsets, and of where a task starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError
from kafka.structs import OffsetAndTimestamp, TopicPartition
from structlog.testing import capture_logs

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka import stored_offsets
from streammetrics.connectors.kafka.stored_offsets import TOPIC_GONE_SECONDS, LogIdentity, StartOffset, StartOffsets
from streammetrics.connectors.kafka.topics import MissingTopic, Topic, TopicDescriptions
from streammetrics.connectors.source import Input, LogIds
from streammetrics.errors import SourceError, StateError, UnfitStateError

SETTINGS = KafkaSettings(bootstrap_servers=("nowhere:1",), topics=("shown",))
PLACE = Input("shown", 0)
SHOWN, CLICKED = Input("shown", 0), Input("clicked", 0)
OTHER_SHOWN, OTHER_CLICKED = Input("shown", 1), Input("clicked", 1)
TASK, OTHER_TASK = (SHOWN, CLICKED), (OTHER_SHOWN, OTHER_CLICKED)
TIME_MS = 1_700_000_000_000


class Cluster:
    """A fake of the client's metadata, for one topic."""

    def __init__(self, partitions: int | None = 4, topic_id: str | None = "id-1", cluster_id: str | None = "here") -> None:
        self.partitions, self.id, self.cluster_id = partitions, topic_id, cluster_id

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return None if self.partitions is None else set(range(self.partitions))

    def topic_id(self, topic: str) -> str | None:
        return self.id


def identity(topic_id: str = "id-1") -> LogIdentity:
    return LogIdentity(SETTINGS, LogIds("here", {"shown": topic_id}), partitions=4)


def describe_as(monkeypatch: pytest.MonkeyPatch, answer: TopicDescriptions | Exception) -> None:
    def describe(settings: KafkaSettings, names: Sequence[str]) -> TopicDescriptions:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(stored_offsets, "describe_topics", describe)


class TestCheck:
    def test_unchanged_metadata_is_accepted(self) -> None:
        identity().check(Cluster(), 0.0)

    @pytest.mark.parametrize(("stored_id", "current"), [("", "id-2"), ("id-1", None), ("id-1", "00000000-0000-0000-0000-000000000000")])
    def test_an_unknown_id_is_not_compared(self, stored_id: str, current: str | None) -> None:
        identity(stored_id).check(Cluster(topic_id=current), 0.0)

    def test_another_id_is_refused(self) -> None:
        with pytest.raises(StateError, match=r"created again \(its id was id-1, now it is id-2\).*start again with a new redis\.namespace"):
            identity().check(Cluster(topic_id="id-2"), 0.0)

    def test_another_cluster_is_refused_and_an_unknown_one_is_not(self) -> None:
        identity().check(Cluster(cluster_id=None), 0.0)
        with pytest.raises(UnfitStateError, match=r"this is cluster there.*set the brokers of cluster here again"):
            identity().check(Cluster(cluster_id="there"), 0.0)

    def test_another_partition_count_is_refused(self) -> None:
        with pytest.raises(StateError, match="now has 6 partitions, and had 4"):
            identity().check(Cluster(partitions=6), 0.0)

    def test_a_missing_topic_is_looked_up_after_a_while(self, monkeypatch: pytest.MonkeyPatch) -> None:
        describe_as(monkeypatch, TopicDescriptions({}, {"shown": MissingTopic.MISSING}))
        checked = identity()
        checked.check(Cluster(partitions=None), 0.0)
        checked.check(Cluster(partitions=None), TOPIC_GONE_SECONDS)
        with pytest.raises(StateError, match="has been deleted"):
            checked.check(Cluster(partitions=None), TOPIC_GONE_SECONDS + 0.1)

    def test_a_topic_that_comes_back_restarts_the_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        describe_as(monkeypatch, TopicDescriptions({}, {"shown": MissingTopic.MISSING}))
        checked = identity()
        checked.check(Cluster(partitions=None), 0.0)
        checked.check(Cluster(), 1.0)
        checked.check(Cluster(partitions=None), TOPIC_GONE_SECONDS + 1.0)


class TestSameTopics:
    @pytest.mark.parametrize(
        "answer",
        [
            TopicDescriptions({"shown": Topic("shown", "id-1", 4)}, {}),
            TopicDescriptions({}, {"shown": MissingTopic.HIDDEN}),
            SourceError("no broker can be reached"),
        ],
        ids=["same topic", "not allowed", "no answer"],
    )
    def test_nothing_is_raised_without_evidence(self, monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
        describe_as(monkeypatch, answer)
        identity().require_same_topics()

    def test_a_topic_created_again_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        describe_as(monkeypatch, TopicDescriptions({"shown": Topic("shown", "id-2", 4)}, {}))
        with pytest.raises(StateError, match="deleted and created again"):
            identity().require_same_topics()


class TestHeldOffsets:
    @pytest.mark.parametrize("offset", [10, 15, 20])
    def test_offsets_from_the_beginning_to_the_end_are_held(self, offset: int) -> None:
        identity().require_held({PLACE: offset}, {PLACE: (10, 20)})

    @pytest.mark.parametrize(
        ("offset", "message"),
        [(9, r"shown \[0\]: 1 record \(9 to 9\) deleted unread"), (21, r"shown \[0\]: the log ends at 20, 1 record before the stored")],
    )
    def test_other_offsets_are_refused(self, monkeypatch: pytest.MonkeyPatch, offset: int, message: str) -> None:
        describe_as(monkeypatch, SourceError("no answer"))
        with pytest.raises(StateError, match=message):
            identity().require_held({PLACE: offset}, {PLACE: (10, 20)})

    def test_a_topic_created_again_is_the_reason_given(self, monkeypatch: pytest.MonkeyPatch) -> None:
        describe_as(monkeypatch, TopicDescriptions({"shown": Topic("shown", "id-2", 4)}, {}))
        with pytest.raises(StateError, match="deleted and created again"):
            identity().require_held({PLACE: 21}, {PLACE: (10, 20)})


class Client:
    """A fake client.

    `logs` holds the timestamps of records by offset, `read` the committed offsets. `silent` names a method that gets no answer.
    """

    def __init__(self, logs: Mapping[Input, Mapping[int, int]], read: Mapping[Input, int] | None = None, silent: str | None = None) -> None:
        self._logs, self._read, self._silent = logs, read or {}, silent
        self.requests: list[set[Any]] = []

    def _receive(self, method: str) -> None:
        if method == self._silent:
            raise KafkaTimeoutError("no answer")

    def beginning_offsets(self, places: Sequence[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        self._receive("beginning_offsets")
        self.requests.append({Input(*place) for place in places})
        return {place: min(self._logs[Input(*place)]) for place in places}

    def end_offsets(self, places: Sequence[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        self._receive("end_offsets")
        return {place: max(self._logs[Input(*place)]) + 1 for place in places}

    def offsets_for_times(self, times: Mapping[TopicPartition, int], timeout_ms: int) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        self._receive("offsets_for_times")
        offsets: dict[TopicPartition, OffsetAndTimestamp | None] = dict.fromkeys(times)
        for place, since in times.items():
            for offset, stamp in reversed(self._logs[Input(*place)].items()):
                if stamp >= since:
                    offsets[place] = OffsetAndTimestamp(offset, stamp, -1)
        return offsets

    def committed(self, place: TopicPartition, timeout_ms: int) -> int | None:
        self._receive("committed")
        return self._read.get(Input(*place))


def log_of(first: int, *stamps: int) -> dict[int, int]:
    return {first + number: stamp for number, stamp in enumerate(stamps)}


LOGS = {
    SHOWN: log_of(10, TIME_MS - 9, TIME_MS - 1, TIME_MS, TIME_MS + 1),
    CLICKED: log_of(20, TIME_MS - 9, TIME_MS - 1),
    OTHER_SHOWN: log_of(0, TIME_MS),
    OTHER_CLICKED: log_of(0, TIME_MS),
}


def start_offsets(start: Any = "earliest", skip: Sequence[str] = ()) -> StartOffsets:
    settings = KafkaSettings(bootstrap_servers=("nowhere:1",), topics=("shown", "clicked"), start=start, skip_records=skip)
    return StartOffsets(settings, LogIdentity(settings, {"shown": "", "clicked": ""}, partitions=2))


class TestOffsets:
    @pytest.mark.parametrize(
        ("start", "list_offset", "click_offset"), [("earliest", 10, 20), ("latest", 14, 22), (TIME_MS, 12, 22), (TIME_MS - 1, 11, 21)]
    )
    def test_without_stored_offsets_the_setting_decides(self, start: Any, list_offset: int, click_offset: int) -> None:
        offsets = start_offsets(start).find(Client(LOGS), TASK, {}, TASK)
        assert offsets == {SHOWN: StartOffset(list_offset, end=14), CLICKED: StartOffset(click_offset, end=22)}

    @pytest.mark.parametrize("start", ["earliest", "latest", TIME_MS])
    def test_a_stored_offset_overrides_the_setting(self, start: Any) -> None:
        offsets = start_offsets(start).find(Client(LOGS), TASK, {SHOWN: 13, CLICKED: 21}, TASK)
        assert offsets == {SHOWN: StartOffset(13, end=14), CLICKED: StartOffset(21, end=22)}

    def test_an_input_without_an_offset_does_not_move_the_others(self) -> None:
        offsets = start_offsets("latest").find(Client(LOGS), TASK, {SHOWN: 11}, TASK)
        assert offsets == {SHOWN: StartOffset(11, end=14), CLICKED: StartOffset(22, end=22)}


class TestLogBounds:
    @pytest.mark.parametrize("offset", [10, 14])
    def test_an_offset_at_either_end_of_the_log_is_held(self, offset: int) -> None:
        assert start_offsets().find(Client(LOGS), TASK, {SHOWN: offset, CLICKED: 20}, TASK)[SHOWN].offset == offset

    @pytest.mark.parametrize(
        ("offset", "message"),
        [
            (9, r"shown \[0\]: 1 record \(9 to 9\) deleted unread"),
            (15, r"shown \[0\]: the log ends at 14, 1 record before the stored offset"),
        ],
    )
    def test_an_offset_outside_the_log_is_refused(self, offset: int, message: str) -> None:
        with pytest.raises(StateError, match=message):
            start_offsets().find(Client(LOGS), TASK, {SHOWN: offset, CLICKED: 20}, TASK)


class TestSkippedRecords:
    @pytest.mark.parametrize(("stored", "begins"), [(10, 10), (11, 13), (12, 13), (13, 13)])
    def test_an_input_that_would_begin_with_one_of_them_begins_after_the_last(self, stored: int, begins: int) -> None:
        with capture_logs() as lines:
            offsets = start_offsets(skip=["shown:0:11-12"]).find(Client(LOGS), TASK, {SHOWN: stored, CLICKED: 21}, TASK)
        assert offsets == {SHOWN: StartOffset(begins, end=14), CLICKED: StartOffset(21, end=22)}
        said = [{"input": "shown [0]", "first": stored, "last": 12}] if begins > stored else []
        assert [{name: line[name] for name in ("input", "first", "last")} for line in lines] == said

    def test_records_that_kafka_has_deleted_can_be_left_out_as_the_error_says(self) -> None:
        with pytest.raises(StateError, match=r'set kafka.skip_records = \["shown:0:7-9"\]'):
            start_offsets().find(Client(LOGS), TASK, {SHOWN: 7, CLICKED: 21}, TASK)
        offsets = start_offsets(skip=["shown:0:7-9"]).find(Client(LOGS), TASK, {SHOWN: 7, CLICKED: 21}, TASK)
        assert offsets[SHOWN].offset == 10

    def test_they_are_left_out_without_a_stored_offset_too(self) -> None:
        assert start_offsets(skip=["shown:0:10-10"]).find(Client(LOGS), TASK, {}, TASK)[SHOWN].offset == 11


class TestRequests:
    def test_tasks_granted_together_share_one_request(self) -> None:
        client, starts = Client(LOGS), start_offsets()
        starts.find(client, TASK, {}, (*TASK, *OTHER_TASK))
        assert starts.find(client, OTHER_TASK, {}, OTHER_TASK) == dict.fromkeys(OTHER_TASK, StartOffset(0, end=1))
        assert client.requests == [{*TASK, *OTHER_TASK}]

    def test_a_task_that_starts_again_causes_another_request(self) -> None:
        client, starts = Client(LOGS), start_offsets()
        for _ in range(2):
            starts.find(client, TASK, {}, TASK)
        assert client.requests == [set(TASK)] * 2

    def test_answers_are_forgotten_when_tasks_change_hands(self) -> None:
        client, starts = Client(LOGS), start_offsets()
        starts.find(client, TASK, {}, (*TASK, *OTHER_TASK))
        starts.forget()
        starts.find(client, OTHER_TASK, {}, OTHER_TASK)
        assert client.requests == [{*TASK, *OTHER_TASK}, set(OTHER_TASK)]

    def test_bounds_are_requested_again_before_an_offset_is_refused(self) -> None:
        logs = {place: dict(log) for place, log in LOGS.items()}
        client, starts = Client(logs), start_offsets()
        starts.find(client, TASK, {}, (*TASK, *OTHER_TASK))
        logs[OTHER_SHOWN] |= log_of(1, TIME_MS, TIME_MS)
        assert starts.find(client, OTHER_TASK, {OTHER_SHOWN: 2}, OTHER_TASK) == {
            OTHER_SHOWN: StartOffset(2, end=3),
            OTHER_CLICKED: StartOffset(0, end=1),
        }
        assert client.requests == [{*TASK, *OTHER_TASK}, set(OTHER_TASK)]
        with pytest.raises(StateError, match="ends at 3, 1 record before the stored offset"):
            starts.find(client, OTHER_TASK, {OTHER_SHOWN: 4}, OTHER_TASK)

    @pytest.mark.parametrize(
        ("silent", "message"),
        [
            ("beginning_offsets", "report where its logs begin and end: .*no answer"),
            ("end_offsets", "report where its logs begin and end: .*no answer"),
            ("offsets_for_times", r"first offsets at or after kafka\.start: .*no answer"),
        ],
    )
    def test_a_broker_that_does_not_answer_is_an_error(self, silent: str, message: str) -> None:
        with pytest.raises(SourceError, match=message):
            start_offsets(TIME_MS).find(Client(LOGS, silent=silent), TASK, {}, TASK)


class TestLostState:
    def message(self, client: Client, offsets: Mapping[Input, int]) -> list[Any]:
        with capture_logs() as lines:
            start_offsets(TIME_MS).find(client, TASK, offsets, TASK)
        return [(line["was_read"], line["begins"]) for line in lines]

    def test_inputs_that_only_the_group_knows_are_logged(self) -> None:
        client = Client(LOGS, read={SHOWN: 13, CLICKED: 21})
        assert self.message(client, {SHOWN: 13}) == [(["clicked [0] to 21"], "2023-11-14T22:13:20.000+00:00")]

    @pytest.mark.parametrize("read", [{}, {SHOWN: 0}])
    def test_nothing_is_logged_where_the_group_has_read_nothing(self, read: Mapping[Input, int]) -> None:
        assert self.message(Client(LOGS, read), {}) == []

    def test_a_start_does_not_depend_on_the_committed_offsets(self) -> None:
        assert self.message(Client(LOGS, read={SHOWN: 13}, silent="committed"), {}) == []
