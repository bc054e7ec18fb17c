"""Structured logs on standard error: text on a terminal, JSON elsewhere."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import structlog


def configure_logs(level: str, form: str, **fields: str) -> None:
    """Configure logging for the process. `form` is auto, console or json. `fields` are added to every line."""
    console = form == "console" or (form == "auto" and sys.stderr.isatty())
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if console else structlog.processors.JSONRenderer(sort_keys=False, ensure_ascii=False)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _adding(fields),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )


def _adding(fields: Mapping[str, str]) -> structlog.typing.Processor:
    def add(logger: object, method: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return {**line, **fields}

    return add


@contextmanager
def quiet_logs(level: str, form: str) -> Iterator[None]:
    """Configure logging like `configure_quiet_logs` for a block. A program that uses structlog itself gets its configuration back."""
    before = structlog.get_config()
    configure_quiet_logs(level, form)
    try:
        yield
    finally:
        structlog.configure(**before)


@contextmanager
def held_logs(dropped_with: type[Exception]) -> Iterator[None]:
    """Hold the lines of a block back until its end. They are dropped if it raises this error."""
    before, held = structlog.get_config(), io.StringIO()
    structlog.configure(logger_factory=structlog.WriteLoggerFactory(file=held))
    try:
        yield
    except dropped_with:
        held.truncate(0)
        raise
    finally:
        structlog.configure(**before)
        sys.stderr.write(held.getvalue())


def configure_quiet_logs(level: str, form: str) -> None:
    """Configure logging for interactive commands: level info becomes warning, so that info lines do not mix with the output."""
    configure_logs("warning" if level == "info" else level, form)
