"""One task between two commits: the rules it goes by, and all that it holds. No event is judged and nothing is stored here."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from streammetrics.engine.experiment_runs import ExperimentRules, ExperimentRuns
from streammetrics.events.event_time import DAY_MS, FOREVER, NEVER
from streammetrics.events.grades import GradeRules
from streammetrics.events.model import Labels
from streammetrics.sessions.rules import JoinRules
from streammetrics.sessions.shown_list import ChangedLists, ShownList
from streammetrics.sessions.user import User
from streammetrics.windows.final_lists import FinalList
from streammetrics.windows.panes import Group, Panes, groups_of
from streammetrics.windows.unique_users import PaneUserCountsByStart, UniqueUserRules

LABEL_SETS_MAX = 10_000
"""How many label sets a task remembers the groups of; a speed-up only, so it may forget them all."""


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
    experiments: ExperimentRules | None = None
    """None: experiments have windows and totals as every group has, and no users are counted in them."""
    reach: UniqueUserRules | None = None
    """None: no users are counted in windows."""
    decoding: str = "native"
    """How bytes become events, in words: state of events that were read in another way is state of other rules."""

    @property
    def entering_ms(self) -> int:
        """How far behind the bound of closed sessions the end of a pane lies whose lists enter, session or no session."""
        return self.join.attribution_ms + max(
            [rules.patience_ms for rules in (self.experiments, self.reach) if rules is not None], default=0
        )

    def counts_users(self, experiments: Labels) -> bool:
        """Whether a list of these experiments enters anything."""
        return self.reach is not None or (self.experiments is not None and bool(experiments))

    def describe(self) -> str:
        """One line that names every rule, to tell whether stored state was made by the same ones."""
        join = self.join
        return (
            f"grades[{self.grades.text}] gap={join.gap_ms} attribution={join.attribution_ms} session_events={join.session_events_max} "
            f"lists_open={join.lists_open_max} items={join.items_max} out_of_orderness={self.out_of_orderness_ms} "
            f"lateness={self.lateness_ms} future={self.future_ms} pane={self.pane_ms} segments[{listed(self.segments)}] "
            f"events[{self.decoding}]"
        )


def listed(names: Iterable[str]) -> str:
    """Names with commas between them, so that no other names read the same: one that is not plain stands as JSON.

    >>> listed(["surface", "app version"]), listed(["a", "b"]), listed(["a,b"])
    ('surface,app version', 'a,b', '"a,b"')
    """
    return ",".join(json.dumps(name) if any(mark in name for mark in ',"[]') else name for name in names)


class LabelSetEntry:
    """The groups of one label set, the oldest and the newest time it was shown since that was noted, and how far it is known.

    A list from `known_from` to `known_until` belongs to lives of experiments that are known to be there; any other must be asked for.
    """

    __slots__ = ("arms", "groups", "known_from", "known_until", "newest", "oldest")

    def __init__(self, groups: tuple[Group, ...], arms: Labels) -> None:
        self.groups = groups
        self.arms = arms
        self.newest, self.oldest = NEVER, FOREVER
        self.known_from, self.known_until = (FOREVER, NEVER) if arms else (NEVER, FOREVER)


class TaskState:
    """One task between two commits: users at hand, panes that may still change, and where its inputs stand.

    Users without sessions stay as tombstones until they are saved. `dirty` are those that the next commit writes.
    """

    def __init__(self, topics: int) -> None:
        self.users: dict[str, User] = {}
        self.dirty: dict[str, User] = {}
        self.touched: ChangedLists = []
        """Lists that have changed since the last commit, and so must be tallied with the next one."""
        self.due_moved: set[str] = set()
        self.next_due = NEVER
        self.due_asked = False
        self.panes: Panes = {}
        self.panes_finalized: Panes = {}
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
        self.runs = ExperimentRuns(0)
        self.finalized: dict[str, list[FinalList]] = {}
        """By user: lists that have become final since the last commit, and so enter the user's totals with the next one."""
        self.records: dict[str, bytes | None] = {}
        """The stored totals of the users that are looked at since the last commit; None: there are none."""
        self.cells_dirty: set[tuple[int, int]] = set()
        self.cells_gone: set[tuple[int, int]] = set()
        self.entered_before = NEVER
        self.counted_from = NEVER
        """The least time of lists that count in experiments (ms): what was shown before they were switched on does not."""
        self.entering_ms = 0
        """The greatest time that lists have to wait, under the rules or under former ones that some lists came under."""
        self.promised_until = NEVER
        """The time up to which lists may have come under former rules (ms)."""
        self.reaches: PaneUserCountsByStart = {}
        """Of the panes of which lists may still enter."""
        self.reaches_dirty: set[int] = set()
        self.reach_from = NEVER
        """The least time of lists that count in the reach of panes (ms): the start of a pane."""
        self.joined: dict[int, list[int]] = {}
        """By the UTC day (from the epoch) in which a session ended: how much of its feedback counts for a list, and how much for none."""
        self.since: dict[Group, int] = {}
        """No list of a group that is known since is older: what an earlier life of the group left does not enter its totals."""
        self.label_sets: dict[tuple[Labels, Labels], LabelSetEntry] = {}
        self.changed = False
        self.sessions_open = 0

    def leave(self, user_id: str, user: User, lists: Iterable[ShownList], rules: EngineRules) -> None:
        """Let those of a user's lists that are now final enter his totals, if they are of use there and have not entered yet.

        Of use are lists that have experiments, and lists of a time before one whose users have covariates; all, where users of windows
        are counted. Those of a time before wait for no look of their own: they enter with the first list after them that does, and
        nothing is asked of them before.
        """
        waiting, experiments, entered = self.finalized.setdefault(user_id, []), rules.experiments, user.enrolled_before
        if rules.reach is None and experiments is not None and experiments.earlier:
            lists = [shown for shown in lists if shown.impression.experiments or experiments.is_earlier(shown.ts)]
        elif rules.reach is None:
            lists = [shown for shown in lists if shown.impression.experiments]
        waiting += [FinalList.of(shown) for shown in lists if shown.ts >= entered]

    def note_joined(self, ended: int, matched: int, unmatched: int) -> None:
        """Remember how the feedback of a session fared whose last event was at `ended` (ms)."""
        of_day = self.joined.setdefault(ended // DAY_MS, [0, 0])
        of_day[0] += matched
        of_day[1] += unmatched

    def forget_joined(self) -> None:
        """Drop the days before every experiment, and before the panes that are kept."""
        first = min([self.oldest_kept, *(run.first for run in self.runs)]) // DAY_MS
        for day in [day for day in self.joined if day < first]:
            del self.joined[day]

    def label(self, experiments: Labels, segments: Labels, rules: EngineRules) -> LabelSetEntry | None:
        """What a label set that is new stands for; None when its groups would be more than a task may hold.

        Groups that were not shown for as long as panes are kept make room, as far as the watermark has come. Nothing is held before `hold`.
        """
        groups = groups_of(experiments, segments, rules.segments)
        if self._too_many(groups, rules):
            self.note_newest()
            self._forget_groups(self.watermark - rules.retention_ms)
            if self._too_many(groups, rules):
                return None
        return LabelSetEntry(groups, experiments if rules.experiments is not None else ())

    def _too_many(self, groups: Iterable[Group], rules: EngineRules) -> bool:
        return len(self.groups) + sum(group not in self.groups for group in groups) > rules.groups_max

    def hold(self, label_sets: LabelSetEntry, experiments: Labels, segments: Labels, ts: int, rules: EngineRules) -> None:
        """Hold a label set, and its groups, from its first list that is admitted."""
        for group in label_sets.groups:
            if group not in self.groups:
                self.groups[group] = ts
                self.since[group] = NEVER if self.watermark == NEVER else self.watermark - rules.lateness_ms
        if len(self.label_sets) >= LABEL_SETS_MAX:
            self.note_newest()
            self.label_sets.clear()
        self.label_sets[experiments, segments] = label_sets

    def has_room(self, label_sets: LabelSetEntry, ts: int, rules: ExperimentRules, closed_before: int) -> bool:
        """Whether a list of these experiments would leave no more variants than a task may hold; lives that are over make room."""
        for _ in range(2):
            if self.runs.variants() + self.runs.new_variants(label_sets.arms, ts) <= rules.variants_max:
                return True
            self.note_newest()
            self.end_runs(closed_before)
        return False

    def end_runs(self, bound: int) -> None:
        """Drop the lives that are over, and what is stored of them. What users hold of them goes when they are looked at next."""
        for run in self.runs.drop_ended(bound):
            cells = {(run.number, day) for day in run.scopes}
            self.cells_gone |= cells
            self.cells_dirty -= cells

    def extend_runs(self, label_sets: LabelSetEntry, ts: int) -> None:
        """Count a list in the lives of its experiments, and learn which other lists these hold."""
        if not all(len(self.runs.of_name.get(name, ())) == 1 and self.runs.near(name, ts) for name, _ in label_sets.arms):
            self.note_newest()
        runs = [self.runs.extend(experiment, variant, ts) for experiment, variant in label_sets.arms]
        label_sets.known_from = max(run.first for run in runs) - self.runs.idle_ms
        label_sets.known_until = min(run.last for run in runs) + self.runs.idle_ms

    def note_newest(self) -> None:
        """Bring the groups' newest times, and the lives of experiments, up to date from the label sets that were shown."""
        for label_sets in self.label_sets.values():
            if label_sets.newest == NEVER:
                continue
            for group in label_sets.groups:
                if self.groups.get(group, NEVER) < label_sets.newest:
                    self.groups[group] = label_sets.newest
            for experiment, variant in label_sets.arms:
                self.runs.extend(experiment, variant, label_sets.oldest)
                self.runs.extend(experiment, variant, label_sets.newest)
            label_sets.newest, label_sets.oldest = NEVER, FOREVER

    def _forget_groups(self, before: int) -> None:
        for group in [group for group, newest in self.groups.items() if newest < before]:
            del self.groups[group], self.since[group]
            if not group.segment:
                self.totals.pop((group.experiment, group.variant), None)
        self.label_sets.clear()
