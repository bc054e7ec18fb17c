"""What is counted by hour and by entry, so that lists are compared with lists of the same hour, of users who came at the same time. Pure.

The entry of a user is the hour of their first counted list in the run, in any variant. A list is counted in a block of hours and with the
entry of its user, which needs less detail the longer the user has been there: the hour while the user is younger than 8 hours, the block
of 8 hours while younger than 2 days, the UTC day while younger than 8 days, then the block of 8 days. All blocks count from the epoch.

An experiment with `strata`, a segment, counts by the value of the user's first list, too: its *stratum*. An entry is then the day, or the
block of 8 days, and the stratum. At most `STRATA_MAX` strata are kept, and all others are one.

Everything here is a sum of integers. If there are too many blocks, neighbours are added, and all blocks have the next of `LENGTHS`. Adding
commutes with that, so the parts of tasks may be merged in any way.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from streammetrics.statistics.moments import add

LENGTHS: Final = (1, 2, 4, 8, 24, 48, 96, 192, 384, 768, 1536, 3072, 6144)
"""Lengths of blocks in hours. Each is a multiple of the one before, and those from 24 on are whole days."""
BLOCKS_MAX: Final = 96
"""Blocks with lists in one scope, and entries in one table: 4 days by the hour, 32 days by 8 hours, 96 days by the day."""
SEGMENT_VALUES_MAX: Final = 32
"""Values of one segment that new users are counted by; all others are one. Those with the least CRC-32 stay, so that it does not matter
in which order values appear, and in which task."""
STRATA_MAX: Final = 16
"""Strata of an experiment, chosen in the same way."""
OTHER_VALUES: Final = "_other"
Arrival: TypeAlias = int | tuple[int, str]
"""When a user came to a run: the hour of their first list since the epoch; in an experiment with strata, that and the stratum."""


class Entry(NamedTuple):
    """When users came: in a block of hours since the epoch. `stratum` is empty in an experiment without strata."""

    hours: int
    block: int
    stratum: str = ""

    @property
    def first_hour(self) -> int:
        return self.hours * self.block

    def in_blocks(self, hours: int) -> Entry:
        """Return the block of at least these hours that holds this one.

        >>> Entry(1, 50).in_blocks(24), Entry(24, 2).in_blocks(8)
        (Entry(hours=24, block=2, stratum=''), Entry(hours=24, block=2, stratum=''))
        """
        return self if hours <= self.hours else Entry(hours, self.first_hour // hours, self.stratum)


def stratum_of(segment: str, segments: Iterable[tuple[str, str]]) -> str:
    """Return the stratum of a list with these segments. It has the segment's name, so that those of another setting are others.

    >>> stratum_of("country", [("country", "US"), ("device", "tv")]), stratum_of("country", [])
    ('country=US', 'country=')
    """
    return f"{segment}={dict(segments).get(segment, '')}"


def hour_of(came: Arrival) -> int:
    """Return the hour in which a user came."""
    return came if isinstance(came, int) else came[0]


def entry_of(came: Arrival, hour: int | None = None) -> Entry:
    """Return the entry of a user who came in one hour, for a list in another hour (both since the epoch; None: in the same one).

    >>> [entry_of(100, hour)[:2] for hour in (107, 108, 148, 292)]
    [(1, 100), (8, 12), (24, 4), (192, 0)]
    >>> entry_of((100, "country=US"))
    Entry(hours=24, block=4, stratum='country=US')
    """
    first = hour_of(came)
    age = 0 if hour is None else hour - first
    hours = 1 if age < 8 else 8 if age < 48 else 24 if age < 192 else 192
    return Entry(hours, first // hours) if isinstance(came, int) else Entry(max(24, hours), first // max(24, hours), came[1])


def folded(names: Iterable[str], most: int) -> set[str]:
    """Return the names that become OTHER_VALUES: all but those with the least CRC-32."""
    return {*sorted({*names} - {OTHER_VALUES}, key=lambda name: (zlib.crc32(name.encode()), name))[most:]}


class HourRow:
    """What is counted in one block of hours.

    totals: by variant and entry, the lists and the sums of the columns, as in a user's totals. new_users: users whose first list in the
    scope is in this block, by its variant. exposed: users whose first exposure event is. Only in the scope of a run: values, new users by
    segment and value of that list, and by stratum (with an empty segment all of a stratum); and moves, users who had lists in the first
    variant alone, and have their first one in the second here.
    computed: what readers computed from the totals, until these change.
    """

    __slots__ = ("computed", "exposed", "moves", "new_users", "totals", "values")

    def __init__(self) -> None:
        self.computed: dict[object, Any] = {}
        self.totals: dict[tuple[str, Entry], list[int]] = {}
        self.new_users: dict[str, int] = {}
        self.exposed: dict[str, int] = {}
        self.values: dict[tuple[str, str, str], dict[str, int]] = {}
        self.moves: dict[tuple[str, str], int] = {}

    def add_totals(self, variant: str, entry: Entry, more: Sequence[int]) -> None:
        totals = self.totals.get((variant, entry))
        self.totals[variant, entry] = [*more] if totals is None else add(totals, more)
        self.computed.clear()

    def lists(self) -> dict[str, int]:
        """Return the lists of each variant."""
        lists: dict[str, int] | None = self.computed.get("lists")
        if lists is None:
            lists = self.computed["lists"] = {}
            for (variant, _), totals in self.totals.items():
                _count(lists, variant, totals[0])
        return lists

    def add_value(self, key: tuple[str, str, str], variant: str, users: int) -> None:
        """Count new users with a value. key: the segment, the value and the stratum."""
        _count(self.values.setdefault(key, {}), variant, users)

    def add_row(self, row: HourRow, entry_hours: int, without: Collection[str] = ()) -> None:
        """Add another row. Entries have at least the given length. without: strata that become OTHER_VALUES."""
        for (variant, entry), more in row.totals.items():
            self.add_totals(variant, without_strata(entry, without).in_blocks(entry_hours), more)
        for ours, counts in ((self.new_users, row.new_users), (self.exposed, row.exposed)):
            for variant, users in counts.items():
                _count(ours, variant, users)
        for pair, users in row.moves.items():
            _count(self.moves, pair, users)
        for (segment, value, stratum), variants in row.values.items():
            for variant, users in variants.items():
                self.add_value((segment, value, OTHER_VALUES if stratum in without else stratum), variant, users)


def without_strata(entry: Entry, without: Collection[str]) -> Entry:
    """Return the entry, with OTHER_VALUES in place of these strata."""
    return entry._replace(stratum=OTHER_VALUES) if entry.stratum in without else entry


class Hours:
    """The rows of a scope by block. Block b has the hours from b * length on, and before (b + 1) * length.

    >>> hours = Hours()
    >>> for hour in range(200): hours.row(hour).new_users["control"] = 1
    >>> hours.bound()
    True
    >>> hours.length, len(hours.rows), hours.rows[7].new_users
    (4, 50, {'control': 4})
    """

    __slots__ = ("length", "rows")

    def __init__(self, length: int = 1) -> None:
        self.length = length
        self.rows: dict[int, HourRow] = {}

    def row(self, hour: int) -> HourRow:
        """Return the row of an hour. A new row is created."""
        block = hour // self.length
        row = self.rows.get(block)
        if row is None:
            row = self.rows[block] = HourRow()
        return row

    def entry_of(self, came: Arrival, hour: int) -> Entry:
        """Return the entry of a user who came in one hour, in the row of another hour."""
        return entry_of(came, hour).in_blocks(self.entry_hours)

    @property
    def entry_hours(self) -> int:
        """The least length of an entry: a row of many hours would have too many entries otherwise."""
        return max(hours for hours in (1, 8, 24, 192) if hours <= self.length)

    def bound(self) -> bool:
        """Lengthen the blocks until there are few enough. Returns whether that changed rows."""
        length = self.length
        while len(self.rows) > BLOCKS_MAX:
            self._lengthen(LENGTHS[LENGTHS.index(self.length) + 1])
        return self.length != length

    def _lengthen(self, length: int) -> None:
        rows, times, self.rows = self.rows, length // self.length, {}
        self.length = length
        for block, row in rows.items():
            self.row(block * length // times).add_row(row, self.entry_hours)

    def bound_values(self) -> set[int]:
        """Leave SEGMENT_VALUES_MAX values to each segment. Returns the blocks whose rows changed."""
        changed = set[int]()
        for segment, values in self._values().items():
            if others := folded(values, SEGMENT_VALUES_MAX):
                for block, row in self.rows.items():
                    for key in [key for key in row.values if key[0] == segment and key[1] in others]:
                        for variant, users in row.values.pop(key).items():
                            row.add_value((segment, OTHER_VALUES, key[2]), variant, users)
                        changed.add(block)
        return changed

    def fold_strata(self, without: Collection[str]) -> None:
        """Let these strata become OTHER_VALUES, in new rows."""
        rows, self.rows = self.rows, {}
        for block, row in rows.items():
            self.rows[block] = HourRow()
            self.rows[block].add_row(row, self.entry_hours, without)

    def has_many_values(self) -> bool:
        """Whether a segment has more than SEGMENT_VALUES_MAX values."""
        return any(len(values - {OTHER_VALUES}) > SEGMENT_VALUES_MAX for values in self._values().values())

    def _values(self) -> dict[str, set[str]]:
        of_segments: dict[str, set[str]] = {}
        for row in self.rows.values():
            for segment, value, _ in row.values:
                of_segments.setdefault(segment, set()).add(value)
        return of_segments

    def new_users(self) -> dict[str, int]:
        """Return all new users by variant."""
        return _summed(row.new_users for row in self.rows.values())

    def new_users_by_block(self, length: int) -> dict[str, dict[int, int]]:
        """Return new users by variant, in blocks of a length that is a multiple of the present one."""
        by_segment: dict[str, dict[int, int]] = {}
        for block, row in self.rows.items():
            for variant, users in row.new_users.items():
                _count(by_segment.setdefault(variant, {}), block * self.length // length, users)
        return by_segment

    def exposed(self) -> dict[str, int]:
        """Return all users by the variant of their first exposure."""
        return _summed(row.exposed for row in self.rows.values())

    def lists(self, variant: str) -> dict[int, int]:
        """Return the lists of a variant by block."""
        return {block: lists for block, row in self.rows.items() if (lists := row.lists().get(variant)) is not None}


MergedRows: TypeAlias = dict[int, tuple[list[HourRow], HourRow]]
"""By block, rows of parts and their sum."""


def merge_hours(parts: Iterable[Hours], merged: MergedRows | None = None) -> Hours:
    """Return the rows of all parts, in blocks of the longest length or longer. The parts do not change.

    known: sums that were computed before, of rows that have not changed since. New ones are added.

    >>> one, other = Hours(), Hours(2)
    >>> one.row(5).new_users["control"], other.row(4).new_users["control"] = 3, 4
    >>> merged = merge_hours([one, other])
    >>> merged.length, merged.new_users(), one.new_users()
    (2, {'control': 7}, {'control': 3})
    """
    parts = [part for part in parts if part.rows]
    if len(parts) < 2:
        return parts[0] if parts else Hours()
    total = Hours(max(part.length for part in parts))
    if any(part.length != total.length for part in parts):
        for part in parts:
            for block, row in part.rows.items():
                total.row(block * part.length).add_row(row, total.entry_hours)
    else:
        merged = {} if merged is None else merged
        for block in {block for part in parts for block in part.rows}:
            rows = [part.rows[block] for part in parts if block in part.rows]
            before, total.rows[block] = merged.get(block, ([], _NO_ROW))
            if len(rows) != len(before) or any(one is not other for one, other in zip(rows, before, strict=True)):
                total.rows[block] = rows[0] if len(rows) == 1 else _sum_of(rows, total.entry_hours)
                merged[block] = rows, total.rows[block]
        if total.has_many_values():
            total.rows = {block: _sum_of([row], total.entry_hours) for block, row in total.rows.items()}
    total.bound()
    total.bound_values()
    return total


_NO_ROW: Final = HourRow()


def _sum_of(rows: Iterable[HourRow], entry_hours: int) -> HourRow:
    total = HourRow()
    for row in rows:
        total.add_row(row, entry_hours)
    return total


class EntrySums:
    """Integers by variant and entry, in at most BLOCKS_MAX different entries of at least some hours.

    >>> sums = EntrySums(24)
    >>> sums.add("control", Entry(1, 25), [1, 2]) == sums.add("control", Entry(24, 1), [1, 1])
    True
    >>> sums.sums
    {('control', Entry(hours=24, block=1, stratum='')): [2, 3]}
    """

    __slots__ = ("hours", "sums")

    def __init__(self, hours: int = 1) -> None:
        self.hours = hours
        self.sums: dict[tuple[str, Entry], list[int]] = {}

    def add(self, variant: str, entry: Entry, more: Sequence[int]) -> tuple[str, Entry]:
        """Add to the sums of an entry, and return its key."""
        key = variant, entry.in_blocks(self.hours)
        sums = self.sums.get(key)
        self.sums[key] = [*more] if sums is None else add(sums, more)
        return key

    def bound(self) -> bool:
        """Lengthen the entries until there are few enough. Returns whether that changed any."""
        hours = self.hours
        while len({entry[:2] for _, entry in self.sums}) > BLOCKS_MAX:
            self.lengthen(LENGTHS[LENGTHS.index(self.hours) + 1])
        return self.hours != hours

    def lengthen(self, hours: int) -> None:
        """Let all entries have at least these hours."""
        sums, self.sums, self.hours = self.sums, {}, hours
        for (variant, entry), more in sums.items():
            self.add(variant, entry, more)

    @property
    def strata(self) -> set[str]:
        return {entry.stratum for _, entry in self.sums}

    def fold_strata(self, without: Collection[str]) -> None:
        """Let these strata become OTHER_VALUES."""
        sums, self.sums = self.sums, {}
        for (variant, entry), more in sums.items():
            self.add(variant, without_strata(entry, without), more)

    def by_variant(self) -> dict[str, list[int]]:
        """Return the sums of each variant over all entries."""
        total: dict[str, list[int]] = {}
        for (variant, _), more in self.sums.items():
            total[variant] = add(total[variant], more) if variant in total else more
        return total


def merge_entries(parts: Iterable[EntrySums]) -> EntrySums:
    """Return the sums of all parts. The parts do not change."""
    counted = [part for part in parts if part.sums]
    if len(counted) == 1:
        return counted[0]
    total = EntrySums(max((part.hours for part in counted), default=1))
    for part in counted:
        for (variant, entry), more in part.sums.items():
            total.add(variant, entry, more)
    total.bound()
    return total


def _summed(tables: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for counts in tables:
        for variant, users in counts.items():
            _count(total, variant, users)
    return total


def _count(counts: dict[Any, int], key: object, more: int) -> None:
    counts[key] = counts.get(key, 0) + more
