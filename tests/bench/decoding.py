"""The cost of decoding mapped events, next to native events of the same content. Both decoders must give equal events.

Run it alone: `python -m tests.bench.decoding`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from streammetrics.events import EventLimits, decoder, topic_decoder
from streammetrics.events.mappings.rules import PRESETS, parse_mappings
from tests.bench.parts import WrongAnswerError
from tests.events.mappings.samples import RECORDS

ROUNDS, EVENTS = 7, 20_000
LIMITS = EventLimits()
ITEMS = [f"item-{number:05}" for number in range(12)]
OBJECTS = [{"id": item, "position": place} for place, item in enumerate(ITEMS)]
SHARED = {"user_id": "user.id", "ts": "time", "impression_id": "list"}
LABELS = {"experiments": {"ranker-v7": "ab.ranker"}, "segments": {"surface": "surface"}}
RULES = [
    {"kind": "impression", "when": {"event": "results"}, **SHARED, "items": "results", **LABELS},
    {
        "kind": "impression",
        "when": {"event": "objects"},
        **SHARED,
        "items": "objects",
        "item_id": "id",
        "item_position": "position",
        **LABELS,
    },
    {"kind": "feedback", "when": {"event": ["click", "watch"]}, **SHARED, "item_id": "item", "action": "event", "value": "seconds"},
    {"kind": "ignore"},
]
NATIVE: dict[str, Any] = {"impression_id": "r-8134567", "user_id": "u7123456", "ts": 1732183200123}
NATIVE_LIST = NATIVE | {"type": "impression", "experiments": {"ranker-v7": "treatment"}, "segments": {"surface": "home"}}
NATIVE_FEEDBACK = NATIVE | {"type": "feedback", "item_id": ITEMS[3], "action": "watch", "value": 48.0}
MAPPED: dict[str, Any] = {"list": "r-8134567", "user": {"id": "u7123456"}, "time": 1732183200123}
MAPPED_LIST = MAPPED | {"ab": {"ranker": "treatment"}, "surface": "home"}
CASES = {
    "list of texts": (NATIVE_LIST | {"items": ITEMS}, MAPPED_LIST | {"event": "results", "results": ITEMS}),
    "list of objects": (NATIVE_LIST | {"items": OBJECTS}, MAPPED_LIST | {"event": "objects", "objects": OBJECTS}),
    "feedback": (NATIVE_FEEDBACK, MAPPED | {"event": "watch", "item": ITEMS[3], "seconds": 48.0}),
}


class DecodeCost(NamedTuple):
    """Microseconds of processor time for one event."""

    name: str
    native: float
    mapped: float

    def ratio(self) -> float:
        return self.mapped / self.native


def costs() -> list[DecodeCost]:
    """Measure every case. Raises WrongAnswerError if the events differ."""
    native, mapped = decoder("native", LIMITS), topic_decoder("events", "native", parse_mappings(RULES), LIMITS)
    found = []
    for name, (one, other) in CASES.items():
        sent, sent_mapped = _sent(one), _sent(other)
        if list(native(sent)) != list(mapped(sent_mapped)):
            raise WrongAnswerError(f"{name}: the events differ")
        found.append(DecodeCost(name, cost_of(native, sent), cost_of(mapped, sent_mapped)))
    return found


def preset_costs() -> Iterator[tuple[str, list[float]]]:
    """Yield the cost (us) of each ordinary record of each preset; see `tests.events.mappings.samples`."""
    for preset in PRESETS:
        decode = decoder(preset, EventLimits(exposures=True))
        yield preset, [cost_of(decode, _sent(record)) for record in RECORDS[preset]]


def _sent(event: dict[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


def cost_of(decode: Callable[[bytes], object], value: bytes) -> float:
    """Return the least cost of several rounds: the others were disturbed."""
    least = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(EVENTS):
            decode(value)
        least = min(least, time.process_time() - began)
    return least / EVENTS * 1e6


if __name__ == "__main__":
    for each in costs():
        print(f"{each.name:16} native {each.native:5.2f} us   mapped {each.mapped:5.2f} us   {each.ratio():4.2f} times")
    for name, each_cost in preset_costs():
        print(f"{name:16}", *(f"{cost:5.2f} us" for cost in each_cost))
