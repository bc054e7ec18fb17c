"""The polled records of one task that are not processed yet, and what was prefetched for them. Does no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from streammetrics.connectors.source import Record
from streammetrics.connectors.store import PendingDueUsers, PendingUsers
from streammetrics.runtime.consume.chunk import Chunk


class Prefetched(NamedTuple):
    """A later chunk, decoded early, and those of its users that were requested from the store.

    Users that an earlier chunk requested are left out, and so are users that a commit has written since.
    `reply` is None if the store could not be asked.
    """

    chunk: Chunk
    users: AbstractSet[str]
    reply: PendingUsers | None


@dataclass(slots=True)
class Backlog:
    """Records in the order in which steps process them."""

    records: deque[tuple[int, Sequence[Record]]] = field(default_factory=deque)
    """Topic index and raw records of each chunk."""
    prefetched: deque[Prefetched] = field(default_factory=deque)
    """Chunks from the front of `records` on that are decoded already."""
    due: PendingDueUsers | None = None
    """Due users that were requested for the next step."""

    def __bool__(self) -> bool:
        return bool(self.records)

    def add(self, topic: int, records: Sequence[Record], chunk_records_max: int) -> None:
        """Append polled records as chunks."""
        for start in range(0, len(records), chunk_records_max):
            self.records.append((topic, records[start : start + chunk_records_max]))

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

    def to_prefetch(self, chunks_max: int) -> Iterator[tuple[int, Sequence[Record]]]:
        """Return the chunks after the first one that were not prefetched, at most `chunks_max` together with those that were."""
        return islice(self.records, 1 + len(self.prefetched), 1 + chunks_max)

    @property
    def prefetched_bytes(self) -> int:
        return sum(each.chunk.total_bytes for each in self.prefetched)

    def clear(self) -> None:
        """Drop all records and requests."""
        self.records.clear()
        self.prefetched.clear()
        self.due = None
