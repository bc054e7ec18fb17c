"""`python -m streammetrics.metrics RUN QRELS`: words to calls, errors to exit codes (0 done, 1 failed, 2 wrong usage). No formula.

`main` is what the command `streammetrics evaluate` calls too, with its words as they are, so that options are written once.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

from streammetrics.metrics.inputs.judged import Judged, from_run
from streammetrics.metrics.inputs.ranking import TIE_RULES
from streammetrics.metrics.inputs.trec import Progress, read_qrels, read_run, read_users
from streammetrics.metrics.names import ALL_METRIC_NAMES, Metric, MetricError, parse_metric
from streammetrics.metrics.offline.compare import SAMPLES_DEFAULT, check_choices, compare
from streammetrics.metrics.offline.evaluate import Evaluation, evaluate
from streammetrics.metrics.offline.show import comparison_text, evaluation_text
from streammetrics.metrics.presets import PRESETS, preset
from streammetrics.metrics.spec import Spec

DEFAULT_METRICS: Final = ("ndcg@10", "mrr@10", "recall@100", "map")

DESCRIPTION: Final = """\
Evaluate a TREC run file against relevance judgments, or compare two runs.

RUN has six columns (query Q0 document rank score tag), QRELS four (query iteration document grade); both may be gzipped, and one of \
them may be - for standard input. Documents are ranked by score; queries that are in one of the files only are left out and counted.
"""

EPILOG: Final = """\
Examples:
  {prog} run.txt qrels.txt
  {prog} run.txt qrels.txt -m ndcg@10 -m map --per-query --format csv
  {prog} run.txt.gz qrels.txt -m ndcg_cut.5,10 -m P_10 -c -q --spec trec_eval --format trec
  {prog} baseline.txt qrels.txt --compare candidate.txt -m ndcg@10 --seed 7
  {prog} run.txt qrels.txt --by-user query_users.tsv --format json

Coming from trec_eval: the run comes first here. -m, -q, -c and -l mean the same; names such as ndcg_cut_10, P_10, recip_rank and \
Rprec are understood; --format trec prints its three columns. Where definitions differ (AP at a cut-off), --spec trec_eval gives its \
numbers; ties and negative grades are treated as trec_eval does in any case.

Metrics: {names}.
Exit codes: 0 done, 1 failed, 2 wrong usage.
"""


_OPTIONS: Final = {
    "confidence level": "--confidence",
    "samples": "--samples",
    "seed": "--seed",
    "spec field relevance_threshold": "--level",
    "ties": "--ties",
}
"""What the library calls something, and which option sets it."""

_OF_COMPARISONS: Final = ("unpaired", "confidence", "samples", "seed", "holm")
"""The options that say how two runs are compared."""


class _Wrapped(argparse.RawDescriptionHelpFormatter):
    """Wraps what is said before and after the options line by line, so that examples stay lines of their own."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(line if line[:1] == " " else textwrap.fill(line, width, break_on_hyphens=False) for line in text.splitlines())


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as the other commands do; exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def parser(prog: str) -> argparse.ArgumentParser:
    """All words of the command."""
    epilog = EPILOG.format(prog=prog, names=", ".join(ALL_METRIC_NAMES))
    words = _Parser(prog=prog, description=DESCRIPTION, epilog=epilog, formatter_class=_Wrapped)
    words.add_argument("run", metavar="RUN", help="run file")
    words.add_argument("qrels", metavar="QRELS", help="relevance judgments")
    words.add_argument(
        "-m", "--metric", action="append", metavar="METRIC", help=f"such as ndcg@10; once for each [{', '.join(DEFAULT_METRICS)}]"
    )
    words.add_argument("--format", choices=("table", "json", "csv", "trec"), default="table", help="how to print [table]")
    words.add_argument("-q", "--per-query", action="store_true", help="print the values of each query too")
    words.add_argument("-c", "--complete", action="store_true", help="count judged queries that RUN lacks as empty lists")
    words.add_argument("-l", "--level", type=float, metavar="GRADE", help="least grade that is relevant [of the spec: 1]")
    words.add_argument("--spec", choices=tuple(PRESETS), metavar="PRESET", help=f"definitions of a library: {', '.join(PRESETS)}")
    words.add_argument(
        "--ties", choices=TIE_RULES, default="trec_eval", help="what equal scores mean [trec_eval: greater document id first]"
    )
    words.add_argument("--by-user", metavar="FILE", help="two columns, query and user: standard errors and tests by user")
    words.add_argument("--digits", type=int, default=4, metavar="N", help="digits after the point in table and trec [4]")
    tests = words.add_argument_group("comparing")
    tests.add_argument("--compare", metavar="RUN2", help="print RUN2 less RUN: interval, paired t test, randomisation test")
    tests.add_argument("--unpaired", choices=("error", "drop"), default="error", help="queries that only one run has [error]")
    tests.add_argument("--confidence", type=float, default=0.95, metavar="LEVEL", help="of the interval [0.95]")
    tests.add_argument("--samples", type=int, default=SAMPLES_DEFAULT, metavar="N", help=f"of the randomisation test [{SAMPLES_DEFAULT}]")
    tests.add_argument("--seed", type=int, default=0, metavar="N", help="of the randomisation test [0]")
    tests.add_argument("--holm", action="store_true", help="p-values for several metrics at once (Holm)")
    return words


def main(words: Sequence[str] | None = None, prog: str = "python -m streammetrics.metrics") -> int:
    """Run the command; returns its exit code. words: without the program's name, by default those of this process."""
    asked = parser(prog)
    given = asked.parse_args(words)
    try:
        if alone := _without_effect(asked, given):
            raise MetricError(alone, "got no --compare beside it; allowed are both or neither")
        with _in_words_of_the_command({}):
            labels, spec = _request(given)
    except MetricError as error:
        asked.error(str(error))
    if unreadable := list(_unreadable(given)):
        asked.exit(2, "\n  ".join([f"{prog}: {len(unreadable)} problem{'s' * (len(unreadable) > 1)}:", *unreadable]) + "\n")
    if sys.stdout is None:
        asked.exit(1, f"{prog}: standard output is closed\n")
    try:
        text = _answer(given, labels, spec)
    except (MetricError, OSError) as error:
        _tell(f"{prog}: {error}")
        return 1
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # else whoever read our output has enough
            _tell(f"{prog}: standard output: {error.strerror}")
        with suppress(OSError):
            sys.stdout.close()  # else the interpreter would try to write the rest when it ends
        return 1
    return 0


def _request(given: argparse.Namespace) -> tuple[dict[Metric, str], Spec]:
    """What to compute, each metric with the name it was asked for by. Raises MetricError for what is wrong with the words alone."""
    names = [name for word in given.metric or DEFAULT_METRICS for name in _names(word)]
    labels: dict[Metric, str] = {}
    for name in names:
        labels.setdefault(parse_metric(name), name)
    spec = preset(given.spec) if given.spec else Spec()
    if given.level is not None:
        spec = replace(spec, relevance_threshold=given.level)
    if not 0 <= given.digits <= 17:
        raise MetricError("--digits", f"got {given.digits}; allowed are whole numbers 0..17")
    if [given.run, given.qrels, given.compare].count("-") > 1:
        raise MetricError("files", "got - twice; allowed is standard input once")
    if given.compare and (given.per_query or given.format == "trec"):
        raise MetricError("--compare", "got --per-query or --format trec beside it; allowed are table, json and csv, without --per-query")
    check_choices(given.unpaired, given.confidence, given.samples, given.seed, "none")
    return labels, spec


def _without_effect(asked: argparse.ArgumentParser, given: argparse.Namespace) -> str | None:
    """An option that says how to compare where nothing is compared: whoever sets it believes that something is."""
    if given.compare:
        return None
    return next((f"--{name}" for name in _OF_COMPARISONS if getattr(given, name) != asked.get_default(name)), None)


def _unreadable(given: argparse.Namespace) -> Iterator[str]:
    """Every file that cannot be read and why, before one is: to read some millions of lines takes its time."""
    named = (("RUN", given.run), ("QRELS", given.qrels), ("--compare", given.compare), ("--by-user", given.by_user))
    for word, name in named:
        if name is not None and (reason := _why_not(name)):
            yield f"{word} = {name}: {reason}"


def _why_not(name: str) -> str:
    """Why a file (`-`: standard input) cannot be read; empty if it can, or is a pipe, whose writer would notice."""
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


def _names(word: str) -> list[str]:
    """The metrics of a word: `ndcg@10,map` and trec_eval's `ndcg_cut.5,10` hold several."""
    cut = re.fullmatch(r"(\w+)\.([0-9]+(?:,[0-9]+)*)", word, re.ASCII)
    return [f"{cut[1]}_{k}" for k in cut[2].split(",")] if cut else word.split(",")


def _answer(given: argparse.Namespace, labels: dict[Metric, str], spec: Spec) -> str:
    progress = _progress if sys.stderr is not None and sys.stderr.isatty() else None
    qrels = read_qrels(given.qrels, progress)
    users = read_users(given.by_user) if given.by_user else None
    sides = [_evaluated(path, qrels, users, given, labels, spec, progress) for path in (given.run, given.compare) if path]
    if not given.compare:
        return evaluation_text(sides[0], given.format, labels=labels, per_query=given.per_query, digits=given.digits)
    a, b = sides
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
            _tell(f"note: {path}: {_counted(len(only))} that the other run lacks left out of the comparison")
    return comparison_text(a, b, comparison, given.format, labels=labels, digits=given.digits)


def _evaluated(
    path: str,
    qrels: Any,
    users: dict[str, str] | None,
    given: argparse.Namespace,
    labels: Iterable[Metric],
    spec: Spec,
    progress: Progress | None,
) -> Evaluation:
    run = read_run(path, progress)
    files = {"grade": given.qrels, "score": path}
    with _in_words_of_the_command(files):
        judged = from_run(run, qrels, ties=given.ties, complete=given.complete, negative="zero")
    _tell_left_out(path, judged)
    if not len(judged):
        raise MetricError(path, f"got no query that {given.qrels} judges; allowed are files about the same queries")
    if users is not None:
        judged = replace(judged, users=_users_of(judged, users, given.by_user))
    with _in_words_of_the_command(files):
        evaluation = evaluate(judged, labels, spec)
    return evaluation


def _users_of(judged: Judged, users: dict[str, str], path: str) -> tuple[str, ...]:
    lacking = [str(query) for query in judged.lists if query not in users]
    if lacking:
        raise MetricError(path, f"got no user for {_counted(len(lacking))}, {lacking[0]!r} for one; allowed is a user for every query")
    return tuple(users[str(query)] for query in judged.lists)


@contextmanager
def _in_words_of_the_command(files: Mapping[str, str]) -> Iterator[None]:
    """Lets the library's errors speak of options and files, not of arguments. files: where what it speaks of came from."""
    try:
        yield
    except MetricError as error:
        if error.subject in files:
            raise MetricError(files[error.subject], str(error)) from None
        raise MetricError(_OPTIONS.get(error.subject, error.subject), error.rule) from None


def _tell_left_out(path: str, judged: Judged) -> None:
    if judged.only_ranked:
        _tell(f"note: {path}: {_counted(len(judged.only_ranked))} without judgments left out")
    if judged.only_judged:
        _tell(f"note: {path}: {_counted(len(judged.only_judged))} with judgments not ranked and left out; -c counts them as empty lists")


def _counted(queries: int) -> str:
    return f"{queries} {'query' if queries == 1 else 'queries'}"


def _progress(path: str, lines: int) -> None:
    _tell(f"{path}: {lines:,} lines read")


def _tell(message: str) -> None:
    if sys.stderr is not None:  # without it, print would take standard output
        print(message, file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main())
