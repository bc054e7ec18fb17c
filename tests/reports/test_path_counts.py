"""A path without a value is reported: in any record, or since a time."""

from __future__ import annotations

import pytest

from streammetrics.events.event_time import NEVER
from streammetrics.events.model import PathsFound, WatchedPath
from streammetrics.reports.path_counts import PathCount, counted_paths, merge_paths, path_sentences

PATH, OLD = WatchedPath("lists", "experiments.ranker", "ab.ranker"), WatchedPath("lists", "value", "old")
Row = tuple[str, int, int, int, int]


def merged(*rows: Row) -> PathCount:
    (found,) = merge_paths([("shop", PATH, row) for row in rows], [PATH])
    return found


def sentence(path: PathCount, *, ended: bool = False) -> str | None:
    return next(iter(path_sentences([path], ended=ended)), None)


def test_tasks_are_added_and_former_paths_are_left_out() -> None:
    rows: list[tuple[WatchedPath, Row]] = [(PATH, ("", 5, 2, 1, 7)), (PATH, ("x", 3, 3, 0, 9)), (OLD, ("", 9, 0, 9, 0))]
    assert merge_paths([("shop", *row) for row in rows], [PATH]) == (PathCount("shop", *PATH, "x", 8, 5),)


@pytest.mark.parametrize(("records", "ended", "is_reported"), [(99, False, False), (100, False, True), (1, True, True)])
def test_a_stream_needs_some_records(records: int, ended: bool, is_reported: bool) -> None:
    assert (sentence(merged(("", records, 0, records, NEVER)), ended=ended) is not None) is is_reported


def test_a_path_of_a_shipped_mapping_says_how_to_change_it() -> None:
    price = PathCount("shop", "orders", "item_value", "price", "segment", records=200)
    assert sentence(price) == (
        "orders of the format segment: item_value (price) has no value in any of 200 records of shop;"
        " copy the mappings of segment into your configuration, and correct the path, or take it out of the mapping"
    )


def test_a_path_that_had_values_until_a_time() -> None:
    renamed = merged(("ab.model", 1_000, 900, 100, 1_764_150_000_000))
    assert sentence(renamed) == (
        "lists: experiments.ranker (ab.ranker) has had no value since 2025-11-26 09:40:00 UTC in the records of shop;"
        " did you mean ab.model?"
    )


@pytest.mark.parametrize(
    "rows",
    [
        [("", 1_000, 981, 19, 5)],  # 19 records are few
        [("", 1_000, 9, 900, 5)],  # by its share, 81 of 900 were expected, but see the second task
        [("", 100_000, 10, 99_000, 5)],
    ],
    ids=["few", "rare", "very rare"],
)
def test_a_short_or_usual_absence_is_not_reported(rows: list[Row]) -> None:
    busy: Row = ("", 1_000, 900, 0, 9)
    assert merged(*rows, busy).missing_ms is None


def test_notes_of_a_sample_are_counted() -> None:
    notes = [PathsFound("lists", (PATH,), ((OLD, ""),)), PathsFound("lists", (), ((PATH, "ab.x"), (OLD, "new")))]
    assert counted_paths("shop", notes) == (PathCount("shop", *PATH, "ab.x", 2, 1), PathCount("shop", *OLD, "new", 2, 0))
