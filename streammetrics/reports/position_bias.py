"""The examination curve of all tasks, and DCG corrected by it for each variant. Estimates, as their names say. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import numpy as np

from streammetrics.engine.task_state import ControlRecord
from streammetrics.experiments.name_order import group_order
from streammetrics.metrics.arrays import Floats
from streammetrics.metrics.corrected_dcg import DEFAULT_SPEC, corrected_weights, discount_weights, gains_of_grades
from streammetrics.metrics.examination import ExaminationCurve, RankExamination, examination_curve
from streammetrics.metrics.spec import Spec
from streammetrics.windows.examination import NO_LIMIT, ExaminationRules, ItemCounts, VariantGrades, decode_counts, merged_counts

WithheldReason: TypeAlias = Literal["tasks_apart", "other_settings"]
WITHHELD: Final[dict[WithheldReason, str]] = {
    "tasks_apart": "the tasks are more than a period apart in event time",
    "other_settings": "tasks count items with other settings of position_bias, until their next commit",
}
"""Why there is no curve at all."""
NO_CONTEXT: Final = (
    "position_bias.context is empty, so each item counts as equally attractive to all users; where rankers show an item higher to users"
    " who like it more, the curve falls too fast: name the segments within which it is, such as query"
)
"""A warning beside the numbers. For personal or search results without a context they may be wrong by a factor of two."""

StoredPeriod: TypeAlias = tuple[str, ItemCounts, dict[tuple[str, str], VariantGrades]]
"""Rules, counts and variants of one task and period."""


@dataclass(frozen=True, slots=True)
class PositionBiasView:
    """How to show position bias: what is counted, the cut-offs of corrected DCG, and the definition of DCG."""

    rules: ExaminationRules
    cutoffs: tuple[int, ...]
    spec: Spec = DEFAULT_SPEC


@dataclass(frozen=True, slots=True)
class VariantDcg:
    """DCG of a variant's lists, plain and corrected, by name. Corrected DCG is an estimate, and absent beyond the curve."""

    experiment: str
    variant: str
    lists: int
    dcg: Mapping[str, float]
    corrected_dcg: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPositionBias:
    """Position bias as a report shows it; see `PositionBias`. All of it is an estimate. `withheld` and `caution` are sentences."""

    from_ms: int | None
    withheld: str | None
    caution: str | None
    items: int
    shared_items: int
    sampled_share: float
    confidence: float | None
    ranks: tuple[RankExamination, ...]
    variants: tuple[VariantDcg, ...]
    is_estimate: Literal[True] = True


@dataclass(frozen=True, slots=True)
class PositionBias:
    """The examination curve of the final lists of experiments, from `from_ms` (None: no lists) to the newest that all tasks have entered.

    `sampled_share`: share of items that are counted; 1 below the limit `position_bias.items_max`. `withheld`: why there is no curve.
    `caution`: why the numbers may mislead; None if nothing says so.
    """

    curve: ExaminationCurve | None
    variants: tuple[VariantDcg, ...] = ()
    from_ms: int | None = None
    sampled_share: float = 1.0
    withheld: WithheldReason | None = None
    caution: str | None = None

    def shown(self) -> ShownPositionBias:
        """Return what a report shows."""
        curve = self.curve
        return ShownPositionBias(
            from_ms=self.from_ms,
            withheld=None if self.withheld is None else WITHHELD[self.withheld],
            caution=self.caution,
            items=0 if curve is None else curve.items,
            shared_items=0 if curve is None else curve.shared_items,
            sampled_share=self.sampled_share,
            confidence=None if curve is None else curve.confidence,
            ranks=() if curve is None else curve.ranks,
            variants=self.variants,
        )


@dataclass(slots=True)
class PositionBiasReader:
    """Reads the stored counts of tasks. Values that have not changed are not decoded again. `view`: None if nothing is shown."""

    view: PositionBiasView | None
    _stored: dict[int, dict[int, bytes]] = field(default_factory=dict)
    _decoded: dict[tuple[int, int], tuple[bytes, StoredPeriod]] = field(default_factory=dict)

    def update(self, task: int, periods: Mapping[str, bytes]) -> None:
        """Update from the stored values of a task."""
        self._stored[task] = {int(period): value for period, value in periods.items()}

    def read(self, tasks: int, controls: Iterable[ControlRecord], newest: int) -> PositionBias | None:
        """Return the curve of all tasks: of the period that lists are enrolled in, and the one before. `newest`: see `newest_shown`."""
        if self.view is None:
            return None
        rules = self.view.rules
        period_ms = rules.period_ms
        ends = [min(control.enrolment.enrolled_before - 1, newest) for control in controls]
        if not ends or min(ends) < 0:
            return PositionBias(None)
        last = min(ends) // period_ms
        if max(ends) // period_ms - last > 1:
            return PositionBias(None, withheld="tasks_apart")
        parts = [self._period(task, period) for task in range(tasks) for period in (last - 1, last) if period in self._stored.get(task, ())]
        if any(made_by != rules.describe() for made_by, _, _ in parts):
            return PositionBias(None, withheld="other_settings")
        counts = merged_counts([counts for _, counts, _ in parts])
        curve = examination_curve(counts.items, counts.ranks, counts.shows, counts.clicks, ranks_max=rules.ranks)
        started = [period for of_task in self._stored.values() for period in of_task if period in (last - 1, last)]
        return PositionBias(
            curve,
            tuple(_variants(self.view, curve, [grades for _, _, grades in parts])),
            min(started) * period_ms if started else None,
            counts.limit / NO_LIMIT,
            caution=None if rules.context else NO_CONTEXT,
        )

    def _period(self, task: int, period: int) -> StoredPeriod:
        value = self._stored[task][period]
        known = self._decoded.get((task, period))
        if known is None or known[0] is not value:
            known = self._decoded[task, period] = value, decode_counts(value)
        for key in [key for key in self._decoded if key[1] not in self._stored.get(key[0], ())]:
            del self._decoded[key]
        return known[1]


def _variants(
    view: PositionBiasView, curve: ExaminationCurve, parts: Iterable[Mapping[tuple[str, str], VariantGrades]]
) -> Iterator[VariantDcg]:
    """Return the DCG of each variant: sum over places and grades of count x gain x weight, over its lists."""
    merged: dict[tuple[str, str], VariantGrades] = {}
    for part in parts:
        for arm, grades in part.items():
            merged.setdefault(arm, VariantGrades()).add(grades)
    spec, cutoffs = view.spec, [k for k in view.cutoffs if k <= view.rules.ranks]
    for (experiment, variant), grades in sorted(merged.items(), key=lambda each: group_order(each[0])):
        gains = np.zeros(view.rules.ranks)
        for (place, grade), count in sorted(grades.by_place.items()):
            gains[place] += count * float(gains_of_grades([grade], spec)[0])
        yield VariantDcg(
            experiment,
            variant,
            grades.lists,
            {f"dcg@{k}": _mean(gains, discount_weights(k, spec), grades.lists) for k in cutoffs},
            {f"dcg@{k}": _mean(gains, corrected_weights(curve, k, spec), grades.lists) for k in cutoffs if k <= curve.known_to},
        )


def _mean(gains: Floats, weights: Floats, lists: int) -> float:
    return float(gains[: len(weights)] @ weights / lists)
