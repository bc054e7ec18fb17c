"""The values of an explanation: what contributes to a difference, by segment value and rank, and since when. Nothing is computed here."""

from __future__ import annotations

from dataclasses import dataclass

from streammetrics.words.sentences import Part


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
