"""One task between two commits: the rules it goes by, and all that it holds. No event is judged and nothing is stored here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from streammetrics.copies import Labels
from streammetrics.grades import GradeRules
from streammetrics.sessions import JoinRules, User
from streammetrics.windows import NEVER, Group, Panes, groups_of

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
    decoding: str = "native"
    """How bytes become events, in words: state of events that were read in another way is state of other rules."""

    def describe(self) -> str:
        """One line that names every rule, to tell whether stored state was made by the same ones."""
        join = self.join
        return (
            f"grades[{self.grades.text}] gap={join.gap_ms} attribution={join.attribution_ms} session_events={join.session_events_max} "
            f"lists_open={join.lists_open_max} items={join.items_max} out_of_orderness={self.out_of_orderness_ms} "
            f"lateness={self.lateness_ms} future={self.future_ms} pane={self.pane_ms} segments[{','.join(self.segments)}] "
            f"events[{self.decoding}]"
        )


class Labelled:
    """The groups of one label set, and the newest time it was shown."""

    __slots__ = ("groups", "newest")

    def __init__(self, groups: tuple[Group, ...]) -> None:
        self.groups = groups
        self.newest = NEVER


class TaskState:
    """One task between two commits: users at hand, panes that may still change, and where its inputs stand.

    `users` is ordered by last commit, oldest first; users without sessions stay as tombstones until they are saved.
    """

    def __init__(self, topics: int) -> None:
        self.users: dict[str, User] = {}
        self.dirty: set[str] = set()
        self.due_moved: set[str] = set()
        self.next_due = NEVER
        self.due_asked = False
        self.panes: Panes = {}
        self.panes_leaving: Panes = {}
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
        self.since: dict[Group, int] = {}
        """No list of a group that is known since is older: what an earlier life of the group left does not enter its totals."""
        self.labelled: dict[tuple[Labels, Labels], Labelled] = {}
        self.changed = False
        self.sessions_open = 0

    def label(self, experiments: Labels, segments: Labels, ts: int, rules: EngineRules) -> Labelled | None:
        """Admit a label set; None when its groups would be more than a task may hold.

        Groups that were not shown for as long as panes are kept make room, as far as the watermark has come.
        """
        groups = groups_of(experiments, segments, rules.segments)
        new = [group for group in groups if group not in self.groups]
        if len(self.groups) + len(new) > rules.groups_max:
            self.note_newest()
            self._forget_groups(self.watermark - rules.retention_ms)
            new = [group for group in groups if group not in self.groups]
            if len(self.groups) + len(new) > rules.groups_max:
                return None
        for group in new:
            self.groups[group] = ts
            self.since[group] = NEVER if self.watermark == NEVER else self.watermark - rules.lateness_ms
        if len(self.labelled) >= LABEL_SETS_MAX:
            self.note_newest()
            self.labelled.clear()
        labelled = self.labelled[experiments, segments] = Labelled(groups)
        return labelled

    def note_newest(self) -> None:
        """Bring the groups' newest times up to date from the label sets that were shown."""
        for labelled in self.labelled.values():
            for group in labelled.groups:
                if self.groups.get(group, NEVER) < labelled.newest:
                    self.groups[group] = labelled.newest

    def _forget_groups(self, before: int) -> None:
        for group in [group for group, newest in self.groups.items() if newest < before]:
            del self.groups[group], self.since[group]
            if not group.segment:
                self.totals.pop((group.experiment, group.variant), None)
        self.labelled.clear()
