"""`streammetrics evaluate RUN QRELS`: scores TREC files and compares two runs.

This module parses the options, reads the files, calls the metric library and turns errors into exit codes. It holds no formula.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from streammetrics.metrics.inputs.item_ids import from_run
from streammetrics.metrics.inputs.judged import Judged
from streammetrics.metrics.inputs.ranking import TIE_RULES
from streammetrics.metrics.inputs.trec import read_qrels, read_tagged_run, read_users
from streammetrics.metrics.inputs.trec_lines import Progress
from streammetrics.metrics.names import ALL_METRIC_NAMES, EVALUATE_NAMES, Metric, MetricError
from streammetrics.metrics.offline.compare import SAMPLES_DEFAULT, check_choices, compare, require_means
from streammetrics.metrics.offline.evaluate import Evaluation, evaluate_requests
from streammetrics.metrics.offline.requests import Request, check_requests
from streammetrics.metrics.offline.text_output import comparison_text, evaluation_text
from streammetrics.metrics.offline.trec_names import asked_for
from streammetrics.metrics.presets import PRESETS, preset
from streammetrics.metrics.spec import Spec

DEFAULT_METRICS: Final = ("ndcg@10", "mrr@10", "recall@100", "map")

DESCRIPTION: Final = """\
Evaluate a TREC run file against relevance judgments, or compare two runs.

RUN has six columns (query Q0 document rank score tag). QRELS has four (query iteration document grade). RUN may also have three, as in \
MS MARCO (query document rank), and QRELS three (query document grade), as in BEIR. Both may be CSV or TSV with a header that names a \
query, a document and a score, rank, grade or rating, as in BEIR, Quepid and OpenSearch's Search Relevance Workbench. Both may be \
gzipped; one of them may be - for standard input. \
Lines that begin with # and further columns of RUN are ignored. Documents are ranked by score. Queries \
that only one file has are left out and counted.
"""

EPILOG: Final = """\
Examples:
  {prog} run.txt qrels.txt
  {prog} run.txt qrels.txt -m ndcg@10 -m map --per-query --format csv
  {prog} run.txt.gz qrels.txt -m official -c -q -M 1000 --format trec
  {prog} baseline.txt qrels.txt --compare candidate.txt -m ndcg@10 --seed 7
  {prog} run.txt qrels.txt --by-user query_users.tsv --format json

If you know trec_eval: the run comes first here. -m, -q, -c, -l, -M and -J mean the same, and --format trec prints its three columns. \
Its names (map_cut.10, P, recip_rank, iprec_at_recall, official, all_trec) have its definitions, those of version 10. Names of this \
program (map@10) have the definitions of --spec, or the defaults; they differ from trec_eval in AP at a cut-off and in the persistence \
of rbp. Scores are compared in double precision, as in version 10; --ties trec_eval_9 uses single precision.

Metrics: {names}.
Exit codes: 0 done, 1 failed, 2 wrong usage.
"""


_OPTIONS: Final = {
    "confidence level": "--confidence",
    "depth": "-M",
    "samples": "--samples",
    "seed": "--seed",
    "spec field relevance_threshold": "--level",
    "ties": "--ties",
}
"""The library's name for a value -> the option that sets it."""

_COMPARISON_OPTIONS: Final = ("unpaired", "confidence", "samples", "seed", "holm")
"""The options that need `--compare`."""


class _LineWrapFormatter(argparse.RawDescriptionHelpFormatter):
    """Wraps the description and the epilog line by line; indented lines (the examples) are not wrapped."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(line if line[:1] == " " else textwrap.fill(line, width, break_on_hyphens=False) for line in text.splitlines())


class _Parser(argparse.ArgumentParser):
    """Reports a usage error in one line, like the other commands, and exits with code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def parser(prog: str) -> argparse.ArgumentParser:
    """The options of the command."""
    epilog = EPILOG.format(prog=prog, names=", ".join((*ALL_METRIC_NAMES, *EVALUATE_NAMES)))
    made = _Parser(prog=prog, description=DESCRIPTION, epilog=epilog, formatter_class=_LineWrapFormatter)
    made.add_argument("run", metavar="RUN", help="run file")
    made.add_argument("qrels", metavar="QRELS", help="relevance judgments")
    made.add_argument(
        "-m", "--metric", action="append", metavar="METRIC", help=f"such as ndcg@10; repeatable [{', '.join(DEFAULT_METRICS)}]"
    )
    made.add_argument("--format", choices=("table", "json", "csv", "trec"), default="table", help="output format [table]")
    made.add_argument("-q", "--per-query", action="store_true", help="also print the values of each query")
    made.add_argument("-c", "--complete", action="store_true", help="count judged queries that RUN lacks as empty lists")
    made.add_argument("-M", "--depth", type=int, metavar="N", help="use the first N documents of each query only")
    made.add_argument("-J", "--judged-only", action="store_true", help="leave documents without a judgment out of the rankings")
    made.add_argument("-l", "--level", type=float, metavar="GRADE", help="lowest relevant grade [1, or that of --spec]")
    made.add_argument("--spec", choices=tuple(PRESETS), metavar="PRESET", help=f"use the definitions of a library: {', '.join(PRESETS)}")
    made.add_argument(
        "--ties",
        choices=TIE_RULES,
        default="trec_eval",
        metavar="RULE",
        help=f"order of equal scores: {', '.join(TIE_RULES)} [trec_eval: greater document id first]",
    )
    made.add_argument("--by-user", metavar="FILE", help="two columns, query and user: cluster standard errors and tests by user")
    made.add_argument("--digits", type=int, default=4, metavar="N", help="digits after the point in table and trec [4]")
    tests = made.add_argument_group("comparing")
    tests.add_argument("--compare", metavar="RUN2", help="print RUN2 minus RUN: interval, paired t test, randomisation test")
    tests.add_argument(
        "--unpaired", choices=("error", "drop"), default="error", help="what to do with queries that only one run has [error]"
    )
    tests.add_argument("--confidence", type=float, default=0.95, metavar="LEVEL", help="confidence level of the interval [0.95]")
    tests.add_argument(
        "--samples", type=int, default=SAMPLES_DEFAULT, metavar="N", help=f"samples of the randomisation test [{SAMPLES_DEFAULT}]"
    )
    tests.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the randomisation test [0]")
    tests.add_argument("--holm", action="store_true", help="adjust p-values for several metrics (Holm)")
    return made


def main(arguments: Sequence[str], prog: str = "streammetrics evaluate") -> int:
    """Run the command and return its exit code: 0 done, 1 failed. Wrong usage raises SystemExit(2).

    arguments: the command line after the program's name. prog: the program's name in messages.
    """
    options = parser(prog)
    given = options.parse_args(arguments)
    try:
        if ignored := _ignored_option(options, given):
            raise MetricError(ignored, "got no --compare; allowed are both or neither")
        with _errors_name_options({}):
            request = _request(given)
    except MetricError as error:
        options.error(str(error))
    if unreadable := list(_unreadable(given)):
        options.exit(2, "\n  ".join([f"{prog}: {len(unreadable)} problem{'s' * (len(unreadable) > 1)}:", *unreadable]) + "\n")
    if sys.stdout is None:
        options.exit(1, f"{prog}: standard output is closed\n")
    try:
        text = _output(given, request)
    except (MetricError, OSError) as error:
        _log(f"{prog}: {error}")
        return 1
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


class _Request(NamedTuple):
    """What the options ask for: metrics with their definitions and labels, the Spec to show, and whether to print the run's tag."""

    metrics: tuple[Request, ...]
    labels: dict[Metric, str]
    spec: Spec
    run_id: bool


def _request(given: argparse.Namespace) -> _Request:
    """Raises MetricError for invalid options."""
    spec = preset(given.spec) if given.spec else None
    asked = [each for text in given.metric or DEFAULT_METRICS for each in asked_for(text, spec)]
    labels: dict[Metric, str] = {}
    metrics: list[Request] = []
    for label, request in asked:
        if request is not None and request not in metrics:  # repeated names are no mistake, as in trec_eval
            labels.setdefault(request.metric, label)
            metrics.append(request)
    if given.level is not None:
        metrics = [Request(request.metric, replace(request.spec, relevance_threshold=given.level)) for request in metrics]
    check_requests(tuple(metrics))
    shown = metrics[0].spec if len({request.spec for request in metrics}) == 1 else spec or Spec()
    if not 0 <= given.digits <= 17:
        raise MetricError("--digits", f"got {given.digits}; allowed are whole numbers 0..17")
    if [given.run, given.qrels, given.compare].count("-") > 1:
        raise MetricError("files", "got - twice; allowed is standard input once")
    if given.compare and (given.per_query or given.format == "trec"):
        raise MetricError("--compare", "got --per-query or --format trec with it; allowed are table, json and csv, without --per-query")
    if given.depth is not None and given.depth < 1:
        raise MetricError("-M", f"got {given.depth}; allowed are whole numbers >= 1")
    if given.ties == "average" and (given.depth is not None or given.judged_only):
        raise MetricError("--ties", "got average with -M or -J, which need one order; allowed are the other rules")
    if given.compare:
        require_means(labels)
    check_choices(given.unpaired, given.confidence, given.samples, given.seed, "none")
    return _Request(tuple(metrics), labels, shown, any(request is None for _, request in asked))


def _ignored_option(options: argparse.ArgumentParser, given: argparse.Namespace) -> str | None:
    """The first option that would have no effect because `--compare` is missing."""
    if given.compare:
        return None
    return next((f"--{name}" for name in _COMPARISON_OPTIONS if getattr(given, name) != options.get_default(name)), None)


def _unreadable(given: argparse.Namespace) -> Iterator[str]:
    """Every file that cannot be read, with the reason. Checked before any file is read, because large files take minutes."""
    named = (("RUN", given.run), ("QRELS", given.qrels), ("--compare", given.compare), ("--by-user", given.by_user))
    for option, name in named:
        if name is not None and (reason := _unreadable_reason(name)):
            yield f"{option} = {name}: {reason}"


def _unreadable_reason(name: str) -> str:
    """Why a file (`-`: standard input) cannot be read, or an empty text. A pipe is not opened: its writer would notice."""
    if name == "-":
        return "standard input is closed" if sys.stdin is None else ""
    path = Path(name)
    try:
        if path.is_dir():
            return "is a folder"
        if path.is_file() or not path.exists():
            path.open("rb").close()
    except FileNotFoundError:
        return "does not exist"
    except PermissionError:
        return "may not be read by this user"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return ""


def _output(given: argparse.Namespace, request: _Request) -> str:
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
    request: _Request,
    progress: Progress | None,
) -> tuple[Evaluation, str]:
    """The evaluation of a run, and its tag."""
    run, tag = read_tagged_run(path, progress)
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
    _log(f"{path}: {lines:,} lines read")


def _log(message: str) -> None:
    if sys.stderr is not None:  # print(file=None) would write to standard output
        print(message, file=sys.stderr)
