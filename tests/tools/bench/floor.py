"""The floor: what any Python consumer pays at least. Poll all records and decode them with our decoder; no group, no state.

With `client` "kafka-python" the client's own `poll`; with "ours" the worker's source, which reads record batches faster.
"""

from __future__ import annotations

import time

from kafka import KafkaConsumer

from streammetrics.config import Settings
from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.source import KafkaSource
from streammetrics.events import Decoder
from streammetrics.wiring.decoders import build_decoder
from streammetrics.wiring.gc_tuning import tune_garbage_collection
from tests.tools.bench.parts import peak_mb, read_given, reply
from tests.tools.servers.kafka import places_of

POLL_RECORDS_MAX = 5_000


def with_the_clients_poll(bootstrap: str, topics: list[str], records: int, decode: Decoder) -> tuple[float, float]:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, max_partition_fetch_bytes=4 << 20, metrics_enabled=False
    )
    places = places_of(consumer, *topics)
    consumer.assign(places)
    consumer.seek_to_beginning()
    seen, began, processor = 0, 0.0, 0.0
    while seen < records:
        polled = consumer.poll(timeout_ms=200, max_records=POLL_RECORDS_MAX)
        if polled and not began:
            began, processor = time.monotonic(), time.process_time()
        for batch in polled.values():
            for record in batch:
                decode(record.value)
            seen += len(batch)
    taken = time.monotonic() - began, time.process_time() - processor
    consumer.close()
    return taken


def with_our_source(bootstrap: str, topics: list[str], records: int, decode: Decoder) -> tuple[float, float]:
    source = KafkaSource(
        KafkaSettings(bootstrap_servers=(bootstrap,), topics=tuple(topics), group_id=f"floor-{time.time_ns()}", start="earliest")
    )
    seen, began, processor = 0, 0.0, 0.0
    while seen < records:
        polled = source.poll(0.2)
        for task in polled.assigned:
            source.start(task, {})
        if polled.records and not began:
            began, processor = time.monotonic(), time.process_time()
        for batch in polled.records.values():
            for _, _, value in batch:
                decode(value)
            seen += len(batch)
    taken = time.monotonic() - began, time.process_time() - processor
    source.close()
    return taken


def main() -> None:
    given = read_given()
    decode = build_decoder(Settings())
    tune_garbage_collection()
    read = with_our_source if given["client"] == "ours" else with_the_clients_poll
    seconds, processor_seconds = read(given["bootstrap"], given["topics"], given["records"], decode)
    reply({"seconds": seconds, "processor_seconds": processor_seconds, "peak_mb": peak_mb()})


if __name__ == "__main__":
    main()
