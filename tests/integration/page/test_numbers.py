"""Every number on the page equals the report and says its time."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import replace

from playwright.sync_api import expect

from streammetrics.connectors.source import Input
from streammetrics.experiments.verdict import Verdict
from streammetrics.exporters.http.answers import HttpAnswers
from streammetrics.reports.report import Report
from streammetrics.words.sentences import DataWarning
from tests.integration.page.visits import (
    DRAWN,
    MINUS,
    MISSING,
    WRITTEN,
    Open,
    Serve,
    Served,
    clock,
    curves_are_drawn,
    fetched,
    group,
    lifts,
)
from tests.support.committed_state import HOUR_MS, MINUTE_MS
from tests.support.experiment_samples import experiment
from tests.support.page_story import (
    EXPERIMENT,
    Story,
    with_experiments,
)


class TestNumbers:
    def test_values_equal_the_report_and_have_the_end_of_their_window(self, visit: Open, still: Served) -> None:
        page_visit, report = visit(still.base), fetched(still.base)
        for view, head in (("final", "Final"), ("live", "Live")):
            ends = next(window["end_ms"] for window in report["windows"] if (window["window_ms"], window["view"]) == (HOUR_MS, view))
            expect(page_visit.head(head)).to_have_text(f"{head}? last hourto {clock(ends)}")
            for variant in ("control", "treatment"):
                values = group(report, view, variant)
                expect(page_visit.cell(head, variant)).to_have_text(f"{values['values']['ndcg@10']:.4f}{values['lists']} lists")
        everything = group(report, "final", "")
        expect(page_visit.cell("Final", "All traffic", section="All traffic").locator(".value")).to_have_text(
            f"{everything['values']['ndcg@10']:.4f}"
        )

    def test_means_lifts_and_users_equal_the_report_with_their_time(self, visit: Open, still: Served) -> None:
        page_visit, report = visit(still.base), fetched(still.base)
        (start,) = (experiment for experiment in report["experiments"] if experiment["scope"] == "start")
        treatment = next(variant for variant in start["variants"] if variant["variant"] == "treatment")
        measure = next(measure for measure in treatment["measures"] if (measure["metric"], measure["k"]) == ("ndcg", 10))
        lift, low, high = (f"{MINUS}{-100 * measure[name]:.1f}\u00a0%" for name in ("lift", "lift_lower", "lift_upper"))
        expect(page_visit.cell("Lift", "treatment")).to_have_text(f"{lift}{low} to {high}")
        expect(page_visit.cell("Mean", "treatment").locator(".value")).to_have_text(f"{measure['mean']:.4f}")
        table = page_visit.section(EXPERIMENT).locator(".variants")
        expect(table.locator("caption")).to_have_text(
            f"Variants side by side, final lists since the start to {clock(report['experiments_entered_ms'])}"
        )
        expect(page_visit.cell("Users", "treatment")).to_have_text(f"{treatment['users']:,}")
        arms = ", ".join(f"{variant['variant']} {variant['users']:,}" for variant in start["variants"])
        expect(page_visit.section(EXPERIMENT).locator(".facts")).to_contain_text(
            f"{sum(variant['users'] for variant in start['variants']):,} users: {arms}."
        )
        page_visit.page.get_by_text("Standard errors and effective users").click()
        exact = page_visit.section(EXPERIMENT).locator("details", has_text="Standard errors").locator("tbody tr", has_text="treatment")
        expect(exact.locator("td")).to_have_text(
            [f"{measure['error']:.4f}", f"{treatment['users']:,}", f"{treatment['effective_users']:,.0f}", "0.05\u00a0%"]
        )

    def test_users_of_the_window_have_their_hit_rate_and_their_own_end(self, visit: Open, still: Served) -> None:
        page_visit, report = visit(still.base), fetched(still.base)
        (hour,) = (window for window in report["user_windows"] if window["window_ms"] == HOUR_MS)
        assert hour["end_ms"] < next(
            window["end_ms"] for window in report["windows"] if (window["window_ms"], window["view"]) == (HOUR_MS, "final")
        )
        for section, name, heads in ((EXPERIMENT, EXPERIMENT, ("control", "treatment")), ("All traffic", "", ("All traffic",))):
            head = page_visit.head("Users of", section=section)
            expect(head).to_have_text(f"Users of the last hourto {clock(hour['end_ms'])}")
            for variant in heads:
                (reached,) = (
                    group for group in hour["groups"] if (group["experiment"], group["variant"]) == (name, variant if name else "")
                )
                assert 0 < reached["users_with_hit"]["user_hit_rate@10"] < reached["users"]
                share = f"{100 * reached['values']['user_hit_rate@10']:.1f}\u00a0% with a hit in the first 10"
                expect(page_visit.cell("Users of", variant, section=section)).to_have_text(f"{reached['users']:,}{share}")

    def test_users_of_a_window_are_shown_withheld_or_absent_as_in_the_report(
        self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]
    ) -> None:
        story, reports = history
        (five, hour) = reports[-1].user_windows
        for windows, words in (
            ((five, replace(hour, complete=False, arms=())), "not shown: users were not counted all the time"),
            ((), None),
        ):
            port = serve(story.answers(), replace(reports[-1], user_windows=windows))
            page_visit = visit(port.base)
            expect(page_visit.cell("Final", "treatment").locator(".value")).to_be_visible()
            head = page_visit.head("Users of")
            if words is None:
                expect(head).to_have_count(0)
            else:
                expect(head).to_contain_text(words)
                expect(page_visit.cell("Users of", "treatment")).to_have_text(MISSING)
            page_visit.page.goto("about:blank")  # otherwise it polls a closed port

    def test_reduced_lifts_and_teams_are_beside_the_plain_numbers(
        self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]
    ) -> None:
        story, reports = history
        arms = {"control": 0.5, "treatment": 0.45, "interleaved": 0.5}
        stats = experiment(arms, name=EXPERIMENT, whole=True)
        port = serve(story.answers(), with_experiments(reports[-1], stats))
        page_visit = visit(port.base)
        treatment = next(variant for variant in stats.variants if variant.variant == "treatment").measures[0]
        assert treatment.reduced is not None
        removed = f"{100 * treatment.reduced.variance_reduction:.1f}\u00a0% of the variance removed"
        expect(page_visit.cell("Lift", "treatment")).to_contain_text(removed)
        (preference,) = stats.preferences
        row = page_visit.section(EXPERIMENT).locator(".preferences tbody tr")
        expect(row).to_contain_text(f"{preference.team} against {preference.against}{MINUS}{-preference.credit:.4f}")
        expect(row).to_contain_text(f"{preference.users:,}{preference.lists:,} lists")
        expect(row.locator(".badge")).to_have_text("\N{BLACK DOWN-POINTING TRIANGLE} Regressed")
        expect(page_visit.cell("Lift", "interleaved")).to_have_text("both rankers in one list")

    def test_the_verdict_has_its_reason(self, visit: Open, still: Served) -> None:
        page_visit, report = visit(still.base), fetched(still.base)
        verdict = report["experiments"][0]["verdict"]
        assert verdict["word"] == "regressed"
        assert verdict["reason"].startswith("treatment: ")
        expect(page_visit.section(EXPERIMENT).locator(".verdict .word")).to_have_text("▼ Regressed")
        expect(page_visit.section(EXPERIMENT).locator(".verdict .reason")).to_have_text(
            f"{verdict['reason']}.".replace("ndcg", "NDCG")
        )  # names keep their case
        expect(page_visit.cell("Verdict", "treatment")).to_have_text("▼ Regressed")

    def test_a_reason_starts_with_a_capital_letter(self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]) -> None:
        split = experiment({"control": 0.5, "treatment": 0.5}, name=EXPERIMENT, users={"control": 1_000, "treatment": 2_000})
        port = serve(history[0].answers(), with_experiments(history[1][-1], split))
        page_visit = visit(port.base)
        reason = page_visit.section(EXPERIMENT).locator(".verdict .reason")
        counts = "control 1,000, treatment 2,000; practically impossible by chance"
        advice = f"If the shares of {EXPERIMENT} are set wrong, copy those of your assignment, not these counts; if they change on purpose"
        expect(reason).to_have_text(f"Users are not split as configured ({counts}): fix the assignment.")
        expect(page_visit.section(EXPERIMENT).locator(".advice")).to_contain_text(advice)

    def test_what_bends_a_verdict_stands_below_it(self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]) -> None:
        warning = DataWarning("lists per user", "treatment has 4 lists per user", "look for crawlers", "treatment")
        report = replace(experiment({"control": 0.5, "treatment": 0.5}, name=EXPERIMENT), warnings=(warning,))
        page_visit = visit(serve(history[0].answers(), with_experiments(history[1][-1], report)).base)
        verdict = page_visit.section(EXPERIMENT).locator(".verdict")
        expect(verdict).to_contain_text("Warning: Treatment has 4 lists per user. Look for crawlers.")

    def test_what_the_reason_says_stands_once_and_its_fix_below_it(
        self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]
    ) -> None:
        change = "the effect has changed: 9 % higher before 2026-03-02 00:00 UTC, 3 % lower since"
        warning = DataWarning("effect changed", f"treatment on mrr@10: {change}", "to compare the lists since, set start", "treatment")
        report = experiment({"control": 0.5, "treatment": 0.5}, name=EXPERIMENT)
        report = replace(report, verdict=Verdict("inconclusive", f"treatment: 1 % higher; {change}"), warnings=(warning,))
        page_visit = visit(serve(history[0].answers(), with_experiments(history[1][-1], report)).base)
        verdict = page_visit.section(EXPERIMENT).locator(".verdict")
        expect(verdict.locator(".doubt")).to_have_text("To compare the lists since, set start.")
        assert verdict.inner_text().count("the effect has changed") == 1

    def test_a_new_page_has_curves_with_all_recent_points(self, visit: Open, still: Served) -> None:
        page_visit = visit(still.base)
        asked = fetched(still.base, f"/api/curves?window_ms={HOUR_MS}&metric=ndcg@10")
        figure = page_visit.section(EXPERIMENT).locator("figure").filter(has_text="Lift of NDCG@10")
        experiment_lines = next(experiment for experiment in asked["experiments"] if experiment["scope"] == "start")
        figure.get_by_text("Curves as numbers").click()
        count = lifts(still.base)
        expect(figure.locator("tbody tr")).to_have_count(count)
        assert count > 30
        points = page_visit.page.evaluate(DRAWN, f"experiment-{EXPERIMENT}-lift")
        value, lower, upper = points["series"]
        assert [len([cell for cell in column if cell is not None]) for column in (value, lower, upper)] == [count] * 3
        assert all(low < middle < high for low, middle, high in zip(lower, value, upper, strict=True))
        expect(figure.locator("tbody tr").first.locator("th")).to_have_text(clock(experiment_lines["ends_ms"][-1]))

    def test_a_page_loads_missed_points_after_a_pause(self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]) -> None:
        story, reports = history
        port = serve(story.answers(), *reports[:-6])
        page_visit = visit(port.base)
        figure = page_visit.section(EXPERIMENT).locator("figure").filter(has_text="Lift of")
        figure.get_by_text("Curves as numbers").click()
        rows = figure.locator("tbody tr")
        expect(rows).to_have_count(lifts(port.base))
        before = lifts(port.base)
        for report in reports[-6:]:
            port.answers.show(report)
        page_visit.page.clock.fast_forward(6 * MINUTE_MS)
        expect(rows.first.locator("th")).to_have_text(clock(reports[-1].entered_ms or 0))
        expect(rows).to_have_count(before + 6)
        assert lifts(port.base) == before + 6

    def test_final_and_live_differ_in_text_and_curves(self, visit: Open, still: Served) -> None:
        page_visit = visit(still.base)
        figure = page_visit.section(EXPERIMENT).locator("figure").filter(has_text="over the last hour")
        names = ["control, final", "control, live", "treatment, final", "treatment, live", "still changing"]
        expect(figure.locator(".legend li")).to_have_text(names)
        dashes = [
            figure.locator(f".key.line{kind} path").first.evaluate("e => getComputedStyle(e).strokeDasharray")
            for kind in (":not(.live)", ".live")
        ]
        assert dashes == ["none", "2px, 3px"]

    def test_no_text_is_drawn_over_the_curves(self, visit: Open, still: Served) -> None:
        page_visit = visit(still.base)
        curves_are_drawn(page_visit.page, f"experiment-{EXPERIMENT}-lift")
        written = page_visit.page.evaluate(WRITTEN, f"experiment-{EXPERIMENT}-lift")
        box = page_visit.page.evaluate(DRAWN, f"experiment-{EXPERIMENT}-lift")["box"]
        assert len(written) >= 6, "labels of both axes"
        inside = [
            text
            for text, x, y in written
            if box["left"] < x < box["left"] + box["width"] and box["top"] < y < box["top"] + box["height"] - 1
        ]
        assert inside == []

    def test_missing_values_are_not_shown_as_zero(self, visit: Open, still: Served) -> None:
        page_visit = visit(still.base, "?segment=surface%3Dsearch")  # this segment has no control
        expect(page_visit.cell("Final", "treatment").locator(".value")).to_have_text(re.compile(r"^0\.\d{4}$"))
        expect(page_visit.cell("Final", "control")).to_have_text(f"{MISSING}no lists")
        page_visit.choose("Metric", "User hit rate")
        expect(page_visit.cell("Final", "treatment")).to_have_text(f"{MISSING}not measured")
        expect(page_visit.cell("Mean", "treatment", group=1).locator(".value")).to_have_text(re.compile(r"^\d\.\d{4}$"))

    def test_the_pipeline_shows_lag_age_and_refused_events(self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]) -> None:
        status = history[0].status
        status.lag_records.update({Input("impressions", 0): 1_234, Input("feedback", 0): 1})
        status.lag_seconds.update({Input("impressions", 0): 125.0, Input("feedback", 0): 0.0})
        section = visit(fresh.base).section("Pipeline")
        expect(section.locator(".tile", has_text="Lag")).to_have_text("Lag1,235records to read; the last one read is 2 min old")
        expect(section.locator(".tile", has_text="Live up to").locator("time")).to_have_text(clock(fetched(fresh.base)["watermark_ms"]))
        expect(section.locator(".tile", has_text="Tasks")).to_contain_text("1 of 1")
        expect(section).to_contain_text("No events were refused.")
        section.get_by_text("Inputs (2)").click()
        expect(section.locator("tr", has_text="impressions 0").locator("td").nth(2)).to_have_text("1,234")

    def test_the_event_rate_covers_the_time_between_reports(self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]) -> None:
        story, report = history[0], history[1][-1]
        seconds = [time.monotonic()]
        answers = HttpAnswers(story.pipeline.exposition(story.status), lambda: seconds[0])
        port = serve(answers, report)
        page_visit = visit(port.base)
        tile = page_visit.section("Pipeline").locator(".tile", has_text="Events read").locator("dd")

        expect(tile.last).to_have_text("in total")
        seconds[0] += 10
        answers.show(replace(report, counts=Counter(report.counts) + Counter({("events", "impressions"): 1_000})))
        page_visit.ask_again()
        expect(tile.last).to_have_text("100 per second now")
        for age in ("1[0-9]", "2[0-9]"):
            seconds[0] += 10
            page_visit.page.clock.fast_forward(10_000)
            expect(page_visit.page.locator("#state")).to_contain_text(re.compile(rf"report {age}\ss old"))
            expect(tile.last).to_have_text("100 per second now")

    def test_without_final_lists_windows_are_shown_without_a_verdict(
        self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]
    ) -> None:
        story, _ = history
        port = serve(story.answers())
        port.answers.show(story.pipeline.report())
        page_visit = visit(port.base)
        expect(page_visit.section(EXPERIMENT)).to_contain_text("No verdict yet: no user of this experiment has a final list.")
        expect(page_visit.cell("Final", "treatment").locator(".value")).to_have_text(re.compile(r"^0\.\d{4}$"))
