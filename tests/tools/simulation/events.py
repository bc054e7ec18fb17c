"""What may happen to the processes of a world, by the name of the event. A function returns False if it found nothing to do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from streammetrics.connectors.source import Input
from streammetrics.errors import StateError, UnfitStateError
from streammetrics.runtime.consume.consumer import Worker
from tests.support.faults import DelayedCall
from tests.support.machine import engine_of
from tests.tools.simulation.exporter import Exporter
from tests.tools.simulation.fate import ProcessDied
from tests.tools.simulation.journal import JournaledEngine
from tests.tools.simulation.kafka import random_record
from tests.tools.simulation.schedule import SETTINGS, Event, other_rules
from tests.tools.simulation.states import state_of
from tests.tools.simulation.world import EXPERIMENTS, World

WORKERS_MAX = 3
UNFIT = replace(SETTINGS, gap_ms=SETTINGS.gap_ms + 1)
PATIENCE_SECONDS = 0.2
COMMIT_SECONDS = 0.02
"""The longest time between two commits."""
STALL_TURNS_MAX = 5
"""Most turns of the next owner while a worker stalls. It needs one to claim the task, and one to read it."""


def happen(world: World, event: Event) -> None:
    """Carry out one event, and count it if it did anything."""
    world.fate.begin(event.seed)
    if EVENTS[event.kind](world) is not False:
        world.fate.note(event.kind)


def turn(world: World) -> None:
    number = world.any_worker()
    for task in world.workers[number].tasks.values():
        world.fate.states[state_of(task)] += 1
    world.run_worker(number)


def write(world: World) -> None:
    if world.chance.random() < 0.05:
        world.now += 60_000
    for _ in range(world.chance.randint(1, 4)):
        world.now += world.chance.choice((0, 0, 0, 1, 1, 2, 3, 7, 8))
        task = world.any_task()
        topic, value, record_ms = random_record(world.chance, task, world.now)
        world.logs.append(Input(topic, task), value, record_ms)


def write_again(world: World) -> bool:
    """Write the last records of an input once more, like a producer that did not see the reply."""
    place = world.chance.choice(list(world.logs.of))
    last = world.logs.of[place][-world.chance.randint(1, 3) :]
    for record in last:
        world.logs.append(place, record.value, record.timestamp_ms)
    return bool(last)


def publish(world: World) -> None:
    """Let an exporter publish, and most times also send what waits."""
    number = world.chance.randrange(len(world.exporters))
    world.run_exporter(number)
    if world.chance.random() < 0.7:
        world.run_exporter(number, Exporter.deliver)


def pass_time(world: World) -> None:
    world.clock.advance(world.chance.choice((0.001, 0.004, 0.05, 2.0)))


def step_clock(world: World) -> None:
    world.clock.step(world.chance.choice((-60_000, -50, 50, 60_000)))


def move(world: World) -> None:
    """Give a task to another owner, who mostly learns it at once. The one before goes on until it learns it, too."""
    number = world.any_worker()
    world.owner[world.any_task()] = number
    if world.chance.random() < 0.7:
        world.inform(number)


def stall(world: World) -> bool:
    """Let a worker stall with a commit on its way. Another takes its task over and works on it. Then the commit arrives.

    The worker that stalled goes on until it learns that the task is not its own any more.
    """
    number = world.owner[world.any_task()]
    other = (number + 1) % len(world.workers)
    on_way = [] if other == number else _commits_on_their_way(world, number)
    if not on_way:
        return False
    task, reply = world.chance.choice(on_way)
    world.owner[task] = other
    world.inform(other)
    for _ in range(world.chance.randint(1, STALL_TURNS_MAX)):
        world.run_worker(other)
    reply.arrive()
    world.run_worker(number)
    return True


def _commits_on_their_way(world: World, number: int) -> list[tuple[int, DelayedCall]]:
    """Return the tasks of a worker with a commit that has not arrived yet. Without one, the worker works on."""
    for _ in range(STALL_TURNS_MAX):
        if on_way := world.commits_on_their_way(number):
            return on_way
        write(world)
        world.clock.advance(COMMIT_SECONDS)
        world.run_worker(number)
    return world.commits_on_their_way(number)


def kill_worker(world: World) -> None:
    number = world.any_worker()
    world.workers[number] = world.new_worker(number)


def _stop(world: World, number: int) -> None:
    world.run_worker(number, lambda worker: worker.finish(PATIENCE_SECONDS))


def stop_worker(world: World) -> None:
    number = world.any_worker()
    _stop(world, number)
    world.workers[number] = world.new_worker(number)


def scale(world: World) -> None:
    """Add a worker, or stop the last one."""
    count = len(world.workers)
    if count < WORKERS_MAX and (count == 1 or world.chance.random() < 0.5):
        world.known.append(set())
        world.workers.append(world.new_worker(count))
        return
    _stop(world, count - 1)
    world.workers.pop()
    world.known.pop()
    world.owner = {task: min(owner, count - 2) for task, owner in world.owner.items()}


def restart_with_other_rules(world: World) -> None:
    """Stop all workers and start them with other settings that change no result."""
    world.rules = replace(world.rules, **other_rules(world.chance))
    for number in range(len(world.workers)):
        _stop(world, number)
        world.workers[number] = world.new_worker(number)


def start_unfit(world: World) -> bool:
    """Start a worker with other rules of windows in place of one that has state to read. It must refuse the state."""
    number, readable = world.any_worker(), world.store.committed().keys() - world.store.evicted
    owned = {task for task, owner in world.owner.items() if owner == number}
    if not owned or not owned <= readable:
        return False
    engine = JournaledEngine.of(engine_of(UNFIT, experiments=EXPERIMENTS, quantiles=False))
    worker = world.new_worker(number, engine)
    written = len(world.store.written)
    with contextlib.suppress(UnfitStateError, ProcessDied, StateError):
        Worker.turn(worker)
        Worker.turn(worker)
    assert not any(engine.has_saved(commit.changes.control) for commit in world.store.written[written:])
    world.workers[number] = world.new_worker(number)
    return True


def kill_exporter(world: World) -> None:
    world.exporters[world.chance.randrange(len(world.exporters))] = world.new_exporter()


def fail_over(world: World) -> None:
    world.store.fail_over(world.any_task(), world.chance.choice((1, 2, 3, 6, 6, 1_000)))


def toggle_brokers(world: World) -> None:
    world.reader(world.any_worker()).goes(world.clock.monotonic())


def toggle_server(world: World) -> None:
    world.store.unreachable ^= {world.any_task()}


def toggle_topic(world: World) -> None:
    world.topic.is_away = not world.topic.is_away


def evict(world: World) -> bool:
    task = world.any_task()
    if task not in world.store.committed():
        return False
    world.store.evicted.add(task)
    return True


EVENTS: Final[Mapping[str, Callable[[World], object]]] = {
    "turn": turn,
    "write": write,
    "publish": publish,
    "time passes": pass_time,
    "a commit arrives": lambda world: world.network.let_one_arrive(),
    "a task gets another owner": move,
    "a worker stalls with a commit on its way": stall,
    "a member learns its tasks": lambda world: world.inform(world.any_worker()),
    "a producer sends again": write_again,
    "the worker dies": kill_worker,
    "the worker stops": stop_worker,
    "a worker more or less": scale,
    "restart with other settings": restart_with_other_rules,
    "start with settings that do not fit": start_unfit,
    "the exporter dies": kill_exporter,
    "failover": fail_over,
    "the clock steps": step_clock,
    "the brokers go or come": toggle_brokers,
    "a server of the store goes or comes": toggle_server,
    "the results topic goes or comes": toggle_topic,
    "the store evicts a key": evict,
}
