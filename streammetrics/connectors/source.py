"""Where records come from: the protocol of a source, and what it returns. No client is imported here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from streammetrics.errors import MalformedEvent, UnfitStateError

START_AGAIN: Final = "start again with a new redis.namespace"


class Input(NamedTuple):
    """One (topic, partition); the task that owns it is the partition number."""

    topic: str
    partition: int


class InputRecord(NamedTuple):
    """One record of an input: its offset, the timestamp of the log (epoch ms, -1 if unknown), and its bytes.

    A value of the type UnreadBatch stands for all records up to this offset that were in one batch.
    """

    offset: int
    timestamp_ms: int
    value: bytes | None


class UnreadBatch(bytes):
    """The value of a record that stands for a whole batch, which is too large to be read. It has no bytes.

    >>> batch = UnreadBatch.of(17, 166, 150, "it has more than 128 MiB when it is decompressed")
    >>> len(batch.refusals), batch.refusals[0].reason
    (150, 'oversized')
    >>> print(batch.refusals[0].detail)
    the batch of the offsets 17 to 166 is not read: it has more than 128 MiB when it is decompressed; find out which producer sends it
    """

    refusals: tuple[MalformedEvent, ...]
    """One for each record of the batch, so that all of them are counted. There is one dead letter for the batch."""

    @classmethod
    def of(cls, first_offset: int, last_offset: int, records: int, reason: str) -> UnreadBatch:
        unread = cls()
        detail = f"the batch of the offsets {first_offset} to {last_offset} is not read: {reason}; find out which producer sends it"
        unread.refusals = (MalformedEvent("oversized", detail),) * records
        return unread


@dataclass(frozen=True, slots=True)
class PollResult:
    """The result of one poll: records per input in offset order, and how task ownership changed before them.

    A task in `assigned` must be claimed first. The source keeps its inputs paused until `start` is called.
    """

    records: Mapping[Input, Sequence[InputRecord]] = field(default_factory=dict)
    assigned: frozenset[int] = frozenset()
    revoked: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """Whether a source answers, since when (monotonic seconds), how often its client was rebuilt, and the last error.

    `ends_asked` is when the source last asked for the ends of its inputs (monotonic seconds); None: they are always current. `conflict`
    names what keeps it from reading; it is empty if nothing does.
    """

    reachable: bool = True
    since: float = 0.0
    rebuilds: int = 0
    last_error: str = ""
    ends_asked: float | None = None
    conflict: str = ""


@dataclass(frozen=True, slots=True)
class LogIds:
    """Which logs a source reads: the id of the cluster, and the ids of topics. An id is "" where the source has none."""

    cluster_id: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def require_same(self, expected: LogIds) -> None:
        """Raise UnfitStateError if these are not the logs that the stored offsets belong to. An unknown id is not compared.

        >>> LogIds("two").require_same(LogIds("one"))
        Traceback (most recent call last):
        ...
        streammetrics.errors.UnfitStateError: kafka.bootstrap_servers lead to another Kafka cluster: the stored offsets belong to cluster \
one, and this is cluster two. The same topics have other offsets there, even if they are copies; set the brokers of cluster one again, or \
follow "Another Kafka cluster" in deploy/runbook.md
        """
        if expected.cluster_id and self.cluster_id not in ("", expected.cluster_id):
            raise UnfitStateError(
                f"kafka.bootstrap_servers lead to another Kafka cluster: the stored offsets belong to cluster {expected.cluster_id}, and "
                f"this is cluster {self.cluster_id}. The same topics have other offsets there, even if they are copies",
                f'set the brokers of cluster {expected.cluster_id} again, or follow "Another Kafka cluster" in deploy/runbook.md',
            )
        for topic, current in self.topic_ids.items():
            before = expected.topic_ids.get(topic, "")
            if before and current not in ("", before):
                raise UnfitStateError(
                    f"topic {topic!r} was deleted and created again (its id was {before}, now it is {current}): the stored offsets belong "
                    "to the old topic",
                    START_AGAIN,
                )


class Source(Protocol):
    """Where records come from. Raises SourceError if it fails, and StateError if the log does not match the stored offsets."""

    @property
    def health(self) -> SourceHealth:
        """Whether the source can be reached. `poll` raises nothing while it waits for a broker to return."""
        ...

    def poll(self, timeout_s: float, collect_s: float = 0.0) -> PollResult:
        """Return what has arrived, within `timeout_s`. For `collect_s` the log may hold back records, to send them together."""
        ...

    def inputs_of(self, task: int) -> tuple[Input, ...]:
        """Return the inputs of a task: partition number `task` of every topic, in the configured order of the topics."""
        ...

    def start(self, task: int, offsets: Mapping[Input, int]) -> Mapping[Input, int]:
        """Seek each input of a claimed task to its offset (absent: where the configuration says) and resume it.

        Returns the offset of each input, to be committed with the first events. Returns nothing if the task has a new owner.
        """
        ...

    def pause(self, inputs: Collection[Input]) -> None: ...

    def resume(self, inputs: Collection[Input]) -> None: ...

    def ends(self) -> Mapping[Input, int]:
        """Return the last known end offset of every owned input. Asks the broker every few seconds at most."""
        ...

    def acknowledge(self, offsets: Mapping[Input, int]) -> None:
        """Report committed offsets to the log, for lag tools only. Never waits and never fails."""
        ...

    def close(self) -> None: ...
