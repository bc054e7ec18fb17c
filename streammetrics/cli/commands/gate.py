"""`gate`: whether the treatments of an experiment may get more traffic, as an answer and an exit code. Changes no state.

Exit codes: 0 pass, 1 fail, 3 wait. Everything that prevents a decision is 3, never 1: a rollout that takes 1 for "worse" must not be rolled
back because a server did not answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from streammetrics.cli.command import command
from streammetrics.cli.commands.report import read_plain
from streammetrics.cli.exporter_client import ExporterClient
from streammetrics.cli.options import FiniteFloatRange, ReportFile, configured, load_settings, moment_ms, span_seconds
from streammetrics.cli.output.gate_lines import answer_lines, no_answer_line, progress_line, summary_markdown
from streammetrics.cli.output.report_reader import read_report
from streammetrics.cli.output.standard_output import print_json
from streammetrics.cli.output.terminal import changing_line, output_console, print_lines
from streammetrics.cli.signals import interrupt_on_signals
from streammetrics.config import Settings
from streammetrics.errors import ConfigError, Problem, StreammetricsError
from streammetrics.experiments.gate import GateWord
from streammetrics.reports.freshness import ReportTimes
from streammetrics.reports.verdict_lines import GateAnswer, answer_gate, as_stale, find_experiment
from streammetrics.wiring.logs import configure_quiet_logs
from streammetrics.words.times import span_text

EXIT_CODES: Final[Mapping[GateWord, int]] = {"pass": 0, "fail": 1, "wait": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class GateQuestion:
    """What is asked: an experiment, one of its treatments (None: all), and a scope, of a report file (None: an exporter or Redis).

    since_ms: when the running step of the rollout began (epoch ms); None: it is found.
    """

    experiment: str
    variant: str | None
    scope: str
    since_ms: int | None
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
    answer = _asked(ask) if watch is None else _watched(ask, watch)
    word: GateWord = "wait" if isinstance(answer, StreammetricsError) else answer.gate
    if as_json:
        unasked = {"experiment": question.experiment, "gate": "wait", "reason": str(answer)}
        print_json(unasked if isinstance(answer, StreammetricsError) else answer)
    else:
        lines = [no_answer_line(str(answer))] if isinstance(answer, StreammetricsError) else answer_lines(answer)
        print_lines(output_console(), lines)
    if summary is not None:
        _add_to(summary, summary_markdown(question.experiment, answer))
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
        answer = client.gate(question.experiment, question.variant, question.scope, question.since_ms)
        apart_ms = abs(_now_ms() - answer.answered_ms)
        if apart_ms <= stale_ms:
            return answer
        return as_stale(answer, [f"the clock of {client.url} and the one here are {span_text(apart_ms)} apart, or the answer was cached"])

    return ask


def _answer_of_report(settings: Settings, question: GateQuestion) -> GateAnswer:
    plain, where = read_plain(settings, question.file, since_ms=question.since_ms)
    results, now_ms = read_report(plain, where), _now_ms()
    assert isinstance(plain, Mapping)
    try:
        times = msgspec.convert({**plain, "entered_ms": plain.get("experiments_entered_ms")}, ReportTimes)
    except msgspec.ValidationError as error:
        raise StreammetricsError(f"{where} is not a whole report: {error}") from error
    stale = [*times.staleness(now_ms, settings.exporter.gate_stale_ms)]
    experiment = find_experiment(results.experiments, question.experiment, question.scope, stale, results.warnings)
    return answer_gate(
        experiment,
        question.variant,
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
            answer = _asked(ask)
            left = None if end is None else end - time.monotonic()
            if (not isinstance(answer, StreammetricsError) and answer.gate != "wait") or (left is not None and left <= 0):
                return answer
            show(progress_line(answer))
            time.sleep(watch.every_seconds if left is None else min(watch.every_seconds, left))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


NO_DECISION = 3
"""Exit code while there is no decision, and of every failure."""


@partial(command, failed=NO_DECISION)
@configured
@click.argument("experiment")
@click.argument("file", required=False, type=ReportFile(), metavar="[FILE]")
@click.option("--variant", metavar="NAME", help="Ask about this treatment only. Without it, all must pass, and any that fails is a fail.")
@click.option(
    "--scope", type=click.Choice(["start", "day"]), default="start", show_default=True, help="Numbers since the start, or of this UTC day."
)
@click.option(
    "--since",
    "since_ms",
    callback=moment_ms,
    metavar="TIME",
    help="When the running step began, such as 2026-02-01T09:00Z, or a span ago, such as 40m. A pass needs it, except with fixed shares.",
)
@click.option("--url", help="Ask this exporter, such as https://exporter:9464. Sets client.url.")
@click.option("--watch", is_flag=True, help="Ask again until there is a decision, or until --deadline.")
@click.option("--deadline", callback=span_seconds, metavar="SPAN", help="With --watch: give up after this time, such as 90m.")
@click.option(
    "--every", type=FiniteFloatRange(0.1, 86_400), default=15.0, show_default=True, help="With --watch: seconds between questions."
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@click.option(
    "--summary",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Add the answer to this file as Markdown, such as $GITHUB_STEP_SUMMARY.",
)
def gate(
    config_path: Path | None,
    settings_given: tuple[str, ...],
    *,
    url: str | None,
    watch: bool,
    deadline: float | None,
    every: float,
    as_json: bool,
    summary: Path | None,
    **asked: Any,
) -> None:
    """Say whether the treatments of EXPERIMENT may get more traffic: pass, fail or wait.

    pass: every deciding measure is certainly not worse than the control by more than experiments.gate_margin (5 %), and the running step of
    the rollout has been seen. Say with --since when it began. fail: a treatment is certainly worse than the control by more than
    experiments.margin (1 %), over the whole run or in the running step. wait: neither is certain yet, or the numbers must not be used: they
    are stale, behind, mixed, invalid, or out of reach, or no more lists come.

    The question goes to the exporter at --url, to FILE as in `report`, or to the state in Redis. Nothing is changed. A login and
    authorities to trust are in the section [client]: give the password as $STREAMMETRICS_CLIENT_PASSWORD.

    Exit codes: 0 pass, 1 fail, 2 wrong usage, 3 wait. Every failure is 3, such as a server that does not answer.

    \b
    Examples:
      streammetrics gate ranker-v7 --url http://exporter:9464
      streammetrics gate ranker-v7 --config streammetrics.toml --watch --deadline 2h
      streammetrics gate ranker-v7 --url http://exporter:9464 --since 5m --watch
      streammetrics gate ranker-v7 report.json --variant treatment --json
    """
    with interrupt_on_signals():
        if deadline is not None and not watch:
            raise click.UsageError("--deadline needs --watch")
        if asked["file"] is not None and asked["since_ms"] is not None:
            raise click.UsageError("--since needs an exporter or the state in Redis; write a report file with replay --since instead")
        if asked["file"] is not None and url is not None:
            raise click.UsageError("give FILE or --url, not both")
        if watch and str(asked["file"]) == "-":
            raise click.UsageError("--watch cannot read standard input again and again; give a file or --url")
        loaded = load_settings(config_path, settings_given, client__url=url)
        watching = Watch(every_seconds=every, deadline_seconds=deadline) if watch else None
        code = run_gate(loaded.settings, GateQuestion(**asked), as_json=as_json, watch=watching, summary=summary)
    raise SystemExit(code)
