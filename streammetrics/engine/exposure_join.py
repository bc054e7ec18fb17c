"""Keeps the admitted exposures of users until no list can need them any more. Pure; `list_labels` gives lists their variants."""

from __future__ import annotations

from streammetrics.engine.rules import EngineRules
from streammetrics.engine.task_state import TaskState
from streammetrics.engine.user_sample import PERIOD_MS
from streammetrics.events.model import Exposure
from streammetrics.sessions.exposures import UserExposures
from streammetrics.sessions.user import User


class ExposureJoin:
    """Takes one admitted exposure at a time."""

    __slots__ = ("_counts", "_rules", "_state")

    def __init__(self, rules: EngineRules, state: TaskState) -> None:
        self._rules, self._state, self._counts = rules.join.exposures, state, state.progress.counts

    def take(self, event: Exposure, topic: int) -> bool:
        """Keep one exposure. False if a limit rejects it: `variants_max`, or that of exposures of one user."""
        rules, state, ts, label = self._rules, self._state, event.ts, (event.experiment, event.variant)
        assert rules is not None, "an exposure was decoded, but exposures are off"
        user = self._user(event.user_id, ts, topic)
        bound = min(state.progress.closed_before, ts)  # an event may be older than the watermark that it sets
        if not state.enrolments.fitting_variants((label,), ts, bound):
            self._counts["too_many_variants", topic] += 1
            return False
        if user.exposures is None:
            user.exposures = UserExposures()
        if len(user.exposures) >= rules.kept_max:
            state.list_labels.label(user, bound)  # this forgets the exposures that no later list needs
            if len(user.exposures) >= rules.kept_max:
                self._counts["too_many_exposures", topic] += 1
                return False
        if not user.is_kept or ts < user.exposures.first_from(user.exposed_before):
            state.sessions.due_changed.add(event.user_id)
        self._counts["exposure", topic] += 1
        duplicate = user.exposures.add(*label, ts, topic)
        if duplicate is not None:
            self._counts["duplicate", duplicate] += 1
        state.labels.extend_run(*label, ts, ts + rules.validity_ms)
        return True

    def _user(self, user_id: str, ts: int, topic: int) -> User:
        """Return the user of an event. The next commit writes the user. `SessionJoin` has a copy for other events."""
        state = self._state
        user = state.sessions.dirty[user_id] = state.sessions.users[user_id]
        if not 0 <= ts - user.sampled_from < PERIOD_MS:
            user.sampled_from = state.user_sample.add(user_id, ts)
        if user.wrong_partition:
            self._counts["key_mismatch", topic] += 1
        return user
