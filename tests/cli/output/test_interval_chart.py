"""Tests of the chart of an interval over time."""

from __future__ import annotations

from streammetrics.cli.output.interval_chart import HEIGHT, LEFT, RIGHT, WIDTH, bounds, interval_chart
from streammetrics.reports.history import Point


def places(points: list[tuple[int, Point]], tag: str, kind: str) -> list[tuple[float, float]]:
    (element,) = [each for each in interval_chart(points, -0.01).iter(tag) if each.get("class") == kind]
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in element.attrib["points"].split())]


def point(lift: float, lower: float | None, upper: float | None) -> Point:
    return Point("b", "ndcg", 10, lift, lower, upper)


def test_the_band_contains_the_line_from_first_to_last_snapshot() -> None:
    points = [(0, point(-0.1, -0.3, 0.2)), (50, point(-0.12, -0.2, -0.02)), (100, point(-0.11, -0.15, -0.07))]
    line, band = places(points, "polyline", "lift"), places(points, "polygon", "band")
    assert [x for x, _ in line] == [LEFT, (LEFT + WIDTH - RIGHT) / 2, WIDTH - RIGHT]
    upper, lower = band[:3], band[:2:-1]
    assert [x for x, _ in upper] == [x for x, _ in lower] == [x for x, _ in line]
    assert all(top[1] < middle[1] < bottom[1] for top, middle, bottom in zip(upper, line, lower, strict=True))
    assert all(0 <= y <= HEIGHT for _, y in band)


def test_an_unbounded_end_is_at_the_edge_of_the_scale() -> None:
    points = [(0, point(0.1, None, None)), (100, point(0.1, -0.1, None))]
    band = places(points, "polygon", "band")
    assert band[0][1] == band[1][1] < places(points, "polyline", "lift")[0][1] < band[3][1]


def test_a_single_snapshot_is_at_the_right() -> None:
    assert [x for x, _ in places([(7, point(0.1, -0.1, 0.3))], "polyline", "lift")] == [WIDTH - RIGHT]


def test_the_scale_fits_the_later_half_zero_and_the_margin() -> None:
    points = [point(-0.1, -9.0, 40.0), point(-0.1, -0.2, 0.1)]
    low, high = bounds(points, -0.01)
    assert -0.25 < low < -0.2
    assert 0.1 < high < 0.15
    assert bounds([point(0.0, 0.0, 0.0)], 0.0) == (-0.01, 0.01)
