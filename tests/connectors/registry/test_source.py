"""A source hands out records in order, and only with their schemas. While a registry is away, it drops nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.connectors.registry.schemas import Schemas
from streammetrics.connectors.registry.source import SchemaSource, loaded
from streammetrics.connectors.source import Input, InputRecord, PollResult
from streammetrics.errors import ConfigError, MalformedEvent
from streammetrics.events.encodings.schema_text import MissingPackageError, SchemaText
from streammetrics.events.sent_value import SentValue
from tests.connectors.registry.fakes import CLICK, FakeRegistry, FakeSource, framed, records
from tests.servers.process import wait_until

A, B = Input("a", 0), Input("b", 0)


class Bench:
    def __init__(self, **schemas: SchemaText) -> None:
        self.registry = FakeRegistry({name.removeprefix("id"): schema for name, schema in schemas.items()})
        self.inner = FakeSource()
        self.schemas = Schemas(cast(Any, self.registry))
        self.source = SchemaSource(self.inner, self.schemas, ["a", "b"])
        self.got: dict[Input, list[InputRecord]] = {A: [], B: []}

    def send(self, **by_topic: list[InputRecord]) -> None:
        self.inner.results.append(PollResult({Input(topic, 0): sent for topic, sent in by_topic.items()}))

    def poll(self) -> PollResult:
        polled = self.source.poll(0)
        for place, found in polled.records.items():
            self.got[place] += found
        return polled

    def poll_until(self, condition: Callable[[], bool]) -> None:
        def polled() -> bool:
            self.poll()
            return condition()

        wait_until(polled, what="the records are there")

    def offsets(self, place: Input) -> list[int]:
        return [record.offset for record in self.got[place]]


def read(value: bytes | None) -> Any:
    assert isinstance(value, SentValue)
    assert value.to_json is not None
    return json.loads(value.to_json(value))


@pytest.fixture
def bench() -> Any:
    bench = Bench(id7=CLICK)
    yield bench
    bench.source.close()


def test_records_come_with_their_schema(bench: Bench) -> None:
    bench.send(a=records(0, [framed(7), b"{}", None, b""]))
    bench.poll_until(lambda: len(bench.got[A]) == 4)
    assert read(bench.got[A][0].value) == {"n": 1}
    assert [record.value for record in bench.got[A][1:]] == [b"{}", None, b""]
    assert bench.registry.asked == ["7"]
    assert bench.inner.paused == set()


def test_a_topic_with_a_schema_file_is_left_alone() -> None:
    bench = Bench()
    bench.source = SchemaSource(bench.inner, bench.schemas, ["b"])
    bench.send(a=records(0, [framed(7)]))
    bench.poll()
    assert [record.value for record in bench.got[A]] == [framed(7)]
    assert bench.registry.asked == []


def test_an_unknown_id_refuses_its_record_and_names_the_id(bench: Bench) -> None:
    bench.send(a=records(0, [framed(99), framed(7)]))
    bench.poll_until(lambda: len(bench.got[A]) == 2)
    with pytest.raises(MalformedEvent, match="unknown_schema: schema id 99 is not in the schema registry"):
        read(bench.got[A][0].value)
    assert read(bench.got[A][1].value) == {"n": 1}


def test_a_schema_that_cannot_be_used_refuses_its_records() -> None:
    bench = Bench(id7=SchemaText("AVRO", "{"))
    bench.send(a=records(0, [framed(7)]))
    bench.poll_until(lambda: len(bench.got[A]) == 1)
    with pytest.raises(MalformedEvent, match="bad_encoding: schema id 7 of the schema registry at http://registry cannot be used"):
        read(bench.got[A][0].value)


def test_a_registry_that_is_away_pauses_the_input_and_keeps_the_order(bench: Bench) -> None:
    bench.registry.away = True
    bench.send(a=records(0, [b"{}", framed(7), b"{}"]), b=records(0, [b"{}"]))
    bench.poll()
    assert (bench.offsets(A), bench.offsets(B)) == ([0], [0])
    assert bench.inner.paused == {A}
    wait_until(lambda: bool(bench.source.health.schemas and bench.source.health.schemas.failures), what="a request has failed")
    assert bench.source.health.schemas is not None
    assert bench.source.health.schemas.inputs == 1
    assert "does not answer" in bench.source.health.schemas.error
    bench.send(a=records(3, [framed(7)]), b=records(1, [b"{}"]))  # fetched before the pause
    bench.poll()
    assert (bench.offsets(A), bench.offsets(B)) == ([0], [0, 1])
    bench.registry.away = False
    bench.poll_until(lambda: len(bench.got[A]) == 4)
    assert bench.offsets(A) == [0, 1, 2, 3]
    assert bench.inner.paused == set()
    assert bench.source.health.schemas.failures == 0


def test_what_the_caller_has_paused_stays_paused(bench: Bench) -> None:
    bench.registry.away = True
    bench.send(a=records(0, [framed(7)]))
    bench.poll()
    bench.source.pause([A, B])
    bench.source.resume([A, B])
    assert bench.inner.paused == {A}
    bench.source.pause([A])
    bench.registry.away = False
    bench.poll_until(lambda: len(bench.got[A]) == 1)
    assert bench.inner.paused == {A}
    bench.source.resume([A])
    assert bench.inner.paused == set()


@pytest.mark.parametrize("lose", ["rebalance", "start"])
def test_held_records_of_a_task_that_starts_again_are_dropped(bench: Bench, lose: str) -> None:
    bench.registry.away = True
    bench.send(a=records(0, [framed(7)]))
    bench.poll()
    if lose == "rebalance":
        bench.inner.results.append(PollResult(assigned=frozenset({0}), revoked=frozenset({0})))
        bench.poll()
    else:
        bench.source.start(0, {})
    bench.registry.away = False
    bench.send(a=records(0, [framed(7)]))  # read again
    bench.poll_until(lambda: len(bench.got[A]) == 1)
    for _ in range(5):
        bench.poll()
    assert bench.offsets(A) == [0]


def test_a_missing_package_ends_the_process(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> Any:
        raise MissingPackageError("fastavro", "avro", "Avro")

    monkeypatch.setattr("streammetrics.connectors.registry.schemas.registered_reader", missing)
    bench.send(a=records(0, [framed(7)]))
    with pytest.raises(
        ConfigError, match=r"registry.url = http://registry: has schema id 7: Avro needs .*pip install 'streammetrics\[avro\]'"
    ):
        bench.poll_until(lambda: False)


def test_an_id_in_a_header_is_found_and_a_damaged_one_refused(bench: Bench) -> None:
    bench.registry.schemas["8"] = CLICK
    good = SentValue.of(b"\x02", {"apicurio.value.globalId": (8).to_bytes(8)})
    bad = SentValue.of(b"\x02", {"apicurio.value.globalId": b"\x08"})
    bench.send(a=records(0, [good, bad]))
    bench.poll_until(lambda: len(bench.got[A]) == 2)
    assert read(bench.got[A][0].value) == {"n": 1}
    with pytest.raises(MalformedEvent, match="bad_encoding: the header that names the schema is damaged"):
        read(bench.got[A][1].value)


def test_loaded_waits_for_one_answer(bench: Bench) -> None:
    assert read(loaded(framed(7), bench.schemas)) == {"n": 1}
    assert (loaded(b"{}", bench.schemas), loaded(None, bench.schemas)) == (b"{}", None)


@given(st.data())
def test_any_outages_keep_every_record_once_and_in_order(data: st.DataObject) -> None:
    bench = Bench(id1=CLICK, id2=CLICK)
    sent = {A: 0, B: 0}
    try:
        for _ in range(data.draw(st.integers(1, 12))):
            action = data.draw(st.sampled_from(["send", "away", "back", "poll", "pause", "resume"]))
            if action == "send":
                place = data.draw(st.sampled_from([A, B]))
                if place not in bench.inner.paused:
                    values = data.draw(st.lists(st.sampled_from([framed(1), framed(2), framed(3), b"{}", None]), min_size=1, max_size=4))
                    bench.send(**{place.topic: records(sent[place], values)})
                    sent[place] += len(values)
            elif action in ("away", "back"):
                bench.registry.away = action == "away"
            elif action == "poll":
                bench.poll()
            else:
                (bench.source.pause if action == "pause" else bench.source.resume)([A])
        bench.registry.away = False
        bench.source.resume([A, B])
        bench.poll_until(lambda: not bench.inner.results and all(len(bench.got[place]) == count for place, count in sent.items()))
        assert {place: bench.offsets(place) for place in (A, B)} == {place: list(range(count)) for place, count in sent.items()}
        assert bench.inner.paused == set()
    finally:
        bench.source.close()
