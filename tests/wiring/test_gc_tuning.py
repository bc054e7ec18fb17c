"""Tests of the tuned garbage collection."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from streammetrics.wiring.gc_tuning import (
    SKIPPED_MAX,
    YOUNG_FEW,
    YOUNG_MAX,
    collect_garbage,
    rare_garbage_collection,
    tune_garbage_collection,
)
from tests.tools.servers.process import wait_until


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def tuned() -> Iterator[None]:
    before = gc.get_threshold()
    tune_garbage_collection()
    yield
    gc.set_threshold(*before)
    gc.freeze()  # as the tests find it


class Stop(threading.Event):
    """Stops after some waits. A wait lasts as long on its clock as it says, and a collection of everything `all_seconds`."""

    def __init__(self, waits: int, all_seconds: float = 0.0) -> None:
        super().__init__()
        self.left, self.now = waits, 0.0
        self.all_seconds = all_seconds
        self.collected_at: dict[int, list[float]] = {0: [], 2: []}

    def wait(self, timeout: float | None = None) -> bool:
        self.left, self.now = self.left - 1, self.now + (timeout or 0.0)
        return self.left < 0

    def clock(self) -> float:
        return self.now

    def note(self, phase: str, which: dict[str, int]) -> None:
        if phase == "stop":
            self.collected_at[which["generation"]].append(self.now)
            self.now += self.all_seconds if which["generation"] == 2 else 0.0


@contextmanager
def noted(note: Callable[[str, dict[str, int]], None]) -> Iterator[None]:
    gc.callbacks.append(note)
    try:
        yield
    finally:
        gc.callbacks.remove(note)


def test_the_loop_ends_when_it_is_stopped() -> None:
    stop, left = threading.Event(), weakref.ref(Cycle())
    searching = threading.Thread(target=collect_garbage, args=(stop, 0.01))
    searching.start()
    try:
        wait_until(lambda: left() is None, what="the cycle is found")
    finally:
        stop.set()
        searching.join(10)
    assert not searching.is_alive()


def test_garbage_that_was_in_use_at_collections_is_collected_after_a_minute() -> None:
    cycle = Cycle()
    gc.collect()
    left = weakref.ref(cycle)
    del cycle
    stop = Stop(waits=11)
    collect_garbage(stop, 5.0, stop.clock)
    assert left() is not None
    stop = Stop(waits=12)
    collect_garbage(stop, 5.0, stop.clock)
    assert left() is None


@pytest.mark.parametrize(("all_seconds", "expected"), [(0.01, [60.0, 120.0, 180.0]), (0.1, [60.0, 160.0]), (1.0, [60.0])])
def test_collections_of_everything_take_at_most_a_thousandth_of_the_time(all_seconds: float, expected: list[float]) -> None:
    stop = Stop(waits=40, all_seconds=all_seconds)
    with noted(stop.note):
        collect_garbage(stop, 5.0, stop.clock)
    assert [5 * round(at / 5) for at in stop.collected_at[2]] == expected
    assert len(stop.collected_at[0]) == 40 - len(expected)


def test_python_does_not_collect_after_a_hundred_thousand_objects() -> None:
    collections: list[str] = []
    with noted(lambda phase, _: collections.append(phase)):
        kept = [[number] for number in range(100_000)]
    assert collections == []
    assert len(kept) == 100_000


def test_with_many_young_objects_one_collection_in_a_dozen_runs() -> None:
    stop, kept = Stop(waits=3 * (SKIPPED_MAX + 1)), [[number] for number in range(2 * YOUNG_FEW)]

    def note(phase: str, which: dict[str, int]) -> None:
        stop.note(phase, which)
        if phase == "stop":
            kept.extend([number] for number in range(2 * YOUNG_FEW))

    with noted(note):
        collect_garbage(stop, 1.0, stop.clock)
    assert stop.collected_at == {0: [12.0, 24.0, 36.0], 2: []}


@pytest.mark.parametrize("is_frozen", [False, True])
def test_collections_are_rare_only_for_a_while_and_what_others_froze_stays(is_frozen: bool) -> None:
    gc.set_threshold(700, 10, 10)
    if not is_frozen:
        gc.unfreeze()
    with rare_garbage_collection():
        assert gc.get_threshold()[0] == YOUNG_MAX
        assert gc.get_freeze_count() > 0
    assert (gc.get_threshold(), gc.get_freeze_count() > 0) == ((700, 10, 10), is_frozen)
