"""Return the records that the client set aside while their input was paused.

Works around: the client parks the rest of a fetched chunk when its input is paused. It takes parked records back only when it has no
current chunk, but it keeps a chunk that it has read to the end as the current one. It also sends no fetch for an input with parked records.
Without it: an input that was paused within a chunk never delivers another record after `resume`.
Private names: `_fetcher`, `_next_partition_records`.
Delete it when: `tests/connectors/kafka/patches/test_parked_records.py::TestStillNeeded` fails.
"""

from __future__ import annotations

from typing import Any


def release(consumer: Any) -> None:
    """Drop the client's current chunk if it has been read to its end. Call this before every poll.

    Without the private names it does nothing. The liveness monitor then rebuilds a client that stays silent.
    """
    fetcher = getattr(consumer, "_fetcher", None)
    chunk = getattr(fetcher, "_next_partition_records", None)
    if fetcher is not None and chunk is not None and not chunk:
        fetcher._next_partition_records = None
