"""Which start, end and stages fit how the shares of the arms changed. Segments in, settings out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from streammetrics.experiments.arrivals import Arrivals
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.proposed_settings import Proposal
from streammetrics.experiments.share_changes import ShareChange, ShareSegment
from streammetrics.experiments.stages import STAGES_MAX, Stage

SEGMENTS_OF_ROLLOUT: Final = 4
"""A rollout has at most so many steps. More look like outages."""


class Changed(NamedTuple):
    """A treatment whose share changed, and what its words need. `arms`: the control first. stage: None without stages."""

    experiment: str
    control: str
    treatment: str
    change: ShareChange
    arrivals: Arrivals
    arms: tuple[str, ...]
    stage: Stage | None = None

    @property
    def compared(self) -> tuple[ShareSegment, ...]:
        """The segments without those at the beginning and at the end in which only one arm has arrivals.

        An arm that begins or ends within a block leaves a segment of this block alone, with a share in between. It is left out, too.
        """
        segments, block_ms = self.change.segments, self.arrivals.block_ms
        both = [number for number, each in enumerate(segments) if each.control and each.treatment]
        if not both:
            return ()
        first, last = both[0], both[-1]
        short = [each.end_ms - each.start_ms == block_ms for each in segments]
        shares = [each.share for each in segments]
        if 0 < first < last and short[first] and _is_between(shares[first - 1], shares[first], shares[first + 1]):
            first += 1
        if first < last < len(segments) - 1 and short[last] and _is_between(shares[last - 1], shares[last], shares[last + 1]):
            last -= 1
        return segments[first : last + 1]

    @property
    def joins_late(self) -> bool:
        """Whether one arm has no arrivals at the beginning."""
        return bool(self.compared) and self.compared[0] is not self.change.segments[0]

    @property
    def ends_early(self) -> bool:
        """Whether one arm has no arrivals at the end."""
        return bool(self.compared) and self.compared[-1] is not self.change.segments[-1]

    @property
    def is_outage(self) -> bool:
        """Whether the share returns to where it was, is 0 in between, or changes more often than in a rollout."""
        inner = self.compared
        shares = [each.share for each in inner]
        threes = zip(shares, shares[1:], shares[2:], strict=False)
        returns = any(abs(first - third) <= abs(first - second) / 4 for first, second, third in threes)
        return returns or len(inner) > SEGMENTS_OF_ROLLOUT or not all(each.control and each.treatment for each in inner)


def propose(changes: Sequence[Changed], policy: Policy, end_ms: int | None = None) -> Proposal | None:
    """Return the settings that fit these changes of one experiment; None if there are none.

    Outages have none, and stages by label have no times. end_ms: when an arm has stopped, if it has.
    """
    usable = [each for each in changes if each.compared and not each.is_outage]
    start = max((each.compared[0].start_ms for each in usable if each.joins_late), default=None)
    ends = [each.compared[-1].end_ms for each in usable if each.ends_early]
    end = min([*ends, *([] if end_ms is None else [end_ms])], default=None)
    has_steps = any(len(each.compared) > 1 for each in usable)
    found = Proposal(start, end, _stages(usable, policy) if has_steps and policy.stage_label is None else ())
    return found if found.settings else None


def _stages(changes: Sequence[Changed], policy: Policy) -> tuple[Stage, ...]:
    """Return all stages, with several in the place of one that changed; empty if an arm has no arrivals in one of them, or if they are
    too many.
    """
    stages = list[Stage]()
    for stage in policy.stages or (None,):
        own = [each for each in changes if each.stage == stage]
        parts = [*_parts(own, stage)] if any(len(each.compared) > 1 for each in own) else [stage]
        if not all(each is not None and all(each.shares.values()) for each in parts):
            return ()
        stages += [each for each in parts if each is not None]
    return tuple(stages) if len(stages) <= STAGES_MAX else ()


def _parts(changes: Sequence[Changed], stage: Stage | None) -> Iterator[Stage]:
    """Yield a stage for each span in which no share changed."""
    first, end = max(each.compared[0].start_ms for each in changes), min(each.compared[-1].end_ms for each in changes)
    times = sorted({segment.start_ms for each in changes for segment in each.compared[1:] if first < segment.start_ms < end})
    for number, (from_ms, to_ms) in enumerate(pairwise([first, *times, end]), 1):
        name = f"stage {number}" if stage is None else f"{stage.name} {number}"
        start_ms = from_ms if number > 1 else None if stage is None else stage.start_ms
        yield Stage(name=name, shares=_shares(changes[0], from_ms, to_ms), start_ms=start_ms)


def _shares(changed: Changed, from_ms: int, to_ms: int) -> dict[str, float]:
    """Return the shares of all arms in a span, with three digits. The greatest is what others leave."""
    block_ms, of_arms = changed.arrivals.block_ms, changed.arrivals.counts
    first, end = from_ms // block_ms, to_ms // block_ms
    counts = {arm: sum(count for block, count in of_arms.get(arm, {}).items() if first <= block < end) for arm in changed.arms}
    total = sum(counts.values()) or 1
    shares = {arm: float(f"{count / total:.3g}") for arm, count in counts.items()}
    greatest = max(shares, key=lambda arm: counts[arm])
    return shares | {greatest: round(1 - sum(share for arm, share in shares.items() if arm != greatest), 9)}


def _is_between(one: float, value: float, other: float) -> bool:
    return min(one, other) <= value <= max(one, other)
