"""TREC files are read as by trec_eval, and errors name the file and the line."""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.metrics import MetricError
from streammetrics.metrics.inputs import trec
from streammetrics.metrics.inputs.judged import from_run
from streammetrics.metrics.inputs.trec import TrecError, from_trec, read_qrels, read_run, read_tagged_run, read_users
from tests.support.judged_facts import facts

RUN = "q1 Q0 d1 1 2.5 tag\nq2\tQ0\td1\t1\t-1e-3\ttag\n\nq1 Q0 d2 2 inf tag\r\n"
QRELS = "q1 0 d2 2\nq1 0 d9 1\nq2 0 d1 -1\n"

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters=" #"), min_size=1, max_size=6)


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_run_is_read_with_tabs_blank_lines_and_any_line_ends(tmp_path: Path) -> None:
    assert read_run(written(tmp_path, "run", RUN)) == {"q1": {"d1": 2.5, "d2": float("inf")}, "q2": {"d1": -0.001}}


def test_judgments_are_read(tmp_path: Path) -> None:
    assert read_qrels(written(tmp_path, "qrels", QRELS)) == {"q1": {"d2": 2.0, "d9": 1.0}, "q2": {"d1": -1.0}}


def test_comments_and_further_columns_are_ignored_as_in_trec_eval_10(tmp_path: Path) -> None:
    commented = RUN.replace("q2", "# tuned on q1\nq2").replace("2.5 tag", "2.5 tag more words") + "  # end\n"
    assert read_run(written(tmp_path, "run", commented)) == read_run(written(tmp_path, "plain", RUN))
    assert read_qrels(written(tmp_path, "qrels", "# judged by two people\n" + QRELS)) == read_qrels(written(tmp_path, "other", QRELS))
    assert read_tagged_run(written(tmp_path, "run", RUN.replace("inf tag", "inf last")))[1] == "last"


def test_gzipped_files_are_detected_by_content(tmp_path: Path) -> None:
    assert read_run(written(tmp_path, "run.txt", gzip.compress(RUN.encode()))) == read_run(written(tmp_path, "run.gz", RUN))


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_a_byte_order_mark_is_not_part_of_the_first_query(tmp_path: Path, packed: Callable[[bytes], bytes]) -> None:
    assert list(read_qrels(written(tmp_path, "qrels", packed(b"\xef\xbb\xbf" + QRELS.encode())))) == ["q1", "q2"]


def test_standard_input_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(QRELS.encode()))))
    assert list(read_qrels("-")) == ["q1", "q2"]


def test_files_are_read_with_the_conventions_of_trec_eval(tmp_path: Path) -> None:
    run, qrels = written(tmp_path, "run", RUN + "q3 Q0 d1 1 1 tag\n"), written(tmp_path, "qrels", QRELS + "q4 0 d1 1\n")
    judged = from_trec(run, qrels)
    assert facts(judged) == {"q1": (2, {0: 2.0}, [1.0]), "q2": (1, {}, [])}
    assert (judged.only_ranked, judged.only_judged) == (("q3",), ("q4",))
    assert facts(from_trec(run, qrels, complete=True))["q4"] == (0, {}, [1.0])
    assert from_trec(run, qrels, users={"q1": "u", "q2": "u"}).users == ("u", "u")


@given(st.dictionaries(words, st.dictionaries(words, st.integers(0, 3), min_size=1), min_size=1))
def test_written_files_are_read_back_unchanged(table: dict[str, dict[str, int]]) -> None:
    lines = [f"{query} 0 {document} {grade}\n" for query, documents in table.items() for document, grade in documents.items()]
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO("".join(lines).encode())))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.stdin", stdin)
        assert read_qrels("-") == table


def test_progress_is_reported_for_long_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trec, "PROGRESS_LINES", 10)
    path = written(tmp_path, "qrels", "".join(f"q 0 d{number} 1\n" for number in range(25)))
    reported: list[tuple[str, int]] = []
    read_qrels(path, lambda name, count: reported.append((name, count)))
    assert reported == [(str(path), 10), (str(path), 20)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "q1\td1\t1\n",
            'line 1: got 3 columns, as a run as in MS MARCO (query document rank); convert it: awk \'{print $1, "Q0", $2, $3, -$3',
        ),
        ("query,doc,score\n", "line 1: got CSV; allowed are 6 columns separated by blanks: query Q0"),
        ('{"q1":{"d1":1}}\n', "line 1: got JSON; allowed are 6 columns"),
        ("q Q0 d 1 1 tag\nq Q0 d 1 1\n", "line 2: got 5 columns; allowed are 6: query Q0 document rank score tag"),
        (
            "q 0 d 1\n",
            "line 1: got 4 columns; allowed are 6: query Q0 document rank score tag (with 4 it may be a qrels file: have the two",
        ),
        ("q Q0 d 1 high tag\n", "line 1: got score 'high'; allowed are numbers"),
        ("q Q0 d 1 1_0 tag\n", "line 1: got score '1_0'; allowed are numbers"),
        ("\n\nq Q0 d 1 NaN tag\n", "line 3: got score 'NaN'; allowed are numbers"),
        ("q Q0 d 1 1 tag\np Q0 d 1 1 tag\nq Q0 d 2 1 tag\n", "line 3: got document 'd' of query 'q' twice; allowed is once"),
        (b"q Q0 d 1 1 tag\nq Q0 \xff 1 1 tag\n", "line 2: got '\\\\xff', which is no UTF-8"),
        (b"q Q0 d 1 1 tag\n\xff Q0 d 1 1 tag\n", "line 2: got '\\\\xff', which is no UTF-8"),
        ("", "got no lines; allowed is at least one with 6 columns"),
        (" \n", "got no lines"),
        (gzip.compress(RUN.encode(), mtime=0)[:-12], "broken gzip after line"),
        (b"\x1f\x8bxxxxxxxx", "broken gzip after line 0"),
    ],
)
def test_invalid_runs_are_rejected_with_the_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = written(tmp_path, "run.txt", content)
    with pytest.raises(TrecError, match=re.escape(message)) as caught:
        read_run(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "query-id\tcorpus-id\tscore\nq\td\t1\n",
            "line 1: got 3 columns, as judgments as in BEIR and MTEB (query document grade); convert them: awk 'NR>1",
        ),
        ("q d 1\n", "awk '{print $1, 0, $2, $3}'"),
        ("q Q0 d 1 1 tag\n", "line 1: got 6 columns; allowed are 4: query iteration document grade (with 6 it may be a run file"),
        ("q 0 d inf\n", "line 1: got grade 'inf'; allowed are finite numbers < 2**53"),
        ("q 0 d x\n", "line 1: got grade 'x'; allowed are finite numbers < 2**53"),
        ("q 0 d 1\nq 0 e 1e20\n", "line 2: got grade '1e20'; allowed are finite numbers < 2**53"),
        ("q 0 d -inf\n", "line 1: got grade '-inf'; allowed are finite numbers < 2**53"),
        ("q 0 d 1\nq 0 d 0\n", "line 2: got document 'd' of query 'q' twice"),
    ],
)
def test_invalid_judgments_are_rejected_with_the_line(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(TrecError, match=re.escape(message)):
        read_qrels(written(tmp_path, "qrels.txt", content))


@pytest.mark.parametrize(
    ("content", "message"),
    [("q1 u x\n", "line 1: got 3 columns; allowed are 2: query user"), ("q1 u\nq1 v\n", "line 2: got query 'q1' twice; allowed is once")],
)
def test_invalid_user_files_are_rejected_with_the_line(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(MetricError, match=re.escape(message)):
        read_users(written(tmp_path, "users", content))


def test_a_missing_file_raises_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_run(tmp_path / "none")


def test_negative_grades_are_read_unchanged(tmp_path: Path) -> None:
    with pytest.raises(MetricError, match=r"got -1\.0 for item 'd1' of list 'q2'"):
        from_run(read_run(written(tmp_path, "run", RUN)), read_qrels(written(tmp_path, "qrels", QRELS)))
