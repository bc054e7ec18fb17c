"""A faster way from fetched bytes to `Record`, by `batches`, in place of the client's object per field.

Nothing here talks to a broker. It leans on private names of kafka-python, so `install` first proves on a batch of its own
that it reads what the client reads; wherever that fails the client's own way stays in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import structlog
from kafka import KafkaConsumer
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords, MemoryRecordsBuilder
from kafka.structs import TopicPartition

from streammetrics.connectors.base import Record
from streammetrics.connectors.kafka.patches.record_batches import columns, records_of

log = structlog.get_logger("streammetrics.kafka")


def as_record(read: Any) -> Record:
    """A record as the client reads it; one of format 0 has no timestamp."""
    return Record(read.offset, -1 if read.timestamp is None else read.timestamp, read.value)


class FastPartitionRecords(Fetcher.PartitionRecords):  # type: ignore[misc]  # the client has no types
    """The client's reader of one fetched partition, yielding `Record` in place of its own thirteen fields.

    It must keep `next_fetch_offset` right after every record, because a poll may stop within a batch.
    """

    def _unpack_records(self, tp: Any, records: Any, key_deserializer: Any, value_deserializer: Any) -> Iterator[Record]:
        last = None
        while (batch := records.next_batch()) is not None:
            last = batch
            if self.check_crcs and not batch.validate_crc():
                raise CorruptRecordError(f"the batch of {tp.topic} [{tp.partition}] at offset {batch.base_offset} has a wrong checksum")
            if batch.magic == 2:
                self.leader_epoch = batch.leader_epoch
                if self._passed_over(batch):
                    self.next_fetch_offset = batch.next_offset
                    continue
                self.bytes_read += batch.size_in_bytes
                for record in records_of(batch):
                    self.next_fetch_offset = record[0] + 1
                    yield record
            else:
                self.bytes_read += 1
                for old in batch:
                    if self.check_crcs and not old.validate_crc():
                        raise CorruptRecordError(f"the record of {tp.topic} [{tp.partition}] at offset {old.offset} has a wrong checksum")
                    self.next_fetch_offset = old.offset + 1
                    yield as_record(old)
        # A batch keeps its last offset when compaction has removed the last record: without this it would be fetched for ever.
        if last is not None and last.magic == 2:
            self.next_fetch_offset = last.next_offset
        self.drain()

    def _passed_over(self, batch: Any) -> bool:
        """Whether a batch holds nothing for a reader: a transaction's marker, or records of one that was aborted."""
        if self.isolation_level == 1 and batch.has_producer_id():
            self._consume_aborted_transactions_up_to(batch.last_offset)
            if self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            elif self._is_batch_aborted(batch):
                return True
        return bool(batch.is_control_batch)


def install(consumer: KafkaConsumer) -> bool:
    """Let this consumer's `poll` return `Record`s. False, with the reason in the log, where the client is not as expected."""
    try:
        _prove()
        fetcher = consumer._fetcher
        if fetcher.PartitionRecords is not Fetcher.PartitionRecords:
            raise AttributeError("the fetcher's reader has been replaced already")
        fetcher.PartitionRecords = FastPartitionRecords
    except Exception as error:  # whatever a changed client may raise: its own way is right, only slower
        log.warning("records are read the client's slower way: its inner names have changed", reason=repr(error))
        return False
    return True


def _prove() -> None:
    """Raise unless all ways read the same from a batch with every shape of record."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 16, offset=0)
    for stamp, key, value, headers in (
        (1_700_000_000_000, b"user", b"x" * 300, []),
        (1_700_000_000_250, None, b"", [("name", b"text"), ("none", None)]),
        (1_699_999_999_000, b"k" * 200, None, []),
    ):
        builder.append(timestamp=stamp, key=key, value=value, headers=headers)
    builder.close()
    data, place = bytes(builder.records()._buffer), TopicPartition("proof", 0)
    for first in (0, 1):
        stock = Fetcher.PartitionRecords(first, place, MemoryRecords(data))
        fast = FastPartitionRecords(first, place, MemoryRecords(data))
        expected = [Record(record.offset, record.timestamp, record.value) for record in stock.take(2)]
        if fast.take(2) != expected or not expected or fast.next_fetch_offset != stock.next_fetch_offset:
            raise ValueError(f"read otherwise than the client: {expected}")
    whole = [as_record(record) for record in Fetcher.PartitionRecords(0, place, MemoryRecords(data)).take(3)]
    if columns(MemoryRecords(data).next_batch()) != whole:
        raise ValueError(f"columns are read otherwise than the client: {whole}")


def release_parked(consumer: Any) -> None:
    """Let records come back that the client set aside while their input was paused; to be called before every poll.

    The client brings them back only when its current chunk is None, but leaves a chunk that has been read to its end in that
    place, and does not fetch for an input that has records set aside: after `resume` such an input would stay silent for good.
    """
    fetcher = getattr(consumer, "_fetcher", None)
    chunk = getattr(fetcher, "_next_partition_records", None)
    if fetcher is not None and chunk is not None and not chunk:
        fetcher._next_partition_records = None
