"""The interval of one lift over time, as an SVG element. Pure. Colours are those of the page, by class.

The scale follows the later half of the looks: the first intervals are so wide that the rest would be a line. What is beyond
the scale, or not bounded at all, ends at its edge.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element, SubElement

from streammetrics.cli.output.report_reader import interval_text, lift_text, moment
from streammetrics.reports.history import Point

WIDTH, HEIGHT = 440, 220
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 30
TICKS = 4


class Scale:
    """From numbers to places: times to x, lifts to y."""

    def __init__(self, first: int, last: int, low: float, high: float) -> None:
        self.first, self.last, self.low, self.high = first, last, low, high

    def x(self, at_ms: int) -> float:
        """A single time stands at the right, where the newest does."""
        along = (at_ms - self.first) / (self.last - self.first) if self.last > self.first else 1.0
        return LEFT + along * (WIDTH - LEFT - RIGHT)

    def y(self, lift: float) -> float:
        up = (min(max(lift, self.low), self.high) - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)


def interval_chart(points: Sequence[tuple[int, Point]], margin: float) -> Element:
    """The chart of at least one point whose lift is known, in the order of time. `margin`: the drop that is tolerated, below 0.

    >>> from xml.etree.ElementTree import tostring
    >>> chart = interval_chart([(0, Point("b", "ndcg", 10, -0.1, -0.3, 0.1)), (60_000, Point("b", "ndcg", 10, -0.1, -0.2, None))], -0.01)
    >>> b"from -20.0 %" in tostring(chart), len(chart.findall("polyline"))
    (False, 1)
    """
    low, high = bounds([point for _, point in points], margin)
    scale = Scale(points[0][0], points[-1][0], low, high)
    newest = points[-1][1]
    chart = Element("svg", {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img"})
    SubElement(
        chart, "title"
    ).text = f"Lift {lift_text(newest.lift)}, interval {interval_text(newest.lift_lower, newest.lift_upper)} at {moment(points[-1][0])}"
    for tick in ticks(low, high):
        _line(chart, "zero" if tick == 0 else "grid", scale.y(tick))
        _label(chart, lift_text(tick).replace(".0 ", " ") if tick else "0 %", LEFT - 6, scale.y(tick) + 4, "end")
    if margin < 0:
        _line(chart, "margin", scale.y(margin))
    upper = [(scale.x(at), scale.y(high if point.lift_upper is None else point.lift_upper)) for at, point in points]
    lower = [(scale.x(at), scale.y(low if point.lift_lower is None else point.lift_lower)) for at, point in points]
    SubElement(chart, "polygon", {"class": "band", "points": _places([*upper, *reversed(lower)])})
    middle = [(scale.x(at), scale.y(point.lift)) for at, point in points if point.lift is not None]
    SubElement(chart, "polyline", {"class": "lift", "points": _places(middle)})
    _whisker(chart, upper[-1], lower[-1], middle[-1])
    for at, anchor in ((points[0][0], "start"), (points[-1][0], "end"))[len(points) == 1 :]:
        _label(chart, moment(at).removesuffix(" UTC"), scale.x(at), HEIGHT - 8, anchor)
    return chart


def bounds(points: Sequence[Point], margin: float) -> tuple[float, float]:
    """The least and the greatest lift of the scale: all lifts, the later half of the intervals, the margin and 0, and a little room."""
    ends = [0.0, margin, *(point.lift for point in points if point.lift is not None)]
    for point in points[len(points) // 2 :]:
        ends += [end for end in (point.lift_lower, point.lift_upper) if end is not None]
    low, high = max(-1.0, min(ends)), max(ends)
    room = 0.08 * (high - low) or 0.01
    return low - room, high + room


def ticks(low: float, high: float) -> Iterator[float]:
    """Round lifts within the scale, 0 among them.

    >>> list(ticks(-0.22, 0.07))
    [-0.2, -0.1, 0.0]
    """
    rough = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    for count in range(math.ceil(low / step), math.floor(high / step) + 1):
        yield round(count * step, 12)


def _whisker(chart: Element, upper: tuple[float, float], lower: tuple[float, float], middle: tuple[float, float]) -> None:
    """The newest interval, which a band of one look alone would not show."""
    SubElement(chart, "line", {"class": "newest", "x1": _n(upper[0]), "x2": _n(lower[0]), "y1": _n(upper[1]), "y2": _n(lower[1])})
    SubElement(chart, "circle", {"class": "newest", "cx": _n(middle[0]), "cy": _n(middle[1]), "r": "3.5"})


def _line(chart: Element, kind: str, y: float) -> None:
    SubElement(chart, "line", {"class": kind, "x1": str(LEFT), "x2": str(WIDTH - RIGHT), "y1": _n(y), "y2": _n(y)})


def _label(chart: Element, text: str, x: float, y: float, anchor: str) -> None:
    SubElement(chart, "text", {"x": _n(x), "y": _n(y), "text-anchor": anchor}).text = text


def _places(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_n(x)},{_n(y)}" for x, y in places)


def _n(value: float) -> str:
    return f"{value:.1f}"
