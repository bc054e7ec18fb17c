"""One batch of one input on its way into a task: each event is admitted by the watermark and then joined to its user's session."""

from __future__ import annotations

from streammetrics.engine.batch import Batch, BatchResult, Outlier, Refusals, TimeMove
from streammetrics.engine.exposure_join import ExposureJoin
from streammetrics.engine.lateness import TimeSetter
from streammetrics.engine.rules import EngineRules
from streammetrics.engine.session_join import SessionJoin
from streammetrics.engine.supported_time import SupportedTime
from streammetrics.engine.task_state import TaskState
from streammetrics.errors import MalformedEvent
from streammetrics.events.model import Elsewhere, Event, Feedback, Impression, PathsFound
from streammetrics.events.outcomes import IGNORED
from streammetrics.events.unknown_names import TYPE

RECORD_TIMES = 5
"""How many of the last records of a batch give the time up to which it was written."""


class BatchProcessor:
    """Takes one batch into a task's state: admission by watermark, then the join."""

    __slots__ = ("counts", "exposures", "joins", "moves", "outlier", "progress", "refusals", "rules", "state", "timed")

    def __init__(self, rules: EngineRules, state: TaskState) -> None:
        self.rules = rules
        self.state = state
        self.progress = state.progress
        self.counts = state.progress.counts
        self.refusals = Refusals(state.progress.counts)
        self.joins = SessionJoin(rules, state, self.refusals)
        self.exposures = ExposureJoin(rules, state)
        self.timed = 0
        self.outlier: Outlier | None = None
        self.moves: list[TimeMove] = []

    @property
    def result(self) -> BatchResult:
        """What became of the events taken so far."""
        return BatchResult(self.refusals.events, self.timed, self.outlier, tuple(self.moves))

    def input(self, batch: Batch, idle: frozenset[int]) -> None:  # noqa: PLR0912, PLR0915  calls cost too much here
        """Take the records of one input. Each event is judged by the watermark before it, and then advances the watermark."""
        progress, joins, topic = self.progress, self.joins, batch.topic
        progress.offsets[topic] = batch.next_offset
        progress.changed = True
        least_other, supported = progress.least_other(topic, idle), progress.supported[topic]
        disorder_ms, lateness_ms, future_ms = self.rules.out_of_orderness_ms, self.rules.lateness_ms, self.rules.future_ms
        own, task, newest = progress.watermarks[topic], progress.watermark, progress.newest
        oldest_admitted = max(own, task) - lateness_ms
        time, ahead_from, jump_ms, takes_all = supported.time, supported.ahead_from, supported.jump_ms, supported.needs_every_event
        moved_by: Event | Elsewhere | None = None
        moved_at = events_seen = untimed = elsewhere = ts = 0
        for offset, record_ts, events in batch.records:
            events_seen += len(events)
            for event in events:
                if type(event) is MalformedEvent:
                    untimed += 1
                    self._malformed(topic, offset, event)
                    continue
                if type(event) is PathsFound:
                    events_seen -= 1
                    self.state.path_counts.add(topic, event, ts if record_ts < 0 else record_ts)
                    continue
                ts = event.ts
                if future_ms is not None and 0 <= record_ts < ts - future_ms:
                    untimed += 1
                    self.refusals.add(topic, offset, "future", f"ts {ts} is {ts - record_ts} ms after its record's own time")
                    continue
                late_ms = oldest_admitted - ts  # from here on a copy of `InputProgress.admit` and `SupportedTime.take`
                too_far = False
                if ts > time or takes_all:
                    moved_to = ts
                    if ts > ahead_from or takes_all:
                        supported.time, row = time, supported.row
                        untimed += not supported.take(event.user_id, ts)
                        too_far = ts > supported.refused_from
                        moved_to, takes_all = supported.time, supported.needs_every_event
                        if supported.outliers:
                            self._note_outliers(supported, topic)
                        if row and moved_to > time + supported.run_ms:
                            self.moves.append(TimeMove(time, moved_to, row + 1, supported.users))
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
                        self._refuse_far(topic, offset, ts, ts - time)
                    else:
                        self._refuse_late(topic, offset, ts, late_ms, own >= task)
                    continue
                if type(event) is Feedback:
                    joined = joins.feedback(event, topic)
                elif type(event) is Impression:
                    joined = joins.impression(event, topic, offset)
                else:
                    joined = self.exposures.take(event, topic)
                if joined and ts > newest:
                    newest = progress.newest = ts
        self._note_record_times(batch)
        progress.watermarks[topic], supported.time = own, time
        if moved_by is not None:
            progress.setters[topic] = TimeSetter(moved_at, moved_by.user_id, moved_by.ts)
        self.timed = events_seen - untimed
        self.counts["events", topic] += events_seen - elsewhere

    def _note_record_times(self, batch: Batch) -> None:
        """Note the time up to which the log was written: the least of its last records, because one wrong clock must not count."""
        if batch.records:
            record_ts = min(record_ts for _, record_ts, _ in batch.records[-RECORD_TIMES:])
            if record_ts > max(0, self.progress.record_times[batch.topic]):
                self.progress.record_times[batch.topic] = record_ts

    def _malformed(self, topic: int, offset: int, event: MalformedEvent) -> None:
        """Refuse a malformed event. A record that a mapping leaves out is only counted."""
        if event.reason == IGNORED:
            self.counts["ignored", topic] += 1
            return
        self.refusals.add(topic, offset, event.reason, event.detail)
        if event.unknown_type is not None:
            self.state.unknown_names.add(TYPE, event.unknown_type)

    def _note_outliers(self, supported: SupportedTime, topic: int) -> None:
        """Count the events that others have contradicted. The result has the first that is known."""
        self.counts["ahead", topic] += supported.outliers
        if self.outlier is None and supported.outlier is not None:
            self.outlier = Outlier(*supported.outlier)
        supported.outliers, supported.outlier = 0, None

    def _refuse_far(self, topic: int, offset: int, ts: int, ahead_ms: int) -> None:
        """Refuse an event that is too far ahead of the supported time of its input."""
        ahead = f"ts {ts} is {ahead_ms} ms ahead of what other events of its input support"
        self.refusals.add(topic, offset, "future", f"{ahead}; join.support_far_ms allows {self.rules.support.far_ms} ms")

    def _refuse_late(self, topic: int, offset: int, ts: int, late_ms: int, by_own: bool) -> None:
        """Refuse a late event, and note how late it is and which event made it late."""
        lateness_ms = self.rules.lateness_ms
        setter = self.progress.setters[topic] if by_own else None
        self.progress.lateness[topic].add(late_ms, setter)
        if setter is not None:
            cause = f"set by the event of user {setter.user!r} at offset {setter.offset} with ts {setter.ts}"
        else:
            cause = "set by the other inputs or by the clock, while this input was idle"
        self.refusals.add(
            topic,
            offset,
            "late",
            f"ts {ts} is {late_ms} ms older than the watermark {ts + late_ms + lateness_ms} less the allowed lateness of {lateness_ms} ms;"
            f" the watermark was {cause}",
        )
