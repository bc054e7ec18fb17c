"""The state of one task between two commits: its owners, and how they are restored and stored together.

Each owner restores itself from the last commit, has the operations on its fields, and says what the next commit writes. State that was
made with other rules is rejected. Experiments and unique users may be switched on and off between two runs.

It also counts names that a task does not use: actions without a grade, types of no event, null variants, why records are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, Protocol

import msgspec

from streammetrics.engine.input_progress import InputProgress, ProgressState
from streammetrics.engine.label_index import LabelIndex, LabelState
from streammetrics.engine.list_labels import ListLabels
from streammetrics.engine.rules import EngineRules
from streammetrics.engine.signature import OTHER_MEASURES, Signature, differing, fit_of
from streammetrics.engine.user_sample import UserSample
from streammetrics.enrolment.feedback_days import FEEDBACK_DAYS, FeedbackDays
from streammetrics.enrolment.reducer import Enrolments, EnrolmentState
from streammetrics.enrolment.rows import UserTotalsLayout
from streammetrics.enrolment.rules import EVER, is_behind
from streammetrics.enrolment.runs import ExperimentRuns
from streammetrics.enrolment.scopes import EXPERIMENTS
from streammetrics.errors import UnfitStateError
from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.events.unknown_names import NAME_CHARS_MAX
from streammetrics.metrics import TallyLayout
from streammetrics.sessions.turns import Turns
from streammetrics.sessions.user_sessions import FinalEvents, SessionState, UserSessions
from streammetrics.state.codec import VERSION, check_version, encode_json, plain_json, refusal
from streammetrics.state.tables import NOTHING, RowChanges, Rows, TaskTimes
from streammetrics.windows.pane_tallies import PANES, PaneState, PaneTallies
from streammetrics.windows.unique_users import UNIQUE_USERS, UniqueUserPanes, UniqueUserState
from streammetrics.windows.user_counts import UserCountLayout

NAMES_MAX: Final = 20
"""Names kept per kind and task: the first ones to arrive. All further ones are counted together under the empty name."""
OTHERS: Final = ""


class UnknownNames:
    """Number of events by kind (`action`, `type`, `null_variant` with the experiment, or `ignored` with the reason) and name.

    Which names are kept depends on the order of arrival. Their sum does not.
    """

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}

    def restore(self, stored: Iterable[tuple[str, str, int]]) -> None:
        """Continue from the last commit."""
        self._counts = {}
        for kind, name, count in stored:
            self._counts.setdefault(kind, {})[name] = count

    def stored(self) -> list[tuple[str, str, int]]:
        """Return what the next commit writes: kind, name or empty for all others, count."""
        return [(kind, name, count) for kind, names in sorted(self._counts.items()) for name, count in sorted(names.items())]

    def add(self, kind: str, name: str) -> None:
        """Count an event."""
        names = self._counts.setdefault(kind, {})
        name = name[:NAME_CHARS_MAX]
        if name not in names and len(names) - (OTHERS in names) >= NAMES_MAX:
            name = OTHERS
        names[name] = names.get(name, 0) + 1


class ControlRecord(msgspec.Struct, kw_only=True, array_like=True):
    """A task's control record: what the owners of `TaskState` store besides users and rows of tables. Times are in milliseconds.

    - `rules` and `measures` are the signature of the rules, `topics` the inputs.
    - `labelled_before`: see `ListLabels`.
    - `unknown_names` is (kind, name or empty for all others, count).
    - `users_sampled` is (start of a period, packed hashes of users).
    """

    version: int = VERSION
    rules: str
    measures: tuple[str, ...] | None
    topics: list[str]
    progress: ProgressState
    panes: PaneState
    labels: LabelState
    labelled_before: int
    sessions: SessionState
    enrolment: EnrolmentState
    unique_users: UniqueUserState
    users_sampled: list[tuple[int, str]]
    unknown_names: list[tuple[str, str, int]]

    @property
    def signature(self) -> Signature:
        return Signature(self.rules, self.measures)

    def shown_watermark(self, lateness_ms: int) -> int:
        """Return the watermark (ms) up to which results are shown. Lists that may still get labels hold it back."""
        if self.labelled_before in (NEVER, FOREVER):
            return min(self.progress.watermark, self.labelled_before)
        return min(self.progress.watermark, self.labelled_before + lateness_ms)


_decode_control = msgspec.json.Decoder(ControlRecord).decode


def decode_control(stored: bytes) -> ControlRecord:
    try:
        control = _decode_control(stored)
    except msgspec.DecodeError as error:
        raise refusal(stored, plain_json, "a task's control record", error) from error
    check_version(control.version, "a task's control record")
    return control


class Reducer(Protocol):
    """The owner of a table: it counts changed or final lists, and returns the rows that a commit writes.

    Those that count what has become final are also in `on_final`.
    """

    def changes(self, times: TaskTimes, /) -> RowChanges: ...


class TaskState:
    """All that one task holds, by owner. A new state is that of a task without commits."""

    __slots__ = (
        "_rules",
        "_signature",
        "enrolments",
        "feedback_days",
        "labels",
        "list_labels",
        "on_final",
        "panes",
        "progress",
        "runs",
        "sessions",
        "tables",
        "unique_users",
        "unknown_names",
        "user_sample",
    )

    def __init__(
        self,
        rules: EngineRules,
        signature: Signature,
        tally_layout: TallyLayout,
        totals_layout: UserTotalsLayout | None = None,
    ) -> None:
        self._rules, self._signature = rules, signature
        self.progress = InputProgress(rules)
        self.panes = PaneTallies(
            tally_layout, pane_ms=rules.pane_ms, retention_ms=rules.retention_ms, may_have_gaps=rules.join.absolute_positions
        )
        self.runs = ExperimentRuns(0 if rules.experiments is None else rules.experiments.idle_ms)
        self.labels = LabelIndex(rules, self.runs, self.panes.forget_total)
        self.list_labels = ListLabels(rules, self.labels, self.progress)
        turns = Turns(pane_ms=rules.pane_ms, patience_ms=rules.patience_ms, attribution_ms=rules.join.attribution_ms)
        self.sessions = UserSessions(
            rules.join,
            turns if rules.users_counted else None,
            self.list_labels.label,
            self.progress.counts,
            counts_users=rules.counts_users,
        )
        self.user_sample = UserSample()
        self.unknown_names = UnknownNames()

        # What is counted of lists. To add a table: its module, and its lines here and in `restore`. No owner refers to the task,
        # so that a task that is given up frees its memory at once: cycles are collected rarely.
        self.unique_users = UniqueUserPanes(rules.unique_users, UserCountLayout(tally_layout.scorer), rules.pane_ms)
        self.enrolments = Enrolments(rules, totals_layout, self.runs, self.unique_users, self.progress.counts)
        self.feedback_days = FeedbackDays(self.runs)
        self.on_final: list[Callable[[FinalEvents], None]] = [self.enrolments.on_final]
        if rules.experiments is not None:
            self.on_final.append(self.feedback_days.on_final)
        self.tables: Mapping[str, Reducer] = {
            PANES: self.panes,
            UNIQUE_USERS: self.unique_users,
            EXPERIMENTS: self.enrolments,
            FEEDBACK_DAYS: self.feedback_days,
        }

    @property
    def changed(self) -> bool:
        """Whether a commit has something to write."""
        return self.progress.changed or bool(self.sessions.dirty or self.sessions.put_off) or self.enrolments.changed

    def restore(self, control: bytes, rows: Rows, older: Mapping[str, AbstractSet[str]]) -> None:
        """Continue from the last commit. Raises StateError if other rules made it. For `older` see `Engine.open`."""
        stored = decode_control(control)
        _check_rules(stored, self._rules, self._signature)
        newest = stored.progress.newest
        self.progress.restore(stored.progress)
        self.panes.restore(stored.panes, rows.get(PANES, NOTHING), older.get(PANES, ()))
        self.labels.restore(stored.labels)
        self.list_labels.labelled_before = stored.labelled_before
        self.sessions.restore(stored.sessions)
        self.enrolments.restore(stored.enrolment, newest)
        if self.progress.watermark == FOREVER:
            self.enrolments.end_input(self.progress.newest_supported())
        self.unique_users.restore(stored.unique_users, newest, rows.get(UNIQUE_USERS, NOTHING), older.get(UNIQUE_USERS, ()))
        self.user_sample.restore(stored.users_sampled)
        self.unknown_names.restore(stored.unknown_names)
        self.feedback_days.restore(rows.get(FEEDBACK_DAYS, NOTHING))
        is_switched, experiments = fit_of(stored.signature, self._signature) == "switched", rows.get(EXPERIMENTS, NOTHING)
        if is_switched:
            self.enrolments.restart(newest, experiments)
        else:
            _check_ends(stored, self._rules)
            self.runs.restore(stored.labels.runs, stored.labels.ended)
            self.enrolments.restore_scopes(stored.enrolment, experiments)

    def table_changes(self, enrolled_before: int) -> dict[str, RowChanges]:
        """Return what a commit writes of all tables. `enrolled_before` (ms) is that of the commit."""
        times = TaskTimes(enrolled_before, self.panes.oldest_kept)
        return {name: table.changes(times) for name, table in self.tables.items()}

    @property
    def counted_from(self) -> int:
        """Lists before this time (ms) do not count in experiments, or as lists of unique users."""
        return max(self.enrolments.counted_from, self.unique_users.counted_from)

    def control_record(self) -> bytes:
        """Return the task's control record for the next commit."""
        self.progress.changed = False
        return encode_json(
            ControlRecord(
                rules=self._signature.rules,
                measures=self._signature.measures,
                topics=list(self._rules.topics),
                progress=self.progress.stored(),
                panes=self.panes.stored(),
                labels=self.labels.stored(),
                labelled_before=self.list_labels.labelled_before,
                sessions=self.sessions.stored(),
                enrolment=self.enrolments.stored(),
                unique_users=self.unique_users.stored(),
                users_sampled=self.user_sample.stored(),
                unknown_names=self.unknown_names.stored(),
            )
        )


def _check_rules(stored: ControlRecord, rules: EngineRules, signature: Signature) -> None:
    fit = fit_of(stored.signature, signature)
    differs = differing(f"topics[{','.join(stored.topics)}] {stored.signature}", f"topics[{','.join(rules.topics)}] {signature}")
    differs = "".join(f"\n  {line}" for line in differs.splitlines())
    if fit == "other" or stored.topics != list(rules.topics):
        raise UnfitStateError(
            f"the store holds state of other rules, and state of different rules is never merged: use a new redis.namespace{differs}"
        )
    if fit == "measures":
        raise UnfitStateError(f"the store holds experiments that are measured by other metrics: {OTHER_MEASURES}{differs}")


def _check_ends(stored: ControlRecord, rules: EngineRules) -> None:
    """Reject a later end for an experiment that has ended: its users' records may be gone, so these users would count twice."""
    if rules.experiments is None:
        return
    for experiment, _, end in stored.enrolment.spans:
        last = rules.experiments.span(experiment).last
        if end is not None and last >= end and is_behind(end - 1, rules.pane_ms, stored.enrolment.enrolled_before):
            now = "has none" if last == EVER.last else f"ends at {last + 1}"
            raise UnfitStateError(
                f"experiment {experiment!r} has ended at {end} (epoch ms) and now {now}: "
                "its users' records are deleted, and these users would count twice",
                "keep its end in experiments.named and give the new experiment another name, or use a new redis.namespace",
            )
