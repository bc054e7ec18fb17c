"""Tests of topic descriptions and the errors for missing topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka import topics
from streammetrics.connectors.kafka.topics import ClusterInfo, MissingTopic, Topic, describe_topics, read_cluster, require_copartitioned
from streammetrics.errors import ConfigError, SourceError

NOT_AVAILABLE, UNKNOWN, DENIED, INVALID = 5, 3, 29, 17
SETTINGS = KafkaSettings(bootstrap_servers=("nowhere:1",), topics=("shown", "clicked"))


def entry(name: str, partitions: int = 4, error_code: int = 0) -> Mapping[str, Any]:
    return {"name": name, "topic_id": f"id-of-{name}", "partitions": [{}] * partitions, "error_code": error_code}


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """A fake broker that describes these topics."""
    entries: list[Mapping[str, Any]] = []

    class Admin:
        def describe_topics(self, names: list[str]) -> list[Mapping[str, Any]]:
            return [entry for entry in entries if entry["name"] in names]

    @contextmanager
    def asking(settings: KafkaSettings, what: str) -> Iterator[Admin]:
        yield Admin()

    monkeypatch.setattr(topics, "asking", asking)
    return entries


def test_topics_are_found_or_absent_for_a_reason(broker: list[Mapping[str, Any]]) -> None:
    broker += [entry("a"), entry("b", 0, UNKNOWN), entry("c", 0, DENIED), entry("d", 0, INVALID)]
    described = describe_topics(SETTINGS, ["a", "b", "c", "d"])
    assert described.topics == {"a": Topic("a", "id-of-a", 4)}
    assert described.absent == {"b": MissingTopic.MISSING, "c": MissingTopic.HIDDEN, "d": MissingTopic.MISNAMED}


def test_a_topic_that_cannot_be_described_at_the_moment_is_an_outage(broker: list[Mapping[str, Any]]) -> None:
    broker.append(entry("a", 0, NOT_AVAILABLE))
    with pytest.raises(SourceError, match="'a' at the moment: LeaderNotAvailableError"):
        describe_topics(SETTINGS, ["a"])


def test_every_missing_topic_is_one_problem_with_its_fix(broker: list[Mapping[str, Any]]) -> None:
    broker += [entry("a", 0, UNKNOWN), entry("b", 0, DENIED)]
    with pytest.raises(ConfigError) as caught:
        describe_topics(SETTINGS, ["a", "b"]).require_all("kafka.topics", ", or leave the setting empty")
    assert [(problem.key, problem.value) for problem in caught.value.problems] == [("kafka.topics", "a"), ("kafka.topics", "b")]
    assert all(problem.allowed.endswith(", or leave the setting empty") for problem in caught.value.problems)


def test_equal_partition_counts_are_accepted(broker: list[Mapping[str, Any]]) -> None:
    broker += [entry("shown"), entry("clicked")]
    assert set(require_copartitioned(SETTINGS)) == {"shown", "clicked"}


def test_unequal_partition_counts_are_refused_with_topics_and_counts(broker: list[Mapping[str, Any]]) -> None:
    broker += [entry("shown", 4), entry("clicked", 6)]
    with pytest.raises(ConfigError, match="shown has 4, clicked has 6"):
        require_copartitioned(SETTINGS)


@pytest.mark.parametrize(
    ("cluster_id", "brokers", "info"),
    [
        ("abc", [{"broker_id": 3}, {"broker_id": 4}], ClusterInfo("abc", 2, "4.1")),
        (None, [], ClusterInfo("", 0, "")),
    ],
    ids=["two brokers", "nothing known"],
)
def test_a_cluster_is_described(monkeypatch: pytest.MonkeyPatch, cluster_id: Any, brokers: Sequence[Any], info: ClusterInfo) -> None:
    asked = []

    class Admin:
        def describe_cluster(self) -> dict[str, Any]:
            return {"cluster_id": cluster_id, "brokers": brokers}

        def get_broker_version_data(self, broker_id: int) -> Any:
            asked.append(broker_id)
            return SimpleNamespace(broker_version=(4, 1))

    @contextmanager
    def asking(settings: KafkaSettings, what: str) -> Iterator[Admin]:
        yield Admin()

    monkeypatch.setattr(topics, "asking", asking)
    assert read_cluster(KafkaSettings(bootstrap_servers=("nowhere:1",))) == info
    assert asked == [broker["broker_id"] for broker in brokers[:1]]
