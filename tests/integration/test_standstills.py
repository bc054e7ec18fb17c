"""A partition that stands still is named in the report of another process, through a real Redis, as long as it stands."""

from __future__ import annotations

import json

import pytest

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.clock import SystemClock
from streammetrics.connectors.redis.shared_values import RedisFields
from streammetrics.connectors.source import Input
from streammetrics.runtime.consume.lag import StandstillNotes
from streammetrics.runtime.retry import Trouble
from streammetrics.runtime.status import ProcessStatus, Standstill
from tests.support.real_pipeline import Pipeline
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import wait_until
from tests.tools.servers.redis import RedisCluster


def test_the_report_of_an_exporter_names_what_a_worker_noted(kafka_broker: KafkaBroker, redis_url: str, topic_name: str) -> None:
    pipeline = Pipeline(kafka_broker, redis_url, topic_name, ["impressions", "feedback"])
    with pipeline.service() as service:
        wait_until(lambda: service.report().get("tasks_committed", 0) > 0, what="the tasks have committed")
    status, fields = ProcessStatus(), RedisFields(pipeline.settings.redis, "standstills")
    clock, place = SystemClock(), Input(pipeline.topics[1], 0)
    notes = StandstillNotes(status, clock, fields)

    def note(offset: int) -> None:
        status.standstills[place] = Standstill(offset, clock.monotonic() - 60, "the batch has a\nwrong checksum")
        notes.turn()

    with pipeline.service(worker={"role": "exporter"}) as exporter:
        status.lag_records[place] = 4
        note(0)
        wait_until(lambda: bool(exporter.report()["warnings"]), what="it is named")
        (warning,) = exporter.report()["warnings"]
        assert warning.startswith(f"Partition 0 of {place.topic} has stood at offset 0 since ")
        assert "although it has more records: the batch has a wrong checksum. Final numbers wait for it" in warning
        note(9)
        wait_until(lambda: not exporter.report()["warnings"], what="another offset than the committed one is not named")
        note(0)
        wait_until(lambda: bool(exporter.report()["warnings"]), what="it is named again")
        status.standstills.clear()
        notes.turn()
        wait_until(lambda: not exporter.report()["warnings"], what="it has moved")
    assert fields.read() == {}
    fields.close()


def test_an_exporter_says_within_seconds_that_its_workers_cannot_read(kafka_broker: KafkaBroker, redis_url: str, topic_name: str) -> None:
    pipeline = Pipeline(kafka_broker, redis_url, topic_name, ["impressions", "feedback"])
    with pipeline.service() as service:
        wait_until(lambda: service.report().get("tasks_committed", 0) > 0, what="the tasks have committed")
    status, clock, fields = ProcessStatus(), SystemClock(), RedisFields(pipeline.settings.redis, "standstills")
    notes, ended = (StandstillNotes(status, clock, fields) for _ in range(2))
    with pipeline.service(worker={"role": "exporter"}) as exporter:

        def outages() -> list[str]:
            return list(json.loads(exporter.get("/api/pulse").text)["outages"])

        status.source_trouble = Trouble(clock.monotonic(), 1, "no Kafka broker answers (b:9092: timed out)")
        ended.turn()
        wait_until(lambda: outages() == ["no Kafka broker answers (b:9092: timed out)"], what="the outage is said")
        assert exporter.get("/readyz").status == 200, "the page can still be reached"
        wait_until(lambda: not outages(), what="a worker that says nothing more has ended")
        notes.turn()
        wait_until(lambda: bool(outages()), what="the outage is said again")
        status.source_trouble = None
        notes.turn()
        wait_until(lambda: not outages(), what="it is over")
    fields.close()


def test_the_notes_of_others_stay(redis_url: str) -> None:
    clock, fields = SystemClock(), RedisFields(RedisSettings(url=redis_url, namespace="notes"), "standstills")
    statuses = [ProcessStatus(), ProcessStatus()]
    for task, status in enumerate(statuses):
        place = Input("clicks", task)
        status.lag_records[place] = 1
        status.standstills[place] = Standstill(7, clock.monotonic(), "it is damaged")
        StandstillNotes(status, clock, fields).turn()
    assert sorted(fields.read()) == ["clicks:0", "clicks:1"]
    before = fields.read()["clicks:1"]
    statuses[0].standstills.clear()
    for status in statuses:
        StandstillNotes(status, clock, fields).turn()
    assert fields.read() == {"clicks:1": before}
    fields.close()


def test_a_store_that_fails_stops_no_worker() -> None:
    away = RedisFields(RedisSettings(url="redis://127.0.0.1:1/0"), "standstills")
    StandstillNotes(ProcessStatus(), SystemClock(), away).turn()
    away.close()


@pytest.mark.parametrize("value", [b"\xff", b"[]", b'["clicks",0]'])
def test_a_note_that_cannot_be_read_is_replaced(redis_url: str, value: bytes) -> None:
    fields = RedisFields(RedisSettings(url=redis_url, namespace="broken"), "standstills")
    fields.change({"clicks:0": value})
    status, clock = ProcessStatus(), SystemClock()
    status.standstills[Input("clicks", 0)] = Standstill(7, clock.monotonic(), "it is damaged")
    StandstillNotes(status, clock, fields).turn()
    assert fields.read()["clicks:0"].startswith(b'["clicks",0,7,')
    fields.change({"clicks:0": None})
    assert fields.read() == {}
    fields.close()


def test_a_cluster_has_the_notes(redis_cluster: RedisCluster, namespace: str) -> None:
    fields = RedisFields(RedisSettings(url=redis_cluster.url, namespace=namespace, cluster=True), "standstills")
    fields.change({"clicks:0": b"here"})
    assert fields.read() == {"clicks:0": b"here"}
    fields.close()
