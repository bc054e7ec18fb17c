"""One batch of one input on its way into a task: each event is admitted by the watermark and then joined to its user's session.

Pure. Nothing is tallied here: lists that change are collected, and the next commit tallies them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import msgspec

from streammetrics.engine.label_index import LabelSetEntry
from streammetrics.engine.lateness import TimeSetter
from streammetrics.engine.rules import EngineRules
from streammetrics.engine.supported_time import SupportedTime
from streammetrics.engine.task_state import TaskState
from streammetrics.engine.user_sample import PERIOD_MS
from streammetrics.errors import MalformedEvent
from streammetrics.events.event_time import NEVER
from streammetrics.events.model import Elsewhere, Event, Feedback, Impression
from streammetrics.events.outcomes import IGNORED
from streammetrics.events.unknown_names import ACTION, TYPE
from streammetrics.sessions.engagement import value_units
from streammetrics.sessions.fragments import Duplicates
from streammetrics.sessions.rules import FRAGMENT_ITEMS_FACTOR
from streammetrics.sessions.session import Session
from streammetrics.sessions.session_record import StoredFeedback
from streammetrics.sessions.user import User

RECORD_TIMES = 5
"""How many of the last records of a batch give the time up to which it was written."""

Decoded: TypeAlias = tuple[int, int, Sequence[Event | MalformedEvent | Elsewhere]]
"""One decoded record: its offset, its own timestamp (epoch ms, -1 if unknown), and its events."""


def users_of(records: Iterable[Decoded]) -> set[str]:
    """Return the users of all events of some records, without events that another process counts."""
    return {event.user_id for _, _, events in records for event in events if type(event) is Feedback or type(event) is Impression}


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one input, in its order: the index of its topic, the offset after them, and their users."""

    topic: int
    records: Sequence[Decoded]
    next_offset: int
    users: set[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "users", users_of(self.records))


class Rejected(NamedTuple):
    """One event that is not used and goes to the dead letters."""

    topic: int
    offset: int
    reason: str
    detail: str


class TimeMove(NamedTuple):
    """A move of an input's time by a row of events. `start` is NEVER if the time begins."""

    start: int
    end: int
    events: int
    users: int


class Outlier(NamedTuple):
    """An event that was ahead (ms) of the time that other events of its input support. Long user ids are hashed."""

    user: str
    ts: int
    ahead_ms: int


class BatchResult(NamedTuple):
    """The rejected events of a batch, and the number of its events that advanced the watermark or could have.

    `outlier` is the last event of the first row that ended without a move. `moves` are the moves by a row.
    """

    refused: list[Rejected]
    timed: int
    outlier: Outlier | None = None
    moves: tuple[TimeMove, ...] = ()


class BatchProcessor:
    """Takes one batch into a task's state: admission by watermark, then the join."""

    __slots__ = (
        "changed_lists",
        "counts",
        "dirty",
        "gap_ms",
        "join",
        "labels",
        "lists_max",
        "moves",
        "outlier",
        "progress",
        "refused",
        "rules",
        "size_max",
        "state",
        "timed",
        "users",
        "waiting_ms",
    )

    def __init__(self, rules: EngineRules, state: TaskState) -> None:
        self.rules = rules
        self.join = rules.join
        self.state = state
        self.progress = state.progress
        self.labels = state.labels
        self.gap_ms, self.size_max, self.lists_max = rules.join.gap_ms, rules.join.session_events_max, rules.join.lists_open_max
        self.users, self.dirty = state.sessions.users, state.sessions.dirty
        self.counts = state.progress.counts
        self.changed_lists = state.panes.changed_lists
        self.refused: list[Rejected] = []
        self.timed = 0
        self.outlier: Outlier | None = None
        self.moves: list[TimeMove] = []
        self.waiting_ms = rules.pane_ms + rules.join.attribution_ms - rules.join.gap_ms
        """A list may be enrolled before its session closes if the session's last event is this long after the start of the list's pane."""

    def input(self, batch: Batch, idle: frozenset[int]) -> None:  # noqa: PLR0912, PLR0915  calls cost too much here
        """Take the records of one input. Each event is judged by the watermark before it, and then advances the watermark."""
        progress, topic = self.progress, batch.topic
        progress.offsets[topic] = batch.next_offset
        progress.changed = True
        least_other, supported = progress.least_other(topic, idle), progress.supported[topic]
        disorder_ms, lateness_ms, future_ms = self.rules.out_of_orderness_ms, self.rules.lateness_ms, self.rules.future_ms
        jump_ms = self.rules.support.jump_ms
        own, task, newest = progress.watermarks[topic], progress.watermark, progress.newest
        oldest_admitted = max(own, task) - lateness_ms
        time, ahead_from, in_row = supported.time, supported.ahead_from, supported.row > 0
        moved_by: Event | Elsewhere | None = None
        moved_at = events_seen = untimed = elsewhere = 0
        for offset, record_ts, events in batch.records:
            events_seen += len(events)
            for event in events:
                if type(event) is MalformedEvent:
                    untimed += 1
                    if event.reason == IGNORED:
                        self.counts["ignored", topic] += 1
                        continue
                    self._refuse(topic, offset, event.reason, event.detail)
                    if event.unknown_type is not None:
                        self.state.unknown_names.add(TYPE, event.unknown_type)
                    continue
                ts = event.ts
                if future_ms is not None and 0 <= record_ts < ts - future_ms:
                    untimed += 1
                    self._refuse(topic, offset, "future", f"ts {ts} is {ts - record_ts} ms after its record's own time")
                    continue
                late_ms = oldest_admitted - ts  # from here on a copy of `InputProgress.admit` and `SupportedTime.take`
                too_far = False
                if ts > time or in_row:
                    moved_to = ts
                    if ts > ahead_from or in_row:
                        supported.time = time
                        if self._take_time(supported, topic, event):
                            untimed += 1
                            too_far = time != NEVER and ts > supported.refused_from
                        moved_to, in_row = supported.time, supported.row > 0
                    if moved_to > time:
                        time, ahead_from, moved_by, moved_at = moved_to, moved_to + jump_ms, event, offset
                        own = moved_to - disorder_ms
                        least = own if own < least_other else least_other
                        if least > task:
                            task = progress.watermark = least
                        oldest_admitted = (own if own > task else task) - lateness_ms
                if type(event) is Elsewhere:
                    elsewhere += 1
                    continue
                if late_ms > 0 or too_far:
                    if moved_by is not None:
                        progress.setters[topic], moved_by = TimeSetter(moved_at, moved_by.user_id, moved_by.ts), None
                    if too_far:
                        far_ms = self.rules.support.far_ms
                        supported_text = f"{ts - time} ms ahead of what other events of its input support"
                        self._refuse(topic, offset, "future", f"ts {ts} is {supported_text}; join.support_far_ms allows {far_ms} ms")
                    else:
                        self._refuse_late(topic, offset, ts, late_ms, own >= task)
                    continue
                joined = self._feedback(event, topic) if type(event) is Feedback else self._impression(event, topic, offset)
                if joined and ts > newest:
                    newest = progress.newest = ts
        if batch.records:  # the least of a few: one wrong clock must not count
            record_ts = min(record_ts for _, record_ts, _ in batch.records[-RECORD_TIMES:])
            if record_ts > max(0, progress.record_times[topic]):
                progress.record_times[topic] = record_ts
        progress.watermarks[topic], supported.time = own, time
        if moved_by is not None:
            progress.setters[topic] = TimeSetter(moved_at, moved_by.user_id, moved_by.ts)
        self.timed = events_seen - untimed
        self.counts["events", topic] += events_seen - elsewhere

    def _take_time(self, supported: SupportedTime, topic: int, event: Event | Elsewhere) -> bool:
        """Let an event that is ahead, or that comes during a row, move the time. Returns whether it is still ahead afterwards.

        The events of a row that ends without a move are counted as `ahead`.
        """
        before, row, users, ts = supported.time, supported.row, supported.users, event.ts
        was_near = before != NEVER and ts <= supported.ahead_from
        supported.take(event.user_id, ts)
        if supported.outlier is not None:
            self.counts["ahead", topic] += supported.outliers
            if self.outlier is None:
                user, time, _ = supported.outlier
                self.outlier = Outlier(user, time, time - supported.time)
            supported.outliers, supported.outlier = 0, None
        if was_near:
            return False
        if supported.time > before and row:
            self.moves.append(TimeMove(before, supported.time, row + 1, users))
        return supported.time == NEVER or ts > supported.ahead_from

    def _refuse_late(self, topic: int, offset: int, ts: int, late_ms: int, by_own: bool) -> None:
        """Refuse a late event, and note how late it is and which event made it late."""
        lateness_ms = self.rules.lateness_ms
        setter = self.progress.setters[topic] if by_own else None
        self.progress.lateness[topic].add(late_ms, setter)
        if setter is not None:
            cause = f"set by the event of user {setter.user!r} at offset {setter.offset} with ts {setter.ts}"
        else:
            cause = "set by the other inputs or by the clock, while this input was idle"
        self._refuse(
            topic,
            offset,
            "late",
            f"ts {ts} is {late_ms} ms older than the watermark {ts + late_ms + lateness_ms} less the allowed lateness of {lateness_ms} ms;"
            f" the watermark was {cause}",
        )

    def _feedback(self, event: Feedback, topic: int) -> bool:
        """Join one feedback. False if its session is full."""
        user_id, ts, action = event.user_id, event.ts, event.action
        session = self._session(self.users[user_id], user_id, ts, topic)
        if session is None:
            return False
        grade = self.rules.grades.grade(action, event.value)
        if grade is None:
            self.counts["unknown_action", topic] += 1
            self.state.unknown_names.add(ACTION, action)
            return True
        engagement = self.join.engagement
        value = value_units(event.value) if engagement is not None and action in engagement.purchases else 0
        feedback = StoredFeedback(ts, event.impression_id, event.item_id, action, grade, topic, value)
        session.add_feedback(feedback, self.join, self.changed_lists)
        return True

    def _impression(self, event: Impression, topic: int, offset: int) -> bool:
        """Join one list or fragment. False if a limit rejects it."""
        labels, user_id, ts = self.labels, event.user_id, event.ts
        entry = known_entry = labels.entries.get((event.experiments, event.segments))
        dropped: Sequence[str] = event.dropped_labels
        if entry is None or not entry.known_from <= ts <= entry.known_until:
            event, entry, known_entry, dropped = self._fitted(event)
        user = self.users[user_id]
        if (event.positions is not None or user.may_exceed_lists_max(self.lists_max)) and (exceeded := self._exceeded_limit(user, event)):
            self._refuse(topic, offset, *exceeded)
            return False
        session = self._session(user, user_id, ts, topic)
        if session is None:
            return False
        if known_entry is None:
            labels.add(entry, event.experiments, event.segments, ts, self.progress.watermark)
        if not entry.known_from <= ts <= entry.known_until:
            labels.extend_runs(entry, ts)
        if ts > entry.newest:  # a copy of `LabelIndex.note`
            if entry.newest == NEVER:
                labels.unflushed.append(entry)
            entry.newest = ts
        if ts < entry.oldest:
            entry.oldest = ts
        pane_ms = self.rules.pane_ms
        if session.last >= ts - ts % pane_ms + self.waiting_ms and self.rules.counts_users(entry.experiments):  # a copy of `pane_start`
            self._note_due(user, event)
        for reason in dropped:
            self.counts[reason, topic] += 1
        duplicates = session.add_impression(event, topic, self.join, self.changed_lists)
        if duplicates:
            self._count_duplicates(duplicates)
        return True

    def _fitted(self, event: Impression) -> tuple[Impression, LabelSetEntry, LabelSetEntry | None, list[str]]:
        """Return a list with labels within the limits, their entry, that entry if it is kept already, and why labels were dropped."""
        dropped = [*event.dropped_labels]
        variants = self.state.enrolments.fitting_variants(event.experiments, event.ts, self.progress.closed_before)
        entry, is_known, experiments, segments = self.labels.fit(variants, event.segments, self.progress.watermark)
        for _ in range(len(event.experiments) - len(experiments)):
            dropped.append("too_many_variants")
        if segments != event.segments:
            dropped.append("too_many_groups")
        if dropped and (experiments, segments) != (event.experiments, event.segments):
            event = msgspec.structs.replace(event, experiments=experiments, segments=segments)
        return event, entry, entry if is_known else None, dropped

    def _exceeded_limit(self, user: User, event: Impression) -> tuple[str, str] | None:
        """Return the limit of a user or a list that this one would exceed, as reason and detail. None if there is none."""
        gap_ms, limit = self.join.gap_ms, self.join.lists_open_max
        if user.exceeds_lists_max(limit, event.impression_id, event.ts, gap_ms):
            self._close_ended(event.user_id, user, event.ts)  # the limit counts open sessions only, whenever the ended ones are closed
            if user.exceeds_lists_max(limit, event.impression_id, event.ts, gap_ms):
                return "too_many_lists", f"user {event.user_id!r} has lists_open_max = {limit} open lists"
        limit = FRAGMENT_ITEMS_FACTOR * self.join.items_max
        if event.positions is not None and user.fragment_items(event.impression_id, event.ts, gap_ms) + len(event.items) > limit:
            return (
                "too_many_items",
                f"the fragments of {event.impression_id!r} would hold more than {limit} items, with those that come again",
            )
        return None

    def _note_due(self, user: User, event: Impression) -> None:
        """Make sure that a user is due in time for a list that is enrolled before its session can close.

        A user is due when the turn of the first list that is not enrolled is final. An older list of an open turn has set that time
        already, if it counts. Nothing is needed if the session can close first. Its stored due time is early enough then, because a
        session's end only moves later.
        """
        rules, ts = self.rules, event.ts
        final = self.state.sessions.turns.final(event.user_id, self.progress.closed_before)
        counted_from = max(self.state.enrolments.counted_from, self.state.unique_users.counted_from)  # older lists set no due time
        for session in user.sessions:
            for shown in reversed(session.lists.values()):
                impression = shown.impression
                if (
                    shown.ts <= ts
                    and rules.counts_users(impression.experiments)
                    and impression.impression_id != event.impression_id
                    and shown.ts >= counted_from
                    and shown.ts >= final
                ):
                    return
        self.state.sessions.due_changed.add(event.user_id)

    def _session(self, user: User, user_id: str, ts: int, topic: int) -> Session | None:
        """Return the session that an event extends. None if it is full; the event is counted then."""
        self.dirty[user_id] = user
        if not 0 <= ts - user.sampled_from < PERIOD_MS:
            user.sampled_from = self.state.user_sample.add(user_id, ts)
        if user.wrong_partition:
            self.counts["key_mismatch", topic] += 1
        if user.sessions:
            # Sessions are more than a gap apart, so an event that is not before the newest one cannot belong to another.
            session = user.sessions[-1]
            if session.first <= ts <= session.last + self.gap_ms and session.size < self.size_max:
                session.size += 1  # a copy of `Session.extend`
                if ts > session.last:
                    session.last = ts
                return session
        return self._other_session(user, user_id, ts, topic)

    def _other_session(self, user: User, user_id: str, ts: int, topic: int) -> Session | None:
        """Do the same for an event that does not simply extend the newest session."""
        sessions = self.state.sessions
        if user.sessions:  # in a fast replay, a user may return many times between two commits
            self._close_ended(user_id, user, ts)
        opened = len(user.sessions)
        found, duplicates = user.session_at(ts, self.join, self.changed_lists)
        if duplicates:
            self._count_duplicates(duplicates)
        if found is None:
            self.counts["session_full", topic] += 1
            return None
        if len(user.sessions) > opened:
            sessions.due_changed.add(user_id)
        sessions.open += len(user.sessions) - opened
        found.extend(ts)
        return found

    def _close_ended(self, user_id: str, user: User, ts: int) -> None:
        """Close the sessions that have ended and that an event at `ts` cannot extend. An event may be older than the watermark it sets."""
        self.state.sessions.close_ended(user_id, user, min(self.progress.closed_before, ts))

    def _refuse(self, topic: int, offset: int, reason: str, detail: str) -> None:
        self.counts[reason, topic] += 1
        self.refused.append(Rejected(topic, offset, reason, detail))

    def _count_duplicates(self, duplicates: Duplicates) -> None:
        for topic, count in duplicates.items():
            self.counts["duplicate", topic] += count
