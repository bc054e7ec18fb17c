"""What workers note for everyone who reads their committed state: partitions that do not move, and that Kafka is away. Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from streammetrics.words.names import fit, isolated
from streammetrics.words.sentences import DataWarning
from streammetrics.words.times import second_text


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


OUTAGE: Final = "outage:worker:"
"""The beginning of the name of an outage. No name of a partition has two colons."""


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
