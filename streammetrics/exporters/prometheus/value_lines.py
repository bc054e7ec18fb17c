"""Lines for Prometheus of the values of windows, which are most series. A group whose values have not changed keeps its lines.

Both text formats write a gauge in the same way. Of all else `prometheus_client` makes the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from prometheus_client.utils import floatToGoString

from streammetrics.exporters.prometheus.labels import ShownGroup
from streammetrics.exporters.prometheus.metric_series import value_series
from streammetrics.metrics import Metric, TallyLayout
from streammetrics.windows.panes import Group, GroupValues, Window

_number: Final[Callable[[float], str]] = floatToGoString


class ValueLines(NamedTuple):
    """The lines of one group in one window: what they were made of, their number, and the text by series."""

    values: GroupValues
    shown: ShownGroup
    lines: int
    text: Mapping[str, str]


class ValueWriter:
    """Makes the lines of consecutive reports."""

    def __init__(self, layout: TallyLayout, window_names: Mapping[int, str]) -> None:
        self._window_names = window_names
        self._series = {
            (str(metric), view): (value_series(metric.name, view), cutoff(metric))
            for metric in layout.metrics
            for view in ("final", "live")
        }
        self._known: dict[tuple[Group, int, str], ValueLines] = {}
        self._made: dict[tuple[Group, int, str], ValueLines] = {}

    def begin(self) -> None:
        """Begin the next report. Lines that the last one did not use are dropped."""
        self._known, self._made = self._made, {}

    def lines(self, window: Window, values: GroupValues, group: ShownGroup, most: int) -> ValueLines:
        """Return the lines of a group in a window, `most` of them at most."""
        wanted = min(most, lines_of(window, values))
        key = values.group, window.window_ms, window.view
        lines = self._known.get(key)
        if lines is None or lines.shown != group or lines.values != values or lines.lines != wanted:
            lines = self._written(window, values, group, wanted)
        self._made[key] = lines
        return lines

    def _written(self, window: Window, values: GroupValues, group: ShownGroup, wanted: int) -> ValueLines:
        text: dict[str, str] = {}
        count = 0
        for series, line in self._each(window, values, group):
            if count == wanted:
                break
            text[series] = text.get(series, "") + line
            count += 1
        return ValueLines(values, group, count, text)

    def _each(self, window: Window, values: GroupValues, group: ShownGroup) -> Iterator[tuple[str, str]]:
        experiment, variant, segments = map(_escaped, group)
        view, name = window.view, self._window_names[window.window_ms]
        end = f'segments="{segments}",variant="{variant}"'
        place = f'{{experiment="{experiment}",{end},view="{view}",window="{name}"}}'
        counts = {"streammetrics_window_lists": values.lists}
        if view == "final":  # the feedback of live lists is still on its way
            counts["streammetrics_window_lists_with_feedback"] = values.lists_with_feedback
        for series, count in counts.items():
            yield series, f"{series}{place} {_number(count)}\n"
        for text, number in values.values.items():
            series, k = self._series[text, view]
            labels = f'{{experiment="{experiment}",k="{k}",{end},window="{name}"}}'
            yield series, f"{series}{labels} {_number(number)}\n"


def lines_of(window: Window, values: GroupValues) -> int:
    """Return how many series a group has in a window: its lists, those with feedback if they are final, and its metrics."""
    return (2 if window.view == "final" else 1) + len(values.values)


def cutoff(metric: Metric) -> str:
    """Return the label of a metric's cut-off; empty for a metric without one."""
    return str(metric.k) if metric.k else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
