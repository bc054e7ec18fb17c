"""`doctor`: asks Kafka, Redis and the machine, and says what is wrong and how to mend it. StateChanges nothing.

Each place is asked in a thread of its own and within one bound, so that nothing that hangs keeps the others from being told.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import click

from streammetrics import __version__
from streammetrics.cli.doctor_checks import (
    DoctorCheck,
    DoctorContext,
    DoctorFinding,
    Level,
    agreement_findings,
    kafka_findings,
    port_findings,
    redis_findings,
)
from streammetrics.cli.process.logs import configure_logs
from streammetrics.config import Settings
from streammetrics.errors import ConfigError, StreammetricsError
from streammetrics.reports.text import counted

PATIENCE_SECONDS = 8.0
COLOURS: dict[Level, str] = {"ok": "green", "warn": "yellow", "fail": "red"}


def examine(settings: Settings) -> bool:
    """Print what is found, within seconds even if nothing answers; False when something must be mended."""
    configure_logs("debug" if settings.log.level == "debug" else "critical", settings.log.format)
    seen = DoctorContext()
    deadline = time.monotonic() + PATIENCE_SECONDS
    click.echo(f"streammetrics {__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")
    asked = [(title, _Asked(check, settings, seen, deadline)) for title, check in _places(settings)]
    levels: list[Level] = []
    for title, answers in asked:
        levels += _told(title, answers)
    levels += _told("together", agreement_findings(seen))
    failures, warnings = levels.count("fail"), levels.count("warn")
    click.echo(f"\n{counted(failures, 'failure')}, {counted(warnings, 'warning')}" if failures or warnings else "\nall is well")
    return not failures


def _places(settings: Settings) -> Iterator[tuple[str, DoctorCheck]]:
    yield f"Kafka at {', '.join(settings.kafka.bootstrap_servers)} ({settings.kafka.security_protocol})", kafka_findings
    yield (
        f"Redis at {settings.redis.url}{', a cluster' if settings.redis.cluster else ''}, namespace {settings.redis.namespace}",
        redis_findings,
    )
    yield f"port {settings.http.port} of {settings.http.host}", port_findings


class _Asked:
    """A check under way in a thread; iterating gives its findings as they come, and at the deadline one that says what hangs."""

    def __init__(self, check: DoctorCheck, settings: Settings, seen: DoctorContext, deadline: float) -> None:
        self._deadline = deadline
        self._findings: queue.SimpleQueue[DoctorFinding | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, args=(check, settings, seen), daemon=True).start()

    def _run(self, check: DoctorCheck, settings: Settings, seen: DoctorContext) -> None:
        try:
            for finding in check(settings, seen):
                self._findings.put(finding)
        except ConfigError as error:
            for problem in error.problems:
                self._findings.put(DoctorFinding("fail", f"{problem.key} = {problem.value}", problem.allowed))
        except StreammetricsError as error:
            self._findings.put(DoctorFinding("fail", error.message, error.fix))
        except Exception as error:  # a check that breaks is a finding too: the others go on
            self._findings.put(DoctorFinding("fail", f"the check itself failed: {type(error).__name__}: {error}"))
        finally:
            self._findings.put(None)

    def __iter__(self) -> Iterator[DoctorFinding]:
        with contextlib.suppress(queue.Empty):
            while (finding := self._findings.get(timeout=max(0.0, self._deadline - time.monotonic()))) is not None:
                yield finding
            return
        yield DoctorFinding("fail", f"no answer within {PATIENCE_SECONDS:.0f} s", "see whether it hangs, and what lies between")


def _told(title: str, findings: Iterable[DoctorFinding]) -> Iterator[Level]:
    """Print the findings under their title; gives their levels."""
    heading = f"\n{title}"
    for level, text, fix in findings:
        if heading:
            click.secho(heading, bold=True)
            heading = ""
        click.echo(f"  {click.style(f'{level:<4}', fg=COLOURS[level], bold=level != 'ok')}  {text}")
        if fix:
            click.echo(f"        to mend: {fix}")
        yield level
