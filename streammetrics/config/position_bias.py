"""Settings of the examination curve: what is counted for it. Off by default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from streammetrics.config.fields import Conflict, Listed, Section, Segment, Whole, setting, whole
from streammetrics.events.event_time import DAY_MS
from streammetrics.metrics.examination import RANKS_MAX
from streammetrics.windows.examination import ExaminationRules

_RULES = ExaminationRules()


class PositionBiasSettings(Section):
    enabled: bool = setting(
        False,
        "Whether to estimate how likely users look at each rank, from the lists of experiments, and DCG corrected by it. It needs"
        " experiments.enabled.",
    )
    context: Annotated[Listed[Segment], Field(max_length=8)] = setting(
        _RULES.context,
        "Segments of a list within whose values an item attracts all users alike, such as query. They need not be in windows.segments."
        " Empty: an item is taken to attract the users of all lists alike, and results show a caution.",
        "a list of at most 8 distinct names without =",
    )
    ranks: Whole = whole(_RULES.ranks, "Ranks of the curve, from 1.", 2, RANKS_MAX)
    items_max: Whole = whole(
        _RULES.items_max,
        "Maximum distinct items (in their contexts) that a task counts in a period. Of more items, a sample is counted, chosen by hash.",
        100,
        100_000,
    )
    period_days: Whole = whole(
        _RULES.period_ms // DAY_MS, "Length of a period in days. The curve is that of the current period and the one before.", 1, 90
    )

    def conflicts(self, experiments_enabled: bool, list_items_max: int) -> Iterator[Conflict]:
        """Yield the settings that contradict those of other sections."""
        if self.enabled and not experiments_enabled:
            rule = "needs experiments.enabled: the curve is estimated from the lists of experiments"
            yield Conflict(("position_bias.enabled", "experiments.enabled"), rule)
        if self.enabled and self.ranks > list_items_max:
            yield Conflict(("position_bias.ranks", "events.items_max"), f"{self.ranks} exceeds events.items_max ({list_items_max})")

    def rules(self) -> ExaminationRules | None:
        """What is counted; None if nothing is."""
        if not self.enabled:
            return None
        return ExaminationRules(
            context=tuple(self.context), ranks=self.ranks, items_max=self.items_max, period_ms=self.period_days * DAY_MS
        )
