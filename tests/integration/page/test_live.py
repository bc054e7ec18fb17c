"""The page of a running demo, and polling for new reports."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from streammetrics.reports.report import Report
from tests.integration.page.visits import SECONDS, Open, Served, live
from tests.support.command_line import started
from tests.support.page_story import Story


class TestDemo:
    def test_a_demo_shows_both_variants_and_updates(self, visit: Open) -> None:
        with started("demo", "--port", "0") as process:
            assert process.stdout is not None
            address = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert address
            page_visit = visit(address[0], expected=("status of 503",), fake_clock=False)  # opened before the first report
            live(page_visit.page)
            control, treatment = (
                page_visit.cell("Final", "control", section="ranker"),
                page_visit.cell("Final", "treatment", section="ranker"),
            )
            expect(control.locator(".value")).to_have_text(re.compile(r"^0\.\d{4}$"))
            expect(treatment.locator(".value")).to_have_text(re.compile(r"^0\.\d{4}$"))
            head = page_visit.head("Final", section="ranker")
            before = head.text_content()
            assert before
            expect(head).not_to_have_text(before, timeout=SECONDS)
            assert float(control.locator(".value").text_content() or "0") > float(treatment.locator(".value").text_content() or "1")
            expect(page_visit.section("Pipeline")).to_contain_text("older than the allowed lateness")
            process.kill()


class TestAskingAgain:
    def test_an_unchanged_report_gets_304_and_the_next_one_is_shown(
        self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]
    ) -> None:
        page_visit = visit(fresh.base)
        live(page_visit.page)
        with page_visit.page.expect_response("**/api/report/experiments?*"):
            page_visit.ask_again()  # the first request of the page has no query
        for _ in range(2):
            with page_visit.page.expect_response("**/api/report/experiments?*") as answer:
                page_visit.ask_again()
            assert answer.value.status == 304
        live(page_visit.page)
        final = page_visit.cell("Final", "control").locator(".value")
        before = final.text_content()
        assert before
        fresh.answers.show(history[1][-40])
        with page_visit.page.expect_response("**/api/report/experiments?*") as answer:
            page_visit.ask_again()
        assert answer.value.status == 200
        expect(final).not_to_have_text(before)
