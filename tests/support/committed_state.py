"""One task without external systems: events in, the report of its committed state out, with the product's own engine."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

from streammetrics.config import Settings
from streammetrics.engine.batch import Batch
from streammetrics.errors import MalformedEvent
from streammetrics.events.event_time import NEVER
from streammetrics.events.model import Event, Feedback, Impression
from streammetrics.experiments import ExperimentReport
from streammetrics.exporters.http.answers import HttpAnswers
from streammetrics.exporters.http.server import HttpServer
from streammetrics.exporters.prometheus.exposition import Exposition, ExpositionLimits
from streammetrics.metrics.names import ENGAGEMENT_NAMES, METRIC_NAMES
from streammetrics.reports.report import Report
from streammetrics.runtime.status import ProcessStatus
from streammetrics.state.tables import CommitMark, LoadedUsers, TaskView
from streammetrics.windows.pane_tallies import PANES
from streammetrics.windows.unique_users import UNIQUE_USERS
from streammetrics.wiring.engine import build_engine
from streammetrics.wiring.reports import build_report_builder
from streammetrics.words.sentences import DataWarning
from tests.support.catalogue import assessment
from tests.support.experiment_samples import experiment

TOPICS = ("impressions", "feedback")
START_MS = 1_732_183_200_000
"""A multiple of an hour: the first pane and the first window start here."""
MINUTE_MS = 60_000
HOUR_MS = 3_600_000


def shown(user: str, variant: str = "", *, ts: int = START_MS, experiment: str = "ranker", surface: str = "home") -> Impression:
    """Return a list of four items for a user; without a variant it is in no experiment."""
    return Impression(
        impression_id=f"{user}-{ts}",
        user_id=user,
        ts=ts,
        items=("a", "b", "c", "d"),
        experiments=((experiment, variant),) if variant else (),
        segments=(("surface", surface),),
    )


def clicked(user: str, item: str, *, ts: int = START_MS + 1_000) -> Feedback:
    return Feedback(user_id=user, ts=ts, item_id=item, action="click")


class Pipeline:
    """The engine with default settings and every metric at 2 and 10. It commits after every `feed`."""

    def __init__(self, segments: tuple[str, ...] = (), support_users: int = 1) -> None:
        metrics = {"names": METRIC_NAMES, "cutoffs": (2, 10)}
        join = {"support_users": support_users}  # with 1, a single event sets the time: see `move_on`
        sections = {
            "join": join,
            "metrics": metrics,
            "windows": {"segments": segments},
            "engagement": {"names": ENGAGEMENT_NAMES},
            "assessment": assessment(),
        }
        self.settings = Settings.model_validate(sections)
        self.engine = build_engine(self.settings, TOPICS)
        self.builder = build_report_builder(self.settings, self.engine)
        self._state = self.engine.open(None)
        self._panes: dict[str, bytes] = {}
        self._totals: dict[str, bytes] = {}
        self._records = self._seq = 0

    def feed(self, topic: str, *events: Event | MalformedEvent) -> Pipeline:
        """Process the events as records of a topic, in this order."""
        records = [(self._records + index, -1, [event]) for index, event in enumerate(events)]
        self._records += len(records)
        arrived = Batch(TOPICS.index(topic), records, self._records)
        self._step(arrived)
        if self.engine.needs(self._state, None).totals:
            self._step(None)
        self._commit()
        return self

    def _step(self, arrived: Batch | None) -> None:
        needs = self.engine.needs(self._state, arrived)
        due = [name for name, user in self._state.sessions.users.items() if user.sessions] if needs.due_before_ms is not None else []
        self.engine.load(self._state, needs, LoadedUsers({}, due, totals=self._totals))
        self.engine.step(self._state, arrived, due)

    def move_on(self, to_ms: int) -> Pipeline:
        """Advance event time to `to_ms` on both topics, with an empty list and unmatched feedback."""
        self.feed("impressions", Impression(impression_id=f"clock-{to_ms}", user_id="clock", ts=to_ms, items=()))
        self.feed("feedback", Feedback(user_id="clock", ts=to_ms, item_id="none", action="skip", impression_id=f"clock-{to_ms}"))
        return self.feed("feedback")  # sessions close by the watermark before a step

    def _commit(self) -> None:
        changes = self.engine.save(self._state).changes
        self._panes.update(changes.rows[PANES])
        self._totals.update(changes.totals)
        for start in changes.rows_gone[PANES]:
            self._panes.pop(start, None)
        wanted = self.builder.rows_from(0).get(PANES, NEVER)
        rows = {
            PANES: {start: pane for start, pane in self._panes.items() if int(start) >= wanted},
            UNIQUE_USERS: changes.rows[UNIQUE_USERS],
        }
        self._seq += 1
        self.builder.update(0, TaskView(CommitMark("owner", self._seq), changes.control, len(self._state.sessions.users), rows))

    def report(self) -> Report:
        return self.builder.report(1)

    def exposition(self, status: ProcessStatus | None = None, *, loop: bool = True, **limits: int) -> Exposition:
        """Return the metrics page with the window names of the settings."""
        names = {window.ms: window.text for window in self.settings.windows.windows}
        return Exposition(self.engine.layout, names, status or ProcessStatus(), ExpositionLimits(**limits), loop=loop)


def two_variants() -> Pipeline:
    """Return a task with two variants in one pane, treatment better than control. All is final, because event time is two hours later."""
    pipeline = Pipeline(segments=("surface",))
    pipeline.feed(
        "impressions", shown("u1", "control"), shown("u2", "control"), shown("u3", "treatment"), shown("u4", "treatment", surface="search")
    )
    pipeline.feed("feedback", clicked("u1", "c"), clicked("u3", "a"), clicked("u4", "b"))
    return pipeline.move_on(START_MS + 34 * MINUTE_MS)


@dataclass(slots=True)
class Now:
    """A clock in seconds that only the test moves."""

    seconds: float = 1_000.0

    def __call__(self) -> float:
        return self.seconds


_STOPPING = ThreadPoolExecutor(4, "stopping")


@contextmanager
def answering(server: HttpServer) -> Iterator[HttpServer]:
    """Run a server. Its end is not waited for, to save a fifth of a second: the next one has another port."""
    server.start()
    try:
        yield server
    finally:
        _STOPPING.submit(server.stop)


@contextmanager
def served(answers: HttpAnswers) -> Iterator[str]:
    """Serve the answers on a free loopback port; returns the URL without a path."""
    with answering(HttpServer(answers, "127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.port}"


def with_experiments(report: Report, *experiments: ExperimentReport) -> Report:
    return replace(report, experiments=experiments, entered_ms=START_MS)


def ranker(name: str = "ranker", compared_with: str | None = None) -> ExperimentReport:
    """Return an experiment with a worse treatment and all possible rows."""
    report = experiment({"control": 0.5, "treatment": 0.4}, name=name, control=compared_with, whole=True)
    warning = DataWarning("lists per user", "treatment has 4 lists per user and control 2", variant="treatment")
    return replace(report, warnings=(warning,))
