"""Reads data frames (pandas, polars, pyarrow, DuckDB, ...) and dicts of columns into judged lists. Imports none of them.

A column is `frame[name]` as numpy reads it. What is no array but has an Arrow stream, such as a relation of DuckDB, is read by pyarrow.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from streammetrics.metrics.arrays import AnyArray, Ints, Numbers
from streammetrics.metrics.names import MetricError
from streammetrics.metrics.tables import optional
from streammetrics.offline.evaluation.grades import from_padded, from_ragged
from streammetrics.offline.evaluation.judged import JudgedLists, Users, judge, require_common_lists
from streammetrics.offline.evaluation.numbers import comparable, format_number, is_missing, require_in_range, require_not_rounded
from streammetrics.offline.evaluation.ranking import ItemLists, NegativeGrades, TieRule


def from_frame(
    frame: Any,
    *,
    list_id: str = "list_id",
    grade: str = "grade",
    rank: str | None = None,
    score: str | None = None,
    user: str | None = None,
    ties: TieRule = "order",
) -> JudgedLists:
    """Read a frame with one row per shown item and its grade, such as a log of impressions joined with feedback.

    list_id, grade, rank, score, user: column names. List ids are text or integers, in any row order. Lists keep the order of their
        first rows.
    rank: lower ranks come first; equal ranks within a list are rejected. score: higher scores come first; for `ties` see
        `from_grades`. Without either, the rows of a list are in rank order. 64-bit integers are compared exactly.
    user: must be the same in all rows of a list.

    Raises MetricError that names the column and the row (from 0) for missing values and wrong types.

    >>> rows = {"list_id": ["a", "b", "a"], "grade": [0, 1, 2], "rank": [2, 1, 1]}
    >>> judged = from_frame(rows, rank="rank")
    >>> judged.lists, judged.lengths, judged.positions, judged.grades
    (('a', 'b'), array([2, 1]), array([0, 0]), array([2., 1.]))
    """
    names = [list_id, grade, *_order_column(rank, score), *([user] if user else [])]
    columns = _columns(frame, names)
    grouped = _GroupedRows(_ids(list_id, columns[list_id]), *_ranks(columns, rank))
    users = None if user is None else grouped.value_per_list(user, list_id, _ids(user, columns[user]))
    grades = _numbers(grade, columns[grade])[grouped.order]
    scores = None if score is None else _numbers(score, columns[score])[grouped.order]
    return from_ragged(grades, grouped.offsets, scores=scores, ties=ties, lists=grouped.lists, users=users)


def from_frames(  # noqa: PLR0913 (one name for each column)
    run: Any,
    qrels: Any,
    *,
    list_id: str = "list_id",
    item: str = "item",
    grade: str = "grade",
    rank: str | None = None,
    score: str | None = None,
    user: str | None = None,
    ties: TieRule = "order",
    complete: bool = False,
    negative: NegativeGrades = "error",
) -> JudgedLists:
    """Read two frames: the ranked items (list, item, and score or rank or neither), and the judgments (list, item, grade).

    list_id, item: column names of both frames, with ids of the same type. grade: a column of `qrels`. rank, score, user: columns of
    `run`, see `from_frame`. ties, complete, negative: see `from_run`.

    Raises MetricError that names the column and the row (from 0), or the list and the item.

    >>> run = {"list_id": [1, 1], "item": ["x", "y"], "score": [0.5, 0.7]}
    >>> qrels = {"list_id": [1, 1], "item": ["x", "z"], "grade": [1, 1]}
    >>> judged = from_frames(run, qrels, score="score")
    >>> judged.positions, judged.unseen_rows
    (array([1]), array([0]))
    """
    columns = _columns(run, [list_id, item, *_order_column(rank, score), *([user] if user else [])])
    judged = _columns(qrels, [list_id, item, grade])
    grouped = _GroupedRows(_ids(list_id, columns[list_id]), *_ranks(columns, rank))
    scores = None if score is None else _numbers(score, columns[score])
    judgments = _judgments(_ids(list_id, judged[list_id]), _ids(item, judged[item]), _numbers(grade, judged[grade]))
    require_common_lists(set(grouped.lists), judgments.keys())
    item_lists, left_out = _item_lists(grouped, _ids(item, columns[item]), scores, judgments, complete)
    users: Users | None = None
    if user is not None:
        users = dict(zip(grouped.lists, grouped.value_per_list(user, list_id, _ids(user, columns[user])), strict=True))
    return judge(item_lists, [judgments[name] for name in item_lists.lists], ties=ties, negative=negative, users=users, left_out=left_out)


def from_wide_frame(frame: Any, grades: Sequence[str], *, list_id: str | None = None, user: str | None = None) -> JudgedLists:
    """Read a frame with one row per list and one column per rank.

    grades: the column names in rank order. A missing value ends the list; all later values must be missing too.
    list_id, user: column names. Without `list_id` the lists have the ids 0, 1, ...

    Raises MetricError that names the column and the row (from 0).

    >>> from_wide_frame({"first": [1.0, 0.0], "second": [2.0, float("nan")]}, ["first", "second"]).lengths
    array([2, 1])
    """
    if isinstance(grades, str) or not len(grades):
        raise MetricError("grades", f"got {grades!r}; allowed is a sequence of column names, one per rank")
    columns = _columns(frame, [*grades, *([list_id] if list_id else []), *([user] if user else [])])
    cells = np.stack([_numbers(name, columns[name], missing=True) for name in grades], axis=1)
    missing = np.isnan(cells)
    lengths = np.where(missing.any(axis=1), missing.argmax(axis=1), len(grades)).astype(np.int64)
    beyond = np.argwhere(~missing & (np.arange(len(grades)) >= lengths[:, None]))
    if beyond.size:
        row, rank = beyond[0].tolist()
        raise MetricError(
            f"column {grades[rank]!r}", f"got a grade at row {row} after a missing one; allowed are missing values at the end only"
        )
    lists = None if list_id is None else _ids(list_id, columns[list_id])
    users = None if user is None else _ids(user, columns[user])
    return from_padded(cells, lengths=lengths, lists=lists, users=users)


class _GroupedRows:
    """Rows grouped by list. `order` sorts them by list, then by rank if there are ranks, otherwise in their given order."""

    def __init__(self, ids: Sequence[Hashable], rank: str = "", ranks: Numbers | None = None) -> None:
        numbers: dict[Hashable, int] = {}
        codes = np.array([numbers.setdefault(name, len(numbers)) for name in ids], dtype=np.int64)
        self.lists = list(numbers)
        self.codes = codes
        self.offsets: Ints = np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=len(numbers)), dtype=np.int64)))
        self.order: Ints = np.argsort(codes, kind="stable") if ranks is None else np.lexsort((ranks, codes)).astype(np.int64)
        if ranks is not None:
            self._require_distinct(rank, ranks)

    def _require_distinct(self, rank: str, ranks: Numbers) -> None:
        codes, sorted_ranks = self.codes[self.order], ranks[self.order]
        same = np.flatnonzero((codes[1:] == codes[:-1]) & (sorted_ranks[1:] == sorted_ranks[:-1]))
        if same.size:
            at = int(same[0])
            got = f"{format_number(sorted_ranks[at])} at rows {self.order[at]} and {self.order[at + 1]} of list {self.lists[codes[at]]!r}"
            raise MetricError(f"column {rank!r}", f"got {got}; allowed is each rank once per list")

    def value_per_list(self, name: str, list_name: str, values: Sequence[Hashable]) -> list[Hashable]:
        """The value of each list. Raises MetricError if two rows of a list have different values."""
        value_of: dict[int, Hashable] = {}
        for row, (code, value) in enumerate(zip(self.codes.tolist(), values, strict=True)):
            if value_of.setdefault(code, value) != value:
                of = f"{list_name} {self.lists[code]!r}"
                raise MetricError(
                    f"column {name!r}", f"got {value_of[code]!r} and, at row {row}, {value!r} for {of}; allowed is one per list"
                )
        return [value_of[code] for code in range(len(self.lists))]


def _item_lists(
    grouped: _GroupedRows,
    items: Sequence[Hashable],
    scores: Numbers | None,
    judgments: Mapping[Hashable, Any],
    complete: bool,
) -> tuple[ItemLists, tuple[tuple[Hashable, ...], tuple[Hashable, ...]]]:
    """The judged lists (with complete=True also unranked ones, as empty lists), and the ids of the lists left out."""
    ranked = dict.fromkeys(grouped.lists)
    only_judged = [name for name in judgments if name not in ranked]
    judged = np.array([name in judgments for name in grouped.lists], dtype=np.bool_)
    rows = grouped.order[judged[grouped.codes[grouped.order]]]
    lengths = np.diff(grouped.offsets)[judged]
    lists = [name for name in grouped.lists if name in judgments]
    if complete:
        lists += only_judged
        lengths = np.concatenate((lengths, np.zeros(len(only_judged), dtype=np.int64)))
    item_lists = ItemLists(
        lists,
        np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))),
        [items[row] for row in rows.tolist()],
        None if scores is None else scores[rows],
    )
    return item_lists, (tuple(name for name in ranked if name not in judgments), () if complete else tuple(only_judged))


def _judgments(lists: Sequence[Hashable], items: Sequence[Hashable], grades: Numbers) -> dict[Hashable, dict[Hashable, float]]:
    judgments: dict[Hashable, dict[Hashable, float]] = {}
    for row, (name, item, grade) in enumerate(zip(lists, items, grades.tolist(), strict=True)):
        by_item = judgments.setdefault(name, {})
        if item in by_item:
            raise MetricError("judgments", f"got item {item!r} of list {name!r} twice, again at row {row}; allowed is once")
        by_item[item] = grade
    return judgments


def _order_column(rank: str | None, score: str | None) -> list[str]:
    if rank is not None and score is not None:
        raise MetricError("order", f"got rank={rank!r} and score={score!r}; allowed is one of them")
    return [name for name in (rank, score) if name is not None]


def _ranks(columns: Mapping[str, AnyArray], rank: str | None) -> tuple[str, Numbers] | tuple[()]:
    return () if rank is None else (rank, _numbers(rank, columns[rank]))


def _columns(frame: Any, names: Sequence[str]) -> dict[str, AnyArray]:
    if hasattr(frame, "__arrow_c_stream__") and not hasattr(frame, "__array__"):
        frame = _arrow_table(frame)
    if not hasattr(frame, "__getitem__"):
        raise MetricError("frame", f"got {type(frame).__name__}; allowed is what has columns by name, or an Arrow stream")
    columns = {name: _column(frame, name) for name in names}
    sizes = {name: column.size for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        raise MetricError(
            "columns", f"got {', '.join(f'{name} with {size}' for name, size in sizes.items())} rows; allowed are equal sizes"
        )
    return columns


def _arrow_table(frame: Any) -> Any:
    pyarrow = optional("pyarrow", "frame")
    try:
        return pyarrow.table(frame)
    except Exception as error:  # whatever the library behind the stream raises
        raise MetricError(
            "frame", f"got {type(frame).__name__} that cannot be read ({type(error).__name__}: {error}); allowed is a whole table"
        ) from error


def _column(frame: Any, name: str) -> AnyArray:
    try:
        given = frame[name]
        values = np.asarray(given)
    except Exception as error:  # each library has errors of its own
        raise MetricError(
            f"column {name!r}", f"cannot be read ({type(error).__name__}: {error}); allowed is a column of that name"
        ) from error
    if values.ndim != 1:
        raise MetricError(f"column {name!r}", f"got {values.ndim} dimensions; allowed is 1")
    require_not_rounded(f"column {name!r}", given, values, _row)
    return values


def _row(at: int) -> str:
    return f"row {at}"


def _numbers(name: str, column: AnyArray, missing: bool = False) -> Numbers:
    """A numeric column. Missing values become NaN if they are allowed."""
    if column.dtype == object:
        column = _of_objects(name, column)
    if column.size and column.dtype.kind not in "biuf":
        raise MetricError(f"column {name!r}", f"got dtype {column.dtype}; allowed are numbers")
    values = comparable(column)
    gaps = np.flatnonzero(np.isnan(values))
    if gaps.size and not missing:
        raise MetricError(f"column {name!r}", f"got a missing value or NaN at row {gaps[0]}; allowed are numbers")
    return values


def _of_objects(name: str, column: AnyArray) -> AnyArray:
    values = np.full(column.size, np.nan)
    for row, value in enumerate(column.tolist()):
        if isinstance(value, int | float | np.integer | np.floating):
            require_in_range(f"column {name!r}", value, _row(row))
            values[row] = value
        elif not is_missing(value):
            raise MetricError(f"column {name!r}", f"got {value!r} at row {row}; allowed are numbers")
    require_not_rounded(f"column {name!r}", column, values, _row)
    return values


def _ids(name: str, column: AnyArray) -> list[Hashable]:
    """A column of ids, which are text or integers."""
    if column.size and column.dtype.kind not in "OUiu":
        row = int(np.argmax(np.isnan(column))) if column.dtype.kind == "f" else -1
        place = f" (a missing value at row {row})" if row >= 0 and np.isnan(column[row]) else ""
        raise MetricError(f"column {name!r}", f"got dtype {column.dtype}{place}; allowed are text and whole numbers")
    values: list[Hashable] = column.tolist()
    if column.dtype == object:
        for row, value in enumerate(values):
            if not isinstance(value, str | int):
                what = "a missing value" if is_missing(value) else repr(value)
                raise MetricError(f"column {name!r}", f"got {what} at row {row}; allowed are text and whole numbers")
    return values
