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
    merged.commits = sum((each.commits for each in everyone), Counter())
    merged.records = sum((each.records for each in everyone), Counter())
    merged.state_bytes = sum(each.state_bytes for each in everyone)
    merged.rebalances = sum(each.rebalances for each in everyone)
    merged.client_rebuilds = sum(each.client_rebuilds for each in everyone)
    merged.dead_letters = sum(each.dead_letters for each in everyone)
    merged.dead_letters_lost = sum((each.dead_letters_lost for each in everyone), Counter())
    merged.commit_times = _sum([each.commit_times for each in everyone])
    merged.paused_inputs = sum(each.paused_inputs for each in running)
    merged.cached_users = sum(each.cached_users for each in running)
    merged.lag_records, merged.lag_seconds = _lags(running)
    merged.standstills = {origin: standstill for status in running for origin, standstill in status.standstills.items()}
    if running:
        merged.beat_seconds = min(max(each.beat_seconds, each.started_seconds) for each in running)
    merged.ready = len(running) == expected and all(each.ready for each in running)
    merged.group_conflict = next((each.group_conflict for each in running if each.group_conflict), "")
    merged.source_trouble = _longest(each.source_trouble for each in running)
    merged.store_trouble = _longest(each.store_trouble for each in running)
    merged.reader_trouble = _longest(each.reader_trouble for each in running)


def total(statuses: Sequence[ProcessStatus]) -> ProcessStatus:
    """Return one status with the counters of all, in place of many that have ended."""
    together = ProcessStatus()
    update_merged(together, [], statuses, 0)
    return together


def _sum(times: Sequence[CommitTimes]) -> CommitTimes:
    found = CommitTimes(sum(each.count for each in times), sum(each.sum_seconds for each in times))
    for each in times:
        found.buckets = [one + other for one, other in zip(found.buckets, each.buckets, strict=True)]
    return found


def _lags(running: Iterable[ProcessStatus]) -> tuple[dict[Input, int], dict[Input, float]]:
    """Return the lag of all inputs. While an input moves, two processes may report it."""
    records: dict[Input, int] = {}
    seconds: dict[Input, float] = {}
    for each in running:
        records |= each.lag_records
        seconds |= each.lag_seconds
    return records, seconds


def _longest(troubles: Iterable[Trouble | None]) -> Trouble | None:
    """Return the trouble that has lasted longest; None if there is none."""
    return min((each for each in troubles if each is not None), key=lambda each: each.since_seconds, default=None)
