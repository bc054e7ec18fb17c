"""One simulated process that publishes: the product's publisher and feed of results."""

from __future__ import annotations

from collections.abc import Mapping

from streammetrics.connectors.clock import Clock
from streammetrics.connectors.store import Store
from streammetrics.engine.engine import Engine
from streammetrics.experiments import Policy
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.report import Report
from streammetrics.reports.rules import ReportRules
from streammetrics.runtime.publish.history_keeper import HistoryKeeper
from streammetrics.runtime.publish.publisher import Publisher
from streammetrics.runtime.publish.results_feed import ResultsFeed, SettledReports
from streammetrics.runtime.status import ProcessStatus
from streammetrics.windows.panes import WindowRules
from tests.tools.simulation.kafka import ResultsTopic
from tests.tools.simulation.schedule import SETTINGS

POLICY = Policy(min_users=2, effective_users_min=0, control="control")


def new_builder(engine: Engine) -> ReportBuilder:
    """Return the report builder of a process that has just started."""
    assert engine.user_totals is not None
    rules = WindowRules(
        pane_ms=SETTINGS.pane_ms,
        windows_ms=SETTINGS.windows_ms,
        lateness_ms=SETTINGS.lateness_ms,
        attribution_ms=SETTINGS.attribution_ms,
    )
    report_rules = ReportRules(engine.user_totals.measures, lambda name: POLICY, 1 << 50)
    settings = {name: getattr(SETTINGS, name) for name in ("out_of_orderness_ms", "lateness_ms", "attribution_ms", "pane_ms")}
    return ReportBuilder(engine.layout, rules, settings, engine.signature, report_rules)


class Exporter:
    """One process. `turn` publishes, and `deliver` does what its other thread does."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        clock: Clock,
        stale_ms: int,
        topic: ResultsTopic,
    ) -> None:
        self.builder, status = new_builder(engine), ProcessStatus()
        self.report: Report | None = None
        self._feed = ResultsFeed(self.builder, topic, status, SettledReports(clock, stale_ms))
        self._receivers = (HistoryKeeper(lambda report, history: None).on_report, self._feed.on_report)
        self._publisher = Publisher(builder=self.builder, store=store, publish_ms=1, clock=clock, status=status, on_report=self._take)
        self._status = status

    def _take(self, report: Report) -> None:
        self.report = report
        for receive in self._receivers:
            receive(report)

    @property
    def done(self) -> Mapping[str, int]:
        """How much it has sent."""
        return dict(self._status.results)

    def turn(self) -> None:
        """Publish once."""
        self._publisher.turn()

    def deliver(self) -> None:
        """Send what waits, once."""
        self._feed.turn()
