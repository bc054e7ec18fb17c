"""Simulated Kafka: logs and who reads them, dead letters, and the topic of results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from random import Random

from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.source import Input, PollResult
from streammetrics.errors import SourceError
from streammetrics.events.model import Event, Feedback, Impression
from streammetrics.reports.result_records import ResultRecord
from tests.support.faults import KeptLetters, Logs, LogSource
from tests.support.native_json import native_json
from tests.support.strategies import ACTIONS, EXPERIMENTS, SEGMENTS, VALUES
from tests.tools.simulation.fate import Fate
from tests.tools.simulation.schedule import SETTINGS


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
        key = identity if chance.random() < 0.7 else None
        event = Feedback(user, ts, chance.choice("abc"), chance.choice(ACTIONS), chance.choice(VALUES), key)
    record_ms = chance.choice((-1, -1, -1, ts, ts - SETTINGS.future_ms, ts - SETTINGS.future_ms - 1))
    return topic, native_json(event), record_ms


class Reader(LogSource):
    """A worker's source. It may fail, and its process may die in a call."""

    def __init__(self, logs: Logs, fate: Fate, committed: Callable[[Input], int]) -> None:
        super().__init__(logs, records_max=5, chance=fate.chance)
        self._fate, self._committed = fate, committed

    def goes(self, now_seconds: float) -> None:
        """The brokers go away, or come back."""
        self.health = replace(self.health, reachable=not self.health.reachable, since=now_seconds, last_error="no broker answers")

    def poll(self, timeout_s: float, collect_s: float = 0.0) -> PollResult:
        self._fate.may_die()
        if self._fate.strikes("the log does not answer"):
            raise SourceError("the log does not answer")
        return super().poll(timeout_s, collect_s) if self.health.reachable else PollResult()

    def acknowledge(self, offsets: Mapping[Input, int]) -> None:
        """Check that the store has what is acknowledged. It may lose it afterwards."""
        self._fate.may_die()
        for place, offset in offsets.items():
            assert offset <= self._committed(place), (
                f"offset {offset} of {place} is acknowledged, and {self._committed(place)} is committed"
            )
        super().acknowledge(offsets)


class Letters(KeptLetters):
    """The topic of dead letters."""

    def __init__(self, fate: Fate) -> None:
        super().__init__()
        self._fate = fate

    def write(self, letters: Iterable[DeadLetter]) -> None:
        written = list(letters)
        self._fate.may_die()
        if self._fate.strikes("a dead letter is not taken"):
            self.kept += written[: self._fate.chance.randint(0, len(written))]
            raise SourceError("the topic of dead letters does not answer")
        super().write(written)
        self._fate.may_die()


class ResultsTopic:
    """The topic of results: all records in order."""

    def __init__(self, fate: Fate) -> None:
        self.records: list[ResultRecord] = []
        self.is_away = False
        self._fate = fate

    def write(self, records: Iterable[ResultRecord]) -> None:
        written = list(records)
        self._fate.may_die()
        if self.is_away or self._fate.strikes("a result is not taken"):
            self.records += written[: self._fate.chance.randint(0, len(written))]
            raise SourceError("the topic of results does not answer")
        self.records += written
        self._fate.may_die()

    def newest(self) -> dict[bytes, bytes]:
        """Return the newest value of each key, as after compaction."""
        return {record.key: record.value for record in self.records}
