"""Dead letters in a topic of a real broker."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.kafka import sinks
from streammetrics.connectors.kafka.sinks import CUT_VALUE_BYTES, KafkaDeadLetters
from streammetrics.connectors.source import Input
from streammetrics.errors import ConfigError, SourceError
from tests.support.kafka_member import read_letters, settings_for
from tests.support.timing import time_bound
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import free_port, wait_until


def test_letters_are_in_the_topic_when_write_returns(kafka_broker: KafkaBroker, topic_name: str) -> None:
    kafka_broker.create_topic(topic_name)
    letters = KafkaDeadLetters(settings_for(kafka_broker, "input"), topic_name)
    letters.write(
        [
            DeadLetter("bad_json", "at byte 3: 'ä'", Input("clicks", 2), 41, b"\xff{"),
            DeadLetter("empty", "", Input("shown", 0), 7, None),
        ]
    )
    letter_records = read_letters(kafka_broker, topic_name, 2)
    letters.close()
    assert [(record.key, record.value) for record in letter_records] == [(b"clicks:2:41", b"\xff{"), (b"shown:0:7", None)]
    assert dict(letter_records[0].headers) == {
        "reason": b"bad_json",
        "detail": "at byte 3: 'ä'".encode(),
        "topic": b"clicks",
        "partition": b"2",
        "offset": b"41",
    }


def test_many_letters_arrive_in_order(kafka_broker: KafkaBroker, topic_name: str) -> None:
    kafka_broker.create_topic(topic_name)
    letters = KafkaDeadLetters(settings_for(kafka_broker, "input"), topic_name)
    letters.write(DeadLetter("late", "", Input("clicks", 0), number, json.dumps(number).encode()) for number in range(1_234))
    assert [json.loads(record.value) for record in read_letters(kafka_broker, topic_name, 1_234)] == list(range(1_234))
    letters.close()


def test_a_letter_too_large_for_the_topic_is_cut_and_marked(kafka_broker: KafkaBroker, topic_name: str) -> None:
    kafka_broker.create_topic(topic_name, configs={"max.message.bytes": "100000"})
    letters = KafkaDeadLetters(settings_for(kafka_broker, "input"), topic_name)
    letters.write(
        [
            DeadLetter("oversized", "", Input("clicks", 0), 1, b"x" * 2_000_000),
            DeadLetter("late", "", Input("clicks", 0), 2, b"small"),
        ]
    )
    letter_by_key = {record.key: record for record in read_letters(kafka_broker, topic_name, 2)}
    letters.close()
    assert letter_by_key[b"clicks:0:1"].value == b"x" * CUT_VALUE_BYTES
    assert dict(letter_by_key[b"clicks:0:1"].headers)["value_bytes"] == b"2000000"
    assert letter_by_key[b"clicks:0:2"].value == b"small"


DAY_MS = 86_400_000


@pytest.mark.parametrize("refused", [1, 2, 5])
@pytest.mark.parametrize(
    ("configs", "value", "timestamp_ms"),
    [
        ({"message.timestamp.before.max.ms": str(DAY_MS)}, b"old", 1),
        ({"message.timestamp.after.max.ms": str(DAY_MS)}, b"ahead", 4_000_000_000_000),
        ({"max.message.bytes": "100000"}, b"x" * 200_000, -1),
        ({"max.message.bytes": "100000", "message.timestamp.before.max.ms": str(DAY_MS)}, b"x" * 200_000, 1),
    ],
    ids=["a time before", "a time after", "a size", "both"],
)
def test_letters_that_a_topic_refuses_as_they_are_are_written_in_another_form(
    kafka_broker: KafkaBroker, topic_name: str, configs: Mapping[str, str], value: bytes, timestamp_ms: int, refused: int
) -> None:
    kafka_broker.create_topic(topic_name, configs=dict(configs))
    lost: list[DeadLetter] = []
    letters = KafkaDeadLetters(settings_for(kafka_broker, "input"), topic_name, lost.append)
    bad = [DeadLetter("late", "", Input("clicks", 0), offset, value, timestamp_ms) for offset in range(refused)]
    good = [DeadLetter("late", "", Input("clicks", 0), offset, b"good") for offset in range(refused, 5)]
    letters.write(bad + good)
    records = {int(record.key.split(b":")[-1]): record.value for record in read_letters(kafka_broker, topic_name, 5)}
    letters.close()
    assert records == {**dict.fromkeys(range(refused), value[:CUT_VALUE_BYTES]), **dict.fromkeys(range(refused, 5), b"good")}
    assert lost == []


@pytest.mark.parametrize("count", [1, 2, 5])
def test_letters_that_a_topic_refuses_in_every_form_are_lost_and_counted(kafka_broker: KafkaBroker, topic_name: str, count: int) -> None:
    kafka_broker.create_topic(topic_name, configs={"max.message.bytes": "1000"})
    lost: list[DeadLetter] = []
    letters = KafkaDeadLetters(settings_for(kafka_broker, "input"), topic_name, lost.append)
    bad = [DeadLetter("late", "", Input("clicks", 0), offset, b"x" * 20_000) for offset in range(count)]
    letters.write([*bad, DeadLetter("late", "", Input("clicks", 0), count, b"good")])
    assert [record.value for record in read_letters(kafka_broker, topic_name, 1)] == [b"good"]
    letters.close()
    assert lost == bad


def test_a_missing_topic_and_an_input_topic_are_refused(kafka_broker: KafkaBroker, topic_name: str) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        KafkaDeadLetters(settings_for(kafka_broker, "input"), topic_name)
    with pytest.raises(ConfigError, match="must not be an input topic"):
        KafkaDeadLetters(settings_for(kafka_broker, "input"), "input")


def test_without_a_topic_nothing_is_written_and_no_broker_is_contacted() -> None:
    settings: Mapping[str, Any] = {"bootstrap_servers": (f"127.0.0.1:{free_port()}",)}
    letters = KafkaDeadLetters(KafkaSettings(**settings), "")
    letters.write([DeadLetter("late", "", Input("clicks", 0), 1, b"")])
    letters.close()


@time_bound(10)
def test_a_broker_that_is_away_is_an_error_and_writing_works_again_later(
    kafka_broker: KafkaBroker, topic_name: str, monkeypatch: pytest.MonkeyPatch, seconds_max: float
) -> None:
    monkeypatch.setattr(sinks, "LETTER_WRITE_MS_MAX", 3_000)
    kafka_broker.create_topic(topic_name)
    letters = KafkaDeadLetters(settings_for(kafka_broker, "input"), topic_name)
    letter = DeadLetter("late", "", Input("clicks", 0), 1, b"kept")
    letters.write([letter])
    kafka_broker.kill()
    began = time.monotonic()
    with pytest.raises(SourceError, match=topic_name):
        letters.write([letter])
    assert time.monotonic() - began < seconds_max
    kafka_broker.start()
    letters.write([letter])
    assert {record.key for record in read_letters(kafka_broker, topic_name, 2)} == {b"clicks:0:1"}
    letters.close()


@time_bound(4)
def test_closing_drops_letters_that_a_hung_broker_has_not_accepted(kafka_broker: KafkaBroker, topic_name: str, seconds_max: float) -> None:
    kafka_broker.create_topic(topic_name)
    before = set(threading.enumerate())
    letters = KafkaDeadLetters(settings_for(kafka_broker, "input"), topic_name)
    letters.write([DeadLetter("late", "", Input("clicks", 0), 1, b"kept")])
    kafka_broker.hang()
    letters._producer.send(topic_name, value=b"unsent")
    began = time.monotonic()
    letters.close()
    assert time.monotonic() - began < seconds_max
    wait_until(lambda: set(threading.enumerate()) <= before, what="its threads have ended")
