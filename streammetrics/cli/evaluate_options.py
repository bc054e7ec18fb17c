"""The options of `streammetrics evaluate`: their help, what they ask for, and what is wrong with them. Opens each file only to check it."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from streammetrics.metrics.names import ALL_METRIC_NAMES, EVALUATE_NAMES, Metric, MetricError
from streammetrics.metrics.presets import PRESETS, preset
from streammetrics.metrics.spec import Spec
from streammetrics.offline.evaluation.compare import SAMPLES_DEFAULT, check_choices, require_means
from streammetrics.offline.evaluation.requests import Request, check_requests
from streammetrics.offline.evaluation.trec_names import asked_for
from streammetrics.offline.inputs.ranking import TIE_RULES

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
program (map@10) have the definitions of --spec, or the defaults; they differ from trec_eval in AP at a cut-off, in the persistence \
of rbp, and in recall levels: iprec_at_recall rounds them to whole documents, iprec@0.1 does not. Scores are compared in double \
precision, as in version 10; --ties trec_eval_9 uses single precision.

Metrics: {names}.
Exit codes: 0 done, 1 failed, 2 wrong usage.
"""

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
    made.add_argument(
        "--ignore-identical-ids", action="store_true", help="leave hits out whose document id is the id of their query, as BEIR does"
    )
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


class EvaluateRequest(NamedTuple):
    """What the options ask for: metrics with their definitions and labels, the Spec to show, and whether to print the run's tag."""

    metrics: tuple[Request, ...]
    labels: dict[Metric, str]
    spec: Spec
    run_id: bool


def request_of(given: argparse.Namespace) -> EvaluateRequest:
    """Return what valid options ask for. Raises MetricError for invalid ones."""
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
    return EvaluateRequest(tuple(metrics), labels, shown, any(request is None for _, request in asked))


def ignored_option(options: argparse.ArgumentParser, given: argparse.Namespace) -> str | None:
    """The first option that would have no effect because `--compare` is missing."""
    if given.compare:
        return None
    return next((f"--{name}" for name in _COMPARISON_OPTIONS if getattr(given, name) != options.get_default(name)), None)


def unreadable_files(given: argparse.Namespace) -> Iterator[str]:
    """Every file that cannot be read, with the reason. Checked before any file is read, because large files take minutes."""
    named = (("RUN", given.run), ("QRELS", given.qrels), ("--compare", given.compare), ("--by-user", given.by_user))
    for option, name in named:
        if name is not None and (reason := _reason(name)):
            yield f"{option} = {name}: {reason}"


def _reason(name: str) -> str:
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
