"""Helpers that the library modules share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

Value: TypeAlias = float | str
Values: TypeAlias = dict[str, list[Value]]


class JudgedList(NamedTuple):
    """Item ids in rank order, item id -> grade (unseen items too), and falling scores of the shown items."""

    items: Sequence[str]
    grades: Mapping[str, float]
    scores: Sequence[float]

    @property
    def scored(self) -> dict[str, float]:
        return dict(zip(self.items, self.scores, strict=True))

    @property
    def grades_shown(self) -> list[float]:
        """Grades of the shown items in rank order; 0 without a judgment."""
        return [self.grades.get(item, 0) for item in self.items]


def each(lists: Iterable[JudgedList], ask: Callable[[JudgedList], float]) -> list[Value]:
    """Compute a value per list. For an exception the value is its name."""
    return [_asked(ask, judged) for judged in lists]


def _asked(ask: Callable[[JudgedList], float], judged: JudgedList) -> Value:
    try:
        return float(ask(judged))
    except Exception as error:
        return type(error).__name__
