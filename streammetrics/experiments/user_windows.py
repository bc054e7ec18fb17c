"""Distinct users of a sliding window, exactly and mergeably, by how many panes ago each was there before. Pure.

An occurrence is one (user, pane): the user had a list of the group in the pane (or a hit: the same law with another set of
panes). Its gap is how many panes before it lies his previous occurrence, capped at the number of panes of the longest window:
"never before" and "too long ago to matter" are one. A pane's tally counts its occurrences by gap. The users of a window are its
occurrences whose previous one lies before the window's start: each user's first in it, and nobody twice.

Tallies of different users add up, so they merge over partitions; a change of one user's panes changes the tallies by the
difference of what he contributed. Panes are numbered without gaps: pane start / pane length.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from streammetrics.experiments.measures import ExperimentError

Occurrences: TypeAlias = Mapping[tuple[int, int], int]
"""How many users were in a pane after a gap: count by (pane, gap)."""


def occurrences(panes: Sequence[int], gap_max: int) -> dict[tuple[int, int], int]:
    """What one user contributes: each of his panes with its gap, once. `panes` are distinct and ascending.

    gap_max: panes of the longest window. A gap of that or more, and the first pane, count as gap_max.

    >>> occurrences([3, 4, 9], gap_max=4)
    {(3, 4): 1, (4, 1): 1, (9, 4): 1}
    """
    if gap_max < 1:
        raise ExperimentError(f"gap_max: got {gap_max}; allowed are 1 or more, the panes of the longest window")
    if any(later <= earlier for earlier, later in pairwise(panes)):
        raise ExperimentError(f"panes: got {list(panes)}; allowed are distinct numbers, ascending")
    return {(pane, gap_max if index == 0 else min(gap_max, pane - panes[index - 1])): 1 for index, pane in enumerate(panes)}


def changes(before: Sequence[int], after: Sequence[int], gap_max: int) -> dict[tuple[int, int], int]:
    """What is to be added to the tallies when a user's panes are `after` instead of `before`; entries that stay are left out.

    A pane more also changes the gap of the pane that follows it, however late it is noticed.

    >>> changes([3, 9], [3, 8, 9], gap_max=10)
    {(9, 6): -1, (8, 5): 1, (9, 1): 1}
    """
    change = Counter(occurrences(after, gap_max))
    change.subtract(occurrences(before, gap_max))
    return {key: count for key, count in sorted(change.items(), key=lambda item: item[1]) if count}


def kept(panes: Sequence[int], oldest_open: int, gap_max: int) -> list[int]:
    """The panes that a user's own state must still hold: those that can be a previous one within the longest window.

    oldest_open: the oldest pane that may still change. What is left out is a gap of gap_max or more from there, so that `changes`
    gives the same with and without it, as long as `before` and `after` leave out the same.

    >>> kept([1, 5, 6, 9], oldest_open=10, gap_max=5)
    [6, 9]
    """
    return list(panes[bisect_left(panes, oldest_open - gap_max + 1) :])


def merge(parts: Iterable[Occurrences]) -> dict[tuple[int, int], int]:
    """Add the tallies of different users, for instance of different partitions; zeros are left out."""
    total: Counter[tuple[int, int]] = Counter()
    for part in parts:
        total.update(part)
    return {key: count for key, count in total.items() if count}


def distinct_users(tallies: Occurrences, start: int, end: int, gap_max: int) -> int:
    """The users of the panes start <= pane < end. ExperimentError if that is longer than gap_max panes.

    >>> distinct_users(merge([occurrences([3, 4, 9], 10), occurrences([4], 10)]), start=4, end=10, gap_max=10)
    2
    """
    if end - start > gap_max:
        raise ExperimentError(f"window: got {end - start} panes; allowed are at most gap_max, {gap_max}")
    return sum(count for (pane, gap), count in tallies.items() if start <= pane < end and pane - gap < start)
