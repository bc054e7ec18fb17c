"""The cost of decoding records through a reader, next to native events of the same content. Both decoders must give equal events.

Run it alone: `python -m tests.tools.bench.decoding`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from streammetrics.events import EventLimits, native_decoder
from streammetrics.events.reader import reader_decoder
from streammetrics.readers import Record
from tests.tools.bench.parts import WrongAnswerError

ROUNDS, EVENTS = 7, 20_000
LIMITS = EventLimits()
ITEMS = [f"item-{number:05}" for number in range(12)]
OBJECTS = [{"id": item, "position": place} for place, item in enumerate(ITEMS)]
NATIVE: dict[str, Any] = {"impression_id": "r-8134567", "user_id": "u7123456", "ts": 1732183200123}
NATIVE_LIST = NATIVE | {"type": "impression", "experiments": {"ranker-v7": "treatment"}, "segments": {"surface": "home"}}
NATIVE_FEEDBACK = NATIVE | {"type": "feedback", "item_id": ITEMS[3], "action": "watch", "value": 48.0}
OWN: dict[str, Any] = {"list": "r-8134567", "user": {"id": "u7123456"}, "time": 1732183200123}
OWN_LIST = OWN | {"ab": {"ranker": "treatment"}, "surface": "home"}
CASES = {
    "list of texts": (NATIVE_LIST | {"items": ITEMS}, OWN_LIST | {"event": "results", "results": ITEMS}),
    "list of objects": (NATIVE_LIST | {"items": OBJECTS}, OWN_LIST | {"event": "results", "results": OBJECTS}),
    "feedback": (NATIVE_FEEDBACK, OWN | {"event": "watch", "item": ITEMS[3], "seconds": 48.0}),
}


def read(record: Record) -> Iterator[dict[str, Any]]:
    """Read the records of the cases."""
    event = record.json()
    if event["event"] == "results":
        yield {
            "type": "impression",
            "impression_id": event["list"],
            "user_id": event["user"]["id"],
            "ts": event["time"],
            "items": event["results"],
            "experiments": {"ranker-v7": event["ab"]["ranker"]},
            "segments": {"surface": event["surface"]},
        }
    else:
        yield {
            "type": "feedback",
            "impression_id": event["list"],
            "user_id": event["user"]["id"],
            "ts": event["time"],
            "item_id": event["item"],
            "action": event["event"],
            "value": event["seconds"],
        }


class DecodeCost(NamedTuple):
    """Microseconds of processor time for one event."""

    name: str
    native: float
    read: float

    def ratio(self) -> float:
        return self.read / self.native


def costs() -> list[DecodeCost]:
    """Measure every case. Raises WrongAnswerError if the events differ."""
    native = native_decoder(LIMITS)
    reader = reader_decoder(read, native_decoder(LIMITS, of_reader=True), LIMITS)
    costs_of_forms = []
    for name, (one, other) in CASES.items():
        sent, sent_otherwise = _sent(one), _sent(other)
        if list(native(sent)) != list(reader(sent_otherwise)):
            raise WrongAnswerError(f"{name}: the events differ")
        costs_of_forms.append(DecodeCost(name, cost_of(native, sent), cost_of(reader, sent_otherwise)))
    return costs_of_forms


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
    for cost in costs():
        print(f"{cost.name:16} native {cost.native:5.2f} us   read {cost.read:5.2f} us   {cost.ratio():4.2f} times")
