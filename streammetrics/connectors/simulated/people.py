"""Simulates people: their variants, visits, a ranker of a given quality, clicks by position. Pure; all randomness comes from `draw`.

Variants come from hashes that are the same in every process.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import islice
from random import Random
from typing import NamedTuple, TypeAlias

import msgspec

from streammetrics.connectors.simulated.traffic import Traffic, Variant
from streammetrics.experiments.policy import INTERLEAVED

APPEAL_MAX = 0.6
"""Click probability of the most appealing item, once a user has examined it."""
APPEAL_POWER = 4
"""Appeal is `APPEAL_MAX * u ** APPEAL_POWER` for uniform u: few items are appealing, most are not."""
NOISE_POWER = 3
"""A ranker of quality q sees appeal plus uniform noise of width `APPEAL_MAX * q ** -NOISE_POWER`."""
SKIP_SHARE = 0.1
"""Share of examined but not clicked items that get a skip event."""
WATCH_SHARE = 0.5
"""Share of clicks that lead to a watch."""
PURCHASE_SHARE = 0.05
"""Share of clicks that lead to a purchase."""
WATCH_SECONDS_MEAN, WATCH_SECONDS_MAX = 40.0, 300.0
ATTENTION_MS = 600_000
"""How long after a list a user may still examine another item."""
Draw: TypeAlias = Callable[[], float]
"""Returns the next uniform number from [0, 1)."""
EXPOSURE_LEAD_MS = 2_000
"""An exposure is at most so long before its list."""
LEFT_SHARE = 0.05
"""Users who are exposed and leave before their first list, as a share of visits."""


def variant_of(traffic: Traffic, user_id: str, ts: int | None = None) -> Variant | None:
    """Return the variant of a user, by a hash of seed, experiment and user; None if the user is in no experiment.

    `ts` is the time of the list (ms), for traffic with a ramp; None: before it.

    >>> variant_of(Traffic(seed=3), "u12").name
    'control'
    """
    place = digest(f"{traffic.seed}/{traffic.experiment}/{user_id}") / 2**64
    begun = () if ts is None else [ramp for ramp in traffic.ramps if ts >= traffic.start_ms + ramp.after_ms]
    moved = begun[-1].share - traffic.variants[1].share if begun else 0.0
    for number, variant in enumerate(traffic.variants):
        place -= variant.share + (-moved if number == 0 else moved if number == 1 else 0.0)
        if place < 0:
            return variant
    return None


def label_of(traffic: Traffic, variant: Variant) -> str:
    """Return the name of the variant that users of a variant are in: all are in one if their lists are interleaved."""
    return INTERLEAVED if traffic.interleaved else variant.name


def digest(text: str) -> int:
    """Return 64 uniform bits for a text, the same in every process. The built-in hash differs between processes."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


class WrittenExposure(msgspec.Struct, tag_field="type", tag="exposure", gc=False):
    """An exposure, as written to JSON."""

    user_id: str
    ts: int
    experiment: str
    variant: str


def exposures_before(traffic: Traffic, visit: int, place: int, user_id: str, ts: int) -> Iterator[WrittenExposure]:
    """Return the exposure of a user in an experiment before a list at `ts`, and beside some visits that of a user who leaves.

    Its variant is that of the list: after a ramp, no exposure before a list is dated before the ramp.
    """
    chance = digest(f"{traffic.seed}/exposure/{visit}-{place}")
    exposed_ms = max(ts - 1 - chance % EXPOSURE_LEAD_MS, traffic.start_ms)
    begun_ms = [start_ms for ramp in traffic.ramps if (start_ms := traffic.start_ms + ramp.after_ms) <= ts]
    exposed_ms = max([exposed_ms, *begun_ms])
    yield from _exposed(traffic, user_id, exposed_ms)
    if place == 0 and (chance >> 32) / 2**32 < LEFT_SHARE:
        yield from _exposed(traffic, f"u{traffic.users + visit}", exposed_ms)


def _exposed(traffic: Traffic, user_id: str, ts: int) -> Iterator[WrittenExposure]:
    variant = variant_of(traffic, user_id, ts)
    if variant is not None:
        yield WrittenExposure(user_id, ts, traffic.experiment, label_of(traffic, variant))


class WrittenItem(msgspec.Struct, gc=False):
    """An item of an interleaved list, as written to JSON."""

    id: str
    team: str


class WrittenImpression(msgspec.Struct, tag_field="type", tag="impression", omit_defaults=True, gc=False):
    """An impression, as written to JSON."""

    impression_id: str
    user_id: str
    ts: int
    items: list[str] | list[WrittenItem]
    experiments: dict[str, str] = {}
    segments: dict[str, str] = {}


class WrittenFeedback(msgspec.Struct, tag_field="type", tag="feedback", omit_defaults=True, gc=False):
    """A feedback event, as written to JSON."""

    user_id: str
    ts: int
    item_id: str
    action: str
    impression_id: str | None = None
    value: float | None = None


WrittenEvent: TypeAlias = WrittenImpression | WrittenFeedback | WrittenExposure


class DueList(NamedTuple):
    """A list that will be shown: its time (ms), visit and place in the visit (from 0), user, taste and variant.

    `is_first` says that it is the first one of the visit with this variant.
    """

    ts: int
    visit: int
    place: int
    user_id: str
    taste: int
    variant: Variant | None
    is_first: bool


class Catalogue:
    """What the seed fixes once: the items, their appeal, and how far down a list users look."""

    __slots__ = ("appeal", "examined", "items", "traffic")

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        draw = Random(f"{traffic.seed}/appeal").random
        appeal = [APPEAL_MAX * draw() ** APPEAL_POWER for _ in range(traffic.catalogue)]
        items = [f"i{index:0{traffic.item_id_chars - 1}d}" for index in range(traffic.catalogue)]
        # The first items are repeated at the end, so that the candidates of a list are always one slice.
        self.appeal = appeal + appeal[: traffic.items_per_list]
        self.items = items + items[: traffic.items_per_list]
        self.examined = [rank**-traffic.examination_power for rank in range(1, traffic.items_per_list + 1)]


def lists(catalogue: Catalogue, until_ms: int) -> Iterator[tuple[int, Draw, list[WrittenEvent]]]:
    """Return each list dated before `until_ms`, in order of time: its ts, a draw, and the list with its feedback and exposures.

    The draw is seeded for this list alone, and its events are complete: further draws change no event. It is valid until
    the next list is requested.
    """
    visits = _visits(catalogue.traffic, until_ms)
    due = list(islice(visits, 1))
    chance = Random()
    draw = chance.random
    while due:
        turn = heapq.heappop(due)
        if turn.place == 0 and (beginning := next(visits, None)):
            heapq.heappush(due, beginning)
        chance.seed(catalogue.traffic.seed << 128 | turn.visit << 64 | turn.place)
        if (following := _following(catalogue.traffic, draw, turn)) and following.ts < until_ms:
            heapq.heappush(due, following)
        happened: list[WrittenEvent] = [*_served(catalogue, draw, turn)]
        if turn.is_first and catalogue.traffic.exposures:
            happened += exposures_before(catalogue.traffic, turn.visit, turn.place, turn.user_id, turn.ts)
        yield turn.ts, draw, happened


def _visits(traffic: Traffic, until_ms: int) -> Iterator[DueList]:
    """Return the first list of every visit that begins before `until_ms`, in order of time."""
    draw = Random(f"{traffic.seed}/visits").random
    gap_ms = 1000 * traffic.lists_per_visit / traffic.impressions_per_second
    after_ms, visit = 0.0, 0
    while (begin_ms := traffic.start_ms + int(after_ms)) < until_ms:
        user_id = f"u{int(draw() * traffic.users)}"
        taste = digest(f"{traffic.seed}/{user_id}") % traffic.catalogue
        yield DueList(begin_ms, visit, 0, user_id, taste, variant_of(traffic, user_id, begin_ms), True)
        after_ms += _exponential(draw, gap_ms)
        visit += 1


def _following(traffic: Traffic, draw: Draw, turn: DueList) -> DueList | None:
    """Return the next list of the visit, if it goes on. Drawn first, so that clicks on this list do not influence it."""
    goes_on, pause_ms = draw() < 1 - 1 / traffic.lists_per_visit, _exponential(draw, traffic.list_gap_ms)
    if not goes_on:
        return None
    ts = turn.ts + 1 + int(pause_ms)
    variant = variant_of(traffic, turn.user_id, ts) if traffic.ramps else turn.variant
    return DueList(ts, turn.visit, turn.place + 1, turn.user_id, turn.taste, variant, variant is not turn.variant)


def _served(catalogue: Catalogue, draw: Draw, turn: DueList) -> list[WrittenImpression | WrittenFeedback]:
    traffic = catalogue.traffic
    segments = {name: values[int(draw() * len(values))] for name, values in traffic.segments}
    interleaved = traffic.interleaved and turn.variant is not None
    experiments = {} if turn.variant is None or traffic.exposures else {traffic.experiment: label_of(traffic, turn.variant)}
    first = int(draw() * traffic.catalogue)
    liked = (first + turn.taste) % traffic.catalogue
    appeals = catalogue.appeal[liked : liked + traffic.items_per_list]
    order: list[int]
    items: list[str] | list[WrittenItem]
    if interleaved:
        order, teams = _drafted(
            draw, [(variant.name, _ranked(draw, appeals, _quality(traffic, variant, turn.ts))) for variant in traffic.variants]
        )
        items = [WrittenItem(catalogue.items[first + index], team) for index, team in zip(order, teams, strict=True)]
    else:
        order = _ranked(draw, appeals, _quality(traffic, turn.variant, turn.ts))
        items = [catalogue.items[first + index] for index in order]
    impression = WrittenImpression(f"r{turn.visit}-{turn.place}", turn.user_id, turn.ts, items, experiments, segments)
    return [impression, *_reactions(catalogue, draw, impression, first, order, appeals)]


def _quality(traffic: Traffic, variant: Variant | None, ts: int) -> float:
    if variant is None:
        return 1.0
    regression = traffic.regression
    if regression and regression.variant == variant.name and ts >= traffic.start_ms + regression.after_ms:
        return variant.quality * regression.factor
    return variant.quality


def _ranked(draw: Draw, appeals: list[float], quality: float) -> list[int]:
    """Return the candidates, as indexes into `appeals`, in the order of a ranker that sees appeal with noise.

    The candidates are neighbours in the catalogue. Appeal is read at item + taste, so that each user has their own taste
    and an item always has the same appeal to them.
    """
    noise = APPEAL_MAX * quality**-NOISE_POWER
    scores = [appeal + noise * draw() for appeal in appeals]
    return sorted(range(len(scores)), key=scores.__getitem__, reverse=True)


def _drafted(draw: Draw, rankings: list[tuple[str, list[int]]]) -> tuple[list[int], list[str]]:
    """Return the candidates by team-draft interleaving, and the team that picked each (Radlinski, Kurup, Joachims 2008).

    Each pair of picks has one of each team, and a coin decides which team is first. A team picks its highest-ranked remaining item.
    """
    order: list[int] = []
    teams: list[str] = []
    while len(order) < len(rankings[0][1]):
        for team, ranking in rankings if draw() < 0.5 else reversed(rankings):
            rest = (candidate for candidate in ranking if candidate not in order)
            if (pick := next(rest, None)) is not None:
                order.append(pick)
                teams.append(team)
    return order, teams


def _reactions(
    catalogue: Catalogue, draw: Draw, impression: WrittenImpression, first: int, order: list[int], appeals: list[float]
) -> list[WrittenFeedback]:
    """Return the feedback on a list: rank decides if an item is examined, appeal if it is clicked. Watch and purchase may follow."""
    done: list[WrittenFeedback] = []
    user_id, ts, known_id = impression.user_id, impression.ts, impression.impression_id
    without_id_rate = catalogue.traffic.feedback_without_id_rate
    end_ms = ts + ATTENTION_MS
    for index, examined in zip(order, catalogue.examined, strict=True):
        chance = draw()
        if chance >= examined:
            continue
        ts += 500 + int(4_500 * draw())
        if ts > end_ms:
            break
        item = catalogue.items[first + index]
        impression_id = None if draw() < without_id_rate else known_id
        if chance >= examined * appeals[index]:
            if draw() < SKIP_SHARE:
                done.append(WrittenFeedback(user_id, ts, item, "skip", impression_id))
            continue
        done.append(WrittenFeedback(user_id, ts, item, "click", impression_id))
        if draw() < WATCH_SHARE:
            seconds = round(min(1 + _exponential(draw, WATCH_SECONDS_MEAN), WATCH_SECONDS_MAX), 1)
            ts += int(1000 * seconds)
            done.append(WrittenFeedback(user_id, ts, item, "watch", impression_id, seconds))
        if draw() < PURCHASE_SHARE:
            ts += 1_000 + int(20_000 * draw())
            done.append(WrittenFeedback(user_id, ts, item, "purchase", impression_id))
    return done


def _exponential(draw: Draw, mean: float) -> float:
    """Draw from an exponential distribution. At most about 37 means, because a uniform draw is never closer to 1 than 2^-53."""
    return -math.log(1 - draw()) * mean
