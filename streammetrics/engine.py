"""The whole machine without the world: `needs` says which users it lacks, `step` takes events, `save` says what to keep.

Pure: no clock, no I/O, no logging. A task's state belongs to whoever steps it; a step changes it in place, and a caller
whose commit was refused throws it away and opens it again from the store. Results are a function of each input's log
alone: not of how inputs interleave, how batches are cut, or when sessions are looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, TypeAlias

from streammetrics.errors import MalformedEvent, StateError
from streammetrics.events.model import Event, Feedback, Impression
from streammetrics.grades import GradeRules
from streammetrics.metrics import Scorer
from streammetrics.scoring import Layout, add, changes
from streammetrics.sessions import Duplicates, JoinRules, Labels, Session, StoredFeedback, Touched, User
from streammetrics.state import Control, decode_control, decode_pane, decode_user, encode_control, encode_pane, encode_user
from streammetrics.windows import FOREVER, NEVER, Group, Pane, Panes, add_to, final_bound, groups_of, pane_start

LABEL_SETS_MAX = 10_000
"""How many label sets a task remembers the groups of; a speed-up only, so it may forget them all."""

Decoded: TypeAlias = tuple[int, int, Sequence[Event | MalformedEvent]]
"""One record, decoded: its offset, its log's own time (epoch ms, -1 where unknown), and what it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRules:
    """Everything that changes numbers. Times in milliseconds; `future_ms` None switches that check off."""

    topics: tuple[str, ...]
    grades: GradeRules
    join: JoinRules = field(default_factory=JoinRules)
    out_of_orderness_ms: int = 5_000
    lateness_ms: int = 60_000
    future_ms: int | None = None
    pane_ms: int = 60_000
    retention_ms: int = 90_000_000
    segments: tuple[str, ...] = ()
    groups_max: int = 1_000
    decoding: str = "native"
    """How bytes become events, in words: state of events that were read in another way is state of other rules."""

    def describe(self) -> str:
        """One line that names every rule, to tell whether stored state was made by the same ones."""
        join = self.join
        return (
            f"grades[{self.grades.text}] gap={join.gap_ms} attribution={join.attribution_ms} session_events={join.session_events_max} "
            f"lists_open={join.lists_open_max} items={join.items_max} out_of_orderness={self.out_of_orderness_ms} "
            f"lateness={self.lateness_ms} future={self.future_ms} pane={self.pane_ms} segments[{','.join(self.segments)}] "
            f"events[{self.decoding}]"
        )


class Arrived(NamedTuple):
    """Records of one input, in its order: the index of its topic and the offset that follows them."""

    topic: int
    records: Sequence[Decoded]
    next_offset: int


class Needs(NamedTuple):
    """What a step lacks: users that are not at hand, and whether users due before a time are wanted."""

    users: Collection[str]
    due_before_ms: int | None


class Refused(NamedTuple):
    """One event that was not used and can be read back from the dead letters."""

    topic: int
    offset: int
    reason: str
    detail: str


class FinalPane(NamedTuple):
    start_ms: int
    pane: Pane


class Effects(NamedTuple):
    """What a step asks of the world: letters to write before the next commit, panes that are now final, ascending."""

    refused: list[Refused]
    final_panes: list[FinalPane]


@dataclass(frozen=True, slots=True)
class Save:
    """What the next commit must write: see `streammetrics.ports.Commit`, which this fills."""

    control: bytes
    panes_from_ms: int
    users: dict[str, bytes]
    due: dict[str, int]
    users_gone: list[str]
    panes: dict[int, bytes]
    panes_gone: list[int]


class Labelled:
    """The groups of one label set, and the newest time it was shown."""

    __slots__ = ("groups", "newest")

    def __init__(self, groups: tuple[Group, ...]) -> None:
        self.groups = groups
        self.newest = NEVER


class TaskState:
    """One task between two commits: users at hand, panes that may still change, and where its inputs stand.

    `users` is ordered by last commit, oldest first; users without sessions stay as tombstones until they are saved.
    """

    def __init__(self, topics: int) -> None:
        self.users: dict[str, User] = {}
        self.dirty: set[str] = set()
        self.due_moved: set[str] = set()
        self.next_due = NEVER
        self.due_asked = False
        self.panes: Panes = {}
        self.panes_leaving: Panes = {}
        self.panes_dirty: set[int] = set()
        self.pane_starts: set[int] = set()
        self.offsets: list[int | None] = [None] * topics
        self.topic_ids: list[str] = [""] * topics
        self.watermarks = [NEVER] * topics
        self.watermark = NEVER
        self.newest = NEVER
        self.oldest_kept = NEVER
        self.final_before = NEVER
        self.counts: Counter[tuple[str, int]] = Counter()
        self.totals: dict[tuple[str, str], list[int]] = {}
        self.groups: dict[Group, int] = {}
        """The newest time at which each group was shown."""
        self.since: dict[Group, int] = {}
        """No list of a group that is known since is older: what an earlier life of the group left does not enter its totals."""
        self.labelled: dict[tuple[Labels, Labels], Labelled] = {}
        self.changed = False
        self.sessions_open = 0

    def label(self, experiments: Labels, segments: Labels, ts: int, rules: EngineRules) -> Labelled | None:
        """Admit a label set; None when its groups would be more than a task may hold.

        Groups that were not shown for as long as panes are kept make room, as far as the watermark has come.
        """
        groups = groups_of(experiments, segments, rules.segments)
        new = [group for group in groups if group not in self.groups]
        if len(self.groups) + len(new) > rules.groups_max:
            self.note_newest()
            self._forget_groups(self.watermark - rules.retention_ms)
            new = [group for group in groups if group not in self.groups]
            if len(self.groups) + len(new) > rules.groups_max:
                return None
        for group in new:
            self.groups[group] = ts
            self.since[group] = NEVER if self.watermark == NEVER else self.watermark - rules.lateness_ms
        if len(self.labelled) >= LABEL_SETS_MAX:
            self.note_newest()
            self.labelled.clear()
        labelled = self.labelled[experiments, segments] = Labelled(groups)
        return labelled

    def note_newest(self) -> None:
        """Bring the groups' newest times up to date from the label sets that were shown."""
        for labelled in self.labelled.values():
            for group in labelled.groups:
                if self.groups.get(group, NEVER) < labelled.newest:
                    self.groups[group] = labelled.newest

    def _forget_groups(self, before: int) -> None:
        for group in [group for group, newest in self.groups.items() if newest < before]:
            del self.groups[group], self.since[group]
            if not group.segment:
                self.totals.pop((group.experiment, group.variant), None)
        self.labelled.clear()


class Engine:
    """The rules, compiled. One engine serves any number of tasks."""

    def __init__(self, rules: EngineRules, scorer: Scorer) -> None:
        self.rules = rules
        self.layout = Layout(scorer)
        self.signature = f"{rules.describe()} spec={scorer.spec.digest()} metrics[{','.join(map(str, scorer.metrics))}]"

    def open(self, control: bytes | None, panes: Mapping[int, bytes], pane_starts: Iterable[int]) -> TaskState:
        """A task's state as the store holds it; StateError when other rules made it."""
        state = TaskState(len(self.rules.topics))
        if control is None:
            return state
        stored = decode_control(control)
        if stored.rules != self.signature or stored.topics != list(self.rules.topics):
            raise StateError(
                "the store holds state of other rules, which must not be merged with these: use a new redis.namespace\n"
                f"  stored: topics={stored.topics} {stored.rules}\n  now:    topics={list(self.rules.topics)} {self.signature}"
            )
        state.offsets, state.watermarks, state.topic_ids = stored.offsets, stored.watermarks, stored.topic_ids
        state.watermark, state.newest, state.oldest_kept = stored.watermark, stored.newest, stored.oldest_kept
        state.final_before, state.sessions_open = stored.pane_from, stored.sessions_open
        state.counts.update({(reason, topic): count for reason, topic, count in stored.counts})
        state.totals = {(experiment, variant): total for experiment, variant, total in stored.totals}
        state.groups = {group: newest for group, newest, _ in stored.groups}
        state.since = {group: since for group, _, since in stored.groups}
        state.panes = {start: decode_pane(pane) for start, pane in panes.items() if start >= stored.pane_from}
        state.pane_starts = set(pane_starts)
        return state

    def needs(self, state: TaskState, batch: Arrived | None) -> Needs:
        """Which users to load before a step; asks for users that are due once between two commits."""
        records = () if batch is None else batch.records
        users = {event.user_id for _, _, events in records for event in events if not isinstance(event, MalformedEvent)}
        bound = _close_bound(state, self.rules)
        due = bound if bound > state.next_due and not state.due_asked and bound > NEVER else None
        return Needs(users.difference(state.users), due)

    def take(
        self,
        state: TaskState,
        needs: Needs,
        users: Mapping[str, bytes],
        due: Sequence[str] = (),
        next_due_ms: int | None = None,
        misplaced: Callable[[str], bool] | None = None,
    ) -> list[str]:
        """Take in what was loaded; returns the users that are due. What is at hand already is newer and stays."""
        for user_id in (*needs.users, *due):
            if user_id not in state.users:
                wrong = misplaced is not None and misplaced(user_id)
                stored = users.get(user_id)
                state.users[user_id] = User(wrong) if stored is None else decode_user(stored, self.rules.join, wrong)
        if needs.due_before_ms is not None:
            state.due_asked = True
            state.next_due = FOREVER if next_due_ms is None else next_due_ms
        return list(due)

    def step(
        self,
        state: TaskState,
        batch: Arrived | None,
        due: Sequence[str] = (),
        idle: frozenset[int] = frozenset(),
        tick_ms: int | None = None,
        flush: bool = False,
    ) -> Effects:
        """Take a batch of one input, or none. All users in `needs` must have been taken in before.

        `idle` are the inputs (by topic index) that are caught up and silent, the batch's own never among them; when all are,
        `tick_ms` is the time up to which they are known to be silent. `flush` ends the task's input: everything becomes final.
        """
        step = _Step(self.rules, state, idle)
        if idle:
            step.advance_idle(tick_ms)
        if batch is not None:
            step.input(batch)
        if flush:
            state.watermark = FOREVER
            state.changed = True
        self._close(state, due)
        self._tally(state, step.touched)
        return Effects(step.refused, self._finish_panes(state))

    def save(self, state: TaskState) -> Save:
        """What to commit now. The state counts as saved from here on; if the commit is refused, throw it away."""
        rules = self.rules
        self._expire_panes(state)
        users: dict[str, bytes] = {}
        due: dict[str, int] = {}
        gone: list[str] = []
        for user_id in state.dirty:
            user = state.users.pop(user_id)
            if user.sessions:
                users[user_id] = encode_user(user)
                state.users[user_id] = user
            else:
                gone.append(user_id)
        for user_id in state.due_moved:
            if user_id in users:
                due[user_id] = state.users[user_id].next_due(rules.join.gap_ms)
        if due:
            state.next_due = min(state.next_due, min(due.values()))
        written = {start: state.panes.get(start) or state.panes_leaving.get(start) or {} for start in state.panes_dirty}
        panes = {start: encode_pane(pane) for start, pane in written.items() if pane}
        expired = [start for start in state.pane_starts if start < state.oldest_kept]
        emptied = [start for start, pane in written.items() if not pane and start in state.pane_starts]
        state.pane_starts.update(panes)
        state.pane_starts.difference_update(expired, emptied)
        for start in expired:
            panes.pop(start, None)
        state.dirty, state.due_moved, state.panes_dirty = set(), set(), set()
        state.panes_leaving = {}
        state.due_asked = state.changed = False
        return Save(self._control(state), state.final_before, users, due, gone, panes, [*expired, *emptied])

    def forget(self, state: TaskState, users_max: int) -> None:
        """Let go of the users that were committed longest ago, down to a number; those not yet saved stay."""
        excess = len(state.users) - users_max
        if excess > 0:
            for user_id in [user_id for user_id in islice(state.users, excess) if user_id not in state.dirty]:
                del state.users[user_id]

    def final_bound(self, state: TaskState) -> int:
        return final_bound(state.watermark, self.rules.lateness_ms, self.rules.join.attribution_ms)

    def _control(self, state: TaskState) -> bytes:
        state.note_newest()
        return encode_control(
            Control(
                rules=self.signature,
                topics=list(self.rules.topics),
                topic_ids=state.topic_ids,
                offsets=state.offsets,
                watermarks=state.watermarks,
                watermark=state.watermark,
                newest=state.newest,
                oldest_kept=state.oldest_kept,
                pane_from=state.final_before,
                counts=[(reason, topic, count) for (reason, topic), count in sorted(state.counts.items())],
                totals=[(*key, total) for key, total in sorted(state.totals.items())],
                sessions_open=state.sessions_open,
                groups=[(group, newest, state.since[group]) for group, newest in sorted(state.groups.items())],
            )
        )

    def _close(self, state: TaskState, due: Iterable[str]) -> None:
        """Close what can be touched no more among the users that are due; the others' time has not come."""
        for user_id in due:
            state.due_moved.add(user_id)
            state.dirty.add(user_id)
            state.changed = True
            _close_ended(state.users[user_id], state, self.rules)

    def _tally(self, state: TaskState, touched: Touched) -> None:
        def groups(experiments: Labels, segments: Labels) -> tuple[Group, ...]:
            known = state.labelled.get((experiments, segments))
            return groups_of(experiments, segments, self.rules.segments) if known is None else known.groups

        for (start, group), change in changes(touched, self.layout, self.rules.pane_ms, groups).items():
            assert start >= state.final_before, "a final pane changed"
            add_to(state.panes.setdefault(start, {}), group, change)
            state.panes_dirty.add(start)

    def _finish_panes(self, state: TaskState) -> list[FinalPane]:
        """Take leave of the panes that are now final: their lists enter the cumulative totals."""
        bound = self.final_bound(state)
        if bound == NEVER:
            return []
        if bound != FOREVER:
            state.final_before = max(state.final_before, pane_start(bound, self.rules.pane_ms))
        finals = []
        for start in sorted(state.panes):
            if start + self.rules.pane_ms > bound:
                break
            pane = state.panes.pop(start)
            for group, tally in pane.items():
                if not group.segment and start + self.rules.pane_ms > state.since.get(group, FOREVER):
                    key = (group.experiment, group.variant)
                    known = state.totals.get(key)
                    state.totals[key] = tally if known is None else add(known, tally)
            if start in state.panes_dirty:
                state.panes_leaving[start] = pane
            if pane:
                finals.append(FinalPane(start, pane))
        return finals

    def _expire_panes(self, state: TaskState) -> None:
        if state.watermark not in (NEVER, FOREVER):
            kept = pane_start(state.watermark - self.rules.retention_ms, self.rules.pane_ms)
            state.oldest_kept = max(state.oldest_kept, min(kept, state.final_before))


def _close_bound(state: TaskState, rules: EngineRules) -> int:
    return state.watermark if state.watermark in (NEVER, FOREVER) else state.watermark - rules.lateness_ms


def _close_ended(user: User, state: TaskState, rules: EngineRules) -> None:
    """Close those of a user's sessions that no admitted event can touch any more."""
    for session in user.close_before(_close_bound(state, rules), rules.join.gap_ms):
        state.sessions_open -= 1
        session.count_fates(rules.join.attribution_ms, state.counts)


class _Step:
    """One batch on its way through a task: admission by watermark, then the join."""

    __slots__ = ("counts", "events_max", "gap_ms", "idle", "join", "refused", "rules", "state", "touched")

    def __init__(self, rules: EngineRules, state: TaskState, idle: frozenset[int]) -> None:
        self.rules = rules
        self.join = rules.join
        self.gap_ms, self.events_max = rules.join.gap_ms, rules.join.session_events_max
        self.state = state
        self.idle = idle
        self.counts = state.counts
        self.touched: Touched = []
        self.refused: list[Refused] = []

    def advance_idle(self, tick_ms: int | None) -> None:
        """Move the task's watermark past inputs that are silent; with all of them silent, up to the tick."""
        state = self.state
        live = [watermark for topic, watermark in enumerate(state.watermarks) if topic not in self.idle]
        bound = min(live) if live else tick_ms
        if bound is not None and bound > state.watermark:
            state.watermark = bound
            state.changed = True

    def input(self, batch: Arrived) -> None:
        """Take the records of one input: each event moves the watermark after it was judged by where it stood."""
        state, topic = self.state, batch.topic
        state.offsets[topic] = batch.next_offset
        state.changed = True
        others = [watermark for other, watermark in enumerate(state.watermarks) if other != topic and other not in self.idle]
        others_least = min(others, default=FOREVER)
        disorder_ms, lateness_ms, future_ms = self.rules.out_of_orderness_ms, self.rules.lateness_ms, self.rules.future_ms
        own, task, newest = state.watermarks[topic], state.watermark, state.newest
        oldest_admitted = max(own, task) - lateness_ms
        events_seen = 0
        for offset, record_ts, events in batch.records:
            for event in events:
                events_seen += 1
                if isinstance(event, MalformedEvent):
                    self._refuse(topic, offset, event.reason, event.detail)
                    continue
                ts = event.ts
                if future_ms is not None and 0 <= record_ts < ts - future_ms:
                    self._refuse(topic, offset, "future", f"ts {ts} is {ts - record_ts} ms after its record's own time")
                    continue
                admitted = ts >= oldest_admitted
                if ts - disorder_ms > own:
                    own = ts - disorder_ms
                    least = own if own < others_least else others_least
                    if least > task:
                        task = state.watermark = least
                    oldest_admitted = (own if own > task else task) - lateness_ms
                if not admitted:
                    self._refuse(
                        topic, offset, "late", f"ts {ts} is older than the watermark less the allowed lateness of {lateness_ms} ms"
                    )
                    continue
                joined = self._impression(event, topic, offset) if isinstance(event, Impression) else self._feedback(event, topic)
                if joined and ts > newest:
                    newest = state.newest = ts
        state.watermarks[topic] = own
        self.counts["events", topic] += events_seen

    def _feedback(self, event: Feedback, topic: int) -> bool:
        """Join a feedback; False when its session is full."""
        session = self._session(self.state.users[event.user_id], event.user_id, event.ts, topic)
        if session is None:
            return False
        grade = self.rules.grades.grade(event.action, event.value)
        if grade is None:
            self.counts["unknown_action", topic] += 1
            return True
        feedback = StoredFeedback(event.ts, event.impression_id, event.item_id, event.action, grade, topic)
        session.add_feedback(feedback, self.join.attribution_ms, self.touched)
        return True

    def _impression(self, event: Impression, topic: int, offset: int) -> bool:
        """Join a list or fragment; False when a limit refuses it."""
        labelled = self.state.labelled.get((event.experiments, event.segments))
        if labelled is None:
            labelled = self.state.label(event.experiments, event.segments, event.ts, self.rules)
            if labelled is None:
                limit = self.rules.groups_max
                self._refuse(topic, offset, "too_many_groups", f"its labels would make more than groups_max = {limit} groups")
                return False
        user = self.state.users[event.user_id]
        limit = self.join.lists_open_max
        if user.lists_reach(limit, event.impression_id):
            self.state.dirty.add(event.user_id)
            _close_ended(user, self.state, self.rules)  # what is over must not count, whenever it is looked at
        if user.lists_reach(limit, event.impression_id):
            self._refuse(topic, offset, "too_many_lists", f"user {event.user_id!r} has lists_open_max = {limit} open lists")
            return False
        session = self._session(user, event.user_id, event.ts, topic)
        if session is None:
            return False
        if event.ts > labelled.newest:
            labelled.newest = event.ts
        duplicates = session.add_impression(event, topic, self.join, self.touched)
        if duplicates:
            self._count_duplicates(duplicates)
        return True

    def _session(self, user: User, user_id: str, ts: int, topic: int) -> Session | None:
        """The session that an event extends, or None (and counted) when it is full."""
        state, join = self.state, self.join
        state.dirty.add(user_id)
        if user.misplaced:
            self.counts["key_mismatch", topic] += 1
        if user.sessions:
            # Sessions are more than a gap apart, so what is not before the newest one can belong to no other.
            session = user.sessions[-1]
            if session.first <= ts <= session.last + join.gap_ms and session.size < join.session_events_max:
                session.extend(ts)
                return session
        return self._other_session(user, user_id, ts, topic)

    def _other_session(self, user: User, user_id: str, ts: int, topic: int) -> Session | None:
        """The same for an event that does not belong to the newest session as it stands."""
        state = self.state
        if user.sessions:  # between two commits a user may come back many times in a stream that is read in haste
            _close_ended(user, state, self.rules)
        opened = len(user.sessions)
        found, duplicates = user.session_at(ts, self.join, self.touched)
        if duplicates:
            self._count_duplicates(duplicates)
        if found is None:
            self.counts["session_full", topic] += 1
            return None
        if len(user.sessions) > opened:
            state.due_moved.add(user_id)
        state.sessions_open += len(user.sessions) - opened
        found.extend(ts)
        return found

    def _refuse(self, topic: int, offset: int, reason: str, detail: str) -> None:
        self.counts[reason, topic] += 1
        self.refused.append(Refused(topic, offset, reason, detail))

    def _count_duplicates(self, duplicates: Duplicates) -> None:
        for topic, count in duplicates.items():
            self.counts["duplicate", topic] += count
