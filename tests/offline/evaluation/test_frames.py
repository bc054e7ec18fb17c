"""Data frames of every library give the same judged lists, and the package imports none of them."""

from __future__ import annotations

import math
import random
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.metrics import MetricError, Scorer
from streammetrics.offline.evaluation.evaluate import evaluate
from streammetrics.offline.evaluation.frames import from_frame, from_frames, from_wide_frame
from streammetrics.offline.evaluation.grades import from_grades
from streammetrics.offline.evaluation.item_ids import from_run
from tests.support.judged_facts import facts
from tests.support.tables import for_each

Columns = Mapping[str, list[Any]]

NAMES = ["ndcg@5", "mrr@5", "item_hit_rate@3", "recall@5"]


def arrow_chunks(columns: Columns) -> pa.Table:
    """A table of two chunks; the first one has an offset into its buffers."""
    table = pa.table(dict(columns))
    padded = pa.concat_tables([table, table])
    half = table.num_rows // 2
    return pa.concat_tables([padded.slice(table.num_rows, half), table.slice(half)])


def arrow_other_types(columns: Columns) -> pa.Table:
    """Categories, string views, text with 64-bit offsets, single precision."""
    other = {pa.string(): pa.large_string(), pa.float64(): pa.float32(), pa.int64(): pa.int8()}
    table = pa.table(dict(columns))
    table = table.cast(pa.schema([(field.name, other.get(field.type, field.type)) for field in table.schema]))
    for at, name in enumerate(table.column_names):
        if table.schema.field(at).type == pa.large_string():
            column = table.column(at).cast(pa.string_view()) if at % 2 else table.column(at).combine_chunks().dictionary_encode()
            table = table.set_column(at, name, column)
    return table


MAKERS: dict[str, Callable[[Columns], Any]] = {
    "dict of lists": dict,
    "dict of arrays": lambda columns: {name: np.array(values) for name, values in columns.items()},
    "pandas": lambda columns: pd.DataFrame(dict(columns)),
    "pandas, other index": lambda columns: pd.DataFrame(dict(columns), index=range(100, 100 + len(next(iter(columns.values()))))),
    "pandas categories": lambda columns: pd.DataFrame(dict(columns)).astype(
        {name: "category" for name, values in columns.items() if isinstance(values[0], str)}
    ),
    "polars": lambda columns: pl.DataFrame(dict(columns)),
    "polars categories": lambda columns: pl.DataFrame(dict(columns)).with_columns(pl.col(pl.String).cast(pl.Categorical)),
    "polars slice": lambda columns: pl.concat([pl.DataFrame(dict(columns))] * 2)[len(next(iter(columns.values()))) :],
    "Arrow": lambda columns: pa.table(dict(columns)),
    "Arrow record batch": lambda columns: pa.RecordBatch.from_pydict(dict(columns)),
    "Arrow in chunks": arrow_chunks,
    "Arrow, other types": arrow_other_types,
}
make = pytest.mark.parametrize("made", MAKERS.values(), ids=MAKERS.keys())

WIDE = {
    "list_id": ["q1", "a query with a long name, é", "q3", "q4"],
    "user": ["ann", "bob", "ann", "bob"],
    "first": [0.0, 2.0, 0.0, 1.0],
    "second": [1.0, 0.0, 0.5, 1.0],
    "third": [3.0, 0.0, 2.0, 0.0],
}
LONG = {
    "list_id": ["q2", "q1", "q1", "q2", "q1", "ein längerer Name", "q2"],
    "item": ["b", "a", "c", "a", "b", "a", "a name of many bytes"],
    "rank": [2, 3, 1, 1, 2, 1, 3],
    "score": [0.5, 0.25, 0.75, 1.0, 0.5, 1.0, 0.125],
    "grade": [1, 0, 2, 0, 1, 3, 2],
    "user": ["x", "y", "y", "x", "y", "x", "x"],
}
QRELS = {
    "list_id": ["q1", "q1", "q2", "q2", "q9"],
    "item": ["a", "z", "a name of many bytes", "b", "a"],
    "grade": [1, 2, 3, 0, 1],
}


@make
def test_a_wide_frame_of_any_library_gives_the_same_integers(made: Callable[[Columns], Any]) -> None:
    judged = from_wide_frame(made(WIDE), ["first", "second", "third"], list_id="list_id", user="user")
    expected = from_grades(
        {name: list(grades) for name, *grades in zip(*(WIDE[name] for name in ("list_id", "first", "second", "third")), strict=True)}
    )
    assert facts(judged) == facts(expected)
    assert judged.users == ("ann", "bob", "ann", "bob")
    np.testing.assert_array_equal(evaluate(judged, NAMES).rows, evaluate(expected, NAMES).rows)


@make
@pytest.mark.parametrize("order", [{"rank": "rank"}, {"score": "score"}], ids=str)
def test_a_long_frame_of_any_library_gives_the_same_lists(made: Callable[[Columns], Any], order: dict[str, str]) -> None:
    judged = from_frame(made(LONG), user="user", **order)
    assert facts(judged) == {"q2": (3, {1: 1.0, 2: 2.0}, []), "q1": (3, {0: 2.0, 1: 1.0}, []), "ein längerer Name": (1, {0: 3.0}, [])}
    assert judged.lists == ("q2", "q1", "ein längerer Name")
    assert judged.users == ("x", "y", "x")


@make
@pytest.mark.parametrize("order", [{"rank": "rank"}, {"score": "score"}], ids=str)
@pytest.mark.parametrize("complete", [False, True])
def test_two_frames_give_the_same_lists_as_two_dicts(made: Callable[[Columns], Any], order: dict[str, str], complete: bool) -> None:
    run: dict[str, dict[str, float]] = {}
    for name, item, score in zip(LONG["list_id"], LONG["item"], LONG["score"], strict=True):
        run.setdefault(name, {})[item] = score
    truth: dict[str, dict[str, float]] = {}
    for name, item, grade in zip(QRELS["list_id"], QRELS["item"], QRELS["grade"], strict=True):
        truth.setdefault(name, {})[item] = grade
    judged, expected = from_frames(made(LONG), made(QRELS), complete=complete, **order), from_run(run, truth, complete=complete)
    assert facts(judged) == facts(expected)
    assert (judged.only_ranked, judged.only_judged) == (expected.only_ranked, expected.only_judged)


def test_rows_are_in_rank_order_by_default() -> None:
    judged = from_frame({"list_id": [7, 8, 7], "grade": [0, 1, 2]})
    assert facts(judged) == {7: (2, {1: 2.0}, []), 8: (1, {0: 1.0}, [])}


def test_integer_ids_stay_integers() -> None:
    large = 2**63 - 1
    for made in (pl.DataFrame, pa.table, pd.DataFrame):
        assert from_frame(made({"list_id": [large, large - 1], "grade": [1, 1]})).lists == (large, large - 1)


@for_each(product([MAKERS[name] for name in MAKERS if name != "Arrow, other types"], [{"rank": "rank"}, {"score": "score"}]))
def test_integer_ranks_and_scores_stay_integers(case: tuple[Callable[[Columns], Any], dict[str, str]]) -> None:
    made, order = case
    large = 10**18
    columns = {"list_id": [1, 1, 1], "grade": [0, 1, 2], "rank": [large + 2, large + 1, large], "score": [large, large + 1, large + 2]}
    assert facts(from_frame(made(columns), **order)) == {1: (3, {0: 2.0, 1: 1.0}, [])}
    run = made({**columns, "item": ["a", "b", "c"]})
    assert facts(from_frames(run, {"list_id": [1], "item": ["c"], "grade": [1]}, **order)) == {1: (3, {0: 1.0}, [])}


@pytest.mark.parametrize("kind", [list, lambda values: np.array(values, dtype=object)], ids=["list", "objects"])
def test_an_integer_score_that_would_be_rounded_is_rejected(kind: Callable[[list[float]], Any]) -> None:
    frame = {"list_id": [1, 1], "grade": [0, 1], "score": kind([0.5, 10**18 + 1])}
    with pytest.raises(MetricError, match=r"column 'score': got 1000000000000000001 at row 1, which a double does not hold; allowed bey"):
        from_frame(frame, score="score")


def test_a_relation_is_read_through_its_arrow_stream() -> None:
    relation = duckdb.sql("select * from (values ('a', 0, 2), ('b', 1, 1), ('a', 2, 1)) as shown(list_id, grade, rank)")
    assert facts(from_frame(relation, rank="rank")) == {"a": (2, {0: 2.0}, []), "b": (1, {0: 1.0}, [])}


def test_pandas_works_without_pyarrow() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import pandas as pd\n"
        "from streammetrics.offline.evaluation.frames import from_frame\n"
        "judged = from_frame(pd.DataFrame({'list_id': ['a', 'b', 'a'], 'grade': [0, 1, 2]}))\n"
        "print(judged.lists, judged.rows, judged.positions, judged.grades)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "('a', 'b') [0 1] [1 0] [2. 1.]\n"


@pytest.mark.parametrize("beside", [[1, "a", 2], [{1: 2}, {}, {}], [object(), 1, 2], [1j, 2j, 3j]])
def test_other_columns_may_have_any_type(beside: list[Any]) -> None:
    frame = pd.DataFrame({"list_id": ["a", "b", "a"], "grade": [0, 1, 2], "beside": beside})
    assert facts(from_frame(frame)) == {"a": (2, {1: 2.0}, []), "b": (1, {0: 1.0}, [])}
    assert facts(from_frame(pd.concat([frame, frame[["beside"]]], axis=1))) == facts(from_frame(frame))


def test_a_repeated_column_is_rejected() -> None:
    frame = pd.DataFrame({"list_id": ["a"], "grade": [1]})
    with pytest.raises(MetricError, match="column 'grade': got 2 dimensions; allowed is 1"):
        from_frame(pd.concat([frame, frame[["grade"]]], axis=1))


def test_a_stream_that_cannot_be_read_is_rejected_with_the_reason() -> None:
    class Silent:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise OSError("gone")

    def broken() -> Any:
        yield pa.record_batch({"list_id": [1], "grade": [1]})
        raise OSError("the disk is gone")

    schema = pa.schema([("list_id", pa.int64()), ("grade", pa.int64())])
    for frame, reason in ((Silent(), "gone"), (pa.RecordBatchReader.from_batches(schema, broken()), "the disk is gone")):
        with pytest.raises(MetricError, match=rf"frame: got \w+ that cannot be read \(OSError: .*{reason}"):
            from_frame(frame)


def test_a_stream_needs_pyarrow_and_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    relation = duckdb.sql("select 'a' as list_id, 1 as grade")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MetricError, match="frame: got no pyarrow; allowed is an environment with it: pip install pyarrow"):
        from_frame(relation)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_a_series_is_read_by_position_not_by_index(grades: list[int], chance: random.Random) -> None:
    scorer = Scorer(["ndcg@5", "mrr", "recall@3"])
    index = chance.sample(range(len(grades)), len(grades))
    for label_sets in (pd.Series(grades, index=index), pd.Series(grades, index=[7] * len(grades)), pl.Series(grades), np.array(grades)):
        assert scorer.score_list(label_sets) == scorer.score_list(grades)
        assert scorer.score_list([1, 0], label_sets) == scorer.score_list([1, 0], grades)


def test_a_missing_grade_ends_a_wide_list() -> None:
    frame = pl.DataFrame({"first": [1.0, None, 0.0], "second": [None, None, 2.0]})
    assert facts(from_wide_frame(frame, ["first", "second"])) == {0: (1, {0: 1.0}, []), 1: (0, {}, []), 2: (2, {1: 2.0}, [])}


@for_each(
    [
        (lambda: from_frame(pl.DataFrame({"list_id": [1]})), "column 'grade': cannot be read (ColumnNotFoundError"),
        (lambda: from_frame({"list_id": [1]}), "column 'grade': cannot be read (KeyError"),
        (lambda: from_frame({"list_id": [1], "grade": [1, 2]}), "columns: got list_id with 1, grade with 2 rows; allowed are equal sizes"),
        (lambda: from_frame(5), "frame: got int; allowed is what has columns by name, or an Arrow stream"),
        (lambda: from_frame(pa.table({"list_id": [1, 2], "grade": [1, None]})), "column 'grade': got a missing value or NaN at row 1"),
        (lambda: from_frame(pd.DataFrame({"list_id": ["a", None], "grade": [1, 1]})), "column 'list_id': got a missing value at row 1"),
        (
            lambda: from_frame(pl.DataFrame({"list_id": [1, None], "grade": [1, 1]})),
            "column 'list_id': got dtype float64 (a missing value at row 1)",
        ),
        (lambda: from_frame({"list_id": [0.5], "grade": [1]}), "column 'list_id': got dtype float64; allowed are text and whole numbers"),
        (lambda: from_frame({"list_id": ["a"], "grade": ["1"]}), "column 'grade': got dtype <U1; allowed are numbers"),
        (lambda: from_frame(pl.DataFrame({"list_id": ["a"], "grade": ["1"]})), "column 'grade': got dtype <U1; allowed are numbers"),
        (
            lambda: from_frame({"list_id": ["a", "a"], "grade": [1, 10**400]}),
            "column 'grade': got a whole number of 1329 bits at row 1; allowed are numbers, whole ones below 2**1023",
        ),
        (
            lambda: from_frame(pl.DataFrame({"list_id": ["a"], "grade": [[1]]})),
            "column 'grade': got array([1]) at row 0; allowed are numbers",
        ),
        (lambda: from_frame({"list_id": ["a"], "grade": [-1]}), "grade: got -1 at position 0 of list 'a'"),
        (
            lambda: from_frame({"list_id": [1], "grade": [1], "a": [1]}, rank="a", score="a"),
            "order: got rank='a' and score='a'; allowed is one of them",
        ),
        (
            lambda: from_frame({"list_id": ["q", "p", "q"], "grade": [1, 0, 0], "rank": [2, 2, 2]}, rank="rank"),
            "column 'rank': got 2 at rows 0 and 2 of list 'q'; allowed is each rank once per list",
        ),
        (
            lambda: from_frame({"list_id": ["q", "q"], "grade": [1, 0], "user": ["a", "b"]}, user="user"),
            "column 'user': got 'a' and, at row 1, 'b' for list_id 'q'; allowed is one per list",
        ),
        (
            lambda: from_frames({"list_id": [1, 1], "item": ["a", "a"]}, {"list_id": [1], "item": ["a"], "grade": [1]}),
            "item: got 'a' twice in list 1",
        ),
        (
            lambda: from_frames({"list_id": [1], "item": ["a"]}, {"list_id": [1, 1], "item": ["a", "a"], "grade": [1, 2]}),
            "judgments: got item 'a' of list 1 twice, again at row 1",
        ),
        (lambda: from_wide_frame({"a": [1]}, "a"), "grades: got 'a'; allowed is a sequence of column names, one per rank"),
        (
            lambda: from_wide_frame({"a": [1.0, math.nan], "b": [1.0, 1.0]}, ["a", "b"]),
            "column 'b': got a grade at row 1 after a missing one; allowed are missing values at the end only",
        ),
    ]
)
def test_invalid_frames_are_rejected_with_column_and_row(case: tuple[Callable[[], object], str]) -> None:
    call, message = case
    with pytest.raises(MetricError, match=re.escape(message)):
        call()


def test_frames_without_rows_have_no_lists() -> None:
    for frame in (
        pd.DataFrame({"list_id": [], "grade": []}),
        pl.DataFrame({"list_id": [], "grade": []}),
        pa.table({"list_id": [], "grade": []}),
    ):
        assert len(from_frame(frame)) == 0
