"""A share that changed, in words: when, from what to what, and the settings that settle it, as TOML. Values in, text out. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from streammetrics.experiments.arrivals import Arrivals
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.share_changes import ShareChange, ShareSegment
from streammetrics.experiments.stages import STAGES_MAX, Stage
from streammetrics.experiments.toml_text import stages_text, time_text, under
from streammetrics.experiments.words import chance, percent

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
    def is_outage(self) -> bool:
        """Whether the share returns to where it was, is 0 in between, or changes more often than in a rollout."""
        inner = self.compared
        shares = [each.share for each in inner]
        threes = zip(shares, shares[1:], shares[2:], strict=False)
        returns = any(abs(first - third) <= abs(first - second) / 4 for first, second, third in threes)
        return returns or len(inner) > SEGMENTS_OF_ROLLOUT or not all(each.control and each.treatment for each in inner)


def change_words(changed: Changed, policy: Policy) -> str:
    """Say why the treatment is not compared, and which settings settle it."""
    where = "" if changed.stage is None else f"in stage {changed.stage.name}: "
    result = f"so {changed.control} and {changed.treatment} are not compared"
    return ". ".join([f"{where}{facts(changed, policy)}, {result}", *_renamed(changed), *_advice(changed, policy)])


def facts_and_advice(changed: Changed, policy: Policy) -> str:
    """Say what changed, and which settings settle it."""
    return ". ".join([facts(changed, policy), *_renamed(changed), *_advice(changed, policy)])


def facts(changed: Changed, policy: Policy) -> str:
    """Say what changed, when, and that the arms' users are of different times."""
    parts, segments, inner = list[str](), changed.change.segments, changed.compared
    if not inner:
        return f"{changed.control} and {changed.treatment} have no new {policy.unit}s of the same times"
    if segments[0] is not inner[0]:
        parts.append(_began_late(changed, policy, segments[0]))
    if len(inner) > 1:
        parts.append(_split_words(changed, policy, inner))
    if segments[-1] is not inner[-1]:
        parts.append(_ended(changed, policy, inner[-1], segments[-1]))
    return "; ".join(parts)


def _split_words(changed: Changed, policy: Policy, inner: Sequence[ShareSegment]) -> str:
    new = "new users" if policy.unit == "user" else "lists"
    likely, arms = chance(math.exp(-changed.change.evidence)), f"{changed.control} and {changed.treatment}"
    if len(inner) > SEGMENTS_OF_ROLLOUT:
        low, high = (percent(function(each.share for each in inner)) for function in (min, max))
        return (
            f"the split of {arms} changed {len(inner) - 1} times from {utc(inner[1].start_ms)} to {utc(inner[-1].start_ms)}: between {low}"
            f" and {high} of the {new} had {changed.treatment} ({likely})"
        )
    shares = [percent(each.share) for each in inner]
    shown = f"{shares[0]} of the {new} had {changed.treatment} before, " + "".join(f"{each} then, " for each in shares[1:-1])
    times = _and([utc(each.start_ms) for each in inner[1:]])
    return f"the split of {arms} changed at about {times}: {shown.removesuffix(', ')} and {shares[-1]} after ({likely})"


def _began_late(changed: Changed, policy: Policy, first: ShareSegment) -> str:
    late, other = (changed.control, changed.treatment) if first.control == 0 else (changed.treatment, changed.control)
    count = first.control + first.treatment
    return f"{late} joined late: it had no {policy.unit} before {utc(first.end_ms)}, when {other} had {count:,} already"


def _ended(changed: Changed, policy: Policy, before: ShareSegment, last: ShareSegment) -> str:
    gone, share = (changed.control, 1 - before.share) if last.control == 0 else (changed.treatment, before.share)
    expected = (last.control + last.treatment) * share / (1 - share)
    new = "new user" if policy.unit == "user" else "list"
    return f"{gone} has had no {new} since {utc(last.start_ms)} (about {expected:,.0f} were expected): it has ended or is not logged"


def _renamed(changed: Changed) -> list[str]:
    """Ask whether an arm that disappeared has a new name: that of a variant that appeared about then."""
    block_ms, pair = changed.arrivals.block_ms, (changed.control, changed.treatment)
    spans = {name: (min(blocks), max(blocks)) for name, blocks in changed.arrivals.counts.items() if blocks}
    newest = max(last for _, last in spans.values())
    return [
        f"{later} appeared at about {utc(first * block_ms)}, when {gone} disappeared: was it renamed?"
        for gone in pair
        for later, (first, _) in sorted(spans.items())
        if spans[gone][1] < newest and abs(first - spans[gone][1]) <= 1 and later != gone and first > spans[gone][0]
    ]


def _advice(changed: Changed, policy: Policy) -> list[str]:
    """Return the settings that settle it, as a sentence; empty if there are none."""
    segments, inner = changed.change.segments, changed.compared
    if not inner:
        return []
    if changed.is_outage:
        return ["This looks like an outage of one of them, or like an assignment that goes back and forth"]
    settings, aims = list[str](), list[str]()
    if segments[0] is not inner[0]:
        settings.append(f"start = {time_text(inner[0].start_ms)}")
        aims.append("from then on")
    if segments[-1] is not inner[-1]:
        settings.append(f"end = {time_text(inner[-1].end_ms)}")
        aims.append("up to then")
    if stages := proposed_stages(changed, policy) if len(inner) > 1 else ():
        settings.append(stages_text(stages) + (" instead of shares" if policy.shares else ""))
    if not settings:
        return []
    purpose = "If this is a rollout" if stages else f"To compare them {_and(aims)}"
    return [set_again(purpose, changed.experiment, settings)]


def compare_from(experiment: str, start_ms: int) -> str:
    """Return the setting that leaves out the time before an arm joined."""
    return set_again("To compare them from then on", experiment, [f"start = {time_text(start_ms)}"])


def set_again(purpose: str, experiment: str, settings: Sequence[str]) -> str:
    """Return a sentence that names settings, each a line of TOML. Lists that count already are counted again by a replay."""
    return f"{purpose}, set {under(experiment, *settings)}, and count the log again with `streammetrics replay`"


def proposed_stages(changed: Changed, policy: Policy) -> tuple[Stage, ...]:
    """Return the stages of a rollout with the shares seen, in place of the stage that changed; empty if they cannot be told."""
    if policy.stage_label is not None or changed.is_outage:
        return ()
    shares = [_shares(changed, each) for each in changed.compared]
    if not all(all(each.values()) for each in shares):
        return ()
    stages = list[Stage]()
    known = policy.stages or (Stage(name="", shares={}),)
    for stage in known:
        if policy.stages and stage != changed.stage:
            stages.append(stage)
            continue
        for number, (segment, own) in enumerate(zip(changed.compared, shares, strict=True), 1):
            name = f"{stage.name} {number}" if policy.stages else f"stage {number}"
            stages.append(Stage(name=name, shares=own, start_ms=stage.start_ms if number == 1 else segment.start_ms))
    return tuple(stages) if len(stages) <= STAGES_MAX else ()


def _shares(changed: Changed, segment: ShareSegment) -> dict[str, float]:
    """Return the shares of all arms in a segment, with three digits. The greatest is what others leave."""
    block_ms, of_arms = changed.arrivals.block_ms, changed.arrivals.counts
    first, end = segment.start_ms // block_ms, segment.end_ms // block_ms
    counts = {arm: sum(count for block, count in of_arms.get(arm, {}).items() if first <= block < end) for arm in changed.arms}
    total = sum(counts.values())
    shares = {arm: float(f"{count / total:.3g}") for arm, count in counts.items()}
    greatest = max(shares, key=lambda arm: counts[arm])
    return shares | {greatest: round(1 - sum(share for arm, share in shares.items() if arm != greatest), 9)}


def _is_between(one: float, value: float, other: float) -> bool:
    return min(one, other) <= value <= max(one, other)


def utc(at_ms: int) -> str:
    """Return a time to the minute.

    >>> utc(1_732_183_200_123)
    '2024-11-21 10:00 UTC'
    """
    return f"{datetime.fromtimestamp(at_ms // 1_000, UTC):%Y-%m-%d %H:%M} UTC"


def _and(texts: Collection[str]) -> str:
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last
