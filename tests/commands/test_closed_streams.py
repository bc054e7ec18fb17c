"""Standard input and output that whoever started a command has closed: told in a line by every command that needs them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.command_line import COMMAND, ROOT, environment

SAID = "standard output is closed, and what is to be told would be lost: give it a file or a pipe"


def ended(closing: str, *words: str | Path) -> tuple[int, str]:
    """Run a command with `<&-` or `>&-`; its exit code and what it said on standard error."""
    shell = ["sh", "-c", f'exec "$@" {closing}', "sh"]
    done = subprocess.run(
        [*shell, *COMMAND, *map(str, words)], stderr=subprocess.PIPE, cwd=ROOT, env=environment(), text=True, timeout=60, check=False
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
