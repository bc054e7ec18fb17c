"""Damaged records of every form through one worker, in one task. Every event that a decoder returns is counted once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final

from streammetrics.config import Settings
from streammetrics.connectors.clock import SystemClock
from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.memory import MemoryStore
from streammetrics.connectors.source import Input, InputRecord, PollResult, SourceHealth
from streammetrics.events import Decoder
from streammetrics.events.outcomes import IGNORED, MALFORMED, OUTCOMES
from streammetrics.runtime.consume.consumer import Worker
from streammetrics.runtime.consume.task_runner import TaskRunner
from streammetrics.runtime.status import ProcessStatus
from streammetrics.wiring.decoders import build_topic_decoders
from streammetrics.wiring.engine import build_engine, build_worker_rules
from streammetrics.wiring.reports import build_report_builder
from tests.tools.bench.parts import WrongAnswerError
from tests.tools.fuzz.laws import Outcomes, only_explainers
from tests.tools.fuzz.topics import Topics

CHUNK: Final = 50


class _Logs:
    """A source of one task that hands out records, a chunk of each topic in turn."""

    health = SourceHealth()

    def __init__(self, topics: Sequence[str], values: Callable[[str, int], list[bytes | None]], count: int) -> None:
        self.topics, self._values = topics, values
        self.counts = {topic: (count + at) // len(topics) for at, topic in enumerate(topics)}
        self.written = dict.fromkeys(topics, 0)
        self.paused: set[Input] = set()
        self._assigned = False

    def poll(self, timeout_s: float, collect_s: float = 0.0) -> PollResult:
        if not self._assigned:
            self._assigned = True
            return PollResult(assigned=frozenset({0}))
        records = {}
        for topic in self.topics:
            size = min(CHUNK, self.counts[topic] - self.written[topic])
            if size and Input(topic, 0) not in self.paused:
                first = self.written[topic]
                values = self._values(topic, size)
                records[Input(topic, 0)] = [InputRecord(first + at, -1, value) for at, value in enumerate(values)]
                self.written[topic] += size
        return PollResult(records)

    def inputs_of(self, task: int) -> tuple[Input, ...]:
        return tuple(Input(topic, 0) for topic in self.topics)

    def start(self, task: int, offsets: Mapping[Input, int]) -> Mapping[Input, int]:
        return dict.fromkeys(self.inputs_of(task), 0)

    def pause(self, inputs: Collection[Input]) -> None:
        self.paused.update(inputs)

    def resume(self, inputs: Collection[Input]) -> None:
        self.paused.difference_update(inputs)

    def ends(self) -> Mapping[Input, int]:
        return {Input(topic, 0): count for topic, count in self.written.items()}

    def acknowledge(self, offsets: Mapping[Input, int]) -> None:
        pass

    def close(self) -> None:
        pass


class _Letters:
    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()

    def write(self, letters: Iterable[DeadLetter]) -> None:
        self.reasons.update(letter.reason for letter in letters)

    def close(self) -> None:
        pass


def check_records(outcomes: Outcomes, folder: Path, count: int, seed: int) -> Counter[str]:
    """Send records through a worker. Returns its counters. Raises WrongAnswerError if they do not add up."""
    random, topics = Random(seed), Topics(folder)
    settings, before = topics.settings(random), outcomes.total
    decoders, letters, status = _decoders(settings, outcomes), _Letters(), ProcessStatus()
    streams = {topic: topics.records(topic, Random(f"{seed} {topic}")) for topic in topics.own}
    source = _Logs(list(topics.own), lambda topic, size: list(islice(streams[topic], size)), count)
    store, engine, parts = MemoryStore(), build_engine(settings, settings.kafka.topics), Counter(outcomes.parts)
    worker = Worker(
        TaskRunner(
            engine=engine,
            decode=decoders["native"],
            topic_decoders=decoders,
            source=source,
            store=store,
            letters=letters,
            rules=build_worker_rules(settings),
            clock=SystemClock(),
            status=status,
        )
    )
    while sum(status.records.values()) < count:
        worker.turn(timeout_s=0)
    worker.drain(flush=True)
    builder = build_report_builder(settings, engine)
    builder.update(0, store.view([0], {})[0])
    worker.finish()
    counts: Counter[str] = Counter()
    for (reason, _), number in builder.report(1).counts.items():
        counts[reason] += number
    _check(counts, outcomes.parts - parts, letters.reasons)
    if outcomes.total - before != count:
        raise WrongAnswerError(f"{outcomes.total - before} records were decoded, not {count}")
    return counts


def _decoders(settings: Settings, outcomes: Outcomes) -> dict[str, Decoder]:
    with only_explainers():
        explain = build_topic_decoders(settings, settings.kafka.topics)
    return {topic: outcomes.checked(topic, decode, explain[topic]) for topic, decode in build_topic_decoders(settings, explain).items()}


def _check(counts: Counter[str], decoded: Counter[str], letters: Counter[str]) -> None:
    problems = []
    if counts["events"] != decoded.total():
        problems.append(f"{counts['events']} events were counted, and decoders returned {decoded.total()}")
    problems += [
        f"{reason}: {counts[reason]} counted, {decoded[reason]} returned"
        for reason in (*MALFORMED, IGNORED)
        if reason != "too_many_items" and counts[reason] != decoded[reason]
    ]
    if unknown := decoded.keys() - {"read", IGNORED, *MALFORMED}:
        problems.append(f"reasons that are in no table: {sorted(unknown)}")
    kept = {outcome.name for outcome in OUTCOMES if outcome.is_dead_lettered} - {"too_many_items"}
    if any(letters[reason] > counts[reason] or (counts[reason] and not letters[reason]) for reason in kept):
        problems.append(f"dead letters {dict(letters)} do not match the counters {dict(counts)}")
    if problems:
        raise WrongAnswerError("; ".join(problems))
