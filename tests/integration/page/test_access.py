"""The page by pointer, by keyboard and by screen reader."""

from __future__ import annotations

import re
from dataclasses import replace

from playwright.sync_api import expect

from streammetrics.experiments import FeedbackCounts
from streammetrics.exporters.http.help_pages import glossary
from streammetrics.reports.report import Report
from tests.integration.page.visits import EVERY_MS, FOCUSED, MINUS, Open, Served, clock, fetched, live
from tests.support.committed_state import MINUTE_MS
from tests.support.page_story import (
    EXPERIMENT,
    SimulatedUsers,
    Story,
    with_experiments,
)

TABLE = "Variants side by side, final lists since the start to"


class TestPointer:
    def test_a_chart_shows_the_values_at_the_pointer_and_else_the_newest(self, visit: Open, fresh: Served) -> None:
        page_visit = visit(fresh.base)
        figure = page_visit.section(EXPERIMENT).locator("figure").filter(has_text="Lift of")
        newest, readout = clock(fetched(fresh.base)["experiments_entered_ms"]), figure.locator(".readout")
        expect(readout).to_contain_text(f"To {newest}: treatment {MINUS}")
        figure.locator(".u-over").hover(position={"x": 3, "y": 100})
        expect(readout).to_contain_text(f"To {clock(fetched(fresh.base)['experiments_entered_ms'] - 4 * MINUTE_MS)}: treatment {MINUS}")
        page_visit.page.locator("h1").hover()
        expect(readout).to_contain_text(f"To {newest}: treatment {MINUS}")


class TestWithoutAMouse:
    def test_the_keyboard_reaches_all_controls_in_page_order(self, visit: Open, still: Served) -> None:
        page = visit(still.base).page
        live(page)
        expect(page.locator(".plot canvas")).to_have_count(3)
        reached = []
        for _ in range(39):
            page.keyboard.press("Tab")
            reached.append(page.evaluate(FOCUSED))
        reached = [TABLE if tag.startswith(TABLE) else tag for tag in reached]
        assert reached == [
            "Skip to the numbers",
            "window",
            "What is NDCG?",
            "metric",
            "k",
            "lists",
            "segment",
            "scope",
            f"Experiment {EXPERIMENT}",
            "▼ Regressed",
            "Gate: fail",
            TABLE,
            "What is NDCG?",
            "What is mean?",
            "What is lift?",
            "What is interval?",
            "What is users?",
            "What is verdict?",
            "▼ Regressed",
            "Standard errors and effective users",
            "What is contribution?",
            "Contributions by segment and rank",
            "treatment",
            "What is margin?",
            "Lift of NDCG@10 against control, since the start, by time",
            "Zoom in",
            "Curves as numbers",
            "control, final",
            "control, live",
            "treatment, final",
            "treatment, live",
            "NDCG@10 over the last hour, by time",
            "Zoom in",
            "Curves as numbers",
            "NDCG@10 over the last hour",
            "What is final?",
            "What is live?",
            "All metrics",
            "All traffic",
        ]
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"

    def test_arrow_keys_move_the_cursor_of_a_chart_and_updates_keep_it(
        self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]
    ) -> None:
        page_visit = visit(fresh.base)
        slider = page_visit.page.get_by_role("slider", name="Lift of NDCG@10 against control, since the start, by time")
        slider.focus()
        ends = [report.entered_ms for report in history[1][-5:]]
        assert None not in ends
        for key, end in (("ArrowLeft", ends[3]), ("ArrowLeft", ends[2]), ("Home", ends[0]), ("ArrowRight", ends[1])):
            page_visit.page.keyboard.press(key)
            expect(slider).to_have_attribute("aria-valuetext", re.compile(rf"^To {clock(end or 0)}: treatment {MINUS}".replace(" ", r"\s")))
        fresh.answers.show(with_experiments(history[1][-1], *history[1][-2].experiments))
        page_visit.ask_again()
        expect(page_visit.page.locator("section .readout").first).to_contain_text(f"To {clock(ends[1] or 0)}")
        expect(slider).to_be_focused()

    def test_a_term_is_explained_by_keyboard_and_closed_again(self, visit: Open, still: Served) -> None:
        page = visit(still.base).page
        live(page)
        box = page.locator("#term")
        expect(box).to_be_hidden()
        page.get_by_role("button", name="What is NDCG?").first.press("Enter")
        expect(box.locator("p").first).to_have_text(glossary()["NDCG"].meaning)
        expect(box.get_by_role("link", name="Metrics")).to_have_attribute("href", re.compile("^https://github.com/streammetrics/"))
        page.keyboard.press("Escape")
        expect(box).to_be_hidden()
        page.get_by_role("button", name="What is verdict?").click()
        expect(box).to_contain_text("The word for a comparison")
        page.get_by_role("button", name="What is verdict?").click()
        expect(box).to_be_hidden()
        page.get_by_role("button", name="What is margin?").click()
        expect(box).to_contain_text("marginThe relative drop that is tolerated.")

    def test_a_verdict_and_the_gate_open_a_sentence_that_helps_to_decide_with_a_link(self, visit: Open, still: Served) -> None:
        page = visit(still.base).page
        live(page)
        box = page.locator("#term")
        for place in (".verdict", ".variants tbody"):
            page.locator(place).get_by_role("button", name="Regressed").first.click()
            expect(box).to_contain_text("Stop the rollout")
            page.keyboard.press("Escape")
        page.get_by_role("button", name="Gate: fail").click()
        expect(box).to_contain_text("Fail: stop it.")
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Regressed").first.click()
        box.get_by_role("link", name="Runbook").click()
        expect(page.locator("h1")).to_have_text("StreammetricsRankingRegressed")

    def test_the_glossary_and_the_runbook_of_a_banner_come_from_the_same_server(
        self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]
    ) -> None:
        page = visit(fresh.base).page
        live(page)
        page.get_by_role("link", name="Glossary").click()
        expect(page.locator("h1")).to_have_text("Glossary")
        expect(page.locator("td", has_text="The variant that all others are compared with.")).to_be_visible()
        page.go_back()
        live(page)
        fresh.answers.show(replace(report := history[1][-1], watermark_ms=(report.watermark_ms or 0) - 10 * MINUTE_MS))
        page.clock.fast_forward(EVERY_MS)
        page.locator(".banner.behind").get_by_role("link", name="What to do: the runbook").click()
        expect(page.locator("h1")).to_have_text("StreammetricsLagGrowing")

    def test_the_skip_link_leads_to_the_numbers(self, visit: Open, still: Served) -> None:
        page = visit(still.base).page
        live(page)
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()

    def test_all_parts_have_accessible_names(self, visit: Open, still: Served) -> None:
        page = visit(still.base).page
        live(page)
        expect(page.locator(".plot canvas")).to_have_count(3)
        tree = page.locator("body").aria_snapshot()
        for line in (
            'heading "streammetrics" [level=1]',
            f'heading "Experiment {EXPERIMENT}" [level=2]',
            'combobox "Window"',
            'combobox "Cut-off"',
            f'table "{TABLE}',
            'rowheader "treatment"',
            'slider "NDCG@10 over the last hour, by time"',
            'figure "NDCG@10 over the last hour"',
            'heading "Pipeline" [level=2]',
            'table "Feedback by outcome"',
            'navigation "Data"',
        ):
            assert line in tree, tree
        roles = "combobox|slider|table|figure|region|link|button|heading|navigation|form|rowheader|columnheader"
        assert re.findall(rf"- (?:{roles})(?! \")\b.*", tree) == []
        assert "img" not in tree  # keys of legends are decoration

    def test_a_changed_verdict_is_announced_once_and_the_first_is_not(
        self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]
    ) -> None:
        story, reports = history
        page_visit = visit(fresh.base)
        live(page_visit.page)
        spoken = page_visit.page.get_by_role("status")
        expect(spoken).to_have_text("")
        better = SimulatedUsers(story.pipeline.engine.layout, {"control": 0.6, "treatment": 0.8})
        better.add_users(2_000)
        fresh.answers.show(with_experiments(reports[-1], better.report(story.policy)))
        page_visit.ask_again()
        expect(spoken).to_have_text(
            re.compile(rf"^Experiment {EXPERIMENT}: Improved\. treatment: .* 95\u00a0% confidence, safe to check at any time\.$")
        )
        expect(page_visit.section(EXPERIMENT).locator(".verdict .word")).to_have_text("▲ Improved")
        crossed = better.report(story.policy, joined=FeedbackCounts(10, 190))
        fresh.answers.show(with_experiments(reports[-1], crossed))
        page_visit.ask_again()
        expect(spoken).to_contain_text("Invalid. 95 % of all feedback matches no list")
