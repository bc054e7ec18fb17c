"""Joins the admitted events of a batch to their users' sessions, within the limits.

Pure. Nothing is tallied here: lists that change are collected, and the next commit tallies them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from streammetrics.engine.batch import Refusals
from streammetrics.engine.label_index import LabelSetEntry
from streammetrics.engine.rules import EngineRules
from streammetrics.engine.task_state import TaskState
from streammetrics.engine.user_sample import PERIOD_MS
from streammetrics.events.event_time import NEVER
from streammetrics.events.model import Feedback, Impression
from streammetrics.events.unknown_names import ACTION
from streammetrics.sessions.engagement import value_units
from streammetrics.sessions.fragments import Duplicates
from streammetrics.sessions.rules import FRAGMENT_ITEMS_FACTOR
from streammetrics.sessions.session import Session
from streammetrics.sessions.session_record import StoredFeedback
from streammetrics.sessions.user import User


class SessionJoin:
    """Joins one admitted event at a time. An event that a limit rejects is added to the refusals."""

    __slots__ = (
        "changed_lists",
        "counts",
        "dirty",
        "gap_ms",
        "has_exposures",
        "join",
        "labels",
        "lists_max",
        "progress",
        "refusals",
        "rules",
        "size_max",
        "state",
        "users",
        "waiting_ms",
    )

    def __init__(self, rules: EngineRules, state: TaskState, refusals: Refusals) -> None:
        self.rules = rules
        self.join, self.has_exposures = rules.join, rules.join.exposures is not None
        self.state = state
        self.progress = state.progress
        self.labels = state.labels
        self.gap_ms, self.size_max, self.lists_max = rules.join.gap_ms, rules.join.session_events_max, rules.join.lists_open_max
        self.users, self.dirty = state.sessions.users, state.sessions.dirty
        self.counts = state.progress.counts
        self.changed_lists = state.panes.changed_lists
        self.refusals = refusals
        self.waiting_ms = rules.pane_ms + rules.join.attribution_ms - rules.join.gap_ms
        """A list may be enrolled before its session closes if the session's last event is this long after the start of the list's pane."""

    def feedback(self, event: Feedback, topic: int) -> bool:
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

    def impression(self, event: Impression, topic: int, offset: int) -> bool:
        """Join one list or fragment. False if a limit rejects it."""
        labels, user_id, ts = self.labels, event.user_id, event.ts
        entry = known_entry = labels.entries.get((event.experiments, event.segments))
        dropped: Sequence[str] = event.dropped_labels
        if entry is None or not entry.known_from <= ts <= entry.known_until:
            event, entry, known_entry, dropped = self._fitted(event)
        user = self.users[user_id]
        if (event.positions is not None or user.may_exceed_lists_max(self.lists_max)) and (exceeded := self._exceeded_limit(user, event)):
            self.refusals.add(topic, offset, *exceeded)
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
        if self.has_exposures and ts < user.unlabelled_from:
            user.unlabelled_from = ts
            self.state.sessions.due_changed.add(user_id)
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

    def _count_duplicates(self, duplicates: Duplicates) -> None:
        for topic, count in duplicates.items():
            self.counts["duplicate", topic] += count
