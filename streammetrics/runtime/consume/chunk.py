"""A chunk: some decoded records of one input. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from streammetrics.connectors.source import InputRecord
from streammetrics.engine.batch import Batch, Decoded


class Chunk(NamedTuple):
    """Records of one input for one step: decoded, and raw for the dead letters."""

    records: Sequence[InputRecord]
    batch: Batch
    sizes: Sequence[int]
    """Bytes of each record."""
    total_bytes: int

    @classmethod
    def of(cls, topic: int, records: Sequence[InputRecord], decoded: Sequence[Decoded]) -> Chunk:
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
