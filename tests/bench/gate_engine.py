"""Simulated ramps through the engine, with crashes and lag: how often the gate is wrong, and whether it ever passes while stale or behind.

    python -m tests.bench.gate_engine [ramps] [processes] [minutes] [users]

A log has the events of one span of traffic: lists and clicks of users who come back. Every list is in 16 ramps, 1 → 5 → 25 % each, and
users are assigned in each ramp on their own. Of four logs, three have 4,000 users and ramps without a difference. The fourth has 32,000
users: in 8 ramps there is no difference, and in 8 the treatment is 20 % worse. So many users are needed for a pass, and for a failure in
the 5 % stage.

The engine reads a log in batches and commits to a store. It crashes at random, also between the write of a commit and its reply, and reads
on from the last commit. At times it stands still and is behind, with older committed state. A reader of the store makes a report at every
look, and the gate of each ramp is asked. Settings are the defaults of the product.

`ramps` counts those without a difference. `minutes` starts no more logs after this time; the rates then have the error of fewer ramps.
`users` is the number of users of the large logs.
"""

from __future__ import annotations

import math
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle, islice

import numpy as np
import numpy.typing as npt
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from streammetrics.config import Settings
from streammetrics.connectors.memory import MemoryStore
from streammetrics.connectors.store import Commit, CommitOutcome, DueQuery
from streammetrics.engine.batch import Batch
from streammetrics.engine.engine import Engine
from streammetrics.events.model import Event, Feedback, Impression
from streammetrics.experiments import SINCE_START
from streammetrics.reports.freshness import ReportTimes
from streammetrics.reports.gate_answer import GateAnswer, answer_gate
from streammetrics.reports.report import Report
from streammetrics.runtime.consume.prefetch import with_due
from streammetrics.runtime.publish.committed_state import freeze_due_scales, read_committed
from streammetrics.wiring.engine import build_engine
from streammetrics.wiring.reports import build_report_builder
from tests.bench.aa_ramps import ARMS
from tests.bench.aa_traffic import Ints

TOPICS = ("events",)
SHARES = (0.01, 0.05, 0.25)
SAME, WORSE = "no difference", "20 % worse"
LIFTS = {SAME: 0.0, WORSE: -0.2}
LISTS_MEAN = 3
LOOKS = 28
LOOK_MS = 1_800_000
START_MS = 1_732_219_200_000
"""20:00 UTC, so that the day changes during the traffic."""
CLICK_MS = 5_000
BATCH_EVENTS_MAX = 1_500
CRASH_RATE = 0.05
"""Chance of a crash after a batch, and that the reply of a commit is lost in a crash."""
OUTAGE_RATE = 0.05
OUTAGE_LOOKS = 4.0
"""Chance that the engine stops at a look, and the mean number of looks for which it then stands still."""
ENOUGH_USERS = (305, 512, 700)
"""Numbers of treated users from which ramps are counted as large enough to fail in the 5 % stage. The planner expects a failure in 95 of
100 ramps with 700 users, at a coefficient of variation of 1.22. `ndcg@10` has that variation in the large logs.
"""
ITEMS = tuple(f"i{place}" for place in range(10))


@dataclass(frozen=True, slots=True)
class Log:
    """The size of a log: users, looks, and ramps by case."""

    users: int
    same: int
    worse: int = 0
    looks: int = LOOKS

    @property
    def ramps(self) -> tuple[tuple[str, float], ...]:
        """The names of the ramps, and the lifts of their treatments."""
        return tuple(
            (f"{case} {number}", LIFTS[case]) for case, count in ((SAME, self.same), (WORSE, self.worse)) for number in range(count)
        )


LARGE_USERS = 32_000


def kinds_of_logs(users: int) -> tuple[Log, ...]:
    """Return the kinds of logs, in turn. `users` are those of the large ones."""
    return *[Log(4_000, 16)] * 3, Log(users, 8, 8)


def settings_of(log: Log) -> Settings:
    """Return the defaults, with the stages of each ramp."""
    starts = [
        datetime.fromtimestamp((START_MS + log.looks * LOOK_MS * number // len(SHARES)) / 1_000, UTC).isoformat()
        for number in range(len(SHARES))
    ]
    stages = [
        {"shares": {"control": 1 - share, "treatment": share}, "name": f"{share:.0%}"} | ({"start": begin} if number else {})
        for number, (begin, share) in enumerate(zip(starts, SHARES, strict=True))
    ]
    return Settings.model_validate({"experiments": {"named": {name: {"stages": stages} for name, _ in log.ramps}}})


@dataclass(slots=True)
class EngineRamp:
    """What the gate said in one ramp.

    words: whatever came up. stage: the stage (0 to 2) of the first `fail`; None: never. treated: treated users that counted at the end of
    the 5 % stage. held_back, stale_passes: questions while the numbers were stale that the numbers alone would pass, and those that passed.
    """

    words: set[str] = field(default_factory=set)
    stage: int | None = None
    treated: int = 0
    held_back: int = 0
    stale_passes: int = 0


def events_of(random: np.random.Generator, log: Log) -> tuple[list[Event], list[int]]:
    """Draw a log: the events in order of time, and their times (ms)."""
    users, lifts = log.users, [lift for _, lift in log.ramps]
    taste, starts = random.beta(1.2, 2, users), random.random(users) * 0.98
    owner = np.repeat(np.arange(users), random.geometric(1 / LISTS_MEAN, users))
    when = starts[owner] + (1 - starts[owner]) * random.random(len(owner))
    order = np.argsort(when, kind="stable")
    owner, when = owner[order], when[order]
    times = START_MS + (when * log.looks * LOOK_MS).astype(np.int64)
    stage = np.minimum((when * len(SHARES)).astype(np.int64), len(SHARES) - 1)
    place = random.random((users, len(lifts)))
    treated = place[:, None, :] < np.array(SHARES)[None, :, None]
    factors = np.prod(np.where(treated, 1 + np.array(lifts), 1.0), axis=2)
    clicked = random.random(len(owner)) < taste[owner] * factors[owner, stage]
    clicks = clicked[:, None] & (random.random((len(owner), len(ITEMS))) < 0.7 / np.arange(1, len(ITEMS) + 1) ** 0.8)
    found = sorted(_events([name for name, _ in log.ramps], owner, times, stage, treated, clicks), key=lambda event: event.ts)
    return found, [event.ts for event in found]


def _events(
    names: Sequence[str], owner: Ints, times: Ints, stage: Ints, treated: npt.NDArray[np.bool_], clicks: npt.NDArray[np.bool_]
) -> Iterator[Event]:
    labels: dict[tuple[int, int], tuple[tuple[str, str], ...]] = {}
    for number, (user, ts, at) in enumerate(zip(owner.tolist(), times.tolist(), stage.tolist(), strict=True)):
        if (user, at) not in labels:
            labels[user, at] = tuple(sorted((name, ARMS[arm]) for name, arm in zip(names, treated[user, at].tolist(), strict=True)))
        shown = Impression(f"r{number}", f"u{user}", ts, ITEMS, labels[user, at])
        yield shown
        for position in np.flatnonzero(clicks[number]).tolist():
            yield Feedback(f"u{user}", ts + CLICK_MS, ITEMS[position], "click", impression_id=shown.impression_id)


class CrashingTask:
    """A task that reads a log, and at random loses everything that is not committed."""

    def __init__(self, engine: Engine, events: Sequence[Event], random: np.random.Generator, crash_rate: float = CRASH_RATE) -> None:
        self.engine, self.events, self.random, self.crash_rate = engine, events, random, crash_rate
        self.store = MemoryStore()
        self.store.announce(1)
        self.crashes = 0
        self._claims = 0
        self._open()

    def _open(self) -> None:
        """Claim the task, and restore it from the last commit."""
        self._claims += 1
        self._token = f"token-{self._claims}"
        claim = self.store.claim(0, self._token)
        self._epoch, self._seq = claim.epoch, claim.seq
        self.state = self.engine.open(claim.control, claim.rows, claim.older)
        self.position = (self.state.progress.offsets[0] if claim.control is not None else None) or 0

    def read_to(self, end: int) -> None:
        """Read the log up to this position and commit, with crashes in between."""
        while True:
            while self.position < end:
                size = int(self.random.integers(1, BATCH_EVENTS_MAX))
                self._take(self.events[self.position : min(end, self.position + size)])
                if self._crashes():
                    continue
                if self.random.random() < 0.3:
                    self._commit()
            self._commit()
            if not self._crashes() or self.position >= end:
                break
        while self.engine.needs(self.state, None).due_before_ms is not None:
            self._step(None)
            self._commit()

    def _crashes(self) -> bool:
        if self.random.random() >= self.crash_rate:
            return False
        self.crashes += 1
        self._open()
        return True

    def _take(self, events: Sequence[Event]) -> None:
        records = [(self.position + number, -1, (event,)) for number, event in enumerate(events)]
        self.position += len(events)
        self._step(Batch(0, records, self.position))

    def _step(self, batch: Batch | None) -> None:
        needs = self.engine.needs(self.state, batch)
        due_wanted = None if needs.due_before_ms is None else DueQuery(needs.due_before_ms, 5_000, 1 << 30)
        loaded = with_due(self.store, 0, self.store.load(0, needs.users, due_wanted, needs.totals), self.state.sessions.users)
        due = self.engine.take(self.state, needs, loaded.users, loaded.due, loaded.next_due_ms, totals=loaded.totals)
        self.engine.step(self.state, batch, due, frozenset())

    def _commit(self) -> None:
        if self.engine.needs(self.state, None).totals:
            self._step(None)
        commit = Commit(0, self._epoch, self._token, self._seq + 1, self.engine.save(self.state).changes)
        assert self.store.commit(commit) is CommitOutcome.WRITTEN
        if self.random.random() < self.crash_rate:  # the process dies before it sees the reply
            self.crashes += 1
            self._open()
            return
        self._seq += 1
        self.engine.forget(self.state, 10_000)


def one_log(seed: int, log: Log) -> tuple[dict[str, EngineRamp], Counter[str]]:
    """Draw one log, read it with crashes and lag, and ask the gate of every ramp at every look. Also returns counts of what happened."""
    random, settings = np.random.default_rng((seed, log.users)), settings_of(log)
    events, times = events_of(random, log)
    engine = build_engine(settings, TOPICS)
    task, builder = CrashingTask(engine, events, random), build_report_builder(settings, engine)
    found, counts, standing = {name: EngineRamp() for name, _ in log.ramps}, Counter[str](events=len(events), looks=log.looks), 0
    stale_ms, report = settings.exporter.gate_stale_ms, None
    for look in range(1, log.looks + 1):
        now_ms = START_MS + look * LOOK_MS
        if standing == 0 and random.random() < OUTAGE_RATE:
            standing = int(random.geometric(1 / OUTAGE_LOOKS))
        if standing:
            standing -= 1
            counts["looks behind"] += 1
        else:
            task.read_to(bisect_left(times, now_ms))
        has_news = read_committed(task.store, builder, 1)
        has_news = freeze_due_scales(task.store, builder, 1) or has_news
        report = builder.report(1) if has_news or report is None else report  # as the exporter does
        behind_ms = now_ms - times[task.position - 1] if task.position else now_ms
        _ask(report, found, now_ms, (look - 1) * len(SHARES) // log.looks, behind_ms > stale_ms, stale_ms)
    return found, counts + Counter(crashes=task.crashes)


def _ask(report: Report, found: dict[str, EngineRamp], now_ms: int, stage: int, is_behind: bool, stale_ms: int) -> None:
    stale = [*ReportTimes.of(report).staleness(now_ms, stale_ms)]
    for experiment in report.experiments:
        if experiment.scope != SINCE_START:
            continue
        result = found[experiment.experiment]
        answer: GateAnswer = answer_gate(experiment, stale=stale, up_to_ms=report.entered_ms, answered_ms=now_ms)
        result.words.add(answer.gate)
        if is_behind:
            result.held_back += experiment.gate is not None and experiment.gate.word == "pass"
            result.stale_passes += answer.gate == "pass"
        if stage == 1:
            result.treated = next((each.users for each in answer.treatments), 0)
        if answer.gate == "fail" and result.stage is None:
            result.stage = stage


def rate(count: int, of: int) -> str:
    """Return a share with its 95 % interval for a binomial share [Wilson 1927], in percent.

    >>> rate(19, 1_000), rate(0, 68), rate(0, 0)
    ('1.9 % (1.2 to 2.9)', '0.0 % (0.0 to 5.3)', '-')
    """
    if not of:
        return "-"
    share, squared = count / of, 1.96**2
    middle = (share + squared / (2 * of)) / (1 + squared / of)
    half = 1.96 * math.sqrt(share * (1 - share) / of + squared / (4 * of * of)) / (1 + squared / of)
    return f"{100 * share:.1f} % ({100 * max(0.0, middle - half):.1f} to {100 * min(1.0, middle + half):.1f})"


def main(ramps: int, processes: int, minutes: float, users: int) -> None:
    kinds, began = kinds_of_logs(users), time.monotonic()
    logs = math.ceil(ramps / sum(log.same for log in kinds)) * len(kinds)
    results: dict[str, list[EngineRamp]] = {case: [] for case in LIFTS}
    counts, done, waiting = Counter[str](), 0, zip(range(logs), cycle(kinds), strict=False)
    with ProcessPoolExecutor(processes) as pool:
        running = {pool.submit(one_log, *each) for each in islice(waiting, processes)}
        while running:
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for each in finished:
                found, happened = each.result()
                counts, done = counts + happened, done + 1
                for name, result in found.items():
                    results[name.rpartition(" ")[0]].append(result)
            if time.monotonic() - began < 60 * minutes:
                running |= {pool.submit(one_log, *each) for each in islice(waiting, len(finished))}
            print(f"{done} of {logs} logs, {(time.monotonic() - began) / 60:.1f} min", file=sys.stderr, flush=True)
            _print(results, counts, done)


def _print(results: dict[str, list[EngineRamp]], counts: Counter[str], logs: int) -> None:
    columns = ("treatment", "ramps", "ever fail", "fail in the 1 or 5 % stage", "ever pass", "stale and would pass", "of these, passed")
    table = Table(*columns, box=MARKDOWN)
    for case, found in results.items():
        failed, passed = (sum(word in each.words for each in found) for word in ("fail", "pass"))
        early = sum(each.stage is not None and each.stage <= 1 for each in found)
        questions = sum(each.held_back for each in found), sum(each.stale_passes for each in found)
        rates = (rate(each, len(found)) for each in (failed, early, passed))
        table.add_row(case, f"{len(found):,}", *rates, *(f"{each:,}" for each in questions))
    Console(width=150).print(table)
    for users in ENOUGH_USERS:
        enough = [each for each in results[WORSE] if each.treated >= users]
        stopped = sum(each.stage is not None and each.stage <= 1 for each in enough)
        print(f"{WORSE} with {users} or more treated users by the end of the 5 % stage: {stopped} of {len(enough)} fail by then")
    behind, looks = counts["looks behind"], counts["looks"]
    print(f"{logs} logs, {counts['events']:,} events, {counts['crashes']:,} crashes, behind at {behind:,} of {looks:,} looks")


if __name__ == "__main__":
    given: list[Callable[[str], float]] = [int, int, float, int]
    chosen = [kind(each) for kind, each in zip(given, sys.argv[1:], strict=False)]
    main(*(chosen + [1_000, 2, math.inf, LARGE_USERS][len(chosen) :]))  # type: ignore[arg-type]  # in the order of the parameters
