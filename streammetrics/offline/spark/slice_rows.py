"""What a slice sends to one shard: rows of plain values, as MessagePack. The label sets of lists are sent once for all rows.

A row is one event of the shard's own users, one that cannot be used, or an event of another shard that moves the time of the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from streammetrics.engine.batch import DecodedRecord
from streammetrics.errors import MalformedEvent
from streammetrics.events.model import Elsewhere, Event, Feedback, Impression, Labels

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[list[tuple[Any, Any]], list[list[Any]]]).decode
_ELSEWHERE, _MALFORMED, _FEEDBACK = 4, 5, 9
"""The lengths of rows, which say what they are. All others are lists."""


class Mover(NamedTuple):
    """An event that may move the time of its input: its number in the slice, its offset, user and time (ms)."""

    number: int
    offset: int
    user: str
    ts: int


class SliceRows:
    """Collects the rows of one slice for one shard."""

    __slots__ = ("_labels", "_sets", "rows")

    def __init__(self) -> None:
        self.rows: list[Sequence[Any]] = []
        self._labels: dict[tuple[Labels, Labels], int] = {}

    def add(self, number: int, offset: int, stamp: int, event: Event) -> None:
        if type(event) is Feedback:
            row = (number, offset, stamp, event.user_id, event.ts, event.item_id, event.action, event.value, event.impression_id)
            self.rows.append(row)
            return
        assert type(event) is Impression
        key, labels = (event.experiments, event.segments), self._labels
        label = labels.get(key)
        if label is None:
            label = labels[key] = len(labels)
        rest = (event.positions, event.teams, event.label_notes)
        self.rows.append((number, offset, stamp, label, event.impression_id, event.user_id, event.ts, event.items, *rest))

    def add_malformed(self, number: int, offset: int, event: MalformedEvent) -> None:
        """Add a record that cannot be used. Its details are for dead letters, which are not written here."""
        self.rows.append((number, offset, event.reason, event.unknown_type, None))

    def encoded(self) -> bytes:
        return _encode(([*self._labels], self.rows))


def encode_movers(movers: Iterable[Mover]) -> bytes:
    """Return rows of other shards' events only."""
    return _encode(([], [*movers]))


def decode_rows(rows: bytes, base: int, with_movers: bool = True) -> Iterator[tuple[int, DecodedRecord]]:
    """Yield each row's number and its event as a record for the engine. `base` is added to the offsets."""
    sets, content = _decode(rows)
    labels = [(_labels(experiments), _labels(segments)) for experiments, segments in sets]
    for row in content:
        size, number, offset = len(row), row[0], base + row[1]
        if size == _FEEDBACK:
            _, _, stamp, user, ts, item, action, value, impression = row
            yield number, (offset, stamp, (Feedback(user, ts, item, action, value, impression),))
        elif size == _ELSEWHERE:
            if with_movers:
                yield number, (offset, -1, (Elsewhere(row[2], row[3]),))
        elif size == _MALFORMED:
            yield number, (offset, -1, (MalformedEvent(row[2], "", row[3]),))
        else:
            _, _, stamp, label, impression, user, ts, items, positions, teams, dropped = row
            experiments, segments = labels[label]
            places = None if positions is None else tuple(positions)
            event = Impression(impression, user, ts, tuple(items), experiments, segments, places, tuple(teams), tuple(dropped))
            yield number, (offset, stamp, (event,))


def _labels(pairs: Iterable[Sequence[str]]) -> Labels:
    return tuple([(name, value) for name, value in pairs])


def merged_rows(payload: bytes, movers: bytes | None, base: int) -> list[DecodedRecord]:
    """Return a shard's own rows and the given movers (None: there are none), in the order of the slice."""
    rows = [*decode_rows(payload, base, with_movers=False)]
    if movers is not None:
        rows += decode_rows(movers, base)
        rows.sort(key=_number)
    return [decoded for _, decoded in rows]


def _number(row: tuple[int, DecodedRecord]) -> int:
    return row[0]
