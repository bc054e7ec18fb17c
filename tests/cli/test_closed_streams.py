"""Tests of closed streams: commands report a closed standard input or output, and work without standard error."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from streammetrics.events.model import Impression
from tests.support.command_line import COMMAND, environment
from tests.support.native_json import native_json
from tests.support.paths import ROOT
from tests.tools.servers.process import free_port, wait_until

CLOSED = "standard output is closed; connect it to a terminal, a file or a pipe"


def in_shell(closing: str, *words: str | Path) -> list[str]:
    return ["sh", "-c", f'exec "$@" {closing}', "sh", *COMMAND, *map(str, words)]


def ended(closing: str, *words: str | Path) -> tuple[int, str]:
    """Run a command with `<&-` or `>&-`; return its exit code and standard error."""
    done = subprocess.run(
        in_shell(closing, *words), stderr=subprocess.PIPE, cwd=ROOT, env=environment(), text=True, timeout=120, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("name", ["replay", "report"])
def test_closed_standard_input_is_reported_as_an_unreadable_file(name: str) -> None:
    assert ended("<&-", name, "-") == (2, "streammetrics: 1 problem:\n  FILE = -: cannot be read: standard input is closed\n")


def test_deletion_without_standard_input_requires_yes() -> None:
    code, stderr = ended("<&-", "namespaces", "delete", "sm-1")
    assert code == 2
    assert "cannot ask for confirmation without a terminal; give --yes" in stderr


def test_simulate_rejects_a_closed_standard_output() -> None:
    assert ended(">&-", "simulate", "--out", "-", "--minutes", "0.1") == (1, f"streammetrics: {CLOSED}\n")


@pytest.mark.parametrize("form", ["text", "json"])
def test_report_rejects_a_closed_standard_output(form: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text('{"experiments": []}')
    assert ended(">&-", "report", report, "--format", form) == (1, f"streammetrics: {CLOSED}\n")


def test_check_config_rejects_a_closed_standard_output() -> None:
    assert ended(">&-", "check-config") == (1, f"streammetrics: {CLOSED}\n")


def test_a_replay_with_a_table_rejects_a_closed_standard_output(tmp_path: Path) -> None:
    events, report = tmp_path / "events", tmp_path / "report.json"
    events.write_bytes(native_json(Impression("r", "u", 1_772_366_400_000, ("a",))))
    assert ended(">&-", "replay", events, "--report", report) == (1, f"streammetrics: {CLOSED}\n")
    assert not report.exists()
    assert ended(">&-", "replay", events, "--report", report, "--quiet") == (0, "")
    assert report.exists()


def test_demo_rejects_a_closed_standard_output() -> None:
    assert ended(">&-", "demo", "--port", "0", "--seconds", "1") == (1, f"streammetrics: {CLOSED}\n")


# -- standard error ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["closed", "full", "broken pipe"])
def broken_stderr(request: pytest.FixtureRequest) -> Iterator[tuple[str, int | None]]:
    """A standard error that is closed, full or a broken pipe: the shell redirection, and the file descriptor."""
    if request.param == "closed":
        yield "2>&-", None
    elif request.param == "full":
        yield "2>/dev/full", None
    else:
        reading, writing = os.pipe()
        os.close(reading)
        yield "", writing
        os.close(writing)


def code_of(broken_stderr: tuple[str, int | None], *words: str | Path) -> int:
    closing, stderr = broken_stderr
    shell, output = in_shell(closing, *words), subprocess.DEVNULL
    return subprocess.run(shell, stdout=output, stderr=stderr, cwd=ROOT, env=environment(), timeout=240, check=False).returncode


def test_commands_work_without_standard_error(broken_stderr: tuple[str, int | None], tmp_path: Path) -> None:
    events, report = tmp_path / "events", tmp_path / "report.json"
    assert code_of(broken_stderr, "simulate", "--out", events, "--minutes", "1") == 0
    assert code_of(broken_stderr, "replay", events, "--report", report) == 0
    assert code_of(broken_stderr, "report", report) == 0
    assert code_of(broken_stderr, "demo", "--port", "0", "--seconds", "0.5") == 0
    assert code_of(broken_stderr, "check-config", "--set", "join.attribution_ms=3600000") == 0  # prints a warning
    assert events.exists()
    assert report.exists()


@pytest.mark.parametrize("words", [("check-config", "--set", "join.gap_ms=-1"), ("replay",), ("nonsense",)])
def test_exit_codes_are_the_same_without_standard_error(broken_stderr: tuple[str, int | None], words: tuple[str, ...]) -> None:
    assert code_of(broken_stderr, *words) == 2


def test_a_service_without_standard_error_serves_and_stops(broken_stderr: tuple[str, int | None]) -> None:
    port, (closing, stderr) = free_port(), broken_stderr
    away = ("--set", "redis.url=redis://127.0.0.1:1/0", "--set", "kafka.bootstrap_servers=127.0.0.1:1")
    with subprocess.Popen(in_shell(closing, "run", "--port", str(port), *away), stderr=stderr, cwd=ROOT, env=environment()) as process:

        def shows_store_down() -> bool:
            with contextlib.suppress(OSError), contextlib.closing(urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5)) as answer:
                return b"streammetrics_store_up 0" in answer.read()
            return False

        try:
            wait_until(shows_store_down, what="it serves")
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()
