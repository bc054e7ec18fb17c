"""Which fault comes when, from a seed. Pure: no server, no clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from random import Random
from typing import NamedTuple, TypeVar

WORKERS = ("worker-1", "worker-2", "worker-3")
EXPORTER = "exporter"
BROKERS = ("broker-1", "broker-2", "broker-3")
CACHES = ("redis-1", "redis-2", "redis-3", "redis-4", "redis-5", "redis-6")
HOSTS = (*WORKERS, EXPORTER, *BROKERS, *CACHES)
BETWEEN = ((WORKERS, BROKERS), (WORKERS, CACHES), (BROKERS, BROKERS), (CACHES, CACHES), ((EXPORTER,), CACHES))
"""Links fail between a host of the first group and one or all others of the second."""
FORMS = (("cut", "<->"), ("cut", "->"), ("cut", "<-"), ("lossy", "<->"), ("slow", "<->"))
ONE_LINK_RATE = 1 / 3
"""How often a fault concerns one link. Else it concerns all links from a host to the group."""
ON_PROCESSES = (
    "kill worker-2",
    "stop worker-2",
    "freeze worker-1",
    "freeze worker-2",
    "kill redis",
    "freeze redis",
    "slow redis",
    "close all clients of redis",
    "kill broker",
    "freeze broker",
)
"""worker-1 and the exporter live through a soak, so that their memory shows what a long run needs."""
CALM_SECONDS = 20
"""How long after the start of the traffic the first fault begins."""
NETWORK_EVERY_SECONDS, NETWORK_SECONDS = 40, range(8, 21)
PROCESS_EVERY_SECONDS, PROCESS_SECONDS = 60, range(4, 16)
T = TypeVar("T")


class Link(NamedTuple):
    """The packets from one host to another. The way back is another link."""

    sender: str
    receiver: str


class Fault(NamedTuple):
    """A fault, from its begin (seconds since the start of the traffic) until it is healed. One on processes has no hosts."""

    begin: int
    seconds: int
    form: str
    host: str = ""
    ways: str = ""
    others: tuple[str, ...] = ()

    @property
    def links(self) -> list[Link]:
        there = [Link(self.host, other) for other in self.others if ">" in self.ways]
        return there + [Link(other, self.host) for other in self.others if "<" in self.ways]

    @property
    def text(self) -> str:
        """What is done to what.

        >>> Fault(0, 9, "cut", "broker-2", "->", ("broker-1", "broker-3")).text
        'cut broker-2 -> broker-1, broker-3'
        >>> Fault(0, 9, "slow", "worker-1", "<->", BROKERS).text
        'slow worker-1 <-> every broker'
        """
        if not self.host:
            return self.form
        names = ", ".join(self.others) if len(self.others) < len(BROKERS) else f"every {self.others[0].partition('-')[0]}"
        return f"{self.form} {self.host} {self.ways} {names}"


def network_faults(seed: int, minutes: int) -> list[Fault]:
    """Return faults of links. Every form comes between every pair of groups once before any comes twice."""
    chance, faults = Random(seed), []
    deck = _deck(list(product(BETWEEN, FORMS)), chance)
    for begin in range(CALM_SECONDS, minutes * 60 - NETWORK_SECONDS[-1], NETWORK_EVERY_SECONDS):
        (near, far), (form, ways) = next(deck)
        host = chance.choice(near)
        others = tuple(name for name in far if name != host)
        if chance.random() < ONE_LINK_RATE:
            others = (chance.choice(others),)
        faults.append(Fault(begin, chance.choice(NETWORK_SECONDS), form, host, ways, others))
    return faults


def process_faults(seed: int, minutes: int) -> list[Fault]:
    """Return faults of processes, one a minute. Each comes once before any comes twice."""
    chance = Random(seed)
    deck = _deck(ON_PROCESSES, chance)
    begins = range(CALM_SECONDS, minutes * 60 - PROCESS_SECONDS[-1], PROCESS_EVERY_SECONDS)
    return [Fault(begin, chance.choice(PROCESS_SECONDS), next(deck)) for begin in begins]


def _deck(cards: Sequence[T], chance: Random) -> Iterator[T]:
    """Yield all cards in a random order, again and again."""
    while True:
        yield from chance.sample(cards, len(cards))
