"""Read fetched records as `InputRecord` tuples, several times faster than the client.

Works around: the client decodes each record field by field and builds an object of thirteen fields. We use three of them.
Without it: results are the same, and reading takes about four times the processor time per record.
Private names: `_fetcher`, `_unpack_records`, `_consume_aborted_transactions_up_to`, `_contains_abort_marker`, `_is_batch_aborted`,
`_buffer`; and those of `record_batches`, which decodes the bytes.
Delete it when: `tests/connectors/kafka/patches/test_fast_fetch.py::TestStillNeeded` fails.

`install` first reads a batch of its own in both ways. Where the results differ, or a name is missing, the client's own way stays.
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

from streammetrics.connectors.kafka.patches.limited_batches import BatchTooLargeError
from streammetrics.connectors.kafka.patches.record_batches import columns, records_of, walk
from streammetrics.connectors.source import InputRecord, UnreadBatch
from streammetrics.events.record import Headers, SentValue

log = structlog.get_logger("streammetrics.kafka")


def as_record(read: Any, whole: bool = False) -> InputRecord:
    """Convert a record that the client read. Records of format 0 have no timestamp and get -1. `whole`: see `FastPartitionRecords`."""
    stamp, value = -1 if read.timestamp is None else read.timestamp, read.value
    if whole:
        value = SentValue.of(value or b"", dict(read.headers or ()), key=read.key, timestamp_ms=stamp)
    return InputRecord(read.offset, stamp, value)


class FastPartitionRecords(Fetcher.PartitionRecords):  # type: ignore[misc]  # the client has no types
    """The client's reader of one fetched chunk, which yields `InputRecord`.

    `whole` reads values as `SentValue`, with key, headers and timestamp. `next_fetch_offset` must be right after every record: a poll may
    stop within a batch.
    """

    whole = False

    def _unpack_records(self, tp: Any, records: Any, key_deserializer: Any, value_deserializer: Any) -> Iterator[InputRecord]:
        last = None
        while (batch := records.next_batch()) is not None:
            last = batch
            if self.check_crcs and not batch.validate_crc():
                raise CorruptRecordError(f"the batch of {tp.topic} [{tp.partition}] at offset {batch.base_offset} has a wrong checksum")
            if batch.magic == 2:
                self.leader_epoch = batch.leader_epoch
                if self._is_skipped(batch):
                    self.next_fetch_offset = batch.next_offset
                    continue
                self.bytes_read += batch.size_in_bytes
                try:
                    for record in records_of(batch, self.whole):
                        self.next_fetch_offset = record[0] + 1
                        yield record
                except BatchTooLargeError as error:
                    first_offset, self.next_fetch_offset = self.next_fetch_offset, batch.next_offset
                    unread = UnreadBatch.of(first_offset, batch.last_offset, batch.records_count, error.reason)
                    yield InputRecord(batch.last_offset, batch.max_timestamp, unread)
            else:
                self.bytes_read += 1
                for old in batch:
                    if self.check_crcs and not old.validate_crc():
                        raise CorruptRecordError(f"the record of {tp.topic} [{tp.partition}] at offset {old.offset} has a wrong checksum")
                    self.next_fetch_offset = old.offset + 1
                    yield as_record(old, self.whole)
        # Compaction may remove a batch's last record, but the batch keeps its last offset. Without this it would be fetched for ever.
        if last is not None and last.magic == 2:
            self.next_fetch_offset = last.next_offset
        self.drain()

    def _is_skipped(self, batch: Any) -> bool:
        """Return whether a batch is a transaction's marker or part of an aborted transaction."""
        if self.isolation_level == 1 and batch.has_producer_id():
            self._consume_aborted_transactions_up_to(batch.last_offset)
            if self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            elif self._is_batch_aborted(batch):
                return True
        return bool(batch.is_control_batch)


class WholePartitionRecords(FastPartitionRecords):
    """The same for records that are read whole."""

    whole = True


def install(consumer: KafkaConsumer, whole: bool = False) -> bool:
    """Make the consumer's `poll` return `InputRecord`s. Where that is not safe, log why and return False."""
    try:
        _check()
        fetcher = consumer._fetcher
        if fetcher.PartitionRecords is not Fetcher.PartitionRecords:
            raise AttributeError("the fetcher's reader was already replaced")
        fetcher.PartitionRecords = WholePartitionRecords if whole else FastPartitionRecords
    except Exception as error:  # a changed client may raise anything, and its own way is correct
        log.warning("fast fetch is off: kafka-python's private names have changed", effect="reading is slower", reason=repr(error))
        return False
    return True


def _check() -> None:
    """Raise unless the client, `FastPartitionRecords` and `columns` read the same from a batch with every shape of record."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 16, offset=0)
    for stamp, key, value, headers in (
        (1_700_000_000_000, b"user", b"x" * 300, []),
        (1_700_000_000_250, None, b"", [("name", b"text"), ("none", None)]),
        (1_699_999_999_000, b"k" * 200, None, []),
    ):
        builder.append(timestamp=stamp, key=key, value=value, headers=headers)
    builder.close()
    data, partition = bytes(builder.records()._buffer), TopicPartition("check", 0)
    for first in (0, 1):
        stock = Fetcher.PartitionRecords(first, partition, MemoryRecords(data))
        fast = FastPartitionRecords(first, partition, MemoryRecords(data))
        expected = [InputRecord(record.offset, record.timestamp, record.value) for record in stock.take(2)]
        if fast.take(2) != expected or not expected or fast.next_fetch_offset != stock.next_fetch_offset:
            raise ValueError(f"the fast reader differs from the client, which reads {expected}")
    for wanted in (False, True):
        expected = [as_record(record, wanted) for record in Fetcher.PartitionRecords(0, partition, MemoryRecords(data)).take(3)]
        for records in (columns(MemoryRecords(data).next_batch(), wanted), list(walk(MemoryRecords(data).next_batch(), wanted))):
            if records != expected or list(map(_rest, records)) != list(map(_rest, expected)):
                raise ValueError(f"the fast decoders differ from the client, which reads {expected}")


def _rest(record: InputRecord) -> tuple[Headers, bytes | None, int] | None:
    value = record.value
    return (value.headers, value.key, value.timestamp_ms) if type(value) is SentValue else None
