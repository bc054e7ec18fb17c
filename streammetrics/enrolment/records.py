"""Sets of places in which a user has the same totals. They are stored and added up once, however many experiments there are.

Pure. A place is a variant in one scope of a run. Most users see the same variants in every list, so all their places of a kind (whole
runs, or one day) form one set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, TypeAlias

import msgspec

from streammetrics.enrolment.rules import CovariatePeriod
from streammetrics.experiments.hours import Arrival
from streammetrics.state.codec import VERSION, pack, plain_msgpack, reader, refusal
from streammetrics.windows.last_seen import LastSeen, StoredLastSeen

ScopeKey: TypeAlias = tuple[int, int]
"""A scope: the number of the run, and the day."""
Place: TypeAlias = tuple[int, int, str]
"""A variant in a scope: the number of the run, the day, the variant."""


StoredCredit = tuple[str, str, list[int]]
"""Lists and credits of a user's interleaved lists for two teams: see `interleaving.credit_moments`."""
StoredTotals = tuple[msgspec.Raw, int, bytes, list[StoredCredit]]
"""A user's totals in places where they are equal: the places, number of lists, packed sums, credits."""
StoredEarlier = tuple[CovariatePeriod, int, bytes]
"""A user's totals before an experiment: the period, number of lists, packed sums."""


class PlaceSet:
    """Places, and their stored form. Equal sets of one batch are one object.

    `scopes` are those of the places, and `runs` the numbers of their runs.
    """

    __slots__ = ("places", "runs", "scopes", "stored")

    def __init__(self, stored: msgspec.Raw, places: AbstractSet[Place]) -> None:
        self.stored, self.places = stored, places
        self.scopes: AbstractSet[ScopeKey] = frozenset((run, day) for run, day, _ in places)
        self.runs = tuple(sorted({run for run, _, _ in places}))


class PlaceSets:
    """All sets of one batch. `is_open` says whether lists may still be added to a scope."""

    def __init__(self, is_open: Callable[[ScopeKey], bool]) -> None:
        self._is_open = is_open
        self._known: dict[bytes, PlaceSet] = {}
        self._restored: dict[bytes, PlaceSet | None] = {}

    def of(self, places: Iterable[Place]) -> PlaceSet:
        """Return the set of these places."""
        in_order = sorted(places)
        stored = pack(in_order)
        if stored not in self._known:
            self._known[stored] = PlaceSet(msgspec.Raw(stored), frozenset(in_order))
        return self._known[stored]

    def restored(self, stored: msgspec.Raw) -> PlaceSet | None:
        """Return those places of a stored set whose scopes are open. None if there is none."""
        key = bytes(stored)
        if key not in self._restored:
            places = _decode_places(key)
            still = [(run, day, variant) for run, day, variant in places if self._is_open((run, day))]
            if len(still) == len(places):  # it is stored as `of` makes it
                self._restored[key] = self._known.setdefault(key, PlaceSet(stored, frozenset(places)))
            else:
                self._restored[key] = self.of(still) if still else None
        return self._restored[key]


class Cohort(NamedTuple):
    """Users who came to the runs of a set of places at the same times. `arrivals` are in the order of `places.runs`."""

    places: PlaceSet
    arrivals: tuple[Arrival, ...]

    @property
    def came(self) -> dict[int, Arrival]:
        """The arrival by the number of the run."""
        return dict(zip(self.places.runs, self.arrivals, strict=True))


class Cohorts:
    """All cohorts of one batch, by number. What the users of a cohort have in common is found once."""

    def __init__(self) -> None:
        self._numbers: dict[Cohort, int] = {}

    def number(self, places: PlaceSet, came: Mapping[int, Arrival]) -> int:
        """Return the number of the cohort of a user. `came`: see `UserRecord`."""
        cohort = Cohort(places, tuple([came[run] for run in places.runs]))
        return self._numbers.setdefault(cohort, len(self._numbers))

    def all(self) -> list[Cohort]:
        """Return the cohorts in the order of their numbers."""
        return list(self._numbers)


class SetTotals(NamedTuple):
    """A user's totals in the places of a set: number of lists, packed sums, credits."""

    lists: int
    packed: bytes
    credits: list[StoredCredit]


NO_TOTALS: Final = SetTotals(0, b"", [])


class UserRecord(msgspec.Struct, gc=False):
    """All that is stored of one user beside sessions. `changed`: it differs from what is stored. The sets of `totals` are disjoint.

    `exposed` are the scopes in which the user's first exposure is counted. `came` is when the user's first counted list
    was, by the number of the run. `reacted` are the runs whose lists the user has reacted to: True if some reaction matched no list.
    """

    totals: dict[PlaceSet, SetTotals]
    earlier: dict[CovariatePeriod, StoredEarlier]
    last_seen: LastSeen
    changed: bool
    exposed: AbstractSet[ScopeKey] = frozenset()
    came: dict[int, Arrival] = {}
    reacted: dict[int, bool] = {}

    @property
    def matters(self) -> bool:
        """Whether there is anything to store."""
        return bool(self.totals or self.earlier or self.last_seen or self.exposed)

    def stored_totals(self) -> list[StoredTotals]:
        """Return the totals in their stored form."""
        return [(places.stored, *totals) for places, totals in self.totals.items()]


class StoredRecord(msgspec.Struct, array_like=True, gc=False):
    """A user's record in its stored form."""

    version: int
    totals: list[StoredTotals] = []
    earlier: list[StoredEarlier] = []
    last_seen: list[StoredLastSeen] = []
    exposed: list[tuple[int, int]] = []
    came: dict[int, Arrival] = {}
    reacted: dict[int, bool] = {}


_Stored = tuple[
    int, list[StoredTotals], list[StoredEarlier], list[StoredLastSeen], list[tuple[int, int]], dict[int, Arrival], dict[int, bool]
]
_read_record = reader(msgspec.msgpack.Decoder(_Stored).decode, plain_msgpack, "a user's totals")
_read_places = msgspec.msgpack.Decoder(list[Place]).decode


def encode_record(
    totals: list[StoredTotals],
    earlier: list[StoredEarlier],
    last_seen: list[StoredLastSeen],
    exposed: Sequence[ScopeKey] = (),
    came: Mapping[int, Arrival] = {},
    reacted: Mapping[int, bool] = {},
) -> bytes:
    return pack((VERSION, totals, earlier, last_seen, exposed, came, reacted))


def decode_record(stored: bytes) -> StoredRecord:
    return StoredRecord(*_read_record(stored))


def _decode_places(stored: bytes) -> list[Place]:
    """Decode the places of `StoredTotals`."""
    try:
        return _read_places(stored)
    except msgspec.DecodeError as error:
        raise refusal(stored, plain_msgpack, "a user's totals", error) from error
