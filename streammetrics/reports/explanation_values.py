"""An explanation as values and in sentences: what contributes to a difference, by segment value and rank, and since when. Pure.

The sentences name only what is certain. `explanation` computes the values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from streammetrics.metrics.names import metric_text
from streammetrics.words.numbers import percent
from streammetrics.words.sentences import Part, Words, join, measure_name, named, say
from streammetrics.words.times import minute_text

MOST: Final = 2 / 3
"""The share of a difference that the named ranks have at least."""
MIX_MIN: Final = 0.05
"""The least share of a difference that moved lists are said to make."""
MOVES_MAX: Final = 3
"""Most values of a segment that are named because lists moved."""


@dataclass(frozen=True, slots=True)
class SegmentValue:
    """One value of a segment in both arms. Unknown values are None.

    share: its part of the lists, or items, of both arms. lift_lower, lift_upper: one look, error shared by all values of the segment.
    within, mix, contribution: exact; `contribution` is their sum.
    moved, others_lift: what is certain of it (see `experiments.named_values`): its lists moved; its lift differs from that of all others.
    """

    value: str
    lists: int
    control_lists: int
    share: float
    mean: float | None
    control_mean: float | None
    lift: float | None
    lift_lower: float | None
    lift_upper: float | None
    within: float
    mix: float
    contribution: float
    moved: bool = False
    others_lift: float | None = None

    @property
    def is_named(self) -> bool:
        return self.moved or self.others_lift is not None


@dataclass(frozen=True, slots=True)
class SegmentContributions:
    """The contributions of a segment's values, by size, and of the `others` that are not shown.

    stands_out: whether a value is named: it differs from the others by more than noise. Otherwise their order means nothing.
    """

    segment: str
    stands_out: bool
    values: tuple[SegmentValue, ...]
    others: int
    others_contribution: float


@dataclass(frozen=True, slots=True)
class RankContribution:
    """The contribution of the ranks from `first` to `last`, exact."""

    first: int
    last: int
    contribution: float


@dataclass(frozen=True, slots=True)
class Onset:
    """A change of the difference: the most likely event time (epoch ms), a span that has it with 90 %, and the differences around it."""

    at_ms: int
    first_ms: int
    last_ms: int
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a variant differs from the control in one measure: exploratory, and about the final lists with from_ms <= ts < end_ms.

    difference: of the means of these lists, all users included. The contributions of each segment add up to it.
    ranks_of: the family of the measure at the same cut-off whose difference the `ranks` add up to; None if none is tallied.
    onset: None if it is unknown. summary: sentences about what is certain; empty if nothing is. summary_parts: their parts.
    unknown: the sentence in their place if nothing is certain, with the time that was looked at.
    """

    experiment: str
    variant: str
    against: str
    metric: str
    k: int
    from_ms: int
    end_ms: int
    lists: int
    control_lists: int
    mean: float
    control_mean: float
    difference: float
    segments: tuple[SegmentContributions, ...]
    ranks_of: str | None
    ranks: tuple[RankContribution, ...]
    onset: Onset | None
    summary: tuple[str, ...]
    summary_parts: tuple[tuple[Part, ...], ...] = ()
    unknown: str = ""


def summary_of(explanation: Explanation) -> Iterator[Words]:
    """Yield the sentences about what is certain of a difference; none if nothing is."""
    if not explanation.difference:
        return
    direction = "drop" if explanation.difference < 0 else "rise"
    for segment in explanation.segments:
        yield from _effects(explanation, segment, direction)
        yield from _moves(explanation, segment, direction)
    yield from _ranks(explanation, direction)
    if explanation.onset is not None:
        first, last = minute_text(explanation.onset.first_ms), minute_text(explanation.onset.last_ms)
        at = minute_text(explanation.onset.at_ms)
        between = "" if first == last else " (between {first} and {last})"
        yield say(f"the difference changed at about {{at}}{between}", at=at, first=first, last=last)


def unknown_text(explanation: Explanation) -> str:
    """Say that nothing about a difference is certain, and where that was looked for."""
    between = f"between {minute_text(explanation.from_ms)} and {minute_text(explanation.end_ms)}"
    return f"no value of a segment, no rank and no time of a change stands out in the lists {between}"


def _effects(explanation: Explanation, segment: SegmentContributions, direction: str) -> Iterator[Words]:
    """Say which values differ from all others: first how much of the difference they have, then those that go the other way."""
    for value in segment.values:
        if value.others_lift is None or value.lift is None:
            continue
        part = say("{segment}={value}", segment=named(segment.segment), value=named(value.value))
        lifts = say("{there} there, {elsewhere} elsewhere", there=_lift(value.lift), elsewhere=_lift(value.others_lift))
        share = value.contribution / explanation.difference
        if share > 0 and value.lift * explanation.difference > 0:
            yield say(
                "{share} of the {direction} is on {part}, which has {lists} of the lists ({lifts})",
                share=percent(share),
                direction=direction,
                part=part,
                lists=percent(value.share),
                lifts=lifts,
            )
        else:
            yield say("{part} goes the other way ({lifts})", part=part, lifts=lifts)


def _moves(explanation: Explanation, segment: SegmentContributions, direction: str) -> Iterator[Words]:
    """Say to and from which values lists moved, which value only one arm has, and which arm lost its label."""
    moved = sorted((value for value in segment.values if value.moved), key=lambda value: -abs(_shift(explanation, value)))
    parts = []
    for value in moved:
        share, control = value.lists / explanation.lists, value.control_lists / explanation.control_lists
        mix = value.mix / explanation.difference
        why = say(", {mix} of the {direction} by this", mix=percent(mix), direction=direction) if mix >= MIX_MIN else ""
        name = named(segment.segment)
        if not value.value:
            more, less = (explanation.variant, explanation.against) if share > control else (explanation.against, explanation.variant)
            lost, rest = percent(max(share, control)), percent(min(share, control))
            told = "{lost} of the lists of {more} have no {name}, {rest} of {less}{why}"
            yield say(told, lost=lost, more=named(more), name=name, rest=rest, less=named(less), why=why)
        elif not share or not control:
            only = explanation.variant if share else explanation.against
            told, lists = "only {only} has {name}={value}, in {lists} of its lists{why}", percent(share or control)
            yield say(told, only=named(only), name=name, value=named(value.value), lists=lists, why=why)
        else:
            part = "{value} has {own} of the lists of {variant} and {control} of {against}{why}"
            arms = {"variant": named(explanation.variant), "against": named(explanation.against)}
            parts.append(say(part, value=named(value.value), own=percent(share), control=percent(control), why=why, **arms))
    if parts:
        more = f" ({len(parts) - MOVES_MAX} more)" if len(parts) > MOVES_MAX else ""
        moves = join(parts[:MOVES_MAX], ", ")
        yield say("lists moved between values of {segment}: {moves}{more}", segment=named(segment.segment), moves=moves, more=more)


def _shift(explanation: Explanation, value: SegmentValue) -> float:
    return value.lists / explanation.lists - value.control_lists / explanation.control_lists


def _lift(lift: float) -> Words:
    return say("{sign}{size}", sign="+" if lift >= 0 else "-", size=percent(abs(lift)))


def _ranks(explanation: Explanation, direction: str) -> Iterator[Words]:
    """Name the fewest neighbouring bands of ranks that have MOST of the difference."""
    total = sum(rank.contribution for rank in explanation.ranks)
    if not explanation.ranks or total * explanation.difference <= 0:
        return
    parts = [rank.contribution / total for rank in explanation.ranks]
    runs = [(end - start, -sum(parts[start:end]), start) for start in range(len(parts)) for end in range(start + 1, len(parts) + 1)]
    length, share, start = min(run for run in runs if -run[1] >= MOST)
    ranks = RankContribution(explanation.ranks[start].first, explanation.ranks[start + length - 1].last, 0.0)
    metric = measure_name(metric_text(explanation.ranks_of or "", explanation.ranks[-1].last))
    if length == len(parts):
        return
    others = "" if -share <= 1 else f": the other ranks {'rose' if direction == 'drop' else 'fell'}"
    told = "{ranks} {share} of the {direction} in {metric}{others}"
    yield say(told, ranks=_rank_words(ranks), share=percent(-share), direction=direction, metric=metric, others=others)


def _rank_words(ranks: RankContribution) -> str:
    return f"rank {ranks.first} has" if ranks.first == ranks.last else f"ranks {ranks.first} to {ranks.last} have"
