"""Distinct users of windows, as sets of users over lists. Every window is counted from scratch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from tests.oracle.values import Settings, ShownList

Users: TypeAlias = dict[tuple[str, str], tuple[int, dict[int, int]]]
"""By experiment and variant (both empty: all traffic): users, and users with a hit by cut-off. Groups without users are absent."""


def users_of_window(lists: Iterable[ShownList], settings: Settings, end_ms: int | None, window_ms: int) -> Users:
    """Return the users of the lists of the panes with `end_ms - window_ms <= start < end_ms`."""
    users_seen: dict[tuple[str, str], set[str]] = {}
    hit: dict[tuple[str, str, int], set[str]] = {}
    for impression in lists:
        start = impression.ts // settings.pane_ms * settings.pane_ms
        if end_ms is None or not end_ms - window_ms <= start < end_ms:
            continue
        for arm in (("", ""), *impression.experiments):
            users_seen.setdefault(arm, set()).add(impression.user_id)
            for k in settings.cutoffs:
                if any(grade >= settings.relevance_min for grade in impression.grades[:k]):
                    hit.setdefault((*arm, k), set()).add(impression.user_id)
    return {arm: (len(users), {k: len(hit.get((*arm, k), ())) for k in settings.cutoffs}) for arm, users in users_seen.items()}


def users_of_tasks(tasks: Sequence[Iterable[ShownList]], settings: Settings, end_ms: int | None, window_ms: int) -> Users:
    """Return the same over several tasks. A user of two tasks counts twice."""
    parts = [users_of_window(lists, settings, end_ms, window_ms) for lists in tasks]
    return {
        arm: (
            sum(part[arm][0] for part in parts if arm in part),
            {k: sum(part[arm][1][k] for part in parts if arm in part) for k in settings.cutoffs},
        )
        for arm in {arm for part in parts for arm in part}
    }
