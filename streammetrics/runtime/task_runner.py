"""One task on its way from its claim to its commits: claim, step, tick, save, and the store's answer.

Touches the store and the dead letters, and of the source only what starts a task and what follows a commit. What fails raises, and
the task stands as it stood, to be carried on later. While a commit is on its way the next events are taken; a task has one commit on
its way at a time. Nothing is decided here that changes a number, save when an input counts as idle.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from itertools import islice

import structlog

from streammetrics.connectors.base import Clock, Commit, CommitOutcome, DeadLetter, DeadLetters, Record, Source, Store
from streammetrics.engine.engine import Engine, FinalPane
from streammetrics.engine.ingest import Rejected
from streammetrics.engine.task_state import TaskState
from streammetrics.errors import StateError, StoreError
from streammetrics.events import Decoder
from streammetrics.events.event_time import NEVER, seems_seconds
from streammetrics.runtime.owned_task import Chunk, CommitReply, InFlightCommit, InlineExecutor, OwnedTask, WorkerRules, fitting
from streammetrics.runtime.prefetch import Prefetch
from streammetrics.runtime.status import ProcessStatus
from streammetrics.runtime.store_clock import StoreClock
from streammetrics.runtime.user_sizes import UserSizes

LETTERS_MAX = 1_000
"""How many dead letters wait for the next commit; more are written at once."""
LETTERS_BYTES_MAX = 16 << 20
"""How many bytes of them wait: who sends nothing but what is refused, as large as the topics take it, fills no memory."""
AHEAD_CHUNKS_MAX = 8
"""For how many chunks after the one at hand users are asked for: Redis may be busy with a commit for as long as some of them take."""
AHEAD_BYTES_MAX = 4 << 20
"""How many bytes of them are decoded meanwhile; a chunk that is more is decoded all the same."""
WHY_REFUSED = {
    CommitOutcome.FENCED: "another worker has claimed the task since: it is read there, and nothing is lost",
    CommitOutcome.CONFLICT: "the store has lost commits of the task: they are made again from where it stands",
}

log = structlog.get_logger("streammetrics.runtime.task_runner")


class TaskRunner:
    """Carries tasks on, one at a time; for all tasks of a worker, and in its thread. Only commits are sent by another, `commits`."""

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
        status: ProcessStatus,
        commits: Executor | None = None,
        wrong_partition: Callable[[int, str], bool] | None = None,
        topic_ids: Sequence[str] = (),
        on_final: Callable[[list[FinalPane]], None] | None = None,
    ) -> None:
        self.engine, self.decode, self.source, self.store, self.letters = engine, decode, source, store, letters
        self.rules, self.clock, self.status = rules, clock, status
        self.works: dict[int, OwnedTask] = {}
        """The tasks at hand, by number; who owns them is the worker's business."""
        self._commits = commits or InlineExecutor()
        self._users = Prefetch(store, rules)
        self._wrong_partition = wrong_partition
        self._topic_ids = list(topic_ids)
        self._on_final = on_final
        self._look: tuple[float, int] | None = None
        """When the source last asked for ends: monotonic seconds, and the wall clock of that time (ms)."""
        self._second_clock = StoreClock(store, clock)
        self._warned_untimed: set[str] = set()
        self._warned_seconds: set[str] = set()

    def advance(self, work: OwnedTask, commit_now: bool = False) -> bool:
        """Take a task as far as the world allows; False when its commit failed before, and has no answer yet either."""
        self._note_look()
        self._take_answer(work, wait=commit_now)
        if work.failing and work.sent is not None:
            return False
        if work.state is None:
            self._claim(work)
            return True
        while work.backlog:
            chunk: Chunk | None = self._next(work)
            while chunk is not None:
                chunk = self._take(work, chunk)
                if chunk is not None:
                    self._save(work)
                if work.state is None:
                    return True
        self._tick(work)
        if self.due_left(work):
            self.step(work, None)
        if self._changed(work) and (commit_now or (work.sent is None and self._is_spaced(work))):
            self._save(work)
        if commit_now:
            self._take_answer(work, wait=True)
        return True

    def _next(self, work: OwnedTask) -> Chunk:
        """What a step takes next: it may have been decoded while the one before was taken."""
        topic, records = work.backlog[0]
        if work.ahead and work.ahead[0].chunk.records is records:
            return work.ahead[0].chunk
        return self._decoded(topic, records)

    def _look_ahead(self, work: OwnedTask) -> None:
        """Ask for the users of chunks after this one, before this one is taken."""
        assert work.state is not None
        decoded_bytes = sum(ahead.chunk.total_bytes for ahead in work.ahead)
        for topic, records in islice(work.backlog, 1 + len(work.ahead), 1 + AHEAD_CHUNKS_MAX):
            if decoded_bytes > AHEAD_BYTES_MAX:
                return
            chunk = self._decoded(topic, records)
            decoded_bytes += chunk.total_bytes
            self._users.prefetch(work, chunk, self.engine.needs(work.state, chunk.arrived))

    def _decoded(self, topic: int, records: Sequence[Record]) -> Chunk:
        """Decode what a step takes next: just before it, while bytes take less room than events, and it finds them in the cache."""
        decode = self.decode
        return Chunk.of(topic, records, [(offset, stamp, decode(value)) for offset, stamp, value in records])

    def _take(self, work: OwnedTask, chunk: Chunk) -> Chunk | None:
        """Take what is decoded of the records that are next, as far as the next commit has room; answers the rest of it."""
        rest = self.step(work, chunk)
        work.backlog.popleft()
        if rest is not None:
            work.backlog.appendleft((rest.arrived.topic, rest.records))
        if len(work.letters) > LETTERS_MAX or sum(len(letter.value or b"") for letter in work.letters) > LETTERS_BYTES_MAX:
            self._write_letters(work)
        return rest

    def _is_spaced(self, work: OwnedTask) -> bool:
        """Whether the last commit was long enough ago. The first one since the claim is not put off: others wait for the task. Nor is
        the first one of a task that has caught up: while it was behind, its numbers stood still."""
        is_behind = work.is_behind(self.source.ends())
        if work.was_behind and not is_behind:
            return True
        passed_ms = (self.clock.monotonic() - work.committed_seconds) * 1_000
        if passed_ms < self.rules.commit_ms:
            return False
        return passed_ms >= self.rules.commit_behind_ms or not work.has_committed or not is_behind

    def _changed(self, work: OwnedTask) -> bool:
        return work.state is not None and (work.state.changed or bool(work.letters))

    def unsaved(self, work: OwnedTask) -> bool:
        return work.sent is not None or self._changed(work)

    def due_left(self, work: OwnedTask) -> bool:
        """Whether the store should be asked who is due; not while a commit is on its way that changes the answer."""
        return work.state is not None and work.sent is None and self.engine.needs(work.state, None).due_before_ms is not None

    def _totals_left(self, work: OwnedTask) -> bool:
        """Whether totals must be read before the next commit."""
        return work.state is not None and bool(self.engine.needs(work.state, None).totals)

    def _claim(self, work: OwnedTask) -> None:
        if not self._may_claim(work):
            return
        work.token = secrets.token_hex(8)
        claim = self.store.claim(work.task, work.token)
        if claim.control is None and work.seq:
            raise StateError(
                f"the store has lost all state of task {work.task}, of which {work.seq} commits were written",
                "restore it and start again, or start again without it to count anew from where kafka.start says",
            )
        state = self.engine.open(claim.control, claim.panes, claim.pane_starts, claim.experiments, claim.reaches)
        if state.changed:
            log.warning("experiments were switched on or off: what was known of their users is dropped", task=work.task)
        self._check_topics(work, state)
        known = {origin: offset for origin, offset in zip(work.inputs, state.offsets, strict=True) if offset is not None}
        starts = self.source.start(work.task, known)
        if not starts:
            return
        state.offsets = [starts[origin] for origin in work.inputs]
        work.epoch, work.seq, work.state = claim.epoch, claim.seq, state
        work.forget()
        work.weights, work.users_max = UserSizes(), self.rules.commit_users_max
        work.paused = frozenset()  # the source has just let them flow
        work.untimed.clear()
        work.idle = frozenset()  # what they hold may be read again, so they are not silent before they are found to be
        work.committed_seconds, work.has_committed, work.was_behind = self.clock.monotonic(), False, False
        work.last_event_seconds = dict.fromkeys(work.inputs, work.committed_seconds)
        if len(known) < len(work.inputs):  # where an input begins must hold even if this process dies before its first commit
            self._save(work)
        log.info("task claimed", task=work.task, epoch=claim.epoch, seq=claim.seq, offsets=state.offsets)

    def _may_claim(self, work: OwnedTask) -> bool:
        """Who hears no broker cannot be told that a task is no longer his, and each claim of his would fence its owner.

        Who was fenced waits until the group must have told him, from when he hears it again.
        """
        health, was_fenced = self.source.health, work.claim_after > 0
        if not was_fenced:
            return health.reachable
        told_by = max(work.claim_after, health.since + self.rules.fenced_wait_seconds)
        return health.reachable and self.clock.monotonic() >= told_by

    def _check_topics(self, work: OwnedTask, state: TaskState) -> None:
        """A topic that was created anew has other records at the stored offsets: never read on as if nothing had happened.

        A broker that tells no ids leaves what is known.
        """
        for index, current in enumerate(self._topic_ids):
            stored = state.topic_ids[index]
            if stored and current and stored != current:
                raise StateError(
                    f"topic {work.inputs[index].topic!r} was deleted and created again (its id was {stored}, now {current}): "
                    "the stored offsets belong to the old one",
                    "use a new redis.namespace",
                )
            state.topic_ids[index] = current or stored

    def step(self, work: OwnedTask, chunk: Chunk | None, tick_ms: int | None = None, flush: bool = False) -> Chunk | None:
        """Take a chunk, or as much of it as the next commit has room for: what is left over is answered."""
        engine, state = self.engine, work.state
        assert state is not None
        batch = None if chunk is None else chunk.arrived
        needs = engine.needs(state, batch)
        if work.sent is not None:  # until it is written, the store does not tell of all that are due, and tells of former totals
            needs = needs._replace(due_before_ms=None, totals=frozenset())
        elif batch is not None and self._users.request_due(work, needs):
            needs = needs._replace(due_before_ms=None)  # the next step is told
        loaded = self._users.read(work, chunk, needs)
        if chunk is not None and loaded.unread:
            return self._step_half(work, chunk)
        due = engine.take(state, needs, loaded.users, loaded.due, loaded.next_due_ms, self._placement(work.task), loaded.totals)
        work.weights.note(loaded.users)
        rest = None
        if chunk is not None:
            self._look_ahead(work)
            chunk, rest = fitting(chunk, work.weights, state.dirty.keys(), work.users_max, self.rules.commit_bytes_max)
            batch = None if chunk is None else chunk.arrived
        refused, timed = engine.step(state, batch, due, work.idle - {batch.topic} if batch else work.idle, tick_ms, flush)
        if chunk is not None:
            self._note_heard(work, chunk.arrived.topic, timed)
            self._keep_letters(work, chunk, refused)
        return rest

    def _step_half(self, work: OwnedTask, chunk: Chunk) -> Chunk:
        """Take half of a chunk that concerns too many large users; answers the rest. A single record is taken whoever it concerns."""
        half, rest = chunk.cut(len(chunk.records) // 2)
        left = self.step(work, half)
        return rest if left is None else left.joined(rest)

    def _keep_letters(self, work: OwnedTask, chunk: Chunk, refused: Sequence[Rejected]) -> None:
        if refused:
            values = {record.offset: record.value for record in chunk.records}
            origin = work.inputs[chunk.arrived.topic]
            # A record that holds many events is kept once for each reason, or its sender would decide how often it is written.
            letters = {(event.offset, event.reason): event for event in reversed(refused)}
            work.letters.extend(
                DeadLetter(event.reason, event.detail, origin, event.offset, values[event.offset]) for event in reversed(letters.values())
            )

    def _note_heard(self, work: OwnedTask, topic: int, timed: int) -> None:
        """An input that brings nothing but records in which no event counts for its time is as silent as one that brings nothing."""
        if timed:
            work.last_event_seconds[work.inputs[topic]] = self.clock.monotonic()
            work.untimed.discard(topic)
        else:
            work.untimed.add(topic)

    def _placement(self, task: int) -> Callable[[str], bool] | None:
        wrong_partition = self._wrong_partition
        return None if wrong_partition is None else lambda user_id: wrong_partition(task, user_id)

    def _note_look(self) -> None:
        """Read the wall clock for each look at the ends: in a machine that sleeps it goes on, while nobody asks for them."""
        looked = self.source.health.looked
        if looked is not None and self.rules.idle_ms is not None and (self._look is None or looked != self._look[0]):
            self._look = looked, self.clock.wall_ms() - int((self.clock.monotonic() - looked) * 1_000)

    def _tick(self, work: OwnedTask) -> None:
        """Tell the engine which inputs are caught up and silent; paused or unreachable inputs are neither.

        Silence is counted from when the source answers again: those who send were without it as well.
        """
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
            if origin in ends
            and ends[origin] <= (state.offsets[index] or 0)  # there may be more by now, and some of it read
            and (looked - max(work.last_event_seconds[origin], health.since)) * 1_000 >= idle_ms
        )
        self._warn_untimed(work, state)
        self._tell_of_seconds(work, state)
        if work.idle:
            seen_until_ms = self.clock.wall_ms() if self._look is None else self._look[1]
            if len(work.idle) == len(work.inputs):  # then nothing but time moves the watermark
                seen_until_ms = min(seen_until_ms, self._second_clock.wall_ms(work.task, looked, self.works))
            self.step(work, None, tick_ms=seen_until_ms - idle_ms - self.rules.out_of_orderness_ms)

    def _warn_untimed(self, work: OwnedTask, state: TaskState) -> None:
        untimed = {work.inputs[index].topic for index in work.idle & work.untimed if state.watermarks[index] == NEVER}
        for topic in sorted(untimed - self._warned_untimed):
            self._warned_untimed.add(topic)
            log.warning(
                "no event has come of all records of an input, so it counts as silent: "
                "is it a topic of events, and events.format the right one?",
                topic=topic,
                task=work.task,
            )

    def _tell_of_seconds(self, work: OwnedTask, state: TaskState) -> None:
        seconds = {origin.topic for origin, watermark in zip(work.inputs, state.watermarks, strict=True) if seems_seconds(watermark)}
        for topic in sorted(seconds - self._warned_seconds):
            self._warned_seconds.add(topic)
            log.warning("the events of an input are of 1970, and hold back all others: ts is milliseconds, not seconds", topic=topic)

    def _save(self, work: OwnedTask) -> None:
        """Write the dead letters, then send a commit: letters may be repeated after a crash, but never lost."""
        self._take_answer(work, wait=True)
        if work.state is None:
            return
        if self.due_left(work) or self._totals_left(work):  # before the next commit is on its way, too
            self.step(work, None)
        self._write_letters(work)
        assert work.due_prefetched is None, "who is due was asked for, and has not been looked at"
        changes, finals = self.engine.save(work.state)
        work.weights.saved(changes.users, changes.users_gone)
        if changes.totals:  # they are not weighed one by one: those of the next commit will be about as large
            work.users_max = self.rules.users_max(sum(map(len, changes.totals.values())) // len(changes.totals))
        if finals and self._on_final is not None:
            self._on_final(finals)
        self._users.written(work, {*changes.users, *changes.users_gone})
        commit = Commit(work.task, work.epoch, work.token, work.seq + 1, changes)
        offsets = zip(work.inputs, work.state.offsets, strict=True)
        work.was_behind = work.is_behind(self.source.ends())
        work.sent = InFlightCommit(
            commit, {origin: offset for origin, offset in offsets if offset is not None}, frozenset(changes.users_gone)
        )
        self._take_answer(work, wait=False)

    def _write_letters(self, work: OwnedTask) -> None:
        if work.letters:
            self.letters.write(work.letters)
            self.status.dead_letters += len(work.letters)
            work.letters.clear()

    def _take_answer(self, work: OwnedTask, wait: bool) -> None:
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
            self.status.commits["failed"] += 1
            work.sent = sent._replace(answer=None)
            raise
        self.status.commits[outcome.value] += 1
        work.sent = None
        if outcome in (CommitOutcome.FENCED, CommitOutcome.CONFLICT):
            self._give_up(work, outcome)
            return
        assert work.state is not None
        work.committed_seconds, work.has_committed = self.clock.monotonic(), True
        self.status.commit_times.observe(seconds)
        work.seq = sent.commit.seq
        tasks = max(1, len(self.works))
        self.engine.forget(work.state, self.rules.cached_users_max // tasks)
        self.engine.drop(work.state, work.weights.beyond(work.state.users, self.rules.cached_bytes_max // tasks))
        self.source.acknowledge(sent.offsets)

    def _commit(self, commit: Commit) -> CommitReply:
        """Runs where commits are sent: no state of this worker may be touched."""
        began = self.clock.monotonic()
        outcome = self.store.commit(commit)
        return CommitReply(outcome, self.clock.monotonic() - began)

    def _give_up(self, work: OwnedTask, outcome: CommitOutcome) -> None:
        """Throw uncommitted state away: it is read again by whoever claims the task next."""
        log.warning(f"commit refused, for {WHY_REFUSED[outcome]}", task=work.task, outcome=outcome.value, seq=work.seq, epoch=work.epoch)
        work.state = None
        work.forget()
        if outcome is CommitOutcome.FENCED:
            work.claim_after = self.clock.monotonic() + self.rules.fenced_wait_seconds
