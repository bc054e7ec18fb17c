"""`streammetrics evaluate`: its output in each format, its messages and its exit codes."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import pytrec_eval

from streammetrics.cli.commands.evaluate import main
from streammetrics.cli.evaluate_options import parser
from streammetrics.metrics import Spec
from streammetrics.metrics.presets import preset
from streammetrics.offline.evaluation.evaluate import evaluate
from streammetrics.offline.inputs.trec import from_trec

RUN = """\
q1 Q0 d1 1 3.0 first
q1 Q0 d2 2 2.0 first
q1 Q0 d3 3 2.0 first
q2 Q0 d1 1 1.0 first
q3 Q0 d1 1 1.0 first
q4 Q0 d1 1 1.0 first
q4 Q0 d5 1 0.5 first
"""
OTHER = """\
q1 Q0 d3 1 3.0 second
q2 Q0 d1 1 1.0 second
q4 Q0 d5 1 1.0 second
q4 Q0 d1 1 0.5 second
"""
QRELS = """\
q1 0 d3 1
q1 0 d9 2
q2 0 d1 0
q2 0 d2 -1
q4 0 d1 3
q5 0 d1 1
"""


class CommandResult(NamedTuple):
    code: int
    out: str
    err: str


class Folder:
    """A folder with files to evaluate. Calling it runs the command with these files."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path = path
        self._capsys = capsys
        for name, content in (("run", RUN), ("other", OTHER), ("qrels", QRELS), ("users", "q1 ann\nq2 ann\nq4 bob\n")):
            (path / name).write_text(content)

    def __call__(self, *arguments: str) -> CommandResult:
        try:
            code = main(
                [str(self.path / one) if one in ("run", "other", "qrels", "users", "none") else one for one in arguments], "evaluate"
            )
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        return CommandResult(code, *self._capsys.readouterr())


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Folder:
    return Folder(tmp_path, capsys)


def test_a_table_has_one_row_per_metric(command: Folder) -> None:
    result = command("run", "qrels", "-m", "ndcg@10", "-m", "P_1")
    assert result.code == 0
    ndcg = (1 + (1 / math.log2(3)) / (2 + 1 / math.log2(3))) / 3
    assert [line.split()[:2] for line in result.out.splitlines()] == [["metric", "mean"], ["ndcg@10", f"{ndcg:.4f}"], ["P_1", "0.3333"]]
    assert result.out.splitlines()[2].split() == ["P_1", "0.3333", "0.3333", "3"]


def test_queries_in_only_one_file_are_reported(command: Folder) -> None:
    notes = command("run", "qrels").err.splitlines()
    run = command.path / "run"
    assert notes == [
        f"note: {run}: 1 query without judgments left out",
        f"note: {run}: 1 query with judgments not ranked and left out; -c counts them as empty lists",
    ]
    complete = command("run", "qrels", "-c", "--format", "json")
    assert json.loads(complete.out)["lists"] == 4
    assert complete.err.count("\n") == 1


def test_hits_with_the_id_of_their_query_are_noted_and_left_out_on_demand(command: Folder) -> None:
    (command.path / "run").write_text("q1 Q0 q1 1 9 r\nq1 Q0 d1 2 8 r\nq2 Q0 q2 1 9 r\nq2 Q0 d1 2 8 r\nq3 Q0 q3 1 9 r\nq3 Q0 d1 2 8 r\n")
    (command.path / "qrels").write_text("q1 0 d1 1\nq2 0 q2 1\nq3 0 d1 1\nq3 0 q3 0\n")
    words = ("run", "qrels", "-m", "recip_rank", "--format", "csv", "-q")
    counted, left_out = command(*words), command(*words, "--ignore-identical-ids")
    assert "2 queries have a hit with the query's own id, 'q1' for one, which counts as not relevant" in counted.err
    assert counted.out.splitlines()[1:4] == ["q1,0.5", "q2,1.0", "q3,0.5"]
    assert left_out.err == ""
    assert left_out.out.splitlines()[1:4] == ["q1,1.0", "q2,0.0", "q3,1.0"]


def test_json_equals_the_results_of_the_functions(command: Folder) -> None:
    found = json.loads(command("run", "qrels", "-m", "ndcg@10,map", "-q", "--format", "json", "--by-user", "users").out)
    result = evaluate(
        from_trec(command.path / "run", command.path / "qrels", users={"q1": "ann", "q2": "ann", "q4": "bob"}), ["ndcg@10", "map"]
    )
    assert {name: row["mean"] for name, row in found["metrics"].items()} == result.means
    assert {name: row["standard_error"] for name, row in found["metrics"].items()} == result.standard_errors
    assert found["per_query"]["q4"] == {"ndcg@10": 1.0, "map": 1.0}
    assert (found["lists"], found["users"], found["lists_without_relevant"]) == (3, 2, 1)
    assert found["spec_digest"] == Spec().digest()


def test_undefined_numbers_are_null_in_json_and_empty_in_csv(command: Folder) -> None:
    words = ("other", "qrels", "-m", "mrr", "-q", "--spec", "rectools", "-l", "9")
    assert json.loads(command(*words, "--format", "json").out)["metrics"]["mrr"] == {"mean": None, "standard_error": None, "lists": 0}
    assert command(*words, "--format", "csv").out.splitlines()[1:] == ["q1,", "q2,", "q4,", "all,"]
    assert command(*words, "--format", "trec").out == ""
    assert command(*words).out.splitlines()[1].split() == ["q1", "-"]


def test_csv_has_one_row_per_query_with_all_digits(command: Folder) -> None:
    rows = list(csv.DictReader(io.StringIO(command("run", "qrels", "-m", "ndcg@10", "-q", "--format", "csv").out)))
    result = evaluate(from_trec(command.path / "run", command.path / "qrels"), ["ndcg@10"])
    assert [(row["list_id"], float(row["ndcg@10"])) for row in rows] == [
        *zip(result.lists, result.values("ndcg@10"), strict=True),
        ("all", result.means["ndcg@10"]),
    ]


def test_trec_format_is_that_of_trec_eval(command: Folder) -> None:
    result = command("run", "qrels", "-m", "P.1,5", "-m", "recip_rank", "-q", "--format", "trec", "--spec", "trec_eval")
    lines = [
        "P_1                   \tq1\t0.0000",
        "P_5                   \tq1\t0.2000",
        "recip_rank            \tq1\t0.5000",
        "P_1                   \tq2\t0.0000",
        "P_5                   \tq2\t0.0000",
        "recip_rank            \tq2\t0.0000",
        "P_1                   \tq4\t1.0000",
        "P_5                   \tq4\t0.2000",
        "recip_rank            \tq4\t1.0000",
        "P_1                   \tall\t0.3333",
        "P_5                   \tall\t0.1333",
        "recip_rank            \tall\t0.5000",
    ]
    assert result.out.splitlines() == lines
    only_means = command("run", "qrels", "-m", "P.1,5", "-m", "recip_rank", "--format", "trec", "--digits", "2").out
    assert only_means.splitlines()[-1] == "recip_rank            \tall\t  0.50"


def test_official_measures_have_the_form_of_trec_eval(command: Folder) -> None:
    lines = command("run", "qrels", "-m", "official", "--format", "trec").out.splitlines()
    assert lines[:12] == [
        "runid                 \tall\tfirst",
        "num_q                 \tall\t3",
        "num_ret               \tall\t6",
        "num_rel               \tall\t3",
        "num_rel_ret           \tall\t2",
        "map                   \tall\t0.4167",
        "gm_map                \tall\t0.0136",
        "Rprec                 \tall\t0.5000",
        "bpref                 \tall\t0.5000",
        "recip_rank            \tall\t0.5000",
        "iprec_at_recall_0.00  \tall\t0.5000",
        "iprec_at_recall_0.10  \tall\t0.5000",
    ]
    assert [line.split()[0] for line in lines[21:]] == [f"P_{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)]
    each = command("run", "qrels", "-m", "official", "-q", "--format", "trec").out.splitlines()
    assert "num_ret               \tq4\t2" in each
    assert not [line for line in each if line.split()[0] in ("runid", "num_q", "gm_map") and line.split()[1] != "all"]


def test_the_measures_of_trec_eval_have_its_values(command: Folder) -> None:
    """trec_eval's own code, by way of pytrec_eval, prints these numbers. It is version 9, with another rule for recall levels."""
    with (command.path / "run").open() as run, (command.path / "qrels").open() as truth:
        asked = pytrec_eval.RelevanceEvaluator(pytrec_eval.parse_qrel(truth), {"all_trec"})
        theirs = asked.evaluate(pytrec_eval.parse_run(run))
    printed = command("run", "qrels", "-m", "all_trec", "-q", "--format", "trec").out.splitlines()
    cells = [line.split() for line in printed if line.split()[1] != "all"]
    by_level = [name for name in theirs["q1"] if name.startswith("iprec_at_recall_")] + ["11pt_avg"]
    known = [(name, query, value) for name, query, value in cells if name in theirs[query] and name not in by_level]
    assert len(known) >= 50 * len(theirs)
    assert [f"{theirs[query][name]:.4f}" for name, query, _ in known] == [f"{float(value):.4f}" for *_, value in known]
    assert {name for name, *_ in cells} - set(theirs["q1"]) == {"rbp", "unj_5", "unj_10", "unj_20"}  # new in version 10


def test_a_name_of_trec_eval_has_its_meaning(command: Folder) -> None:
    words = ("run", "qrels", "-m", "map_cut.1", "-m", "map@2", "-m", "rbp.p=0.5", "--format", "json")
    found = json.loads(command(*words).out)
    judged = from_trec(command.path / "run", command.path / "qrels")
    assert found["metrics"]["map_cut_1"]["mean"] == evaluate(judged, ["map@1"], preset("trec_eval")).means["map@1"]
    assert found["metrics"]["map@2"]["mean"] == evaluate(judged, ["map@2"]).means["map@2"]
    assert found["metrics"]["rbp.p=0.5"]["mean"] == evaluate(judged, ["rbp"], Spec(rbp_persistence=0.5)).means["rbp"]
    assert found["spec_digest"] == Spec().digest()
    assert found["metrics"]["map_cut_1"]["spec_digest"] == preset("trec_eval").digest()
    assert "spec_digest" not in found["metrics"]["map@2"]
    assert evaluate(judged, ["map_cut_1"]).means == evaluate(judged, ["map@1"], preset("trec_eval")).means


def test_depth_and_judged_only_are_those_of_trec_eval(command: Folder) -> None:
    words = ("run", "qrels", "-m", "num_ret", "-m", "map", "--format", "json")
    for options, arguments in ((("-M", "1"), {"depth": 1}), (("-J",), {"judged_only": True})):
        judged = from_trec(command.path / "run", command.path / "qrels", **arguments)
        found = json.loads(command(*words, *options).out)["metrics"]
        assert {name: row["mean"] for name, row in found.items()} == evaluate(judged, ["num_ret", "map"]).means


def test_a_preset_and_a_level_change_the_numbers(command: Folder) -> None:
    words = ("run", "qrels", "-m", "map@1", "-m", "recall@1", "--format", "json")
    judged = from_trec(command.path / "run", command.path / "qrels")
    assert json.loads(command(*words, "--spec", "trec_eval").out)["spec_digest"] == preset("trec_eval").digest()
    for level, spec in (((), Spec()), (("-l", "2"), Spec(relevance_threshold=2))):
        found = json.loads(command(*words, *level).out)["metrics"]
        assert {name: row["mean"] for name, row in found.items()} == evaluate(judged, ["map@1", "recall@1"], spec).means


def test_a_comparison_shows_both_runs_and_p_values(command: Folder) -> None:
    result = command("run", "qrels", "--compare", "other", "-m", "recip_rank", "--unpaired", "drop", "--format", "json")
    found = json.loads(result.out)
    row = found["comparison"]["metrics"]["recip_rank"]
    assert (found["a"]["metrics"]["recip_rank"]["mean"], found["b"]["metrics"]["recip_rank"]["mean"]) == (row["mean_a"], row["mean_b"])
    assert row["difference"] == pytest.approx((0.5 - 0.5) / 3, abs=1e-12)
    assert (row["lists"], row["randomisation_p_value"], row["exact"]) == (3, 1.0, True)
    for level, shown in (("0.999", "99.9%"), ("0.99999999999", "99.999999999%"), ("0.5", "50%"), ("0.07", "7%")):
        table = command("run", "qrels", "--compare", "other", "-m", "recip_rank", "--unpaired", "drop", "--confidence", level).out
        assert re.sub(" +", " ", table.splitlines()[0]) == f"metric a b b - a {shown} interval t test p randomised p lists users"
    rows = command("run", "qrels", "--compare", "other", "-m", "recip_rank", "--format", "csv", "--holm").out.splitlines()
    assert rows[0].startswith("metric,lists,clusters,mean_a,mean_b,difference,")
    assert rows[1].startswith("recip_rank,3,3,")


def test_statistics_that_need_more_than_one_query_are_shown_as_a_dash(command: Folder) -> None:
    (command.path / "other").write_text(OTHER.splitlines(keepends=True)[0])
    words = ("run", "qrels", "--compare", "other", "-m", "mrr", "--unpaired", "drop")
    assert command(*words).out.splitlines()[1].split() == ["mrr", "0.5000", "1.0000", "+0.5000", "-", "-", "1", "1", "1"]
    assert command(*words, "--spec", "rectools", "-l", "9").out.splitlines()[1].split() == ["mrr", *"------", "0", "0"]


def test_unpaired_queries_are_an_error_or_are_dropped_with_a_note(command: Folder) -> None:
    (command.path / "other").write_text(OTHER.replace("q2", "q5"))
    result = command("run", "qrels", "--compare", "other")
    assert result.code == 1
    run, other = command.path / "run", command.path / "other"
    refused = f"evaluate: {run}: got 1 query that {other} lacks, 'q2' for one; allowed are runs of the same queries, or --unpaired drop"
    assert result.err.splitlines()[-1] == refused
    result = command("run", "qrels", "--compare", "other", "--unpaired", "drop")
    assert result.code == 0
    assert result.err.count("1 query that the other run lacks left out of the comparison") == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("qrels", "run"), "run, line 1: got 6 columns; allowed are 4"),
        (("run", "qrels", "--by-user", "run"), "run, line 1: got 6 columns; allowed are 2: query user"),
        (("run", "qrels", "--ties", "error"), "run: score: got 2 for item 'd2' of list 'q1' and for item 'd3' of list 'q1'"),
        (("run", "qrels", "--ties", "average", "-m", "map"), "evaluate: --ties: got 'average' for map"),
    ],
)
def test_files_that_cannot_be_evaluated_exit_with_1(command: Folder, words: tuple[str, ...], message: str) -> None:
    result = command(*words)
    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines()[-1].startswith("evaluate: ")
    assert message in result.err.splitlines()[-1]


def test_all_unreadable_files_are_named_and_exit_with_2(command: Folder) -> None:
    none, folder = command.path / "none", command.path / "folder"
    folder.mkdir()
    result = command("none", "qrels")
    assert result == (2, "", f"evaluate: 1 problem:\n  RUN = {none}: does not exist\n")
    result = command("none", str(folder), "--compare", "none", "--by-user", "none")
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines() == [
        "evaluate: 4 problems:",
        f"  RUN = {none}: does not exist",
        f"  QRELS = {folder}: is a folder",
        f"  --compare = {none}: does not exist",
        f"  --by-user = {none}: does not exist",
    ]


def test_queries_without_a_user_are_an_error_that_names_the_file(command: Folder) -> None:
    users = command.path / "users"
    users.write_text("q1 ann\nq3 bob\n")
    result = command("run", "qrels", "--by-user", "users")
    assert result.code == 1
    expected = f"evaluate: {users}: got no user for 2 queries, 'q2' for one; allowed is a user for every query"
    assert result.err.splitlines()[-1] == expected
    assert f"{users}: got no user for 3 queries" in command("run", "qrels", "--by-user", "users", "-c").err


def test_grades_that_are_too_large_are_an_error_that_names_the_file(command: Folder) -> None:
    qrels = command.path / "qrels"
    qrels.write_text(QRELS.replace("d1 3", "d1 1e15"))
    result = command("run", "qrels")
    assert result.code == 1
    assert result.err.splitlines()[-1].startswith(f"evaluate: {qrels}: grade: got 1e+15 in list 'q4'; allowed for these metrics are 0..")


def test_files_without_a_common_query_are_an_error(command: Folder) -> None:
    (command.path / "qrels").write_text("q77 0 d1 1\n")
    result = command("run", "qrels")
    assert result.code == 1
    assert result.err.startswith(
        f"evaluate: {command.path / 'run'}: list ids: got 'q1' (str) in the ranking and 'q77' (str) in the judgments"
    )


def test_documents_that_are_written_differently_are_an_error(command: Folder) -> None:
    (command.path / "run").write_text("q1 Q0 doc_7 1 3 r\nq1 Q0 doc_8 2 2 r\n")
    (command.path / "qrels").write_text("q1 0 8 1\n")
    result = command("run", "qrels")
    assert (result.code, result.out) == (1, "")
    assert "item ids: got 'doc_8' (str) in the ranking and '8' (str) in the judgments; allowed are ids of one form" in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run",), "the following arguments are required: QRELS"),
        (("run", "qrels", "-m", "ndgc@10"), "metric name: got 'ndgc', perhaps for 'ndcg'; allowed are ndcg"),
        (("run", "qrels", "-m", "ndcg@10,"), "metric: got ''"),
        (("run", "qrels", "--spec", "lucene"), "invalid choice: 'lucene'"),
        (("run", "qrels", "--format", "xml"), "invalid choice: 'xml'"),
        (("run", "qrels", "-l", "0"), "evaluate: --level: got 0.0; allowed are finite numbers > 0"),
        (("run", "qrels", "--digits", "99"), "--digits: got 99"),
        (("-", "-"), "files: got - twice"),
        (("run", "qrels", "-M", "0"), "-M: got 0; allowed are whole numbers >= 1"),
        (("run", "qrels", "-J", "--ties", "average"), "--ties: got average with -M or -J, which need one order"),
        (("run", "qrels", "-m", "map_cut.5", "--spec", "lenskit"), "got map_cut_5, a name of trec_eval, with ap_denominator 'min(R,n,k)'"),
        (("run", "qrels", "-m", "map_cut.5", "-m", "map@5"), "metrics: got map@5 twice with two values of ap_denominator"),
        (("run", "qrels", "-m", "ndcg.1=3"), "got ndcg.1=3; allowed are cut-offs, as in ndcg_cut.5,10"),
        (("run", "qrels", "-m", "infAP"), "got infAP, a measure of trec_eval that is not offered; allowed are official, set, all_trec"),
        (("run", "qrels", "--compare", "other", "-m", "num_ret"), "metrics: got num_ret, which is no mean over lists"),
        (("run", "qrels", "--compare", "other", "-q"), "--compare: got --per-query or --format trec with it"),
        (("run", "qrels", "--compare", "other", "--confidence", "95"), "evaluate: --confidence: got 95.0; allowed are 0 < level < 1"),
        (("run", "qrels", "--compare", "other", "--samples", "0"), "evaluate: --samples: got 0"),
        (("run", "qrels", "--compare", "other", "--seed", "-1"), "evaluate: --seed: got -1"),
        (("run", "qrels", "--holm"), "evaluate: --holm: got no --compare; allowed are both or neither"),
        (("run", "qrels", "--samples", "99"), "evaluate: --samples: got no --compare"),
        (("run", "qrels", "--wrong"), "unrecognized arguments: --wrong"),
    ],
)
def test_invalid_options_exit_with_2_before_any_file_is_read(command: Folder, words: tuple[str, ...], message: str) -> None:
    result = command(*words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert result.err.startswith("evaluate: ")
    assert result.err.endswith("; see evaluate --help\n")


def test_help_gives_examples_that_parse(command: Folder) -> None:
    result = command("--help")
    assert result.code == 0
    examples = [line.split()[1:] for line in result.out.splitlines() if line.startswith("  evaluate ")]
    assert len(examples) == 5
    for words in examples:
        assert parser("evaluate").parse_args(words).run.startswith(("run", "baseline"))


@pytest.mark.parametrize("width", [60, 80])
def test_help_fits_the_terminal_except_for_the_examples(width: int, command: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    result = command("--help").out.splitlines()
    assert [line for line in result if len(line) > width and not line.startswith("  evaluate ")] == []
    assert "Exit codes: 0 done, 1 failed, 2 wrong usage." in result


def test_the_run_can_come_from_standard_input(command: Folder) -> None:
    words = [sys.executable, "-m", "streammetrics", "evaluate", "-", str(command.path / "qrels"), "-m", "P_1", "--format", "trec"]
    result = subprocess.run(words, input=RUN, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "P_1                   \tall\t0.3333\n")
