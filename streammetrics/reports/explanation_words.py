"""An explanation in sentences: where the difference is, and since when. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streammetrics.experiments.words import percent
from streammetrics.reports.explanation_values import Explanation, RankContribution, SegmentContributions
from streammetrics.reports.time_text import minute_text

MOST: Final = 2 / 3
"""The share of a difference that the named ranks have at least."""


def summary_of(found: Explanation) -> Iterator[str]:
    """Yield the sentences of an explanation; none if there is no difference."""
    if not found.difference:
        return
    direction = "drop" if found.difference < 0 else "rise"
    yield from _segments(found, direction)
    yield from _ranks(found, direction)
    if found.onset is None:
        span = f"between {minute_text(found.from_ms)} and {minute_text(found.end_ms)}"
        yield f"it cannot be said when this began: the difference did not change clearly {span}"
    else:
        first, last = minute_text(found.onset.first_ms), minute_text(found.onset.last_ms)
        yield f"the difference changed at about {minute_text(found.onset.at_ms)} (between {first} and {last})"


def _segments(found: Explanation, direction: str) -> Iterator[str]:
    clear = [each for each in found.segments if each.stands_out and each.values]
    for each in clear:
        lead = _lead(each, found.difference)
        if lead is not None:
            yield lead.format(direction=direction)
    if found.segments and not clear:
        yield f"no value of {' or '.join(each.segment for each in found.segments)} stands out"


def _lead(segment: SegmentContributions, difference: float) -> str | None:
    """Say which value of a segment has most of the difference; None if none goes the same way."""
    same = [each for each in segment.values if each.shrunk * difference > 0 and each.contribution * difference > 0]
    if not same:
        return None
    most = same[0]
    text = f"{percent(most.contribution / difference)} of the {{direction}} is on {_braced(segment.segment)}={_braced(most.value)}"
    return f"{text}, which has {percent(most.share)} of the lists"


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
    if length == len(parts) > 1:
        yield f"the {direction} in {metric} is spread over all ranks"
        return
    others = "" if -share <= 1 else f": the other ranks {'rose' if direction == 'drop' else 'fell'}"
    yield f"{_rank_words(ranks)} {percent(-share)} of the {direction} in {metric}{others}"


def _rank_words(ranks: RankContribution) -> str:
    return f"rank {ranks.first} has" if ranks.first == ranks.last else f"ranks {ranks.first} to {ranks.last} have"


def _braced(name: str) -> str:
    return name.replace("{", "{{").replace("}", "}}")
