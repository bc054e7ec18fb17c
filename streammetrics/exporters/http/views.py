"""What the HTTP port shows, without HTTP: the latest report, the page for Prometheus, and whether the process is well.

Nothing here asks the store or the source: a report comes in, the vitals are looked at, and bytes go out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from streammetrics.exporters.http.recent import RecentPoints
from streammetrics.exporters.prometheus.exposition import Exposition
from streammetrics.reports.history import History
from streammetrics.reports.report import Report, counts_by_reason
from streammetrics.runtime.status import Rate, Trouble

STUCK_SECONDS = 30.0
"""A loop that has not come round for this long hangs: every wait in it is shorter, unless four nodes of a cluster hang at once."""
NO_HISTORY = History()
UNREAD = "no committed state has been read yet"


class ReadinessFinding(NamedTuple):
    """Whether all is well, and what is not, in words."""

    is_well: bool
    text: str


class HttpViews:
    """The latest state of one process, to be looked at from any thread.

    `monotonic` is the clock that the status were written with, in seconds; `publishes` tells whether this process reads
    committed state. Whether it consumes, the exposition knows.
    """

    def __init__(self, exposition: Exposition, monotonic: Callable[[], float], *, publishes: bool = True) -> None:
        self._exposition, self._monotonic, self._publishes = exposition, monotonic, publishes
        self._status = exposition.status
        self._report: tuple[Report, History] | None = None
        self._report_json: tuple[Report, bytes] | None = None
        self._shown_seconds: float | None = None
        self._gap_seconds: float | None = None
        self._rate = Rate()
        self._events_per_second: float | None = None
        self.curves = RecentPoints(str(metric) for metric in exposition.layout.scorer.metrics)

    def show(self, report: Report, history: History = NO_HISTORY) -> None:
        """Show this report from now on, with the looks that led to it; for the publisher, in its thread."""
        self._exposition.show(report)
        self.curves.take(report)
        now_seconds = self._monotonic()
        self._gap_seconds = None if self._shown_seconds is None else now_seconds - self._shown_seconds
        self._events_per_second = self._rate.add(now_seconds, counts_by_reason(report.counts)["events"])
        self._report, self._shown_seconds = (report, history), now_seconds

    def metrics(self, accept: str) -> tuple[bytes, str]:
        """The page for Prometheus and its content type; see `Exposition.page`."""
        return self._exposition.page(accept)

    def report_json(self) -> bytes | None:
        """The latest report as JSON, made once however often it is asked for; None before the first."""
        shown, made = self._report, self._report_json
        if shown is None:
            return None
        report, history = shown
        if made is None or made[0] is not report:
            plain = report.to_json(self._exposition.layout) | {"history": history.to_json()}
            made = self._report_json = (report, msgspec.json.encode(plain))
        return made[1]

    @property
    def why_no_report(self) -> str:
        """Why there is no report, where there is none."""
        return UNREAD if self._publishes else "this process only consumes: ask the exporter of its namespace"

    def pulse(self) -> dict[str, Any]:
        """How this process is, as plain JSON values: what it misses, how old its report is, how fast events come, and its own inputs' lag.

        `lag` is null where this process consumes nothing. Ages are seconds, null before there is what could age.
        """
        status, consumes = self._status, self._exposition.loop
        age_seconds = None if self._shown_seconds is None else max(0.0, self._monotonic() - self._shown_seconds)
        lag_seconds = dict(status.lag_seconds)
        lag = [
            {"topic": origin.topic, "partition": origin.partition, "records": records, "seconds": lag_seconds.get(origin)}
            for origin, records in sorted(dict(status.lag_records).items())
        ]
        return {
            "missing": list(self._missing()),
            "publishes": self._publishes,
            "report_age_seconds": age_seconds,
            "report_gap_seconds": self._gap_seconds,
            "events_per_second": self._events_per_second,
            "lag": lag if consumes else None,
            "paused_inputs": status.paused_inputs,
            "commits": dict(sorted(status.commits.items())),
            "rebalances": status.rebalances,
            "client_rebuilds": status.client_rebuilds,
            "dead_letters": status.dead_letters,
        }

    def health(self) -> ReadinessFinding:
        """Whether the loop moves. It does while Kafka or Redis is away: restarting this process would not bring them back."""
        if not self._exposition.loop:
            return ReadinessFinding(True, "ok\n")
        quiet_seconds = self._monotonic() - max(self._status.beat_seconds, self._status.started_seconds)
        if quiet_seconds > STUCK_SECONDS:
            return ReadinessFinding(False, f"loop: has not come round for {quiet_seconds:.0f} s\n")
        return ReadinessFinding(True, "ok\n")

    def readiness(self) -> ReadinessFinding:
        """Whether everything that this process needs is there; if not, what is missing, one line each."""
        missing = list(self._missing())
        return ReadinessFinding(not missing, "".join(f"{line}\n" for line in missing) or "ok\n")

    def _missing(self) -> Iterator[str]:
        status = self._status
        for where, trouble in (("source", status.source_trouble), ("store", status.store_trouble)):
            if trouble is not None:
                yield f"{where}: {self._words(trouble)}"
        if self._exposition.loop and not status.ready and status.source_trouble is None and status.store_trouble is None:
            yield "worker: source and store have not both answered yet, or an assigned task is not claimed yet"
        if self._publishes:
            if (trouble := status.publish_trouble) is not None:
                yield f"publisher: {self._words(trouble)}"
            if self._report is None:
                yield f"publisher: {UNREAD}"

    def _words(self, trouble: Trouble) -> str:
        message = " ".join(trouble.message.split())
        tries = "1 try" if trouble.failures == 1 else f"{trouble.failures} tries"
        return f"{message} (for {max(0.0, self._monotonic() - trouble.since_seconds):.0f} s, {tries})"
