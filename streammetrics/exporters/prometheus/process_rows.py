"""Turn the status of a process into rows, and collect the `process_...` series of it and its worker processes together.

Other threads may write the status at the same time. The `process_...` series have the names of the client library.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streammetrics.connectors.store import CommitOutcome
from streammetrics.exporters.prometheus.rows import SampleRow
from streammetrics.runtime.status import COMMIT_BUCKETS_SECONDS, ProcessStatus
from streammetrics.version import __version__

COMMIT_STATUSES = (*(outcome.value for outcome in CommitOutcome), "failed")
_NODE_SERIES = tuple(f"streammetrics_store_{what}" for what in ("memory_bytes", "memory_limit_bytes", "evicts", "forgets"))
"""The series of the fields of a `StoreNode` between its name and its refusal, in their order."""
CPU = "process_cpu_seconds"
SUMMED = frozenset({CPU, "process_resident_memory_bytes", "process_virtual_memory_bytes", "process_open_fds"})
"""Families that add up. Start time and limits are those of this process."""


def status_rows(status: ProcessStatus, loop: bool) -> Iterator[SampleRow]:
    """Yield the rows of one process. `loop` says if it consumes."""
    yield SampleRow("streammetrics_build_info", (__version__,), 1)
    yield from _store_rows(status)
    yield from _result_rows(status)
    if loop:
        yield from _loop_rows(status)


def _store_rows(status: ProcessStatus) -> Iterator[SampleRow]:
    troubles = (status.store_trouble, status.publish_trouble)
    yield SampleRow("streammetrics_store_up", (), float(troubles == (None, None)))
    for node in status.store_nodes:
        for name, value in zip(_NODE_SERIES, node[1:-1], strict=True):
            if value is not None:
                yield SampleRow(name, (node.name,), float(value))


def _result_rows(status: ProcessStatus) -> Iterator[SampleRow]:
    for outcome, count in status.results.items():
        yield SampleRow("streammetrics_results_total", (outcome,), count)


def _loop_rows(status: ProcessStatus) -> Iterator[SampleRow]:
    yield SampleRow("streammetrics_source_up", (), float(status.source_trouble is None))
    yield SampleRow("streammetrics_readers_up", (), float(status.reader_trouble is None))
    yield SampleRow("streammetrics_rebalances_total", (), status.rebalances)
    yield SampleRow("streammetrics_client_rebuilds_total", (), status.client_rebuilds)
    yield SampleRow("streammetrics_dead_letters_total", (), status.dead_letters)
    for topic in sorted({*dict(status.records), *dict(status.dead_letters_lost)}):
        yield SampleRow("streammetrics_dead_letters_lost_total", (topic,), status.dead_letters_lost[topic])
    yield SampleRow("streammetrics_cached_users", (), status.cached_users)
    yield SampleRow("streammetrics_paused_inputs", (), status.paused_inputs)
    for outcome in COMMIT_STATUSES:
        yield SampleRow("streammetrics_commits_total", (outcome,), status.commits[outcome])
    yield SampleRow("streammetrics_state_written_bytes_total", (), status.state_bytes)
    yield from _commit_times(status)
    # Copy first, because the loop adds and removes inputs at the same time.
    for origin, records in sorted(dict(status.lag_records).items()):
        yield SampleRow("streammetrics_lag_records", (origin.topic, str(origin.partition)), records)
    for origin, seconds in sorted(dict(status.lag_seconds).items()):
        yield SampleRow("streammetrics_lag_seconds", (origin.topic, str(origin.partition)), seconds)
    for origin, standstill in sorted(dict(status.standstills).items()):
        yield SampleRow("streammetrics_standstill_offset", (origin.topic, str(origin.partition)), standstill.offset)


def _commit_times(status: ProcessStatus) -> Iterator[SampleRow]:
    """Yield the histogram of commit times. The loop may add a commit at the same time, so buckets are read first and kept ascending."""
    times = status.commit_times
    buckets = list(accumulate(list(times.buckets), max))
    total = max(times.count, buckets[-1])
    for bound, count in zip((*COMMIT_BUCKETS_SECONDS, "+Inf"), (*buckets, total), strict=True):
        yield SampleRow("streammetrics_commit_seconds", ("_bucket", str(bound)), count)
    yield SampleRow("streammetrics_commit_seconds", ("_count", ""), total)
    yield SampleRow("streammetrics_commit_seconds", ("_sum", ""), times.sum_seconds)


class ProcessGroupCollector(Collector):
    """Collects the series of this process plus those of the processes that `pids` returns."""

    def __init__(self, pids: Callable[[], Sequence[int]] = tuple) -> None:
        self._pids = pids

    def collect(self) -> Iterable[Metric]:
        """Return each family with one sample. Ended children stay in the processor time, which must never decrease."""
        pids = self._pids()
        families = list(ProcessCollector(registry=None).collect())
        more: dict[str, float] = {}
        if pids:
            ended = resource.getrusage(resource.RUSAGE_CHILDREN)
            more[CPU] = ended.ru_utime + ended.ru_stime
        for pid in pids:
            for family in ProcessCollector(pid=lambda: pid, registry=None).collect():  # noqa: B023  (used at once)
                if family.name in SUMMED:
                    more[family.name] = more.get(family.name, 0.0) + family.samples[0].value
        for family in families:
            if family.name in more:
                family.samples = [family.samples[0]._replace(value=family.samples[0].value + more[family.name])]
        return families
