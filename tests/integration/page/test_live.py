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
            found = visit(address[0], expected=("status of 503",), fake_clock=False)  # opened before the first report
            live(found.page)
            control, treatment = found.cell("Final", "control", section="ranker"), found.cell("Final", "treatment", section="ranker")
            expect(control.locator(".value")).to_have_text(re.compile(r"^0\.\d{4}$"))
            expect(treatment.locator(".value")).to_have_text(re.compile(r"^0\.\d{4}$"))
            head = found.head("Final", section="ranker")
            before = head.text_content()
            assert before
            expect(head).not_to_have_text(before, timeout=SECONDS)
            assert float(control.locator(".value").text_content() or "0") > float(treatment.locator(".value").text_content() or "1")
            expect(found.section("Pipeline")).to_contain_text("older than the allowed lateness")
            process.kill()


class TestAskingAgain:
    def test_an_unchanged_report_gets_304_and_the_next_one_is_shown(
        self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]
    ) -> None:
        found = visit(fresh.base)
        live(found.page)
        with found.page.expect_response("**/api/report/experiments?*"):
            found.ask_again()  # the first request of the page has no query
        for _ in range(2):
            with found.page.expect_response("**/api/report/experiments?*") as answer:
                found.ask_again()
            assert answer.value.status == 304
        live(found.page)
        final = found.cell("Final", "control").locator(".value")
        before = final.text_content()
        assert before
        fresh.answers.show(history[1][-40])
        with found.page.expect_response("**/api/report/experiments?*") as answer:
            found.ask_again()
        assert answer.value.status == 200
        expect(final).not_to_have_text(before)
