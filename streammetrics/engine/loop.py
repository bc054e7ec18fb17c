"""The loop: the events of one input, in the order of its log -> admission -> the user -> the user's session -> its lists.

The steps are those of "The outcome of one event" on the page of this room. What most events do is written in straight lines. What is
rare is a function: a time that is far ahead, labels that are new, an event that does not simply extend the user's only session.
"""

from __future__ import annotations

import msgspec

from streammetrics.engine.batch import Batch, BatchResult, Outlier, Refusals, TimeMove
from streammetrics.engine.input_progress import TimeSetter
from streammetrics.engine.label_index import UNKNOWN_LABELS, LabelSetEntry
from streammetrics.engine.rules import EngineRules
from streammetrics.engine.task_state import TaskState
from streammetrics.engine.user_sample import PERIOD_MS
from streammetrics.errors import MalformedEvent
from streammetrics.events.event_time import FOREVER
from streammetrics.events.model import Elsewhere, Event, Exposure, Feedback, Impression
from streammetrics.events.outcomes import IGNORED
from streammetrics.events.unknown_names import ACTION, NULL_NOTE, NULL_VARIANT, TYPE
from streammetrics.sessions.open_sessions import exceeds_lists_max, fragment_items, may_exceed_lists_max, next_close, session_at
from streammetrics.sessions.rules import FRAGMENT_ITEMS_FACTOR
from streammetrics.sessions.session_events import add_extension, add_feedback, add_list
from streammetrics.sessions.state import Session, User

RECORD_TIMES = 5
"""How many of the last records of a batch give the time up to which it was written."""


class Loop:
    """Processes the batches of one step in a task's state. Nothing is tallied here: the next commit tallies the lists that changed."""

    __slots__ = ("counts", "moves", "outlier", "refusals", "rules", "state", "timed")

    def __init__(self, rules: EngineRules, state: TaskState) -> None:
        self.rules, self.state, self.counts = rules, state, state.progress.counts
        self.refusals = Refusals(rules, state.progress)
        self.timed = 0
        self.outlier: Outlier | None = None
        self.moves: list[TimeMove] = []

    @property
    def result(self) -> BatchResult:
        """What became of the events taken so far."""
        return BatchResult(self.refusals.events, self.timed, self.outlier, tuple(self.moves))

    def process(self, batch: Batch, idle: frozenset[int]) -> None:
        """Process the records of one input."""
        progress, topic = self.state.progress, batch.topic
        progress.offsets[topic] = batch.next_offset
        progress.changed = True
        events = sum([len(events) for _, _, events in batch.records])
        self.timed += events
        self.counts["events", topic] += events - self._process_events(batch, progress.least_other(topic, idle))
        self._note_record_times(batch)

    def _process_events(self, batch: Batch, least_other: int) -> int:  # noqa: PLR0912, PLR0915  a call for each step would cost too much
        """Process events in order: each is judged by the watermarks before it. Returns how many are counted elsewhere."""
        rules, state, topic, counts, refusals = self.rules, self.state, batch.topic, self.counts, self.refusals
        progress, sessions, labels, join = state.progress, state.sessions, state.labels, rules.join
        users, dirty, changed = sessions.users, sessions.dirty, sessions.changed
        disorder_ms, lateness_ms, future_ms, pane_ms = rules.out_of_orderness_ms, rules.lateness_ms, rules.future_ms, rules.pane_ms
        gap_ms, plain_max = join.gap_ms, min(join.session_events_max, join.lists_open_max)
        grade_of, counted_from, supported = rules.grades.grade, state.counted_from, progress.supported[topic]
        may_wait_ms = pane_ms + join.attribution_ms - gap_ms  # from the start of a list's pane: see `note_list`
        watermark, task, newest = progress.watermarks[topic], progress.watermark, progress.newest
        oldest_admitted = max(watermark, task) - lateness_ms
        time, ahead_from, jump_ms, takes_all = supported.time, supported.ahead_from, supported.jump_ms, supported.needs_every_event
        moved_by: Event | Elsewhere | None = None
        moved_at = uncounted = 0
        for offset, record_ts, events in batch.records:
            for event in events:
                # 1. A malformed event, or one dated after its record, moves nothing.
                if type(event) is MalformedEvent:
                    self._no_event(topic, offset, event)
                    continue
                ts = event.ts
                if future_ms is not None and 0 <= record_ts < ts - future_ms:
                    self.timed -= 1
                    refusals.future(topic, offset, ts, record_ts)
                    continue

                # 2. Any other event is judged by the watermarks before it, and then moves them.
                late_ms = oldest_admitted - ts
                if ts > time or takes_all:
                    moved_to = ts
                    if ts > ahead_from or takes_all:
                        if self._is_too_far(event, time, topic):
                            late_ms = FOREVER
                        moved_to, takes_all = supported.time, supported.needs_every_event
                    if moved_to > time:
                        time, ahead_from, moved_by, moved_at = moved_to, moved_to + jump_ms, event, offset
                        watermark = moved_to - disorder_ms
                        if task < watermark and task < least_other:
                            task = progress.watermark = watermark if watermark < least_other else least_other
                        oldest_admitted = (watermark if watermark > task else task) - lateness_ms
                if type(event) is Elsewhere:
                    uncounted += 1
                    continue
                if late_ms > 0:
                    self._note_setter(topic, moved_at, moved_by)
                    refusals.late_or_far(topic, offset, ts, late_ms, time, by_own=watermark >= task)
                    continue

                # The user of an admitted event.
                user = dirty[event.user_id] = users[event.user_id]
                if not 0 <= ts - user.sampled_from < PERIOD_MS:
                    user.sampled_from = state.user_sample.add(event.user_id, ts)
                if user.wrong_partition:
                    counts["key_mismatch", topic] += 1

                # 3. An exposure extends no session.
                if type(event) is Exposure:
                    if state.list_labels.add_exposure(sessions, user, event, topic) and ts > newest:
                        newest = progress.newest = ts
                    continue

                # 4. A list or feedback extends a session of its user, or opens one. Most extend the only one; fragments have more limits.
                session = user.only if type(event) is Feedback or event.positions is None else None
                if session is not None and session.first <= ts <= session.last + gap_ms and session.size < plain_max:
                    session.size += 1
                    if ts > session.last:
                        session.last = ts
                else:
                    session = self._other_session(user, event, topic, offset)
                    if session is None:
                        continue
                if ts > newest:
                    newest = progress.newest = ts

                # 5. Feedback is given to its list, unless its action is unknown.
                if type(event) is Feedback:
                    grade = grade_of(event.action, event.value)
                    if grade is None:
                        self._unknown_action(session, event, topic)
                    else:
                        add_feedback(session, event, grade, topic, join, changed)
                    continue

                # 6. A list counts in the groups of its labels, within their limits, and is added to its session.
                impression, entry = event, labels.entries.get((event.experiments, event.segments), UNKNOWN_LABELS)
                if not entry.known_from <= ts <= entry.known_until:
                    impression, entry = self._fitted(event, topic)
                labels.note(entry, ts)
                if session.last >= ts - ts % pane_ms + may_wait_ms and rules.counts_users(entry.experiments):
                    sessions.note_list(user, impression, progress.closed_before, counted_from)
                if add_list(session, impression, topic, join, changed):
                    counts["duplicate", topic] += 1
                if impression.label_notes or join.exposures is not None:
                    self._note_late_labels(user, impression, topic)
        progress.watermarks[topic], supported.time = watermark, time
        self._note_setter(topic, moved_at, moved_by)
        return uncounted

    def _note_record_times(self, batch: Batch) -> None:
        """Note the time up to which the log was written: the least of its last records, because one wrong clock must not count."""
        if batch.records:
            record_ts = min(record_ts for _, record_ts, _ in batch.records[-RECORD_TIMES:])
            if record_ts > max(0, self.state.progress.record_times[batch.topic]):
                self.state.progress.record_times[batch.topic] = record_ts

    def _note_setter(self, topic: int, offset: int, event: Event | Elsewhere | None) -> None:
        """Note the last event that moved the time of an input; None: no event of this batch did."""
        if event is not None:
            self.state.progress.setters[topic] = TimeSetter(offset, event.user_id, event.ts)

    def _no_event(self, topic: int, offset: int, malformed: MalformedEvent) -> None:
        """Refuse a malformed event. One that its reader leaves out is only counted, by its reason."""
        self.timed -= 1
        if malformed.reason == IGNORED:
            self.counts["ignored", topic] += 1
            self.state.unknown_names.add(IGNORED, malformed.detail)
            return
        self.refusals.add(topic, offset, malformed.reason, malformed.detail)
        if malformed.unknown_type is not None:
            self.state.unknown_names.add(TYPE, malformed.unknown_type)

    def _unknown_action(self, session: Session, event: Feedback, topic: int) -> None:
        """Count feedback whose action has no grade. It extends its session, and is otherwise unused."""
        self.counts["unknown_action", topic] += 1
        self.state.unknown_names.add(ACTION, event.action)
        add_extension(session, event.ts)

    def _is_too_far(self, event: Event | Elsewhere, time: int, topic: int) -> bool:
        """Let the supported time of an input, which is `time`, take an event that is ahead of it. Returns whether the event is refused.

        Counts the events that this one has contradicted. The result has the first that is known.
        """
        supported = self.state.progress.supported[topic]
        supported.time, open_events = time, supported.open_events
        self.timed -= not supported.consider(event.user_id, event.ts)  # beside the time
        if supported.outliers:
            self.counts["ahead", topic] += supported.outliers
            if self.outlier is None and supported.outlier is not None:
                self.outlier = Outlier(*supported.outlier)
            supported.outliers, supported.outlier = 0, None
        if open_events and supported.time > time + supported.span_ms:
            self.moves.append(TimeMove(time, supported.time, open_events + 1, supported.users))
        return event.ts > supported.refused_from

    def _fitted(self, event: Impression, topic: int) -> tuple[Impression, LabelSetEntry]:
        """Return a list with labels within the limits, and their entry. Labels that are dropped are counted."""
        labels, progress, ts = self.state.labels, self.state.progress, event.ts
        variants = labels.fitting_variants(event.experiments, ts, progress.closed_before)
        entry, experiments, segments = labels.fit(variants, event.segments, ts, progress.watermark)
        if not entry.known_from <= ts <= entry.known_until:
            labels.extend_runs(entry, ts)
        if dropped := len(event.experiments) - len(experiments):
            self.counts["too_many_variants", topic] += dropped
        if segments != event.segments:
            self.counts["too_many_groups", topic] += 1
        if dropped or segments != event.segments:
            event = msgspec.structs.replace(event, experiments=experiments, segments=segments)
        return event, entry

    def _note_late_labels(self, user: User, impression: Impression, topic: int) -> None:
        """Count what is wrong with the labels that a list was sent with, and let exposures give it more of them later."""
        for note in impression.label_notes:
            if note.startswith(NULL_NOTE):
                self.state.unknown_names.add(NULL_VARIANT, note.removeprefix(NULL_NOTE))
            else:
                self.counts[note, topic] += 1
        if impression.ts < user.unlabelled_from and self.rules.join.exposures is not None:
            user.unlabelled_from = impression.ts
            self.state.sessions.due_changed.add(impression.user_id)

    def _other_session(self, user: User, event: Impression | Feedback, topic: int, offset: int) -> Session | None:
        """Return the session of an event that does not simply extend the only one of its user. None if a limit refuses the event."""
        sessions, ts = self.state.sessions, event.ts
        opened = len(user.sessions)
        if opened or (type(event) is Impression and event.positions is not None):
            if type(event) is Impression and (exceeded := self._exceeded_limit(user, event)):
                self.refusals.add(topic, offset, *exceeded)
                return None
            self._close_ended(user, event)  # in a fast replay, a user may return many times between two commits
            opened = len(user.sessions)
        session = session_at(user, ts, self.rules.join, sessions.changed)
        if session is None:
            self.counts["session_full", topic] += 1
            return None
        if len(user.sessions) > opened:
            sessions.due_changed.add(event.user_id)
        sessions.open += len(user.sessions) - opened
        return session

    def _exceeded_limit(self, user: User, event: Impression) -> tuple[str, str] | None:
        """Return the limit of a user or a list that this one would exceed, as reason and detail. None if there is none."""
        join, name, ts = self.rules.join, event.impression_id, event.ts
        limit = join.lists_open_max
        if may_exceed_lists_max(user, limit) and exceeds_lists_max(user, limit, name, ts, join.gap_ms):
            self._close_ended(user, event)  # the limit counts open sessions only, whenever the ended ones are closed
            if exceeds_lists_max(user, limit, name, ts, join.gap_ms):
                return "too_many_lists", f"user {event.user_id!r} has lists_open_max = {limit} open lists"
        limit = FRAGMENT_ITEMS_FACTOR * join.items_max
        if event.positions is not None and fragment_items(user, name, ts, join.gap_ms) + len(event.items) > limit:
            return "too_many_items", f"the fragments of {name!r} would hold more than {limit} items, with those that come again"
        return None

    def _close_ended(self, user: User, event: Impression | Feedback) -> None:
        """Close the sessions that have ended and that an event cannot extend. It may be older than the watermark that it sets."""
        bound = min(self.state.progress.closed_before, event.ts)
        if user.sessions and next_close(user, self.rules.join.gap_ms) < bound:
            self.state.sessions.close_ended(event.user_id, user, bound)
