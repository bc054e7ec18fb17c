"""Which records and ticks the committed state has processed, in which order: noted at the engine, so that the oracle can take the same.

Ticks depend on the clock. Their place among the records is known only to the state, so it is noted with the state. A commit that is lost
takes its part of the journal with it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from streammetrics.connectors.source import Input
from streammetrics.engine.batch import Batch, BatchResult
from streammetrics.engine.engine import Engine, SaveResult
from streammetrics.engine.task_state import TaskState
from streammetrics.state.tables import Rows
from tests.oracle import Idle, Settings, Tick
from tests.support.worker_bench import Order

NO_ROWS: Mapping[str, Any] = MappingProxyType({})


class Entry(NamedTuple):
    """One step: the idle inputs, the offsets that were taken of one input, and the time of a tick."""

    idle: frozenset[int]
    topic: int | None
    offsets: tuple[int, ...]
    tick_ms: int | None


Node: TypeAlias = "tuple[Node | None, Entry]"


class JournaledEngine(Engine):
    """The engine, which notes each step of each state."""

    @classmethod
    def of(cls, engine: Engine) -> JournaledEngine:
        """Return an engine with the same rules and a new journal."""
        journaled = copy.copy(engine)
        journaled.__class__ = cls
        assert isinstance(journaled, cls)
        journaled._states, journaled._controls = {}, {}
        return journaled

    _states: dict[int, tuple[TaskState, Node | None]]
    _controls: dict[int, tuple[bytes, Node | None]]
    """By identity: two states, or two commits, may be equal."""

    def open(
        self,
        control: bytes | None,
        rows: Rows = NO_ROWS,
        older: Mapping[str, AbstractSet[str]] = NO_ROWS,
    ) -> TaskState:
        state = super().open(control, rows, older)
        self._states[id(state)] = state, None if control is None else self._controls[id(control)][1]
        return state

    def step(
        self,
        state: TaskState,
        batch: Batch | None,
        due: Sequence[str] = (),
        idle: frozenset[int] = frozenset(),
        tick_ms: int | None = None,
        ended_until: int | None = None,
    ) -> BatchResult:
        if batch is not None or idle:
            offsets = () if batch is None else tuple(record[0] for record in batch.records)
            entry = Entry(idle, None if batch is None else batch.topic, offsets, tick_ms)
            self._states[id(state)] = state, (self._states[id(state)][1], entry)
        return super().step(state, batch, due, idle, tick_ms, ended_until)

    def save(self, state: TaskState, *, with_sessions: bool = True) -> SaveResult:
        saved = super().save(state, with_sessions=with_sessions)
        control = saved.changes.control
        self._controls[id(control)] = control, self._states[id(state)][1]
        return saved

    def has_saved(self, control: bytes) -> bool:
        """Return whether this engine has made a control record."""
        return id(control) in self._controls

    def order(self, task: int, control: bytes, settings: Settings) -> Order:
        """Return what the state of a task with this control record has processed."""
        entries: list[Entry] = []
        node = self._controls[id(control)][1]
        while node is not None:
            node, entry = node
            entries.append(entry)
        return list(_steps(reversed(entries), task, settings))


def _steps(entries: Iterator[Entry], task: int, settings: Settings) -> Iterator[Idle | Tick | tuple[Input, int]]:
    inputs = settings.inputs
    inputs_so_far, ticked = frozenset[int](), -1
    for idle, topic, offsets, tick_ms in entries:
        if len(idle) == len(inputs) and tick_ms is not None:
            if inputs_so_far != idle or tick_ms > ticked:
                yield Tick(tick_ms + settings.idle_ms + settings.out_of_orderness_ms)
            ticked = max(ticked, tick_ms)
        elif idle != inputs_so_far:
            yield Idle(frozenset(inputs[index] for index in idle))
        inputs_so_far = idle
        if topic is not None:
            yield from ((Input(inputs[topic], task), offset) for offset in offsets)
