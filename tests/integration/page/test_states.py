"""What the page says while there are no numbers, or old ones."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Browser, Route, expect

from streammetrics.connectors.store import StoreNode
from streammetrics.events.model import Feedback, Impression
from streammetrics.exporters.http.answers import UNREAD, HttpAnswers
from streammetrics.reports.freshness import EXAMPLES, FirstEvents
from streammetrics.reports.input_warnings import UserPartitions
from streammetrics.reports.report import Report
from streammetrics.runtime.retry import Trouble
from tests.integration.page.visits import EVERY_MS, MISSING, WRITTEN, Open, Serve, Served, clock, curves_are_drawn, live
from tests.support.committed_state import MINUTE_MS, Pipeline
from tests.support.page_story import (
    EXPERIMENT,
    Story,
    with_experiments,
)


class TestStates:
    def test_it_shows_that_it_reads_until_the_first_response(self, still: Served, chromium: Browser) -> None:
        page = chromium.new_context().new_page()
        page.route("**/api/**", lambda route: None)  # no response
        page.goto(still.base)
        expect(page.locator("main")).to_have_text("Reading the report …")
        page.context.close()

    def test_without_scripts_it_links_to_the_report(self, visit: Open, still: Served) -> None:
        page = visit(still.base, fake_clock=False, java_script_enabled=False).page
        said = page.locator("main p")
        expect(said).to_have_text("This page needs JavaScript; /api/report has the same numbers.")
        expect(said).to_be_visible()

    def test_before_the_first_report_it_shows_what_is_missing(self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]) -> None:
        story, reports = history
        story.status.store_trouble = Trouble(story.now.seconds - 3, 2, "connection refused")
        port = serve(story.answers())
        page_visit = visit(port.base, expected=("status of 503",))
        expect(page_visit.page.locator(".pill")).to_have_text("Not ready")
        banner = [
            "The server shows no numbers yet.",
            "store: connection refused (for 3 s, 2 tries)",
            f"publisher: {UNREAD}",
            "What to do: the runbook",
        ]
        expect(page_visit.page.locator(".banner p")).to_have_text(banner)
        expect(page_visit.page.locator("main")).to_have_text("No numbers yet.")
        story.status.store_trouble = None
        port.answers.show(reports[-1])
        page_visit.ask_again()
        live(page_visit.page)

    def test_without_a_watermark_it_shows_what_it_waits_for(self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]) -> None:
        only_lists = Pipeline().feed("impressions", Impression("r", "u", int(time.time() * 1_000), ("a",)))
        port = serve(history[0].answers(first_events=FirstEvents(("impressions", "feedback"))))
        port.answers.show(only_lists.report())
        page_visit = visit(port.base)
        expect(page_visit.page.locator(".pill")).to_have_text("Starting")
        expect(page_visit.page.locator(".banner")).to_contain_text("Live numbers count the lists so far.")
        expect(page_visit.page.locator(".banner")).to_contain_text("No events yet on feedback 0.")
        port.answers.show(Pipeline().report())
        page_visit.ask_again()
        expect(page_visit.page.locator(".pill")).to_have_text("No data yet")
        expect(page_visit.page.locator(".banner")).to_contain_text("0 of 1 tasks have committed.")
        expect(page_visit.page.locator(".banner pre")).to_have_text(list(EXAMPLES))
        port.answers.show(only_lists.report())
        page_visit.ask_again()
        expect(page_visit.head("Final", section="All traffic")).to_have_text(re.compile(r"^Final\? last hourfirst ones at "))
        expect(page_visit.cell("Final", "All traffic", section="All traffic")).to_have_text(f"{MISSING}no lists")
        expect(page_visit.cell("Live", "All traffic", section="All traffic")).to_contain_text("1 list")

    def test_in_the_first_minute_it_counts_down_to_what_comes(self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]) -> None:
        story = history[0]
        pane_ms = int(time.time() * 1_000) // MINUTE_MS * MINUTE_MS - MINUTE_MS
        lists = [Impression(f"r{at}", f"u{at}", pane_ms + 1_000 * at, ("a", "b"), (("new", "control"),)) for at in range(21)]
        pipeline = Pipeline().feed("feedback", Feedback(user_id="u20", ts=pane_ms + 20_000, item_id="a", action="click"))
        port = serve(story.answers(), pipeline.feed("impressions", *lists).report())
        opened = time.time()
        page_visit = visit(port.base)
        ends = clock(pane_ms + MINUTE_MS)
        expect(page_visit.page.locator(".pill")).to_have_text("Starting")
        said = re.fullmatch(
            r"Events arrive\. The first whole live window comes in (\d+)\ss \((.*)\); until then the page has the lists so far\.",
            page_visit.page.locator(".banner.starting").inner_text(),
        )
        assert said is not None
        left = int(said[1])
        assert left <= 45
        earliest = int(opened) + left - 1  # the span is rounded, so up to half a second less is left
        assert said[2].replace("\u00a0", " ") in {clock(1_000 * at) for at in range(earliest, int(time.time()) + left + 2)}
        expect(page_visit.page.locator("#pipeline")).to_contain_text("no list is final yet")
        expect(page_visit.page.locator("#pipeline")).to_contain_text("No feedback has an outcome yet.")
        expect(page_visit.head("Live", section="new")).to_have_text(f"Live? last hourso far; ends {ends}")
        expect(page_visit.head("Final", section="new")).to_have_text(f"Final? last hourfirst ones at {clock(pane_ms + 32 * MINUTE_MS)}")
        expect(page_visit.cell("Live", "control", section="new")).to_contain_text("21 lists")
        story.now.seconds += 10
        page_visit.ask_again()
        expect(page_visit.page.locator(".banner.starting")).to_contain_text("comes in 35\u00a0s")
        port.answers.show(pipeline.move_on(pane_ms + 66_000).report())
        page_visit.ask_again()
        live(page_visit.page)
        expect(page_visit.page.locator("#state")).to_contain_text("first final numbers in 31\u00a0min")
        expect(page_visit.page.locator("#state")).to_contain_text(re.compile(r"first verdict in \d\d\smin \(.*\) at the earliest"))

    def test_numbers_stay_while_the_server_is_away_and_update_afterwards(
        self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]
    ) -> None:
        story, reports = history
        page_visit = visit(fresh.base, expected=("ERR_CONNECTION_REFUSED", "status of 503"))
        live(page_visit.page)
        figure = page_visit.section(EXPERIMENT).locator("figure").filter(has_text="Lift of")
        figure.get_by_text("Curves as numbers").click()
        expect(figure.locator("tbody tr")).to_have_count(5)
        fresh.server.stop()
        page_visit.ask_again()
        expect(page_visit.page.locator(".pill")).to_have_text("Stale")
        expect(page_visit.page.get_by_role("status")).to_contain_text("Stale. The server does not respond")
        expect(page_visit.page.locator(".banner")).to_contain_text("The server does not respond (no connection)")
        expect(page_visit.cell("Final", "control").locator(".value")).to_have_text(re.compile(r"^0\.\d{4}$"))
        fresh.restart(story.answers())
        page_visit.ask_again()
        expect(page_visit.page.locator(".pill")).to_have_text("Not ready")
        expect(page_visit.cell("Final", "control").locator(".value")).to_have_text(re.compile(r"^0\.\d{4}$"))
        fresh.answers.show(with_experiments(story.pipeline.report(), *reports[-1].experiments))
        page_visit.ask_again()
        live(page_visit.page)
        expect(figure.locator("tbody tr")).to_have_count(5)  # the new process has one point, the page has all

    @pytest.mark.parametrize(
        ("answer", "problem"),
        [
            ({"status": 500, "json": {"error": "oops"}}, "The server failed (status 500)."),
            ({"status": 502, "content_type": "text/html", "body": "<h1>Bad Gateway</h1>"}, "The server failed (status 502)."),
            ({"status": 503, "json": {"message": "no backend"}}, "The server failed (status 503)."),
            ({"status": 200, "content_type": "text/html", "body": "<h1>Welcome</h1>"}, "The server sent something else than a report."),
        ],
        ids=["an error", "a gateway", "a proxy without a backend", "a page of somebody else"],
    )
    def test_answers_that_are_no_numbers_are_named_and_the_page_recovers(
        self, visit: Open, fresh: Served, answer: dict[str, Any], problem: str
    ) -> None:
        page_visit = visit(fresh.base, expected=("status of 50",))
        live(page_visit.page)
        page_visit.page.route("**/api/**", lambda route: route.fulfill(**answer))
        page_visit.ask_again()
        expect(page_visit.page.locator(".pill")).to_have_text("Stale")
        expect(page_visit.page.locator(".banner")).to_contain_text(f"{problem} The page retries every 2 s. The numbers below are from ")
        expect(page_visit.cell("Final", "control").locator(".value")).to_have_text(re.compile(r"^0\.\d{4}$"))
        page_visit.page.unroute("**/api/**")
        page_visit.ask_again()
        live(page_visit.page)

    def test_a_server_that_answers_too_late_is_named_and_the_page_recovers(self, visit: Open, fresh: Served) -> None:
        page_visit = visit(fresh.base)
        live(page_visit.page)
        page_visit.page.route("**/api/**", lambda route: None)  # holds each request without an answer
        with page_visit.page.expect_request("**/api/report/state"), page_visit.page.expect_request("**/api/pulse"):
            page_visit.ask_again()
        page_visit.page.clock.fast_forward(10_000)
        expect(page_visit.page.locator(".pill")).to_have_text("Stale", timeout=30_000)
        expect(page_visit.page.locator(".banner")).to_contain_text("The server does not respond within 10 s. The page retries every 2 s.")
        page_visit.page.unroute("**/api/**")
        page_visit.ask_again()
        live(page_visit.page)

    def test_a_page_that_never_had_numbers_is_not_called_stale(self, chromium: Browser, still: Served) -> None:
        page = chromium.new_context().new_page()
        page.route("**/api/report/*", lambda route: route.abort())
        page.goto(still.base)
        expect(page.locator(".pill")).to_have_text("No answer")
        expect(page.locator("#cards")).to_have_text("No numbers yet.")
        page.unroute("**/api/report/*")
        live(page)
        page.context.close()

    def test_times_are_utc_in_every_time_zone(self, visit: Open, still: Served) -> None:
        def seen(zone: str) -> list[str]:
            page_visit = visit(still.base, timezone_id=zone)
            live(page_visit.page)
            curves_are_drawn(page_visit.page, f"experiment-{EXPERIMENT}-window")
            axis = page_visit.page.evaluate(WRITTEN, f"experiment-{EXPERIMENT}-window")
            return [*page_visit.page.locator("thead .fine").all_inner_texts(), *[text for text, *_ in axis]]

        assert seen("Asia/Kolkata") == seen("UTC")

    def test_an_old_report_is_stale(self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]) -> None:
        page_visit = visit(fresh.base)
        live(page_visit.page)
        history[0].now.seconds += 31
        page_visit.ask_again()
        expect(page_visit.page.locator(".pill")).to_have_text("Stale")
        expect(page_visit.page.locator(".banner")).to_contain_text(
            "The newest report is 31 s old. The server does not read committed state."
        )

    def test_an_unreachable_source_is_shown_with_its_error(self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]) -> None:
        history[0].status.source_trouble = Trouble(history[0].now.seconds - 12, 5, "no broker answers at <b>:9092")
        page_visit = visit(fresh.base)
        expect(page_visit.page.locator(".pill")).to_have_text("Not ready")
        expect(page_visit.page.locator(".banner")).to_contain_text("source: no broker answers at <b>:9092 (for 12 s, 5 tries)")

    def test_an_exporter_is_behind_as_soon_as_its_workers_cannot_read_or_commit(
        self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]
    ) -> None:
        story, reports = history
        port = serve(HttpAnswers(story.pipeline.exposition(story.status, loop=False), story.now), reports[-1])
        page_visit = visit(port.base)
        live(page_visit.page)
        story.status.outages = ("no Kafka broker answers (b:9092: timed out)",)
        page_visit.ask_again()
        expect(page_visit.page.locator(".pill")).to_have_text("Behind")
        expect(page_visit.page.locator(".banner")).to_contain_text("no Kafka broker answers (b:9092: timed out)")
        expect(page_visit.page.locator(".banner a")).to_have_attribute("href", "/help/StreammetricsKafkaDown")
        story.status.outages = ()
        story.status.store_nodes = (StoreNode("r:1", refusal="it cannot write to its disk, which may be full"),)
        page_visit.ask_again()
        expect(page_visit.page.locator(".banner")).to_contain_text(
            "Redis at r:1 refuses writes: it cannot write to its disk, which may be full"
        )
        expect(page_visit.page.locator(".banner a")).to_have_attribute("href", "/help/StreammetricsRedisDown")
        story.status.store_nodes = ()

    def test_event_time_far_behind_is_shown(self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]) -> None:
        story, reports = history
        port = serve(story.answers(), reports[-12])
        opened = time.time()
        page_visit = visit(port.base)
        expect(page_visit.page.locator(".pill")).to_have_text("Behind")
        expect(page_visit.page.locator(".banner")).to_contain_text(re.compile(r", \d+\smin ago\. The slowest input is \w+ 0\."))
        said = re.search(r"(\d+)\smin ago", page_visit.page.locator(".banner").inner_text())
        watermark_ms = reports[-12].watermark_ms
        assert said is not None
        assert watermark_ms is not None
        least, most = ((at - watermark_ms / 1_000) / 60 for at in (opened, time.time()))
        assert least - 1.5 < int(said[1]) < most + 1.5

    @pytest.mark.parametrize(
        ("events", "sentence"),
        [
            (0, "No events are read now: no worker runs, Kafka or Redis does not answer the workers, or"),
            (900, "90 events per second are read, so"),
        ],
    )
    def test_an_outage_is_told_from_a_backlog(
        self, visit: Open, serve: Serve, history: tuple[Story, list[Report]], events: int, sentence: str
    ) -> None:
        story, report = history[0], history[1][-12]
        seconds = [time.monotonic()]
        answers = HttpAnswers(story.pipeline.exposition(story.status), lambda: seconds[0])
        page_visit = visit(serve(answers, report).base)
        expect(page_visit.page.locator(".pill")).to_have_text("Behind")
        expect(page_visit.page.locator(".banner")).not_to_contain_text("are read")
        seconds[0] += 10
        answers.show(replace(report, counts=Counter(report.counts) + Counter({("events", "impressions"): events})))
        page_visit.ask_again()
        expect(page_visit.page.locator(".banner")).to_contain_text(sentence)

    def test_users_on_several_partitions_are_shown_with_the_way_out(
        self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]
    ) -> None:
        story, reports = history
        port = serve(story.answers(), replace(reports[-1], user_partitions=UserPartitions(200, 50)))
        banner = visit(port.base).page.locator(".banner.input-problem")
        expect(banner).to_contain_text("25 % of users have events on several partitions (50 of 200 sampled users)")
        expect(banner).to_contain_text("streammetrics repartition")

    def test_without_such_users_there_is_no_banner(self, visit: Open, still: Served) -> None:
        page = visit(still.base).page
        expect(page.locator(".pill")).to_have_text("Live")
        expect(page.locator(".banner.input-problem")).to_have_count(0)

    def test_a_worker_points_to_the_exporter(self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]) -> None:
        port = serve(history[0].answers(publishes=False))
        page_visit = visit(port.base, expected=("status of 503",))
        expect(page_visit.page.locator(".banner")).to_contain_text("This process only consumes events.")

    def test_a_needed_login_is_shown_and_requested_once(self, visit: Open, fresh: Served) -> None:
        page_visit = visit(fresh.base, expected=("status of 401",))
        live(page_visit.page)
        asked: list[str] = []

        def refuse(route: Route) -> None:  # like a proxy with an expired session
            asked.append(route.request.url)
            route.fulfill(status=401)

        page_visit.page.route("**/api/**", refuse)
        page_visit.ask_again()
        expect(page_visit.page.locator(".pill")).to_have_text("Log in")
        expect(page_visit.cell("Final", "control").locator(".value")).to_have_text(re.compile(r"^0\.\d{4}$"))
        page_visit.page.clock.run_for(10 * EVERY_MS)
        assert len(asked) <= 3  # both parts of the report and the pulse once, because each request can prompt for a password
        page_visit.page.unroute("**/api/**")
        page_visit.page.get_by_role("button", name="Log in again").click()
        live(page_visit.page)
