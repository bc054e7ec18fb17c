"""One batch of one input on its way into a task: admitted by watermark, then joined, each event judged by where the task stands.

Pure. Also says when a session is over, because that is the other side of the same rule: a session closes only when no event
that is still admitted could touch it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from streammetrics.engine.task_state import EngineRules, LabelSetEntry, TaskState
from streammetrics.errors import MalformedEvent
from streammetrics.events.event_time import FOREVER, close_bound, final_bound, pane_start
from streammetrics.events.model import Event, Feedback, Impression
from streammetrics.sessions.fragments import Duplicates
from streammetrics.sessions.outcomes import count_outcomes
from streammetrics.sessions.rules import FRAGMENT_ITEMS_FACTOR
from streammetrics.sessions.session import Session, StoredFeedback
from streammetrics.sessions.user import User

Decoded: TypeAlias = tuple[int, int, Sequence[Event | MalformedEvent]]
"""One record, decoded: its offset, its log's own time (epoch ms, -1 where unknown), and what it holds."""


def users_of(records: Iterable[Decoded]) -> set[str]:
    """The users of all events of these records."""
    return {event.user_id for _, _, events in records for event in events if type(event) is not MalformedEvent}


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one input, in its order: the index of its topic, the offset that follows them, and all their users."""

    topic: int
    records: Sequence[Decoded]
    next_offset: int
    users: set[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "users", users_of(self.records))


class Rejected(NamedTuple):
    """One event that was not used and can be read back from the dead letters."""

    topic: int
    offset: int
    reason: str
    detail: str


class BatchResult(NamedTuple):
    """What became of a batch: the events that were refused, and how many of all its events the watermark of its input has seen."""

    refused: list[Rejected]
    timed: int


def close_ended(user_id: str, user: User, state: TaskState, rules: EngineRules) -> None:
    """Close those of a user's sessions that no admitted event can touch any more; their lists enter his totals."""
    for session in user.close_before(close_bound(state.watermark, rules.lateness_ms), rules.join.gap_ms):
        state.sessions_open -= 1
        joined = count_outcomes(session, rules.join.attribution_ms, state.counts)
        if rules.experiments is not None and any(joined):
            state.note_joined(session.last, *joined)
        if rules.experiments is not None or rules.reach is not None:
            state.leave(user_id, user, session.lists.values(), rules)


class BatchProcessor:
    """One batch on its way through a task: admission by watermark, then the join."""

    __slots__ = (
        "counts",
        "dirty",
        "gap_ms",
        "idle",
        "join",
        "lists_max",
        "refused",
        "rules",
        "size_max",
        "state",
        "timed",
        "touched",
        "users",
        "waiting_ms",
    )

    def __init__(self, rules: EngineRules, state: TaskState, idle: frozenset[int]) -> None:
        self.rules = rules
        self.join = rules.join
        self.state = state
        self.idle = idle
        self.gap_ms, self.size_max, self.lists_max = rules.join.gap_ms, rules.join.session_events_max, rules.join.lists_open_max
        self.users, self.dirty = state.users, state.dirty
        self.counts = state.counts
        self.touched = state.touched
        self.refused: list[Rejected] = []
        self.timed = 0
        self.waiting_ms = rules.pane_ms + rules.entering_ms - rules.join.gap_ms
        """A list is final before its session closes when the last event is at least so long after the start of the list's pane."""

    def advance_idle(self, tick_ms: int | None) -> None:
        """Move the task's watermark past inputs that are silent; with all of them silent, up to the tick."""
        state = self.state
        live = [watermark for topic, watermark in enumerate(state.watermarks) if topic not in self.idle]
        bound = min(live) if live else tick_ms
        if bound is not None and bound > state.watermark:
            state.watermark = bound
            state.changed = True

    def input(self, batch: Batch) -> None:
        """Take the records of one input: each event moves the watermark after it was judged by where it stood."""
        state, topic = self.state, batch.topic
        state.offsets[topic] = batch.next_offset
        state.changed = True
        others = [watermark for other, watermark in enumerate(state.watermarks) if other != topic and other not in self.idle]
        others_least = min(others, default=FOREVER)
        disorder_ms, lateness_ms, future_ms = self.rules.out_of_orderness_ms, self.rules.lateness_ms, self.rules.future_ms
        own, task, newest = state.watermarks[topic], state.watermark, state.newest
        oldest_admitted = max(own, task) - lateness_ms
        events_seen = untimed = 0
        for offset, record_ts, events in batch.records:
            events_seen += len(events)
            for event in events:
                if type(event) is MalformedEvent:
                    untimed += 1
                    self._refuse(topic, offset, event.reason, event.detail)
                    continue
                ts = event.ts
                if future_ms is not None and 0 <= record_ts < ts - future_ms:
                    untimed += 1
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
                joined = self._feedback(event, topic) if type(event) is Feedback else self._impression(event, topic, offset)
                if joined and ts > newest:
                    newest = state.newest = ts
        state.watermarks[topic] = own
        self.timed = events_seen - untimed
        self.counts["events", topic] += events_seen

    def _feedback(self, event: Feedback, topic: int) -> bool:
        """Join a feedback; False when its session is full."""
        user_id, ts, action = event.user_id, event.ts, event.action
        session = self._session(self.users[user_id], user_id, ts, topic)
        if session is None:
            return False
        grade = self.rules.grades.grade(action, event.value)
        if grade is None:
            self.counts["unknown_action", topic] += 1
            return True
        feedback = StoredFeedback(ts, event.impression_id, event.item_id, action, grade, topic)
        session.add_feedback(feedback, self.join.attribution_ms, self.touched)
        return True

    def _impression(self, event: Impression, topic: int, offset: int) -> bool:
        """Join a list or fragment; False when a limit refuses it."""
        state, user_id, ts = self.state, event.user_id, event.ts
        label_sets = held = state.label_sets.get((event.experiments, event.segments))
        if label_sets is None:
            label_sets = state.label(event.experiments, event.segments, self.rules)
            if label_sets is None:
                limit = self.rules.groups_max
                self._refuse(topic, offset, "too_many_groups", f"its labels would make more than groups_max = {limit} groups")
                return False
        user = self.users[user_id]
        if (event.positions is not None or user.may_exceed_lists_max(self.lists_max)) and (beyond := self._beyond(user, event)):
            self._refuse(topic, offset, *beyond)
            return False
        known = label_sets.known_from <= ts <= label_sets.known_until
        if not known and not self._has_room(label_sets, ts):
            self._refuse(topic, offset, "too_many_variants", "its experiments would make more than variants_max variants")
            return False
        session = self._session(user, user_id, ts, topic)
        if session is None:
            return False
        if held is None:
            state.hold(label_sets, event.experiments, event.segments, ts, self.rules)
        if not known:  # before it is noted: what lies between it and the others may join them
            state.extend_runs(label_sets, ts)
        if ts > label_sets.newest:
            label_sets.newest = ts
        if ts < label_sets.oldest:
            label_sets.oldest = ts
        pane_ms = self.rules.pane_ms
        if session.last >= ts - ts % pane_ms + self.waiting_ms and self.rules.counts_users(label_sets.arms):  # `pane_start`, written out
            self._note_due(user, event)
        duplicates = session.add_impression(event, topic, self.join, self.touched)
        if duplicates:
            self._count_duplicates(duplicates)
        return True

    def _beyond(self, user: User, event: Impression) -> tuple[str, str] | None:
        """Which limit of a user or a list this one would exceed, as reason and detail; None for none."""
        gap_ms, limit = self.join.gap_ms, self.join.lists_open_max
        if user.exceeds_lists_max(limit, event.impression_id, event.ts, gap_ms):
            self.state.dirty[event.user_id] = user
            close_ended(event.user_id, user, self.state, self.rules)  # what is over must not count, whenever it is looked at
            if user.exceeds_lists_max(limit, event.impression_id, event.ts, gap_ms):
                return "too_many_lists", f"user {event.user_id!r} has lists_open_max = {limit} open lists"
        limit = FRAGMENT_ITEMS_FACTOR * self.join.items_max
        if event.positions is not None and user.fragment_items(event.impression_id, event.ts, gap_ms) + len(event.items) > limit:
            return (
                "too_many_items",
                f"the fragments of {event.impression_id!r} would hold more than {limit} items, with those that come again",
            )
        return None

    def _has_room(self, label_sets: LabelSetEntry, ts: int) -> bool:
        rules = self.rules.experiments
        return rules is None or self.state.has_room(label_sets, ts, rules, close_bound(self.state.watermark, self.rules.lateness_ms))

    def _note_due(self, user: User, event: Impression) -> None:
        """See to it that a user is looked at in time when a list comes that is final before his session can close.

        He is looked at when the first of his lists that have not entered yet is final. One that is still not final, no later than this
        one, and of a time when lists are counted, has seen to it already. Nothing is to be done where his session can close before that:
        he is looked at no later than at the time when it could close as it was stored, and its end only moves away.
        """
        state, rules, ts = self.state, self.rules, event.ts
        final = final_bound(state.watermark, rules.lateness_ms, rules.entering_ms)
        seen_from = max(state.counted_from, state.reach_from)  # before, users may not have been looked at for their lists
        for session in user.sessions:
            for shown in reversed(session.lists.values()):
                impression = shown.impression
                if (
                    shown.ts <= ts
                    and rules.counts_users(impression.experiments)
                    and impression.impression_id != event.impression_id
                    and shown.ts >= seen_from
                    and pane_start(shown.ts, rules.pane_ms) + rules.pane_ms > final
                ):
                    return
        state.due_moved.add(event.user_id)

    def _session(self, user: User, user_id: str, ts: int, topic: int) -> Session | None:
        """The session that an event extends, or None (and counted) when it is full."""
        self.dirty[user_id] = user
        if user.wrong_partition:
            self.counts["key_mismatch", topic] += 1
        if user.sessions:
            # Sessions are more than a gap apart, so what is not before the newest one can belong to no other.
            session = user.sessions[-1]
            if session.first <= ts <= session.last + self.gap_ms and session.size < self.size_max:
                session.size += 1  # `Session.extend`, written out
                if ts > session.last:
                    session.last = ts
                return session
        return self._other_session(user, user_id, ts, topic)

    def _other_session(self, user: User, user_id: str, ts: int, topic: int) -> Session | None:
        """The same for an event that does not belong to the newest session as it stands."""
        state = self.state
        if user.sessions:  # between two commits a user may come back many times in a stream that is read in haste
            close_ended(user_id, user, state, self.rules)
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
        self.refused.append(Rejected(topic, offset, reason, detail))

    def _count_duplicates(self, duplicates: Duplicates) -> None:
        for topic, count in duplicates.items():
            self.counts["duplicate", topic] += count
