"""A small sample of the users that a task has seen lately. Over all tasks it shows whether users appear on several partitions.

Every task keeps the users with the least hashes. A hash depends on the user id only, so all tasks sample the same users. The sample
is a function of the events that reach sessions: their order, batches and crashes do not change it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple
from zlib import crc32

PERIOD_MS: Final = 21_600_000
"""Six hours. The sample covers the newest period of event time and the one before, so 6 to 12 hours."""
USERS_MAX: Final = 128
"""Users kept per task and period. They take 1 kB in a commit."""
_DETAIL_BITS: Final = 16
_HASH_BYTES: Final = 6


class UserSample:
    """The users with the least hashes, for each of two periods of event time."""

    __slots__ = ("_periods", "_stored")

    def __init__(self) -> None:
        self._periods: dict[int, list[int]] = {}
        """Hashes in ascending order, by the start of their period (ms)."""
        self._stored: dict[int, str] = {}
        """The stored form of the periods that have not changed since it was made."""

    def restore(self, stored: Iterable[tuple[int, str]]) -> None:
        """Continue from the last commit."""
        self._stored = dict(stored)
        self._periods = dict(decode_sample(stored))

    def stored(self) -> list[tuple[int, str]]:
        """Return what the next commit writes."""
        for period in self._periods.keys() - self._stored.keys():
            self._stored[period] = _encode(self._periods[period])
        return sorted(self._stored.items())

    def add(self, user_id: str, ts: int) -> int:
        """Note that the user has an event at `ts` (ms). Returns the start of the event's period: one call per period is enough."""
        period = ts - ts % PERIOD_MS
        hashes = self._periods.get(period)
        if hashes is None:
            newest = max(self._periods, default=period)
            if period < newest - PERIOD_MS:
                return period
            hashes = self._periods[period] = []
            for old in [start for start in self._periods if start < max(period, newest) - PERIOD_MS]:
                del self._periods[old]
                self._stored.pop(old, None)
        name = user_id.encode()
        checksum = crc32(name)  # ten times as fast as a good hash, and enough to reject most users
        if len(hashes) == USERS_MAX and checksum > hashes[-1] >> _DETAIL_BITS:
            return period
        hashed = checksum << _DETAIL_BITS | int.from_bytes(blake2b(name, digest_size=2).digest())
        place = bisect_left(hashes, hashed)
        if hashes[place : place + 1] != [hashed] and place < USERS_MAX:
            hashes.insert(place, hashed)
            del hashes[USERS_MAX:]
            self._stored.pop(period, None)
        return period


def _encode(hashes: Iterable[int]) -> str:
    return b64encode(b"".join([hashed.to_bytes(_HASH_BYTES) for hashed in hashes])).decode()


def decode_sample(stored: Iterable[tuple[int, str]]) -> list[tuple[int, list[int]]]:
    """Return the start (ms) and the hashes of each period.

    >>> sample = UserSample()
    >>> sample.add("u1", 5)
    0
    >>> [(period, len(hashes)) for period, hashes in decode_sample(sample.stored())]
    [(0, 1)]
    """
    decoded = []
    for period, text in stored:
        packed = b64decode(text)
        decoded.append((period, [int.from_bytes(packed[at : at + _HASH_BYTES]) for at in range(0, len(packed), _HASH_BYTES)]))
    return decoded


class SampledUsers(NamedTuple):
    """The sampled users of all tasks, and those of them that several tasks have seen."""

    users: int
    on_several: int


def merge_samples(tasks: Iterable[Iterable[tuple[int, list[int]]]]) -> SampledUsers:
    """Merge the samples of all tasks.

    A full sample lacks users with greater hashes. So only hashes up to the least last one of all full samples are compared.

    >>> merge_samples([[(0, [1, 5, 9])], [(0, [5, 7])]])
    SampledUsers(users=4, on_several=1)
    """
    samples = [list(task) for task in tasks]
    newest = max((period for task in samples for period, _ in task), default=0)
    recent = [[hashes for period, hashes in task if period >= newest - PERIOD_MS] for task in samples]
    bounds = [hashes[-1] for task in recent for hashes in task if len(hashes) >= USERS_MAX]
    bound = min(bounds, default=1 << 8 * _HASH_BYTES)
    seen: Counter[int] = Counter()
    for task in recent:
        seen.update({hashed for hashes in task for hashed in hashes if hashed <= bound})
    return SampledUsers(len(seen), sum(tasks_seen > 1 for tasks_seen in seen.values()))


class SampledTasks:
    """The samples of all tasks. They are merged again only if one has changed."""

    def __init__(self) -> None:
        self._stored: dict[int, list[tuple[int, str]]] = {}
        self._merged: tuple[int, SampledUsers] | None = None

    def update(self, task: int, stored: list[tuple[int, str]]) -> None:
        """Set the stored sample of a task."""
        if self._stored.get(task) != stored:
            self._stored[task] = stored
            self._merged = None

    def merged(self, tasks: int) -> SampledUsers:
        """Return the sampled users of the first `tasks` tasks."""
        if self._merged is None or self._merged[0] != tasks:
            users = merge_samples(decode_sample(stored) for task, stored in self._stored.items() if task < tasks)
            self._merged = tasks, users
        return self._merged[1]
