"""Draws the interval of one lift over time as an SVG element. Pure. The page sets the colours by class.

The scale fits the later half of the snapshots, because the first intervals are much wider. Intervals beyond the scale, and unbounded
ones, end at its edge.
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


class ChartScale:
    """Maps times to x and lifts to y."""

    def __init__(self, first: int, last: int, low: float, high: float) -> None:
        self.first, self.last, self.low, self.high = first, last, low, high

    def x(self, at_ms: int) -> float:
        """Return the x of a time. A single time is at the right end."""
        fraction = (at_ms - self.first) / (self.last - self.first) if self.last > self.first else 1.0
        return LEFT + fraction * (WIDTH - LEFT - RIGHT)

    def y(self, lift: float) -> float:
        """Return the y of a lift, limited to the scale."""
        fraction = (min(max(lift, self.low), self.high) - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - fraction * (HEIGHT - TOP - BOTTOM)


def interval_chart(points: Sequence[tuple[int, Point]], margin: float) -> Element:
    """Draw at least one point with a known lift, in order of time. `margin` is the tolerated drop, as a negative number.

    >>> from xml.etree.ElementTree import tostring
    >>> chart = interval_chart([(0, Point("b", "ndcg", 10, -0.1, -0.3, 0.1)), (60_000, Point("b", "ndcg", 10, -0.1, -0.2, None))], -0.01)
    >>> b"from -20.0 %" in tostring(chart), len(chart.findall("polyline"))
    (False, 1)
    """
    low, high = bounds([point for _, point in points], margin)
    scale = ChartScale(points[0][0], points[-1][0], low, high)
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
    SubElement(chart, "polygon", {"class": "band", "points": _points([*upper, *reversed(lower)])})
    middle = [(scale.x(at), scale.y(point.lift)) for at, point in points if point.lift is not None]
    SubElement(chart, "polyline", {"class": "lift", "points": _points(middle)})
    _whisker(chart, upper[-1], lower[-1], middle[-1])
    for at, anchor in ((points[0][0], "start"), (points[-1][0], "end"))[len(points) == 1 :]:
        _label(chart, moment(at).removesuffix(" UTC"), scale.x(at), HEIGHT - 8, anchor)
    return chart


def bounds(points: Sequence[Point], margin: float) -> tuple[float, float]:
    """Return the lowest and highest lift of the scale: all lifts, the later half of the intervals, the margin and 0, plus some space."""
    ends = [0.0, margin, *(point.lift for point in points if point.lift is not None)]
    for point in points[len(points) // 2 :]:
        ends += [end for end in (point.lift_lower, point.lift_upper) if end is not None]
    low, high = max(-1.0, min(ends)), max(ends)
    space = 0.08 * (high - low) or 0.01
    return low - space, high + space


def ticks(low: float, high: float) -> Iterator[float]:
    """Yield round lifts within the scale, including 0.

    >>> list(ticks(-0.22, 0.07))
    [-0.2, -0.1, 0.0]
    """
    rough = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    for count in range(math.ceil(low / step), math.floor(high / step) + 1):
        yield round(count * step, 12)


def _whisker(chart: Element, upper: tuple[float, float], lower: tuple[float, float], middle: tuple[float, float]) -> None:
    """Draw the newest interval as a line. A band of a single snapshot would be invisible."""
    SubElement(chart, "line", {"class": "newest", "x1": _n(upper[0]), "x2": _n(lower[0]), "y1": _n(upper[1]), "y2": _n(lower[1])})
    SubElement(chart, "circle", {"class": "newest", "cx": _n(middle[0]), "cy": _n(middle[1]), "r": "3.5"})


def _line(chart: Element, kind: str, y: float) -> None:
    SubElement(chart, "line", {"class": kind, "x1": str(LEFT), "x2": str(WIDTH - RIGHT), "y1": _n(y), "y2": _n(y)})


def _label(chart: Element, text: str, x: float, y: float, anchor: str) -> None:
    SubElement(chart, "text", {"x": _n(x), "y": _n(y), "text-anchor": anchor}).text = text


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_n(x)},{_n(y)}" for x, y in points)


def _n(value: float) -> str:
    return f"{value:.1f}"
