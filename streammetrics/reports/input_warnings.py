"""Inputs whose numbers are wrong or stand still. Pure.

- Late events: the share, how late they are, and the event that made them late.
- Users whose events do not meet in one task, so that feedback misses its list. The hash function of the producers does not matter, as long
  as all of them use the same.
- What workers note for everyone who reads their committed state: partitions that do not move, and that Kafka is away.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from streammetrics.engine.input_progress import Lateness, median_ms
from streammetrics.engine.task_state import ControlRecord
from streammetrics.events.event_time import DAY_MS, FOREVER, MILLISECONDS_ADVICE, NEVER, seems_seconds
from streammetrics.words.names import fit, isolated
from streammetrics.words.numbers import counted, percent
from streammetrics.words.sentences import DataWarning
from streammetrics.words.times import second_text, span_text

LATE_SHARE_MAX = 0.05
"""An input with a greater share of late events is reported first."""
SENTENCES_MAX = 3
OTHER_UNIT_MS_MIN = 10 * 365 * DAY_MS
"""No clock is so wrong: half of the late events are older, so their times are in another unit."""
SHARE_MAX: Final = 0.01
"""A larger share of users on several partitions is a problem. A few shared ids, such as "anonymous", are not."""
USERS_MIN: Final = 3
"""Fewer users than this on several partitions count as none."""
FIX: Final = (
    "set the user id as the record key in every producer, with the same partitioner; "
    "or let `streammetrics repartition` copy the topics with the user id as key"
)
OUTAGE: Final = "outage:worker:"
"""The beginning of the name of an outage. No name of a partition has two colons."""


@dataclass(frozen=True, slots=True)
class UserPartitions:
    """A sample of the users of all tasks: its size, and how many of them have events on several partitions."""

    users_sampled: int
    on_several: int

    @property
    def share(self) -> float:
        """The share of users on several partitions; 0 if they are fewer than USERS_MIN.

        >>> UserPartitions(200, 50).share, UserPartitions(200, 2).share
        (0.25, 0.0)
        """
        return self.on_several / self.users_sampled if self.on_several >= USERS_MIN else 0.0

    @property
    def problem(self) -> str:
        """One sentence if too many users are on several partitions, otherwise an empty string.

        >>> UserPartitions(200, 50).problem
        '25 % of users have events on several partitions (50 of 200 sampled users), so their feedback may miss its list'
        >>> UserPartitions(20, 2).problem, UserPartitions(1_000, 10).problem
        ('', '')
        """
        if self.share <= SHARE_MAX:
            return ""
        sample = f"{self.on_several} of {self.users_sampled} sampled users"
        return f"{percent(self.share)} of users have events on several partitions ({sample}), so their feedback may miss its list"

    def warnings(self) -> list[DataWarning]:
        """Return the problem and its fix, if there is one."""
        return [DataWarning("partitions", self.problem, FIX)] if self.problem else []


@dataclass(frozen=True, slots=True)
class WatermarkSetter:
    """The event that moved a watermark."""

    offset: int
    user_id: str
    ts: int


@dataclass(frozen=True, slots=True)
class LateInput:
    """The late events of one input. `late_by_median_ms` and `late_by_max_ms` are how much too old they were.

    `watermark_set_by` is the event that had moved the watermark for the latest of them; None: other inputs or the clock had moved it.
    """

    topic: str
    partition: int
    events: int
    late: int
    watermark_ms: int | None
    late_by_median_ms: int
    late_by_max_ms: int
    watermark_set_by: WatermarkSetter | None

    @property
    def share(self) -> float:
        return self.late / self.events

    @property
    def dated_ms(self) -> int | None:
        """About when the oldest late event is dated (ms), if an event of this input had made it late."""
        return None if self.watermark_set_by is None else self.watermark_set_by.ts - self.late_by_max_ms

    @property
    def is_in_seconds(self) -> bool:
        """Whether late events seem to be late only because their times are in seconds, and those of others in milliseconds."""
        return self.dated_ms is not None and seems_seconds(self.dated_ms) and self.late_by_median_ms > OTHER_UNIT_MS_MIN

    def warning(self) -> DataWarning:
        """Describe the late events, their cause and what to do. If their times are in another unit, no clock is to blame."""
        setter, key = self.watermark_set_by, f"late {self.topic} {self.partition}"
        where = f"{isolated(self.topic)} (partition {self.partition})"
        refused = f"{percent(self.share)} of the events of {where} are late and refused, {self.late:,} of {self.events:,}"
        if self.is_in_seconds and self.dated_ms is not None:
            text = f"{refused}. They are dated {second_text(self.dated_ms)} or so: their times are in seconds, and others in milliseconds"
            return DataWarning(key, text, f"compare the times of lists and of feedback, and {MILLISECONDS_ADVICE}")
        cause = (
            "the other inputs or the clock had moved the watermark while this input was idle"
            if setter is None
            else f"the event of user {isolated(setter.user_id)} at offset {setter.offset}, dated {second_text(setter.ts)}, had moved the"
            " watermark"
        )
        text = (
            f"{refused}. They are {span_text(self.late_by_median_ms)} too old (median), at most {span_text(self.late_by_max_ms)}: {cause}."
            f" The watermark is {'unknown' if self.watermark_ms is None else second_text(self.watermark_ms)}"
        )
        return DataWarning(key, text, "check the clock of that sender, or raise join.lateness_ms if the events are right")


@dataclass(frozen=True, slots=True)
class SortedInput:
    """A file of a replay that was sorted by the times of its events.

    misplaced: how many of its events were late in the order of the file, or ahead of the others; 0 if sorting was asked for.
    """

    topic: str
    events: int
    misplaced: int


def order_problem(inputs: Sequence[SortedInput]) -> str:
    """Say which files are not in order of time.

    >>> order_problem([SortedInput("a.csv", 1_800, 1_738)])
    'a.csv is not in order of time: in its order 1,738 of 1,800 events are late or far ahead'
    >>> order_problem([SortedInput("a.csv", 1_800, 1_738), SortedInput("b.csv", 900, 870)])
    '2 files are not in order of time, such as a.csv: in its order 1,738 of 1,800 events are late or far ahead'
    """
    worst = max(inputs, key=lambda late_input: late_input.misplaced)
    late = f"in its order {worst.misplaced:,} of {worst.events:,} events are late or far ahead"
    name = isolated(worst.topic)
    if len(inputs) > 1:
        return f"{len(inputs):,} files are not in order of time, such as {name}: {late}"
    return f"{name} is not in order of time: {late}"


def sorted_warnings(inputs: Sequence[SortedInput]) -> list[DataWarning]:
    """Say which files were sorted because too many of their events were late."""
    if not (unasked := [late_input for late_input in inputs if late_input.misplaced]):
        return []
    them, log = ("its", "it is the log of a topic, replay it") if len(unasked) == 1 else ("their", "they are logs of topics, replay them")
    text = f"{order_problem(unasked)}. So {them} events were sorted by time"
    return [DataWarning("sorted", text, f"if {log} with --order log, in the order that `run` reads")]


def late_inputs(controls: Iterable[tuple[int, ControlRecord]]) -> Iterator[LateInput]:
    """Yield the inputs of committed tasks with more than `LATE_SHARE_MAX` late events."""
    for task, control in controls:
        counts = {(reason, topic): count for reason, topic, count in control.progress.counts}
        for topic, lateness in enumerate(control.progress.lateness):
            events, late = counts.get(("events", topic), 0), counts.get(("late", topic), 0)
            if late > LATE_SHARE_MAX * events:
                of_task = control.progress.watermark
                watermark = max(control.progress.watermarks[topic], NEVER if of_task == FOREVER else of_task)
                yield LateInput(
                    control.topics[topic],
                    task,
                    events,
                    late,
                    None if watermark == NEVER else watermark,
                    median_ms(dict(lateness.delays)),
                    lateness.greatest_ms,
                    None if (setter := lateness.setter) is None else WatermarkSetter(setter.offset, setter.user, setter.ts),
                )


def merged_lateness(controls: Sequence[ControlRecord]) -> ControlRecord:
    """Return the first state with the events and late events of all: states of several processes that share the users of their inputs."""
    counts: Counter[tuple[str, int]] = Counter()
    merged = [Lateness() for _ in controls[0].progress.lateness]
    for control in controls:
        counts.update({(reason, topic): count for reason, topic, count in control.progress.counts})
        for whole, part in zip(merged, control.progress.lateness, strict=True):
            whole.merge(part)
    progress = msgspec.structs.replace(
        controls[0].progress,
        counts=[(reason, topic, count) for (reason, topic), count in sorted(counts.items())],
        lateness=[whole.stored() for whole in merged],
    )
    return msgspec.structs.replace(controls[0], progress=progress)


def late_warnings(inputs: Sequence[LateInput]) -> list[DataWarning]:
    """Describe the inputs with the most late events, and count the others."""
    worst = sorted(inputs, key=lambda late_input: -late_input.late)
    more = len(worst) - SENTENCES_MAX
    warnings = [late_input.warning() for late_input in worst[:SENTENCES_MAX]]
    return warnings if more <= 0 else [*warnings, DataWarning("late others", f"The same holds for {counted(more, 'more input')}.")]


class StandstillNote(NamedTuple):
    """A partition that stands still: its next offset, since when (epoch ms), and what holds it."""

    topic: str
    partition: int
    offset: int
    since_ms: int
    reason: str

    @property
    def name(self) -> str:
        """The name under which it is stored."""
        return f"{self.topic}:{self.partition}"

    def warning(self) -> DataWarning:
        """Return the sentence of a report.

        >>> print(StandstillNote("clicks", 3, 17, 1_732_183_200_000, "the batch has a wrong checksum").warning())
        Partition 3 of clicks has stood at offset 17 since 2024-11-21 10:00:00 UTC although it has more records: the batch has a wrong \
checksum. Final numbers wait for it; the runbook StreammetricsPartitionStandsStill says how to go on.
        """
        reason = fit(" ".join(self.reason.split())).removesuffix(".")
        stood = f"Partition {self.partition} of {isolated(self.topic)} has stood at offset {self.offset} since {second_text(self.since_ms)}"
        fix = "final numbers wait for it; the runbook StreammetricsPartitionStandsStill says how to go on"
        return DataWarning(f"standstill {self.name}", f"{stood} although it has more records: {reason}", fix)


class OutageNote(NamedTuple):
    """A worker whose source is away: how often it has said so, and the error."""

    turns: int
    message: str


def decode_outages(stored: Mapping[str, bytes]) -> dict[str, OutageNote]:
    """Return the outages by name. Those that cannot be read are left out."""
    outages = {}
    for name, value in stored.items():
        if name.startswith(OUTAGE):
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                outages[name] = msgspec.json.decode(value, type=OutageNote)
    return outages


def encode_note(note: StandstillNote | OutageNote) -> bytes:
    return msgspec.json.encode(note)


def decode_notes(stored: Mapping[str, bytes]) -> Iterator[StandstillNote]:
    """Yield stored notes by name. Those that cannot be read are left out: a note is no result."""
    for _, value in sorted(stored.items()):
        try:
            yield msgspec.json.decode(value, type=StandstillNote)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue


def current_notes(notes: Iterable[StandstillNote], offsets: Mapping[tuple[str, int], int]) -> tuple[StandstillNote, ...]:
    """Return the notes of partitions that are committed exactly up to the noted offset. The others have moved since.

    >>> note = StandstillNote("clicks", 3, 17, 1_732_183_200_000, "it is damaged")
    >>> [len(current_notes([note], {("clicks", 3): offset})) for offset in (17, 18)], current_notes([note], {})
    ([1, 0], ())
    """
    return tuple(note for note in notes if offsets.get((note.topic, note.partition)) == note.offset)
