"""Sets of arms in which a user has the same totals. They are stored and added up once, however many experiments there are.

Pure. An arm is a variant in one scope of a run. Most users see the same variants in every list, so all their arms of a kind (whole
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
RunArm: TypeAlias = tuple[int, int, str]
"""A variant in a scope: the number of the run, the day, the variant."""


StoredCredit = tuple[str, str, list[int]]
"""Lists and credits of a user's interleaved lists for two teams: see `interleaving.credit_moments`."""
StoredTotals = tuple[msgspec.Raw, int, bytes, list[StoredCredit]]
"""A user's totals in arms where they are equal: the arms, number of lists, packed sums, credits."""
StoredEarlier = tuple[CovariatePeriod, int, bytes]
"""A user's totals before an experiment: the period, number of lists, packed sums."""


class ArmSet:
    """Arms, and their stored form. Equal sets of one batch are one object.

    `scopes` are those of the arms, and `runs` the numbers of their runs.
    """

    __slots__ = ("arms", "runs", "scopes", "stored")

    def __init__(self, stored: msgspec.Raw, arms: AbstractSet[RunArm]) -> None:
        self.stored, self.arms = stored, arms
        self.scopes: AbstractSet[ScopeKey] = frozenset((run, day) for run, day, _ in arms)
        self.runs = tuple(sorted({run for run, _, _ in arms}))


class ArmSets:
    """All sets of one batch. `is_open` says whether lists may still be added to a scope."""

    def __init__(self, is_open: Callable[[ScopeKey], bool]) -> None:
        self._is_open = is_open
        self._by_stored: dict[bytes, ArmSet] = {}
        self._restored: dict[bytes, ArmSet | None] = {}

    def of(self, arms: Iterable[RunArm]) -> ArmSet:
        """Return the set of these arms."""
        in_order = sorted(arms)
        stored = pack(in_order)
        if stored not in self._by_stored:
            self._by_stored[stored] = ArmSet(msgspec.Raw(stored), frozenset(in_order))
        return self._by_stored[stored]

    def restored(self, stored: msgspec.Raw) -> ArmSet | None:
        """Return those arms of a stored set whose scopes are open. None if there is none."""
        key = bytes(stored)
        if key not in self._restored:
            arms = _decode_arms(key)
            still = [(run, day, variant) for run, day, variant in arms if self._is_open((run, day))]
            if len(still) == len(arms):  # it is stored as `of` makes it
                self._restored[key] = self._by_stored.setdefault(key, ArmSet(stored, frozenset(arms)))
            else:
                self._restored[key] = self.of(still) if still else None
        return self._restored[key]


class Cohort(NamedTuple):
    """Users who came to the runs of a set of arms at the same times. `arrivals` are in the order of `arms.runs`."""

    arms: ArmSet
    arrivals: tuple[Arrival, ...]

    @property
    def came(self) -> dict[int, Arrival]:
        """The arrival by the number of the run."""
        return dict(zip(self.arms.runs, self.arrivals, strict=True))


class Cohorts:
    """All cohorts of one batch, by number. What the users of a cohort have in common is found once."""

    def __init__(self) -> None:
        self._numbers: dict[Cohort, int] = {}

    def number(self, arms: ArmSet, came: Mapping[int, Arrival]) -> int:
        """Return the number of the cohort of a user. `came`: see `UserRecord`."""
        cohort = Cohort(arms, tuple([came[run] for run in arms.runs]))
        return self._numbers.setdefault(cohort, len(self._numbers))

    def all(self) -> list[Cohort]:
        """Return the cohorts in the order of their numbers."""
        return list(self._numbers)


class SetTotals(NamedTuple):
    """A user's totals in the arms of a set: number of lists, packed sums, credits."""

    lists: int
    packed: bytes
    credits: list[StoredCredit]


NO_TOTALS: Final = SetTotals(0, b"", [])


class UserRecord(msgspec.Struct, gc=False):
    """All that is stored of one user beside sessions. `changed`: it differs from what is stored. The sets of `totals` are disjoint.

    `exposed` are the scopes in which the user's first exposure is counted. `came` is when the user's first counted list
    was, by the number of the run. `reacted` are the runs whose lists the user has reacted to: True if some reaction matched no list.
    """

    totals: dict[ArmSet, SetTotals]
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
        return [(arms.stored, *totals) for arms, totals in self.totals.items()]


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
_read_arms = msgspec.msgpack.Decoder(list[RunArm]).decode


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


def _decode_arms(stored: bytes) -> list[RunArm]:
    """Decode the arms of `StoredTotals`."""
    try:
        return _read_arms(stored)
    except msgspec.DecodeError as error:
        raise refusal(stored, plain_msgpack, "a user's totals", error) from error
