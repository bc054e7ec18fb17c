"""Workers and exporters over simulated systems, in one thread. `events` says what happens to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from streammetrics.enrolment.rules import ExperimentRules
from streammetrics.errors import StateError
from streammetrics.runtime.consume.consumer import Worker
from streammetrics.runtime.consume.limits import WorkerRules
from tests.support.brute_force import FOR_EVER_MS
from tests.support.faults import DelayedCall, HandClock, Logs, SlowNetwork
from tests.support.machine import engine_of
from tests.support.worker_bench import RULES, START_MS, UNIQUE_USERS, worker_over
from tests.tools.simulation.exporter import Exporter
from tests.tools.simulation.fate import Fate, ProcessDied
from tests.tools.simulation.journal import JournaledEngine
from tests.tools.simulation.kafka import Letters, Reader, ResultsTopic
from tests.tools.simulation.redis import SimulatedRedis
from tests.tools.simulation.schedule import SETTINGS, Schedule

EXPERIMENTS = ExperimentRules(idle_ms=FOR_EVER_MS)


class World:
    """All processes of one run and what they share."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.fate = schedule, Fate(schedule.shares)
        self.fate.begin(schedule.seed)
        self.chance = self.fate.chance
        self.clock = HandClock(START_MS)
        self.logs = Logs(SETTINGS.inputs, schedule.tasks)
        self.store = SimulatedRedis(self.fate, self._meanwhile)
        self.letters, self.topic = Letters(self.fate), ResultsTopic(self.fate)
        self.network = SlowNetwork(self.chance)
        self.engine = JournaledEngine.of(engine_of(SETTINGS, experiments=EXPERIMENTS, unique_users=UNIQUE_USERS, quantiles=False))
        self.rules: WorkerRules = replace(RULES, **schedule.rules)
        self.now = START_MS
        """The time of the newest events."""
        self.owner = {task: task % schedule.workers for task in range(schedule.tasks)}
        """The worker that owns each task, as the group has decided."""
        self.known: list[set[int]] = [set() for _ in range(schedule.workers)]
        """The tasks of each worker, as it knows them."""
        self.workers: list[Worker] = []
        self._running: set[int] = set()
        self._is_nested = False
        self.is_ending = False
        """Whether the workers have stopped for good."""
        self.store.announce(schedule.tasks)
        self.workers.extend(self.new_worker(number) for number in range(schedule.workers))
        self.exporters = [self.new_exporter() for _ in range(schedule.exporters)]

    def new_worker(self, number: int, engine: JournaledEngine | None = None) -> Worker:
        """Start a worker with the tasks that it owns."""
        source = Reader(self.logs, self.fate, self.store.reached)
        self.known[number] = {task for task, owner in self.owner.items() if owner == number}
        source.give(*self.known[number])
        return worker_over(engine or self.engine, source, self.store, self.letters, self.rules, self.clock, commits=self.network)

    def new_exporter(self) -> Exporter:
        """Start an exporter."""
        return Exporter(self.engine, self.store, self.clock, self.schedule.stale_ms, self.topic)

    def any_worker(self) -> int:
        return self.chance.randrange(len(self.workers))

    def any_task(self) -> int:
        return self.chance.randrange(self.schedule.tasks)

    def reader(self, number: int) -> Reader:
        """Return the source of a worker."""
        source = self.workers[number].source
        assert isinstance(source, Reader)
        return source

    def run_worker(self, number: int, act: Callable[[Worker], object] = Worker.turn) -> None:
        """Let a worker act. If it dies or stops, an operator does what its message says, and starts it again."""
        if number in self._running or self._waits_for_ever(self.workers[number]):
            return
        self._running.add(number)
        try:
            act(self.workers[number])
        except ProcessDied:
            self.workers[number] = self.new_worker(number)
        except StateError as error:
            self.repair(error)
            self.workers[number] = self.new_worker(number)
        finally:
            self._running.discard(number)

    def commits_on_their_way(self, number: int) -> list[tuple[int, DelayedCall]]:
        """Return the tasks of a worker whose commit has not arrived yet, with the call that brings it."""
        in_flight = {task: owned.commits.in_flight for task, owned in self.workers[number].tasks.items()}
        replies = [(task, sent.reply) for task, sent in in_flight.items() if sent is not None]
        return [(task, reply) for task, reply in replies if isinstance(reply, DelayedCall) and not reply.has_begun]

    def _waits_for_ever(self, worker: Worker) -> bool:
        """Whether a commit of a worker is in the middle of arriving, further down in this thread. The worker might wait for its reply."""
        in_flight = [task.commits.in_flight for task in worker.tasks.values()]
        return any(sent is not None and isinstance(sent.reply, DelayedCall) and sent.reply.is_arriving for sent in in_flight)

    def run_exporter(self, number: int, act: Callable[[Exporter], None] = Exporter.turn) -> None:
        """Let an exporter act, like a worker."""
        try:
            act(self.exporters[number])
        except ProcessDied:
            self.exporters[number] = self.new_exporter()
        except StateError as error:
            self.repair(error)
            self.exporters[number] = self.new_exporter()

    def repair(self, error: StateError) -> None:
        """Do what an operator does after a process has refused the state. Raises an error that no fault explains."""
        if (self.store.evicted or self.store.has_evicted) and "are missing" in str(error):
            self.fate.note("a process stops because a key is missing")
            self.flush()
        elif self.store.losses and ("lost all state" in str(error) or "it was deleted or flushed" in str(error)):
            self.fate.note("a process stops because all state is lost")
        else:
            raise error

    def flush(self) -> None:
        """Delete all state, as an operator does."""
        self.store.flush()
        self.store.announce(self.schedule.tasks)

    def inform(self, number: int) -> None:
        """Inform a worker of the tasks that it owns. Until then it works on those that it owned before."""
        mine = {task for task, owner in self.owner.items() if owner == number}
        source = self.reader(number)
        source.take_away(*self.known[number] - mine)
        source.give(*mine - self.known[number])
        self.known[number] = mine

    def _meanwhile(self) -> None:
        """Let something else happen in the middle of a call, now and then."""
        if self._is_nested or self.is_ending or not self.fate.strikes("something happens in the middle of a step"):
            return
        self._is_nested = True
        try:
            self._interfere(self.any_worker(), self.chance.random())
        finally:
            self._is_nested = False

    def _interfere(self, number: int, choice: float) -> None:
        if choice < 0.4:
            self.owner[self.any_task()] = number
            self.inform(number)
            self.fate.note("a rebalance in the middle of a step")
        if choice < 0.7:
            self.run_worker(number)
        elif choice < 0.85:
            self.network.let_one_arrive()
        else:
            self.run_exporter(self.chance.randrange(len(self.exporters)))
