"""The end of a run: all faults end, one worker processes the rest, and the exporters show and send it."""

from __future__ import annotations

from dataclasses import replace

from streammetrics.events.model import Feedback, Impression
from tests.support.native_json import native_json
from tests.support.worker_bench import TURNS_MAX, settled
from tests.tools.simulation.exporter import Exporter
from tests.tools.simulation.schedule import SETTINGS
from tests.tools.simulation.world import World

END_MS = 180_000
"""How far event time goes on after the last event, so that all panes become final."""
FAULTY_ROUNDS = 2
ROUNDS_MAX = 100
MORE_TURNS = 5
"""Turns in which all that is due after the last record is processed."""


def settle(world: World) -> None:
    """End all faults, and let everything be processed and shown."""
    world.fate.begin(world.schedule.seed)
    world.fate.is_calm = True
    world.store.unreachable.clear()
    world.topic.is_away = False
    if world.store.evicted:
        world.flush()
    world.rules = replace(world.rules, idle_ms=SETTINGS.idle_ms if world.schedule.ends_by_silence else world.rules.idle_ms)
    world.owner = dict.fromkeys(range(world.schedule.tasks), 0)
    world.workers = [world.new_worker(0)]
    if world.schedule.ends_by_silence:
        _process(world, sessions_open=None)
        world.clock.step(max(0, world.now - world.clock.wall_ms()))
        world.clock.advance(END_MS / 1_000)
        _process(world, sessions_open=0)
    else:
        _write_ends(world)
        _process(world, sessions_open=1)
    world.workers[0].finish()
    world.network.let_all_arrive()
    _show(world)


def _write_ends(world: World) -> None:
    """Write a last event to every input, so far ahead that all earlier sessions end."""
    for place in world.logs.of:
        user, ts = f"end-{place.partition}", world.now + END_MS
        impression = Impression("end", user, ts, ("a",))
        world.logs.append(place, native_json(impression if place.topic == SETTINGS.inputs[0] else Feedback(user, ts, "a", "click")))


def _process(world: World, sessions_open: int | None) -> None:
    """Let the worker process all records, until each task has this many open sessions, and then all that is due."""
    for _ in range(TURNS_MAX):
        world.run_worker(0)
        world.clock.advance(0.004)
        if settled(world.store, world.logs, sessions_open):
            break
    else:
        raise AssertionError(f"the worker has not processed everything after {TURNS_MAX} turns")
    for _ in range(MORE_TURNS):
        world.run_worker(0)
        world.clock.advance(0.1)


def _show(world: World) -> None:
    """Set the clock to the time of the events, so that verdicts may leave the exporters. Let these finish, at first with faults."""
    world.is_ending = True
    world.exporters.append(world.new_exporter())
    world.run_exporter(len(world.exporters) - 1)
    report = world.exporters[-1].report
    assert report is not None
    if report.watermark_ms is not None:
        world.clock.step(report.watermark_ms - world.clock.wall_ms())
    world.fate.is_calm = False
    _deliver(world, FAULTY_ROUNDS)
    world.fate.is_calm = True
    for _ in range(ROUNDS_MAX):
        before = [exporter.done for exporter in world.exporters]
        _deliver(world, 1)
        if before == [exporter.done for exporter in world.exporters]:
            return
    raise AssertionError("an exporter sends for ever")


def _deliver(world: World, rounds: int) -> None:
    for _ in range(rounds):
        for number in range(len(world.exporters)):
            world.run_exporter(number)
            world.run_exporter(number, Exporter.deliver)
