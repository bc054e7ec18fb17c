"""Several tasks with one experiment, driven by hand, and the exporter that reads them."""

from __future__ import annotations

from collections.abc import Mapping

from streammetrics.connectors.clock import SystemClock
from streammetrics.connectors.memory import MemoryStore
from streammetrics.connectors.store import NO_BOUNDS
from streammetrics.enrolment.rules import ExperimentRules
from streammetrics.events.model import Feedback, Impression
from streammetrics.experiments import ExperimentReport, Policy
from streammetrics.experiments.experiment_report import SINCE_START
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.report import Report
from streammetrics.reports.rules import ReportRules
from streammetrics.runtime.publish.publisher import Publisher
from streammetrics.runtime.status import ProcessStatus
from streammetrics.state.tables import TaskView
from streammetrics.windows.panes import WindowRules
from tests.oracle import Arrival, Settings
from tests.support.machine import Machine, engine_of

DAY_MS = 86_400_000
NOON_MS = 20_000 * DAY_MS + DAY_MS // 2
SETTINGS = Settings(inputs=("events",), gap_ms=1_000, lateness_ms=0, attribution_ms=500, pane_ms=100, windows_ms=(100,))
ENGINE = engine_of(SETTINGS, experiments=ExperimentRules(idle_ms=DAY_MS))
ARMS = ("control", "treatment")


def at(days: float, milliseconds: int = 0) -> int:
    return NOON_MS + int(days * DAY_MS) + milliseconds


class Tasks(MemoryStore):
    """Several tasks driven by hand, each in its own store, behind one store. Readers see `seen` instead if it is set."""

    def __init__(self, count: int = 2) -> None:
        super().__init__()
        self.machines = [Machine(ENGINE, SETTINGS) for _ in range(count)]
        self.seen: Mapping[int, TaskView] | None = None
        self.announce(count)

    def view(self, tasks, since, rows_from=NO_BOUNDS, tables=None):  # type: ignore[no-untyped-def]
        if self.seen is not None:
            return self.seen
        view_by_task: dict[int, TaskView] = {}
        for task in tasks:
            wanted = {0: since[task]} if task in since else {}
            views = self.machines[task].store.view([0], wanted, {0: rows_from.get(task, {})}, tables)
            view_by_task |= {task: views[0]} if views else {}
        return view_by_task

    def show(self, task: int, days: float, *users: str, experiment: str = "ranker") -> None:
        """Show lists of an experiment in one task. The last letter of a user gives the variant. Every other user clicks."""
        for number, user in enumerate(users):
            ts = at(days, number)
            arm = {"c": "control", "t": "treatment"}[user[-1]]
            lists = Arrival("events", Impression(f"{user}-{ts}", user, ts, ("i", "j"), ((experiment, arm),)))
            self.machines[task].feed([lists, *([Arrival("events", Feedback(user, ts, "i", "click"))] if number % 2 else [])])
        self.machines[task].commit()

    def pass_time(self, task: int, days: float) -> None:
        """Advance event time in a task without lists of experiments; twice, so that all due users are processed."""
        for turn in range(2):
            self.machines[task].feed([Arrival("events", Impression(f"clock-{days}-{turn}", "clock", at(days, 20_000 + turn), ()))])
            self.machines[task].finish(flush=False)


def builder_of() -> ReportBuilder:
    """Return a new report builder."""
    assert ENGINE.user_totals is not None
    rules = WindowRules(pane_ms=100, windows_ms=(100,), lateness_ms=0, attribution_ms=500)
    report_rules = ReportRules(
        ENGINE.user_totals.measures, lambda name: Policy(min_users=2, effective_users_min=0, control="control"), DAY_MS
    )
    return ReportBuilder(ENGINE.layout, rules, {}, ENGINE.signature, report_rules)


def publisher_of(tasks: Tasks, reports: list[Report]) -> Publisher:
    """Return the publisher of a newly started exporter."""
    return Publisher(
        builder=builder_of(), store=tasks, publish_ms=10, clock=SystemClock(), status=ProcessStatus(), on_report=reports.append
    )


def published(tasks: Tasks) -> dict[str, ExperimentReport]:
    """Return the experiments since their start, as a newly started exporter shows them."""
    return since_start(publisher_of(tasks, []).publish())


def since_start(report: Report | None) -> dict[str, ExperimentReport]:
    assert report is not None
    return {experiment.experiment: experiment for experiment in report.experiments if experiment.scope == SINCE_START}


def exposed(report: ExperimentReport) -> dict[str, int]:
    return {arm.variant: arm.first_list_users for arm in report.variants if arm.first_list_users}
