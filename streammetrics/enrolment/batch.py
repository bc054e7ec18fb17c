"""The users whose records change in one commit: their records are read, their final lists are added, and the records are written. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from streammetrics.enrolment.lifetimes import RecordLifetimes
from streammetrics.enrolment.records import UserRecord, decode_user_totals, encode_user_totals
from streammetrics.enrolment.split import ExposureSplit
from streammetrics.enrolment.totals import TotalsBatch
from streammetrics.events.event_time import FOREVER
from streammetrics.sessions.exposures import FinalExposure
from streammetrics.sessions.state import User
from streammetrics.windows.final_lists import FinalLists, LabelRun
from streammetrics.windows.last_seen import LastSeenBatch


class RecordChanges(NamedTuple):
    """Users' records to store, users without a record, and until when (event time, ms) the records matter."""

    changed: dict[str, bytes]
    gone: list[str]
    due: dict[str, int]


class EnrolmentBatch:
    """Adds the lists of users, in their order, to their totals in experiments and to the unique users of panes.

    `records` are the stored records of these users, and `exposed` their exposures to count. `totals` and `split` are None if experiments
    are not counted, and `seen` if unique users are not. `enrolled_before` (ms) is that of the task, and `bound` that of ended sessions.
    """

    def __init__(  # noqa: PLR0913  one argument for each part of a commit
        self,
        users: Mapping[str, User],
        records: Mapping[str, bytes | None],
        lists: FinalLists,
        totals: TotalsBatch | None,
        seen: LastSeenBatch | None,
        split: ExposureSplit | None,
        exposed: Mapping[str, Sequence[FinalExposure]],
        *,
        pane_ms: int,
        enrolled_before: int,
        bound: int,
    ) -> None:
        self._users, self._stored, self._lists, self._totals, self._seen = users, records, lists, totals, seen
        self._split = split
        self._pane_ms, self._enrolled_before, self._bound = pane_ms, enrolled_before, bound
        self._records = [
            self._add_user(users[user_id], stored, label_runs, exposed.get(user_id, ()))
            for (user_id, stored), label_runs in zip(records.items(), lists.label_runs, strict=True)
        ]

    def _add_user(self, user: User, stored: bytes | None, label_runs: Sequence[LabelRun], exposed: Sequence[FinalExposure]) -> UserRecord:
        """Read a user's record and add the user's lists and exposures."""
        record, totals, seen, split = UserRecord({}, {}, {}, bool(label_runs)), self._totals, self._seen, self._split
        if self._is_flushed(user) and not (label_runs or exposed):
            return record
        if stored is not None:
            stored_totals, earlier, last_seen, counted = decode_user_totals(stored)
            if counted:
                record.exposed = frozenset() if split is None else split.restored(counted)
                record.changed |= len(record.exposed) < len(counted)
            if totals is not None:
                totals.restore(record, stored_totals, earlier)
            elif stored_totals or earlier:
                record.changed = True
            if seen is not None and last_seen:
                without_lists = self._enrolled_before if user.sessions else self._bound
                oldest = self._lists.times[label_runs[0][1]] if label_runs else without_lists
                record.last_seen = seen.restore(last_seen, oldest // self._pane_ms)
            if len(record.last_seen) < len(last_seen):
                record.changed = True
        if split is not None and exposed:
            known = set(record.exposed)
            split.add(known, exposed)
            record.changed |= len(known) > len(record.exposed)
            record.exposed = known
        if label_runs and totals is not None:
            totals.add_lists(record, label_runs)
        if label_runs and seen is not None:
            seen.add_lists(record.last_seen, label_runs)
        return record

    def _is_flushed(self, user: User) -> bool:
        """Whether no more lists and exposures of a user can follow, so that the record is deleted."""
        if self._bound != FOREVER or user.sessions:
            return False
        return self._split is None or user.exposures is None or user.exposures.first_from(user.exposed_before) == FOREVER

    def changes(self, lifetimes: RecordLifetimes | None) -> RecordChanges:
        """Return what to commit, after the sums of both batches. `lifetimes` is None if experiments are not counted."""
        changes, bound = RecordChanges({}, [], {}), self._bound
        for (user_id, stored), record in zip(self._stored.items(), self._records, strict=True):
            if self._is_flushed(self._users[user_id]) or not (record.entries or record.earlier or record.last_seen or record.exposed):
                if stored is not None:
                    changes.gone.append(user_id)
                continue
            if record.changed:
                past = [] if self._seen is None else self._seen.stored(record.last_seen)
                changes.changed[user_id] = encode_user_totals(
                    record.stored_totals(), list(record.earlier.values()), past, sorted(record.exposed) if record.exposed else ()
                )
            until = None if lifetimes is None else lifetimes.until(record.entries, record.earlier, record.exposed)
            if until is None:  # totals keep the rest of the record for as long as they matter themselves
                assert self._seen is not None
                until = self._seen.relevant_until(record.last_seen)
            changes.due[user_id] = max(bound, until)
        return changes
