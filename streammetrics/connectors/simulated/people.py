"""What people do: visits, a ranker with a quality, clicks by position. Pure; events out, all chance in through `draw`."""

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
from streammetrics.experiments.interleaving import INTERLEAVED

APPEAL_MAX = 0.6
"""How likely a user who looks at the most appealing item clicks it."""

APPEAL_POWER = 4
"""Appeal is `APPEAL_MAX * u ** APPEAL_POWER` for uniform u: a few items are wanted, most are not."""

NOISE_POWER = 3
"""A ranker of quality q sees appeal under even noise of width `APPEAL_MAX * q ** -NOISE_POWER`."""

SKIP_SHARE = 0.1
"""Of the items looked at and not clicked, the share that is skipped aloud."""

WATCH_SHARE = 0.5
"""Of the clicks, the share that goes on to a watch."""

PURCHASE_SHARE = 0.05
"""Of the clicks, the share that ends in a purchase."""

WATCH_SECONDS_MEAN, WATCH_SECONDS_MAX = 40.0, 300.0

ATTENTION_MS = 600_000
"""How long after its list a user may still look at a further item."""

Draw: TypeAlias = Callable[[], float]
"""The next even draw from [0, 1)."""


class WrittenItem(msgspec.Struct, gc=False):
    """An item of an interleaved list as it is written."""

    id: str
    team: str


class WrittenImpression(msgspec.Struct, tag_field="type", tag="impression", omit_defaults=True, gc=False):
    """An impression as it is written."""

    impression_id: str
    user_id: str
    ts: int
    items: list[str] | list[WrittenItem]
    experiments: dict[str, str] = {}
    segments: dict[str, str] = {}


class WrittenFeedback(msgspec.Struct, tag_field="type", tag="feedback", omit_defaults=True, gc=False):
    """A feedback as it is written."""

    user_id: str
    ts: int
    item_id: str
    action: str
    impression_id: str | None = None
    value: float | None = None


class DueList(NamedTuple):
    """A list is due: when (ms), as which of which visit (both numbered from 0), for whom, with which taste and variant."""

    ts: int
    visit: int
    place: int
    user_id: str
    taste: int
    variant: Variant | None


class World:
    """What the seed settles once: which items there are, how they appeal, how far down a list users look."""

    __slots__ = ("appeal", "examined", "items", "traffic")

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        draw = Random(f"{traffic.seed}/appeal").random
        appeal = [APPEAL_MAX * draw() ** APPEAL_POWER for _ in range(traffic.catalogue)]
        items = [f"i{index:0{traffic.item_id_chars - 1}d}" for index in range(traffic.catalogue)]
        # The head once more behind the tail: a list's candidates are one slice, wherever it begins.
        self.appeal = appeal + appeal[: traffic.items_per_list]
        self.items = items + items[: traffic.items_per_list]
        self.examined = [rank**-traffic.examination_power for rank in range(1, traffic.items_per_list + 1)]


def variant_of(traffic: Traffic, user_id: str) -> Variant | None:
    """The variant that a user sees, by a hash of seed, experiment and user; None for a user in no experiment.

    >>> variant_of(Traffic(seed=3), "u12").name
    'control'
    """
    place = _digest(f"{traffic.seed}/{traffic.experiment}/{user_id}") / 2**64
    for variant in traffic.variants:
        place -= variant.share
        if place < 0:
            return variant
    return None


def lists(world: World, until_ms: int) -> Iterator[tuple[int, Draw, list[WrittenImpression | WrittenFeedback]]]:
    """Each list dated before `until_ms`, in order of time: its ts, a draw, and the list with its feedback.

    The draw was seeded for this list alone and has given all that people needed: drawing on changes no event. It is
    good until the next list is asked for.
    """
    visits = _visits(world.traffic, until_ms)
    due = list(islice(visits, 1))
    chance = Random()
    draw = chance.random
    while due:
        turn = heapq.heappop(due)
        if turn.place == 0 and (beginning := next(visits, None)):
            heapq.heappush(due, beginning)
        chance.seed(world.traffic.seed << 128 | turn.visit << 64 | turn.place)
        if (following := _following(world.traffic, draw, turn)) and following.ts < until_ms:
            heapq.heappush(due, following)
        yield turn.ts, draw, _served(world, draw, turn)


def _visits(traffic: Traffic, until_ms: int) -> Iterator[DueList]:
    """The first turn of every visit that begins before `until_ms`, in order of time."""
    draw = Random(f"{traffic.seed}/visits").random
    gap_ms = 1000 * traffic.lists_per_visit / traffic.impressions_per_second
    after_ms, visit = 0.0, 0
    while (begin_ms := traffic.start_ms + int(after_ms)) < until_ms:
        user_id = f"u{int(draw() * traffic.users)}"
        taste = _digest(f"{traffic.seed}/{user_id}") % traffic.catalogue
        yield DueList(begin_ms, visit, 0, user_id, taste, variant_of(traffic, user_id))
        after_ms += _exponential(draw, gap_ms)
        visit += 1


def _following(traffic: Traffic, draw: Draw, turn: DueList) -> DueList | None:
    """The visit's next turn, if it goes on. Drawn first of all, so that how a list fares has no say in it."""
    goes_on, pause_ms = draw() < 1 - 1 / traffic.lists_per_visit, _exponential(draw, traffic.list_gap_ms)
    if not goes_on:
        return None
    return DueList(turn.ts + 1 + int(pause_ms), turn.visit, turn.place + 1, turn.user_id, turn.taste, turn.variant)


def _served(world: World, draw: Draw, turn: DueList) -> list[WrittenImpression | WrittenFeedback]:
    traffic = world.traffic
    segments = {name: values[int(draw() * len(values))] for name, values in traffic.segments}
    interleaved = traffic.interleaved and turn.variant is not None
    variant = INTERLEAVED if interleaved else turn.variant.name if turn.variant else None
    experiments = {} if variant is None else {traffic.experiment: variant}
    first = int(draw() * traffic.catalogue)
    liked = (first + turn.taste) % traffic.catalogue
    appeals = world.appeal[liked : liked + traffic.items_per_list]
    order: list[int]
    items: list[str] | list[WrittenItem]
    if interleaved:
        order, teams = _drafted(draw, [(each.name, _ranked(draw, appeals, _quality(traffic, each, turn.ts))) for each in traffic.variants])
        items = [WrittenItem(world.items[first + index], team) for index, team in zip(order, teams, strict=True)]
    else:
        order = _ranked(draw, appeals, _quality(traffic, turn.variant, turn.ts))
        items = [world.items[first + index] for index in order]
    shown = WrittenImpression(f"r{turn.visit}-{turn.place}", turn.user_id, turn.ts, items, experiments, segments)
    return [shown, *_reactions(world, draw, shown, first, order, appeals)]


def _quality(traffic: Traffic, variant: Variant | None, ts: int) -> float:
    if variant is None:
        return 1.0
    regression = traffic.regression
    if regression and regression.variant == variant.name and ts >= traffic.start_ms + regression.after_ms:
        return variant.quality * regression.factor
    return variant.quality


def _ranked(draw: Draw, appeals: list[float], quality: float) -> list[int]:
    """The candidates, by their place in `appeals`, in the order of a ranker who sees appeal through noise.

    Neighbours in the catalogue are the candidates. Appeal is read at item + taste, so that each user has a taste of his
    own and an item appeals to him in the same measure every time.
    """
    noise = APPEAL_MAX * quality**-NOISE_POWER
    scores = [appeal + noise * draw() for appeal in appeals]
    return sorted(range(len(scores)), key=scores.__getitem__, reverse=True)


def _drafted(draw: Draw, rankings: list[tuple[str, list[int]]]) -> tuple[list[int], list[str]]:
    """The candidates as two teams draft them in turn, and who drafted each (Radlinski, Kurup, Joachims 2008).

    Of every two picks each team has one, and a coin says which team has the first; a team picks what it ranks highest of the rest.
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
    world: World, draw: Draw, shown: WrittenImpression, first: int, order: list[int], appeals: list[float]
) -> list[WrittenFeedback]:
    """Down the list: look at an item by its rank, click it by its appeal; then perhaps watch, perhaps buy. Or skip it."""
    done: list[WrittenFeedback] = []
    user_id, ts, known_id = shown.user_id, shown.ts, shown.impression_id
    without_id_rate = world.traffic.feedback_without_id_rate
    end_ms = ts + ATTENTION_MS
    for index, examined in zip(order, world.examined, strict=True):
        chance = draw()
        if chance >= examined:
            continue
        ts += 500 + int(4_500 * draw())
        if ts > end_ms:
            break
        item = world.items[first + index]
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
    """An exponential draw; at most about 37 means, since an even draw is never nearer to 1 than 2^-53."""
    return -math.log(1 - draw()) * mean


def _digest(text: str) -> int:
    """64 even bits of a text, the same in every process (which the built-in hash is not)."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
