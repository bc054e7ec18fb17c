"""The producers of the events page: each is run once as it stands there, against a real broker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from streammetrics.connectors.kafka.partitioner import partition_of
from streammetrics.connectors.source import Input
from streammetrics.events import EventLimits, Feedback, Impression, native_decoder
from tests.support.kafka_member import stock_records
from tests.support.paths import ROOT
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.npm import fetched
from tests.tools.servers.tools import find_kafka_jars, find_tool

PAGE = ROOT / "streammetrics" / "events" / "README.md"
KAFKAJS = "kafkajs@2.2.4"
PARTITIONS = 4
LINES_MAX = 14


def python(path: Path) -> Sequence[str | Path]:
    return [sys.executable, path]


def java(path: Path) -> Sequence[str | Path]:
    """Run a source file. Only a Java with a compiler can."""
    return [find_tool("javac").resolve().parent / "java", "-cp", f"{find_kafka_jars()}/*", path]


def javascript(path: Path) -> Sequence[str | Path]:
    return [find_tool("node"), path]


def block_of(language: str) -> str:
    """Return the first code block of a language that sends to a broker."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return next(block for block in blocks if "localhost:9092" in block)


@pytest.mark.parametrize(
    ("language", "name", "command"), [("python", "p.py", python), ("java", "Producer.java", java), ("javascript", "p.js", javascript)]
)
def test_a_producer_sends_a_list_and_a_click(
    kafka_broker: KafkaBroker, topic_name: str, tmp_path: Path, language: str, name: str, command: Callable[[Path], Sequence[str | Path]]
) -> None:
    program = block_of(language)
    assert program.count("\n") <= LINES_MAX
    topics = {"impressions": f"{topic_name}-impressions", "feedback": f"{topic_name}-feedback"}
    for topic in topics.values():
        kafka_broker.create_topic(topic, partitions=PARTITIONS)
    program = program.replace("localhost:9092", kafka_broker.bootstrap)
    for topic, topic_config in topics.items():
        program = program.replace(f'("{topic}"', f'("{topic_config}"')
    (tmp_path / name).write_text(program, encoding="utf-8")
    around = {**os.environ, "NODE_PATH": str(fetched("kafkajs", KAFKAJS))} if language == "javascript" else None
    done = subprocess.run(command(tmp_path / name), capture_output=True, text=True, check=False, timeout=120, env=around, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    events, decode = [], native_decoder(EventLimits())
    for topic in topics.values():
        (record,) = stock_records(kafka_broker, Input(topic, partition_of("u7", PARTITIONS)), 1)
        events += decode(record.value)
    impression, clicked = events
    assert isinstance(impression, Impression)
    assert isinstance(clicked, Feedback)
    assert (impression.user_id, impression.impression_id, impression.items) == ("u7", "r-81", ("a", "b", "c"))
    assert (clicked.user_id, clicked.impression_id, clicked.item_id, clicked.action) == ("u7", "r-81", "b", "click")
