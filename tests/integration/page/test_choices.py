"""The choices of the reader: the address, what they change, and what stays."""

from __future__ import annotations

import re
from dataclasses import replace

from playwright.sync_api import expect

from streammetrics.reports.report import Report
from tests.integration.page.visits import Open, Served, fetched, group
from tests.support.committed_state import MINUTE_MS
from tests.support.experiment_samples import experiment
from tests.support.page_story import (
    EXPERIMENT,
    Story,
    with_experiments,
)


class TestChoices:
    def test_a_choice_changes_the_numbers_and_stays_in_the_address(self, visit: Open, still: Served) -> None:
        page_visit, report = visit(still.base), fetched(still.base)
        page_visit.choose("Window", "5 minutes")
        page_visit.choose("Metric", "MRR")
        page_visit.choose("Cut-off", "first 2")
        page_visit.choose("Lists", "with feedback")
        values = group(report, "live", "control", window_ms=5 * MINUTE_MS)
        cell = f"{values['values_with_feedback']['mrr@2']:.4f}{values['lists_with_feedback']} lists"
        expect(page_visit.cell("Live", "control")).to_have_text(cell)
        assert page_visit.page.url.endswith("/?window=5m&metric=mrr&k=2&lists=with_feedback")
        page_visit.page.reload()
        expect(page_visit.cell("Live", "control")).to_have_text(cell)
        expect(page_visit.page.get_by_label("Metric", exact=True)).to_have_value("mrr")
        expect(page_visit.section(EXPERIMENT).locator("figcaption").last).to_have_text("MRR@2 over the last 5 minutes")

    def test_a_segment_can_be_chosen_and_the_statistics_cover_all_lists(self, visit: Open, still: Served) -> None:
        page_visit, report = visit(still.base), fetched(still.base)
        page_visit.choose("Segment", "surface=home")
        home = group(report, "final", "treatment", segments={"surface": "home"})
        expect(page_visit.cell("Final", "treatment").locator(".value")).to_have_text(f"{home['values']['ndcg@10']:.4f}")
        expect(page_visit.section(EXPERIMENT)).to_contain_text("Verdicts, means and users cover all lists, not only surface=home.")

    def test_the_statistics_of_the_day_can_be_chosen(self, visit: Open, still: Served) -> None:
        page_visit = visit(still.base)
        page_visit.choose("Statistics", "this day (UTC)")
        expect(page_visit.section(EXPERIMENT).locator(".verdict")).to_contain_text("Final lists on 2024-11-21 (UTC)")

    def test_unknown_choices_in_the_address_give_the_defaults(self, visit: Open, still: Served) -> None:
        page_visit = visit(still.base, "?window=9y&metric=<b>&k=0&lists=none&segment=x&scope=&experiment=none")
        expect(page_visit.page.get_by_label("Metric", exact=True)).to_have_value("ndcg")
        expect(page_visit.cell("Final", "control").locator(".value")).to_have_text(re.compile(r"^0\.\d{4}$"))

    def test_all_metrics_can_be_opened_and_stay_open(self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]) -> None:
        page_visit = visit(fresh.base)
        part = page_visit.section(EXPERIMENT).locator("details", has=page_visit.page.get_by_text("All metrics"))
        part.locator("summary").click()
        metrics = fetched(fresh.base)["settings"]["metrics"]
        expect(part.locator("tbody tr")).to_have_count(len(metrics) + 2)  # and user_hit_rate at both cut-offs
        fresh.answers.show(with_experiments(history[1][-1]))
        page_visit.ask_again()
        expect(page_visit.section(EXPERIMENT)).to_contain_text("no user of this experiment has a final list")
        expect(part.locator("tbody tr")).to_have_count(len(metrics))

    def test_open_parts_and_focus_stay_when_an_experiment_appears(
        self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]
    ) -> None:
        page_visit = visit(fresh.base)
        part = page_visit.section("All traffic").locator("details", has=page_visit.page.get_by_text("All metrics"))
        part.locator("summary").click()
        expect(part.locator("tbody tr")).not_to_have_count(0)
        expect(part.locator("summary")).to_be_focused()
        first = experiment({"control": 0.5, "treatment": 0.5}, name="a-first")
        fresh.answers.show(with_experiments(history[1][-1], first, *history[1][-1].experiments))
        page_visit.ask_again()
        expect(page_visit.section("Experiment")).to_have_count(2)
        expect(page_visit.section("Experiment").last).to_contain_text("a-first")  # it is undecided, so the other one comes first
        expect(part).to_have_attribute("open", "")
        expect(part.locator("tbody tr")).not_to_have_count(0)
        expect(part.locator("summary")).to_be_focused()
        expect(page_visit.page.locator("details[open]")).to_have_count(1)
        fresh.answers.show(history[1][-1])
        page_visit.ask_again()
        expect(page_visit.section("Experiment")).to_have_count(1)
        expect(part).to_have_attribute("open", "")
        expect(part.locator("summary")).to_be_focused()

    def test_a_choice_keeps_the_focus_when_another_choice_appears(
        self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]
    ) -> None:
        report = history[1][-1]
        whole = [replace(window, groups=tuple(values for values in window.groups if not values.group.segment)) for window in report.windows]
        fresh.answers.show(replace(report, windows=tuple(whole)))
        page_visit = visit(fresh.base)
        statistics = page_visit.page.get_by_label("Statistics", exact=True)
        statistics.focus()
        expect(page_visit.page.get_by_label("Segment", exact=True)).to_have_count(0)
        fresh.answers.show(report)
        page_visit.ask_again()
        expect(page_visit.page.get_by_label("Segment", exact=True)).to_be_visible()
        expect(statistics).to_be_focused()
