"""How a command ends: its errors as a message and an exit code (0 done, 1 failed, 2 wrong usage or configuration)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any, NoReturn

import click

from streammetrics.errors import ConfigError, StreammetricsError
from streammetrics.reports.text import counted


class BestEffortStream(FileIO):
    """A stream that drops what cannot be written: what is told on it must stop nothing, nor change how a command ends."""

    def write(self, data: Any, /) -> int:
        try:
            written: int | None = super().write(data)
        except OSError:
            written = None
        return memoryview(data).nbytes if written is None else written  # None: somebody else made it a stream that does not wait


def _unfailing_stderr() -> None:
    """Let standard error fail nobody, also where whoever started the process has closed it, or reads it no more."""
    stderr = sys.stderr
    if stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  for as long as there is a process
    elif isinstance(stderr, TextIOWrapper) and stderr is sys.__stderr__:
        raw = BestEffortStream(stderr.fileno(), "w", closefd=False)
        sys.stderr = TextIOWrapper(BufferedWriter(raw), encoding=stderr.encoding, line_buffering=True)


def _whole_stdout() -> None:
    """Let standard output take all of a text or fail: unbuffered, Python forgets without a word what one write leaves over."""
    stdout = sys.stdout
    if isinstance(stdout, TextIOWrapper) and isinstance(stdout.buffer, FileIO):
        raw = FileIO(stdout.fileno(), "w", closefd=False)
        sys.stdout = TextIOWrapper(BufferedWriter(raw), encoding=stdout.encoding, line_buffering=True)


class Commands(click.Group):
    """The commands, on whatever streams they are given."""

    def main(self, *args: Any, **extra: Any) -> Any:
        _unfailing_stderr()
        _whole_stdout()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):  # a character that its encoding does not have must stop nothing
                stream.reconfigure(errors="backslashreplace")
        try:
            return super().main(*args, **extra)
        except OSError as error:  # of what is told before a command runs, such as its help
            _stop(1, _words_of(error))


def guarding(function: Callable[..., None]) -> Callable[..., None]:
    """The function, with its errors turned into a message and an exit code."""

    @wraps(function)
    def guarded(**words: Any) -> None:
        try:
            function(**words)
        except ConfigError as error:
            _stop(2, "\n  ".join([f"{counted(len(error.problems), 'problem')}:", *map(str, error.problems)]))
        except BrokenPipeError:
            raise  # whoever read our output has enough; click ends without a word
        except StreammetricsError as error:
            _stop(1, str(error))
        except OSError as error:
            _stop(1, _words_of(error))

    return guarded


def _words_of(error: OSError) -> str:
    """What an operator is told; the system does not say of standard output that it is the one which is full."""
    return f"standard output: {error.strerror}" if error.filename is None and _is_output_stuck() else str(error)


def _stop(code: int, message: str) -> NoReturn:
    click.echo(f"streammetrics: {message}", err=True)
    _let_go_of_output()
    raise SystemExit(code)


def _let_go_of_output() -> None:
    """Forget what cannot be written: Python would try again at its end, complain, and end with a code of its own."""
    if _is_output_stuck():
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_output_stuck() -> bool:
    """Whether standard output holds what cannot be written."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        return True
    return False
