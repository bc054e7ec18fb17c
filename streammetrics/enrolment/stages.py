"""Which stage of a rollout a list belongs to. Pure: the answer depends only on the list's time and labels."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.events.model import Labels


class StageAt(NamedTuple):
    """The stage of a list, and the times (ms, both inclusive) between which lists with the same labels have the same answer.

    `key` is the stage; None: the list is in no stage and does not count.
    """

    key: str | None
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class StagePlan:
    """The stages of one experiment, and what is assigned to a variant.

    `starts` are the stages that begin at a time: (key, first time in ms) in order. If `label` is given instead, it is the segment whose
    value is the stage, and only `values` count. With `by_list`, each list is assigned on its own, so a user belongs to every variant that
    they saw.
    """

    starts: tuple[tuple[str, int], ...] = (("", NEVER),)
    label: str | None = None
    values: tuple[str, ...] = ()
    by_list: bool = False

    def at(self, ts: int, labels: Labels) -> StageAt:
        """Return the stage of a list. `labels` are its segments.

        >>> plan = StagePlan((("", NEVER), ("1000", 1_000)))
        >>> [plan.at(ts, ()).key for ts in (999, 1_000)]
        ['', '1000']
        >>> StagePlan(label="rollout", values=("half",)).at(5, (("rollout", "other"),)).key is None
        True
        """
        if self.label is not None:
            value = dict(labels).get(self.label)
            return StageAt(value if value in self.values else None, NEVER, FOREVER)
        number = bisect_right(self.starts, ts, key=lambda stage: stage[1])
        last = self.starts[number][1] - 1 if number < len(self.starts) else FOREVER
        return StageAt(*self.starts[number - 1], last) if number else StageAt(None, NEVER, last)
