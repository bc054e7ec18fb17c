"""Keeps the exposures of users, and gives lists the variants of their users' exposures, each list once.

A list gets its variants when no exposure at or before it can be admitted any more. Until then it counts in all traffic, and in the
variants that it was sent with. So the result does not depend on the order of arrival, or on commits, as long as `groups_max` is not
reached. A variant that the list was sent with takes precedence over an exposure of the same experiment.
"""

from __future__ import annotations

from streammetrics.engine.input_progress import InputProgress
from streammetrics.engine.label_index import LabelIndex
from streammetrics.engine.rules import EngineRules
from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.events.model import Exposure, Labels
from streammetrics.sessions.exposures import UserExposures
from streammetrics.sessions.session_events import relabel
from streammetrics.sessions.state import ChangedLists, Session, ShownList, User
from streammetrics.sessions.user_sessions import UserSessions
from streammetrics.windows.panes import unfolded


class ListLabels:
    """Labels the lists of users. All lists before `labelled_before` (ms) have their variants; FOREVER without exposures."""

    __slots__ = ("_counts", "_extends_runs", "_labels", "_progress", "_rules", "labelled_before")

    def __init__(self, rules: EngineRules, labels: LabelIndex, progress: InputProgress) -> None:
        self._rules, self._labels, self._progress = rules.join.exposures, labels, progress
        self._counts = progress.counts
        self._extends_runs = rules.experiments is not None
        self.labelled_before = FOREVER if self._rules is None else NEVER

    def advance(self, bound: int, next_due: int) -> None:
        """Note that all users in memory, and all users that were due before `next_due` (ms), have been labelled up to `bound`."""
        self.labelled_before = max(self.labelled_before, min(bound, next_due))

    def add_exposure(self, sessions: UserSessions, user: User, event: Exposure, topic: int) -> bool:
        """Keep one exposure. False if a limit rejects it: `variants_max`, or that of exposures of one user."""
        rules, labels, counts, ts, label = self._rules, self._labels, self._counts, event.ts, (event.experiment, event.variant)
        assert rules is not None, "an exposure was decoded, but exposures are off"
        bound = min(self._progress.closed_before, ts)  # an event may be older than the watermark that it sets
        if not labels.fitting_variants((label,), ts, bound):
            counts["too_many_variants", topic] += 1
            return False
        if user.exposures is None:
            user.exposures = UserExposures()
        if len(user.exposures) >= rules.kept_max:
            sessions.hand_on_exposures(event.user_id, user, bound)
            sessions.label(user, bound)  # this forgets the exposures that were handed on and that no later list needs
            if len(user.exposures) >= rules.kept_max:
                counts["too_many_exposures", topic] += 1
                return False
        if not user.is_kept or ts < user.exposures.first_from(user.exposed_before):
            sessions.due_changed.add(event.user_id)
        counts["exposure", topic] += 1
        duplicate = user.exposures.add(*label, ts, topic)
        if duplicate is not None:
            counts["duplicate", duplicate] += 1
        if self._extends_runs:
            labels.flush()
            labels.runs.extend(*label, ts, ts + rules.validity_ms)  # as long as it may give lists its variant
        return True

    def label(self, user: User, bound: int, changed: ChangedLists) -> None:
        """Label a user's lists before `bound` (ms): no event before that time is admitted any more. No session may be stale.

        Exposures that no later list can need are dropped.
        """
        rules = self._rules
        if rules is None or bound == NEVER:
            return
        if user.unlabelled_from < bound:
            since, user.unlabelled_from = user.unlabelled_from, FOREVER
            for session in [session for session in user.sessions if session.last >= since]:
                for shown_list in list(session.lists.values()):
                    if shown_list.ts >= bound:
                        user.unlabelled_from = min(user.unlabelled_from, shown_list.ts)
                    elif shown_list.ts >= since and user.exposures:
                        self._label(session, shown_list, user.exposures.variants_at(shown_list.ts, rules.validity_ms), changed)
        if user.exposures:
            user.exposures.forget(min(bound, user.exposed_before), rules.validity_ms)

    def _label(self, session: Session, shown_list: ShownList, experiments: Labels, changed: ChangedLists) -> None:
        """Add variants to those of a list."""
        assert self._rules is not None
        wanted = experiments
        if shown_list.experiments:
            sent = {experiment for experiment, _ in shown_list.experiments}
            more = [label for label in experiments if label[0] not in sent]
            wanted = tuple(sorted((*shown_list.experiments, *more))) if more else ()
        if not wanted:
            return
        limited, segments = wanted[: self._rules.experiments_max], unfolded(shown_list.segments)
        watermark = self._progress.watermark
        fitted = self._labels.relabel(limited, segments, shown_list.ts, NEVER if watermark == FOREVER else watermark)
        if fitted.experiments is not wanted or fitted.segments is not segments:  # otherwise no limit was met
            self._count("too_many_experiments", len(wanted) - len(limited), shown_list.topic)
            self._count("too_many_variants", len(limited) - len(fitted.experiments), shown_list.topic)
            self._count("too_many_groups", fitted.segments != segments, shown_list.topic)
        relabel(session, shown_list, fitted.experiments, fitted.segments, changed)

    def _count(self, reason: str, count: int, topic: int) -> None:
        if count:
            self._counts[reason, topic] += count
