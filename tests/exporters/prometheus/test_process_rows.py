"""The series of a process with worker processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from prometheus_client import ProcessCollector

from streammetrics.exporters.prometheus.process_rows import SUMMED, ProcessGroupCollector

BUSY = "import sys, time\nwhile time.process_time() < 0.3: pass\nprint('ready', flush=True)\nsys.stdin.read()"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has used some processor time and waits for the end of its input."""
    with subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.communicate()


def values(collector: ProcessGroupCollector | ProcessCollector) -> dict[str, float]:
    return {family.name: family.samples[0].value for family in collector.collect()}


def test_without_worker_processes_the_series_are_those_of_the_client_library() -> None:
    families, stock = (list(collector.collect()) for collector in (ProcessGroupCollector(), ProcessCollector(registry=None)))
    assert [(family.name, family.type, family.documentation) for family in families] == [
        (family.name, family.type, family.documentation) for family in stock
    ]


def test_memory_and_time_of_worker_processes_are_added(child: subprocess.Popen[bytes]) -> None:
    alone, together = values(ProcessGroupCollector()), values(ProcessGroupCollector(lambda: [child.pid]))
    assert together.keys() == alone.keys() >= SUMMED
    assert together["process_cpu_seconds"] >= alone["process_cpu_seconds"] + 0.25
    assert together["process_open_fds"] >= alone["process_open_fds"] + 3
    assert together["process_resident_memory_bytes"] > alone["process_resident_memory_bytes"] + 1_000_000
    assert together["process_start_time_seconds"] == alone["process_start_time_seconds"]


def test_the_processor_time_of_an_ended_process_stays(child: subprocess.Popen[bytes]) -> None:
    running = values(ProcessGroupCollector(lambda: [child.pid, os.getpid()]))
    child.communicate()
    assert values(ProcessGroupCollector(lambda: [os.getpid()]))["process_cpu_seconds"] >= running["process_cpu_seconds"]


def test_a_process_that_has_just_ended_is_no_error(child: subprocess.Popen[bytes]) -> None:
    child.communicate()
    assert values(ProcessGroupCollector(lambda: [child.pid])).keys() == values(ProcessGroupCollector()).keys()
