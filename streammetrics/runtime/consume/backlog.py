"""The polled records of one task that are not processed yet, in chunks, and what was prefetched for them. Does no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from streammetrics.connectors.source import InputRecord
from streammetrics.connectors.store import PendingDueUsers, PendingUsers
from streammetrics.engine.batch import Batch, DecodedRecord


class Chunk(NamedTuple):
    """Records of one input for one step: decoded, and raw for the dead letters."""

    records: Sequence[InputRecord]
    batch: Batch
    sizes: Sequence[int]
    """Bytes of each record."""
    total_bytes: int

    @classmethod
    def of(cls, topic: int, records: Sequence[InputRecord], decoded: Sequence[DecodedRecord]) -> Chunk:
        sizes = [len(record[2] or b"") for record in records]
        return cls(records, Batch(topic, decoded, records[-1].offset + 1), sizes, sum(sizes))

    def cut(self, count: int) -> tuple[Chunk | None, Chunk]:
        """Split after `count` records, fewer than there are. The first part is None if `count` is 0."""
        topic, decoded = self.batch.topic, self.batch.records
        first = Chunk.of(topic, self.records[:count], decoded[:count]) if count else None
        return first, Chunk.of(topic, self.records[count:], decoded[count:])

    def joined(self, following: Chunk) -> Chunk:
        """Append the chunk that was cut off from this one."""
        decoded = [*self.batch.records, *following.batch.records]
        return Chunk.of(self.batch.topic, [*self.records, *following.records], decoded)


class PrefetchedChunk(NamedTuple):
    """A later chunk, decoded early, and those of its users that were requested from the store.

    Users that an earlier chunk requested are left out, and so are users that a commit has written since.
    `reply` is None if the store could not be asked.
    """

    chunk: Chunk
    users: AbstractSet[str]
    reply: PendingUsers | None


@dataclass(slots=True)
class Wait:
    """An input whose next record cannot be read yet: its records, since when (monotonic seconds), how often it was tried, and why."""

    records: list[Sequence[InputRecord]]
    since_seconds: float
    tries: int
    reason: str


@dataclass(slots=True)
class Backlog:
    """Records in the order in which steps process them."""

    records: deque[tuple[int, Sequence[InputRecord]]] = field(default_factory=deque)
    """Topic index and raw records of each chunk."""
    prefetched: deque[PrefetchedChunk] = field(default_factory=deque)
    """Chunks from the front of `records` on that are decoded already."""
    waits: dict[int, Wait] = field(default_factory=dict)
    """The inputs that wait for their reader, by topic index. Their records are not in `records`."""
    due: PendingDueUsers | None = None
    """Due users that were requested for the next step."""

    def __bool__(self) -> bool:
        return bool(self.records)

    def add(self, topic: int, records: Sequence[InputRecord], chunk_records_max: int) -> None:
        """Append polled records as chunks."""
        chunks = [records[start : start + chunk_records_max] for start in range(0, len(records), chunk_records_max)]
        if topic in self.waits:
            self.waits[topic].records += chunks
        else:
            self.records += [(topic, chunk) for chunk in chunks]

    def wait(self, ready: int, reason: str, now_seconds: float) -> None:
        """Let the input of the first chunk wait from the record after the `ready` first ones on. All its later records wait, too."""
        topic, records = self.records[0]
        chunks = [records[ready:], *[chunk for index, chunk in list(self.records)[1:] if index == topic]]
        kept = [(index, chunk) for index, chunk in list(self.records)[1:] if index != topic]
        self.records = deque([(topic, records[:ready]), *kept] if ready else kept)
        self.prefetched.clear()
        before = self.waits.get(topic)
        if before is None or ready:
            self.waits[topic] = Wait(chunks, now_seconds, 1, reason)
        else:
            self.waits[topic] = Wait(chunks, before.since_seconds, before.tries + 1, reason)

    def try_again(self) -> None:
        """Append the records of waiting inputs. Those of their inputs that are left over come before them, newer ones after them."""
        for topic, wait in self.waits.items():
            self.records += [(topic, chunk) for chunk in wait.records]
            wait.records = []

    def read(self, topic: int) -> None:
        """Note that the next record of an input could be read: it does not wait, unless records of it do."""
        if topic in self.waits and not self.waits[topic].records:
            del self.waits[topic]

    def decoded_head(self) -> Chunk | None:
        """Return the first chunk if it was decoded early."""
        if self.prefetched and self.prefetched[0].chunk.records is self.records[0][1]:
            return self.prefetched[0].chunk
        return None

    def replace_head(self, rest: Chunk | None) -> None:
        """Remove the first chunk, or leave only the rest of it."""
        self.records.popleft()
        if rest is not None:
            self.records.appendleft((rest.batch.topic, rest.records))

    def to_prefetch(self, chunks_max: int) -> Iterator[tuple[int, Sequence[InputRecord]]]:
        """Return the chunks after the first one that were not prefetched, at most `chunks_max` together with those that were."""
        return islice(self.records, 1 + len(self.prefetched), 1 + chunks_max)

    @property
    def prefetched_bytes(self) -> int:
        return sum(loading.chunk.total_bytes for loading in self.prefetched)

    def clear(self) -> None:
        """Drop all records and requests."""
        self.records.clear()
        self.prefetched.clear()
        self.waits.clear()
        self.due = None
