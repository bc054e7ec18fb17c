"""The sums over the users of one run, for all its time or for one day; and their stored form. Pure.

A scope has a base row, a row for each block of hours with lists, and a row for each block of days in which users came. A commit writes the
base row and those that changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from streammetrics.experiments.hours import STRATA_MAX, Entry, EntrySums, HourRow, Hours, folded
from streammetrics.state.codec import VERSION, check_version, encode_json, plain_json, refusal

EXPERIMENTS: Final = "experiments"
"""The table of the sums of experiments, by scope and part."""
WHOLE: Final = -1
"""The scope of a whole run. Every other scope is a UTC day, counted from the epoch."""

RowPart: TypeAlias = tuple[str, int]
"""A part of a scope with a row of its own: "h" and a block of hours, or "e" and a block in which users came; the base row is ("", 0)."""
BASE: Final[RowPart] = ("", 0)


class Scope:
    """The sums over the users of one run, for all its time or for one day. A user counts in each variant of which they saw a list.

    `hours`: see `hours.Hours`. `moments` are by variant and entry, in whole days. `users` are by variant and entry: users, and those with a
    hit by cut-off. On a day, users who came before it have longer entries.

    `credits` are the moments of the second team's credit against the first, by pair of teams in order. `pairs` are the cross moments of two
    variants, in order. Only in the scope of a whole run, by variant:
    `reactions` (see `list_signs.Reactions`), and `reacting`, users with a reaction and those with one that matches no list.

    `changed` are the parts to write with the next commit, `gone` those to delete.
    """

    __slots__ = ("changed", "credits", "gone", "hours", "moments", "pairs", "reacting", "reactions", "users")

    def __init__(self) -> None:
        self.credits: dict[tuple[str, str], list[int]] = {}
        self.hours = Hours()
        self.moments = EntrySums(24)
        self.pairs: dict[tuple[str, str], list[int]] = {}
        self.reacting: dict[str, list[int]] = {}
        self.reactions: dict[str, list[int]] = {}
        self.users = EntrySums()
        self.changed: set[RowPart] = set()
        self.gone: set[RowPart] = set()

    @property
    def parts(self) -> set[RowPart]:
        """All parts of the scope."""
        blocks = {entry.block for _, entry in self.moments.sums}
        return {BASE, *(("h", block) for block in self.hours.rows), *(("e", block) for block in blocks)}

    def row_of(self, hour: int) -> HourRow:
        """Return the row of an hour, which changes."""
        self.changed.add(("h", hour // self.hours.length))
        return self.hours.row(hour)

    def add_moments(self, variant: str, entry: Entry, more: list[int]) -> None:
        """Add to the moments of the users who came at one time."""
        _, block = self.moments.add(variant, entry, more)
        self.changed.add(("e", block.block))

    def bound(self) -> None:
        """Lengthen blocks until there are few enough, and fold strata."""
        before = self.parts
        if self.fold_strata():
            self.changed = self.parts
        self.users.bound()
        lengthened = self.hours.bound(), self.moments.bound()
        self.changed |= {("h", block) for block in self.hours.bound_values()}
        if any(lengthened):
            self.changed = parts = self.parts
            self.gone |= before - parts

    def fold_strata(self) -> bool:
        """Leave STRATA_MAX strata. All three tables have the same ones. Returns whether that changed any."""
        without = folded(self.moments.strata - {""}, STRATA_MAX)
        for table in (self.hours, self.moments, self.users) if without else ():
            table.fold_strata(without)
        return bool(without)

    def take_changes(self) -> tuple[dict[RowPart, bytes], set[RowPart]]:
        """Return the rows to write and the parts to delete."""
        changed, gone = self.changed | {BASE}, self.gone
        self.changed, self.gone = set(), set()
        return {part: self._encoded(part) for part in changed}, gone - changed

    def _encoded(self, part: RowPart) -> bytes:
        kind, block = part
        if kind == "h":
            row = self.hours.rows[block]
            totals = [(variant, *entry, sums) for (variant, entry), sums in row.totals.items()]
            values = [(*key, users) for key, users in row.values.items()]
            return encode_json((VERSION, totals, row.new_users, row.exposed, values, [(*pair, users) for pair, users in row.moves.items()]))
        if kind == "e":
            of_block = [(variant, entry.stratum, sums) for (variant, entry), sums in self.moments.sums.items() if entry.block == block]
            return encode_json((VERSION, of_block))
        users = [(variant, *entry, sums) for (variant, entry), sums in self.users.sums.items()]
        pairs, credits = [(*names, sums) for names, sums in self.pairs.items()], [(*teams, sums) for teams, sums in self.credits.items()]
        lengths = self.hours.length, self.moments.hours, self.users.hours
        return encode_json((VERSION, *lengths, users, self.reacting, self.reactions, pairs, credits))


class _StoredBase(msgspec.Struct, array_like=True):
    version: int
    hour_length: int
    moment_hours: int
    user_hours: int
    users: list[tuple[str, int, int, str, list[int]]]
    reacting: dict[str, list[int]]
    reactions: dict[str, list[int]]
    pairs: list[tuple[str, str, list[int]]]
    credits: list[tuple[str, str, list[int]]]


class _StoredHour(msgspec.Struct, array_like=True):
    version: int
    totals: list[tuple[str, int, int, str, list[int]]]
    new_users: dict[str, int]
    exposed: dict[str, int]
    values: list[tuple[str, str, str, dict[str, int]]]
    moves: list[tuple[str, str, int]]


class _StoredMoments(msgspec.Struct, array_like=True):
    version: int
    moments: list[tuple[str, str, list[int]]]


_DECODERS: Final[Mapping[str, msgspec.json.Decoder[Any]]] = {
    "": msgspec.json.Decoder(_StoredBase),
    "h": msgspec.json.Decoder(_StoredHour),
    "e": msgspec.json.Decoder(_StoredMoments),
}
DecodedRow: TypeAlias = _StoredBase | HourRow | Sequence[tuple[str, str, list[int]]]
"""A base row, the row of a block of hours, or the moments of the users who came in a block, by variant and stratum."""


def decode_row(part: RowPart, stored: bytes) -> DecodedRow:
    """Return a row. Raises StateError for bytes of another form or version."""
    try:
        row = _DECODERS[part[0]].decode(stored)
    except msgspec.DecodeError as error:
        raise refusal(stored, plain_json, "an experiment", error) from error
    check_version(row.version, "an experiment")
    if isinstance(row, _StoredHour):
        return _hour_row(row)
    return row.moments if isinstance(row, _StoredMoments) else row


def scope_of(rows: Mapping[RowPart, DecodedRow]) -> Scope:
    """Return the scope of rows that were stored together. It has the very integers of the rows."""
    scope = Scope()
    base = rows.get(BASE)
    assert isinstance(base, _StoredBase), "a scope has no base row"
    scope.hours, scope.moments, scope.users = Hours(base.hour_length), EntrySums(base.moment_hours), EntrySums(base.user_hours)
    scope.users.sums = {(variant, Entry(hours, block, stratum)): sums for variant, hours, block, stratum, sums in base.users}
    scope.reacting, scope.reactions = {**base.reacting}, {**base.reactions}
    scope.pairs, scope.credits = ({(one, other): sums for one, other, sums in pairs} for pairs in (base.pairs, base.credits))
    for (kind, block), row in rows.items():
        if isinstance(row, HourRow):
            scope.hours.rows[block] = row
        elif kind == "e" and isinstance(row, Sequence):
            for variant, stratum, sums in row:
                scope.moments.sums[variant, Entry(base.moment_hours, block, stratum)] = sums
    return scope


def _hour_row(stored: _StoredHour) -> HourRow:
    row = HourRow()
    row.totals = {(variant, Entry(hours, block, stratum)): sums for variant, hours, block, stratum, sums in stored.totals}
    row.new_users, row.exposed = stored.new_users, stored.exposed
    row.values = {(segment, value, stratum): users for segment, value, stratum, users in stored.values}
    row.moves = {(one, other): users for one, other, users in stored.moves}
    return row


class RowName(NamedTuple):
    """The name of a row in the store: the number of the run, the day, and the part.

    >>> str(RowName(7, WHOLE)), str(RowName(7, 20_045, ("h", 481_162)))
    ('7', '7:20045/h481162')
    """

    run: int
    day: int
    part: RowPart = BASE

    def __str__(self) -> str:
        scope = str(self.run) if self.day == WHOLE else f"{self.run}:{self.day}"
        return scope if self.part == BASE else f"{scope}/{self.part[0]}{self.part[1]}"


def parse_row_name(name: str) -> RowName:
    """Return what a row is.

    >>> parse_row_name("7") == RowName(7, WHOLE), parse_row_name("7:20045/h481162")
    (True, RowName(run=7, day=20045, part=('h', 481162)))
    """
    scope, _, part = name.partition("/")
    run, _, day = scope.partition(":")
    return RowName(int(run), int(day) if day else WHOLE, (part[0], int(part[1:])) if part else BASE)


def scopes_of_rows(rows: Iterable[tuple[RowName, DecodedRow]]) -> Iterator[tuple[int, int, Scope]]:
    """Yield the number of the run, the day, and the scope."""
    rows_of_runs: dict[tuple[int, int], dict[RowPart, DecodedRow]] = {}
    for name, row in rows:
        rows_of_runs.setdefault((name.run, name.day), {})[name.part] = row
    for (run, day), parts in rows_of_runs.items():
        yield run, day, scope_of(parts)
