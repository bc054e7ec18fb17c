"""The content of the HTTP port, without HTTP: the newest report, the series for Prometheus, and the health of the process.

Does no I/O: reads the report and the process status, and returns bytes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from streammetrics.experiments import ExperimentReport
from streammetrics.experiments.experiment_report import SINCE_START
from streammetrics.exporters.http.recent import RecentPoints
from streammetrics.exporters.prometheus.exposition import Exposition
from streammetrics.reports.freshness import FirstEvents, ReportTimes
from streammetrics.reports.history import History
from streammetrics.reports.outlook import with_outlook
from streammetrics.reports.published import ApiValue, Count, Counts, ReportChoice, encoded, published, report_experiments, report_state
from streammetrics.reports.report import Report, counts_by_reason
from streammetrics.reports.verdict_lines import GateAnswer, answer_gate, find_experiment
from streammetrics.runtime.retry import Trouble
from streammetrics.runtime.status import Rate
from streammetrics.words.times import span_text

STUCK_SECONDS = 30.0
"""A loop without a turn for this long hangs. All its waits are shorter, unless four nodes of a cluster hang at the same time."""
STALE_MS = 120_000
"""By how much a report, or the data in it, may be older than usual before the gate waits."""
NO_HISTORY = History()
UNREAD = "no committed state has been read yet; it comes when workers with the same redis.url and redis.namespace have committed"


class ReadinessFinding(NamedTuple):
    """Whether a check passes, and the problems as text."""

    is_well: bool
    text: str


class ReadinessProblem(NamedTuple):
    """What is missing for this process to be ready, and the runbook that says what to do; empty without one."""

    text: str
    runbook: str = ""

    def __str__(self) -> str:
        return f"{self.text}; see /help/{self.runbook}" if self.runbook else self.text


class Lag(ApiValue, frozen=True):
    """How far this process is behind one input. `seconds` is null if it is unknown."""

    topic: str
    partition: Count
    records: Count
    seconds: float | None


class Pulse(ApiValue, frozen=True):
    """The state of this process: problems, age of the report, event rate, and lag of its inputs.

    `outages` says why workers cannot read or commit now, if this process does not consume. `runbook` is that of the first problem;
    empty without one. `commit_age_seconds` is how long ago this process first saw the newest commit of a worker. `waiting` says what the
    first events must be, and is empty when there are some. `lag` is null if this process does not consume. Ages are null before the first
    report.
    """

    missing: tuple[str, ...]
    outages: tuple[str, ...]
    runbook: str
    waiting: tuple[str, ...]
    publishes: bool
    report_age_seconds: float | None
    report_gap_seconds: float | None
    commit_age_seconds: float | None
    events_per_second: float | None
    lag: tuple[Lag, ...] | None
    paused_inputs: Count
    commits: Counts
    rebalances: Count
    client_rebuilds: Count
    dead_letters: Count
    dead_letters_lost: Count


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class HttpAnswers:
    """The newest state of one process. All methods may be called from any thread.

    `monotonic` is the clock of the process status, in seconds, and `wall_ms` the time of day in epoch ms. `publishes` says if this
    process reads committed state. The exposition knows if it consumes. `first_events` says what is waited for while there are no events. A
    report that is older than `stale_ms` never passes the gate.
    """

    def __init__(
        self,
        exposition: Exposition,
        monotonic: Callable[[], float],
        *,
        publishes: bool = True,
        first_events: FirstEvents | None = None,
        wall_ms: Callable[[], int] = _wall_ms,
        stale_ms: int = STALE_MS,
    ) -> None:
        self._exposition, self._monotonic, self._publishes, self._first_events = exposition, monotonic, publishes, first_events
        self.wall_ms, self._stale_ms = wall_ms, stale_ms
        self._status = exposition.status
        self._report: tuple[Report, History] | None = None
        self._report_json: tuple[tuple[Report, History], bytes] | None = None
        self._outlook: tuple[tuple[ExperimentReport, ...], History, tuple[ExperimentReport, ...]] | None = None
        self._encoding = threading.Lock()
        self._shown_seconds: float | None = None
        self._changed_seconds: float | None = None
        """When a report last differed from the one before, so when some worker had committed."""
        self._gap_seconds: float | None = None
        self._rate = Rate()
        self._events_per_second: float | None = None
        self.recent = RecentPoints(str(metric) for metric in exposition.layout.metrics)

    def show(self, report: Report, history: History = NO_HISTORY) -> None:
        """Show this report from now on, with the history of its verdicts. The publisher calls this in its thread."""
        self._exposition.show(report)
        self.recent.add_report(report)
        now_seconds = self._monotonic()
        self._gap_seconds = None if self._shown_seconds is None else now_seconds - self._shown_seconds
        if self._report is None or self._report[0] is not report:
            self._changed_seconds = now_seconds
        self._events_per_second = self._rate.add(now_seconds, counts_by_reason(report.counts)["events"])
        self._report, self._shown_seconds = (report, history), now_seconds

    def metrics(self, accept: str) -> tuple[bytes, str]:
        """Return the text for Prometheus and its content type; see `Exposition.page`."""
        return self._exposition.page(accept)

    def report_json(self) -> bytes | None:
        """Return the newest report as JSON; None before the first report. A report is encoded once, when a client first asks for it."""
        with self._encoding:
            last_report, made = self._report, self._report_json
            if last_report is None:
                return None
            report, history = last_report
            if made is None or made[0][0] is not report or made[0][1] is not history:
                made = self._report_json = (last_report, encoded(published(report, self._exposition.layout, history)))
            return made[1]

    def report_part(self, choice: ReportChoice | None) -> bytes | None:
        """Return a part of the newest report as JSON: the numbers of some experiments, or without a choice the state of the pipeline.

        None before the first report. What all treatments still need is computed once for each new judgement.
        """
        last_report = self._report
        if last_report is None:
            return None
        report, history = last_report
        if choice is None:
            return encoded(report_state(report, self._exposition.layout))
        with self._encoding:
            if self._outlook is None or self._outlook[0] is not report.experiments or self._outlook[1] is not history:
                self._outlook = report.experiments, history, with_outlook(report.experiments, history)
            experiments = self._outlook[2]
        return encoded(report_experiments(report, self._exposition.layout, history, experiments, choice))

    @property
    def why_no_report(self) -> str:
        """The reason for a missing report."""
        return UNREAD if self._publishes else "this process only consumes; use the exporter of its namespace"

    def pulse(self) -> Pulse:
        """Return the status of this process."""
        status, now_seconds = self._status, self._monotonic()
        refusals = (f"Redis at {node.name} refuses writes: {node.refusal}" for node in status.store_nodes if node.refusal)
        lag_seconds, problems = dict(status.lag_seconds), [*self._problems()]
        return Pulse(
            missing=tuple(problem.text for problem in problems),
            outages=() if self._exposition.loop else (*status.outages, *refusals),
            runbook=next((problem.runbook for problem in problems if problem.runbook), ""),
            waiting=tuple(self._waiting()),
            publishes=self._publishes,
            report_age_seconds=None if self._shown_seconds is None else max(0.0, now_seconds - self._shown_seconds),
            report_gap_seconds=self._gap_seconds,
            commit_age_seconds=None if self._changed_seconds is None else max(0.0, now_seconds - self._changed_seconds),
            events_per_second=self._events_per_second,
            lag=tuple(
                Lag(topic=origin.topic, partition=origin.partition, records=records, seconds=lag_seconds.get(origin))
                for origin, records in sorted(dict(status.lag_records).items())
            )
            if self._exposition.loop
            else None,
            paused_inputs=status.paused_inputs,
            commits=dict(sorted(status.commits.items())),
            rebalances=status.rebalances,
            client_rebuilds=status.client_rebuilds,
            dead_letters=status.dead_letters,
            dead_letters_lost=status.dead_letters_lost.total(),
        )

    def gate(self, experiment: str, variant: str | None = None, scope: str = SINCE_START, since_ms: int | None = None) -> GateAnswer | None:
        """Return the answer of the gate for an experiment; None before the first report. Raises UnknownExperimentError.

        since_ms: when the running step of a rollout began (event time); None: it is found.
        The report is stale if it was read too long ago, if its event time is too far behind, or if this process is behind its inputs.
        """
        last_report, shown_seconds, now_ms = self._report, self._shown_seconds, self.wall_ms()
        if last_report is None or shown_seconds is None:
            return None
        report, history = last_report
        stale = [*self._stale(self._monotonic() - shown_seconds), *ReportTimes.of(report).staleness(now_ms, self._stale_ms)]
        warnings = [*map(str, report.warnings())]
        chosen = find_experiment(report.experiments, experiment, scope, stale, warnings)
        if since_ms is not None:
            assert report.since is not None, "a report without the state that it was made of"
            chosen = report.since(experiment, scope, since_ms) or chosen
        (answered,) = with_outlook([chosen], history)
        return answer_gate(
            answered,
            variant,
            stale=stale,
            up_to_ms=report.entered_ms,
            answered_ms=now_ms,
            warnings=warnings,
        )

    def _stale(self, age_seconds: float) -> Iterator[str]:
        limit_seconds = self._stale_ms / 1_000
        if age_seconds > limit_seconds:
            trouble = self._status.publish_trouble
            why = "" if trouble is None else f": {self._problem_text(trouble)}"
            yield f"the committed state was last read {span_text(int(age_seconds * 1_000))} ago{why}"
        lag_seconds = max(dict(self._status.lag_seconds).values(), default=0.0) if self._exposition.loop else 0.0
        if lag_seconds > limit_seconds:
            yield f"this worker is {span_text(int(lag_seconds * 1_000))} behind its inputs"

    def health(self) -> ReadinessFinding:
        """Whether the loop works. Kafka or Redis being away does not count: a restart of this process would not help."""
        if not self._exposition.loop:
            return ReadinessFinding(True, "ok\n")
        quiet_seconds = self._monotonic() - max(self._status.beat_seconds, self._status.started_seconds)
        if quiet_seconds > STUCK_SECONDS:
            return ReadinessFinding(False, f"loop: no turn for {quiet_seconds:.0f} s\n")
        return ReadinessFinding(True, "ok\n")

    def readiness(self) -> ReadinessFinding:
        """Whether everything that this process needs is available. The text has one line per problem."""
        missing = [*map(str, self._problems())]
        return ReadinessFinding(not missing, "".join(f"{line}\n" for line in missing or ("ok", *self._waiting())))

    def _waiting(self) -> list[str]:
        """Return sentences about the first events, and records as examples before the first list; empty when events set the time."""
        if self._first_events is None or self._report is None:
            return []
        report, _ = self._report
        sentences = self._first_events.sentences(report)
        return [*sentences, *(() if report.first_numbers else self._first_events.advice())] if sentences else []

    def _problems(self) -> Iterator[ReadinessProblem]:
        status = self._status
        troubles = (
            ("source", status.source_trouble, "StreammetricsKafkaDown"),
            ("reader", status.reader_trouble, "StreammetricsReaderWaits"),
            ("store", status.store_trouble, "StreammetricsRedisDown"),
        )
        for where, trouble, runbook in troubles:
            if trouble is not None:
                yield ReadinessProblem(f"{where}: {self._problem_text(trouble)}", runbook)
        for name, trouble in sorted(dict(status.down).items()):
            yield ReadinessProblem(f"{name}: {self._problem_text(trouble)}", "StreammetricsTargetDown")
        for origin, standstill in sorted(dict(status.standstills).items()):
            stood = span_text(int(1_000 * (self._monotonic() - standstill.since_seconds)))
            reason = " ".join(standstill.reason.split())
            text = f"worker: {origin.topic} [{origin.partition}] has stood at offset {standstill.offset} for {stood}"
            yield ReadinessProblem(f"{text} although it has more records: {reason}", "StreammetricsPartitionStandsStill")
        if self._exposition.loop and not status.ready and not status.down and not any(trouble for _, trouble, _ in troubles):
            yield ReadinessProblem("worker: source and store have not both answered yet, or an assigned task is not claimed yet")
        if status.group_conflict:
            yield ReadinessProblem(f"worker: {status.group_conflict}")
        if self._publishes:
            if (trouble := status.publish_trouble) is not None:
                yield ReadinessProblem(f"publisher: {self._problem_text(trouble)}", "StreammetricsRedisDown")
            if self._report is None:
                yield ReadinessProblem(f"publisher: {UNREAD}", "StreammetricsAbsent")

    def _problem_text(self, trouble: Trouble) -> str:
        message = " ".join(trouble.message.split())
        tries = "1 try" if trouble.failures == 1 else f"{trouble.failures} tries"
        return f"{message} (for {max(0.0, self._monotonic() - trouble.since_seconds):.0f} s, {tries})"
