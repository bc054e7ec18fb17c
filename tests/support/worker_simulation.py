"""Two workers over the same logs and store, with faults, crashes and rebalances chosen by a seed."""

from __future__ import annotations

import random
from random import Random

from streammetrics.connectors.source import Input
from streammetrics.enrolment.runs import ExperimentRules
from streammetrics.errors import StateError
from streammetrics.events.model import Event, Feedback, Impression
from streammetrics.runtime.consume.consumer import Worker
from streammetrics.runtime.consume.rules import WorkerRules
from tests.support.brute_force import FOR_EVER_MS
from tests.support.faults import FaultyStore, HandClock, KeptLetters, Logs, LogSource, SlowNetwork
from tests.support.machine import engine_of
from tests.support.native_json import native_json
from tests.support.strategies import ACTIONS, EXPERIMENTS, SEGMENTS, VALUES
from tests.support.worker_bench import FAR_MS, RULES, SETTINGS, START_MS, TURNS_MAX, UNIQUE_USERS, settled, worker_over

TASKS = 3


def random_record(chance: Random, task: int, now: int) -> tuple[str, bytes, int]:
    """Return a record for a task: topic, bytes and timestamp. Some are late, repeated, from the future or malformed."""
    topic = chance.choice(SETTINGS.inputs)
    user = f"u{task}-{chance.randrange(4)}"
    ts = now - chance.choice((0, 0, 0, 1, 2, 3, 7, 12))
    identity = chance.choice("wxyz")
    items = tuple(chance.choices("abc", k=chance.randint(0, 4)))
    if chance.random() < 0.05:
        return topic, chance.choice((b"", b"{", b'{"type":"feedback"}', b"\xff")), -1
    event: Event
    if topic == SETTINGS.inputs[0]:
        positions = tuple(sorted(chance.sample(range(6), len(items)))) if chance.random() < 0.3 else None
        event = Impression(identity, user, ts, items, chance.choice(EXPERIMENTS), chance.choice(SEGMENTS), positions)
    else:
        known = identity if chance.random() < 0.7 else None
        event = Feedback(user, ts, chance.choice("abc"), chance.choice(ACTIONS), chance.choice(VALUES), known)
    record_ms = chance.choice((-1, -1, -1, ts, ts - SETTINGS.future_ms, ts - SETTINGS.future_ms - 1))
    return topic, native_json(event), record_ms


class Simulation:
    """Two workers over the same logs and store. A seed decides what happens to them."""

    def __init__(self, seed: int) -> None:
        random.seed(seed)  # the worker's own jitter
        self.chance = Random(seed)
        self.engine = engine_of(SETTINGS, experiments=ExperimentRules(idle_ms=FOR_EVER_MS), unique_users=UNIQUE_USERS)
        self.clock = HandClock(START_MS)
        self.logs = Logs(SETTINGS.inputs, TASKS)
        self.store = FaultyStore(self.chance, failures=0.08, thefts=0.03)
        self.letters = KeptLetters(chance=self.chance, failures=0.05)
        self.network = SlowNetwork(self.chance)
        self.owner = dict.fromkeys(range(TASKS), 0)
        self.known: dict[int, set[int]] = {0: set(), 1: set()}
        self.workers = [self.start_worker(number) for number in (0, 1)]
        self.now = START_MS
        self.crashes = self.rollbacks = self.losses = 0

    def start_worker(self, number: int, rules: WorkerRules = RULES) -> Worker:
        """Start a worker with the tasks that it owns."""
        source = LogSource(self.logs, records_max=5, chance=self.chance, failures=0.03)
        self.known[number] = {task for task, owner in self.owner.items() if owner == number}
        source.give(*self.known[number])
        return worker_over(self.engine, source, self.store, self.letters, rules, self.clock, commits=self.network)

    def happen(self) -> None:
        """Do one thing that the seed chooses."""
        number = self.chance.randrange(2)
        choice = self.chance.random()
        if choice < 0.55:
            self.turn(number)
        elif choice < 0.60:
            self.network.let_one_arrive()
        elif choice < 0.80:
            self.write(self.chance.randint(1, 6))
        elif choice < 0.88:
            self.clock.advance(self.chance.choice((0.001, 0.004, 0.05)))
        elif choice < 0.92:
            self.owner[self.chance.randrange(TASKS)] = number
        elif choice < 0.96:
            self.rebalance(number)
        elif choice < 0.985:
            self.crashes += 1
            self.workers[number] = self.start_worker(number)
        else:
            self.rollbacks += 1
            self.store.forget_last(self.chance.randrange(TASKS), self.chance.choice((1, 2, 3, 6, 6, 1_000)))

    def turn(self, number: int) -> None:
        """Run one turn of a worker. It stops if the store has lost everything, and is started again."""
        try:
            self.workers[number].turn()
        except StateError as error:
            if "lost all state" not in str(error):
                raise
            self.losses += 1
            self.workers[number] = self.start_worker(number)

    def rebalance(self, number: int) -> None:
        """Inform a worker of the tasks that it owns. Until then it works on those that it owned before."""
        mine = {task for task, owner in self.owner.items() if owner == number}
        source = self.workers[number].source
        assert isinstance(source, LogSource)
        source.take_away(*self.known[number] - mine)
        source.give(*mine - self.known[number])
        self.known[number] = mine

    def write(self, count: int) -> None:
        for _ in range(count):
            self.now += self.chance.choice((0, 0, 0, 1, 1, 2, 3, 7, 8))
            task = self.chance.randrange(TASKS)
            topic, value, record_ms = random_record(self.chance, task, self.now)
            self.logs.append(Input(topic, task), value, record_ms)

    def write_ends(self) -> None:
        """Write a last event to every input, so far ahead that all earlier sessions end."""
        for place in self.logs.of:
            user, ts = f"end-{place.partition}", self.now + FAR_MS
            shown = Impression("end", user, ts, ("a",))
            self.logs.append(place, native_json(shown if place.topic == SETTINGS.inputs[0] else Feedback(user, ts, "a", "click")))

    def settle(self, rules: WorkerRules = RULES, sessions_open: int = 0) -> None:
        """End all faults, and let one worker process the rest until each task has this many open sessions."""
        self.store.calm()
        self.letters.failures = 0.0
        self.owner = dict.fromkeys(range(TASKS), 0)
        self.workers = [self.start_worker(0, rules)]
        assert isinstance(self.workers[0].source, LogSource)
        self.workers[0].source.failures = 0.0
        for _ in range(TURNS_MAX):
            self.workers[0].turn()
            self.clock.advance(0.004)
            if settled(self.store, self.logs, sessions_open):
                break
        self.workers[0].finish()
        self.network.let_all_arrive()
