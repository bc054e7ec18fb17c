"""The status of several worker processes as one: counters are summed, and the worst state counts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from streammetrics.connectors.source import Input
from streammetrics.runtime.status import CommitTimes, ProcessStatus, Trouble


def snapshot(status: ProcessStatus) -> ProcessStatus:
    """Return a copy that the loop does not change any more. The loop may add and remove inputs meanwhile."""
    times = status.commit_times
    return replace(
        status,
        commit_times=CommitTimes(times.count, times.sum_seconds, list(times.buckets)),
        commits=Counter(dict(status.commits)),
        records=Counter(dict(status.records)),
        dead_letters_lost=Counter(dict(status.dead_letters_lost)),
        lag_records=dict(status.lag_records),
        lag_seconds=dict(status.lag_seconds),
        standstills=dict(status.standstills),
    )


def update_merged(merged: ProcessStatus, running: Sequence[ProcessStatus], ended: Sequence[ProcessStatus], expected: int) -> None:
    """Set `merged` to the status of all worker processes, `expected` of which should run.

    `ended` are the last statuses of processes that have ended, so that no counter decreases. The oldest beat counts, so that one hanging
    process is noticed. What the parent itself sets stays: its reads of committed state, its start, and which processes are down.
    """
    everyone = [*ended, *running]
    merged.commits = sum((status.commits for status in everyone), Counter())
    merged.records = sum((status.records for status in everyone), Counter())
    merged.state_bytes = sum(status.state_bytes for status in everyone)
    merged.rebalances = sum(status.rebalances for status in everyone)
    merged.client_rebuilds = sum(status.client_rebuilds for status in everyone)
    merged.dead_letters = sum(status.dead_letters for status in everyone)
    merged.dead_letters_lost = sum((status.dead_letters_lost for status in everyone), Counter())
    merged.commit_times = _sum([status.commit_times for status in everyone])
    merged.paused_inputs = sum(status.paused_inputs for status in running)
    merged.cached_users = sum(status.cached_users for status in running)
    merged.lag_records, merged.lag_seconds = _lags(running)
    merged.standstills = {origin: standstill for status in running for origin, standstill in status.standstills.items()}
    if running:
        merged.beat_seconds = min(max(status.beat_seconds, status.started_seconds) for status in running)
    merged.ready = len(running) == expected and all(status.ready for status in running)
    merged.group_conflict = next((status.group_conflict for status in running if status.group_conflict), "")
    merged.source_trouble = _longest(status.source_trouble for status in running)
    merged.store_trouble = _longest(status.store_trouble for status in running)
    merged.reader_trouble = _longest(status.reader_trouble for status in running)


def total(statuses: Sequence[ProcessStatus]) -> ProcessStatus:
    """Return one status with the counters of all, in place of many that have ended."""
    together = ProcessStatus()
    update_merged(together, [], statuses, 0)
    return together


def _sum(times: Sequence[CommitTimes]) -> CommitTimes:
    summed = CommitTimes(sum(part.count for part in times), sum(part.sum_seconds for part in times))
    for part in times:
        summed.buckets = [one + other for one, other in zip(summed.buckets, part.buckets, strict=True)]
    return summed


def _lags(running: Iterable[ProcessStatus]) -> tuple[dict[Input, int], dict[Input, float]]:
    """Return the lag of all inputs. While an input moves, two processes may report it."""
    records: dict[Input, int] = {}
    seconds: dict[Input, float] = {}
    for status in running:
        records |= status.lag_records
        seconds |= status.lag_seconds
    return records, seconds


def _longest(troubles: Iterable[Trouble | None]) -> Trouble | None:
    """Return the trouble that has lasted longest; None if there is none."""
    return min((trouble for trouble in troubles if trouble is not None), key=lambda trouble: trouble.since_seconds, default=None)
