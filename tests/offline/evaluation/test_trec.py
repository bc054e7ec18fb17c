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
from streammetrics.offline.inputs import trec_lines
from streammetrics.offline.inputs.item_ids import from_run
from streammetrics.offline.inputs.trec import from_trec, read_qrels, read_run, read_tagged_run, read_users
from streammetrics.offline.inputs.trec_lines import TrecError
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


BEIR = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td 2\t0\n"
QUEPID = 'query,docid,rating\r\n"lamp, red",d1,3.0\r\nsofa\r\n"lamp, red",d2,\r\nbed,d1,0\r\n'
WORKBENCH = "query,docid,rating\n120v power supply,3488015,0.0\n120v power supply,637052,1.5\n"


@pytest.mark.parametrize(
    ("content", "table"),
    [
        (BEIR, {"q1": {"d1": 1, "d 2": 0}}),
        (QUEPID, {"lamp, red": {"d1": 3}, "bed": {"d1": 0}}),
        (WORKBENCH, {"120v power supply": {"3488015": 0, "637052": 1.5}}),
        ("q1 d1 2\nq1 d2 0\n", {"q1": {"d1": 2, "d2": 0}}),
        ("Doc_ID;Title;Query Text;Rating\nd1;Lamp;red lamp;2\n", {"red lamp": {"d1": 2}}),
        ("# made by hand\n\nqid,docid,relevance\n7,8,1\n", {"7": {"8": 1}}),
    ],
)
@pytest.mark.parametrize("packed", [str.encode, lambda text: b"\xef\xbb\xbf" + text.encode(), lambda text: gzip.compress(text.encode())])
def test_judgments_of_other_tools_are_read(tmp_path: Path, content: str, table: object, packed: Callable[[str], bytes]) -> None:
    assert read_qrels(written(tmp_path, "judgments", packed(content))) == table


@pytest.mark.parametrize(
    ("content", "table"),
    [
        ("q1\td1\t1\nq1\td2\t2\nq2\td9\t1\n", {"q1": {"d1": -1, "d2": -2}, "q2": {"d9": -1}}),
        ("query,docid,rank\nred lamp,d1,2\nred lamp,d2,1\n", {"red lamp": {"d1": -2, "d2": -1}}),
        ("query,docid,rank,score\nred lamp,d1,1,0.5\n", {"red lamp": {"d1": 0.5}}),
    ],
)
def test_runs_of_other_tools_are_read(tmp_path: Path, content: str, table: object) -> None:
    assert read_tagged_run(written(tmp_path, "run", content)) == (table, "run")


def test_progress_is_reported_for_long_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trec_lines, "PROGRESS_LINES", 10)
    path = written(tmp_path, "qrels", "".join(f"q 0 d{number} 1\n" for number in range(25)))
    reported: list[tuple[str, int]] = []
    read_qrels(path, lambda name, count: reported.append((name, count)))
    assert reported == [(str(path), 10), (str(path), 20)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("q1\td1\t0.5\n", "line 1: got rank '0.5'; allowed are whole numbers from 1, or a header with the column score"),
        ("q d 2\nq e 3\n", "query 'q': got no document of rank 1, or a rank twice; allowed are distinct ranks from 1"),
        ("q d 1\nq e 1\n", "query 'q': got no document of rank 1, or a rank twice"),
        ("q d 1\n\nq e\n", "line 3: got 2 columns after lines with 3; allowed is the same number in all lines"),
        ("q d 1\nq d 2\n", "line 2: got document 'd' of query 'q' twice"),
        ("q1,d1,0.5\n", "line 1: got CSV; allowed are 6 columns separated by blanks: query Q0"),
        (
            "query,doc,title\n",
            "line 1: got the columns 'query,doc,title'; allowed is a header with a query, a document and a score or rank",
        ),
        ("query,doc,score\n", "got no lines"),
        ("query,doc,score\nq,d,1\nq,e,high\n", "line 3: got 'high'; allowed are numbers"),
        ("query,doc,score\nq,d,nan\n", "line 2: got 'nan'; allowed are numbers"),
        ("query,doc,rank\nq,d,0\n", "line 2: got rank '0'"),
        ('query,doc,score\nq,"d,1\n', "line 2: got a row that cannot be read (unexpected end of data)"),
        (b"query,doc,score\nq,\xff,1\n", "line 2: got a row that cannot be read"),
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
        ("query,docid,title\n", "a query, a document and a rating, grade, relevance or score"),
        ("query,docid,rating\nq,d,inf\n", "line 2: got 'inf'; allowed are finite numbers < 2**53"),
        ("query,docid,rating\nq,d,1\nq,d,2\n", "line 3: got document 'd' of query 'q' twice"),
        ("q d x\n", "line 1: got 'x'; allowed are finite numbers < 2**53"),
        ("query,docid,rating\nq\n", "got no lines"),
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
