"""The loop around the engine: poll, load, step, commit; retries, rebalances, pacing, shutdown.

A turn touches the world at four points (poll, load, letters, commit) and never waits for a world that fails: what failed is
kept as it was and tried again with back-off, while the source is still polled so that ownership stays known. While a commit is
on its way the next events are taken; a task has one commit on its way at a time. Nothing is decided here that changes a number,
save when an input counts as idle.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor

import structlog

from streammetrics.engine import Engine, FinalPane, TaskState
from streammetrics.errors import GaveUp, MalformedEvent, SourceError, StateError, StoreError
from streammetrics.events import Decoder
from streammetrics.ports import Clock, Commit, DeadLetter, DeadLetters, Input, Loaded, Outcome, Record, Source, Store
from streammetrics.vitals import Trouble, Vitals
from streammetrics.windows import NEVER, Pane
from streammetrics.work import Answer, AtOnce, Backoff, Chunk, Sent, Work, WorkerRules, commit_of, one_more

FINISH_RETRY_SECONDS = 0.05
CALM_SECONDS = 5.0
"""So long must polling go well before it counts as mended: some failures come with every other poll only."""
LETTERS_MAX = 1_000
"""How many dead letters wait for the next commit; more are written at once."""
CHUNK_RECORDS_MAX = 1_000
"""How many records one step takes, so that a commit can be placed before its bound is passed."""

log = structlog.get_logger("streammetrics.service")


class Worker:
    """Runs the tasks that the source assigns, one turn at a time, in one thread. Only commits are sent by another, `commits`."""

    def __init__(  # noqa: PLR0913  each is one port, one value or one rule, and all are named
        self,
        *,
        engine: Engine,
        decode: Decoder,
        source: Source,
        store: Store,
        letters: DeadLetters,
        rules: WorkerRules,
        clock: Clock,
        vitals: Vitals,
        commits: Executor | None = None,
        misplaced: Callable[[int, str], bool] | None = None,
        topic_ids: Sequence[str] = (),
        on_final: Callable[[list[FinalPane]], None] | None = None,
    ) -> None:
        self.engine, self.decode, self.source, self.store, self.letters = engine, decode, source, store, letters
        self.rules, self.clock, self.vitals = rules, clock, vitals
        self.works: dict[int, Work] = {}
        self._commits = commits or AtOnce()
        self._misplaced = misplaced
        self._topic_ids = list(topic_ids)
        self._on_final = on_final
        self._paused: frozenset[Input] = frozenset()
        self._backoff = Backoff()
        self._retry_at = 0.0
        self._failing: dict[str, Trouble] = {}
        self._polling: Trouble | None = None
        self._poll_failed_seconds = 0.0

    def run(self, stop: threading.Event) -> None:
        """Turn until told to stop, then commit what is there and leave."""
        while not stop.is_set():
            self.turn()
        self.finish()

    def turn(self, timeout_s: float = 0.2) -> None:
        """Poll once and carry every owned task as far as the world allows."""
        now = self.vitals.beat_seconds = self.clock.monotonic()
        if self._failing and now < self._retry_at:
            timeout_s = max(0.01, min(timeout_s, self._retry_at - now))
        self._poll(timeout_s)
        if self.clock.monotonic() >= self._retry_at:
            self._carry()
        self._pace()
        self._note_vitals()

    def finish(self, patience_seconds: float = 10.0) -> None:
        """Commit what was taken, as far as the store allows within a bound, and leave the source."""
        deadline = self.clock.monotonic() + patience_seconds
        while any(work.backlog or self._unsaved(work) for work in self.works.values()):
            if self.clock.monotonic() >= self._retry_at:
                self._carry(commit_now=True)
            if self._failing:
                self.clock.sleep(FINISH_RETRY_SECONDS)
            if self._failing and self.clock.monotonic() > deadline:
                log.warning("stopped with uncommitted work, which will be read again", tasks=sorted(self.works))
                break
        self.source.close()
        self.letters.close()

    def drain(self, flush: bool) -> None:
        """Finish inputs that have ended: commit all, close all sessions that are due; `flush` makes everything final."""
        for work in self.works.values():
            if flush and work.state is not None:
                self._step(work, None, flush=True)
            while work.state is not None and (work.backlog or self._unsaved(work) or self._due_left(work)):
                self._carry_one(work, commit_now=True)

    def unfinished_panes(self) -> Iterator[tuple[int, Pane]]:
        """The panes of owned tasks that may still change, by start; for inputs that have ended."""
        for work in self.works.values():
            if work.state is not None:
                yield from sorted(work.state.panes.items())

    def inputs_by_event_time(self) -> list[Input]:
        """The owned inputs, the one furthest behind in event time first."""
        stands = [
            (watermark, origin)
            for work in self.works.values()
            if work.state is not None
            for origin, watermark in zip(work.inputs, work.state.watermarks, strict=True)
        ]
        return [origin for _, origin in sorted(stands)]

    def _due_left(self, work: Work) -> bool:
        """Whether the store should be asked who is due; not while a commit is on its way that changes the answer."""
        return work.state is not None and work.sent is None and self.engine.needs(work.state, None).due_before_ms is not None

    def _totals_left(self, work: Work) -> bool:
        """Whether totals must be read before the next commit."""
        return work.state is not None and bool(self.engine.needs(work.state, None).totals)

    def _poll(self, timeout_s: float) -> None:
        began = self.clock.monotonic()
        try:
            polled = self.source.poll(timeout_s)
        except SourceError as error:
            self._poll_failed_seconds = self.clock.monotonic()
            self._polling = one_more("source", self._polling, error, self._poll_failed_seconds, self.rules)
            self.clock.sleep(max(0.0, timeout_s - (self._poll_failed_seconds - began)))  # it may fail at once, thousands of times a second
            return
        if self._polling is not None and began - self._poll_failed_seconds > CALM_SECONDS:
            log.info("source available again", failures=self._polling.failures)
            self._polling = None
        for task in polled.revoked:
            if self.works.pop(task, None) is not None:
                log.info("task revoked", task=task)
        for task in sorted(polled.assigned):
            log.info("task assigned", task=task)
            self.works[task] = Work(task, self.source.inputs_of(task))
        if polled.assigned or polled.revoked:
            self.vitals.rebalances += 1
        for origin, records in polled.records.items():
            work = self.works.get(origin.partition)
            if work is not None and work.state is not None and records:
                self._take_records(work, origin, records)

    def _take_records(self, work: Work, origin: Input, records: Sequence[Record]) -> None:
        topic, decode = work.inputs.index(origin), self.decode
        size = min(CHUNK_RECORDS_MAX, self.rules.commit_users_max)
        for start in range(0, len(records), size):
            chunk = records[start : start + size]
            work.backlog.append(Chunk(topic, chunk, [(offset, stamp, decode(value)) for offset, stamp, value in chunk]))
        work.heard_seconds[origin] = self.clock.monotonic()
        work.idle -= {topic}
        self.vitals.records[origin.topic] += len(records)
        stamp = records[-1].timestamp_ms
        self.vitals.lag_seconds[origin] = max(0.0, (self.clock.wall_ms() - stamp) / 1_000) if stamp >= 0 else 0.0

    def _carry(self, commit_now: bool = False) -> None:
        for work in list(self.works.values()):
            try:
                self._carry_one(work, commit_now)
            except StoreError as error:
                self._trouble("store", error)
                return
            except SourceError as error:
                self._trouble("source", error)
                return
        self._well()

    def _carry_one(self, work: Work, commit_now: bool = False) -> None:
        self._settle(work, wait=commit_now or bool(self._failing))
        if work.state is None:
            self._claim(work)
            return
        while work.backlog:
            if self._too_much(work.state, work.backlog[0]):
                self._save(work)
                if work.state is None:
                    return
            self._step(work, work.backlog[0])
            work.backlog.popleft()
            if len(work.letters) > LETTERS_MAX:
                self._write_letters(work)
        self._tick(work)
        if self._due_left(work):
            self._step(work, None)
        spaced = (self.clock.monotonic() - work.committed_seconds) * 1_000 >= self.rules.commit_ms
        if self._changed(work) and (commit_now or (spaced and work.sent is None)):
            self._save(work)
        if commit_now:
            self._settle(work, wait=True)

    def _too_much(self, state: TaskState, chunk: Chunk) -> bool:
        """Whether a commit must come before these records, to stay within its bound."""
        room = self.rules.commit_users_max - len(state.dirty)
        if not state.dirty or sum(len(events) for _, _, events in chunk.decoded) <= room:
            return False
        users = {event.user_id for _, _, events in chunk.decoded for event in events if not isinstance(event, MalformedEvent)}
        return len(state.dirty | users) > self.rules.commit_users_max

    def _changed(self, work: Work) -> bool:
        return work.state is not None and (work.state.changed or bool(work.letters))

    def _unsaved(self, work: Work) -> bool:
        return work.sent is not None or self._changed(work)

    def _claim(self, work: Work) -> None:
        if self.clock.monotonic() < work.claim_after:
            return
        work.token = secrets.token_hex(8)
        claim = self.store.claim(work.task, work.token)
        if claim.control is None and work.seq:
            raise StateError(
                f"the store has lost all state of task {work.task}, of which {work.seq} commits were written: restore it and start again, "
                "or start again without it to count anew from where kafka.start says"
            )
        state = self.engine.open(claim.control, claim.panes, claim.pane_starts, claim.experiments, claim.reaches)
        self._check_topics(work, state)
        known = {origin: offset for origin, offset in zip(work.inputs, state.offsets, strict=True) if offset is not None}
        starts = self.source.start(work.task, known)
        if not starts:
            return
        state.offsets = [starts[origin] for origin in work.inputs]
        work.epoch, work.seq, work.state = claim.epoch, claim.seq, state
        work.backlog.clear()
        work.letters.clear()
        self._paused -= set(work.inputs)  # the source has just let them flow
        work.committed_seconds = self.clock.monotonic()
        work.heard_seconds = dict.fromkeys(work.inputs, work.committed_seconds)
        if len(known) < len(work.inputs):  # where an input begins must hold even if this process dies before its first commit
            self._save(work)
        log.info("task claimed", task=work.task, epoch=claim.epoch, seq=claim.seq, offsets=state.offsets)

    def _check_topics(self, work: Work, state: TaskState) -> None:
        """A topic that was created anew has other records at the stored offsets: never read on as if nothing had happened."""
        for index, current in enumerate(self._topic_ids):
            stored = state.topic_ids[index]
            if stored and stored != current:
                raise StateError(
                    f"topic {work.inputs[index].topic!r} was deleted and created again (its id was {stored}, now {current}): "
                    "the stored offsets belong to the old one; use a new redis.namespace"
                )
            state.topic_ids[index] = current

    def _step(self, work: Work, chunk: Chunk | None, tick_ms: int | None = None, flush: bool = False) -> None:
        engine, state = self.engine, work.state
        assert state is not None
        batch = None if chunk is None else chunk.arrived
        needs = engine.needs(state, batch)
        asked = needs.users
        if work.sent is not None:  # until it is written, the store tells of users that it ends, not all that are due, and former totals
            asked, needs = needs.users - work.sent.gone, needs._replace(due_before_ms=None, totals=frozenset())
        elif batch is not None:  # totals are asked for once a commit
            needs = needs._replace(totals=frozenset())
        due: list[str] = []
        if needs.users or needs.totals or needs.due_before_ms is not None:
            loaded = Loaded({})
            if asked or needs.totals or needs.due_before_ms is not None:
                loaded = self.store.load(work.task, asked, needs.due_before_ms, self.rules.commit_users_max, needs.totals)
            due = engine.take(state, needs, loaded.users, loaded.due, loaded.next_due_ms, self._placement(work.task), loaded.totals)
        effects = engine.step(state, batch, due, work.idle - {batch.topic} if batch else work.idle, tick_ms, flush)
        if chunk is not None and effects.refused:
            values = {record.offset: record.value for record in chunk.records}
            origin = work.inputs[chunk.topic]
            work.letters.extend(
                DeadLetter(refused.reason, refused.detail, origin, refused.offset, values[refused.offset]) for refused in effects.refused
            )
        if effects.final_panes and self._on_final is not None:
            self._on_final(effects.final_panes)

    def _placement(self, task: int) -> Callable[[str], bool] | None:
        misplaced = self._misplaced
        return None if misplaced is None else lambda user_id: misplaced(task, user_id)

    def _tick(self, work: Work) -> None:
        """Tell the engine which inputs are caught up and silent; paused or unreachable inputs are neither."""
        idle_ms, state, now = self.rules.idle_ms, work.state, self.clock.monotonic()
        if idle_ms is None or state is None or (now - work.ticked_seconds) * 1_000 < self.rules.commit_ms:
            return
        work.ticked_seconds = now
        health = self.source.health
        ends = self.source.ends() if health.reachable else {}
        looked = now if health.looked is None else health.looked  # nothing is known of what came after the ends were asked for
        work.idle = frozenset(
            index
            for index, origin in enumerate(work.inputs)
            if ends.get(origin) == state.offsets[index] and (looked - work.heard_seconds[origin]) * 1_000 >= idle_ms
        )
        if work.idle:
            unseen_ms = int((now - looked) * 1_000)
            self._step(work, None, tick_ms=self.clock.wall_ms() - unseen_ms - idle_ms - self.rules.out_of_orderness_ms)

    def _save(self, work: Work) -> None:
        """Write the dead letters, then send a commit: letters may be repeated after a crash, but never lost."""
        self._settle(work, wait=True)
        if work.state is None:
            return
        if self._due_left(work) or self._totals_left(work):  # before the next commit is on its way, too
            self._step(work, None)
        self._write_letters(work)
        save = self.engine.save(work.state)
        commit = commit_of(save, task=work.task, epoch=work.epoch, token=work.token, seq=work.seq + 1)
        offsets = zip(work.inputs, work.state.offsets, strict=True)
        work.sent = Sent(commit, {origin: offset for origin, offset in offsets if offset is not None}, frozenset(save.users_gone))
        self._settle(work, wait=False)

    def _write_letters(self, work: Work) -> None:
        if work.letters:
            self.letters.write(work.letters)
            self.vitals.dead_letters += len(work.letters)
            work.letters.clear()

    def _settle(self, work: Work, wait: bool) -> None:
        """Take the answer to the commit on its way, or wait for it; a commit that failed is sent again: the store knows it by its
        seq and token."""
        if work.sent is None:
            return
        if work.sent.answer is None:
            work.sent = work.sent._replace(answer=self._commits.submit(self._commit, work.sent.commit))
        sent = work.sent
        assert sent.answer is not None
        if not (wait or sent.answer.done()):
            return
        try:
            outcome, seconds = sent.answer.result()
        except StoreError:
            self.vitals.commits["failed"] += 1
            work.sent = sent._replace(answer=None)
            raise
        self.vitals.commits[outcome.value] += 1
        work.sent = None
        if outcome in (Outcome.FENCED, Outcome.CONFLICT):
            self._give_up(work, outcome)
            return
        assert work.state is not None
        work.committed_seconds = self.clock.monotonic()
        self.vitals.commit_times.observe(seconds)
        work.seq = sent.commit.seq
        self.engine.forget(work.state, self.rules.cached_users_max // max(1, len(self.works)))
        self.source.acknowledge(sent.offsets)

    def _commit(self, commit: Commit) -> Answer:
        """Runs where commits are sent: no state of this worker may be touched."""
        began = self.clock.monotonic()
        outcome = self.store.commit(commit)
        return Answer(outcome, self.clock.monotonic() - began)

    def _give_up(self, work: Work, outcome: Outcome) -> None:
        """Throw uncommitted state away: it is read again by whoever claims the task next."""
        log.warning("commit refused", task=work.task, outcome=outcome.value, seq=work.seq, epoch=work.epoch)
        work.state = None
        work.backlog.clear()
        work.letters.clear()
        if outcome is Outcome.FENCED:
            work.claim_after = self.clock.monotonic() + self.rules.fenced_wait_seconds

    def _pace(self) -> None:
        """Pause the inputs whose records could not be used now, and those too far ahead of a slower one in event time."""
        paused: set[Input] = set()
        for work in self.works.values():
            if self._failing or work.state is None:
                paused.update(work.inputs)
            else:
                paused.update(self._ahead(work, work.state))
        changed = frozenset(paused)
        self.source.pause(changed - self._paused)
        self.source.resume(self._paused - changed)
        self._paused = changed
        self.vitals.paused_inputs = len(changed)

    def _ahead(self, work: Work, state: TaskState) -> list[Input]:
        ends = self.source.ends()
        lagging = [
            watermark
            for index, (origin, watermark) in enumerate(zip(work.inputs, state.watermarks, strict=True))
            if ends.get(origin, 0) > (state.offsets[index] or 0)
        ]
        slowest = min(lagging, default=NEVER)
        if slowest == NEVER:
            return []
        return [
            origin for origin, watermark in zip(work.inputs, state.watermarks, strict=True) if watermark - slowest > self.rules.skew_ms_max
        ]

    def _trouble(self, where: str, error: Exception) -> None:
        """Note that the work cannot go on, and wait before the next try."""
        now = self.clock.monotonic()
        trouble = self._failing[where] = one_more(where, self._failing.get(where), error, now, self.rules)
        self._retry_at = now + self._backoff.delay(trouble.failures)

    def _well(self) -> None:
        for where, trouble in self._failing.items():
            log.info(f"{where} available again", failures=trouble.failures)
        self._failing.clear()

    def _note_vitals(self) -> None:
        vitals, states = self.vitals, [(work, work.state) for work in self.works.values()]
        health = self.source.health
        vitals.store_trouble, vitals.source_trouble = self._failing.get("store"), self._failing.get("source") or self._polling
        if not health.reachable and vitals.source_trouble is None:
            vitals.source_trouble = Trouble(health.since, 1, health.last_error)
            limit = self.rules.retry_seconds_max
            if limit and self.clock.monotonic() - health.since > limit:
                raise GaveUp(f"the source has been away for more than worker.retry_seconds_max = {limit} s: {health.last_error}")
        vitals.client_rebuilds = health.rebuilds
        stands_by = not states and vitals.beat_seconds - vitals.started_seconds > self.rules.fenced_wait_seconds
        claimed = bool(states) and all(state is not None for _, state in states)
        vitals.ready = not vitals.store_trouble and not vitals.source_trouble and (claimed or stands_by)
        vitals.cached_users = sum(len(state.users) for _, state in states if state is not None)
        ends = self.source.ends()
        for work, state in states:
            for index, origin in enumerate(work.inputs):
                if state is not None and origin in ends:
                    lag = vitals.lag_records[origin] = max(0, ends[origin] - (state.offsets[index] or 0))
                    if not lag:
                        vitals.lag_seconds[origin] = 0.0
        for origin in [origin for origin in vitals.lag_records if origin.partition not in self.works]:
            del vitals.lag_records[origin]
            vitals.lag_seconds.pop(origin, None)
