"""What is kept of users, as plain values. What is stored of an open session is its log; all else of it follows from the log.

Every event that extends a session has one entry in its log, in the order of arrival. Times are event times in epoch milliseconds.
Nothing here has rules: `join_rules` says what a log means, and `open_sessions` keeps sessions up to date.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec

from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.events.model import Labels
from streammetrics.sessions.engagement import NEW_LIST, Engagement
from streammetrics.sessions.exposures import UserExposures

OUTCOMES: Final = ("matched", "repeated", "orphan", "out_of_list", "too_old", "too_many_items", "list_id_reused", "place_conflict")
"""What is counted when a session closes. A session counts by `KINDS` * topic + outcome."""
KINDS: Final = len(OUTCOMES)
MATCHED, REPEATED, ORPHAN, OUT_OF_LIST, TOO_OLD, TOO_MANY_ITEMS, LIST_ID_REUSED, PLACE_CONFLICT = range(KINDS)
UNMATCHED: Final = frozenset((ORPHAN, OUT_OF_LIST, TOO_OLD))
NOTHING: Final[dict[Any, Any]] = {}
"""Never modified. Most sessions have no waiting feedback and no fragments."""

Reaction: TypeAlias = tuple[int, str, float, int, int]
"""Equal feedback on one item of a list: its place (from 0), action and greatest grade; time and topic of the first one."""
GradedPositions: TypeAlias = tuple[float, ...]
"""The 0-based positions with grades above 0, each followed by its grade: (2, 1, 0, 3.0)."""
Facts: TypeAlias = tuple[int, str, Labels, Labels, tuple[Reaction, ...], Engagement]
"""All of a list that tallies depend on: time, items, experiments, segments, reactions, engagement."""


class LogList(msgspec.Struct, array_like=True, tag=0, frozen=True, gc=False):
    """A list in a log; a fragment of one if it has positions. `topic` is the index of its topic in the configured order."""

    ts: int
    impression_id: str
    items: tuple[str, ...]
    experiments: Labels
    segments: Labels
    topic: int
    teams: tuple[str, ...] = ()
    positions: tuple[int, ...] | None = None


class LogFeedback(msgspec.Struct, array_like=True, tag=1, frozen=True, gc=False):
    """One feedback in a log, with its grade. `value` is that of a purchase, in units of `value_units`, if engagement is computed."""

    ts: int
    impression_id: str | None
    item_id: str
    action: str
    grade: float | int
    topic: int
    value: int = 0


class LogExtension(msgspec.Struct, array_like=True, tag=2, frozen=True, gc=False):
    """An event that only extends its session: an unknown action, or a copy that is later than its list."""

    ts: int


class LogLabels(msgspec.Struct, array_like=True, tag=3, frozen=True, gc=False):
    """The labels that exposures gave to the list of this time and id. It is no event."""

    ts: int
    impression_id: str
    experiments: Labels
    segments: Labels


LogEntry: TypeAlias = LogList | LogFeedback | LogExtension | LogLabels


class NoChange:
    """The type of NO_CHANGE."""


NO_CHANGE: Final = NoChange()
"""Marks a list that has not changed since it was last tallied."""


class ShownList(msgspec.Struct, gc=False, eq=False):
    """One list of an open session with the reactions to its items. `text` has the items: see `item_text`.

    `tallied` is what the tallies contain of the list: nothing yet (None), the list as it is (NO_CHANGE), or these facts. `exists` is False
    once the events of the session no longer form the list. Tuples are replaced, never modified.
    """

    ts: int
    impression_id: str
    text: str
    experiments: Labels
    segments: Labels
    topic: int
    teams: tuple[str, ...] = ()
    reactions: tuple[Reaction, ...] = ()
    engagement: Engagement = NEW_LIST
    tallied: Facts | NoChange | None = None
    exists: bool = True

    @property
    def hits(self) -> GradedPositions:
        """The greatest grade of each place, if it is above 0."""
        return hits_of(self.reactions)

    def facts(self) -> Facts:
        """Return what tallies depend on."""
        return self.ts, self.text, self.experiments, self.segments, self.reactions, self.engagement


ChangedLists: TypeAlias = list[ShownList]
"""Lists that changed since the last tally, each once."""


def mark_changed(shown_list: ShownList, changed: ChangedLists) -> None:
    """Remember what the tallies contain of a list before it changes."""
    if shown_list.tallied is NO_CHANGE:
        shown_list.tallied = shown_list.facts()
        changed.append(shown_list)


def hits_of(reactions: tuple[Reaction, ...]) -> GradedPositions:
    """Return the places with grades above 0, each followed by its greatest grade.

    >>> hits_of(((2, "click", 1, 0, 0), (0, "skip", 0, 0, 0), (2, "buy", 3.0, 0, 0)))
    (2, 3.0)
    """
    if len(reactions) == 1:
        place, _, grade, _, _ = reactions[0]
        return (place, grade) if grade > 0 else ()
    best: dict[int, float] = {}
    for place, _, grade, _, _ in reactions:
        if grade > best.get(place, 0):
            best[place] = grade
    return tuple([number for hit in best.items() for number in hit])


def pairs_of(hits: GradedPositions) -> Iterable[tuple[float, float]]:
    """Return pairs of position and grade.

    >>> list(pairs_of((2, 1, 0, 3.0)))
    [(2, 1), (0, 3.0)]
    """
    return zip(hits[::2], hits[1::2], strict=True)


ItemSpan: TypeAlias = tuple[int, int, int, str]
"""From when, and until when, a list shows an item; the list's time then, and its id."""


class JoinedId(msgspec.Struct, gc=False, eq=False):
    """The events of one impression id, and what follows from them.

    `named` is feedback with the id, `unnamed` feedback without an id that belongs to it. `labels` are those that exposures gave, by the
    list's time. `showing` says when the id shows which item, as far as that is asked. `begin` is the time of its earliest copy.
    `pieces` is the number of items of its fragments; None if it has none.
    """

    copies: list[LogList] = []
    named: list[LogFeedback] = []
    unnamed: list[LogFeedback] = []
    labels: dict[int, LogLabels] = {}
    showing: list[tuple[str, ItemSpan]] = []
    begin: int = FOREVER
    pieces: int | None = None
    has_list: bool = False
    outcomes: dict[int, int] = {}
    duplicates: dict[int, int] = {}


class UnnamedFeedback(msgspec.Struct, gc=False, eq=False):
    """The feedback without an id on one item, in order of time, and the id that each belongs to."""

    feedback: list[LogFeedback] = msgspec.field(default_factory=list)
    ids: list[str | None] = msgspec.field(default_factory=list)


class JoinedLog(msgspec.Struct, gc=False, eq=False):
    """A log by ids and items, as it was joined last, and what events touch since.

    `touched` are ids to be joined again, `touched_items` the items whose feedback from some time on may belong to another list. `showing`
    says which ids show an item, in order of time. `order` are the ids with a list or fragments by (begin, id), `first` is the id of the
    first list; both only if engagement is computed. `is_kept`: further events will be added. Otherwise all ids share `outcomes`.
    """

    is_kept: bool
    ids: dict[str, JoinedId] = msgspec.field(default_factory=dict)
    unnamed: dict[str, UnnamedFeedback] = msgspec.field(default_factory=dict)
    unnamed_last: int = NEVER
    showing: dict[str, list[ItemSpan]] = msgspec.field(default_factory=dict)
    order: list[tuple[int, str]] = msgspec.field(default_factory=list)
    first: str | None = None
    duplicates: dict[int, int] = msgspec.field(default_factory=dict)
    outcomes: dict[int, int] = msgspec.field(default_factory=dict)
    touched: dict[str, None] = msgspec.field(default_factory=dict)
    touched_items: dict[str, int] = msgspec.field(default_factory=dict)


class Session(msgspec.Struct, gc=False, eq=False):
    """One user's events without a gap longer than `gap_ms`, from `first` to `last`, inclusive.

    `size` counts the events, `relabels` the other entries of the log. `log` has all of them; its first `saved_entries`
    entries, which are `saved_bytes` long, are stored.
    Everything below follows from the log. `is_stale`: it does not say yet what the log says, and `untangle` must be called before it
    is used. Only `pieces` is always right. `joined` is how the log was joined, kept in a long session with copies or fragments.

    `lists` are in order of (time, id), the latest is at `shown_last`. `outcomes` counts by `KINDS` * topic + outcome, unless `joined` does.
    `duplicates` has the
    copies that were found by a join, by topic. `waiting` is feedback that names a list which has not come, by the list's id. `pieces` are
    the ids with fragments, or with copies that were not joined yet, and how many items the fragments have. `unnamed_last` is the time of
    the latest feedback without an id. `older`: so many first lists are never asked for again.
    """

    first: int
    last: int
    size: int = 0
    relabels: int = 0
    log: bytearray = msgspec.field(default_factory=bytearray)
    saved_bytes: int = 0
    saved_entries: int = 0
    is_stale: bool = False
    joined: JoinedLog | None = None
    lists: dict[str, ShownList] = msgspec.field(default_factory=dict)
    shown_last: int = NEVER
    outcomes: dict[int, int] = msgspec.field(default_factory=dict)
    duplicates: dict[int, int] = NOTHING
    waiting: dict[str, list[LogFeedback]] = NOTHING
    pieces: dict[str, int] = NOTHING
    unnamed_last: int = NEVER
    older: int = 0


class User(msgspec.Struct, gc=False, eq=False):
    """One user's open sessions in order of time, and the exposures that may still matter (None: the user never had one).

    `only` is the only session, or None. `wrong_partition`: the user id does not hash to the partition that its events arrive on.
    `handed_on_before`: lists before this time (ms, a pane start) have been handed on. `unlabelled_from`: lists
    from this time (ms) on do not have the variants of their exposures yet; FOREVER if there is none. `exposed_before`: exposures before
    this time (ms) are counted in the splits of their experiments. `sampled_from`: start (ms) of the period in which the user was last
    added to the task's sample of users. `recently_saved`: the user was saved since the last eviction check.

    The stored state is a whole, with `pieces` appended to it (-1: none may follow); both have so many bytes. `rewrite`: a session that is
    stored has closed, so it must be written again. `exposures_only`: it has no sessions.
    """

    wrong_partition: bool = False
    handed_on_before: int = -1
    sessions: list[Session] = msgspec.field(default_factory=list)
    only: Session | None = None
    exposures: UserExposures | None = None
    unlabelled_from: int = FOREVER
    exposed_before: int = 0
    sampled_from: int = NEVER
    recently_saved: bool = False
    pieces: int = -1
    whole_bytes: int = 0
    piece_bytes: int = 0
    rewrite: bool = False
    exposures_only: bool = False

    @property
    def is_kept(self) -> bool:
        """Whether anything of the user is stored: an open session, or an exposure."""
        return bool(self.sessions or self.exposures)
