"""An incremental sliding-window aggregate over the panes of all tasks.

A window is shown only if all of its panes are complete and still stored. Sums of integers can be subtracted exactly, so moving a window
costs only the panes that enter and leave it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence
from typing import Final, Literal

from streammetrics.events.event_time import FOREVER, NEVER, close_bound, final_bound
from streammetrics.metrics import TallyLayout
from streammetrics.windows.panes import Group, GroupValues, Pane, Window, WindowRules, WindowView, add_to, window_end

_SPAN: Final[tuple[int, WindowView]] = (0, "final")
"""The key of the sums of `final_tallies`. No window has length 0."""


class _Sums:
    """Sums over the panes with start <= pane < end, by group."""

    __slots__ = ("end", "start", "tallies")

    def __init__(self, start: int, end: int, tallies: Pane) -> None:
        self.start, self.end, self.tallies = start, end, tallies

    def covers(self, start: int) -> bool:
        """Return whether a pane start is within the span."""
        return self.start <= start < self.end

    def add(self, pane: Pane) -> None:
        for group, tally in pane.items():
            add_to(self.tallies, group, tally)

    def subtract(self, pane: Pane) -> None:
        for group, tally in pane.items():
            add_to(self.tallies, group, [-number for number in tally])


class LazyMeans(Mapping[str, float]):
    """The means of a tally by metric, computed when they are first read: many reports are never shown.

    Every mean is one correctly rounded division of integers.
    """

    __slots__ = ("_layout", "_means", "_tally", "_view")

    def __init__(self, layout: TallyLayout, tally: Sequence[int], view: Literal["zero", "with_feedback"]) -> None:
        self._layout, self._tally, self._view = layout, tally, view
        self._means: dict[str, float] | None = None

    def _all(self) -> dict[str, float]:
        if self._means is None:
            self._means = self._layout.means(self._tally, self._view)
        return self._means

    def __getitem__(self, metric: str) -> float:
        return self._all()[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def items(self) -> ItemsView[str, float]:
        return self._all().items()

    def __repr__(self) -> str:
        return repr(self._all())


class WindowAggregator:
    """The panes of all tasks, updated task by task; windows are read from them.

    A window usually moves by one pane, and most of its panes are final. So the sums over its final panes are kept: new panes are added,
    old ones subtracted, and changed ones replaced. Panes stay encoded until a window needs them, because many are never needed.
    """

    def __init__(self, layout: TallyLayout, rules: WindowRules, decode: Callable[[bytes], Pane]) -> None:
        self.layout = layout
        self.rules = rules
        self._decode = decode
        self._of_task: dict[int, dict[int, bytes]] = {}
        self._task_counts: Counter[int] = Counter()
        """Number of tasks that have a pane, by its start; never 0."""
        self._revised: dict[int, Pane] = {}
        """Panes that are not final, merged over tasks, until one of them changes."""
        self._sums: dict[tuple[int, WindowView], _Sums] = {}
        self._windows: dict[tuple[int, WindowView], Window] = {}
        self._final_end = NEVER
        self.revisions = 0
        """How often a pane that was final has changed, as when a store loses its last commits."""

    def update(self, task: int, panes: Mapping[int, bytes], since: int | None, oldest_kept_ms: int) -> None:
        """Update the panes of a task with start >= `since` from their stored form (None: all panes).

        Panes in that range that are not given no longer exist. Panes before `oldest_kept_ms` have left the task's store.
        """
        of_task = self._of_task.setdefault(task, {})
        removed = [start for start in of_task if start < oldest_kept_ms or (start not in panes and (since is None or start >= since))]
        for start in removed:
            self.revisions += oldest_kept_ms <= start < self._final_end
            self._exchange(start, of_task.pop(start), None)
            self._task_counts[start] -= 1
            if not self._task_counts[start]:
                del self._task_counts[start]
        for start, stored in panes.items():
            if of_task.get(start) != stored:
                self._exchange(start, of_task.get(start), stored)
                self._task_counts[start] += start not in of_task
                of_task[start] = stored
        for start in [start for start in self._revised if start < self._final_end]:
            del self._revised[start]

    def _exchange(self, start: int, before: bytes | None, after: bytes | None) -> None:
        """Replace a task's pane in everything that is computed from it."""
        self.revisions += start < self._final_end and after is not None
        self._revised.pop(start, None)
        for key, window in list(self._windows.items()):
            if window.end_ms is not None and window.end_ms - window.window_ms <= start < window.end_ms:
                del self._windows[key]
        holding = [sums for sums in self._sums.values() if sums.covers(start)]
        if holding:
            before_pane, after_pane = ({} if stored is None else self._decode(stored) for stored in (before, after))
            for sums in holding:
                sums.subtract(before_pane)
                sums.add(after_pane)

    def pane(self, start: int) -> Pane:
        """Return one pane, merged over tasks."""
        revised = self._revised.get(start)
        if revised is not None:
            return revised
        pane: Pane = {}
        for panes in self._of_task.values():
            if start in panes:
                for group, tally in self._decode(panes[start]).items():
                    add_to(pane, group, tally)
        return pane

    def starts(self, first: int = NEVER, end: int = FOREVER) -> list[int]:
        """Return the starts of all stored panes in a span of time, ascending."""
        return sorted(start for start in self._task_counts if first <= start < end)

    def window(self, window_ms: int, view: WindowView, watermark_ms: int, oldest_kept_ms: int, newest_ms: int) -> Window:
        """Return one window.

        `watermark_ms` is the lowest over all tasks (NEVER if one has none). Some task has no panes before `oldest_kept_ms`. `newest_ms`
        is the newest admitted event, where windows end after a flush.
        """
        end = self._end(view, watermark_ms, newest_ms)
        if end is None:
            return Window(window_ms, view, None, True, ())
        final_end = self._end("final", watermark_ms, newest_ms)
        self._final_end = NEVER if final_end is None else final_end
        return self.window_until(window_ms, view, end, oldest_kept_ms)

    def window_until(self, window_ms: int, view: WindowView, end: int, oldest_kept_ms: int) -> Window:
        """Return the window that ends at `end` (ms), a pane boundary that may lie after the watermark."""
        start = end - window_ms
        if start < oldest_kept_ms:
            return Window(window_ms, view, end, False, ())
        last = self._windows.get((window_ms, view))
        if last is None or last.end_ms != end:
            tallies = self._tallies(window_ms, view, start, end)
            last = Window(window_ms, view, end, True, tuple(self.values(group, tallies[group]) for group in sorted(tallies)))
            self._windows[window_ms, view] = last
        return last

    def _tallies(self, window_ms: int, view: WindowView, start: int, end: int) -> Pane:
        """Return the sums over all panes of a window, by group."""
        sums = self._sums[window_ms, view] = self._moved((window_ms, view), start, max(start, min(end, self._final_end)))
        revised = {start_ms: self.pane(start_ms) for start_ms in self.starts(sums.end, end)}
        self._revised |= revised
        tallies: dict[Group, list[list[int]]] = {}
        for pane in (sums.tallies, *revised.values()):
            for group, tally in pane.items():
                tallies.setdefault(group, []).append(tally)
        return {group: [sum(column) for column in zip(*of_group, strict=True)] for group, of_group in tallies.items()}

    def _moved(self, key: tuple[int, WindowView], start: int, end: int) -> _Sums:
        """Return the sums over the final panes of a window, starting from the nearest known sums: its own, another window's, or none."""
        ranges = [self._sums[key], *self._sums.values()] if key in self._sums else [*self._sums.values()]
        nearest = min(ranges, key=lambda span: abs(span.start - start) + abs(span.end - end), default=None)
        if nearest is None or abs(nearest.start - start) + abs(nearest.end - end) >= end - start:
            nearest = _Sums(start, start, {})
        moved = _Sums(start, end, dict(nearest.tallies))
        for start_ms in self.starts(min(start, nearest.start), max(end, nearest.end)):
            if nearest.covers(start_ms) and not moved.covers(start_ms):
                moved.subtract(self.pane(start_ms))
            elif moved.covers(start_ms) and not nearest.covers(start_ms):
                moved.add(self.pane(start_ms))
        return moved

    def earlier(self, window: Window, after_ms: int, oldest_kept_ms: int, groups_max: int) -> Iterator[Window]:
        """Yield the windows of the same length and view that end before this one and after `after_ms`, oldest first.

        They have the panes as they are now, and only groups of this window: the first `groups_max`, those without a segment first.
        Windows without lists, and those that need panes before `oldest_kept_ms`, are left out.
        """
        chosen = sorted((values.group for values in window.groups), key=lambda group: (bool(group.segment), group))[:groups_max]
        length_ms, pane_ms = window.window_ms, self.rules.pane_ms
        first = max(after_ms + pane_ms, oldest_kept_ms + length_ms)
        if window.end_ms is None or not chosen or first >= window.end_ms:
            return
        panes = {start: self.pane(start) for start in self.starts(first - length_ms, window.end_ms)}
        sums = _Sums(first - length_ms, first, {})
        for start, pane in panes.items():
            if sums.covers(start):
                sums.add({group: pane[group] for group in chosen if group in pane})
        for end in range(first, window.end_ms, pane_ms):
            if sums.tallies:
                values_of_groups = tuple(self.values(group, sums.tallies[group]) for group in sorted(sums.tallies))
                yield Window(length_ms, window.view, end, True, values_of_groups)
            entering, leaving = panes.get(end, {}), panes.get(end - length_ms, {})
            sums.add({group: entering[group] for group in chosen if group in entering})
            sums.subtract({group: leaving[group] for group in chosen if group in leaving})

    def _end(self, view: WindowView, watermark_ms: int, newest_ms: int) -> int | None:
        rules = self.rules
        if view == "final":
            bound = final_bound(watermark_ms, rules.lateness_ms, rules.attribution_ms)
        else:
            bound = close_bound(watermark_ms, rules.live_wait_ms or 0)
        return window_end(bound, newest_ms, rules.pane_ms)

    def final_span(self, length_ms: int, watermark_ms: int, oldest_kept_ms: int, newest_ms: int) -> tuple[int, int] | None:
        """Return the start and end of the longest span of final panes that ends now, has at most this length, and is complete.

        Arguments as in `window`. None before there is one.
        """
        end = self._end("final", watermark_ms, newest_ms)
        if end is None:
            return None
        starts = self.starts(max(end - length_ms, oldest_kept_ms), end)
        return (starts[0], end) if starts else None

    def final_tallies(self, start: int, end: int) -> Pane:
        """Return the sums over the panes of a span of final panes, by group. The next span is computed from this one."""
        self._sums[_SPAN] = self._moved(_SPAN, start, end)
        return dict(self._sums[_SPAN].tallies)

    def values(self, group: Group, tally: list[int]) -> GroupValues:
        """Return the values of a tally, which must not change any more."""
        layout = self.layout
        values, values_with_feedback = LazyMeans(layout, tally, "zero"), LazyMeans(layout, tally, "with_feedback")
        return GroupValues(group, layout.lists(tally), layout.lists_with_feedback(tally), values, values_with_feedback)
