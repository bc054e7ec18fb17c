"""How a command ends: its errors as a message and an exit code (0 done, 1 failed, 2 wrong usage or configuration)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from io import TextIOWrapper
from typing import Any, NoReturn

import click

from streammetrics.errors import ConfigError, StreammetricsError
from streammetrics.shown_text import counted


class Commands(click.Group):
    """The commands, on whatever streams they are given."""

    def main(self, *args: Any, **extra: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):  # a character that its encoding does not have must stop nothing
                stream.reconfigure(errors="backslashreplace")
        try:
            return super().main(*args, **extra)
        except OSError as error:  # of what is told before a command runs, such as its help
            _stop(1, str(error))


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
        except (StreammetricsError, OSError) as error:
            _stop(1, str(error))

    return guarded


def _stop(code: int, message: str) -> NoReturn:
    click.echo(f"streammetrics: {message}", err=True)
    _let_go_of_output()
    raise SystemExit(code)


def _let_go_of_output() -> None:
    """Forget what cannot be written: Python would try again at its end, complain, and end with a code of its own."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
