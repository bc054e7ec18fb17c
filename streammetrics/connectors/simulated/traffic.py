"""The parameters of simulated traffic, and their validation. Nothing is generated here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from streammetrics.errors import ConfigError, Problem
from streammetrics.events.event_time import DAY_MS
from streammetrics.events.model import TS_MAX, EventLimits

QUALITY_MIN, QUALITY_MAX = 0.01, 100.0
"""A ranker below this range is practically random, above it practically perfect."""

_LIMITS = EventLimits()
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


class Variant(NamedTuple):
    """One variant: its share of all users, and the quality of its ranker (1.0 is normal; more is better)."""

    name: str
    share: float
    quality: float = 1.0


class Regression(NamedTuple):
    """A change of quality: from `after_ms` after the start on, `variant` has `factor` times its quality."""

    variant: str
    factor: float = 0.85
    after_ms: int = 0


class Ramp(NamedTuple):
    """A step of a rollout: from `after_ms` after the start on, the second variant has this share of all users.

    The users come from the first variant, or go back to it. Each list has the variant of its time.
    """

    share: float
    after_ms: int = 0


class Segment(NamedTuple):
    """A segment of every list. Its values are equally likely."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """All parameters of simulated traffic. Raises ConfigError with all problems at once.

    **People.** Visits begin at random times (a Poisson process), each by a random user. A visit has `lists_per_visit` lists
    on average, `list_gap_ms` apart on average. A user returns after `users * lists_per_visit / impressions_per_second`
    seconds on average. If that is short, a user may have two visits at once, as with two tabs. The rate of impressions is in
    event time, over all users. It is reached some minutes after the start, when the first visits have ended.

    **Experiment.** A user always sees the same variant, unless one of the `ramps` moves them. Users beyond the variants' shares are in no
    experiment and get quality 1. The quality of a variant changes the order of its lists and thereby the clicks, and nothing else.

    **Interleaved.** All users of the experiment see the variant `interleaved`. The rankers of its two variants draft each list
    in pairs, and a coin decides which one is first in a pair (team-draft). Each item carries its team.

    **Exposures.** Lists carry no label. Each visit begins with an exposure of the user, at most two seconds before its first list, and so
    does each list by which a ramp moves its user. Beside some visits, another user is exposed who never sees a list. Lists and feedback
    are the same otherwise.

    **Clicks** follow the position-based model: P(click at rank r) = r ** -examination_power * appeal(item, user), with
    the propensities of Joachims, Swaminathan and Schnabel, "Unbiased Learning-to-Rank with Biased Feedback" (WSDM 2017).

    **Size.** A record has 187 bytes on average, and about 353 with `item_id_chars=35`, as in the benchmarks here.

    **Transport.** The rates are probabilities per valid event. A record arrives within `disorder_ms` of its event time, a late
    one another `late_ms` later. A duplicate repeats the same bytes within the same bounds. A malformed record is sent in
    addition to a valid event, so the valid events are the same at any rate.

    >>> Traffic(users=0, duplicate_rate=2.0)
    Traceback (most recent call last):
    streammetrics.errors.ConfigError: users = 0: a whole number from 1 to 1000000000
    duplicate_rate = 2.0: a number from 0 to 1
    """

    users: int = 20_000
    seed: int = 0
    start_ms: int = 1_732_183_200_000
    impressions_per_second: float = 20.0
    lists_per_visit: float = 4.0
    list_gap_ms: int = 45_000
    items_per_list: int = 12
    catalogue: int = 10_000
    item_id_chars: int = 6
    experiment: str = "ranker"
    variants: tuple[Variant, ...] = (Variant("control", 0.5), Variant("treatment", 0.5))
    regression: Regression | None = None
    ramps: tuple[Ramp, ...] = ()
    interleaved: bool = False
    exposures: bool = False
    segments: tuple[Segment, ...] = (Segment("surface", ("home", "search")),)
    examination_power: float = 1.0
    feedback_without_id_rate: float = 0.0
    disorder_ms: int = 2_000
    duplicate_rate: float = 0.0
    late_rate: float = 0.0
    late_ms: int = 300_000
    malformed_rate: float = 0.0
    impressions_topic: str = "impressions"
    feedback_topic: str = "feedback"
    exposures_topic: str = "exposures"

    def __post_init__(self) -> None:
        # Fields are compared with each other only if each one is valid by itself.
        problems = [*_number_problems(self), *_name_problems(self), *_variant_problems(self)]
        if problems := problems or [*_conflicts(self)]:
            raise ConfigError(problems)


_WHOLE: dict[str, tuple[int, int]] = {
    "users": (1, 10**9),
    "seed": (0, 2**63 - 1),
    "start_ms": (0, TS_MAX),
    "list_gap_ms": (0, DAY_MS),
    "items_per_list": (1, _LIMITS.items_max),
    "catalogue": (1, 10**7),
    "item_id_chars": (2, _LIMITS.id_chars_max),
    "disorder_ms": (0, DAY_MS),
    "late_ms": (0, 30 * DAY_MS),
}

_REAL: dict[str, tuple[float, float]] = {
    "impressions_per_second": (0.001, 1_000_000),
    "lists_per_visit": (1, 1_000),
    "examination_power": (0, 100),
    "feedback_without_id_rate": (0, 1),
    "duplicate_rate": (0, 1),
    "late_rate": (0, 1),
    "malformed_rate": (0, 1),
}


def _number_problems(traffic: Traffic) -> Iterator[Problem]:
    for key in traffic.__dataclass_fields__:
        value = getattr(traffic, key)
        if key in _WHOLE:
            least, most = _WHOLE[key]
            if type(value) is not int or not least <= value <= most:
                yield Problem(key, repr(value), f"a whole number from {least} to {most}")
        elif key in _REAL:
            yield from _real_problems(key, value, *_REAL[key])


def _real_problems(key: str, value: object, least: float, most: float) -> Iterator[Problem]:
    # Written this way, NaN is rejected as well: no comparison with it is true.
    if type(value) not in {int, float} or not least <= value <= most:  # type: ignore[operator]
        yield Problem(key, repr(value), f"a number from {least} to {most}")


def _name_problems(traffic: Traffic) -> Iterator[Problem]:
    for key in ("impressions_topic", "feedback_topic", "exposures_topic"):
        if not _TOPIC.fullmatch(getattr(traffic, key)):
            yield Problem(key, repr(getattr(traffic, key)), "a topic name: 1 to 249 of the letters, digits, '.', '_' and '-'")
    yield from _label_problems("experiment", [traffic.experiment])
    yield from _label_problems("segments", [segment.name for segment in traffic.segments])
    for segment in traffic.segments:
        yield from _label_problems(f"segments.{segment.name}", segment.values)
        if not segment.values:
            yield Problem(f"segments.{segment.name}", "no values", "at least one value")
    if len(traffic.segments) > _LIMITS.segments_max:
        yield Problem("segments", f"{len(traffic.segments)} segments", f"at most {_LIMITS.segments_max}")


def _label_problems(key: str, labels: list[str] | tuple[str, ...]) -> Iterator[Problem]:
    for label in labels:
        if not 1 <= len(label) <= _LIMITS.label_chars_max or not label.isprintable():
            yield Problem(key, repr(label), f"1 to {_LIMITS.label_chars_max} printable characters")
    if len(set(labels)) < len(labels):
        yield Problem(key, ", ".join(map(repr, labels)), "each name once")


def _variant_problems(traffic: Traffic) -> Iterator[Problem]:
    yield from _label_problems("variants", [variant.name for variant in traffic.variants])
    for name, share, quality in traffic.variants:
        yield from _real_problems(f"variants.{name}.share", share, 0, 1)
        yield from _real_problems(f"variants.{name}.quality", quality, QUALITY_MIN, QUALITY_MAX)
    if traffic.regression:
        yield from _regression_problems(traffic.regression, [variant.name for variant in traffic.variants])


def _regression_problems(regression: Regression, names: list[str]) -> Iterator[Problem]:
    if regression.variant not in names:
        yield Problem("regression.variant", repr(regression.variant), f"one of the variants: {', '.join(names)}")
    yield from _real_problems("regression.factor", regression.factor, QUALITY_MIN, QUALITY_MAX)
    if type(regression.after_ms) is not int or regression.after_ms < 0:
        yield Problem("regression.after_ms", repr(regression.after_ms), "a whole number from 0")


def _ramp_problems(ramp: Ramp, variants: Sequence[Variant]) -> Iterator[Problem]:
    if type(ramp.after_ms) is not int or ramp.after_ms < 0:
        yield Problem("ramp.after_ms", repr(ramp.after_ms), "a whole number from 0")
    if len(variants) < 2:
        yield Problem("ramp", f"with {len(variants)} variants", "at least two variants, the control first")
    else:
        yield from _real_problems("ramp.share", ramp.share, 0, variants[0].share + variants[1].share)


def _conflicts(traffic: Traffic) -> Iterator[Problem]:
    for ramp in traffic.ramps:
        yield from _ramp_problems(ramp, traffic.variants)
    if any(later.after_ms <= earlier.after_ms for earlier, later in pairwise(traffic.ramps)):
        yield Problem("ramps", ", ".join(f"{ramp.share:g}@{ramp.after_ms}ms" for ramp in traffic.ramps), "each after the one before it")
    if traffic.items_per_list > traffic.catalogue:
        yield Problem("items_per_list", str(traffic.items_per_list), f"at most the catalogue, which has {traffic.catalogue} items")
    if traffic.interleaved and len(traffic.variants) != 2:
        named = ", ".join(variant.name for variant in traffic.variants) or "none"
        yield Problem("interleaved", f"with the variants {named}", "two variants, whose rankers draft the lists")
    digits = len(str(traffic.catalogue - 1))
    if traffic.item_id_chars <= digits:
        yield Problem(
            "item_id_chars", str(traffic.item_id_chars), f"at least {digits + 1} to number the catalogue of {traffic.catalogue} items"
        )
    # Ten shares of 0.1 add up to slightly more or less than 1.
    if (total := sum(variant.share for variant in traffic.variants)) > 1 + 1e-9:
        yield Problem("variants", f"shares of {total:g} together", "at most 1; what is left is in no experiment")
