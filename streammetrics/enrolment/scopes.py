"""The sums over the users of one run, for all its time or for one day; and their stored form. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final, TypeAlias

import msgspec

from streammetrics.events.event_time import DAY_MS
from streammetrics.experiments.arrivals import NO_ARRIVALS, Arrivals
from streammetrics.state.codec import VERSION, check_version, encode_json, plain_json, refusal

EXPERIMENTS: Final = "experiments"
"""The table of the sums of experiments, by scope."""
WHOLE: Final = -1
"""The scope of a whole run. Every other scope is a UTC day, counted from the epoch."""


PairKey: TypeAlias = tuple[int, str, str]
"""Another part of the run by its number, a variant there, and the own variant."""


_NONE_OF_DAY: Final = Arrivals(DAY_MS)


class Scope:
    """The sums over the users of one run, for all its time or for one day, by variant. Users that saw several variants are left out.

    `credits` are the moments of the second team's credit against the first, by pair of teams in order. `pairs` are the cross moments
    with cells of parts of lower numbers, of the two cells in the order of (entry, stage, variant).

    `arrivals` are users by the variant and hour of their first list; if users have no variant, all lists. `exposed` are users by the
    variant and hour of their first exposure event. In the scope of a day all the hours are one block. `recent` are the lists of the
    latest hours, only in the scope of a whole run. Lists count there even if their user has seen another variant since.
    `reactions` are those of the same lists, of all hours: see `list_signs.Reactions`.
    """

    __slots__ = ("arrivals", "credits", "exposed", "moments", "multi_exposed", "pairs", "reactions", "recent")

    def __init__(self, day: int = WHOLE) -> None:
        self.credits: dict[tuple[str, str], list[int]] = {}
        self.pairs: dict[PairKey, list[int]] = {}
        self.moments: dict[str, list[int]] = {}
        self.arrivals = self.exposed = NO_ARRIVALS if day == WHOLE else _NONE_OF_DAY
        self.recent: dict[str, dict[int, int]] = {}
        self.reactions: dict[str, list[int]] = {}
        self.multi_exposed = 0


_StoredHours: TypeAlias = dict[str, list[int]]
"""Counts over time by variant: the steps from block to block and the counts, in turn. Most blocks follow each other."""
_StoredArrivals: TypeAlias = tuple[int, _StoredHours]
"""The length of a block (ms), and arrivals."""


class _StoredScope(msgspec.Struct, array_like=True):
    version: int
    arrivals: _StoredArrivals
    multi_exposed: int
    moments: dict[str, list[int]]
    credits: list[tuple[tuple[str, str], list[int]]]
    recent: _StoredHours
    reactions: dict[str, list[int]]
    pairs: list[tuple[PairKey, list[int]]] = []
    exposed: _StoredArrivals | None = None


_decode_scope = msgspec.json.Decoder(_StoredScope).decode


def encode_scope(scope: Scope) -> bytes:
    more: list[Any] = [list(scope.pairs.items())] if scope.pairs or scope.exposed.counts else []
    more += [_stored_arrivals(scope.exposed)] if scope.exposed.counts else []
    arrivals, recent = _stored_arrivals(scope.arrivals), _stored_hours(scope.recent)
    sums = scope.multi_exposed, scope.moments, list(scope.credits.items())
    return encode_json((VERSION, arrivals, *sums, recent, scope.reactions, *more))


def _stored_hours(counts: Mapping[str, Mapping[int, int]]) -> _StoredHours:
    """
    >>> _stored_hours({"control": {481_162: 7, 481_163: 5, 481_170: 1}})
    {'control': [481162, 7, 1, 5, 7, 1]}
    """
    stored: _StoredHours = {}
    for variant, blocks in counts.items():
        row, before = stored.setdefault(variant, []), 0
        for block in sorted(blocks):
            row += (block - before, blocks[block])
            before = block
    return stored


def _hours(stored: _StoredHours) -> dict[str, dict[int, int]]:
    return {variant: dict(zip(accumulate(row[::2]), row[1::2], strict=True)) for variant, row in stored.items()}


def _stored_arrivals(arrivals: Arrivals) -> _StoredArrivals:
    return arrivals.block_ms, _stored_hours(arrivals.counts)


def _arrivals(stored: _StoredArrivals) -> Arrivals:
    block_ms, counts = stored
    return Arrivals(block_ms, _hours(counts))


def decode_scope(stored: bytes, day: int) -> Scope:
    scope = Scope(day)
    try:
        found = _decode_scope(stored)
    except msgspec.DecodeError as error:
        raise refusal(stored, plain_json, "an experiment", error) from error
    check_version(found.version, "an experiment")
    scope.arrivals, scope.recent = _arrivals(found.arrivals), _hours(found.recent)
    if found.exposed is not None:
        scope.exposed = _arrivals(found.exposed)
    scope.multi_exposed, scope.moments, scope.reactions = found.multi_exposed, found.moments, found.reactions
    scope.credits, scope.pairs = dict(found.credits), dict(found.pairs)
    return scope


def scope_name(run: int, day: int) -> str:
    """Return the name of a scope in the store.

    >>> scope_name(7, WHOLE), scope_name(7, 20045)
    ('7', '7:20045')
    """
    return str(run) if day == WHOLE else f"{run}:{day}"


def parse_scope_name(name: str) -> tuple[int, int]:
    """Return the number of the run, and the day, of a scope's name.

    >>> parse_scope_name("7") == (7, WHOLE), parse_scope_name("7:20045")
    (True, (7, 20045))
    """
    run, _, day = name.partition(":")
    return int(run), int(day) if day else WHOLE
