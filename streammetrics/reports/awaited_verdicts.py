"""Experiments without a verdict yet: when the first one comes, and how the variants compare so far in live lists. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from streammetrics.reports.experiment_view import ExperimentView
from streammetrics.reports.first_verdict import FirstVerdictWait
from streammetrics.windows.panes import GroupValues, Window
from streammetrics.words.names import isolated
from streammetrics.words.numbers import percent
from streammetrics.words.times import span_text

LISTS_MIN: Final = 100
"""Live lists that each variant needs for a lift. With fewer, it says nothing."""


@dataclass(frozen=True, slots=True)
class LiveLift:
    """How a variant compares with the control in live lists. There is no interval: these lists still gather feedback."""

    variant: str
    lift: float
    lists: int


@dataclass(frozen=True, slots=True)
class Awaited:
    """An experiment without a verdict as a report shows it, with sentences about when it comes and what its live lists say."""

    experiment: str
    first_verdict_ms: int | None
    control: str | None
    measure: str | None
    live_lifts: tuple[LiveLift, ...]
    sentences: tuple[str, ...]


class AwaitedVerdict(NamedTuple):
    """An experiment that has live lists and no statistics. `first_ms` is the time of its first lists, if it is known.

    `lifts` compare its variants with the control by one measure, over the lists of the live window. They are empty without a control, and
    as long as the lists are few.
    """

    experiment: str
    first_ms: int | None
    wait: FirstVerdictWait
    control: str | None = None
    measure: str = ""
    window_ms: int = 0
    control_lists: int = 0
    lifts: tuple[LiveLift, ...] = ()

    def sentences(self) -> Iterator[str]:
        """Yield when a verdict comes, and the lifts so far.

        >>> wait = FirstVerdictWait(1_865_000, 600_000)
        >>> lifts = LiveLift("treatment", -0.1234, 1_204),
        >>> for each in AwaitedVerdict("ranker", 1_772_366_400_000, wait, "control", "ndcg@10", 3_600_000, 1_188, lifts).sentences():
        ...     print(each)
        The first verdict comes between 2026-03-01 12:31 UTC and 2026-03-01 12:41 UTC, or later if \
users are few: lists are final 31 min after they were shown \
(join.attribution_ms, lateness_ms and out_of_orderness_ms), and users are counted up to 10 min later (experiments.patience_ms).
        Live, without confidence: treatment has 12.3 % lower ndcg@10 than control (1,204 and 1,188 lists of the last 60 min). These lists \
still gather feedback, so this may change.
        """
        if self.first_ms is None:
            yield self.wait.sentence()
        else:
            between = f"between {self.wait.at_text(self.first_ms)}"
            yield f"The first verdict comes {between}, or later if users are few: {self.wait.reason}."
        if self.lifts:
            compared = "; ".join(map(self._compared, self.lifts))
            yield f"Live, without confidence: {compared}. These lists still gather feedback, so this may change."

    def _compared(self, lift: LiveLift) -> str:
        word = "lower" if lift.lift < 0 else "higher"
        lists = f"({lift.lists:,} and {self.control_lists:,} lists of the last {span_text(self.window_ms)})"
        return f"{isolated(lift.variant)} has {percent(abs(lift.lift))} {word} {self.measure} than {isolated(str(self.control))} {lists}"

    def shown(self) -> Awaited:
        """Return what a report shows."""
        first_ms = None if self.first_ms is None else self.first_ms + self.wait.final_ms
        return Awaited(self.experiment, first_ms, self.control, self.measure or None, self.lifts, tuple(self.sentences()))


def awaited_verdicts(
    windows: Sequence[Window],
    experiments: Collection[str],
    view: ExperimentView,
    wait: FirstVerdictWait,
    first_of: Callable[[str], int | None],
) -> Iterator[AwaitedVerdict]:
    """Yield the experiments of the longest live window that are not `known`. `first_of` returns the time of an experiment's first lists."""
    live = max(
        (window for window in windows if window.view == "live" and window.complete), key=lambda window: window.window_ms, default=None
    )
    arms: dict[str, dict[str, GroupValues]] = {}
    for values in () if live is None else live.groups:
        group = values.group
        if group.experiment and not group.segment and group.experiment not in experiments:
            arms.setdefault(group.experiment, {})[group.variant] = values
    for experiment, of_variant in arms.items():
        bare = AwaitedVerdict(experiment, first_of(experiment), wait)
        control = view.policy(experiment).control_of(of_variant)
        of_control = None if control is None else of_variant.get(control)
        measure = next((name for name in view.deciding(experiment) if of_control is not None and of_control.values.get(name)), None)
        if live is None or of_control is None or measure is None or of_control.lists < LISTS_MIN:
            yield bare
            continue
        lifts = tuple(
            LiveLift(variant, values.values[measure] / of_control.values[measure] - 1, values.lists)
            for variant, values in of_variant.items()
            if variant != control and values.lists >= LISTS_MIN and measure in values.values
        )
        yield bare._replace(control=control, measure=measure, window_ms=live.window_ms, control_lists=of_control.lists, lifts=lifts)
