"""Sends a file of UBI events through a real broker, Redis and `streammetrics run`: `python -m tests.tools.servers.ubi FILE`.

It starts the servers on free ports and sends the file with client_id as the key. It runs the product until every session has closed,
and prints parts of the report and of /metrics. It leaves nothing behind.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from tests.support.paths import ROOT
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import NotReadyError
from tests.tools.servers.product import Product, as_flags
from tests.tools.servers.redis import RedisServer

CONFIG = ROOT / "deploy" / "ubi.toml"
PARTITIONS = 4


def documents(file: Path) -> list[tuple[str, bytes]]:
    """Return each UBI document with its client_id, without bulk actions. Raises ValueError for another kind of file."""
    texts = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except ValueError as error:
            allowed = "the file must have one JSON object per line (did you save a web page that shows the file?)"
            raise ValueError(f"line {number} is not JSON ({error}); {allowed}") from error
        if isinstance(document, dict) and "client_id" in document:
            texts.append((str(document["client_id"]), line))
    if not texts:
        raise ValueError("no line is a UBI document (a JSON object with a client_id)")
    return texts


def send(bootstrap: str, topic: str, records: Sequence[tuple[str, bytes]]) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=20)
    for key, value in records:
        producer.send(topic, key=key.encode(), value=value)
    producer.flush()
    producer.close()


class Run(Product):
    """A real `streammetrics run`, ready when it has read `records` records, no session is open, and all tasks have a time.

    Windows end at the time that all tasks have reached. A task without records has its time from the clock, maybe a commit later.
    """

    ready_seconds = 120

    def __init__(self, records: int, settings: Mapping[str, str]) -> None:
        super().__init__("--config", CONFIG, *as_flags(settings))
        self.records = records

    def check_ready(self) -> None:
        report = self.report()
        if not report:
            raise NotReadyError("there is no commit yet")
        read, open_now = sum(input_position["offset"] or 0 for input_position in report["inputs"]), report["sessions_open"]
        if read != self.records or open_now or report["watermark_ms"] is None:
            raise NotReadyError(f"{read:,} of {self.records:,} records read, {open_now:,} sessions open, time {report['watermark_ms']}")


def walk(records: Sequence[tuple[str, bytes]]) -> None:
    with KafkaBroker() as broker, RedisServer() as redis:
        broker.create_topic("ubi", PARTITIONS)
        broker.create_topic("ubi-dead-letters", 1)
        send(broker.bootstrap, "ubi", records)
        print(f"Kafka {broker.bootstrap}: {len(records):,} records in topic ubi; Redis {redis.url}")
        with Run(len(records), {"kafka.bootstrap_servers": broker.bootstrap, "redis.url": redis.url}) as run:
            show(run.report(), run.get("/metrics").text)


def show(report: dict[str, Any], metrics: str) -> None:
    print("\ncounters  " + ", ".join(f"{reason} {count:,}" for reason, count in report["counters"].items()))
    print("\n/metrics, the final NDCG@10 of the longest window:")
    wanted = re.compile(r'streammetrics_ndcg\{.*k="10".*window="366d"|streammetrics_window_lists\{.*view="final".*window="366d"')
    for line in metrics.splitlines():
        if wanted.match(line):
            print("  " + line)


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m tests.tools.servers.ubi", description=__doc__, formatter_class=raw)
    parser.add_argument("file", type=Path, help="NDJSON of UBI documents, with or without bulk action lines between them")
    arguments = parser.parse_args()
    try:
        records = documents(arguments.file)
    except OSError as error:
        parser.error(str(error))
    except ValueError as error:
        parser.error(f"{arguments.file}: {error}")
    walk(records)


if __name__ == "__main__":
    main()
