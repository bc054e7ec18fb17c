"""Credit of interleaved lists: which of two teams' items a user preferred, by pair of teams. Nothing else is summed here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final, TypeAlias

from streammetrics.enrolment.records import StoredCredit
from streammetrics.enrolment.targets import VariantTarget
from streammetrics.sessions.state import pairs_of
from streammetrics.statistics.interleaving import add_credits, credit_width, drafted_first, list_credit
from streammetrics.windows.final_lists import FinalLists

TEAMS_MAX: Final = 8
"""Teams of one list. A list with more is counted as `too_many_teams` and gives no credit."""
TEAM_PAIRS_MAX: Final = 64
"""Pairs of teams in one scope. Lists of further pairs are counted as `too_many_teams`. The order of lists decides
which pairs those are."""

Credits: TypeAlias = dict[tuple[str, str], list[int]]
"""Lists and credits of one user, by pair of teams: see `interleaving.credit_moments`."""


class TeamCredits:
    """The credits of those rows of a batch that have interleaved lists."""

    def __init__(self, lists: FinalLists, lists_max: int, thresholds: Sequence[float], counts: Counter[tuple[str, int]]) -> None:
        self._lists, self._lists_max, self._thresholds, self._counts = lists, lists_max, thresholds, counts
        self._rows: dict[int, Credits] = {}

    def restore(self, target: VariantTarget, row: int, stored: Iterable[StoredCredit]) -> None:
        """Start a row with its user's stored credits, and take them out of the target's sums. `put_back` adds the new ones."""
        credits = self._rows[row] = {(one, other): list(sums) for one, other, sums in stored}
        add_credits(target.scope.credits, credits, -1)

    def add_lists(self, targets: Sequence[tuple[VariantTarget, int, int]], first: int, end: int) -> None:
        """Add the lists from `first` to `end` - 1. A target is a variant, a row, and the number of lists that the row had before."""
        for number in range(first, end):
            final = self._lists.lists[number]
            open_targets = [(target, row) for target, row, lists in targets if lists + number - first < self._lists_max]
            teams = sorted({*final.teams} - {""}) if open_targets else []
            if len(teams) > TEAMS_MAX:
                self._counts["too_many_teams", final.topic] += 1
                continue
            hits = dict(pairs_of(final.hits))
            grades = [hits.get(position, 0) for position in range(len(final.teams))]
            for one, other in combinations(teams, 2):
                kind = drafted_first(final.teams, one, other)
                credits = [list_credit(final.teams, grades, one, other, threshold) or 0 for threshold in self._thresholds]
                for target, row in open_targets:
                    if (one, other) in target.scope.credits or len(target.scope.credits) < TEAM_PAIRS_MAX:
                        target.scope.credits.setdefault((one, other), [0] * credit_width(len(credits)))
                        self._add_list(row, (one, other), kind, credits)
                    else:
                        self._counts["too_many_teams", final.topic] += 1

    def _add_list(self, row: int, pair: tuple[str, str], kind: int, credits: Sequence[int]) -> None:
        """Add one list to a row: its credits, one for each threshold. `kind` says which team drafted first."""
        sums = self._rows[row].setdefault(pair, [0] * (2 + 2 * len(credits)))
        sums[kind] += 1
        for level, credit in enumerate(credits):
            sums[2 + 2 * level + kind] += credit

    def put_back(self, target: VariantTarget, row: int) -> None:
        """Add the new credits of a row to the sums of its target."""
        add_credits(target.scope.credits, self._rows[row], 1)

    def stored(self, row: int) -> list[StoredCredit] | None:
        """Return the credits of a row in their stored form. None if the row has no interleaved lists."""
        credits = self._rows.get(row)
        return None if credits is None else [(*pair, list(sums)) for pair, sums in credits.items()]
