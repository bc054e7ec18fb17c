"""A share that changed, in words: when, from what to what, and the settings that settle it. Values in, text out. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from streammetrics.experiments.policy import Policy
from streammetrics.experiments.proposals import SEGMENTS_OF_ROLLOUT, Changed, propose
from streammetrics.experiments.proposed_settings import ProposedValue
from streammetrics.experiments.share_changes import ShareSegment
from streammetrics.experiments.words import Words, advice, chance, join, named, percent, say


def change_words(changed: Changed, policy: Policy) -> str:
    """Say why the treatment is not compared, and which settings settle it."""
    where = "" if changed.stage is None else say("in stage {stage}: ", stage=named(changed.stage.name))
    result = say("so {control} and {treatment} are not compared", control=named(changed.control), treatment=named(changed.treatment))
    first = say("{where}{facts}, {result}", where=where, facts=facts(changed, policy), result=result)
    return join([first, *_renamed(changed), *_advice(changed, policy)], ". ")


def facts_and_advice(changed: Changed, policy: Policy) -> Words:
    """Say what changed, and which settings settle it."""
    return join([facts(changed, policy), *_renamed(changed), *_advice(changed, policy)], ". ")


def facts(changed: Changed, policy: Policy) -> str:
    """Say what changed, when, and that the arms' users are of different times."""
    parts, segments, inner = list[str](), changed.change.segments, changed.compared
    if not inner:
        return say(
            "{control} and {treatment} have no new {unit}s of the same times",
            control=named(changed.control),
            treatment=named(changed.treatment),
            unit=policy.unit,
        )
    if changed.joins_late:
        parts.append(_began_late(changed, policy, segments[0]))
    if len(inner) > 1:
        parts.append(_split_words(changed, policy, inner))
    if changed.ends_early:
        parts.append(_ended(changed, policy, inner[-1], segments[-1]))
    return "; ".join(parts)


def _split_words(changed: Changed, policy: Policy, inner: Sequence[ShareSegment]) -> str:
    new = "new users" if policy.unit == "user" else "lists"
    likely, arms = (
        chance(math.exp(-changed.change.evidence)),
        say("{control} and {treatment}", control=named(changed.control), treatment=named(changed.treatment)),
    )
    if len(inner) > SEGMENTS_OF_ROLLOUT:
        low, high = (percent(function(each.share for each in inner)) for function in (min, max))
        return say(
            "the split of {arms} changed {changes} times from {first} to {last}: between {low} and {high} of the {new} had {treatment}"
            " ({likely})",
            arms=arms,
            changes=len(inner) - 1,
            first=utc(inner[1].start_ms),
            last=utc(inner[-1].start_ms),
            low=low,
            high=high,
            new=new,
            treatment=named(changed.treatment),
            likely=likely,
        )
    shares = [percent(each.share) for each in inner]
    before = say("{share} of the {new} had {treatment} before", share=shares[0], new=new, treatment=named(changed.treatment))
    shown = join([before, *(f"{each} then" for each in shares[1:-1])], ", ")
    times = _and([utc(each.start_ms) for each in inner[1:]])
    return say(
        "the split of {arms} changed at about {times}: {shown} and {share} after ({likely})",
        arms=arms,
        times=times,
        shown=shown,
        share=shares[-1],
        likely=likely,
    )


def _began_late(changed: Changed, policy: Policy, first: ShareSegment) -> str:
    late, other = (changed.control, changed.treatment) if first.control == 0 else (changed.treatment, changed.control)
    count = first.control + first.treatment
    return say(
        "{late} joined late: it had no {unit} before {first}, when {other} had {count:,} already",
        late=named(late),
        unit=policy.unit,
        first=utc(first.end_ms),
        other=named(other),
        count=count,
    )


def _ended(changed: Changed, policy: Policy, before: ShareSegment, last: ShareSegment) -> str:
    gone, share = (changed.control, 1 - before.share) if last.control == 0 else (changed.treatment, before.share)
    expected = (last.control + last.treatment) * share / (1 - share)
    new = "new user" if policy.unit == "user" else "list"
    return say(
        "{gone} has had no {new} since {last} (about {expected:,.0f} were expected): it has ended or is not logged",
        gone=named(gone),
        new=new,
        last=utc(last.start_ms),
        expected=expected,
    )


def _renamed(changed: Changed) -> list[str]:
    """Ask whether an arm that disappeared has a new name: that of a variant that appeared about then."""
    block_ms, pair = changed.arrivals.block_ms, (changed.control, changed.treatment)
    spans = {name: (min(blocks), max(blocks)) for name, blocks in changed.arrivals.counts.items() if blocks}
    newest = max(last for _, last in spans.values())
    return [
        say(
            "{later} appeared at about {at}, when {gone} disappeared: was it renamed?",
            later=named(later),
            at=utc(first * block_ms),
            gone=named(gone),
        )
        for gone in pair
        for later, (first, _) in sorted(spans.items())
        if spans[gone][1] < newest and abs(first - spans[gone][1]) <= 1 and later != gone and first > spans[gone][0]
    ]


def _advice(changed: Changed, policy: Policy) -> list[str]:
    """Return the settings that settle it, as a sentence; empty if there are none."""
    if changed.compared and changed.is_outage:
        return ["This looks like an outage of one of them, or like an assignment that goes back and forth"]
    found = propose([changed], policy)
    if found is None:
        return []
    aims = [aim for time, aim in ((found.start_ms, "from then on"), (found.end_ms, "up to then")) if time is not None]
    purpose = "If this is a rollout" if found.stages else f"To compare them {_and(aims)}"
    instead = " instead of shares" if found.stages and policy.shares else ""
    return [set_again(policy, purpose, changed.experiment, found.settings, instead)]


def set_again(policy: Policy, purpose: str, experiment: str, settings: Mapping[str, ProposedValue], instead: str = "") -> str:
    """Return a sentence that names settings. Lists that count already are counted again by a replay."""
    again = "count the log again (`streammetrics replay --find-stages` does both)"
    return advice(f"{purpose}, set {policy.settings_text(experiment, settings)}{instead}, and {again}")


def utc(at_ms: int) -> str:
    """Return a time to the minute.

    >>> utc(1_732_183_200_123)
    '2024-11-21 10:00 UTC'
    """
    return f"{datetime.fromtimestamp(at_ms // 1_000, UTC):%Y-%m-%d %H:%M} UTC"


def _and(texts: Collection[str]) -> str:
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last
