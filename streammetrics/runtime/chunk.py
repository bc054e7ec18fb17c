"""A chunk: some decoded records of one input, and how much of it the next commit has room for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from streammetrics.connectors.source import Record
from streammetrics.engine.batch import Batch, Decoded, users_of
from streammetrics.runtime.user_sizes import UserSizes


class Chunk(NamedTuple):
    """Records of one input for one step: decoded, and raw for the dead letters."""

    records: Sequence[Record]
    batch: Batch
    sizes: Sequence[int]
    """Bytes of each record."""
    total_bytes: int

    @classmethod
    def of(cls, topic: int, records: Sequence[Record], decoded: Sequence[Decoded]) -> Chunk:
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


def split_to_fit(
    chunk: Chunk, sizes: UserSizes, dirty: AbstractSet[str], users_max: int, bytes_max: int
) -> tuple[Chunk | None, Chunk | None]:
    """Split a chunk into the part that the next commit has room for and the rest, and count the first part's bytes as taken.

    A commit has room for `users_max` users and `bytes_max` bytes. `dirty` are the users that it already contains.
    An empty commit takes one record of any size. A record adds its own bytes, and the stored state of each large user once.
    """
    record_sizes, users = chunk.sizes, chunk.batch.users
    chunk_bytes = chunk.total_bytes
    fits = len(dirty) + len(users) <= users_max and sizes.taken_bytes + chunk_bytes + sizes.total_bytes <= bytes_max
    if not fits:  # the bound above counts all large users; this one only those in the commit
        room = bytes_max - sizes.taken_bytes - sizes.bytes_of(dirty)
        users = users - dirty
        fits = len(dirty) + len(users) <= users_max and chunk_bytes + sizes.bytes_of(users) <= room
    if fits:
        sizes.taken_bytes += chunk_bytes
        return chunk, None
    is_empty, seen = not (dirty or sizes.taken_bytes), set(dirty)
    for count, (size, record) in enumerate(zip(record_sizes, chunk.batch.records, strict=True)):
        users = users_of((record,)) - seen
        seen |= users
        room -= size + sizes.bytes_of(users)
        if (len(seen) > users_max or room < 0) and not (is_empty and count == 0):
            sizes.taken_bytes += sum(record_sizes[:count])
            return chunk.cut(count)
    sizes.taken_bytes += chunk_bytes
    return chunk, None
