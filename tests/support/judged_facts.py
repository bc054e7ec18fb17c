"""Judged lists as plain Python values that a test can compare."""

from __future__ import annotations

from typing import Any

from streammetrics.offline.evaluation.judged import JudgedLists


def facts(judged: JudgedLists) -> dict[Any, Any]:
    """What is known of each list, in plain Python: its length, its graded items by position, and what it lacks."""
    fact_by_list: dict[Any, Any] = {name: (int(length), {}, []) for name, length in zip(judged.lists, judged.lengths, strict=True)}
    for row, position, grade in zip(judged.rows, judged.positions, judged.grades, strict=True):
        assert int(position) not in fact_by_list[judged.lists[row]][1]
        fact_by_list[judged.lists[row]][1][int(position)] = float(grade)
    for row, grade in zip(judged.unseen_rows, judged.unseen_grades, strict=True):
        fact_by_list[judged.lists[row]][2].append(float(grade))
    return {name: (length, graded, sorted(unseen)) for name, (length, graded, unseen) in fact_by_list.items()}
