"""Flat tallies of lists of grades, made as the stream makes them: from the rows of their graded items."""

from __future__ import annotations

from collections.abc import Sequence

from streammetrics.metrics import TallyLayout


def tally_of(layout: TallyLayout, lists: Sequence[Sequence[float]]) -> list[int]:
    """Return the flat tally of lists of grades in rank order."""
    hits = [(row, position, grade) for row, grades in enumerate(lists) for position, grade in enumerate(grades) if grade]
    rows, positions, grades = zip(*hits, strict=True) if hits else ((), (), ())
    hit_rows = layout.rows_of_hits([len(grades) for grades in lists], rows, positions, grades)
    return [sum(column) for column in hit_rows.T.tolist()] if lists else layout.zero()
