"""Simulates the transport of events to a log: encoded, out of order, some twice, some late, some malformed. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import islice
from types import EllipsisType
from typing import NamedTuple, TypeAlias

import msgspec

from streammetrics.connectors.simulated.people import (
    EXPOSURE_LEAD_MS,
    Catalogue,
    Draw,
    WrittenEvent,
    WrittenFeedback,
    WrittenImpression,
    lists,
)
from streammetrics.connectors.simulated.traffic import Traffic
from streammetrics.events.model import TS_MAX

_Arrival: TypeAlias = tuple[int, int, WrittenEvent, int | None]
"""Arrival time (ms), a number to break ties, the event, and which defect if any. It is encoded on arrival, to save memory."""


class SimulatedRecord(NamedTuple):
    """One record for a log: the key is the user id, `ts` the event time (ms), `value` the event as native JSON.

    A malformed record has the key and the ts of the valid event that it accompanies.
    """

    topic: str
    key: bytes
    ts: int
    value: bytes


def generate(traffic: Traffic, events_max: int | None = None, until_ms: int | None = None) -> Iterator[SimulatedRecord]:
    """Return the traffic in order of arrival: endless, or at most `events_max` records, or those with ts < `until_ms`.

    Memory grows with open visits and late records that have not arrived, not with time or users. Records dated before some
    time come in the same order whatever the bounds.

    >>> first = next(generate(Traffic(users=3, seed=1, disorder_ms=0)))
    >>> first.topic, first.key, first.value[:45]
    ('impressions', b'u0', b'{"type":"impression","impression_id":"r0-0","')
    """
    until_ms = TS_MAX + 1 if until_ms is None else min(until_ms, TS_MAX + 1)
    return islice(_in_order(Catalogue(traffic), until_ms), events_max)


def _in_order(catalogue: Catalogue, until_ms: int) -> Iterator[SimulatedRecord]:
    # No record arrives before its ts, or has a ts more than the lead before its list. So when a list is due, all arrivals before the
    # lead are known.
    lead_ms = EXPOSURE_LEAD_MS if catalogue.traffic.exposures else 0
    in_transit: list[_Arrival] = []
    number = 0
    for ts, draw, happened in lists(catalogue, until_ms + lead_ms):
        while in_transit and in_transit[0][0] < ts - lead_ms:
            yield _sent(catalogue.traffic, heapq.heappop(in_transit))
        for event in happened:
            for arrival_ms, defect in _arrivals(catalogue.traffic, draw, event.ts):
                if event.ts < until_ms:
                    heapq.heappush(in_transit, (arrival_ms, number, event, defect))
                    number += 1
    while in_transit:
        yield _sent(catalogue.traffic, heapq.heappop(in_transit))


def _arrivals(traffic: Traffic, draw: Draw, ts: int) -> list[tuple[int, int | None]]:
    """Return the arrivals of an event and of its copies: (ms, which defect if any). Always takes four draws."""
    delay_ms = int(draw() * (traffic.disorder_ms + 1))
    late_ms = traffic.late_ms if draw() < traffic.late_rate else 0
    arrival_ms = ts + late_ms + delay_ms
    arrivals: list[tuple[int, int | None]] = [(arrival_ms, None)]
    # A draw below its rate, divided by the rate, is uniform again. So it also decides when, or which defect.
    again = draw()
    if again < traffic.duplicate_rate:
        arrivals.append((arrival_ms + int(again / traffic.duplicate_rate * (traffic.disorder_ms + 1 - delay_ms)), None))
    broken = draw()
    if broken < traffic.malformed_rate:
        arrivals.append((arrival_ms, int(broken / traffic.malformed_rate * len(DEFECTS))))
    return arrivals


def _sent(traffic: Traffic, arrival: _Arrival) -> SimulatedRecord:
    _, _, event, defect = arrival
    kind = type(event)
    topic = (
        traffic.impressions_topic
        if kind is WrittenImpression
        else traffic.feedback_topic
        if kind is WrittenFeedback
        else traffic.exposures_topic
    )
    value = msgspec.json.encode(event)
    return SimulatedRecord(topic, event.user_id.encode(), event.ts, value if defect is None else DEFECTS[defect](value))


def _with(**changes: str | int | list[str] | EllipsisType) -> Callable[[bytes], bytes]:
    """Return a function that changes some fields of an event; `...` removes a field."""

    def defect(value: bytes) -> bytes:
        changed = {**msgspec.json.decode(value), **changes}
        return msgspec.json.encode({name: content for name, content in changed.items() if content is not ...})

    return defect


DEFECTS: tuple[Callable[[bytes], bytes], ...] = (
    lambda value: b"",
    lambda value: value[: len(value) // 2],
    lambda value: value[:-1],
    lambda value: value + b"}",
    lambda value: b"\xff\xfe" + value,
    lambda value: b"[[" + value + b"]]",
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
    _with(items="", item_id=["a"], variant=["a"]),
)
"""All defects, equally likely. Each turns the bytes of a valid event into bytes without one."""
