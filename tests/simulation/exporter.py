"""One simulated process that publishes: the product's publisher, feed of results, files of results, and webhook."""

from __future__ import annotations

from collections.abc import Mapping

from streammetrics.connectors.clock import Clock
from streammetrics.connectors.store import Store
from streammetrics.engine.engine import Engine
from streammetrics.errors import StoreError
from streammetrics.experiments import Policy
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.changes import Watched, json_message
from streammetrics.reports.experiment_view import ExperimentView
from streammetrics.reports.report import Report
from streammetrics.runtime.publish.history_store import HistoryStore
from streammetrics.runtime.publish.publisher import Publisher
from streammetrics.runtime.publish.result_files import ResultFiles
from streammetrics.runtime.publish.results_feed import ResultsFeed
from streammetrics.runtime.publish.settled import Settled
from streammetrics.runtime.publish.webhook import ChangeRecorder, WebhookRules, WebhookSender
from streammetrics.runtime.status import ProcessStatus
from streammetrics.windows.panes import WindowRules
from tests.simulation.disk import SimulatedDisk
from tests.simulation.kafka import ResultsTopic
from tests.simulation.receiver import SimulatedReceiver
from tests.simulation.schedule import SETTINGS

SOURCE = "simulation"
FILE_MS = 60_000
"""The least span of a file: their names have the minute."""
WATCHED: frozenset[Watched] = frozenset({"verdict", "gate"})
POLICY = Policy(min_users=2, effective_users_min=0, hit_users_min=0, control="control")


def new_builder(engine: Engine) -> ReportBuilder:
    """Return the report builder of a process that has just started."""
    assert engine.user_totals is not None
    rules = WindowRules(
        pane_ms=SETTINGS.pane_ms,
        windows_ms=SETTINGS.windows_ms,
        lateness_ms=SETTINGS.lateness_ms,
        attribution_ms=SETTINGS.attribution_ms,
    )
    view = ExperimentView(engine.user_totals.measures, lambda name: POLICY, 1 << 50)
    shown = {name: getattr(SETTINGS, name) for name in ("out_of_orderness_ms", "lateness_ms", "attribution_ms", "pane_ms")}
    return ReportBuilder(engine.layout, rules, shown, engine.signature, view)


class Exporter:
    """One process. `turn` publishes, and `deliver` does what its other threads do."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        clock: Clock,
        stale_ms: int,
        topic: ResultsTopic,
        disk: SimulatedDisk,
        receiver: SimulatedReceiver,
    ) -> None:
        self.builder, status = new_builder(engine), ProcessStatus()
        is_settled = Settled(clock, stale_ms)
        self.report: Report | None = None
        recorder = ChangeRecorder(store, WATCHED, SOURCE, clock, is_settled)
        self._feed = ResultsFeed(self.builder, topic, status, is_settled)
        self._files = ResultFiles(self.builder, disk, FILE_MS, status, is_settled)
        self._takers = (HistoryStore(lambda report, history: None).take, recorder.take, self._feed.take, self._files.take)
        self._publisher = Publisher(builder=self.builder, store=store, publish_ms=1, clock=clock, status=status, on_report=self._take)
        self._status, self._receiver = status, receiver
        rules = WebhookRules(source=SOURCE, watched=WATCHED, message=json_message, timeout_seconds=1.0, give_up_ms=1 << 50)
        self._sender = WebhookSender(store, receiver, rules, clock, status)

    def _take(self, report: Report) -> None:
        self.report = report
        for take in self._takers:
            take(report)

    @property
    def waiting(self) -> int:
        """How many messages wait to be sent."""
        backlog = self._status.webhook_backlog
        return 0 if backlog is None else backlog.waiting

    @property
    def done(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """How much it has sent, written and compared. A process that starts first compares files that are right already."""
        return dict(self._status.results), dict(self._status.result_files)

    def turn(self) -> None:
        """Publish once."""
        self._publisher.turn()

    def deliver(self) -> None:
        """Send, write and report what waits, once. A store that fails is asked again later."""
        self._feed.turn()
        self._files.turn()
        try:
            self._sender.turn()
        except StoreError:
            self._receiver.may_repeat = True
