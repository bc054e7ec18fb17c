"""Settings of the process that consumes events. None of them changes a result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from streammetrics.config.fields import Section, Whole, milliseconds, setting, whole


class WorkerSettings(Section):
    role: Literal["all", "worker", "exporter"] = setting(
        "all", "worker consumes events, exporter serves results, all does both in one process."
    )
    processes: Whole = whole(
        1,
        "Worker processes under one parent. The parent has the HTTP port and, with role all, reads committed state. Every limit of this"
        " section is per process. A process that dies is started again. With kafka.group_instance_id, process n is member <id>-<n>.",
        1,
        64,
    )
    batch_events_max: Whole = whole(20_000, "Maximum records per poll.", 1, 1_000_000)
    commit_ms: Whole = milliseconds(
        1_000, "Time between commits while events arrive. A user with many events is written once per commit.", most=60_000
    )
    commit_behind_ms: Whole = milliseconds(
        3_000,
        "Time between commits while the worker is behind, if it is longer than commit_ms. Fewer commits make catching up faster. A worker"
        " that has caught up commits at once.",
        most=60_000,
    )
    commit_users_max: Whole = whole(
        8_000,
        "Maximum users per commit. Reaching it commits early. The limit is lower when the experiment totals of that many users would"
        " exceed commit_bytes_max, estimated from the previous commit.",
        1,
        100_000,
    )
    commit_bytes_max: Whole = whole(
        33_554_432,
        "Maximum bytes per commit: its records, and the state of their large users (4 KiB or more). Reaching it commits early. Redis"
        " serves no other client while it writes a commit, and rejects requests of a gigabyte.",
        65_536,
        536_870_912,
    )
    cached_users_max: Whole = whole(
        200_000,
        "Approximate number of users to keep in memory, for a few commits up to a third more. The users saved longest ago are dropped"
        " first.",
        1,
        100_000_000,
    )
    cached_bytes_max: Whole = whole(
        268_435_456,
        "Maximum bytes of stored state to keep in memory for large users (4 KiB or more). In memory they take four times as much. The"
        " least recently used are dropped first.",
        1_048_576,
        1_099_511_627_776,
    )
    retry_seconds_max: Whole = whole(
        0, "How long Kafka or Redis may be unavailable before the process exits with code 1. 0: it retries for ever.", 0, 2_592_000
    )

    def advice(self) -> Iterator[str]:
        """Yield warnings: settings that are valid but probably not intended."""
        if self.role == "exporter" and self.processes > 1:
            yield "worker.processes: ignored, because worker.role is exporter"
