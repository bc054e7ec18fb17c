"""What the lists of users that enter add to their totals, and these to the moments of experiments: all users of one commit together.

Pure. A user's first exposure is that of the first list that enters, and his totals only grow, until a list shows him a second variant:
then they are withdrawn, and he is counted among those who saw several.

With variance reduction, a user's lists before an experiment are summed beside it, with whatever labels; as the earlier enter first,
that sum is complete and changes no more when his first list of the experiment enters. With interleaving, the lists of the variant
INTERLEAVED have a credit as well, by pair of teams.

What each user adds was known at the last commit (before) and is known now (after), and the moments change by the difference. Integers
only, so the order of users and of commits cannot matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt

from streammetrics.event_time import DAY_MS, FOREVER, NEVER
from streammetrics.events.model import Labels
from streammetrics.experiment_lives import WHOLE, Earlier, ExperimentRules, Life, Scope, is_behind
from streammetrics.experiments.interleaving import CREDIT_WIDTH, INTERLEAVED, add_credits, list_credit
from streammetrics.experiments.measures import Measures
from streammetrics.experiments.moments import TOTAL_MAX, add, of_users, subtract, zero
from streammetrics.metrics import TallyLayout
from streammetrics.presence import Presence
from streammetrics.scoring import Shape, score
from streammetrics.sessions import ShownList
from streammetrics.state import StoredEarlier, StoredTotals
from streammetrics.task import TaskState

_Totals = npt.NDArray[np.int64]

LISTS_MAX: Final = 1 << 22
"""Lists of one user in one scope; more could bring sums of values up to 1, in units of 2**-40, to TOTAL_MAX. They are counted."""
TEAMS_MAX: Final = 8
"""Teams of a list that are compared with each other; a list of more compares nothing, and is counted."""
TEAM_PAIRS_MAX: Final = 64
"""Pairs of teams of one life, in all or on one day; lists of further pairs are counted, and which pairs are further depends on order."""


class UserLayout:
    """Which columns of the scorer users' totals hold, what is measured of them, and how many lists of a user they can hold."""

    def __init__(self, layout: TallyLayout, metrics: Sequence[str]) -> None:
        self.layout, scorer, wanted = layout, layout.scorer, set(metrics)
        columns = [index for index, column in enumerate(scorer.columns) if not wanted or str(column.metric) in wanted]
        self.places = [layout.place_of(index) for index in columns]
        self.measures = Measures([scorer.columns[index] for index in columns])
        deepest = max(column.metric.k or 1 for column in scorer.columns)
        best = scorer.score_list([scorer.grade_max] * min(deepest, scorer.items_max))
        self.lists_max = min(LISTS_MAX, TOTAL_MAX // max(best))
        self.relevant_grade = scorer.spec.relevance_threshold

    def measures_of(self, life: Life) -> Measures:
        """The layout of the moments of a life."""
        return self.measures if life.earlier is None else self.measures.with_covariates


class _Entry:
    """What one user adds to one scope of a life. `place` is its row in the matrices once it changes; `packed` its sums before.

    `credits` are lists and credit by pair of teams; `earlier` is the user's time before the experiment, where that is of use.
    """

    __slots__ = ("credits", "earlier", "lists", "packed", "place", "scope", "variant")

    def __init__(self, variant: str | None, lists: int, packed: bytes) -> None:
        self.variant = variant
        self.lists = lists
        self.packed = packed
        self.place = -1
        self.credits: _Credits = {}
        self.scope: Scope | None = None
        self.earlier: _Entry | None = None


class UserRecord:
    """All that is kept of one user. `changed`: it is not what is stored."""

    __slots__ = ("changed", "earlier", "entries", "presence")

    def __init__(self) -> None:
        self.entries: _Entries = {}
        self.earlier: dict[Earlier, _Entry] = {}
        self.presence: Presence = {}
        self.changed = False

    def stored(self) -> tuple[list[StoredTotals], list[StoredEarlier]]:
        """What is to be kept of experiments, once all users are summed."""
        totals: list[StoredTotals] = [
            (*key, each.variant, each.lists, each.packed, [(*pair, *sums) for pair, sums in each.credits.items()])
            for key, each in self.entries.items()
        ]
        return totals, [(time, each.lists, each.packed) for time, each in self.earlier.items()]


_Credits = dict[tuple[str, str], tuple[int, int]]
_Entries = dict[tuple[int, int], _Entry]
_Known = dict[tuple[Labels, int], tuple[int, int, list[_Entry]]]
_UNKNOWN: Final[tuple[int, int, list[_Entry]]] = (FOREVER, NEVER, [])


class TotalsRound:
    """All users that were looked at since the last commit, on their way into the moments."""

    def __init__(self, state: TaskState, rules: ExperimentRules, layout: UserLayout, pane_ms: int) -> None:
        self.state, self.rules, self.layout = state, rules, layout
        self.pane_ms = pane_ms
        self.day_from = NEVER if state.oldest_kept == NEVER else state.oldest_kept // DAY_MS
        self.lasting: dict[tuple[int, int] | Earlier, bool] = {}
        self.shapes: dict[Shape, int] = {}
        self.placed: list[_Entry] = []
        self.before: list[tuple[int, int, bytes]] = []
        """Row, lists and packed sums of those who added something at the last commit."""
        self.rows: list[int] = []
        self.added: list[int] = []
        """By list that is added: the row, and the number of its shape."""
        self.leaves: dict[tuple[Life, int, str], list[int]] = {}
        self.joins: dict[tuple[Life, int, str], list[int]] = {}

    def read(self, record: UserRecord, told: Iterable[StoredTotals], earlier: Iterable[StoredEarlier]) -> None:
        """Take what may still be of use of a user's record."""
        lasting, entries = self.lasting, record.entries
        for number, day, variant, lists, packed, credits in told:
            key = (number, day)
            lasts = lasting.get(key)
            if lasts is None:
                lasts = lasting[key] = self._lasts(number, day)
            if lasts:
                entry = entries[key] = _Entry(variant, lists, packed)
                if credits:
                    entry.credits = {(one, other): (shown, credit) for one, other, shown, credit in credits}
        for time, lists, packed in earlier:
            if self._is_wanted(time):
                record.earlier[time] = _Entry("", lists, packed)

    def _lasts(self, number: int, day: int) -> bool:
        """Whether some list may still enter a scope: it is there, and its end is not yet behind all lists that have entered."""
        life = self.state.lives.of_number.get(number)
        if life is None or (day != WHOLE and day < self.day_from):
            return False
        last = self.rules.span(life.experiment).last
        if day != WHOLE:
            last = min(last, (day + 1) * DAY_MS - 1)
        return not is_behind(last, self.pane_ms, self.state.entered_before)

    def _is_wanted(self, earlier: Earlier) -> bool:
        """Whether a life has covariates of a time, or may still come to have them."""
        if earlier not in self.lasting:
            self.lasting[earlier] = self._may_be_asked_for(earlier)
        return self.lasting[earlier]

    def _may_be_asked_for(self, earlier: Earlier) -> bool:
        rules, entered = self.rules, self.state.entered_before
        if is_behind(rules.span(earlier.experiment).last, self.pane_ms, entered):
            return False
        if any(life.earlier == earlier for life in self.state.lives.of_name.get(earlier.experiment, ())):
            return True
        return earlier in rules.earlier and (
            earlier.start_ms + rules.idle_ms >= entered
            or any(not life.scopes and rules.in_time(earlier, life) for life in self.state.lives.of_name.get(earlier.experiment, ()))
        )

    def enter(self, record: UserRecord, lists: Sequence[ShownList]) -> None:
        """Let the lists of a user enter; they come in the order of (ts, impression_id)."""
        if self.rules.earlier:
            self._enter_earlier(record, lists)
        known: _Known = {}
        shapes, rows, added, lists_max = self.shapes, self.rows, self.added, self.layout.lists_max
        for shown in lists:
            ts, hits = shown.ts, shown.hits
            key = (shown.facts.experiments, ts // DAY_MS)
            first, last, targets = known.get(key, _UNKNOWN)
            if not first <= ts <= last:
                first, last, targets = known[key] = self._targets(record, shown, known)
            if not targets:
                continue
            assert hits is not None
            if shown.facts.teams:
                self._enter_credit(shown, targets)
            shape = shapes.setdefault((len(shown.items), *hits.items()), len(shapes))
            for entry in targets:
                if entry.lists < lists_max:
                    entry.lists += 1
                    rows.append(entry.place)
                    added.append(shape)
                else:
                    self.state.counts["experiment_lists_full", shown.facts.topic] += 1

    def _enter_earlier(self, record: UserRecord, lists: Sequence[ShownList]) -> None:
        """Sum the lists of the times before experiments."""
        for time in self.rules.earlier:
            of_time = [shown for shown in lists if time.holds(shown.ts) and shown.ts >= self.state.counted_from]
            if not of_time or not self._is_wanted(time):
                continue
            entry = record.earlier.setdefault(time, _Entry("", 0, b""))
            if entry.place < 0:
                self._place_alone(entry)
            for shown in of_time:
                assert shown.hits is not None
                if entry.lists < self.layout.lists_max:
                    entry.lists += 1
                    self.rows.append(entry.place)
                    self.added.append(self.shapes.setdefault((len(shown.items), *shown.hits.items()), len(self.shapes)))
                else:
                    self.state.counts["experiment_lists_full", shown.facts.topic] += 1

    def _enter_credit(self, shown: ShownList, targets: Iterable[_Entry]) -> None:
        """Give an interleaved list's credit to each pair of its teams, before the list itself is added."""
        facts, hits = shown.facts, shown.hits
        assert hits is not None
        wanted = [entry for entry in targets if entry.variant == INTERLEAVED and entry.lists < self.layout.lists_max]
        teams = sorted({*facts.teams} - {""}) if wanted else []
        if len(teams) > TEAMS_MAX:
            self.state.counts["too_many_teams", facts.topic] += 1
            return
        grades = [hits.get(position, 0) for position in range(len(facts.teams))]
        for one, other in combinations(teams, 2):
            credit = list_credit(facts.teams, grades, one, other, self.layout.relevant_grade)
            assert credit is not None
            for entry in wanted:
                assert entry.scope is not None
                if (one, other) in entry.scope.credits or len(entry.scope.credits) < TEAM_PAIRS_MAX:
                    entry.scope.credits.setdefault((one, other), [0] * CREDIT_WIDTH)
                    before = entry.credits.get((one, other), (0, 0))
                    entry.credits[one, other] = before[0] + 1, before[1] + credit
                else:
                    self.state.counts["too_many_teams", facts.topic] += 1

    def _targets(self, record: UserRecord, shown: ShownList, known: _Known) -> tuple[int, int, list[_Entry]]:
        """The entries that a list is added to, and the times from and until which a list of its labels on its day is added to the same.

        A variant that is not the user's first empties his entry, and all that was known of where his lists go.
        """
        ts, entries = shown.ts, record.entries
        first, last, targets = NEVER, FOREVER, []
        for experiment, variant in shown.facts.experiments:
            life, span = self.state.lives.at(experiment, ts), self.rules.span(experiment)
            if life is None or not span.holds(ts) or ts < self.state.counted_from:
                first = last = ts
                continue
            first, last = max(first, life.first, span.first, self.state.counted_from), min(last, life.last, span.last)
            if not life.scopes:
                life.earlier = self.rules.before(life)
            for day in (WHOLE, ts // DAY_MS) if ts // DAY_MS >= self.day_from else (WHOLE,):
                entry = entries.get((life.number, day))
                if entry is None:
                    entry = entries[life.number, day] = _Entry(variant, 0, b"")
                    exposures = life.scope(day).first_exposures
                    exposures[variant] = exposures.get(variant, 0) + 1
                if entry.variant is None:
                    continue
                if entry.place < 0:
                    entry.earlier = record.earlier.get(life.earlier) if life.earlier is not None else None
                    self._place(entry, life, day)
                if entry.variant == variant:
                    targets.append(entry)
                else:  # what he added is taken out, and he adds nothing more
                    entry.variant, entry.lists, entry.packed, entry.credits = None, 0, b"", {}
                    life.scope(day).multi_exposed += 1
                    known.clear()
        return first, last, targets

    def _place(self, entry: _Entry, life: Life, day: int) -> None:
        assert entry.variant is not None
        self._place_alone(entry)
        key = (life, day, entry.variant)
        self.joins.setdefault(key, []).append(entry.place)
        entry.scope = life.scope(day)
        if entry.lists:
            self.leaves.setdefault(key, []).append(entry.place)
        if entry.credits:
            add_credits(entry.scope.credits, entry.credits, -1)

    def _place_alone(self, entry: _Entry) -> None:
        entry.place = len(self.placed)
        self.placed.append(entry)
        if entry.lists:
            self.before.append((entry.place, entry.lists, entry.packed))

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
        covariates = self._covariates(after)
        for key in self.joins:
            life, day, variant = key
            scope = life.scope(day)
            joining = [place for place in self.joins[key] if self.placed[place].variant is not None]
            known = scope.moments.get(variant) or zero(self.layout.measures_of(life))
            joined = self._moments(life, joining, after, covariates)
            left = self._moments(life, self.leaves.get(key, []), before, covariates)
            scope.moments[variant] = add(known, subtract(joined, left))
            if variant == INTERLEAVED:
                for place in joining:
                    add_credits(scope.credits, self.placed[place].credits, 1)
            self.state.cells_dirty.add((life.number, day))
        for entry, packed in zip(self.placed, pack(after[:, 1:]), strict=True):
            if entry.variant is not None:
                entry.packed = packed

    def _moments(self, life: Life, places: list[int], totals: _Totals, covariates: _Totals | None) -> list[int]:
        """The moments of users with these totals; their time before the experiment is what it is after the round."""
        measures = self.layout.measures_of(life)
        if not measures.covariates:
            return of_users(measures, totals[places])
        assert covariates is not None
        return of_users(measures, totals[places], covariates[places])

    def _covariates(self, after: _Totals) -> _Totals | None:
        """By row, the covariates of those who have some; None when no experiment wants them."""
        if all(life.earlier is None for life, _, _ in self.joins):
            return None
        measures = self.layout.measures.with_covariates
        past = np.zeros((len(self.placed), measures.totals_width), dtype=np.int64)
        known = [(entry.place, entry.earlier) for entry in self.placed if entry.earlier is not None]
        changed = [(place, earlier.place) for place, earlier in known if earlier.place >= 0]
        if changed:
            past[[place for place, _ in changed]] = after[[row for _, row in changed]]
        resting = [(place, earlier) for place, earlier in known if earlier.place < 0]
        if resting:
            places = [place for place, _ in resting]
            past[places, 0] = [earlier.lists for _, earlier in resting]
            past[places, 1:] = unpack([earlier.packed for _, earlier in resting], measures.totals_width - 1)
        return measures.covariate_columns(past)


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
