"""A file of UBI events through a real broker, a real Redis and a real `streammetrics run`: `python -m tests.servers.ubi FILE`.

Starts the servers on free ports, sends the file keyed by client_id, runs the product on it until every session has closed, and
prints what the report and /metrics then say. Everything is gone afterwards.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from tests.servers.kafka import KafkaBroker
from tests.servers.process import free_port, wait_until
from tests.servers.redis import RedisServer

CONFIG = Path(__file__).parents[2] / "deploy" / "ubi.toml"
PARTITIONS = 4


def send(bootstrap: str, topic: str, lines: list[bytes]) -> int:
    """Send each UBI document as one record, keyed by client_id; lines that are no documents (bulk actions) stay behind."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=20)
    sent = 0
    for line in lines:
        document = json.loads(line)
        if "client_id" in document:
            producer.send(topic, key=str(document["client_id"]).encode(), value=line)
            sent += 1
    producer.flush()
    producer.close()
    return sent


@contextmanager
def running(*settings: str, port: int) -> Iterator[str]:
    """A real `streammetrics run`; gives its address, and stops it as an operator would."""
    words = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, "-m", "streammetrics", "run", "--config", str(CONFIG), "--port", str(port), *words]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def fetch(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            body: bytes = answer.read()
            return body
    except OSError:
        return b""


def closed_report(address: str, records: int) -> dict[str, Any] | None:
    """The report once every record was taken and no session is open."""
    text = fetch(f"{address}/api/report")
    report = json.loads(text) if text else {}
    taken = sum(each["offset"] or 0 for each in report.get("inputs", []))
    return report if taken == records and report.get("sessions_open") == 0 else None


def walk(file: Path) -> None:
    lines = [line for line in file.read_bytes().splitlines() if line]
    with KafkaBroker() as broker, RedisServer() as redis:
        broker.create_topic("ubi", PARTITIONS)
        broker.create_topic("ubi-dead-letters", 1)
        sent = send(broker.bootstrap, "ubi", lines)
        print(f"Kafka {broker.bootstrap}: {sent:,} records in topic ubi; Redis {redis.url}")
        with running(f"kafka.bootstrap_servers={broker.bootstrap}", f"redis.url={redis.url}", port=free_port()) as address:
            found: list[dict[str, Any]] = []

            def closed() -> bool:
                report = closed_report(address, sent)
                found.extend([report] if report else [])
                return bool(report)

            wait_until(closed, what="every session has closed", deadline_seconds=120)
            show(found[0], fetch(f"{address}/metrics").decode())


def show(report: dict[str, Any], metrics: str) -> None:
    print("\ncounters  " + ", ".join(f"{reason} {count:,}" for reason, count in report["counters"].items()))
    print("\n/metrics, the final NDCG@10 of the longest window:")
    wanted = re.compile(r'streammetrics_ndcg\{.*k="10".*window="366d"|streammetrics_window_lists\{.*view="final".*window="366d"')
    for line in metrics.splitlines():
        if wanted.match(line):
            print("  " + line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="NDJSON of UBI documents, with or without bulk action lines between them")
    arguments = parser.parse_args()
    if not arguments.file.is_file():
        parser.error(f"{arguments.file} is not a file")
    walk(arguments.file)


if __name__ == "__main__":
    main()
