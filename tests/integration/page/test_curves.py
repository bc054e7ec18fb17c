"""Curves: their range, history, legend and zoom."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from playwright.sync_api import expect

from streammetrics.events.event_time import DAY_MS
from streammetrics.experiments.experiment_report import EffectChange, PeriodLift
from streammetrics.metrics.records import METRICS
from streammetrics.reports.history import DownsampledValues, History
from streammetrics.reports.report import Report
from tests.integration.page.visits import DRAWN, MINUS, WRITTEN, Open, Serve, Served, clock, curves_are_drawn
from tests.support.experiment_samples import experiment
from tests.support.page_story import EXPERIMENT, Story, with_experiments
from tests.tools.servers.chart_library import originals

SHOWN = {name: record for name, record in METRICS.items() if record.is_streamed and record.kind != "bucket"}


def history_of(reports: list[Report]) -> History:
    """Return the history that a process stores of these reports."""
    stored = History()
    for report in reports:
        stored = stored.add(report.entered_ms or 0, report.experiments) if report.entered_ms else stored
    return stored


class TestCurves:
    def test_since_the_start_begins_at_the_start_after_a_restart(
        self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]
    ) -> None:
        story, reports = history
        stored = history_of(reports)
        port = serve(story.answers())
        port.answers.show(reports[-1], stored)  # a new process has one report, and the stored history
        page_visit = visit(port.base)
        curves_are_drawn(page_visit.page, f"experiment-{EXPERIMENT}-lift")
        points = page_visit.page.evaluate(DRAWN, f"experiment-{EXPERIMENT}-lift")
        series = stored.of(EXPERIMENT, "start").snapshots.kept
        first = next(at for at, snapshot in series if any(point.lift is not None for point in snapshot.points))
        assert points["ends"][0] == points["x"][0] == first
        assert points["x"][1] == reports[-1].entered_ms
        assert len(points["ends"]) > 30

    def test_lists_that_were_read_late_have_points_and_no_marks(
        self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]
    ) -> None:
        story, reports = history
        series = history_of(reports).of(EXPERIMENT, "start")
        kept = series.snapshots.kept
        late = [(at, snapshot._replace(verdict=None)) for at, snapshot in kept[:-1]]
        first = next(at for at, snapshot in kept if any(point.lift is not None for point in snapshot.points))
        port = serve(story.answers(), *(report for report in reports if report.entered_ms == first))
        filled = DownsampledValues(series.snapshots.width_ms, (*late, kept[-1]))
        port.answers.show(reports[-1], History((msgspec.structs.replace(series, snapshots=filled),)))
        page_visit = visit(port.base)
        chart = f"experiment-{EXPERIMENT}-lift"
        curves_are_drawn(page_visit.page, chart)
        points = page_visit.page.evaluate(DRAWN, chart)
        assert points["ends"] == [at for at, _ in kept if at >= first], "also between the two that this process has"
        assert points["marks"] == []

    def test_a_change_of_the_verdict_has_its_sign_on_the_curve_and_its_text_below(
        self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]
    ) -> None:
        story, reports = history
        series = history_of(reports).of(EXPERIMENT, "start")
        kept = series.snapshots.kept
        at = kept[-3][0]
        words = [(end, snapshot._replace(verdict="regressed" if end >= at else "inconclusive")) for end, snapshot in kept]
        port = serve(story.answers())
        changed = DownsampledValues(series.snapshots.width_ms, tuple(words))
        port.answers.show(reports[-1], History((msgspec.structs.replace(series, snapshots=changed),)))
        page_visit = visit(port.base)
        chart = f"experiment-{EXPERIMENT}-lift"
        curves_are_drawn(page_visit.page, chart)
        expect(page_visit.page.locator(f"#{chart} ul.marks li")).to_have_text([f"▼ {clock(at)}: verdict regressed"])
        points = page_visit.page.evaluate(DRAWN, chart)
        assert points["marks"] == [["▼", at]]
        (height,) = [y for text, _, y in page_visit.page.evaluate(WRITTEN, chart) if text == "▼"]
        assert height <= points["box"]["top"]

    def test_axes_stay_within_the_range_of_the_metric(self, visit: Open, still: Served) -> None:
        page_visit = visit(still.base, "?metric=hit_rate&window=5m")
        curves_are_drawn(page_visit.page, f"experiment-{EXPERIMENT}-window")
        low, high = page_visit.page.evaluate(DRAWN, f"experiment-{EXPERIMENT}-window")["y"]
        assert 0 <= low < high <= 1
        ranges = page_visit.page.evaluate(
            """async () => {
                 const { range } = await import("/plot.js");
                 const of = (values, bounds) => range({ bounds, lines: [{ drawn: values.map((value, end) => ({ end, value })) }] }, 0, 9);
                 return [of([0.0, 0.9], [0, 1]), of([0.2, 1.0], [0, 1]), of([0.1, 4.0], [0, null]), of([-0.99, 0.5], [-1, null])];
               }"""
        )
        assert [(low >= floor, high <= ceiling) for (low, high), (floor, ceiling) in zip(
            ranges, [(0, 1), (0, 1), (0, 9), (-1, 9)], strict=True
        )] == [(True, True)] * 4  # fmt: skip

    def test_axes_have_the_bound_and_choices_the_label_of_each_metric(self, visit: Open, still: Served) -> None:
        page_visit = visit(still.base)
        curves_are_drawn(page_visit.page, f"experiment-{EXPERIMENT}-window")
        points = page_visit.page.evaluate(
            """async (names) => {
                 const { metricBounds, metricName } = await import("/text.js");
                 return Object.fromEntries(names.map((name) => [name, [metricName(name), ...metricBounds(name)]]));
               }""",
            [*SHOWN],
        )
        assert points == {name: [record.label, 0, record.ceiling] for name, record in SHOWN.items()}
        choices = page_visit.page.get_by_label("Metric", exact=True).locator("option").all_text_contents()
        assert set(choices) == {record.label for record in SHOWN.values()}

    def test_a_point_that_no_curve_reaches_is_drawn_as_a_point(self, visit: Open, still: Served) -> None:
        alone = visit(still.base).page.evaluate(
            """async () => {
                 const { lonely } = await import("/plot.js");
                 const values = [[1, null, 2, undefined, 3, null, undefined, 4], [undefined, 1, undefined], [null, 1, 2], []];
                 return values.map((column) => lonely({ data: [[], column] }, 1));
               }"""
        )
        assert alone == [[0, 7], [1], [], []]

    def test_numbers_on_an_axis_are_not_rounded(self, visit: Open, still: Served) -> None:
        page_visit = visit(still.base)
        digits = page_visit.page.evaluate(
            """async () => {
                 const { tickDigits } = await import("/text.js");
                 return [0.001, 0.0025, 0.005, 0.025, 0.05, 0.25, 0.1, 0.5, 1, 2.5, 5, 100 * 0.025, 100 * 0.07].map(tickDigits);
               }"""
        )
        assert digits == [3, 4, 3, 3, 2, 2, 1, 1, 0, 1, 0, 1, 0]

    def test_the_lift_of_each_day_is_beside_that_since_the_start_with_a_change_of_the_effect(
        self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]
    ) -> None:
        story, reports = history
        lifts, first_ms = (0.3, 0.31, 0.3, -0.15, -0.16), 20_000 * DAY_MS
        days = tuple(
            PeriodLift(first_ms + at * DAY_MS, first_ms + (at + 1) * DAY_MS, 900, 900, 90, 90, lift, lift - 0.05, lift + 0.05)
            for at, lift in enumerate(lifts)
        )
        change = EffectChange(first_ms + 3 * DAY_MS, replace(days[0], end_ms=days[2].end_ms), replace(days[3], end_ms=days[4].end_ms))
        stats = experiment({"control": 0.5, "treatment": 0.55}, name=EXPERIMENT)
        variants = tuple(
            replace(
                arm, measures=tuple(replace(measure, days=days, change=change) if measure.paging else measure for measure in arm.measures)
            )
            if arm.variant == "treatment"
            else arm
            for arm in stats.variants
        )
        page_visit = visit(serve(story.answers(), with_experiments(reports[-1], replace(stats, variants=variants))).base)
        chart = f"experiment-{EXPERIMENT}-days"
        curves_are_drawn(page_visit.page, chart)
        points = page_visit.page.evaluate(DRAWN, chart)
        assert points["ends"] == [first_ms + at * DAY_MS for at in range(6)]
        assert points["series"][0] == [0.3, *lifts], "a lift holds for the day before its point"
        assert points["marks"] == [["Δ", first_ms + 3 * DAY_MS]]
        told = f"treatment: +30.0\u00a0% before, {MINUS}15.0\u00a0% since"
        expect(page_visit.page.locator(f"#{chart} ul.marks li")).to_contain_text(told)
        since = f"since 2024-10-07: {MINUS}15.0\u00a0%{MINUS}20.0\u00a0% to {MINUS}10.0\u00a0%"
        expect(page_visit.cell("Lift", "treatment")).to_contain_text(since)

    def test_an_axis_has_the_date_where_a_day_is_not_today(self, visit: Open, still: Served) -> None:
        texts = visit(still.base).page.evaluate(
            """async () => {
                 const { tickTexts } = await import("/text.js");
                 const at = (text) => Date.parse(`2026-03-${text}Z`);
                 const now = at("02T12:00:00");
                 return [["02T09:00:00", "02T10:00:00"], ["01T23:00:00", "02T00:00:00", "02T01:00:00"], ["01T09:00:00", "01T10:00:00"]]
                   .map((times) => tickTexts(times.map(at), 3600000, now));
               }"""
        )
        assert texts == [["09:00", "10:00"], ["23:00\n2026-03-01", "00:00\n2026-03-02", "01:00"], ["09:00\n2026-03-01", "10:00"]]

    def test_the_legend_switches_a_curve_off_and_on(self, visit: Open, still: Served) -> None:
        page_visit = visit(still.base)
        figure = page_visit.section(EXPERIMENT).locator("figure").filter(has_text="over the last hour")
        switch = figure.get_by_role("button", name="control, live")
        expect(switch).to_have_attribute("aria-pressed", "true")
        expect(figure.locator(".readout")).to_contain_text("control, live")
        switch.click()
        expect(switch).to_have_attribute("aria-pressed", "false")
        expect(figure.locator(".readout")).not_to_contain_text("control, live")
        page_visit.page.keyboard.press("Enter")
        expect(switch).to_have_attribute("aria-pressed", "true")
        expect(figure.locator(".readout")).to_contain_text("control, live")

    def test_a_chart_zooms_by_dragging_by_buttons_and_by_keys(self, visit: Open, still: Served) -> None:
        page_visit = visit(still.base)
        figure = page_visit.section(EXPERIMENT).locator("figure").filter(has_text="Lift of")
        name = f"experiment-{EXPERIMENT}-lift"
        curves_are_drawn(page_visit.page, name)
        first, last = page_visit.page.evaluate(DRAWN, name)["x"]
        whole = figure.get_by_role("button", name="Whole time")
        expect(whole).to_have_count(0)
        figure.get_by_role("button", name="Zoom in").click()
        expect(whole).to_be_visible()
        assert page_visit.page.evaluate(DRAWN, name)["x"] == [(first + last) / 2, last]
        whole.click()
        expect(whole).to_have_count(0)
        assert page_visit.page.evaluate(DRAWN, name)["x"] == [first, last]
        figure.locator(".plot").focus()
        page_visit.page.keyboard.press("+")
        expect(whole).to_be_visible()
        page_visit.page.keyboard.press("0")
        expect(whole).to_have_count(0)
        box = figure.locator(".u-over").bounding_box()
        assert box is not None
        page_visit.page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 50)
        page_visit.page.mouse.down()
        page_visit.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 50, steps=4)
        page_visit.page.mouse.up()
        expect(whole).to_be_visible()
        low, high = page_visit.page.evaluate(DRAWN, name)["x"]
        assert abs((low - first) / (last - first) - 0.25) < 0.02
        assert abs((high - first) / (last - first) - 0.5) < 0.02

    def test_the_chart_library_is_that_of_its_package(self) -> None:
        assert {copy.name: copy.read_bytes() for copy in originals()} == {
            copy.name: original.read_bytes() for copy, original in originals().items()
        }
