"""A share that changed, in words: when, from what to what, and the settings that settle it, as TOML. Values in, text out. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from streammetrics.experiments.policy import Policy
from streammetrics.experiments.proposals import SEGMENTS_OF_ROLLOUT, Changed, propose
from streammetrics.experiments.share_changes import ShareSegment
from streammetrics.experiments.toml_text import time_text, under
from streammetrics.experiments.words import chance, percent


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
    if changed.joins_late:
        parts.append(_began_late(changed, policy, segments[0]))
    if len(inner) > 1:
        parts.append(_split_words(changed, policy, inner))
    if changed.ends_early:
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
    if changed.compared and changed.is_outage:
        return ["This looks like an outage of one of them, or like an assignment that goes back and forth"]
    found = propose([changed], policy)
    if found is None:
        return []
    aims = [aim for time, aim in ((found.start_ms, "from then on"), (found.end_ms, "up to then")) if time is not None]
    purpose = "If this is a rollout" if found.stages else f"To compare them {_and(aims)}"
    instead = " instead of shares" if found.stages and policy.shares else ""
    *others, last = found.lines
    return [set_again(purpose, changed.experiment, [*others, last + instead])]


def compare_from(experiment: str, start_ms: int) -> str:
    """Return the setting that leaves out the time before an arm joined."""
    return set_again("To compare them from then on", experiment, [f"start = {time_text(start_ms)}"])


def set_again(purpose: str, experiment: str, settings: Sequence[str]) -> str:
    """Return a sentence that names settings, each a line of TOML. Lists that count already are counted again by a replay."""
    return f"{purpose}, set {under(experiment, *settings)}, and count the log again (`streammetrics replay --find-stages` does both)"


def utc(at_ms: int) -> str:
    """Return a time to the minute.

    >>> utc(1_732_183_200_123)
    '2024-11-21 10:00 UTC'
    """
    return f"{datetime.fromtimestamp(at_ms // 1_000, UTC):%Y-%m-%d %H:%M} UTC"


def _and(texts: Collection[str]) -> str:
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last
