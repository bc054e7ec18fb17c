"""Faults chosen by a seed: logs whose reads fail, a store behind a bad network, a proxy that swallows replies.

No part of the product is replaced. The store is the product's own; only the calls between it and the worker fail.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.memory import MemoryStore
from streammetrics.connectors.source import Input, InputRecord, PollResult, SourceHealth
from streammetrics.connectors.store import (
    NO_BOUNDS,
    Claim,
    Commit,
    CommitOutcome,
    DueQuery,
    PendingDueUsers,
    PendingUsers,
    StoreNode,
)
from streammetrics.errors import SourceError, StoreError, StreammetricsError
from streammetrics.state.tables import CommitMark, LoadedUsers, TaskView
from tests.tools.servers.process import HOST


class HandClock:
    """A clock that a test moves. Each read advances it a little, so that a loop that waits for a time ends."""

    def __init__(self, wall_ms: int, look_seconds: float = 0.000_1) -> None:
        self.look_seconds = look_seconds
        self._wall_ms = wall_ms
        self._passed = 0.0

    def advance(self, seconds: float) -> None:
        self._passed += seconds

    def step(self, ms: int) -> None:
        """Set the wall clock forward or back, as after a sleep of the machine. The monotonic clock does not change."""
        self._wall_ms += ms

    def monotonic(self) -> float:
        self._passed += self.look_seconds
        return self._passed

    def wall_ms(self) -> int:
        return self._wall_ms + int(self._passed * 1_000)

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)


class Logs:
    """Append-only logs, one per input. They outlive their readers."""

    def __init__(self, topics: Sequence[str], partitions: int) -> None:
        self.topics, self.partitions = tuple(topics), partitions
        self.of: dict[Input, list[InputRecord]] = {Input(topic, task): [] for topic in topics for task in range(partitions)}

    def append(self, place: Input, value: bytes | None, timestamp_ms: int = -1) -> None:
        log = self.of[place]
        log.append(InputRecord(len(log), timestamp_ms, value))

    def end(self, place: Input) -> int:
        return len(self.of[place])


class LogSource:
    """A `Source` of one worker over shared logs. `give` and `take_away` change what it owns, at the next poll.

    With a `chance`, a poll returns any number of records up to `records_max` per input, and fails now and then.
    """

    def __init__(self, logs: Logs, *, records_max: int = 1_000, chance: Random | None = None, failures: float = 0.0) -> None:
        self.logs, self.records_max, self.failures = logs, records_max, failures
        self.health = SourceHealth()
        self.paused: set[Input] = set()
        self.positions: dict[Input, int] = {}
        self.acknowledged: dict[Input, int] = {}
        self.last_poll = 0.0, 0.0
        """The longest time of the last poll, and how long records may wait to be sent together, in seconds."""
        self.closed = False
        self.chance = chance
        self._owned: set[int] = set()
        self._assigned: set[int] = set()
        self._revoked: set[int] = set()

    def give(self, *tasks: int) -> None:
        self._assigned.update(tasks)

    def take_away(self, *tasks: int) -> None:
        """Revoke tasks. A task that is given and taken away between two polls was never owned."""
        self._revoked |= self._owned & set(tasks)
        self._assigned -= set(tasks)
        self._stop(tasks)

    def _stop(self, tasks: Iterable[int]) -> None:
        for place in [place for place in self.positions if place.partition in set(tasks)]:
            del self.positions[place]

    def poll(self, timeout_s: float, collect_s: float = 0.0) -> PollResult:
        self.last_poll = timeout_s, collect_s
        if self.chance is not None and self.chance.random() < self.failures:
            raise SourceError("the log does not answer")
        revoked, assigned = frozenset(self._revoked), frozenset(self._assigned)
        self._owned = (self._owned - revoked) | assigned
        self._revoked, self._assigned = set(), set()
        self._stop(assigned)
        flowing = [place for place in self.positions if place not in self.paused]
        if self.chance is not None:
            self.chance.shuffle(flowing)
        return PollResult({place: records for place in flowing if (records := self._read(place))}, assigned, revoked)

    def _read(self, place: Input) -> Sequence[InputRecord]:
        count = self.records_max if self.chance is None else self.chance.randint(0, self.records_max)
        start = self.positions[place]
        records = self.logs.of[place][start : start + count]
        self.positions[place] = start + len(records)
        return records

    def inputs_of(self, task: int) -> tuple[Input, ...]:
        return tuple(Input(topic, task) for topic in self.logs.topics)

    def start(self, task: int, offsets: Mapping[Input, int]) -> Mapping[Input, int]:
        if task not in self._owned - self._revoked:
            return {}
        starts = {place: offsets.get(place, 0) for place in self.inputs_of(task)}
        self.positions |= starts
        self.paused.difference_update(starts)
        return starts

    def pause(self, inputs: Collection[Input]) -> None:
        self.paused.update(place for place in inputs if place in self.positions)

    def resume(self, inputs: Collection[Input]) -> None:
        self.paused.difference_update(inputs)

    def ends(self) -> Mapping[Input, int]:
        return {place: self.logs.end(place) for place in self.positions}

    def acknowledge(self, offsets: Mapping[Input, int]) -> None:
        self.acknowledged |= offsets

    def close(self) -> None:
        self.closed = True


@dataclass(slots=True)
class KeptLetters:
    """A `DeadLetterSink` in memory that fails now and then, after it has kept some of the letters."""

    kept: list[DeadLetter] = field(default_factory=list)
    chance: Random | None = None
    failures: float = 0.0
    closed: bool = False

    def write(self, letters: Iterable[DeadLetter]) -> None:
        written = list(letters)
        if self.chance is not None and self.chance.random() < self.failures:
            self.kept += written[: self.chance.randint(0, len(written))]
            raise SourceError("the dead letters' log does not answer")
        self.kept += written

    def close(self) -> None:
        self.closed = True


class FaultyStore:
    """The product's memory store behind a bad network.

    It remembers all claims and written commits, so that the last ones of a task can be lost (`forget_last`), as in a
    store that loses the end of its log. `failures` is the share of calls that fail, half of them after they took effect.
    `unreachable` are tasks that no call reaches.
    """

    def __init__(self, chance: Random | None = None, *, failures: float = 0.0) -> None:
        self.failures = failures
        self.unreachable: set[int] = set()
        self.outcomes: list[CommitOutcome] = []
        self.written: list[Commit] = []
        self.loaded_bytes: list[int] = []
        self._chance = chance or Random(0)
        self.clock_of_servers: Callable[[], int | None] = lambda: None
        self._inner = MemoryStore()
        self._done: dict[int, list[str | Commit]] = {}

    def calm(self) -> None:
        self.failures = 0.0

    @contextlib.contextmanager
    def _network(self, task: int) -> Iterator[None]:
        if task in self.unreachable:
            raise StoreError(f"no server answers for task {task}")
        fails = self._chance.random() < self.failures
        if fails and self._chance.random() < 0.5:
            raise StoreError("the request was lost")
        yield
        if fails:
            raise StoreError("the reply was lost")

    def claim(self, task: int, token: str) -> Claim:
        with self._network(task):
            return self.steal(task, token)

    def owner(self, task: int) -> str | None:
        return self._inner.owner(task)

    def steal(self, task: int, token: str) -> Claim:
        """Claim a task without network faults."""
        self._done.setdefault(task, []).append(token)
        return self._inner.claim(task, token)

    def commit(self, commit: Commit) -> CommitOutcome:
        with self._network(commit.task):
            outcome = self._inner.commit(commit)
            self.outcomes.append(outcome)
            if outcome is CommitOutcome.WRITTEN:
                self._done[commit.task].append(commit)
                self.written.append(commit)
        return outcome

    def forget_last(self, task: int, count: int) -> None:
        """Lose the last claims and commits of a task. Those of other tasks stay, and so do the values of the namespace."""
        done = self._done.get(task, [])
        del done[max(0, len(done) - count) :]
        tasks, values, self._inner = self._inner.partitions(), self._inner.compare_and_set({}), MemoryStore()
        self._inner.compare_and_set({name: (None, value) for name, value in values.items()})
        if tasks is not None:
            self._inner.announce(tasks)
        for other, entries in self._done.items():
            for entry in entries:
                if isinstance(entry, Commit):
                    self._inner.commit(entry)
                else:
                    self._inner.claim(other, entry)

    def load(
        self,
        task: int,
        users: Collection[str],
        due: DueQuery | None = None,
        totals: Collection[str] = (),
        bytes_max: int | None = None,
    ) -> LoadedUsers:
        with self._network(task):
            loaded = self._inner.load(task, users, due, totals, bytes_max)
            self.loaded_bytes.append(sum(map(len, loaded.users.values())))
            return loaded

    def request(self, task: int, users: Collection[str], bytes_max: int | None = None) -> PendingUsers | None:
        """Read the users now, or only when the reply is read. Either may be lost."""
        read = partial(self._read_users, task, frozenset(users), bytes_max)
        if self._chance.random() < 0.5:
            return read
        reply = read()
        return None if reply is None else lambda: reply

    def request_due(self, task: int, due: DueQuery) -> PendingDueUsers | None:
        """Like `request`. The caller commits nothing meanwhile, so both times give the same reply."""
        read = partial(self._read_due, task, due)
        if self._chance.random() < 0.5:
            return read
        reply = read()
        return None if reply is None else lambda: reply

    def _read_due(self, task: int, due: DueQuery) -> LoadedUsers | None:
        with contextlib.suppress(StoreError), self._network(task):
            return self._inner.load(task, [], due)
        return None

    def _read_users(self, task: int, users: frozenset[str], bytes_max: int | None) -> Mapping[str, bytes] | None:
        with contextlib.suppress(StoreError), self._network(task):
            loaded = self._inner.load(task, users, bytes_max=bytes_max)
            self.loaded_bytes.append(sum(map(len, loaded.users.values())))
            return None if loaded.unread else loaded.users
        return None

    def view(
        self,
        tasks: Collection[int],
        since: Mapping[int, CommitMark],
        rows_from: Mapping[int, Mapping[str, int]] = NO_BOUNDS,
        tables: Collection[str] | None = None,
    ) -> Mapping[int, TaskView]:
        return self._inner.view(tasks, since, rows_from, tables)

    def announce(self, partitions: int) -> int | None:
        return self._inner.announce(partitions)

    def partitions(self) -> int | None:
        return self._inner.partitions()

    def compare_and_set(self, changes: Mapping[str, tuple[bytes | None, bytes | None]]) -> Mapping[str, bytes]:
        return self._inner.compare_and_set(changes)

    def clock_ms(self, task: int) -> int | None:
        with self._network(task):
            return self.clock_of_servers()

    def ping(self) -> None:
        self._inner.ping()

    def nodes(self) -> tuple[StoreNode, ...]:
        return self._inner.nodes()

    def close(self) -> None:
        self._inner.close()


class DelayedCall(Future[Any]):
    """A call that runs when the seed says so, or when its result is needed."""

    def __init__(self, call: Callable[[], Any], chance: Random) -> None:
        super().__init__()
        self._call = call
        self._chance = chance
        self.has_begun = False

    def done(self) -> bool:
        if not super().done() and self._chance.random() < 0.5:
            self.arrive()
        return super().done()

    def result(self, timeout: float | None = None) -> Any:
        assert not self.is_arriving, "a call waits for its own result"
        self.arrive()
        return super().result(timeout)

    @property
    def is_arriving(self) -> bool:
        """Whether the call is running now. In a single thread, code that waits for it never goes on."""
        return self.has_begun and not super().done()

    def arrive(self) -> None:
        if not self.has_begun:
            self.has_begun = True
            try:
                self.set_result(self._call())
            except StreammetricsError as error:
                self.set_exception(error)


class SlowNetwork(Executor):
    """Delays calls. A call may arrive long after its sender has died."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.sent: list[DelayedCall] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> DelayedCall:
        sent = DelayedCall(lambda: fn(*args, **kwargs), self._chance)
        self.sent.append(sent)
        return sent

    def let_one_arrive(self) -> None:
        if self.sent:
            self.sent.pop(self._chance.randrange(len(self.sent))).arrive()

    def let_all_arrive(self) -> None:
        while self.sent:
            self.let_one_arrive()


EXECUTED = b"\r\n:0\r\n:"
"""Part of the reply to the EXEC of a commit after the first: counts of new fields, beginning with `ctl`."""
JUDGED = b"+OK\r\n*3\r\n"
"""Part of the reply to the reads that decide whether a commit is accepted."""


class ReplyThief:
    """A TCP proxy in front of a server. On request it swallows a reply that contains certain bytes and closes the connection.

    The client then cannot know whether its request was carried out.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listening = socket.create_server((HOST, 0))
        self.port = int(self._listening.getsockname()[1])
        self.stolen: list[bytes] = []
        self._wanted: list[bytes] = []
        self._thread = threading.Thread(target=self._serve, name="reply-thief", daemon=True)
        self._closing = threading.Event()

    def steal(self, *words: bytes) -> None:
        """Swallow one reply that contains each of these, in this order."""
        self._wanted.extend(words)

    @property
    def satisfied(self) -> bool:
        return not self._wanted

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listening, selectors.EVENT_READ)
            while not self._closing.is_set():
                for key, _ in selector.select(0.1):
                    if key.fileobj is self._listening:
                        self._accept(selector)
                    else:
                        self._carry(selector, key)
            for key in list(selector.get_map().values()):
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.close()

    def _accept(self, selector: selectors.BaseSelector) -> None:
        client, _ = self._listening.accept()
        try:
            server = socket.create_connection((HOST, self._server_port), timeout=5)
        except OSError:
            client.close()
            return
        selector.register(client, selectors.EVENT_READ, (server, False))
        selector.register(server, selectors.EVENT_READ, (client, True))

    def _carry(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        here = key.fileobj
        assert isinstance(here, socket.socket)
        if here.fileno() < 0:  # closed with its other end a moment ago
            return
        other, from_server = key.data
        try:
            data = here.recv(1 << 16)
            if from_server and self._wanted and self._wanted[0] in data:
                self.stolen.append(self._wanted.pop(0))
                data = b""
            if data:
                other.sendall(data)
                return
        except OSError:
            pass
        for end in (here, other):
            selector.unregister(end)
            end.close()

    def __enter__(self) -> ReplyThief:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join(5)
