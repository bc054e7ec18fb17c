"""A file of UBI events through a real broker, a real Redis and a real `streammetrics run`: `python -m tests.servers.ubi FILE`.

Starts the servers on free ports, sends the file keyed by client_id, runs the product on it until every session has closed, and
prints what the report and /metrics then say. Everything is gone afterwards.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from tests.servers.kafka import KafkaBroker
from tests.servers.process import HOST, NotReadyError, Server, free_port
from tests.servers.redis import RedisServer

CONFIG = Path(__file__).parents[2] / "deploy" / "ubi.toml"
PARTITIONS = 4


def documents(file: Path) -> list[tuple[str, bytes]]:
    """Each UBI document with its client_id, without the lines that are none (bulk actions). Raises ValueError for what is no such file."""
    found = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except ValueError as error:
            allowed = "allowed is one JSON object a line (a web page that shows the file is not the file)"
            raise ValueError(f"line {number} is not JSON ({error}); {allowed}") from error
        if isinstance(document, dict) and "client_id" in document:
            found.append((str(document["client_id"]), line))
    if not found:
        raise ValueError("none of its lines is a UBI document, which is a JSON object with a client_id")
    return found


def send(bootstrap: str, topic: str, records: Sequence[tuple[str, bytes]]) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=20)
    for key, value in records:
        producer.send(topic, key=key.encode(), value=value)
    producer.flush()
    producer.close()


class Run(Server):
    """A real `streammetrics run`, ready once it has taken so many records and has no session open; `report` is what it says then."""

    name = "streammetrics"
    ready_seconds = 120

    def __init__(self, records: int, *settings: str) -> None:
        super().__init__()
        self.records, self.settings = records, settings
        self.port = free_port()
        self.report: dict[str, Any] = {}

    def command(self) -> Sequence[str | Path]:
        words = [word for setting in self.settings for word in ("--set", setting)]
        return [sys.executable, "-m", "streammetrics", "run", "--config", CONFIG, "--port", str(self.port), *words]

    def fetch(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{HOST}:{self.port}{path}", timeout=5) as answer:
            body: bytes = answer.read()
        return body.decode()

    def check_ready(self) -> None:
        self.report = json.loads(self.fetch("/api/report"))
        taken = sum(each["offset"] or 0 for each in self.report["inputs"])
        if taken != self.records or self.report["sessions_open"]:
            raise NotReadyError(f"{taken:,} of {self.records:,} records taken, {self.report['sessions_open']:,} sessions open")


def walk(records: Sequence[tuple[str, bytes]]) -> None:
    with KafkaBroker() as broker, RedisServer() as redis:
        broker.create_topic("ubi", PARTITIONS)
        broker.create_topic("ubi-dead-letters", 1)
        send(broker.bootstrap, "ubi", records)
        print(f"Kafka {broker.bootstrap}: {len(records):,} records in topic ubi; Redis {redis.url}")
        with Run(len(records), f"kafka.bootstrap_servers={broker.bootstrap}", f"redis.url={redis.url}") as run:
            show(run.report, run.fetch("/metrics"))


def show(report: dict[str, Any], metrics: str) -> None:
    print("\ncounters  " + ", ".join(f"{reason} {count:,}" for reason, count in report["counters"].items()))
    print("\n/metrics, the final NDCG@10 of the longest window:")
    wanted = re.compile(r'streammetrics_ndcg\{.*k="10".*window="366d"|streammetrics_window_lists\{.*view="final".*window="366d"')
    for line in metrics.splitlines():
        if wanted.match(line):
            print("  " + line)


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m tests.servers.ubi", description=__doc__, formatter_class=raw)
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
