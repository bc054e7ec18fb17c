"""What the numbers of a young stream still wait for: its first whole pane, its first final lists, its first verdicts. Pure.

It also says which settings move that, and how the variants compare so far in live lists.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from streammetrics.reports.rules import ReportRules
from streammetrics.windows.panes import GroupValues, Window, WindowRules
from streammetrics.words.names import isolated
from streammetrics.words.numbers import percent
from streammetrics.words.times import minute_text, span_text

LISTS_MIN: Final = 100
"""Live lists that each variant needs for a lift. With fewer, it says nothing."""


class FirstVerdictWait(NamedTuple):
    """How long lists wait until they are final, and how much longer until their users are counted in experiments (ms)."""

    final_ms: int
    users_ms: int

    @property
    def total_ms(self) -> int:
        return self.final_ms + self.users_ms

    def sentence(self) -> str:
        """Return what is waited for, for a log or a page.

        >>> print(FirstVerdictWait(1_865_000, 600_000).sentence())
        A first verdict comes 31 min to 41 min after the first lists, or later if users are few: lists are final 31 min after they \
were shown (join.attribution_ms, lateness_ms and out_of_orderness_ms), and users are counted up to 10 min later (experiments.patience_ms).
        """
        spans = f"{span_text(self.final_ms)} to {span_text(self.total_ms)}"
        return f"A first verdict comes {spans} after the first lists, or later if users are few: {self.reason}."

    @property
    def reason(self) -> str:
        final = (
            f"lists are final {span_text(self.final_ms)} after they were shown (join.attribution_ms, lateness_ms and out_of_orderness_ms)"
        )
        return f"{final}, and users are counted up to {span_text(self.users_ms)} later (experiments.patience_ms)"

    def at_text(self, shown_ms: int) -> str:
        """Return the times (UTC) between which the first verdict comes, if the first lists were shown at `shown_ms` and users suffice.

        >>> FirstVerdictWait(1_865_000, 600_000).at_text(1_772_366_400_000)
        '2026-03-01 12:31 UTC and 2026-03-01 12:41 UTC'
        """
        return f"{minute_text(shown_ms + self.final_ms)} and {minute_text(shown_ms + self.total_ms)}"


@dataclass(frozen=True, slots=True)
class LiveLift:
    """How a variant compares with the control in live lists. There is no interval: these lists still gather feedback."""

    variant: str
    lift: float
    lists: int


@dataclass(frozen=True, slots=True)
class AwaitedExperiment:
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
        >>> for sentence in AwaitedVerdict("ranker", 1_772_366_400_000, wait, "control", "ndcg@10", 3_600_000, 1_188, lifts).sentences():
        ...     print(sentence)
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

    def shown(self) -> AwaitedExperiment:
        """Return what a report shows."""
        first_ms = None if self.first_ms is None else self.first_ms + self.wait.final_ms
        return AwaitedExperiment(self.experiment, first_ms, self.control, self.measure or None, self.lifts, tuple(self.sentences()))


def awaited_verdicts(
    windows: Sequence[Window],
    experiments: Collection[str],
    report_rules: ReportRules,
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
        control = report_rules.policy(experiment).control_of(of_variant)
        of_control = None if control is None else of_variant.get(control)
        measure = next((name for name in report_rules.deciding(experiment) if of_control is not None and of_control.values.get(name)), None)
        if live is None or of_control is None or measure is None or of_control.lists < LISTS_MIN:
            yield bare
            continue
        lifts = tuple(
            LiveLift(variant, values.values[measure] / of_control.values[measure] - 1, values.lists)
            for variant, values in of_variant.items()
            if variant != control and values.lists >= LISTS_MIN and measure in values.values
        )
        yield bare._replace(control=control, measure=measure, window_ms=live.window_ms, control_lists=of_control.lists, lifts=lifts)


@dataclass(frozen=True, slots=True)
class FirstNumber:
    """A number that is still to come, and when (epoch ms of event time). `seconds` is how far the watermark is before that; at least 0.

    `live`: the first pane ends; until then live windows have the lists of the pane that is open. `final`: its lists are final.
    """

    number: Literal["live", "final", "verdict"]
    at_ms: int
    seconds: float


def first_numbers(first_ms: int, watermark_ms: int, rules: WindowRules, verdict_ms: int | None) -> Iterator[FirstNumber]:
    """Yield what is still to come, the earliest first.

    first_ms: the start of the first pane with lists. verdict_ms: the earliest time of a first verdict; None: no verdict is waited for.

    >>> rules = WindowRules(pane_ms=60_000, windows_ms=(300_000,), lateness_ms=60_000, attribution_ms=1_800_000)
    >>> for number in first_numbers(0, 25_000, rules, None):
    ...     print(number)
    FirstNumber(number='live', at_ms=60000, seconds=35.0)
    FirstNumber(number='final', at_ms=1920000, seconds=1895.0)
    >>> [*first_numbers(0, 1_920_000, rules, None)]
    []
    """
    live_ms = first_ms + rules.pane_ms + (rules.live_wait_ms or 0)
    final_ms = first_ms + rules.pane_ms + rules.lateness_ms + rules.attribution_ms
    if watermark_ms < live_ms:
        yield FirstNumber("live", live_ms, (live_ms - watermark_ms) / 1_000)
    if watermark_ms < final_ms:
        yield FirstNumber("final", final_ms, (final_ms - watermark_ms) / 1_000)
    if verdict_ms is not None:
        yield FirstNumber("verdict", verdict_ms, max(0, verdict_ms - watermark_ms) / 1_000)
