"""`gate`: whether the treatments of an experiment may get more traffic, as an answer and an exit code. Changes no state.

Exit codes: 0 pass, 1 fail, 3 wait. Everything that prevents a decision is 3, never 1: a rollout that takes 1 for "worse" must not be rolled
back because a server did not answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from streammetrics.cli.exporter_client import ExporterClient
from streammetrics.cli.output.gate_lines import answer_lines, no_answer_line, progress_line
from streammetrics.cli.output.gate_markdown import summary_markdown
from streammetrics.cli.output.progress import changing_line
from streammetrics.cli.output.report_reader import read_report
from streammetrics.cli.output.standard_output import print_json
from streammetrics.cli.output.terminal import output_console, print_lines
from streammetrics.cli.report import read_plain
from streammetrics.config import Settings
from streammetrics.errors import ConfigError, Problem, StreammetricsError
from streammetrics.experiments.gate import GateWord
from streammetrics.reports.freshness import ReportTimes
from streammetrics.reports.gate_answer import GateAnswer, answer_gate, as_stale, find_experiment
from streammetrics.reports.time_text import span_text
from streammetrics.wiring.logs import configure_quiet_logs

EXIT_CODES: Final[Mapping[GateWord, int]] = {"pass": 0, "fail": 1, "wait": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class GateQuestion:
    """What is asked: an experiment, one of its treatments (None: all), a scope and the stage that must run (None: any), of a report file
    (None: an exporter or Redis).
    """

    experiment: str
    variant: str | None
    scope: str
    stage: str | None
    file: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """How often to ask until there is a decision, and for how long (seconds; None: for ever)."""

    every_seconds: float
    deadline_seconds: float | None


def run_gate(settings: Settings, question: GateQuestion, *, as_json: bool, watch: Watch | None, summary: Path | None = None) -> int:
    """Ask once, or until there is a decision, print the answer, and return the exit code. Raises ConfigError.

    summary: a file to which the answer is added as Markdown.
    """
    configure_quiet_logs(settings.log.level, settings.log.format)
    if summary is not None:
        _add_to(summary, "")  # a file that cannot be written is said before the question
    ask = _asker(settings, question)
    found = _asked(ask) if watch is None else _watched(ask, watch)
    word: GateWord = "wait" if isinstance(found, StreammetricsError) else found.gate
    if as_json:
        unasked = {"experiment": question.experiment, "gate": "wait", "reason": str(found)}
        print_json(unasked if isinstance(found, StreammetricsError) else found)
    else:
        lines = [no_answer_line(str(found))] if isinstance(found, StreammetricsError) else answer_lines(found)
        print_lines(output_console(), lines)
    if summary is not None:
        _add_to(summary, summary_markdown(question.experiment, found))
    return EXIT_CODES[word]


def _add_to(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError([Problem("--summary", str(path), f"a file that can be written: {error.strerror}", "command line")]) from error


def _asker(settings: Settings, question: GateQuestion) -> Callable[[], GateAnswer]:
    """Return a function that asks a file, an exporter or the store."""
    stale_ms = settings.exporter.gate_stale_ms
    if question.file is not None or not settings.client.url:
        return lambda: _answer_of_report(settings, question)
    client = ExporterClient(settings.client)

    def ask() -> GateAnswer:
        answer = client.gate(question.experiment, question.variant, question.scope, question.stage)
        apart_ms = abs(_now_ms() - answer.answered_ms)
        if apart_ms <= stale_ms:
            return answer
        return as_stale(answer, [f"the clock of {client.url} and the one here are {span_text(apart_ms)} apart, or the answer was cached"])

    return ask


def _answer_of_report(settings: Settings, question: GateQuestion) -> GateAnswer:
    plain, where = read_plain(settings, question.file)
    results, now_ms = read_report(plain, where), _now_ms()
    assert isinstance(plain, Mapping)
    try:
        times = msgspec.convert({**plain, "entered_ms": plain.get("experiments_entered_ms")}, ReportTimes)
    except msgspec.ValidationError as error:
        raise StreammetricsError(f"{where} is not a whole report: {error}") from error
    stale = [*times.staleness(now_ms, settings.exporter.gate_stale_ms)]
    found = find_experiment(results.experiments, question.experiment, question.scope, stale, results.warnings)
    return answer_gate(
        found,
        question.variant,
        stage=question.stage,
        is_live=not times.ended,
        stale=stale,
        up_to_ms=results.at_ms,
        answered_ms=now_ms,
        warnings=results.warnings,
    )


def _asked(ask: Callable[[], GateAnswer]) -> GateAnswer | StreammetricsError:
    """Return the answer, or why there is none now. Raises ConfigError."""
    try:
        return ask()
    except ConfigError:
        raise
    except StreammetricsError as error:
        return error


def _watched(ask: Callable[[], GateAnswer], watch: Watch) -> GateAnswer | StreammetricsError:
    """Ask until there is a decision or the deadline has passed, and return the last answer."""
    end = None if watch.deadline_seconds is None else time.monotonic() + watch.deadline_seconds
    with changing_line() as show:
        while True:
            found = _asked(ask)
            left = None if end is None else end - time.monotonic()
            if (not isinstance(found, StreammetricsError) and found.gate != "wait") or (left is not None and left <= 0):
                return found
            show(progress_line(found))
            time.sleep(watch.every_seconds if left is None else min(watch.every_seconds, left))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
