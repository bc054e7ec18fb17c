"""The panes of a task that may still change, and the totals of those that may not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

import msgspec

from streammetrics.events.event_time import FOREVER, NEVER, pane_start
from streammetrics.events.model import Labels
from streammetrics.metrics import TallyLayout
from streammetrics.sessions.state import ChangedLists
from streammetrics.state.tables import RowChanges, TaskTimes
from streammetrics.windows.panes import Group, Pane, Panes, add_to, decode_pane, encode_pane
from streammetrics.windows.tally_deltas import add_tallies, tally_deltas

PANES: Final = "panes"
"""The table of the panes, by their start (ms)."""


class FinalPane(NamedTuple):
    """A pane that does not change any more."""

    start_ms: int
    pane: Pane


class PaneState(msgspec.Struct, array_like=True):
    """What is stored of `PaneTallies` besides panes. `totals` are (experiment, variant, tally)."""

    final_before: int = NEVER
    oldest_kept: int = NEVER
    totals: list[tuple[str, str, list[int]]] = []


class PaneGroups(Protocol):
    """The groups of labels, and since when (ms) each group is known: no list of it is older."""

    @property
    def since(self) -> Mapping[Group, int]: ...

    def groups_of(self, experiments: Labels, segments: Labels, /) -> tuple[Group, ...]: ...


class PaneTallies:
    """The tallies of a task by pane and group.

    `open` are the panes that may still change, by their start (ms). `totals` are the tallies of all final panes, by (experiment, variant).
    All panes before `final_before` (ms) are final; those before `oldest_kept` (ms) are no longer stored.
    """

    __slots__ = (
        "_dirty",
        "_finalized",
        "_layout",
        "_may_have_gaps",
        "_pane_ms",
        "_retention_ms",
        "_stored_starts",
        "final_before",
        "oldest_kept",
        "open",
        "totals",
    )

    def __init__(self, layout: TallyLayout, *, pane_ms: int, retention_ms: int, may_have_gaps: bool) -> None:
        self._layout, self._pane_ms, self._retention_ms, self._may_have_gaps = layout, pane_ms, retention_ms, may_have_gaps
        self._dirty: set[int] = set()
        self._finalized: Panes = {}
        self._stored_starts: set[int] = set()
        self.open: Panes = {}
        self.totals: dict[tuple[str, str], list[int]] = {}
        self.final_before = NEVER
        self.oldest_kept = NEVER

    def restore(self, stored: PaneState, panes: Mapping[str, bytes], older: Iterable[str]) -> None:
        """Continue from the last commit. `older` are the starts of panes that do not change any more."""
        self.final_before, self.oldest_kept = stored.final_before, stored.oldest_kept
        self.totals = {(experiment, variant): total for experiment, variant, total in stored.totals}
        self.open = {int(start): decode_pane(pane) for start, pane in panes.items()}
        self._stored_starts = {*self.open, *map(int, older)}

    def stored(self) -> PaneState:
        """Return what the next commit writes besides panes."""
        return PaneState(self.final_before, self.oldest_kept, [(*key, total) for key, total in sorted(self.totals.items())])

    def on_changed(self, lists: ChangedLists, groups: PaneGroups, final_before: int, watermark: int) -> list[FinalPane]:
        """Tally the changed lists, and expire the oldest panes. Returns the panes that became final, in order of time.

        A pane that ends at or before `final_before` (ms) is complete.
        """
        self._tally(lists, groups)
        final = self._finalize(final_before, groups)
        self._expire(watermark)
        return final

    def changes(self, _: TaskTimes) -> RowChanges:
        """Return what to commit."""
        changed = {start: self.open.get(start) or self._finalized.get(start) or {} for start in self._dirty}
        starts = self._stored_starts
        gone = [start for start in starts if start < self.oldest_kept or changed.get(start) == {}]
        kept = {start: pane for start, pane in changed.items() if pane and start not in gone}
        starts.update(kept)
        starts.difference_update(gone)
        self._dirty, self._finalized = set(), {}
        return RowChanges({str(start): encode_pane(pane) for start, pane in kept.items()}, [*map(str, gone)], self.final_before)

    def forget_total(self, group: Group) -> None:
        """Drop the total of a group that is no longer kept."""
        if not group.segment:
            self.totals.pop((group.experiment, group.variant), None)

    def _tally(self, lists: ChangedLists, groups: PaneGroups) -> None:
        """Bring the panes up to date. A list that changed several times since the last commit is scored once."""
        deltas = tally_deltas(lists, self._layout, self._pane_ms, groups.groups_of, may_have_gaps=self._may_have_gaps)
        for (start, group), change in deltas.items():
            assert start >= self.final_before, "a final pane changed"
            add_to(self.open.setdefault(start, {}), group, change)
            self._dirty.add(start)

    def _finalize(self, bound: int, groups: PaneGroups) -> list[FinalPane]:
        """Move the panes that end at or before `bound` into the totals."""
        if bound == NEVER:
            return []
        if bound != FOREVER:
            self.final_before = max(self.final_before, pane_start(bound, self._pane_ms))
        final, pane_ms, since, totals = [], self._pane_ms, groups.since, self.totals
        for start in sorted(self.open):
            if start + pane_ms > bound:
                break
            pane = self.open.pop(start)
            for group, tally in pane.items():
                if not group.segment and start + pane_ms > since.get(group, FOREVER):
                    key = (group.experiment, group.variant)
                    total = totals.get(key)
                    totals[key] = tally if total is None else add_tallies(total, tally)
            if start in self._dirty:
                self._finalized[start] = pane
            if pane:
                final.append(FinalPane(start, pane))
        return final

    def _expire(self, watermark: int) -> None:
        if watermark not in (NEVER, FOREVER):
            kept = pane_start(watermark - self._retention_ms, self._pane_ms)
            self.oldest_kept = max(self.oldest_kept, min(kept, self.final_before))
