"""An explanation in sentences: where the difference is, and since when, as far as it is certain. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streammetrics.experiments.words import percent
from streammetrics.reports.explanation_values import Explanation, RankContribution, SegmentContributions, SegmentValue
from streammetrics.reports.time_text import minute_text

MOST: Final = 2 / 3
"""The share of a difference that the named ranks have at least."""
MIX_MIN: Final = 0.05
"""The least share of a difference that moved lists are said to make."""
MOVES_MAX: Final = 3
"""Most values of a segment that are named because lists moved."""


def summary_of(found: Explanation) -> Iterator[str]:
    """Yield the sentences about what is certain of a difference; none if nothing is."""
    if not found.difference:
        return
    direction = "drop" if found.difference < 0 else "rise"
    for segment in found.segments:
        yield from _effects(found, segment, direction)
        yield from _moves(found, segment, direction)
    yield from _ranks(found, direction)
    if found.onset is not None:
        first, last = minute_text(found.onset.first_ms), minute_text(found.onset.last_ms)
        yield f"the difference changed at about {minute_text(found.onset.at_ms)} (between {first} and {last})"


def _effects(found: Explanation, segment: SegmentContributions, direction: str) -> Iterator[str]:
    """Say which values differ from all others: first how much of the difference they have, then those that go the other way."""
    for each in segment.values:
        if each.others_lift is None or each.lift is None:
            continue
        name = f"{segment.segment}={each.value}"
        lifts = f"{_lift(each.lift)} there, {_lift(each.others_lift)} elsewhere"
        share = each.contribution / found.difference
        if share > 0 and each.lift * found.difference > 0:
            yield f"{percent(share)} of the {direction} is on {name}, which has {percent(each.share)} of the lists ({lifts})"
        else:
            yield f"{name} goes the other way ({lifts})"


def _moves(found: Explanation, segment: SegmentContributions, direction: str) -> Iterator[str]:
    """Say to and from which values lists moved, which value only one arm has, and which arm lost its label."""
    moved = sorted((each for each in segment.values if each.moved), key=lambda each: -abs(_shift(found, each)))
    parts = []
    for each in moved:
        own, control = each.lists / found.lists, each.control_lists / found.control_lists
        mix = each.mix / found.difference
        why = f", {percent(mix)} of the {direction} by this" if mix >= MIX_MIN else ""
        if not each.value:
            more, less = (found.variant, found.against) if own > control else (found.against, found.variant)
            lost, rest = percent(max(own, control)), percent(min(own, control))
            yield f"{lost} of the lists of {more} have no {segment.segment}, {rest} of {less}{why}"
        elif not own or not control:
            only = found.variant if own else found.against
            yield f"only {only} has {segment.segment}={each.value}, in {percent(own or control)} of its lists{why}"
        else:
            parts.append(f"{each.value} has {percent(own)} of the lists of {found.variant} and {percent(control)} of {found.against}{why}")
    if parts:
        more_parts = f" ({len(parts) - MOVES_MAX} more)" if len(parts) > MOVES_MAX else ""
        yield f"lists moved between values of {segment.segment}: {', '.join(parts[:MOVES_MAX])}{more_parts}"


def _shift(found: Explanation, value: SegmentValue) -> float:
    return value.lists / found.lists - value.control_lists / found.control_lists


def _lift(lift: float) -> str:
    return f"{'+' if lift >= 0 else '-'}{percent(abs(lift))}"


def _ranks(found: Explanation, direction: str) -> Iterator[str]:
    """Name the fewest neighbouring bands of ranks that have MOST of the difference."""
    total = sum(each.contribution for each in found.ranks)
    if not found.ranks or total * found.difference <= 0:
        return
    parts = [each.contribution / total for each in found.ranks]
    runs = [(end - start, -sum(parts[start:end]), start) for start in range(len(parts)) for end in range(start + 1, len(parts) + 1)]
    length, share, start = min(each for each in runs if -each[1] >= MOST)
    ranks = RankContribution(found.ranks[start].first, found.ranks[start + length - 1].last, 0.0)
    metric = f"{found.ranks_of}@{found.ranks[-1].last}"
    if length == len(parts):
        return
    others = "" if -share <= 1 else f": the other ranks {'rose' if direction == 'drop' else 'fell'}"
    yield f"{_rank_words(ranks)} {percent(-share)} of the {direction} in {metric}{others}"


def _rank_words(ranks: RankContribution) -> str:
    return f"rank {ranks.first} has" if ranks.first == ranks.last else f"ranks {ranks.first} to {ranks.last} have"
