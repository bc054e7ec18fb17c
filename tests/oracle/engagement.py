"""What users did with the lists of one session, and the sums of engagement metrics, by plain counting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from streammetrics.events.model import Feedback
from tests.oracle.join import List, Resolved
from tests.oracle.values import Engagement, Settings, ShownList

VALUE_ONE = 2**16
NAMES = (
    "zero_result_rate",
    "abandonment_rate",
    "first_click_share@1",
    "first_click_share@3",
    "first_click_rank",
    "time_to_first_click",
    "satisfied_rate",
    "reformulation_rate",
    "lists_per_session",
    "purchases_per_list",
    "value_per_list",
)


def engagement_of(impression: List, joined: Resolved, settings: Settings) -> Engagement:
    """Return the engagement of one list of a session."""
    answers = [(feedback, impression.items.index(feedback.item_id)) for feedback in joined.answers.get(impression.impression_id, [])]
    first = min(((feedback.ts, place) for feedback, place in answers), default=None)
    bought: dict[int, list[int]] = {}
    for feedback, place in answers:
        if feedback.action in settings.purchases:
            bought.setdefault(place, []).append(_value(feedback))
    begin, name = joined.begins[impression.impression_id], impression.impression_id
    later = [other for other_name, other in joined.begins.items() if (other, other_name) > (begin, name)]
    return Engagement(
        delay_ms=None if first is None else max(first[0] - impression.ts, 0),
        rank=None if first is None else first[1] + 1,
        purchases=len(bought),
        value=sum(max(values) for values in bought.values()),
        opens=name == min(joined.lists, key=lambda one: (joined.begins[one], one)),
        followed=any(other - begin <= min(settings.reformulation_ms, settings.attribution_ms) for other in later),
    )


def _value(feedback: Feedback) -> int:
    value = feedback.value
    return round(Fraction(value) * VALUE_ONE) if value is not None and 0 <= value <= 1_000_000 else 0


def engagement_sums(impression: ShownList, settings: Settings) -> dict[str, tuple[int, int]]:
    """Return the numerator and the denominator that one list adds to each metric, both as stored integers."""
    done = impression.engagement
    clicked, items = done.rank is not None, len(impression.items)
    rank = done.rank or 0
    pairs = {
        "zero_result_rate": (items == 0, 1),
        "abandonment_rate": (items > 0 and not clicked, items > 0),
        "first_click_share@1": (rank == 1, clicked),
        "first_click_share@3": (rank in (1, 2, 3), clicked),
        "first_click_rank": (rank, clicked),
        "time_to_first_click": (done.delay_ms or 0, 1_000 * clicked),
        "satisfied_rate": (any(grade >= settings.satisfied_min for grade in impression.grades), 1),
        "reformulation_rate": (done.followed and not clicked, 1),
        "lists_per_session": (1, done.opens),
        "purchases_per_list": (done.purchases, 1),
        "value_per_list": (done.value, 1),
    }
    return {name: (int(above), int(below)) for name, (above, below) in pairs.items()}


def add_pairs(parts: Sequence[Mapping[str, tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    return {name: (sum(part[name][0] for part in parts), sum(part[name][1] for part in parts)) for name in parts[0]}
