"""An engine and a store that a test drives step by step: it decides where batches are cut, what is committed, and when the task crashes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from hypothesis import strategies as st

from streammetrics.connectors.memory import MemoryStore
from streammetrics.connectors.store import Commit, CommitOutcome, Store
from streammetrics.engine.batch import Batch
from streammetrics.engine.engine import Engine
from streammetrics.engine.rules import EngineRules
from streammetrics.engine.supported_time import SupportRules
from streammetrics.enrolment.rules import ExperimentRules
from streammetrics.events.event_time import FOREVER
from streammetrics.events.grades import parse_grades
from streammetrics.metrics import Scorer, Spec, TallyLayout, parse_metric
from streammetrics.metrics.assessment import AssessmentLayout, CatalogueItem, ItemCatalogue
from streammetrics.metrics.engagement import EngagementLayout
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.report import Report
from streammetrics.runtime.consume.prefetch import with_due
from streammetrics.sessions.rules import EngagementRules, ExposureRules, JoinRules
from streammetrics.sessions.session_events import outcomes
from streammetrics.sessions.state import User
from streammetrics.windows.pane_tallies import FinalPane
from streammetrics.windows.panes import Group, WindowRules
from streammetrics.windows.unique_users import UniqueUserRules
from tests.oracle import Arrival, Idle, Settings, Step, Tick, assessment
from tests.oracle import Group as OracleGroup
from tests.oracle.engagement import NAMES as ENGAGEMENT
from tests.support.store_contract import due_before

METRICS = ("ndcg", "ndcg_exp", "dcg", "cg", "mrr", "hit_rate", "item_hit_rate", "precision", "recall", "map")
GRADES = "purchase=3, watch>=30=2, click=1, skip=0"


@cache
def engine_of(  # noqa: PLR0913  each limit is one argument
    settings: Settings,
    grades: str = GRADES,
    *,
    lists_open_max: int = 1_000,
    groups_max: int = 1_000,
    exposures_max: int = 1_000,
    retention_ms: int = 1 << 50,
    experiments: ExperimentRules | None = None,
    unique_users: UniqueUserRules | None = None,
    engagement: bool = True,
    quantiles: bool = True,
) -> Engine:
    """Return an engine with the oracle's settings. The other arguments are limits that the oracle does not know.

    Without `quantiles` there is no histogram, which is half of all columns.
    """
    rules = EngineRules(
        topics=settings.inputs,
        grades=parse_grades(grades),
        join=JoinRules(
            gap_ms=settings.gap_ms,
            attribution_ms=settings.attribution_ms,
            session_events_max=settings.session_events_max,
            lists_open_max=lists_open_max,
            items_max=settings.items_max,
            engagement=EngagementRules(frozenset(settings.purchases), min(settings.reformulation_ms, settings.attribution_ms))
            if engagement
            else None,
            absolute_positions=settings.absolute_positions,
            joined_whole_max=4 if settings.gap_ms % 2 else 60,  # no result may depend on it
            exposures=None if settings.validity_ms is None else ExposureRules(settings.validity_ms, exposures_max),
        ),
        out_of_orderness_ms=settings.out_of_orderness_ms,
        lateness_ms=settings.lateness_ms,
        future_ms=settings.future_ms,
        support=SupportRules(
            jump_ms=settings.support_jump_ms,
            users=settings.support_users,
            far_ms=settings.support_far_ms,
        ),
        pane_ms=settings.pane_ms,
        retention_ms=retention_ms,
        groups_max=groups_max,
        segments=settings.segments,
        experiments=experiments,
        unique_users=unique_users,
    )
    scorer = Scorer([f"{name}@{k}" for name in METRICS for k in settings.cutoffs], spec=Spec(), items_max=1_000, grade_max=10)
    metrics = [parse_metric(name) for name in (*ENGAGEMENT, *["time_to_first_click_p90"] * quantiles)]
    engagement_layout = EngagementLayout(metrics, settings.satisfied_min, _assessment()) if engagement else None
    return Engine(rules, TallyLayout(scorer, engagement=engagement_layout))


def _assessment() -> AssessmentLayout:
    attributes = assessment.ATTRIBUTES.items()
    items = {item: CatalogueItem(values, assessment.INTERACTIONS[item], assessment.USERS[item]) for item, values in attributes}
    return AssessmentLayout(map(parse_metric, assessment.NAMES), ItemCatalogue(items, assessment.ALL_USERS), assessment.FALLBACK)


class Machine:
    """One task, driven step by step. It uses the store as a worker does."""

    def __init__(self, engine: Engine, settings: Settings, store: Store | None = None, due_max: int = 1_000) -> None:
        self.engine, self.settings = engine, settings
        self.store = store or MemoryStore()
        self.due_max = due_max
        self.evict: Callable[[], object] = lambda: engine.forget(self.state, 0)
        self.position = 0
        self.finals: list[FinalPane] = []
        self._saved_position = 0
        self._saved_finals = 0
        self._saved_idle: frozenset[int] = frozenset()
        self._generation = 0
        self.open()

    def open(self) -> None:
        """Claim the task and restore it from the last commit. Inputs that were idle then are still idle."""
        self._generation += 1
        self._token = f"token-{self._generation}"
        claim = self.store.claim(0, self._token)
        self._epoch, self._seq = claim.epoch, claim.seq
        self.state = self.engine.open(claim.control, claim.rows, claim.older)
        self.position = self._saved_position
        del self.finals[self._saved_finals :]
        self._idle = self._saved_idle

    def feed(self, steps: Sequence[Step]) -> None:
        """Process steps as one batch. Successive arrivals of one input are one engine step."""
        run: list[Arrival] = []
        for step in steps:
            if run and (not isinstance(step, Arrival) or step.input != run[0].input):
                self._arrive(run)
                run = []
            if isinstance(step, Arrival):
                run.append(step)
            else:
                self._pause(step)
        if run:
            self._arrive(run)
        self.position += len(steps)

    def _arrive(self, run: list[Arrival]) -> None:
        topic = self.settings.inputs.index(run[0].input)
        self._idle -= {topic}
        records = [(offset, -1 if one.record_ts is None else one.record_ts, (one.event,)) for offset, one in enumerate(run)]
        self._step(Batch(topic, records, self.position + len(run)))

    def _pause(self, step: Idle | Tick) -> None:
        inputs = self.settings.inputs
        if isinstance(step, Idle):
            self._idle = frozenset(inputs.index(name) for name in step.inputs)
            self._step(None)
        else:
            self._idle = frozenset(range(len(inputs)))
            self._step(None, tick_ms=step.now_ms - self.settings.idle_ms - self.settings.out_of_orderness_ms)

    def _step(self, batch: Batch | None, tick_ms: int | None = None, ended_until: int | None = None) -> None:
        needs = self.engine.needs(self.state, batch)
        due_wanted = None if needs.due_before_ms is None else due_before(needs.due_before_ms, self.due_max)
        loaded = with_due(self.store, 0, self.store.load(0, needs.users, due_wanted, needs.totals), self.state.sessions.users)
        self.engine.load(self.state, needs, loaded)
        self.engine.step(self.state, batch, loaded.due, self._idle, tick_ms, ended_until)

    def commit(self) -> None:
        """Commit, and drop every user from memory, or those that `evict` drops, so that the next batch loads them."""
        commit = self.prepare()
        assert self.store.commit(commit) is CommitOutcome.WRITTEN
        self.committed()

    def enrol(self) -> None:
        """Write all that is due without users' sessions. The task cannot be restored until the next commit."""
        is_due = True
        while is_due:
            self._step(None)
            assert self.store.commit(self.prepare(with_sessions=False)) is CommitOutcome.WRITTEN
            self._seq += 1
            is_due = self.engine.needs(self.state, None).due_before_ms is not None

    def prepare(self, *, with_sessions: bool = True) -> Commit:
        if self.engine.needs(self.state, None).totals:
            self._step(None)
        save = self.engine.save(self.state, with_sessions=with_sessions)
        self.finals.extend(save.final_panes)
        return Commit(0, self._epoch, self._token, self._seq + 1, save.changes)

    def committed(self) -> None:
        self._seq += 1
        self._saved_position, self._saved_finals, self._saved_idle = self.position, len(self.finals), self._idle
        self.evict()

    def end(self, until_ms: int) -> None:
        """End the input: sessions close and lists become final up to a time."""
        self._step(None, ended_until=until_ms)

    def finish(self, flush: bool) -> None:
        """End the input, and process due users until none is left."""
        if flush:
            self.end(FOREVER)
        self.commit()
        while self.engine.needs(self.state, None).due_before_ms is not None:
            self._step(None)
            self.commit()

    def run(self, steps: Sequence[Step], flush: bool = True) -> None:
        """Process steps as one batch, and end the input."""
        self.feed(steps)
        self.finish(flush)

    def run_in_batches(self, some: Iterable[Sequence[Step]], data: st.DataObject, flush: bool = True) -> None:
        """Take batches with commits between some of them, and end the input."""
        for batch in some:
            self.feed(batch)
            if data.draw(st.booleans()):
                self.commit()
        self.finish(flush)

    def feed_all(self, steps: Sequence[Step], data: st.DataObject, after_commit: Callable[[], object] = lambda: None) -> None:
        """Process all steps in batches of any size, with commits, crashes and lost replies in between."""
        crashes = data.draw(st.integers(0, 4))
        while self.position < len(steps):
            self.feed(steps[self.position : self.position + data.draw(st.integers(1, 8))])
            action = data.draw(st.sampled_from(["go on", "commit", "crash", "lost reply"]))
            if action == "commit":
                self.commit()
                after_commit()
            elif action == "crash" and crashes:
                crashes -= 1
                self.open()
            elif action == "lost reply":
                commit = self.prepare()
                self.store.commit(commit)
                assert self.store.commit(commit).value == "already"
                self.committed()

    def report(self) -> Report:
        settings = self.settings
        rules = WindowRules(
            pane_ms=settings.pane_ms,
            windows_ms=settings.windows_ms,
            lateness_ms=settings.lateness_ms,
            attribution_ms=settings.attribution_ms,
            live_wait_ms=None if settings.validity_ms is None else settings.lateness_ms,
        )
        builder = self.builder = ReportBuilder(self.engine.layout, rules, {}, self.engine.signature)
        for task, view in self.store.view([0], {}).items():
            builder.update(task, view)
        self.aggregator = builder.aggregator
        return builder.report(1)

    def tallies(self) -> dict[tuple[int, OracleGroup], list[int]]:
        """Return every stored tally by the oracle's keys."""
        self.report()
        return {
            (start, oracle_group(group)): tally
            for start in self.aggregator.starts()
            for group, tally in self.aggregator.pane(start).items()
            if tally[0]
        }


def oracle_group(group: Group) -> OracleGroup:
    return OracleGroup(group.experiment, group.variant, ((group.segment, group.value),) if group.segment else ())


def counts_of(machine: Machine) -> dict[tuple[str, str], int]:
    inputs = machine.settings.inputs
    counted: Counter[tuple[str, str]] = Counter()
    for (reason, topic), count in machine.state.progress.counts.items():
        counted[reason, inputs[topic]] += count
    return {key: count for key, count in counted.items() if count}


def facts_of(user: User) -> list[object]:
    return [
        (
            session.first,
            session.last,
            session.size,
            session.relabels,
            [
                (name, impression.facts()[:4], set(impression.reactions), impression.engagement)
                for name, impression in session.lists.items()
            ],
            {outcome: count for outcome, count in outcomes(session).items() if count},
            {name: set(waiting) for name, waiting in session.waiting.items() if waiting},
            session.pieces,
            session.unnamed_last,
        )
        for session in user.sessions
    ]
