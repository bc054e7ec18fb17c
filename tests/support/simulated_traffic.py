"""Samples of simulated traffic and statistics on them, for its tests."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from streammetrics.connectors.simulated import SimulatedRecord, Traffic, Variant, generate
from streammetrics.connectors.simulated.people import ATTENTION_MS, WATCH_SECONDS_MAX
from streammetrics.errors import MalformedEvent
from streammetrics.events import EventLimits, Feedback, Impression, native_decoder

HOUR_MS = 3_600_000


SAMPLE_MS = 240_000


START_MS = Traffic().start_ms


FEEDBACK_MS_MAX = ATTENTION_MS + round(WATCH_SECONDS_MAX * 1_000) + 21_000
"""Longest time between a list and its feedback: examining it, the longest watch, the longest pause before a purchase."""


decode = native_decoder(EventLimits())


def events(sent: Iterable[SimulatedRecord]) -> list[Impression | Feedback]:
    """Decode records that must all be valid."""
    written = []
    for record in sent:
        (event,) = decode(record.value)
        assert not isinstance(event, MalformedEvent), event
        assert (event.user_id.encode(), event.ts) == (record.key, record.ts)
        written.append(event)
    return written


def is_good(record: SimulatedRecord) -> bool:
    return not isinstance(decode(record.value)[0], MalformedEvent)


@cache
def sample(traffic: Traffic) -> tuple[SimulatedRecord, ...]:
    """Return some minutes of traffic: more than 5,000 records at the default rate."""
    return tuple(generate(traffic, until_ms=traffic.start_ms + SAMPLE_MS))


def assert_share(count: int, of: int, chance: float) -> None:
    """Check that a binomial count is within four standard deviations. One seed in sixteen thousand fails by chance."""
    assert abs(count - of * chance) <= 4 * math.sqrt(of * chance * (1 - chance))


@cache
def watched_lists(traffic: Traffic, minutes: int = 60) -> dict[str, tuple[Impression, list[int]]]:
    """Return the lists of at most an hour, with 1 for each clicked rank and 0 for the others. Their feedback is complete."""
    end_ms = START_MS + 60_000 * minutes
    written_events = events(generate(replace(traffic, impressions_per_second=2.0), until_ms=end_ms + FEEDBACK_MS_MAX))
    lists = {event.impression_id: (event, [0] * len(event.items)) for event in written_events if isinstance(event, Impression)}
    for event in written_events:
        if isinstance(event, Feedback) and event.action == "click":
            impression, clicked = lists[str(event.impression_id)]
            clicked[impression.items.index(event.item_id)] = 1
    return {name: (impression, clicked) for name, (impression, clicked) in lists.items() if impression.ts < end_ms}


def click_ndcg(clicked: list[int]) -> float:
    """NDCG over all ranks with clicks as relevance; 0 without a click."""
    discounts = [1 / math.log2(rank + 1) for rank in range(1, len(clicked) + 1)]
    ideal = sum(discounts[: sum(clicked)])
    return sum(discount for discount, click in zip(discounts, clicked, strict=True) if click) / ideal if ideal else 0.0


def ndcg_by_list(traffic: Traffic, minutes: int = 60) -> dict[str, float]:
    return {name: click_ndcg(clicked) for name, (_, clicked) in watched_lists(traffic, minutes).items()}


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Return the mean and its standard error, as if all lists of a visit (four on average) were equal."""
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, math.sqrt(variance / (len(values) / 4))


def with_quality(quality: float) -> Traffic:
    return Traffic(variants=(Variant("only", 1.0, quality),))
