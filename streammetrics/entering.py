"""Lists that have become final -> the totals of their users -> the moments of experiments, and the reach of panes, once between two
commits.

Pure. A list enters when its session has closed, or some patience after its pane is final, whichever is first, and changes no
more; of one user's lists the earlier never enter after the later. So his first exposure is that of the first list that enters, and
his totals only grow, until a list shows him a second variant: then they are withdrawn, and he is counted among those who saw
several.

All users that are looked at between two commits are taken together: what each adds was known at the last commit (before) and is
known now (after), and the moments change by the difference. Integers only, so the order of users and of commits cannot matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streammetrics.copies import Labels
from streammetrics.experiments.measures import Measures
from streammetrics.experiments.moments import TOTAL_MAX, add, of_users, subtract, zero
from streammetrics.lives import DAY_MS, WHOLE, ExperimentRules, Life
from streammetrics.presence import Presence, PresenceRound
from streammetrics.scoring import Layout, Shape, score
from streammetrics.sessions import ShownList
from streammetrics.state import StoredTotals, decode_totals, encode_totals
from streammetrics.task import TaskState
from streammetrics.windows import FOREVER, NEVER

LISTS_MAX: Final = 1 << 22
"""Lists of one user in one scope; more could bring sums of values up to 1, in units of 2**-40, to TOTAL_MAX. They are counted."""


class UserLayout:
    """Which columns of the scorer users' totals hold, what is measured of them, and how many lists of a user they can hold."""

    def __init__(self, layout: Layout, metrics: Sequence[str]) -> None:
        self.layout, scorer, wanted = layout, layout.scorer, set(metrics)
        columns = [index for index, column in enumerate(scorer.columns) if not wanted or str(column.metric) in wanted]
        self.places = [2 + index for index in columns]
        self.measures = Measures([scorer.columns[index] for index in columns])
        deepest = max(column.metric.k or 1 for column in scorer.columns)
        best = scorer.score_list([scorer.grade_max] * min(deepest, scorer.items_max))
        self.lists_max = min(LISTS_MAX, TOTAL_MAX // max(best))


class Settled(NamedTuple):
    """What users' totals come to: those to store, those of whom nothing is left, and until when the rest is of use (event time, ms)."""

    totals: dict[str, bytes]
    gone: list[str]
    until: dict[str, int]


class _Entry:
    """What one user adds to one scope of a life. `place` is its row in the matrices once it changes; `packed` its sums before."""

    __slots__ = ("lists", "packed", "place", "variant")

    def __init__(self, variant: str | None, lists: int, packed: bytes) -> None:
        self.variant = variant
        self.lists = lists
        self.packed = packed
        self.place = -1


_Entries = dict[tuple[int, int], _Entry]
_Known = dict[tuple[Labels, int], tuple[int, int, list[_Entry]]]
_UNKNOWN: Final[tuple[int, int, list[_Entry]]] = (FOREVER, NEVER, [])


class Round:
    """All users that were looked at since the last commit, on their way into the moments."""

    def __init__(self, state: TaskState, rules: ExperimentRules, layout: UserLayout, pane_ms: int) -> None:
        self.state, self.rules, self.layout = state, rules, layout
        self.pane_ms = pane_ms
        self.day_from = NEVER if state.oldest_kept == NEVER else state.oldest_kept // DAY_MS
        self.lasting: dict[tuple[int, int], bool] = {}
        self.shapes: dict[Shape, int] = {}
        self.placed: list[_Entry] = []
        self.before: list[tuple[int, int, bytes]] = []
        """Row, lists and packed sums of those who added something at the last commit."""
        self.rows: list[int] = []
        self.added: list[int] = []
        """By list that is added: the row, and the number of its shape."""
        self.leaves: dict[tuple[Life, int, str], list[int]] = {}
        self.joins: dict[tuple[Life, int, str], list[int]] = {}

    def read(self, told: Iterable[StoredTotals]) -> _Entries:
        """A user's entries that may still be of use."""
        lasting = self.lasting
        entries: _Entries = {}
        for number, day, variant, lists, packed in told:
            key = (number, day)
            lasts = lasting.get(key)
            if lasts is None:
                lasts = lasting[key] = self._lasts(number, day)
            if lasts:
                entries[key] = _Entry(variant, lists, packed)
        return entries

    def _lasts(self, number: int, day: int) -> bool:
        """Whether some list may still enter a scope: it is there, and its end is not yet behind all lists that have entered."""
        life = self.state.lives.of_number.get(number)
        if life is None or (day != WHOLE and day < self.day_from):
            return False
        last = self.rules.span(life.experiment).last
        if day != WHOLE:
            last = min(last, (day + 1) * DAY_MS - 1)
        return last + self.pane_ms >= self.state.entered_before

    def enter(self, entries: _Entries, lists: Sequence[ShownList]) -> None:
        """Let the lists of a user enter; they come in the order of (ts, impression_id)."""
        known: _Known = {}
        shapes, rows, added, lists_max = self.shapes, self.rows, self.added, self.layout.lists_max
        for shown in lists:
            ts, hits = shown.ts, shown.hits
            key = (shown.facts.experiments, ts // DAY_MS)
            first, last, targets = known.get(key, _UNKNOWN)
            if not first <= ts <= last:
                first, last, targets = known[key] = self._targets(entries, shown, known)
            if not targets:
                continue
            assert hits is not None
            shape = shapes.setdefault((len(shown.items), *hits.items()), len(shapes))
            for entry in targets:
                if entry.lists < lists_max:
                    entry.lists += 1
                    rows.append(entry.place)
                    added.append(shape)
                else:
                    self.state.counts["experiment_lists_full", shown.facts.topic] += 1

    def _targets(self, entries: _Entries, shown: ShownList, known: _Known) -> tuple[int, int, list[_Entry]]:
        """The entries that a list is added to, and the times from and until which a list of its labels on its day is added to the same.

        A variant that is not the user's first empties his entry, and all that was known of where his lists go.
        """
        ts = shown.ts
        first, last, targets = NEVER, FOREVER, []
        for experiment, variant in shown.facts.experiments:
            life, span = self.state.lives.at(experiment, ts), self.rules.span(experiment)
            if life is None or not span.holds(ts) or ts < self.state.counted_from:
                first = last = ts
                continue
            first, last = max(first, life.first, span.first, self.state.counted_from), min(last, life.last, span.last)
            for day in (WHOLE, ts // DAY_MS) if ts // DAY_MS >= self.day_from else (WHOLE,):
                entry = entries.get((life.number, day))
                if entry is None:
                    entry = entries[life.number, day] = _Entry(variant, 0, b"")
                    exposures = life.scope(day).first_exposures
                    exposures[variant] = exposures.get(variant, 0) + 1
                if entry.variant is None:
                    continue
                if entry.place < 0:
                    self._place(entry, life, day)
                if entry.variant == variant:
                    targets.append(entry)
                else:  # what he added is taken out, and he adds nothing more
                    entry.variant, entry.lists, entry.packed = None, 0, b""
                    life.scope(day).multi_exposed += 1
                    known.clear()
        return first, last, targets

    def _place(self, entry: _Entry, life: Life, day: int) -> None:
        assert entry.variant is not None
        entry.place = len(self.placed)
        self.placed.append(entry)
        key = (life, day, entry.variant)
        self.joins.setdefault(key, []).append(entry.place)
        if entry.lists:
            self.before.append((entry.place, entry.lists, entry.packed))
            self.leaves.setdefault(key, []).append(entry.place)

    def sum(self) -> None:
        """Bring the moments, and the packed sums of all that changed, up to date."""
        if not self.placed:
            return
        measures = self.layout.measures
        before = np.zeros((len(self.placed), measures.totals_width), dtype=np.int64)
        if self.before:
            places = [place for place, _, _ in self.before]
            before[places, 0] = [lists for _, lists, _ in self.before]
            before[places, 1:] = unpack([packed for _, _, packed in self.before], measures.totals_width - 1)
        after = before.copy()
        if self.added:
            values = score(list(self.shapes), self.layout.layout)[:, self.layout.places]
            rows = np.array(self.rows, dtype=np.int64)
            after[:, 0] += np.bincount(rows, minlength=len(after))
            np.add.at(after[:, 1:], rows, values[np.array(self.added, dtype=np.int64)])
        for key in self.joins:
            life, day, variant = key
            moments = life.scope(day).moments
            known = moments.get(variant) or zero(measures)
            joined = of_users(measures, after[[place for place in self.joins[key] if self.placed[place].variant is not None]])
            left = of_users(measures, before[self.leaves.get(key, [])])
            moments[variant] = add(known, subtract(joined, left))
            self.state.cells_dirty.add((life.number, day))
        for entry, packed in zip(self.placed, pack(after[:, 1:]), strict=True):
            if entry.variant is not None:
                entry.packed = packed


class Looks(NamedTuple):
    """What users are looked at for: experiments, the reach of panes, or both."""

    experiments: Round | None = None
    reach: PresenceRound | None = None


def settle(state: TaskState, looks: Looks, *, pane_ms: int, settling_ms: int, bound: int) -> Settled:
    """Let all lists that wait enter; afterwards nobody is looked at any more. `bound` is that of sessions that are over (ms).

    Every user whose lists wait must have been looked at, so that his totals are known.
    """
    assert state.leaving.keys() <= state.records.keys(), "lists of a user entered whose totals are not known"
    known = {user_id: _enter(state, looks, user_id, stored, pane_ms, bound) for user_id, stored in state.records.items()}
    until: dict[int, int] = {}
    if looks.experiments is not None:
        looks.experiments.sum()
        until = {life.number: _until(life, looks.experiments.rules, settling_ms) for life in state.lives}
    if looks.reach is not None:
        state.reaches_dirty |= looks.reach.sum(state.reaches)
    settled = Settled({}, [], {})
    for user_id, (entries, presence, changed) in known.items():
        nothing_comes = bound == FOREVER and not state.users[user_id].sessions  # after a flush
        if nothing_comes or not (entries or presence):
            if state.records[user_id] is not None:
                settled.gone.append(user_id)
            continue
        if changed:
            totals = [(*key, each.variant, each.lists, each.packed) for key, each in entries.items()]
            settled.totals[user_id] = encode_totals(totals, [] if looks.reach is None else looks.reach.stored(presence))
        if entries:  # what else there is may stay as long
            settled.until[user_id] = max(bound, min([until[number] for number, _ in entries]))
        elif looks.reach is not None:
            settled.until[user_id] = max(bound, looks.reach.matters_until(presence))
    state.leaving, state.records = {}, {}
    return settled


def _enter(state: TaskState, looks: Looks, user_id: str, stored: bytes | None, pane_ms: int, bound: int) -> tuple[_Entries, Presence, bool]:
    """Let the lists of a user enter, if any wait; returns what he has then, and whether it is other than what is stored."""
    totals, presences = ([], []) if stored is None else decode_totals(stored)
    waiting = sorted(state.leaving.get(user_id, ()), key=_in_order)
    entries = {} if looks.experiments is None else looks.experiments.read(totals)
    presence: Presence = {}
    if looks.reach is not None and presences:
        oldest = waiting[0].ts if waiting else state.entered_before if state.users[user_id].sessions else bound
        presence = looks.reach.read(presences, oldest // pane_ms)
    if not waiting:
        return entries, presence, len(entries) + len(presence) < len(totals) + len(presences)
    if looks.experiments is not None:
        looks.experiments.enter(entries, waiting)
    if looks.reach is not None:
        looks.reach.enter(presence, waiting)
    return entries, presence, True


def _in_order(shown: ShownList) -> tuple[int, str]:
    return shown.ts, shown.facts.impression_id


def _until(life: Life, rules: ExperimentRules, settling_ms: int) -> int:
    """When a user's part in a life is worth a look (ms): it may be over then."""
    last, end = life.last + rules.idle_ms, rules.span(life.experiment).end_ms
    return last if end is None else min(last, end + 2 * settling_ms)


def pack(sums: npt.NDArray[np.int64]) -> list[bytes]:
    """Rows of whole numbers as bytes: a bit for each number that is not 0, then those numbers. Most users have few.

    >>> [len(row) for row in pack(np.array([[0, 0, 7], [1, 2, 3]]))]
    [9, 25]
    """
    used = sums != 0
    bits = np.packbits(used, axis=1)
    ends = (np.cumsum(used.sum(axis=1)) * 8).tolist()
    numbers, flags, width = sums[used].astype("<i8").tobytes(), bits.tobytes(), bits.shape[1]
    return [
        flags[row * width : (row + 1) * width] + numbers[start:end] for row, (start, end) in enumerate(zip([0, *ends], ends, strict=False))
    ]


def unpack(packed: Sequence[bytes], columns: int) -> npt.NDArray[np.int64]:
    """The rows that were packed: shape (rows, columns).

    >>> unpack(pack(np.array([[0, 0, 7], [1, -2, 3]])), 3).tolist()
    [[0, 0, 7], [1, -2, 3]]
    """
    width = (columns + 7) // 8
    flags = np.frombuffer(b"".join([row[:width] for row in packed]), dtype=np.uint8).reshape(len(packed), width)
    used = np.unpackbits(flags, axis=1)[:, :columns].astype(bool)
    sums = np.zeros((len(packed), columns), dtype=np.int64)
    sums[used] = np.frombuffer(b"".join([row[width:] for row in packed]), dtype="<i8")
    return sums
