"""How a function becomes a command of click: its errors become messages and exit codes.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, or state of another one.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any, Final, NoReturn

import click

from streammetrics.errors import ConfigError, StreammetricsError, UnfitStateError
from streammetrics.words.numbers import counted

PROBLEMS_MAX: Final = 20
"""Problems of usage that are printed. The rest are counted."""
_FULL = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class BestEffortStream(FileIO):
    """A stream that drops what it cannot write. A message must not stop a command or change its exit code."""

    def write(self, data: Any, /) -> int:
        try:
            written: int | None = super().write(data)
        except OSError:
            written = None
        return memoryview(data).nbytes if written is None else written  # None: the stream is non-blocking and full


def _make_stderr_best_effort() -> None:
    """Make writes to standard error never fail, even if it is closed or no longer read."""
    stderr = sys.stderr
    if stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  open until the process ends
    elif isinstance(stderr, TextIOWrapper) and stderr is sys.__stderr__:
        raw = BestEffortStream(stderr.fileno(), "w", closefd=False)
        sys.stderr = TextIOWrapper(BufferedWriter(raw), encoding=stderr.encoding, line_buffering=True)


def _make_stdout_complete() -> None:
    """Make standard output write all of a text or fail. Unbuffered Python silently drops the rest of a partial write."""
    stdout = sys.stdout
    if isinstance(stdout, TextIOWrapper) and isinstance(stdout.buffer, FileIO):
        raw = FileIO(stdout.fileno(), "w", closefd=False)
        sys.stdout = TextIOWrapper(BufferedWriter(raw), encoding=stdout.encoding, line_buffering=True)


class CommandGroup(click.Group):
    """A click group that works on any kind of standard output and standard error."""

    def main(self, *args: Any, **extra: Any) -> Any:
        _make_stderr_best_effort()
        _make_stdout_complete()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):  # escape characters that the encoding lacks
                stream.reconfigure(errors="backslashreplace")
        try:
            return super().main(*args, **extra)
        except OSError as error:  # while click prints help or the version
            _exit(1, _os_error_text(error))


def with_exit_codes(function: Callable[..., None], failed: int = 1) -> Callable[..., None]:
    """Wrap a command: its errors become a message and an exit code, `failed` for all but wrong usage.

    If `failed` is not 1, no error of any kind ends the command with 1, because then 1 has a meaning of its own.
    """

    @wraps(function)
    def wrapped(**options: Any) -> None:
        try:
            function(**options)
        except ConfigError as error:
            more = [f"and {len(error.problems) - PROBLEMS_MAX:,} more"] if len(error.problems) > PROBLEMS_MAX else []
            _exit(2, "\n  ".join([f"{counted(len(error.problems), 'problem')}:", *map(str, error.problems[:PROBLEMS_MAX]), *more]))
        except StreammetricsError as error:
            _exit(2 if failed == 1 and isinstance(error, UnfitStateError) else failed, str(error))
        except BrokenPipeError:
            if failed == 1:
                raise  # the reader closed the pipe; click exits silently
            _exit(failed, "standard output was closed")
        except OSError as error:
            _exit(failed, _os_error_text(error))
        except KeyboardInterrupt:
            _exit(failed, "interrupted")
        except (click.ClickException, click.exceptions.Exit):
            raise
        except Exception:
            if failed == 1:
                raise
            traceback.print_exc()
            _exit(failed, "this is a defect of streammetrics; the lines above say where")

    return wrapped


def _os_error_text(error: OSError) -> str:
    """Return the message of an OSError. Errors of standard output have no file name, so it is added.

    A write that is longer than the buffer leaves nothing in it, so that a later flush succeeds. Then the kind of the error shows where
    it is from: other files name themselves (`AtomicFile`).
    """
    is_stdout = error.filename is None and (error.errno in _FULL or _stdout_cannot_flush())
    return f"standard output: {error.strerror}" if is_stdout else str(error)


def _exit(code: int, message: str) -> NoReturn:
    click.echo(f"streammetrics: {message}", err=True)
    _discard_unwritable_output()
    raise SystemExit(code)


def _discard_unwritable_output() -> None:
    """Discard output that cannot be written. Otherwise Python retries at exit, prints an error and changes the exit code."""
    if _stdout_cannot_flush():
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _stdout_cannot_flush() -> bool:
    """Return whether standard output holds text that cannot be written."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        return True
    return False


def command(function: Callable[..., None], failed: int = 1) -> click.Command:
    """Make a command of a function; its errors become messages and exit codes, as in `with_exit_codes`."""
    return click.command(context_settings=CONTEXT)(with_exit_codes(function, failed))
