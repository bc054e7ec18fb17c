"""Whether verdicts of a report may leave the process for the results topic.

While workers catch up after an outage, tasks come at different times to one event time, and verdicts change with the order in which they
come. Such a state is no news. The verdicts of the state after it are.
"""

from __future__ import annotations

from dataclasses import dataclass

from streammetrics.connectors.clock import Clock
from streammetrics.reports.freshness import ReportTimes
from streammetrics.reports.report import Report


@dataclass(frozen=True, slots=True)
class Settled:
    """Says that a report is recent and complete, as the gate does. `stale_ms`: see `ReportTimes.staleness`."""

    clock: Clock
    stale_ms: int

    def __call__(self, report: Report) -> bool:
        return not any(ReportTimes.of(report).staleness(self.clock.wall_ms(), self.stale_ms))
