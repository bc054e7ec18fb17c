"""Sets of scopes in which a user has the same totals. They are stored and added up once, however many experiments there are.

Pure. Most users see the same variants in every list, so all their scopes of a kind (whole runs, or one day) form one set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, TypeAlias

import msgspec

from streammetrics.enrolment.rules import CovariatePeriod
from streammetrics.state.codec import VERSION, plain_msgpack, reader, refusal
from streammetrics.state.msgpack import pack
from streammetrics.windows.last_seen import LastSeen, StoredLastSeen

ScopeKey: TypeAlias = tuple[int, int]
"""A scope: the number of the run, and the day."""
ScopeVariants: TypeAlias = Mapping[ScopeKey, str | None]
"""Scopes, each with a user's variant there. None: the user saw several variants."""


StoredCredit = tuple[str, str, list[int]]
"""Lists and credits of a user's interleaved lists for two teams: see `interleaving.credit_moments`."""
StoredTotals = tuple[msgspec.Raw, int, bytes, list[StoredCredit]]
"""A user's totals in scopes where they are equal: the scopes, number of lists, packed sums, credits."""
StoredScope = tuple[int, int, str | None]
"""A scope and the user's variant there: number of the run, day, variant (None: several)."""
StoredEarlier = tuple[CovariatePeriod, int, bytes]
"""A user's totals before an experiment: the period, number of lists, packed sums."""


class ScopeSet:
    """Scopes with variants, and their stored form. All of them have a variant, or none has. Equal sets of one batch are one object."""

    __slots__ = ("stored", "variants")

    def __init__(self, stored: msgspec.Raw, variants: ScopeVariants) -> None:
        self.stored, self.variants = stored, variants

    @property
    def is_multi_exposed(self) -> bool:
        """Whether the user saw several variants in each of these scopes."""
        return None in self.variants.values()


class Split(NamedTuple):
    """The parts of a set: scopes where a list shows the same variant, scopes where it shows another one, and all others."""

    same: ScopeVariants
    other: ScopeVariants
    rest: ScopeVariants


def split(own: ScopeVariants, shown: ScopeVariants) -> Split:
    """Split a user's scopes by the variants that a list shows.

    >>> split({(1, -1): "a", (2, -1): "a", (3, -1): "b"}, {(1, -1): "a", (2, -1): "b"})
    Split(same={(1, -1): 'a'}, other={(2, -1): 'a'}, rest={(3, -1): 'b'})
    """
    parts: tuple[dict[ScopeKey, str | None], ...] = {}, {}, {}
    for scope, variant in own.items():
        parts[2 if scope not in shown else 0 if shown[scope] == variant else 1][scope] = variant
    return Split(*parts)


class ScopeSets:
    """All sets of one batch. `is_open` says whether lists may still be added to a scope."""

    def __init__(self, is_open: Callable[[ScopeKey], bool]) -> None:
        self._is_open = is_open
        self._known: dict[bytes, ScopeSet] = {}
        self._restored: dict[bytes, ScopeSet | None] = {}

    def of(self, variants: ScopeVariants) -> ScopeSet:
        """Return the set of these scopes."""
        stored = msgspec.Raw(pack([(*scope, variant) for scope, variant in sorted(variants.items())]))
        return self._known.setdefault(bytes(stored), ScopeSet(stored, variants))

    def restored(self, stored: msgspec.Raw) -> ScopeSet | None:
        """Return those scopes of a stored set that are open. None if there is none."""
        key = bytes(stored)
        if key not in self._restored:
            is_open, scopes = self._is_open, _decode_scopes(key)
            variants = {(run, day): variant for run, day, variant in scopes if is_open((run, day))}
            if len(variants) == len(scopes):  # it is stored as `of` makes it
                self._restored[key] = self._known.setdefault(key, ScopeSet(stored, variants))
            else:
                self._restored[key] = self.of(variants) if variants else None
        return self._restored[key]


class ScopeTotals(NamedTuple):
    """A user's totals in the scopes of a set: number of lists, packed sums, credits."""

    lists: int
    packed: bytes
    credits: list[StoredCredit]


NO_TOTALS: Final = ScopeTotals(0, b"", [])


class UserRecord(msgspec.Struct, gc=False):
    """All that is stored of one user beside sessions. `changed`: it differs from what is stored. The sets of `entries` are disjoint.

    `exposed` are the scopes in which the user's first exposure is counted.
    """

    entries: dict[ScopeSet, ScopeTotals]
    earlier: dict[CovariatePeriod, StoredEarlier]
    last_seen: LastSeen
    changed: bool
    exposed: AbstractSet[ScopeKey] = frozenset()

    @property
    def matters(self) -> bool:
        """Whether there is anything to store."""
        return bool(self.entries or self.earlier or self.last_seen or self.exposed)

    def stored_totals(self) -> list[StoredTotals]:
        """Return the entries in their stored form."""
        return [(scopes.stored, *totals) for scopes, totals in self.entries.items()]


_Stored = tuple[int, list[StoredTotals], list[StoredEarlier], list[StoredLastSeen], list[tuple[int, int]]]
_read_totals = reader(msgspec.msgpack.Decoder(_Stored).decode, plain_msgpack, "a user's totals")
_read_scopes = msgspec.msgpack.Decoder(list[StoredScope]).decode


def encode_user_totals(
    totals: list[StoredTotals], earlier: list[StoredEarlier], last_seen: list[StoredLastSeen], exposed: Sequence[tuple[int, int]] = ()
) -> bytes:
    return pack((VERSION, totals, earlier, last_seen, exposed))


def decode_user_totals(
    stored: bytes,
) -> tuple[list[StoredTotals], list[StoredEarlier], list[StoredLastSeen], list[tuple[int, int]]]:
    _, totals, earlier, last_seen, exposed = _read_totals(stored)
    return totals, earlier, last_seen, exposed


def _decode_scopes(stored: bytes) -> list[StoredScope]:
    """Decode the scopes of `StoredTotals`."""
    try:
        return _read_scopes(stored)
    except msgspec.DecodeError as error:
        raise refusal(stored, plain_msgpack, "a user's totals", error) from error
