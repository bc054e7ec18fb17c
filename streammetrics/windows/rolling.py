"""The panes of all tasks, side by side, and the windows over them.

Pure. A window is shown only when all of its panes are complete and none of them has left a store: never silently partial. SumsArray of
whole numbers can be taken back, so a window that moves costs what comes and what leaves, however long it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from streammetrics.events.event_time import FOREVER, NEVER, final_bound
from streammetrics.metrics import TallyLayout
from streammetrics.windows.panes import Group, GroupValues, Pane, Window, WindowRules, WindowView, add_to, window_end


class _Sums:
    """The sums over the panes of a span of time, start <= pane < end, by group."""

    __slots__ = ("end", "start", "tallies")

    def __init__(self, start: int, end: int, tallies: Pane) -> None:
        self.start, self.end, self.tallies = start, end, tallies

    def holds(self, start: int) -> bool:
        return self.start <= start < self.end

    def add(self, pane: Pane) -> None:
        for group, tally in pane.items():
            add_to(self.tallies, group, tally)

    def take_away(self, pane: Pane) -> None:
        for group, tally in pane.items():
            add_to(self.tallies, group, [-number for number in tally])


class WindowAggregator:
    """The panes of all tasks, kept up to date task by task: what windows are read from.

    A window moves by a pane at a time, and most of its panes change no more. So of each window the sums over its final panes are kept:
    panes that come are added, those that leave are taken away, and what changes after all is exchanged. Panes stay as they are stored
    until somebody asks for their numbers, for many may be held that no window needs.
    """

    def __init__(self, layout: TallyLayout, rules: WindowRules, decode: Callable[[bytes], Pane]) -> None:
        self.layout = layout
        self.rules = rules
        self._decode = decode
        self._of_task: dict[int, dict[int, bytes]] = {}
        self._holders: Counter[int] = Counter()
        """By the start of a pane: how many tasks hold it; none that nobody holds."""
        self._revised: dict[int, Pane] = {}
        """Panes that are not final yet, merged over tasks: for as long as none of them has changed."""
        self._sums: dict[tuple[int, WindowView], _Sums] = {}
        self._shown: dict[tuple[int, WindowView], Window] = {}
        self._final_end = NEVER

    def update(self, task: int, panes: Mapping[int, bytes], since: int | None, oldest_kept_ms: int) -> None:
        """Take a task's panes with start >= `since` as they are stored now (None: all of them).

        A pane from there on that is not given is no more; those before `oldest_kept_ms` have left the task's store.
        """
        mine = self._of_task.setdefault(task, {})
        gone = [start for start in mine if start < oldest_kept_ms or (start not in panes and (since is None or start >= since))]
        for start in gone:
            self._exchange(start, mine.pop(start), None)
            self._holders[start] -= 1
            if not self._holders[start]:
                del self._holders[start]
        for start, stored in panes.items():
            if mine.get(start) != stored:
                self._exchange(start, mine.get(start), stored)
                self._holders[start] += start not in mine
                mine[start] = stored
        for start in [start for start in self._revised if start < self._final_end]:
            del self._revised[start]

    def _exchange(self, start: int, before: bytes | None, after: bytes | None) -> None:
        """Let what is known of windows hold a task's pane as it is now."""
        self._revised.pop(start, None)
        for key, window in list(self._shown.items()):
            if window.end_ms is not None and window.end_ms - window.window_ms <= start < window.end_ms:
                del self._shown[key]
        holding = [sums for sums in self._sums.values() if sums.holds(start)]
        if holding:
            was, now = ({} if stored is None else self._decode(stored) for stored in (before, after))
            for sums in holding:
                sums.take_away(was)
                sums.add(now)

    def pane(self, start: int) -> Pane:
        """One pane, merged over tasks."""
        known = self._revised.get(start)
        if known is None:
            known = {}
            for panes in self._of_task.values():
                if start in panes:
                    for group, tally in self._decode(panes[start]).items():
                        add_to(known, group, tally)
        return known

    def starts(self, first: int = NEVER, end: int = FOREVER) -> list[int]:
        """The starts of all panes in a span of time that any task holds, ascending."""
        return sorted(start for start in self._holders if first <= start < end)

    def window(self, window_ms: int, view: WindowView, watermark_ms: int, oldest_kept_ms: int, newest_ms: int) -> Window:
        """Read one window.

        `watermark_ms` is the least over all tasks (NEVER while one has none), `oldest_kept_ms` the greatest start below
        which some task's panes have left its store, `newest_ms` the newest admitted event (it ends the windows of a flush).
        """
        end = self._end(view, watermark_ms, newest_ms)
        if end is None:
            return Window(window_ms, view, None, True, ())
        start = end - window_ms
        if start < oldest_kept_ms:
            return Window(window_ms, view, end, False, ())
        shown = self._shown.get((window_ms, view))
        if shown is None or shown.end_ms != end:
            final_end = self._end("final", watermark_ms, newest_ms)
            self._final_end = NEVER if final_end is None else final_end
            tallies = self._tallies(window_ms, view, start, end)
            shown = Window(window_ms, view, end, True, tuple(self.values(group, tallies[group]) for group in sorted(tallies)))
            self._shown[window_ms, view] = shown
        return shown

    def _tallies(self, window_ms: int, view: WindowView, start: int, end: int) -> Pane:
        """The sums over all panes of a window, by group."""
        sums = self._sums[window_ms, view] = self._moved((window_ms, view), start, max(start, min(end, self._final_end)))
        revised = {held: self.pane(held) for held in self.starts(sums.end, end)}
        self._revised |= revised
        tallies: dict[Group, list[list[int]]] = {}
        for pane in (sums.tallies, *revised.values()):
            for group, tally in pane.items():
                tallies.setdefault(group, []).append(tally)
        return {group: [sum(column) for column in zip(*of_group, strict=True)] for group, of_group in tallies.items()}

    def _moved(self, key: tuple[int, WindowView], start: int, end: int) -> _Sums:
        """The sums over the final panes of a window, made from whichever sums are nearest: its own, another window's or none."""
        known = [self._sums[key], *self._sums.values()] if key in self._sums else [*self._sums.values()]
        nearest = min(known, key=lambda each: abs(each.start - start) + abs(each.end - end), default=None)
        if nearest is None or abs(nearest.start - start) + abs(nearest.end - end) >= end - start:
            nearest = _Sums(start, start, {})
        moved = _Sums(start, end, dict(nearest.tallies))
        for held in self.starts(min(start, nearest.start), max(end, nearest.end)):
            if nearest.holds(held) and not moved.holds(held):
                moved.take_away(self.pane(held))
            elif moved.holds(held) and not nearest.holds(held):
                moved.add(self.pane(held))
        return moved

    def _end(self, view: WindowView, watermark_ms: int, newest_ms: int) -> int | None:
        bound = final_bound(watermark_ms, self.rules.lateness_ms, self.rules.attribution_ms) if view == "final" else watermark_ms
        return window_end(bound, newest_ms, self.rules.pane_ms)

    def values(self, group: Group, tally: list[int]) -> GroupValues:
        """A tally as values: every mean is one correctly rounded division of integers."""
        layout = self.layout
        lists, with_feedback = layout.lists(tally), layout.lists_with_feedback(tally)
        return GroupValues(group, lists, with_feedback, layout.means(tally, "zero"), layout.means(tally, "with_feedback"))
