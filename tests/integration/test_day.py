"""The page "A day in the life of a bad ranker": its commands in order, on real servers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.command_line import environment
from tests.support.paths import ROOT
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import free_port

PAGE = ROOT / "deploy" / "rollouts" / "day.md"
SECONDS_MAX = 900
"""The gate of the page waits up to five minutes in each step."""


class Command(NamedTuple):
    """A block of shell on the page: its text, its exit code, and whether it stays in the background."""

    text: str
    code: int
    stays: bool


def commands(page: str) -> Iterator[Command]:
    for words, text in re.findall(r"^```sh(.*?)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        exits = re.search(r"exits (\d+)", words)
        yield Command(text, int(exits[1]) if exits else 0, "background" in words)


@pytest.mark.timeout(1_200)
def test_the_commands_of_the_page_find_the_bad_ranker_at_5_percent(kafka_broker: KafkaBroker, redis_url: str, tmp_path: Path) -> None:
    port = free_port()
    for topic in ("day-impressions", "day-feedback"):
        kafka_broker.create_topic(topic, partitions=4)
    program = tmp_path / "bin" / "streammetrics"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m streammetrics "$@"\n')
    program.chmod(0o755)
    around = environment(
        {
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "STREAMMETRICS_KAFKA_BOOTSTRAP_SERVERS": kafka_broker.bootstrap,
            "STREAMMETRICS_REDIS_URL": redis_url,
            "STREAMMETRICS_HTTP_PORT": str(port),
        }
    )
    log, background, outputs = tmp_path / "run.log", [], []
    try:
        for command in commands(PAGE.read_text(encoding="utf-8").replace("9464", str(port))):
            shell = ["bash", "-eo", "pipefail", "-c", command.text if not command.stays else f"exec {command.text}"]
            if command.stays:
                with log.open("wb") as output:
                    background.append(subprocess.Popen(shell, cwd=tmp_path, env=around, stdout=output, stderr=output))
                continue
            done = subprocess.run(shell, cwd=tmp_path, env=around, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
            assert done.returncode == command.code, f"{command.text}\n{done.stdout}\n{done.stderr}\n{log.read_text()[-3000:]}"
            outputs.append(done.stdout)
    finally:
        for process in background:
            process.terminate()
            process.wait(60)
    ramp, report, answer = outputs[2], outputs[4], json.loads(outputs[5])
    print(ramp, report)  # shown if the test fails
    assert re.findall(r"^step: (\d+) %$", ramp, re.MULTILINE) == ["1", "5"]
    assert re.search(r"^FAIL  treatment: .* % (lower|fewer) .*; 95 % confidence, safe to check at any time", ramp, re.MULTILINE)
    assert ramp.splitlines()[-1] == "rolled back to 0 %"
    assert "REGRESSED  treatment: " in report
    assert (answer["gate"], answer["verdict"]["word"]) == ("fail", "regressed")
