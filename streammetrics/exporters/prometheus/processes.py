"""The `process_...` series of this process and its worker processes together, under the names of the client library."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

CPU = "process_cpu_seconds"
SUMMED = frozenset({CPU, "process_resident_memory_bytes", "process_virtual_memory_bytes", "process_open_fds"})
"""Families that add up. Start time and limits are those of this process."""


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
