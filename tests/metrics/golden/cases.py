"""The test lists for every library: a few hundred edge cases and thousands of random lists, the same on every run."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

CUTOFFS: Final = (1, 5, 10)
SEED: Final = 20020422
RANDOM_LISTS: Final = 1_500


@dataclass(frozen=True, slots=True)
class Case:
    """One list: item ids in rank order, and item id -> grade. Shown items may lack a judgment; judged items may be unseen."""

    items: tuple[str, ...]
    grades: Mapping[str, float]
    tied: tuple[float, ...] | None = None

    @property
    def scores(self) -> list[float]:
        """Falling scores of the shown items: `tied` if given, otherwise distinct also in single precision."""
        return [float(score) for score in self.tied or range(len(self.items), 0, -1)]

    @property
    def shown(self) -> list[float]:
        """Grades in rank order."""
        return [self.grades.get(item, 0) for item in self.items]

    @property
    def unseen(self) -> list[float]:
        """Grades above 0 of unseen items."""
        return [grade for item, grade in self.grades.items() if grade > 0 and item not in self.items]


def graded(grades_by_rank: Sequence[float | None], unseen: Sequence[float] = (), names: random.Random | None = None) -> Case:
    """A case from grades in rank order (None: not judged). If `names` is given, it shuffles the ids."""
    ids = [f"d{number:03d}" for number in range(len(grades_by_rank) + len(unseen))]
    if names:
        names.shuffle(ids)
    grades = {item: grade for item, grade in zip(ids, [*grades_by_rank, *unseen], strict=True) if grade is not None}
    return Case(tuple(ids[: len(grades_by_rank)]), grades)


def edges() -> list[Case]:
    """All lists of up to three items with four judgments, with and without unseen items; and lists as long as each cut-off +- 1."""
    cases = [
        graded(grades, unseen) for size in range(4) for grades in product((None, 0, 1, 3), repeat=size) for unseen in ((), (1,), (2, 1, 1))
    ]
    for length in sorted({k + step for k in CUTOFFS for step in (-1, 0, 1)} - {0}):
        for unseen in ((), (1,) * length, (4, 0, 2)):
            cases += [graded([grade] * length, unseen) for grade in (None, 0, 1, 2)]
            cases += [graded([0] * at + [1] + [0] * (length - at - 1), unseen) for at in range(length)]
            cases += [graded([place % 5 for place in range(length)], unseen), graded([4 - place % 5 for place in range(length)], unseen)]
    return cases


def at_random(count: int = RANDOM_LISTS, seed: int = SEED) -> list[Case]:
    """Random lists of 0..30 items: sparse and dense, with one to four grades, with and without unseen items."""
    draw = random.Random(seed)
    cases = []
    for _ in range(count):
        top = draw.choice((1, 1, 2, 4))
        density = draw.choice((0.05, 0.2, 0.5, 0.9))
        grades = [_judgment(draw, top, density) for _ in range(draw.choice((draw.randint(0, 12), draw.randint(0, 30))))]
        unseen = [draw.randint(0, top) for _ in range(draw.choice((0, 0, 1, 5)))]
        cases.append(graded(grades, unseen, draw))
    return cases


def _judgment(draw: random.Random, top: int, density: float) -> int | None:
    if draw.random() < density:
        return draw.randint(1, top)
    return draw.choice((0, None))


def without_unseen(cases: Iterable[Case]) -> list[Case]:
    """The same lists, with judgments of shown items only."""
    return [Case(case.items, {item: grade for item, grade in case.grades.items() if item in case.items}) for case in cases]


def without_zeros(cases: Iterable[Case]) -> list[Case]:
    """The same lists, with judgments above 0 only."""
    return [Case(case.items, {item: grade for item, grade in case.grades.items() if grade > 0}) for case in cases]


def every_case() -> list[Case]:
    return edges() + at_random()
