"""Runs commands as users do: arguments in, output and exit code out. In their own process, or faster in this one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner

from streammetrics.cli.main import main
from tests.support.paths import ROOT

COMMAND = [sys.executable, "-m", "streammetrics"]
SECONDS_MAX = 240


def environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment without the caller's settings for the product or for Python, plus some variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("STREAMMETRICS_", "PYTHON"))}
    return {**kept, "COLUMNS": "100", **(given or {})}


def streammetrics(*words: str | Path, stdin: bytes = b"", environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return its output as text."""
    done = subprocess.run(
        [*COMMAND, *words], input=stdin, capture_output=True, cwd=ROOT, env=environment(environ), timeout=SECONDS_MAX, check=False
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def called(*words: str | Path, stdin: bytes = b"", environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in this process. For commands that only read, compute and write."""
    words_given, source = list(map(str, words)), io.BufferedReader(io.BytesIO(stdin))
    hidden = dict.fromkeys((name for name in os.environ if name.startswith("STREAMMETRICS_")), None)
    done = CliRunner(env={**hidden, "COLUMNS": "100", **(environ or {})}).invoke(main, words_given, input=source)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(words_given, done.exit_code, done.stdout, done.stderr)


@contextmanager
def started(*words: str | Path, environ: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """Start a command and wait for its end. Its output is read line by line. A test that fails meanwhile kills it."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*COMMAND, *words], stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, cwd=ROOT, env=environment(environ), text=True
    ) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def is_asleep(process: subprocess.Popen[str]) -> bool:
    """Return whether a command waits in a system call. A signal just before that is only handled after the wait."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
