"""How events reach a log: encoded, a little out of order, some twice, some late, some broken. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import islice
from types import EllipsisType
from typing import NamedTuple, TypeAlias

import msgspec

from streammetrics.connectors.simulated.people import Draw, World, WrittenFeedback, WrittenImpression, lists
from streammetrics.connectors.simulated.traffic import Traffic
from streammetrics.events.model import TS_MAX

_Arrival: TypeAlias = tuple[int, int, WrittenImpression | WrittenFeedback, int | None]
"""When (ms), a number that settles ties, what, and which breakage if any. Encoded on arrival: until then it takes little room."""


class SimulatedRecord(NamedTuple):
    """One record for a log: the user id is the key, `ts` the event time (ms), `value` the JSON of the native schema.

    A malformed record has the key and the ts of the good event that it goes with.
    """

    topic: str
    key: bytes
    ts: int
    value: bytes


def generate(traffic: Traffic, events_max: int | None = None, until_ms: int | None = None) -> Iterator[SimulatedRecord]:
    """The traffic in order of arrival: endless, or as many records as `events_max`, or those with ts < `until_ms`.

    Memory grows with what is under way (open visits, lates not yet arrived), not with time and not with users. What is
    dated before some time comes in the same order whatever the bounds.

    >>> first = next(generate(Traffic(users=3, seed=1, disorder_ms=0)))
    >>> first.topic, first.key, first.value[:45]
    ('impressions', b'u0', b'{"type":"impression","impression_id":"r0-0","')
    """
    until_ms = TS_MAX + 1 if until_ms is None else min(until_ms, TS_MAX + 1)
    return islice(_in_order(World(traffic), until_ms), events_max)


def _in_order(world: World, until_ms: int) -> Iterator[SimulatedRecord]:
    # Nothing arrives before its ts, nor is dated before its list: when a list is due, all earlier arrivals are known.
    under_way: list[_Arrival] = []
    number = 0
    for ts, draw, happened in lists(world, until_ms):
        while under_way and under_way[0][0] < ts:
            yield _sent(world.traffic, heapq.heappop(under_way))
        for event in happened:
            for arrival_ms, breakage in _arrivals(world.traffic, draw, event.ts):
                if event.ts < until_ms:
                    heapq.heappush(under_way, (arrival_ms, number, event, breakage))
                    number += 1
    while under_way:
        yield _sent(world.traffic, heapq.heappop(under_way))


def _arrivals(traffic: Traffic, draw: Draw, ts: int) -> list[tuple[int, int | None]]:
    """When an event arrives, and what transport adds to it: (ms, which breakage, if any). Four draws, whatever the rates."""
    delay_ms = int(draw() * (traffic.disorder_ms + 1))
    late_ms = traffic.late_ms if draw() < traffic.late_rate else 0
    arrival_ms = ts + late_ms + delay_ms
    arrivals: list[tuple[int, int | None]] = [(arrival_ms, None)]
    # A draw below its rate is, divided by the rate, an even draw again: it also says when, or in which way.
    again = draw()
    if again < traffic.duplicate_rate:
        arrivals.append((arrival_ms + int(again / traffic.duplicate_rate * (traffic.disorder_ms + 1 - delay_ms)), None))
    broken = draw()
    if broken < traffic.malformed_rate:
        arrivals.append((arrival_ms, int(broken / traffic.malformed_rate * len(BREAKAGES))))
    return arrivals


def _sent(traffic: Traffic, arrival: _Arrival) -> SimulatedRecord:
    _, _, event, breakage = arrival
    topic = traffic.impressions_topic if type(event) is WrittenImpression else traffic.feedback_topic
    value = msgspec.json.encode(event)
    return SimulatedRecord(topic, event.user_id.encode(), event.ts, value if breakage is None else BREAKAGES[breakage](value))


def _with(**changes: str | int | list[str] | EllipsisType) -> Callable[[bytes], bytes]:
    """The event with some fields otherwise; `...` leaves a field out."""

    def breakage(value: bytes) -> bytes:
        changed = {**msgspec.json.decode(value), **changes}
        return msgspec.json.encode({name: content for name, content in changed.items() if content is not ...})

    return breakage


BREAKAGES: tuple[Callable[[bytes], bytes], ...] = (
    lambda value: b"",
    lambda value: value[: len(value) // 2],
    lambda value: value[:-1],
    lambda value: value + b"}",
    lambda value: b"\xff\xfe" + value,
    lambda value: b"[" + value + b"]",
    lambda value: b"[" * 5_000,
    lambda value: value.replace(b'"ts":', b'"ts":NaN,"was":', 1),
    lambda value: value.replace(b'"user_id":"', b'"user_id":"\x00', 1),
    lambda value: value.replace(b'"user_id":"', b'"user_id":"\\ud800', 1),
    _with(type=...),
    _with(type="exhibition"),
    _with(user_id=...),
    _with(user_id=""),
    _with(user_id=7),
    _with(ts=...),
    _with(ts=-1),
    _with(ts=TS_MAX + 1),
    _with(ts="yesterday"),
    _with(ts="2024-11-21T10:00:00"),
    _with(items="", item_id=["a"]),
)
"""The ways in which a record is broken, equally likely: a good value in, bytes that hold no event out."""
