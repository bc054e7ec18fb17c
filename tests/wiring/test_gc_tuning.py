"""Tests of the tuned garbage collection."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
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
from tests.servers.process import wait_until


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


@contextmanager
def collecting(every_seconds: float) -> Iterator[threading.Thread]:
    """Run the loop in a thread while the block runs, and stop it."""
    stop = threading.Event()
    searching = threading.Thread(target=collect_garbage, args=(stop, every_seconds))
    searching.start()
    try:
        yield searching
    finally:
        stop.set()
        searching.join(10)


def test_garbage_is_collected_with_few_objects_and_the_loop_stops() -> None:
    left = weakref.ref(Cycle())
    with collecting(0.01) as searching:
        wait_until(lambda: left() is None, what="the cycle is found")
    assert not searching.is_alive()


@pytest.mark.parametrize("generation", [1, 2])
def test_garbage_that_was_in_use_at_a_collection_is_collected_later(generation: int) -> None:
    cycle = Cycle()
    for older in range(generation):
        gc.collect(older)
    left = weakref.ref(cycle)
    del cycle
    gc.collect(generation - 1)
    assert left() is not None
    with collecting(0.001):
        wait_until(lambda: left() is None, what="the old cycle is found")


def test_python_does_not_collect_after_a_hundred_thousand_objects() -> None:
    collections: list[str] = []

    def note(phase: str, _: dict[str, int]) -> None:
        collections.append(phase)

    gc.callbacks.append(note)
    try:
        kept = [[number] for number in range(100_000)]
    finally:
        gc.callbacks.remove(note)
    assert collections == []
    assert len(kept) == 100_000


def test_with_many_young_objects_one_collection_in_a_dozen_runs() -> None:
    class Stop(threading.Event):
        """Stops after some waits, and records the wait before each collection."""

        def __init__(self) -> None:
            super().__init__()
            self.waits = 0
            self.collected_after: list[int] = []

        def wait(self, timeout: float | None = None) -> bool:
            self.waits += 1
            return self.waits > 3 * (SKIPPED_MAX + 1)

        def note(self, phase: str, _: dict[str, int]) -> None:
            if phase == "stop":
                self.collected_after.append(self.waits)
                kept.extend([number] for number in range(2 * YOUNG_FEW))

    stop, kept = Stop(), [[number] for number in range(2 * YOUNG_FEW)]
    gc.callbacks.append(stop.note)
    try:
        collect_garbage(stop)
    finally:
        gc.callbacks.remove(stop.note)
    assert stop.collected_after == [number * (SKIPPED_MAX + 1) for number in (1, 2, 3)]


@pytest.mark.parametrize("is_frozen", [False, True])
def test_collections_are_rare_only_for_a_while_and_what_others_froze_stays(is_frozen: bool) -> None:
    gc.set_threshold(700, 10, 10)
    if not is_frozen:
        gc.unfreeze()
    with rare_garbage_collection():
        assert gc.get_threshold()[0] == YOUNG_MAX
        assert gc.get_freeze_count() > 0
    assert (gc.get_threshold(), gc.get_freeze_count() > 0) == ((700, 10, 10), is_frozen)
