"""The page about your own events says what is true: its program and its commands run, and print what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import free_port, wait_until

PAGE = ROOT / "streammetrics" / "events" / "your-own-events.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SIMULATE = re.compile(r"`streammetrics (simulate [^`]*)`")
WORDS_MAX = 700
TOPICS = ("searches", "clicks", "searches-by-user", "clicks-by-user", "shop-dead-letters")


class Reader:
    """Somebody who follows the page, with addresses of their own."""

    def __init__(self, folder: Path, addresses: dict[str, str], port: int) -> None:
        self.folder, self.addresses = folder, addresses
        self.around = {**os.environ, "STREAMMETRICS_HTTP_PORT": str(port), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        self.commands = self.printed = ""
        self.running: subprocess.Popen[bytes] | None = None

    def own(self, text: str) -> str:
        for address, ours in self.addresses.items():
            text = text.replace(address, ours)
        return text

    def follow(self, kind: str, text: str) -> None:
        text = self.own(text)
        if kind == "toml":
            (self.folder / "streammetrics.toml").write_text(text)
        elif kind == "python":
            (self.folder / "reader.py").write_text(text)
        elif kind == "sh" and text.rstrip().endswith("&"):
            with (self.folder / "log").open("wb") as log:
                self.running = subprocess.Popen(text.rstrip(" &\n").split(), cwd=self.folder, env=self.around, stdout=log, stderr=log)
        elif kind == "sh" and not text.startswith("pip "):
            self.commands = text
            self.run()

    def run(self) -> None:
        done = subprocess.run(["bash", "-c", self.commands], cwd=self.folder, env=self.around, capture_output=True, text=True, check=False)
        self.printed = done.stdout + done.stderr

    def make_topics(self, program: str) -> None:
        subprocess.run([sys.executable, "-c", self.own(program)], check=True, cwd=self.folder, timeout=120)

    def shows_at_last(self, expected: str) -> bool:
        """Return whether the last commands print these lines, perhaps when they are run again. `…` stands for any text in a line."""
        patterns = [".*".join(map(re.escape, line.split("…"))) for line in expected.splitlines()]
        is_shown = all(re.search(pattern, self.printed) for pattern in patterns)
        if not is_shown and self.running is not None:
            self.run()
        return is_shown


@pytest.fixture
def reader(kafka_broker: KafkaBroker, redis_url: str, tmp_path: Path) -> Iterator[Reader]:
    port = free_port()
    addresses = {
        "127.0.0.1:9092": kafka_broker.bootstrap,
        "redis://127.0.0.1:6379/0": redis_url,
        "127.0.0.1:9464": f"127.0.0.1:{port}",
    }
    reader = Reader(tmp_path, addresses, port)
    try:
        yield reader
    finally:
        if reader.running is not None:
            reader.running.terminate()
            reader.running.wait(60)
        for topic in TOPICS:
            kafka_broker.delete_topic(topic)


def test_a_reader_gets_to_a_gauge_and_a_first_verdict(reader: Reader) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert len(page.split()) <= WORDS_MAX
    (simulate,) = SIMULATE.findall(page)
    blocks = BLOCK.findall(page)
    _, (_, program) = [block for block in blocks if block[0] == "python"]
    reader.commands = f"streammetrics {simulate}"
    reader.run()
    reader.make_topics(program)
    for kind, text in blocks:
        if kind == "":
            printed = lambda expected=text: reader.shows_at_last(expected)  # noqa: E731
            wait_until(printed, what=f"this is printed: {text}\n{reader.printed}", deadline_seconds=240)
        elif text != program:
            reader.follow(kind, text)
        if "doctor" in text:
            assert ("fail" in reader.printed or "no key" in reader.printed) is ("repartition" not in text), reader.printed
