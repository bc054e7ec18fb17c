"""Tests of the checks that the topics are still the logs of the stored offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka import log_identity
from streammetrics.connectors.kafka.log_identity import TOPIC_GONE_SECONDS, LogIdentity
from streammetrics.connectors.kafka.topics import MissingTopic, Topic, TopicDescriptions
from streammetrics.connectors.source import Input, LogIds
from streammetrics.errors import SourceError, StateError, UnfitStateError

SETTINGS = KafkaSettings(bootstrap_servers=("nowhere:1",), topics=("shown",))
PLACE = Input("shown", 0)


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

    monkeypatch.setattr(log_identity, "describe_topics", describe)


class TestCheck:
    def test_unchanged_metadata_is_accepted(self) -> None:
        identity().check(Cluster(), 0.0)

    @pytest.mark.parametrize(("known", "current"), [("", "id-2"), ("id-1", None), ("id-1", "00000000-0000-0000-0000-000000000000")])
    def test_an_unknown_id_is_not_compared(self, known: str, current: str | None) -> None:
        identity(known).check(Cluster(topic_id=current), 0.0)

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
