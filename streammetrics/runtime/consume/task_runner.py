"""Runs one task at a time: claim it, process its backlog, commit, and handle the store's reply.

It calls the store and the dead letter sink, and of the source what starts a task and what follows a commit. If a call
fails, the exception passes through and the task stays as it was, so that it can be tried again. A task has one commit in
flight at most; later events are processed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor
from types import MappingProxyType

import structlog

from streammetrics.connectors.clock import Clock
from streammetrics.connectors.dead_letters import DeadLetterSink
from streammetrics.connectors.source import InputRecord, LogIds, Source, UnreadBatch
from streammetrics.connectors.store import Commit, CommitOutcome, Store
from streammetrics.engine.batch import DecodedRecord
from streammetrics.engine.engine import Engine
from streammetrics.errors import StoreError
from streammetrics.events.batches import RecordDecoder
from streammetrics.events.record import Later
from streammetrics.runtime.consume.backlog import Chunk
from streammetrics.runtime.consume.claims import Claims, RivalGroups
from streammetrics.runtime.consume.event_log import TimeLog
from streammetrics.runtime.consume.idle_inputs import IdleInputs
from streammetrics.runtime.consume.lag import EarlierEnds
from streammetrics.runtime.consume.limits import CommitSchedule, WorkerRules
from streammetrics.runtime.consume.owned_task import CommitReply, InFlightCommit, InlineExecutor, OwnedTask
from streammetrics.runtime.consume.prefetch import Prefetch
from streammetrics.runtime.status import ProcessStatus
from streammetrics.sessions.user_sessions import MisplacedUsers
from streammetrics.windows.pane_tallies import FinalPane

PREFETCH_CHUNKS_MAX = 8
"""Chunks after the current one whose users are requested: a commit may keep Redis busy for as long as several chunks take."""
PREFETCH_BYTES_MAX = 4 << 20
"""Bytes of those chunks that are decoded early; one larger chunk is still decoded."""
WHY_REFUSED = {
    CommitOutcome.FENCED: "another worker has claimed the task and reads it now; nothing is lost",
    CommitOutcome.CONFLICT: "the store has lost commits of the task; its records are read again from the last commit that is left",
}

log = structlog.get_logger("streammetrics.runtime.consume.task_runner")


class TaskRunner:
    """Runs all tasks of a worker, in the worker's thread. Only commits run elsewhere, in the executor `commits`."""

    def __init__(  # noqa: PLR0913  each is one port, one value or one rule, and all are named
        self,
        *,
        engine: Engine,
        decode: RecordDecoder,
        source: Source,
        store: Store,
        letters: DeadLetterSink,
        rules: WorkerRules,
        clock: Clock,
        status: ProcessStatus,
        commits: Executor | None = None,
        misplaced: Callable[[int, Sequence[str]], AbstractSet[str]] | None = None,
        logs: LogIds | None = None,
        group_id: str = "",
        on_final: Callable[[list[FinalPane]], None] | None = None,
        topic_decoders: Mapping[str, RecordDecoder] = MappingProxyType({}),
    ) -> None:
        """Take the parts of a worker. The source reads `logs`. `topic_decoders` decode their topics; `decode` decodes all others."""
        self.engine, self.decode, self.source, self.store, self.letters = engine, decode, source, store, letters
        self.rules, self.clock, self.status = rules, clock, status
        self.tasks: dict[int, OwnedTask] = {}
        """The owned tasks by number. The worker adds and removes them."""
        self.schedule = CommitSchedule(clock.monotonic(), rules.commit_ms / 1_000)
        self.rivals = RivalGroups(group_id)
        self._commits = commits or InlineExecutor()
        self._users = Prefetch(store)
        self._claims = Claims(engine, source, store, clock, rules, logs or LogIds(), group_id)
        self._idle_inputs = IdleInputs(source, store, clock, rules)
        self._ends = EarlierEnds(source)
        self._misplaced = misplaced
        self._time_log = TimeLog()
        self._on_final = on_final
        self._topic_decoders = {index: topic_decoders[name] for index, name in enumerate(engine.rules.topics) if name in topic_decoders}

    def advance(self, task: OwnedTask, commit_now: bool = False) -> bool:
        """Claim the task, or process its backlog and commit if a commit is due. `commit_now` also waits for the reply.

        Returns False if its last commit failed and has no new reply yet.
        """
        self._idle_inputs.note_time()
        self._take_reply(task, wait=commit_now)
        if task.retry.is_failing and task.commits.in_flight is not None:
            return False
        if task.state is None:
            self._claim(task)
            return True
        task.backlog.try_again()
        while task.backlog:
            chunk = self._next_chunk(task)
            while chunk is not None:
                chunk = self._process(task, chunk)
                if chunk is not None:
                    self._commit(task)
                if task.state is None:
                    return True
        self._tick(task)
        if self.has_due_users(task) and (commit_now or not self.rules.due_with_commits):
            self.step(task, None)
        if task.has_changes and (commit_now or (task.commits.in_flight is None and self._is_commit_due(task))):
            self._commit(task)
        if commit_now:
            self._take_reply(task, wait=True)
        return True

    def enrol(self, task: OwnedTask) -> None:
        """Close the sessions and enrol the lists that are due, and write the result for readers, without users' sessions.

        The store must be in this process: no task can be restored from it until the next commit. It is for results at an exact time.
        """
        self._commit(task, with_sessions=False)
        while self.has_due_users(task):
            self._commit(task, with_sessions=False)

    def has_due_users(self, task: OwnedTask) -> bool:
        """Return whether due users must be read. False while a commit is in flight, because it changes which users are due."""
        return task.state is not None and task.commits.in_flight is None and self.engine.needs(task.state, None).due_before_ms is not None

    def step(self, task: OwnedTask, chunk: Chunk | None, tick_ms: int | None = None, ended_until: int | None = None) -> Chunk | None:
        """Process a chunk, or as much of it as the next commit has room for; returns the rest."""
        engine, state = self.engine, task.state
        assert state is not None
        batch = None if chunk is None else chunk.batch
        needs = engine.needs(state, batch)
        if task.commits.in_flight is not None:  # until it is written, the store returns old totals and misses due users
            needs = needs._replace(due_before_ms=None, totals=frozenset())
        elif batch is not None and (self.rules.due_with_commits or self._users.request_due(task, needs)):
            needs = needs._replace(due_before_ms=None)  # the next step gets them
        loaded = self._users.read(task, chunk, needs)
        if chunk is not None and loaded.unread:
            return self._step_half(task, chunk)
        engine.load(state, needs, loaded, self._placement(task.number))
        task.room.read(loaded.users)
        rest = None
        if chunk is not None:
            self._prefetch(task)
            chunk, rest = task.room.split(chunk, state.sessions.dirty.keys())
            batch = None if chunk is None else chunk.batch
        idle = task.activity.idle
        result = engine.step(state, batch, loaded.due, idle - {batch.topic} if batch else idle, tick_ms, ended_until)
        if chunk is not None:
            topic = chunk.batch.topic
            last_refusal = result.refused[-1].detail if result.refused else ""
            task.activity.batch_processed(topic, result.timed, self.clock.monotonic(), last_refusal)
            task.letters.add(chunk, task.inputs[topic], result.refused)
            self._time_log.note(task.inputs[topic], result)
        return rest

    def _claim(self, task: OwnedTask) -> None:
        new_inputs = self._claims.claim(task) if self._claims.is_allowed(task) else None
        if new_inputs is None:
            return
        state, assignment = task.state, task.assignment
        assert state is not None
        epoch, seq = assignment.epoch, assignment.seq
        if new_inputs:  # the offsets at which they begin must survive a crash before the first commit
            self._commit(task)
        log.info("task claimed", task=task.number, epoch=epoch, seq=seq, offsets=state.progress.offsets)

    def _next_chunk(self, task: OwnedTask) -> Chunk | None:
        """Return the first chunk of the backlog, which may have been decoded early. None if its input must wait for its reader."""
        topic, records = task.backlog.records[0]
        early = task.backlog.decoded_head()
        if early is not None:
            task.backlog.read(topic)
            return early
        decoded, later = self._decode(topic, records)
        if later is None:
            task.backlog.read(topic)
        else:
            task.backlog.wait(len(decoded), str(later), self.clock.monotonic())
        return Chunk.of(topic, records[: len(decoded)], decoded) if decoded else None

    def _decode(self, topic: int, records: Sequence[InputRecord]) -> tuple[list[DecodedRecord], Later | None]:
        """Decode records just before they are needed: raw bytes take less memory than events, and events stay in the CPU cache.

        If a record cannot be read yet, the records before it are returned, and why.
        """
        decode = self._topic_decoders.get(topic, self.decode)
        decoded: list[DecodedRecord] = []
        try:
            for offset, ms, value in records:
                decoded.append((offset, ms, value.refusals if type(value) is UnreadBatch else decode(value)))
        except Later as later:
            return decoded, later
        return decoded, None

    def _prefetch(self, task: OwnedTask) -> None:
        """Request the users of later chunks, before the current one is processed."""
        assert task.state is not None
        decoded_bytes = task.backlog.prefetched_bytes
        for topic, records in task.backlog.to_prefetch(PREFETCH_CHUNKS_MAX):
            if decoded_bytes > PREFETCH_BYTES_MAX:
                return
            decoded, later = self._decode(topic, records)
            if later is not None:
                return
            chunk = Chunk.of(topic, records, decoded)
            decoded_bytes += chunk.total_bytes
            self._users.prefetch(task, chunk, self.engine.needs(task.state, chunk.batch))

    def _process(self, task: OwnedTask, chunk: Chunk) -> Chunk | None:
        """Process the first chunk of the backlog, as far as the next commit has room; returns the rest."""
        rest = self.step(task, chunk)
        task.backlog.replace_head(rest)
        if task.letters.is_full:
            self._write_letters(task)
        return rest

    def _step_half(self, task: OwnedTask, chunk: Chunk) -> Chunk:
        """Process half of a chunk whose users are too large to read together; returns the rest. A single record is always processed."""
        half, second = chunk.cut(len(chunk.records) // 2)
        rest = self.step(task, half)
        return second if rest is None else rest.joined(second)

    def _placement(self, task: int) -> MisplacedUsers | None:
        misplaced = self._misplaced
        return None if misplaced is None else lambda user_ids: misplaced(task, user_ids)

    def _tick(self, task: OwnedTask) -> None:
        """Let the engine know which inputs are idle, and how far time has passed on them."""
        tick_ms = self._idle_inputs.check(task, self.tasks)
        if tick_ms is not None:
            self.step(task, None, tick_ms=tick_ms)

    def is_behind(self, task: OwnedTask) -> bool:
        """Return whether records wait to be read that were already there at the check of the ends before the last."""
        return task.is_behind(self._ends.before())

    def _is_commit_due(self, task: OwnedTask) -> bool:
        return task.commits.is_due(self.rules, self.schedule, self.clock.monotonic(), self.is_behind(task))

    def _commit(self, task: OwnedTask, *, with_sessions: bool = True) -> None:
        """Commit what the task has processed.

        1. Wait for the commit in flight.
        2. Process users that are due, and read totals, while nothing is in flight.
        3. Write the dead letters: after a crash they may be written twice, but none is lost.
        4. Let the engine encode what has changed.
        5. Send the commit.
        """
        self._take_reply(task, wait=True)
        if task.state is None:
            return
        if self.has_due_users(task) or self.engine.needs(task.state, None).totals:
            self.step(task, None)
        self._write_letters(task)
        assert task.backlog.due is None, "due users were requested and not processed"
        changes, final_panes = self.engine.save(task.state, with_sessions=with_sessions)
        if with_sessions:
            task.room.committed(changes)
        else:
            task.room.forget(changes.users_gone)
        if final_panes and self._on_final is not None:
            self._on_final(final_panes)
        self._users.forget_written(task, {*changes.users, *changes.pieces, *changes.users_gone})
        assignment = task.assignment
        commit = Commit(task.number, assignment.epoch, assignment.token, assignment.seq + 1, changes)
        task.commits.was_behind = self.is_behind(task)
        task.commits.in_flight = InFlightCommit(commit, task.next_offsets(task.state), frozenset(changes.users_gone))
        self._take_reply(task, wait=False)

    def _write_letters(self, task: OwnedTask) -> None:
        self.status.dead_letters += task.letters.write(self.letters)

    def _take_reply(self, task: OwnedTask, wait: bool) -> None:
        """Handle the reply to the commit in flight, if it is there or if `wait`.

        A commit that failed is sent again. The store recognizes it by its sequence number and token.
        """
        sent = task.commits.in_flight
        if sent is None:
            return
        if sent.reply is None:
            sent = task.commits.in_flight = sent._replace(reply=self._commits.submit(self._send, sent.commit))
        assert sent.reply is not None
        if not (wait or sent.reply.done()):
            return
        try:
            outcome, seconds = sent.reply.result()
        except StoreError:
            self.status.commits["failed"] += 1
            task.commits.in_flight = sent._replace(reply=None)
            raise
        self.status.commits[outcome.value] += 1
        task.commits.in_flight = None
        if outcome in (CommitOutcome.FENCED, CommitOutcome.CONFLICT):
            self._give_up(task, outcome)
        else:
            self.status.commit_times.observe(seconds)
            self.status.state_bytes += sent.commit.changes.value_bytes
            self._committed(task, sent)

    def _send(self, commit: Commit) -> CommitReply:
        """Send a commit. Runs in the executor's thread, so it must not touch the state of a task."""
        began = self.clock.monotonic()
        outcome = self.store.commit(commit)
        return CommitReply(outcome, self.clock.monotonic() - began)

    def _committed(self, task: OwnedTask, sent: InFlightCommit) -> None:
        """Note a written commit, evict users beyond the cache limits, and acknowledge the offsets."""
        assert task.state is not None
        task.commits.written(self.clock.monotonic(), sent.offsets)
        task.assignment.seq = sent.commit.seq
        tasks = max(1, len(self.tasks))
        self.engine.forget(task.state, self.rules.cached_users_max // tasks)
        self.engine.drop(task.state, task.room.beyond(task.state.sessions.users, self.rules.cached_bytes_max // tasks))
        self.source.acknowledge(sent.offsets)

    def _give_up(self, task: OwnedTask, outcome: CommitOutcome) -> None:
        """Drop the task's uncommitted state after a refused commit."""
        assignment = task.assignment
        other = self._note_rival(task) if outcome is CommitOutcome.FENCED else None
        log.warning(
            f"commit refused: {WHY_REFUSED[outcome]}",
            task=task.number,
            **({"group_of_owner": other} if other else {}),
            outcome=outcome.value,
            seq=assignment.seq,
            epoch=assignment.epoch,
        )
        task.drop_uncommitted()
        if outcome is CommitOutcome.FENCED:
            assignment.claim_after_seconds = self.clock.monotonic() + self.rules.fenced_wait_seconds

    def _note_rival(self, task: OwnedTask) -> str | None:
        """Return the consumer group that has taken the task, if it is another one. An error is ignored: the next fencing shows it too."""
        try:
            owner_token = self.store.owner(task.number)
        except StoreError:
            return None
        now = self.clock.monotonic()
        had_conflict = bool(self.rivals.conflict(now))
        group = self.rivals.task_taken(owner_token, now)
        if not had_conflict and (conflict := self.rivals.conflict(now)):
            log.error(conflict)
        return group
