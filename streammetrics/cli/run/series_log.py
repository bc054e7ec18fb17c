"""Logs that `/metrics` comes near its limit of series, before it is met."""

from __future__ import annotations

import structlog

from streammetrics.config import Settings
from streammetrics.reports.report import Report
from streammetrics.wiring.series_estimate import SeriesEstimate, expected_series, series_of

log = structlog.get_logger("streammetrics.cli.run.series_log")


class SeriesLog:
    """Warns at the start if the settings make too many series, and once more for each time that the groups of a report do."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._groups = 0
        self._warned = False

    def start(self) -> None:
        """Warn if the settings alone make that many series."""
        if (expected := expected_series(self._settings)).is_near:
            _warn(expected)

    def take(self, report: Report) -> None:
        """Warn if the groups of a report do so, and did not before."""
        groups = {values.group for window in report.windows for values in window.groups}
        if len(groups) == self._groups:
            return
        self._groups, found = len(groups), series_of(self._settings, groups)
        if found.is_near and not self._warned:
            _warn(found)
        self._warned = found.is_near


def _warn(estimate: SeriesEstimate) -> None:
    log.warning(
        "the limit of series is near" if estimate.series <= estimate.limit else "the limit of series is exceeded",
        reason=estimate.sentence,
        fix=estimate.fix,
    )
