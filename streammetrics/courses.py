"""Which scopes of experiments the lists of a round add to, and which of these lists may still enter.

Pure. Both follow from what the task knows of its experiments, which stays as it is while lists enter; so each is found once for all
users who ask the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from streammetrics.event_time import DAY_MS, FOREVER, NEVER
from streammetrics.events.model import Labels
from streammetrics.experiment_lives import WHOLE, Earlier, ExperimentRules, Life, is_behind
from streammetrics.experiments.interleaving import INTERLEAVED
from streammetrics.state import StoredTotals
from streammetrics.task import TaskState

Cell: TypeAlias = tuple[int, int]
"""A scope: the number of the life, and the day."""


class Arm:
    """A variant in one scope of a life, and the rows of those of its users who change in the round.

    `newcomer` is what a user begins with there, and `newcomers` how many do so. It is `special` where more is known of users than lists
    and sums: a time before, or credit for teams.
    """

    __slots__ = ("cell", "changed", "life", "newcomer", "newcomers", "scope", "special", "variant")

    def __init__(self, life: Life, day: int, variant: str) -> None:
        self.life, self.variant, self.scope = life, variant, life.scope(day)
        self.cell: Cell = (life.number, day)
        self.newcomer: StoredTotals = (life.number, day, variant, 0, b"", [])
        self.newcomers = 0
        self.changed: list[int] = []
        self.special = life.earlier is not None or variant == INTERLEAVED


class Course(NamedTuple):
    """Where lists with the same experiments go that are shown at or between two times of one day (ms)."""

    first: int
    last: int
    arms: list[Arm]


_NO_COURSE: Final = Course(FOREVER, NEVER, [])


class Courses:
    """All that are found in one round."""

    def __init__(self, state: TaskState, rules: ExperimentRules, pane_ms: int, labels: Sequence[Labels]) -> None:
        self.labels = labels
        self.state, self.rules, self.pane_ms = state, rules, pane_ms
        self.day_from = NEVER if state.oldest_kept == NEVER else state.oldest_kept // DAY_MS
        self._known: dict[tuple[int, int], Course] = {}
        self._arms: dict[tuple[int, int, str], Arm] = {}
        self._lasting: dict[Cell | Earlier, bool] = {}

    def at(self, number: int, ts: int) -> Course:
        """The course of a list; `number` is that of its experiments among `labels`."""
        key = (number, ts // DAY_MS)
        course = self._known.get(key, _NO_COURSE)
        if not course.first <= ts <= course.last:
            course = self._known[key] = self._find(self.labels[number], ts)
        return course

    def _find(self, labels: Labels, ts: int) -> Course:
        day, counted_from, arms = ts // DAY_MS, self.state.counted_from, []
        first, last = day * DAY_MS, (day + 1) * DAY_MS - 1
        for experiment, variant in labels:
            life, span = self.state.lives.at(experiment, ts), self.rules.span(experiment)
            if life is None or not span.holds(ts) or ts < counted_from:
                first = last = ts
                continue
            first, last = max(first, life.first, span.first, counted_from), min(last, life.last, span.last)
            if not life.scopes:
                life.earlier = self.rules.before(life)
            arms += [self.arm(life, scope, variant) for scope in ((WHOLE, day) if day >= self.day_from else (WHOLE,))]
        return Course(first, last, arms)

    def arm(self, life: Life, day: int, variant: str) -> Arm:
        """The one arm of a variant in a scope."""
        key = (life.number, day, variant)
        arm = self._arms.get(key)
        if arm is None:
            arm = self._arms[key] = Arm(life, day, variant)
        return arm

    def lasts(self, cell: Cell) -> bool:
        """Whether some list may still enter a scope: it is there, and its end is not yet behind all lists that have entered."""
        lasts = self._lasting.get(cell)
        if lasts is None:
            lasts = self._lasting[cell] = self._may_be_entered(*cell)
        return lasts

    def _may_be_entered(self, number: int, day: int) -> bool:
        life = self.state.lives.of_number.get(number)
        if life is None or (day != WHOLE and day < self.day_from):
            return False
        last = self.rules.span(life.experiment).last
        if day != WHOLE:
            last = min(last, (day + 1) * DAY_MS - 1)
        return not is_behind(last, self.pane_ms, self.state.entered_before)

    def is_wanted(self, earlier: Earlier) -> bool:
        """Whether a life has covariates of a time, or may still come to have them."""
        if earlier not in self._lasting:
            self._lasting[earlier] = self._may_be_asked_for(earlier)
        return self._lasting[earlier]

    def _may_be_asked_for(self, earlier: Earlier) -> bool:
        rules, entered = self.rules, self.state.entered_before
        if is_behind(rules.span(earlier.experiment).last, self.pane_ms, entered):
            return False
        if any(life.earlier == earlier for life in self.state.lives.of_name.get(earlier.experiment, ())):
            return True
        return earlier in rules.earlier and (
            earlier.start_ms + rules.idle_ms >= entered
            or any(not life.scopes and rules.in_time(earlier, life) for life in self.state.lives.of_name.get(earlier.experiment, ()))
        )
