"""`streammetrics evaluate RUN QRELS`: scores TREC files and compares two runs.

This module reads the files, calls the metric library and turns errors into exit codes. It holds no formula.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

import click

from streammetrics.cli.evaluate_options import EvaluateRequest, ignored_option, parser, request_of, unreadable_files
from streammetrics.metrics.names import MetricError
from streammetrics.offline.evaluation.compare import compare
from streammetrics.offline.evaluation.evaluate import Evaluation, evaluate_requests
from streammetrics.offline.evaluation.text_output import comparison_text, evaluation_text
from streammetrics.offline.inputs.item_ids import from_run
from streammetrics.offline.inputs.judged import Judged
from streammetrics.offline.inputs.trec import TrecTable, read_qrels, read_tagged_run, read_users
from streammetrics.offline.inputs.trec_lines import Progress
from streammetrics.reports.text import counted

_OPTIONS: Final = {
    "confidence level": "--confidence",
    "depth": "-M",
    "samples": "--samples",
    "seed": "--seed",
    "spec field relevance_threshold": "--level",
    "ties": "--ties",
}
"""The library's name for a value -> the option that sets it."""


def main(arguments: Sequence[str], prog: str = "streammetrics evaluate") -> int:
    """Run the command and return its exit code: 0 done, 1 failed. Wrong usage raises SystemExit(2).

    arguments: the command line after the program's name. prog: the program's name in messages.
    """
    options = parser(prog)
    given = options.parse_args(arguments)
    try:
        if ignored := ignored_option(options, given):
            raise MetricError(ignored, "got no --compare; allowed are both or neither")
        with _errors_name_options({}):
            request = request_of(given)
    except MetricError as error:
        options.error(str(error))
    if unreadable := list(unreadable_files(given)):
        options.exit(2, "\n  ".join([f"{prog}: {len(unreadable)} problem{'s' * (len(unreadable) > 1)}:", *unreadable]) + "\n")
    if sys.stdout is None:
        options.exit(1, f"{prog}: standard output is closed\n")
    try:
        text = _output(given, request)
    except (MetricError, OSError) as error:
        _log(f"{prog}: {error}")
        return 1
    return _print(text, prog)


def _print(text: str, prog: str) -> int:
    """Write the result to standard output, and return the exit code."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # the reader closed the pipe on purpose, as `head` does
            _log(f"{prog}: standard output: {error.strerror}")
        with suppress(OSError):
            sys.stdout.close()  # otherwise the interpreter tries to flush it again at exit
        return 1
    return 0


def _output(given: argparse.Namespace, request: EvaluateRequest) -> str:
    """Read the files, evaluate or compare, and format the result."""
    progress = _progress if sys.stderr is not None and sys.stderr.isatty() else None
    qrels = read_qrels(given.qrels, progress)
    users = read_users(given.by_user) if given.by_user else None
    labels = request.labels
    sides = [_evaluated(path, qrels, users, given, request, progress) for path in (given.run, given.compare) if path]
    if not given.compare:
        (evaluation, tag), *_ = sides
        run_id = tag if request.run_id else None
        return evaluation_text(evaluation, given.format, labels=labels, per_query=given.per_query, digits=given.digits, run_id=run_id)
    (a, _), (b, _) = sides
    comparison = compare(
        a,
        b,
        unpaired="drop",
        level=given.confidence,
        samples=given.samples,
        seed=given.seed,
        correction="holm" if given.holm else "none",
    )
    for path, other, only in ((given.run, given.compare, comparison.only_a), (given.compare, given.run, comparison.only_b)):
        if only and given.unpaired == "error":
            found = f"{_counted(len(only))} that {other} lacks, {only[0]!r} for one"
            raise MetricError(path, f"got {found}; allowed are runs of the same queries, or --unpaired drop")
        if only:
            _log(f"note: {path}: {_counted(len(only))} that the other run lacks left out of the comparison")
    return comparison_text(a, b, comparison, given.format, labels=labels, digits=given.digits)


def _evaluated(
    path: str,
    qrels: Any,
    users: dict[str, str] | None,
    given: argparse.Namespace,
    request: EvaluateRequest,
    progress: Progress | None,
) -> tuple[Evaluation, str]:
    """The evaluation of a run, and its tag."""
    run, tag = read_tagged_run(path, progress)
    run = _own_ids_settled(path, run, qrels, ignore=given.ignore_identical_ids)
    files = {"grade": given.qrels, "score": path, "list ids": path, "item ids": path}
    with _errors_name_options(files):
        judged = from_run(
            run, qrels, ties=given.ties, complete=given.complete, negative="zero", depth=given.depth, judged_only=given.judged_only
        )
    _log_left_out(path, judged)
    if users is not None:
        judged = replace(judged, users=_users_of(judged, users, given.by_user))
    with _errors_name_options(files):
        return evaluate_requests(judged, request.metrics, request.spec), tag


def _own_ids_settled(path: str, run: TrecTable, qrels: TrecTable, *, ignore: bool) -> TrecTable:
    """The run without the hits whose id is that of their query if `ignore`; otherwise the run, with a note if they count as misses."""
    if ignore:
        return {query: {item: score for item, score in hits.items() if item != query} for query, hits in run.items()}
    missed = [query for query, hits in run.items() if query in qrels and query in hits and qrels[query].get(query, 0) <= 0]
    if missed:
        own = f"{_counted(len(missed))} {'has' if len(missed) == 1 else 'have'} a hit with the query's own id, {missed[0]!r} for one"
        _log(f"note: {path}: {own}, which counts as not relevant; --ignore-identical-ids leaves such hits out, as BEIR does")
    return run


def _users_of(judged: Judged, users: dict[str, str], path: str) -> tuple[str, ...]:
    without_user = [str(query) for query in judged.lists if query not in users]
    if without_user:
        raise MetricError(
            path, f"got no user for {_counted(len(without_user))}, {without_user[0]!r} for one; allowed is a user for every query"
        )
    return tuple(users[str(query)] for query in judged.lists)


@contextmanager
def _errors_name_options(files: Mapping[str, str]) -> Iterator[None]:
    """Make the library's errors name options and files instead of arguments. files: argument name -> path."""
    try:
        yield
    except MetricError as error:
        if error.subject in files:
            raise MetricError(files[error.subject], str(error)) from None
        raise MetricError(_OPTIONS.get(error.subject, error.subject), error.rule) from None


def _log_left_out(path: str, judged: Judged) -> None:
    if judged.only_ranked:
        _log(f"note: {path}: {_counted(len(judged.only_ranked))} without judgments left out")
    if judged.only_judged:
        _log(f"note: {path}: {_counted(len(judged.only_judged))} with judgments not ranked and left out; -c counts them as empty lists")


def _counted(queries: int) -> str:
    return f"{queries} {'query' if queries == 1 else 'queries'}"


def _progress(path: str, lines: int) -> None:
    _log(f"{path}: {counted(lines, 'line')} read")


def _log(message: str) -> None:
    if sys.stderr is not None:  # print(file=None) would write to standard output
        print(message, file=sys.stderr)


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def evaluate(arguments: tuple[str, ...]) -> None:
    """Score a TREC run file against relevance judgments, or compare two runs, with the same metrics as the stream."""
    raise SystemExit(main(arguments))  # it parses its own options, so that it works like trec_eval
