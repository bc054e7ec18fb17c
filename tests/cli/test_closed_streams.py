"""Standard input and output that whoever started a command has closed: told in a line by every command that needs them. Standard
error that is closed, or full, stops nothing."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.servers.process import free_port, wait_until
from tests.support.command_line import COMMAND, environment
from tests.support.paths import ROOT

SAID = "standard output is closed, and what is to be told would be lost: give it a file or a pipe"


def in_shell(closing: str, *words: str | Path) -> list[str]:
    return ["sh", "-c", f'exec "$@" {closing}', "sh", *COMMAND, *map(str, words)]


def ended(closing: str, *words: str | Path) -> tuple[int, str]:
    """Run a command with `<&-` or `>&-`; its exit code and what it said on standard error."""
    done = subprocess.run(
        in_shell(closing, *words), stderr=subprocess.PIPE, cwd=ROOT, env=environment(), text=True, timeout=60, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("name", ["replay", "report"])
def test_standard_input_that_is_closed_is_a_file_that_cannot_be_read(name: str) -> None:
    assert ended("<&-", name, "-") == (2, "streammetrics: 1 problem:\n  FILE = -: cannot be read: standard input is closed\n")


def test_without_standard_input_there_is_nobody_to_ask_whether_to_delete() -> None:
    code, said = ended("<&-", "namespaces", "delete", "sm-1")
    assert code == 2
    assert "there is no terminal to ask on: give --yes" in said


def test_events_do_not_go_to_a_standard_output_that_is_closed() -> None:
    assert ended(">&-", "simulate", "--out", "-", "--events", "5") == (1, f"streammetrics: {SAID}\n")


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_report_is_not_told_to_a_standard_output_that_is_closed(form: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text('{"experiments": []}')
    assert ended(">&-", "report", report, "--format", form) == (1, f"streammetrics: {SAID}\n")


def test_a_configuration_is_not_told_to_a_standard_output_that_is_closed() -> None:
    assert ended(">&-", "check-config") == (1, f"streammetrics: {SAID}\n")


def test_a_replay_whose_table_nobody_can_read_does_not_begin(tmp_path: Path) -> None:
    events, report = tmp_path / "events", tmp_path / "report.json"
    events.touch()
    assert ended(">&-", "replay", events, "--report", report) == (1, f"streammetrics: {SAID}\n")
    assert not report.exists()
    assert ended(">&-", "replay", events, "--report", report, "--quiet") == (0, "")
    assert report.exists()


def test_a_demo_without_standard_output_does_not_begin() -> None:
    assert ended(">&-", "demo", "--port", "0", "--seconds", "1") == (1, f"streammetrics: {SAID}\n")


def test_evaluate_says_which_stream_is_closed(tmp_path: Path) -> None:
    run, qrels = tmp_path / "run.txt", tmp_path / "qrels.txt"
    run.write_text("q1 Q0 a 1 0.9 mine\n")
    qrels.write_text("q1 0 a 1\n")
    code, said = ended("<&-", "evaluate", "-", qrels)
    assert (code, said) == (2, "streammetrics evaluate: 1 problem:\n  RUN = -: standard input is closed\n")
    assert ended(">&-", "evaluate", run, qrels) == (1, "streammetrics evaluate: standard output is closed\n")


# -- standard error ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["closed", "full", "nobody reads it"])
def unheard(request: pytest.FixtureRequest) -> Iterator[tuple[str, int | None]]:
    """A standard error on which nobody hears anything: how a shell gives it, or what it is."""
    if request.param == "closed":
        yield "2>&-", None
    elif request.param == "full":
        yield "2>/dev/full", None
    else:
        reading, writing = os.pipe()
        os.close(reading)
        yield "", writing
        os.close(writing)


def code_of(unheard: tuple[str, int | None], *words: str | Path) -> int:
    closing, stderr = unheard
    shell, told = in_shell(closing, *words), subprocess.DEVNULL
    return subprocess.run(shell, stdout=told, stderr=stderr, cwd=ROOT, env=environment(), timeout=60, check=False).returncode


def test_nothing_stops_for_want_of_a_standard_error(unheard: tuple[str, int | None], tmp_path: Path) -> None:
    events, report, page = tmp_path / "events", tmp_path / "report.json", tmp_path / "page.html"
    assert code_of(unheard, "simulate", "--out", events, "--minutes", "1", "--malformed", "0.1") == 0
    assert code_of(unheard, "replay", events, "--report", report) == 0
    assert code_of(unheard, "report", report, "--html", page) == 0
    assert code_of(unheard, "demo", "--port", "0", "--seconds", "0.5") == 0
    assert code_of(unheard, "check-config", "--set", "join.attribution_ms=3600000") == 0  # which warns
    assert events.exists()
    assert report.exists()
    assert page.exists()


@pytest.mark.parametrize("words", [("check-config", "--set", "join.gap_ms=-1"), ("replay",), ("nonsense",)])
def test_an_exit_code_is_the_same_for_want_of_a_standard_error(unheard: tuple[str, int | None], words: tuple[str, ...]) -> None:
    assert code_of(unheard, *words) == 2


def test_evaluate_needs_no_standard_error(unheard: tuple[str, int | None], tmp_path: Path) -> None:
    run, qrels = tmp_path / "run.txt", tmp_path / "qrels.txt"
    run.write_text("q1 Q0 a 1 0.9 mine\nq2 Q0 a 1 0.9 mine\n")
    qrels.write_text("q1 0 a 1\n")
    assert code_of(unheard, "evaluate", run, qrels) == 0  # and notes what is not judged


def test_a_service_whose_log_cannot_be_written_serves_and_ends_as_it_is_told(unheard: tuple[str, int | None]) -> None:
    port, (closing, stderr) = free_port(), unheard
    away = ("--set", "redis.url=redis://127.0.0.1:1/0", "--set", "kafka.bootstrap_servers=127.0.0.1:1")
    with subprocess.Popen(in_shell(closing, "run", "--port", str(port), *away), stderr=stderr, cwd=ROOT, env=environment()) as process:

        def is_told() -> bool:
            with contextlib.suppress(OSError), contextlib.closing(urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5)) as answer:
                return b"streammetrics_store_up 0" in answer.read()
            return False

        try:
            wait_until(is_told, what="it serves")
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()
