"""Helpers that the library modules share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

Value: TypeAlias = float | str
Values: TypeAlias = dict[str, list[Value]]


class JudgedList(NamedTuple):
    """Item ids in rank order, the grades of the judged ones, shown or not, and the scores of the shown ones, never rising."""

    items: Sequence[str]
    grades: Mapping[str, float]
    scores: Sequence[float]

    @property
    def scored(self) -> dict[str, float]:
        return dict(zip(self.items, self.scores, strict=True))

    @property
    def grades_shown(self) -> list[float]:
        """In rank order; what is not judged has 0."""
        return [self.grades.get(item, 0) for item in self.items]


def each(lists: Iterable[JudgedList], ask: Callable[[JudgedList], float]) -> list[Value]:
    """Ask list by list; a refusal is a value too."""
    return [_asked(ask, judged) for judged in lists]


def _asked(ask: Callable[[JudgedList], float], judged: JudgedList) -> Value:
    try:
        return float(ask(judged))
    except Exception as error:
        return type(error).__name__
