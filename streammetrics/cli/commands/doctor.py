"""`doctor`: checks Kafka, Redis, stored state and the HTTP port, and says how to fix them.

It changes nothing. Each check runs in its own thread with a common deadline, so that a server that hangs does not delay the other findings.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeAlias

import click

from streammetrics.cli.command import command
from streammetrics.cli.doctor.checks import (
    DoctorContext,
    agreement_findings,
    first_number_findings,
    kafka_findings,
    port_findings,
    read_verdicts,
    redis_findings,
    running_experiment_findings,
)
from streammetrics.cli.doctor.findings import DoctorFinding, Level, print_findings
from streammetrics.cli.options import configured, load_settings
from streammetrics.config import Settings
from streammetrics.errors import ConfigError, StreammetricsError
from streammetrics.version import __version__
from streammetrics.wiring.logs import configure_logs
from streammetrics.words.numbers import counted

DoctorCheck: TypeAlias = Callable[[], Iterable[DoctorFinding] | None]
"""Returns its findings, or None if it only reads. A StreammetricsError that it raises becomes a finding too."""

DEADLINE_SECONDS = 8.0
LATE = DoctorFinding("fail", f"no answer within {DEADLINE_SECONDS:.0f} s", "check whether the server hangs, and the network in between")
VERDICTS_LATE = DoctorFinding(
    "warn", f"the verdicts could not be read within {DEADLINE_SECONDS:.0f} s", "`streammetrics report` waits longer for them"
)


def examine(settings: Settings) -> bool:
    """Run all checks and print their findings within DEADLINE_SECONDS. Returns False if a check failed."""
    configure_logs("debug" if settings.log.level == "debug" else "critical", settings.log.format)
    context = DoctorContext()
    deadline = time.monotonic() + DEADLINE_SECONDS
    click.echo(f"streammetrics {__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")
    running = [(title, _RunningCheck(check, deadline)) for title, check in _checks(settings, context)]
    verdicts = _RunningCheck(partial(read_verdicts, settings, context), deadline, late=VERDICTS_LATE)
    levels: list[Level] = []
    for title, findings in running:
        levels += print_findings(title, findings)
    levels += print_findings("Kafka and Redis together", agreement_findings(settings, context))
    levels += print_findings("Experiments", [*verdicts, *running_experiment_findings(settings, context)])
    failures, warnings = levels.count("fail"), levels.count("warn")
    click.echo(f"\n{counted(failures, 'failure')}, {counted(warnings, 'warning')}" if failures or warnings else "\nno problem found")
    return not failures


def _checks(settings: Settings, context: DoctorContext) -> Iterator[tuple[str, DoctorCheck]]:
    kafka, redis = settings.kafka, settings.redis
    yield f"Kafka at {', '.join(kafka.bootstrap_servers)} ({kafka.security_protocol})", partial(kafka_findings, settings, context)
    title = f"Redis at {redis.url}{', a cluster' if redis.cluster else ''}, namespace {redis.namespace}"
    yield title, partial(redis_findings, settings, context)
    yield "Numbers", partial(first_number_findings, settings)
    yield f"HTTP port {settings.http.port} on {settings.http.host}", partial(port_findings, settings)


class _RunningCheck:
    """A check in its own thread. Iteration yields its findings as they come, and `late` at the deadline."""

    def __init__(self, check: DoctorCheck, deadline: float, late: DoctorFinding = LATE) -> None:
        self._deadline, self._late = deadline, late
        self._findings: queue.SimpleQueue[DoctorFinding | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, args=(check,), daemon=True).start()

    def _run(self, check: DoctorCheck) -> None:
        try:
            for finding in check() or ():
                self._findings.put(finding)
        except ConfigError as error:
            for problem in error.problems:
                self._findings.put(DoctorFinding("fail", f"{problem.key} = {problem.value}", problem.allowed))
        except StreammetricsError as error:
            self._findings.put(DoctorFinding("fail", error.message, error.fix))
        except Exception as error:  # a crashed check is a finding; the other checks continue
            self._findings.put(DoctorFinding("fail", f"the check crashed: {type(error).__name__}: {error}"))
        finally:
            self._findings.put(None)

    def __iter__(self) -> Iterator[DoctorFinding]:
        with contextlib.suppress(queue.Empty):
            while (finding := self._findings.get(timeout=max(0.0, self._deadline - time.monotonic()))) is not None:
                yield finding
            return
        yield self._late


@command
@configured
def doctor(config_path: Path | None, settings_given: tuple[str, ...]) -> None:
    """Check Kafka, Redis, the stored state, recent records and the HTTP port, and say how to fix each problem.

    Reads about 100 recent records of each input topic, without joining the consumer group: their form, events, actions, times and keys.
    Says of each experiment its verdict, what to keep before a variant is switched off, and whether it is over. Changes nothing. Exit code 1
    if a check fails.

    \b
    Examples:
      streammetrics doctor --config streammetrics.toml
      streammetrics doctor --set redis.url=rediss://cache:6380/0
    """
    loaded = load_settings(config_path, settings_given)
    if not examine(loaded.settings):
        raise SystemExit(1)
