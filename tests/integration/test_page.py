"""The live page in a real Chromium, with the real HTTP port and reports of the product's own code.

Each test fails on console errors, failing scripts, violations of the content security policy, and requests to other hosts.
"""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect, sync_playwright

from streammetrics.cli.output.report_reader import read_report
from streammetrics.cli.report import page_of
from streammetrics.connectors.base import Input
from streammetrics.events.model import Feedback, Impression
from streammetrics.experiments import ExperimentReport
from streammetrics.exporters.http.server import HttpServer
from streammetrics.exporters.http.views import HttpViews
from streammetrics.reports.first_events import EXAMPLES, FirstEvents
from streammetrics.reports.history import History
from streammetrics.reports.report import Report
from streammetrics.reports.text import counted, fit
from streammetrics.reports.user_partitions import UserPartitions
from streammetrics.runtime.status import Trouble
from tests.experiments.samples import experiment
from tests.servers.chart_library import originals
from tests.servers.npm import fetched as fetched_by_npm
from tests.servers.tools import find_chromium
from tests.support.command_line import started
from tests.support.committed_state import HOUR_MS, MINUTE_MS, Pipeline
from tests.support.page_story import (
    EXPERIMENT,
    LONG_NAME,
    SIX,
    SimulatedUsers,
    Story,
    make_story,
    many_experiments,
    many_variants,
    mixed_experiment,
    with_experiments,
)

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
SECONDS = 10_000
"""Timeout for a state to show, in ms. The page polls every two seconds."""
EVERY_MS = 2_000
HOSTILE = '<script>document.body.dataset.ran="1"</script><img src=x onerror=document.body.dataset.ran=1>"\'&amp;'
HEBREW, HEBREW_7 = "\u05d0\u05d7\u05e8", "\u05de\u05d1\u05d7\u05df 7"
BIDI_CONTROLS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
FORGED = f"new{BIDI_CONTROLS} %4 yb retteb"
REPLACED = "\ufffd"
MISSING = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
expect.set_options(timeout=SECONDS)


@dataclass
class Visit:
    """A page in its own browser window, with the problems found in it."""

    page: Page
    base: str
    expected: tuple[str, ...]
    troubles: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.on(
            "console", lambda message: self._take(f"{message.type}: {message.text}") if message.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self._take(f"script: {error}"))
        self.page.on("request", lambda request: None if self._is_own(request.url) else self._take(f"asked elsewhere: {request.url}"))

    def _is_own(self, url: str) -> bool:
        return url.startswith((f"{self.base}/", "data:"))

    def _take(self, text: str) -> None:
        if not any(words in text for words in self.expected):
            self.troubles.append(text)

    def ask_again(self) -> None:
        """Advance the clock of the page to its next poll."""
        self.page.clock.fast_forward(EVERY_MS)

    def cell(self, head: str, variant: str, *, section: str = EXPERIMENT) -> Locator:
        """Return a cell of a table of variants by the head of its column and its variant."""
        with_head = self.page.locator("thead th", has_text=re.compile(f"^{head}"))
        found = self.section(section).locator(".rows table").filter(has=with_head)
        heads = found.locator("thead th")
        expect(heads.first).to_be_attached()
        at = next(index for index, text in enumerate(heads.all_text_contents()) if re.match(head, text))
        return found.locator("tbody tr").filter(has=self.page.locator("th", has_text=variant)).locator("td").nth(at - 1)

    def head(self, text: str, *, section: str = EXPERIMENT) -> Locator:
        """Return the head of a column in the tables of variants."""
        return self.section(section).locator(".rows thead th", has_text=re.compile(f"^{text}"))

    def section(self, name: str) -> Locator:
        return self.page.locator("section:not(#overview)").filter(has=self.page.locator("h2", has_text=name))

    def choose(self, label: str, option: str) -> None:
        self.page.get_by_label(label, exact=True).select_option(label=option)


Open = Callable[..., Visit]

FOCUSED = """(() => {
  const e = document.activeElement;
  return e.getAttribute("aria-label") || (e.localName === "select" ? e.name : e.textContent);
})()"""
"""Return the name of the focused element."""
WRITTEN = """async (id) => {
  const texts = [];
  const own = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    const at = this.getTransform().transformPoint({ x, y });
    if (this.canvas.closest(`#${CSS.escape(id)}`)) texts.push([text, at.x / devicePixelRatio, at.y / devicePixelRatio]);
    return own.apply(this, arguments);
  };
  document.getElementById(id).querySelector("button[name=zoom]").click();
  await new Promise((done) => queueMicrotask(done));
  return texts;
}"""
"""Draw a chart again, and return the texts that it writes with their places in CSS pixels."""
DRAWN = """async (id) => (await import("/plot.js")).drawn(id)"""
"""Return what a chart shows: its data by series, its scales, and the area of its curves."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as driver:
        # The sandbox of Chromium does not start for root, and CI may run as root. The tests open only our own page.
        browser = driver.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve views with reports until the pages of the test are closed, so that no last poll fails."""
    with ExitStack() as ports:
        yield lambda views, *reports: ports.enter_context(serving(views, *reports))


@pytest.fixture
def visit(chromium: Browser, serve: Serve) -> Iterator[Open]:
    """Open pages: `visit(base, "?window=5m", expected=("text of an expected console error",), **browser_options)`."""
    visits: list[Visit] = []

    def opened(base: str, path: str = "", *, expected: tuple[str, ...] = (), fake_clock: bool = True, **options: Any) -> Visit:
        page = chromium.new_context(**{"viewport": WIDE, **options}).new_page()
        page.set_default_timeout(SECONDS)
        found = Visit(page, base, expected)
        found.watch()
        if fake_clock:
            page.clock.install()
        visits.append(found)
        page.goto(f"{base}/{path}")
        return found

    yield opened
    for each in visits:
        each.page.context.close()
    assert [each.troubles for each in visits] == [[] for _ in visits]


@pytest.fixture(scope="module")
def history() -> tuple[Story, list[Report]]:
    """A story of more than an hour that ends now. Half an hour of it is live, and the treatment is worse."""
    return make_story(int(time.time() * 1_000) + MINUTE_MS, minutes=75)


@dataclass(slots=True)
class Served:
    """Views on a port."""

    views: HttpViews
    server: HttpServer

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def restart(self, views: HttpViews) -> None:
        """Start another process on the same port."""
        self.views, self.server = views, HttpServer(views, "127.0.0.1", self.server.port)
        self.server.start()


Serve = Callable[..., Served]


@contextmanager
def serving(views: HttpViews, *reports: Report) -> Iterator[Served]:
    for report in reports:
        views.show(report)
    port = Served(views, HttpServer(views, "127.0.0.1", 0))
    port.server.start()
    try:
        yield port
    finally:
        port.server.stop()


@pytest.fixture(scope="module")
def still(history: tuple[Story, list[Report]]) -> Iterator[Served]:
    """The whole story on a port, for tests that do not change it."""
    story, reports = history
    with serving(story.views(), *reports) as port:
        yield port


@pytest.fixture
def fresh(serve: Serve, history: tuple[Story, list[Report]]) -> Iterator[Served]:
    """The end of the story on a port for one test."""
    story, reports = history
    status = story.status
    yield serve(story.views(), *reports[-5:])
    status.source_trouble = status.store_trouble = status.publish_trouble = None
    status.lag_records.clear()
    status.lag_seconds.clear()
    story.now.seconds = 1_000.0


def group(
    report: dict[str, Any], view: str, variant: str, *, window_ms: int = HOUR_MS, segments: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return a variant in a window of a report."""
    window = next(each for each in report["windows"] if (each["window_ms"], each["view"]) == (window_ms, view))
    wanted = (EXPERIMENT if variant else "", variant, segments or {})
    return next(each for each in window["groups"] if (each["experiment"], each["variant"], each["segments"]) == wanted)


def fetched(base: str, path: str = "/api/report") -> Any:
    with urllib.request.urlopen(f"{base}{path}", timeout=10) as answer:
        return json.load(answer)


def lifts(base: str) -> int:
    """Count the recent lifts of NDCG@10 since the start on the server."""
    asked = fetched(base, f"/api/curves?window_ms={HOUR_MS}&metric=ndcg@10")
    known = next(each for each in asked["experiments"] if each["scope"] == "start")
    return sum(lift is not None for line in known["lines"] for lift in line["lift"])


def clock(ms: int) -> str:
    return time.strftime("%H:%M:%S UTC", time.gmtime(ms / 1_000))


def live(page: Page) -> None:
    expect(page.locator(".pill")).to_have_text("Live")


def open_all(found: Visit) -> None:
    """Open all folded parts of the page."""
    for summary in found.page.locator("summary").all():
        summary.click()
    expect(found.page.locator("details:not([open])")).to_have_count(0)


READ = """() => {
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) texts.push([walker.currentNode.parentElement.localName, walker.currentNode.data]);
  for (const element of document.querySelectorAll("*"))
    for (const { name, value } of element.attributes) if (name === "title" || name.startsWith("aria-")) texts.push([name, value]);
  return texts;
}"""
"""Return all visible and spoken text, each with its element or attribute."""

OUT_OF_ORDER = """(paragraphs) => paragraphs.flatMap((paragraph) => {
  const walker = document.createTreeWalker(paragraph, NodeFilter.SHOW_TEXT);
  const boxes = [];
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const of = (from, to) => {
      const range = document.createRange();
      range.setStart(node, from);
      range.setEnd(node, to);
      return [node.data.slice(from, to), range.getBoundingClientRect()];
    };
    if (node.parentElement.localName === "bdi") boxes.push(of(0, node.data.length));
    else for (const { index, 0: word } of node.data.matchAll(/\\S+/g)) boxes.push(of(index, index + word.length));
  }
  const isLeft = (box, before) => box.top < before.bottom - 4 && box.left < before.right - 1;
  return boxes.slice(1).filter(([, box], at) => isLeft(box, boxes[at][1])).map(([text]) => text);
})"""
"""Return words and names that are drawn left of the previous one on the same line."""


class TestDemo:
    def test_a_demo_shows_both_variants_and_updates(self, visit: Open) -> None:
        process = started("demo", "--port", "0")
        try:
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
        finally:
            process.kill()
            process.communicate()


class TestAskingAgain:
    def test_an_unchanged_report_gets_304_and_the_next_one_is_shown(
        self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]
    ) -> None:
        found = visit(fresh.base)
        live(found.page)
        for _ in range(2):
            with found.page.expect_response("**/api/report") as answer:
                found.ask_again()
            assert answer.value.status == 304
        live(found.page)
        final = found.cell("Final", "control").locator(".value")
        before = final.text_content()
        assert before
        fresh.views.show(history[1][-40])
        with found.page.expect_response("**/api/report") as answer:
            found.ask_again()
        assert answer.value.status == 200
        expect(final).not_to_have_text(before)


class TestNumbers:
    def test_values_equal_the_report_and_have_the_end_of_their_window(self, visit: Open, still: Served) -> None:
        found, report = visit(still.base), fetched(still.base)
        for view, head in (("final", "Final"), ("live", "Live")):
            ends = next(each["end_ms"] for each in report["windows"] if (each["window_ms"], each["view"]) == (HOUR_MS, view))
            expect(found.head(head)).to_have_text(f"{head} last 1 hourto {clock(ends)}")
            for variant in ("control", "treatment"):
                values = group(report, view, variant)
                expect(found.cell(head, variant)).to_have_text(f"{values['values']['ndcg@10']:.4f}{values['lists']} lists")
        everything = group(report, "final", "")
        expect(found.cell("Final", "All traffic", section="All traffic").locator(".value")).to_have_text(
            f"{everything['values']['ndcg@10']:.4f}"
        )

    def test_means_lifts_and_users_equal_the_report_with_their_time(self, visit: Open, still: Served) -> None:
        found, report = visit(still.base), fetched(still.base)
        (start,) = (each for each in report["experiments"] if each["scope"] == "start")
        treatment = next(each for each in start["variants"] if each["variant"] == "treatment")
        measure = next(each for each in treatment["measures"] if (each["metric"], each["k"]) == ("ndcg", 10))
        lift, low, high = (f"{MINUS}{-100 * measure[name]:.1f}\u00a0%" for name in ("lift", "lift_lower", "lift_upper"))
        expect(found.cell("Against the control", "treatment")).to_have_text(f"{lift}{low} to {high}")
        expect(found.cell("Mean", "treatment").locator(".value")).to_have_text(f"{measure['mean']:.4f}")
        expect(found.head("Mean")).to_contain_text(f"final, to {clock(report['experiments_entered_ms'])}")
        users = found.cell("Users since the start", "treatment")
        expect(users.locator(".value")).to_have_text(f"{treatment['users']:,}")
        expect(users).to_contain_text(f"{treatment['effective_users']:,.0f} effective; one user has at most 0.05 % of the lists")

    def test_users_of_the_window_have_their_hit_rate_and_their_own_end(self, visit: Open, still: Served) -> None:
        found, report = visit(still.base), fetched(still.base)
        (hour,) = (each for each in report["user_windows"] if each["window_ms"] == HOUR_MS)
        assert hour["end_ms"] < next(
            each["end_ms"] for each in report["windows"] if (each["window_ms"], each["view"]) == (HOUR_MS, "final")
        )
        for section, name, heads in ((EXPERIMENT, EXPERIMENT, ("control", "treatment")), ("All traffic", "", ("All traffic",))):
            head = found.head("Users of", section=section)
            expect(head).to_have_text(f"Users of 1 hourto {clock(hour['end_ms'])}")
            for variant in heads:
                (reached,) = (each for each in hour["groups"] if (each["experiment"], each["variant"]) == (name, variant if name else ""))
                assert 0 < reached["users_with_hit"]["user_hit_rate@10"] < reached["users"]
                share = f"{100 * reached['values']['user_hit_rate@10']:.1f}\u00a0% with a hit in the first 10"
                expect(found.cell("Users of", variant, section=section)).to_have_text(f"{reached['users']:,}{share}")

    def test_users_of_a_window_are_shown_withheld_or_absent_as_in_the_report(
        self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]
    ) -> None:
        story, reports = history
        (five, hour) = reports[-1].user_windows
        for windows, words in (
            ((five, replace(hour, complete=False, arms=())), "not shown: users were not counted all the time"),
            ((), None),
        ):
            port = serve(story.views(), replace(reports[-1], user_windows=windows))
            found = visit(port.base)
            expect(found.cell("Final", "treatment").locator(".value")).to_be_visible()
            head = found.head("Users of")
            if words is None:
                expect(head).to_have_count(0)
            else:
                expect(head).to_contain_text(words)
                expect(found.cell("Users of", "treatment")).to_have_text(MISSING)
            found.page.goto("about:blank")  # otherwise it polls a closed port

    def test_reduced_lifts_and_teams_are_beside_the_plain_numbers(
        self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]
    ) -> None:
        story, reports = history
        arms = {"control": 0.5, "treatment": 0.45, "interleaved": 0.5}
        stats = experiment(arms, name=EXPERIMENT, whole=True)
        port = serve(story.views(), with_experiments(reports[-1], stats))
        found = visit(port.base)
        treatment = next(each for each in stats.variants if each.variant == "treatment").measures[0]
        assert treatment.reduced is not None
        removed = f"{100 * treatment.reduced.variance_reduction:.1f}\u00a0% of the variance removed"
        expect(found.cell("Against the control", "treatment")).to_contain_text(removed)
        (preference,) = stats.preferences
        row = found.section(EXPERIMENT).locator(".preferences tbody tr")
        expect(row).to_contain_text(f"{preference.team} against {preference.against}{MINUS}{-preference.credit:.4f}")
        expect(row).to_contain_text(f"{preference.users:,}{preference.lists:,} lists")
        expect(row.locator(".badge")).to_have_text("\N{BLACK DOWN-POINTING TRIANGLE} Regressed")
        expect(found.cell("Against the control", "interleaved")).to_have_text("both rankers in one list")

    def test_the_verdict_has_its_reason(self, visit: Open, still: Served) -> None:
        found, report = visit(still.base), fetched(still.base)
        verdict = report["experiments"][0]["verdict"]
        assert verdict["word"] == "regressed"
        assert verdict["reason"].startswith("treatment: ")
        expect(found.section(EXPERIMENT).locator(".verdict .word")).to_have_text("▼ Regressed")
        expect(found.section(EXPERIMENT).locator(".verdict .reason")).to_have_text(f"{verdict['reason']}.")  # names keep their case
        expect(found.cell("Verdict", "treatment")).to_have_text("▼ Regressed")

    def test_a_reason_starts_with_a_capital_letter(self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]) -> None:
        split = experiment({"control": 0.5, "treatment": 0.5}, name=EXPERIMENT, users={"control": 1_000, "treatment": 2_000})
        port = serve(history[0].views(), with_experiments(history[1][-1], split))
        reason = visit(port.base).section(EXPERIMENT).locator(".verdict .reason")
        counts = "control 1,000, treatment 2,000; practically impossible by chance"
        advice = f"set under [experiments.named.{EXPERIMENT}]: shares = {{ control = 0.33, treatment = 0.67 }}"
        wanted = f"Users are not split as configured ({counts}): fix the assignment. If this split is intended, {advice}."
        expect(reason).to_have_text(wanted)

    def test_a_new_page_has_curves_with_all_recent_points(self, visit: Open, still: Served) -> None:
        found = visit(still.base)
        asked = fetched(still.base, f"/api/curves?window_ms={HOUR_MS}&metric=ndcg@10")
        figure = found.section(EXPERIMENT).locator("figure").filter(has_text="Lift of NDCG@10")
        known = next(each for each in asked["experiments"] if each["scope"] == "start")
        figure.get_by_text("Curves as numbers").click()
        count = lifts(still.base)
        expect(figure.locator("tbody tr")).to_have_count(count)
        assert count > 30
        shown = found.page.evaluate(DRAWN, f"experiment-{EXPERIMENT}-lift")
        value, lower, upper = shown["series"]
        assert [len([each for each in column if each is not None]) for column in (value, lower, upper)] == [count] * 3
        assert all(low < middle < high for low, middle, high in zip(lower, value, upper, strict=True))
        expect(figure.locator("tbody tr").first.locator("th")).to_have_text(clock(known["ends_ms"][-1]))

    def test_a_page_loads_missed_points_after_a_pause(self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]) -> None:
        story, reports = history
        port = serve(story.views(), *reports[:-6])
        found = visit(port.base)
        figure = found.section(EXPERIMENT).locator("figure").filter(has_text="Lift of")
        figure.get_by_text("Curves as numbers").click()
        rows = figure.locator("tbody tr")
        expect(rows).to_have_count(lifts(port.base))
        before = lifts(port.base)
        for report in reports[-6:]:
            port.views.show(report)
        found.page.clock.fast_forward(6 * MINUTE_MS)
        expect(rows.first.locator("th")).to_have_text(clock(reports[-1].entered_ms or 0))
        expect(rows).to_have_count(before + 6)
        assert lifts(port.base) == before + 6

    def test_final_and_live_differ_in_text_and_curves(self, visit: Open, still: Served) -> None:
        found = visit(still.base)
        figure = found.section(EXPERIMENT).locator("figure").filter(has_text="over the last 1 hour")
        names = ["control, final", "control, live", "treatment, final", "treatment, live", "still changing"]
        expect(figure.locator(".legend li")).to_have_text(names)
        dashes = [
            figure.locator(f".key.line{kind} path").first.evaluate("e => getComputedStyle(e).strokeDasharray")
            for kind in (":not(.live)", ".live")
        ]
        assert dashes == ["none", "4px, 4px"]

    def test_no_text_is_drawn_over_the_curves(self, visit: Open, still: Served) -> None:
        found = visit(still.base)
        live(found.page)
        written = found.page.evaluate(WRITTEN, f"experiment-{EXPERIMENT}-lift")
        box = found.page.evaluate(DRAWN, f"experiment-{EXPERIMENT}-lift")["box"]
        assert len(written) >= 6, "labels of both axes"
        inside = [
            text
            for text, x, y in written
            if box["left"] < x < box["left"] + box["width"] and box["top"] < y < box["top"] + box["height"] - 1
        ]
        assert inside == []

    def test_missing_values_are_not_shown_as_zero(self, visit: Open, still: Served) -> None:
        found = visit(still.base, "?segment=surface%3Dsearch")  # this segment has no control
        expect(found.cell("Final", "treatment").locator(".value")).to_have_text(re.compile(r"^0\.\d{4}$"))
        expect(found.cell("Final", "control")).to_have_text(f"{MISSING}no lists")
        found.choose("Metric", "User hit rate")
        expect(found.cell("Final", "treatment")).to_have_text(f"{MISSING}not measured")
        expect(found.cell("Mean", "treatment").locator(".value")).to_have_text(re.compile(r"^\d\.\d{4}$"))

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
        views = HttpViews(story.pipeline.exposition(story.status), lambda: seconds[0])
        port = serve(views, report)
        found = visit(port.base)
        tile = found.section("Pipeline").locator(".tile", has_text="Events read").locator("dd")

        expect(tile.last).to_have_text("in total")
        seconds[0] += 10
        views.show(replace(report, counts=Counter(report.counts) + Counter({("events", "impressions"): 1_000})))
        found.ask_again()
        expect(tile.last).to_have_text("100 per second now")
        for age in ("1[0-9]", "2[0-9]"):
            seconds[0] += 10
            found.page.clock.fast_forward(10_000)
            expect(found.page.locator("#state")).to_contain_text(re.compile(f"report {age} s old"))
            expect(tile.last).to_have_text("100 per second now")

    def test_without_final_lists_windows_are_shown_without_a_verdict(
        self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]
    ) -> None:
        story, _ = history
        port = serve(story.views())
        port.views.show(story.pipeline.report())
        found = visit(port.base)
        expect(found.section(EXPERIMENT)).to_contain_text("No verdict yet: no user of this experiment has a final list.")
        expect(found.cell("Final", "treatment").locator(".value")).to_have_text(re.compile(r"^0\.\d{4}$"))


class TestChoices:
    def test_a_choice_changes_the_numbers_and_stays_in_the_address(self, visit: Open, still: Served) -> None:
        found, report = visit(still.base), fetched(still.base)
        found.choose("Window", "5 minutes")
        found.choose("Metric", "MRR")
        found.choose("Cut-off", "first 2")
        found.choose("Lists", "with feedback")
        values = group(report, "live", "control", window_ms=5 * MINUTE_MS)
        cell = f"{values['values_with_feedback']['mrr@2']:.4f}{values['lists_with_feedback']} lists"
        expect(found.cell("Live", "control")).to_have_text(cell)
        assert found.page.url.endswith("/?window=5m&metric=mrr&k=2&lists=with_feedback")
        found.page.reload()
        expect(found.cell("Live", "control")).to_have_text(cell)
        expect(found.page.get_by_label("Metric", exact=True)).to_have_value("mrr")
        expect(found.section(EXPERIMENT).locator("figcaption").last).to_have_text("MRR@2 over the last 5 minutes")

    def test_a_segment_can_be_chosen_and_the_statistics_cover_all_lists(self, visit: Open, still: Served) -> None:
        found, report = visit(still.base), fetched(still.base)
        found.choose("Segment", "surface=home")
        home = group(report, "final", "treatment", segments={"surface": "home"})
        expect(found.cell("Final", "treatment").locator(".value")).to_have_text(f"{home['values']['ndcg@10']:.4f}")
        expect(found.section(EXPERIMENT)).to_contain_text("Verdicts, means and users cover all lists, not only surface=home.")

    def test_the_statistics_of_the_day_can_be_chosen(self, visit: Open, still: Served) -> None:
        found = visit(still.base)
        found.choose("Statistics", "this day (UTC)")
        expect(found.section(EXPERIMENT).locator(".verdict")).to_contain_text("Final lists on 2024-11-21 (UTC)")

    def test_unknown_choices_in_the_address_give_the_defaults(self, visit: Open, still: Served) -> None:
        found = visit(still.base, "?window=9y&metric=<b>&k=0&lists=none&segment=x&scope=&experiment=none")
        expect(found.page.get_by_label("Metric", exact=True)).to_have_value("ndcg")
        expect(found.cell("Final", "control").locator(".value")).to_have_text(re.compile(r"^0\.\d{4}$"))

    def test_all_metrics_can_be_opened_and_stay_open(self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]) -> None:
        found = visit(fresh.base)
        part = found.section(EXPERIMENT).locator("details", has=found.page.get_by_text("All metrics"))
        part.locator("summary").click()
        metrics = fetched(fresh.base)["settings"]["metrics"]
        expect(part.locator("tbody tr")).to_have_count(len(metrics) + 2)  # and user_hit_rate at both cut-offs
        fresh.views.show(with_experiments(history[1][-1]))
        found.ask_again()
        expect(found.section(EXPERIMENT)).to_contain_text("no user of this experiment has a final list")
        expect(part.locator("tbody tr")).to_have_count(len(metrics))

    def test_open_parts_and_focus_stay_when_an_experiment_appears(
        self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]
    ) -> None:
        found = visit(fresh.base)
        part = found.section("All traffic").locator("details", has=found.page.get_by_text("All metrics"))
        part.locator("summary").click()
        expect(part.locator("tbody tr")).not_to_have_count(0)
        expect(part.locator("summary")).to_be_focused()
        first = experiment({"control": 0.5, "treatment": 0.5}, name="a-first")
        fresh.views.show(with_experiments(history[1][-1], first, *history[1][-1].experiments))
        found.ask_again()
        expect(found.section("Experiment")).to_have_count(2)
        expect(found.section("Experiment").last).to_contain_text("a-first")  # it is undecided, so the other one comes first
        expect(part).to_have_attribute("open", "")
        expect(part.locator("tbody tr")).not_to_have_count(0)
        expect(part.locator("summary")).to_be_focused()
        expect(found.page.locator("details[open]")).to_have_count(1)
        fresh.views.show(history[1][-1])
        found.ask_again()
        expect(found.section("Experiment")).to_have_count(1)
        expect(part).to_have_attribute("open", "")
        expect(part.locator("summary")).to_be_focused()

    def test_a_choice_keeps_the_focus_when_another_choice_appears(
        self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]
    ) -> None:
        report = history[1][-1]
        whole = [replace(each, groups=tuple(values for values in each.groups if not values.group.segment)) for each in report.windows]
        fresh.views.show(replace(report, windows=tuple(whole)))
        found = visit(fresh.base)
        statistics = found.page.get_by_label("Statistics", exact=True)
        statistics.focus()
        expect(found.page.get_by_label("Segment", exact=True)).to_have_count(0)
        fresh.views.show(report)
        found.ask_again()
        expect(found.page.get_by_label("Segment", exact=True)).to_be_visible()
        expect(statistics).to_be_focused()


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
        port = serve(story.views())
        found = visit(port.base, expected=("status of 503",))
        expect(found.page.locator(".pill")).to_have_text("Not ready")
        banner = "The server has not read committed state yet.store: connection refused (for 3 s, 2 tries)"
        expect(found.page.locator(".banner")).to_have_text(banner)
        expect(found.page.locator("main")).to_have_text("No numbers yet.")
        story.status.store_trouble = None
        port.views.show(reports[-1])
        found.ask_again()
        live(found.page)

    def test_without_events_it_shows_what_it_waits_for(self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]) -> None:
        only_lists = Pipeline().feed("impressions", Impression("r", "u", int(time.time() * 1_000), ("a",)))
        port = serve(history[0].views(first_events=FirstEvents(("impressions", "feedback"), "native")))
        port.views.show(only_lists.report())
        found = visit(port.base)
        expect(found.page.locator(".pill")).to_have_text("No data yet")
        expect(found.page.locator(".banner")).to_contain_text("1 of 1 tasks have committed.")
        expect(found.page.locator(".banner")).to_contain_text("No events yet on feedback 0.")
        expect(found.page.locator(".banner pre")).to_have_text(list(EXAMPLES["native"]))
        expect(found.head("Final", section="All traffic")).to_have_text("Final last 1 hournot started")
        expect(found.cell("Final", "All traffic", section="All traffic")).to_have_text(f"{MISSING}no lists")

    def test_numbers_stay_while_the_server_is_away_and_update_afterwards(
        self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]
    ) -> None:
        story, reports = history
        found = visit(fresh.base, expected=("ERR_CONNECTION_REFUSED", "status of 503"))
        live(found.page)
        figure = found.section(EXPERIMENT).locator("figure").filter(has_text="Lift of")
        figure.get_by_text("Curves as numbers").click()
        expect(figure.locator("tbody tr")).to_have_count(5)
        fresh.server.stop()
        found.ask_again()
        expect(found.page.locator(".pill")).to_have_text("Stale")
        expect(found.page.get_by_role("status")).to_contain_text("Stale. The server does not respond")
        expect(found.page.locator(".banner")).to_contain_text("The server does not respond (no connection)")
        expect(found.cell("Final", "control").locator(".value")).to_have_text(re.compile(r"^0\.\d{4}$"))
        fresh.restart(story.views())
        found.ask_again()
        expect(found.page.locator(".pill")).to_have_text("Not ready")
        expect(found.cell("Final", "control").locator(".value")).to_have_text(re.compile(r"^0\.\d{4}$"))
        fresh.views.show(with_experiments(story.pipeline.report(), *reports[-1].experiments))
        found.ask_again()
        live(found.page)
        expect(figure.locator("tbody tr")).to_have_count(5)  # the new process has one point, the page has all

    def test_an_old_report_is_stale(self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]) -> None:
        found = visit(fresh.base)
        live(found.page)
        history[0].now.seconds += 31
        found.ask_again()
        expect(found.page.locator(".pill")).to_have_text("Stale")
        expect(found.page.locator(".banner")).to_contain_text("The newest report is 31 s old. The server does not read committed state.")

    def test_an_unreachable_source_is_shown_with_its_error(self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]) -> None:
        history[0].status.source_trouble = Trouble(history[0].now.seconds - 12, 5, "no broker answers at <b>:9092")
        found = visit(fresh.base)
        expect(found.page.locator(".pill")).to_have_text("Not ready")
        expect(found.page.locator(".banner")).to_contain_text("source: no broker answers at <b>:9092 (for 12 s, 5 tries)")

    def test_event_time_far_behind_is_shown(self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]) -> None:
        story, reports = history
        port = serve(story.views(), reports[-12])
        found = visit(port.base)
        expect(found.page.locator(".pill")).to_have_text("Behind")
        expect(found.page.locator(".banner")).to_contain_text(re.compile(r", 1[123] min ago\. The slowest input is \w+ 0\."))

    def test_users_on_several_partitions_are_shown_with_the_way_out(
        self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]
    ) -> None:
        story, reports = history
        port = serve(story.views(), replace(reports[-1], user_partitions=UserPartitions(200, 50)))
        banner = visit(port.base).page.locator(".banner.input-problem")
        expect(banner).to_contain_text("25.0 % of users have events on several partitions (50 of 200 sampled users)")
        expect(banner).to_contain_text("streammetrics repartition")

    def test_without_such_users_there_is_no_banner(self, visit: Open, still: Served) -> None:
        page = visit(still.base).page
        expect(page.locator(".pill")).to_have_text("Live")
        expect(page.locator(".banner.input-problem")).to_have_count(0)

    def test_a_worker_points_to_the_exporter(self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]) -> None:
        port = serve(history[0].views(publishes=False))
        found = visit(port.base, expected=("status of 503",))
        expect(found.page.locator(".banner")).to_contain_text("This process only consumes events.")

    def test_a_needed_login_is_shown_and_requested_once(self, visit: Open, fresh: Served) -> None:
        found = visit(fresh.base, expected=("status of 401",))
        live(found.page)
        asked: list[str] = []

        def refuse(route: Route) -> None:  # like a proxy with an expired session
            asked.append(route.request.url)
            route.fulfill(status=401)

        found.page.route("**/api/**", refuse)
        found.ask_again()
        expect(found.page.locator(".pill")).to_have_text("Log in")
        expect(found.cell("Final", "control").locator(".value")).to_have_text(re.compile(r"^0\.\d{4}$"))
        found.page.clock.run_for(10 * EVERY_MS)
        assert len(asked) <= 2  # report and pulse once, because each request can prompt for a password
        found.page.unroute("**/api/**")
        found.page.get_by_role("button", name="Log in again").click()
        live(found.page)


@contextmanager
def serving_names(history: tuple[Story, list[Report]], *names: str, experiment_name: str = EXPERIMENT) -> Iterator[Served]:
    """Serve two reports of an experiment with the control and these variants, in a segment named like the first."""
    now_ms = int(time.time() * 1_000) // MINUTE_MS * MINUTE_MS
    pipeline, variants = Pipeline(segments=("surface",)), ("control", *names)
    stats = experiment(dict.fromkeys(variants, 0.5) | {names[-1]: 0.4}, name=experiment_name, whole=True)
    with serving(history[0].views()) as port:
        for minute in range(40):
            ts = now_ms - (40 - minute) * MINUTE_MS
            shown = [
                Impression(
                    f"{at}{ts}", f"{at}{ts}", ts, ("a", "b"), ((experiment_name, variant), (names[0], names[0])), (("surface", names[0]),)
                )
                for at, variant in enumerate(variants)
            ]
            pipeline.feed("impressions", *shown).feed("feedback", Feedback(user_id=f"1{ts}", ts=ts, item_id="a", action="click"))
            if minute % 20 == 19:
                pipeline.move_on(ts + MINUTE_MS - 1)
                port.views.show(with_experiments(pipeline.report(), stats))
        yield port


@pytest.fixture(scope="module")
def hostile(history: tuple[Story, list[Report]]) -> Iterator[Served]:
    with serving_names(history, HOSTILE) as port:
        yield port


@pytest.fixture(scope="module")
def hebrew(history: tuple[Story, list[Report]]) -> Iterator[Served]:
    with serving_names(history, HEBREW, HEBREW_7, experiment_name=HEBREW_7) as port:
        yield port


@pytest.fixture(scope="module")
def forged(history: tuple[Story, list[Report]]) -> Iterator[Served]:
    with serving_names(history, FORGED, experiment_name=f"{FORGED} 7") as port:
        yield port


class TestNames:
    def test_names_from_events_are_never_markup(self, visit: Open, hostile: Served) -> None:
        name = HOSTILE
        found = visit(hostile.base, "?window=5m")
        expect(found.section(EXPERIMENT).locator(".variant", has_text="<script>").first).to_have_text(name)
        expect(found.page.locator("h2", has_text="<script>")).to_have_text(f"Experiment {name}")
        found.choose("Segment", f"surface={name}")
        expect(found.cell("Live", "<script>").locator(".value")).to_have_text(re.compile(r"^\d\.\d{4}$"))
        open_all(found)
        assert found.page.evaluate(
            "[document.querySelectorAll('script').length, document.images.length, document.body.dataset.ran ?? null]"
        ) == [
            2,
            0,
            None,
        ]

    def test_counts_stay_beside_right_to_left_names(self, visit: Open, hebrew: Served) -> None:
        found = visit(hebrew.base, "?window=5m")
        verdict = found.section(HEBREW_7).locator(".verdict")
        expect(verdict.locator(".fine")).to_contain_text(f"Users: control 2,000, {HEBREW} 2,000, {HEBREW_7} 2,000. 3 users who saw")
        expect(verdict.locator(".reason")).to_contain_text(f"1 of 2 regressed ({HEBREW_7} {MINUS}20.8\u00a0% NDCG@10)")
        assert verdict.locator("p").evaluate_all(OUT_OF_ORDER) == []

    def test_names_are_isolated_from_the_text_around_them(self, visit: Open, hebrew: Served) -> None:
        found = visit(hebrew.base, "?window=5m")
        found.choose("Segment", f"surface=\u2068{HEBREW}\u2069")
        assert parse_qs(urlsplit(found.page.url).query)["segment"] == [f"surface={HEBREW}"]
        expect(found.cell("Live", HEBREW_7, section=HEBREW_7).locator(".value")).to_have_text(re.compile(r"^\d\.\d{4}$"))
        expect(found.page.locator(".plot canvas").first).to_be_visible()
        open_all(found)
        texts = found.page.evaluate(READ)
        assert len([text for kind, text in texts if HEBREW in text or HEBREW_7 in text]) > 20
        assert {kind for kind, text in texts if HEBREW in text} == {"bdi", "option", "aria-valuetext"}
        bare = [
            (kind, text)
            for kind, text in texts
            if kind != "bdi" and re.search("[\u0590-\u05ff]", re.sub("\u2068[^\u2069]*\u2069", "", text))
        ]
        assert bare == []

    def test_no_name_changes_the_reading_direction(self, visit: Open, forged: Served) -> None:
        seen = f"new{REPLACED * len(BIDI_CONTROLS)} %4 yb retteb"
        found = visit(forged.base, "?window=5m")
        expect(found.section(f"{seen} 7").locator(".verdict .reason")).to_contain_text(f"{seen}: ")
        found.choose("Segment", f"surface=\u2068{seen}\u2069")
        assert parse_qs(urlsplit(found.page.url).query)["segment"] == [f"surface={FORGED}"]
        expect(found.cell("Live", seen, section=f"{seen} 7").locator(".value")).to_have_text(re.compile(r"^\d\.\d{4}$"))
        open_all(found)
        controls = re.compile(f"[{BIDI_CONTROLS}]")
        texts = [re.sub("\u2068([^\u2068\u2069]*)\u2069", r"\1", text) for _, text in found.page.evaluate(READ)]
        assert len([text for text in texts if seen in text]) > 20
        assert [text for text in texts if controls.search(text)] == []
        (reported,) = fetched(forged.base)["experiments"]
        assert reported["experiment"] == f"{FORGED} 7"  # the report has the original names

    def test_the_page_replaces_the_same_characters_as_python(self, visit: Open, still: Served) -> None:
        page = visit(still.base).page
        found = page.evaluate(
            """async () => {
                 const { fit } = await import("/text.js");
                 const every = Array.from({ length: 0x110000 }, (_, code) => code);
                 return every.filter((code) => fit(String.fromCodePoint(code)) !== String.fromCodePoint(code));
               }"""
        )
        assert found == [code for code in range(0x110000) if fit(chr(code)) != chr(code)]

    def test_nouns_agree_with_their_count(self, visit: Open, still: Served) -> None:
        page = visit(still.base).page
        found = page.evaluate(
            """async () => {
                 const { countedText } = await import("/text.js");
                 return [0, 1, 12_000].map((count) => countedText(count, "rebalance"));
               }"""
        )
        assert found == [counted(count, "rebalance") for count in (0, 1, 12_000)]

    def test_long_names_do_not_break_a_narrow_screen(self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]) -> None:
        now_ms = int(time.time() * 1_000) // MINUTE_MS * MINUTE_MS
        experiment, variant = "e" * 128, "v" * 128
        pipeline = (
            Pipeline()
            .feed("impressions", Impression("r", "u", now_ms - 3 * MINUTE_MS, ("a", "b"), ((experiment, variant),)))
            .move_on(now_ms)
        )
        port = serve(history[0].views())
        port.views.show(pipeline.report())
        found = visit(port.base, viewport=NARROW)
        expect(found.page.locator("h2", has_text="eee")).to_be_visible()
        assert found.page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


CONTRAST = """
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const contrast = (one, other) => (Math.max(light(one), light(other)) + 0.05) / (Math.min(light(one), light(other)) + 0.05);
"""
CONTRASTS = (
    f"() => {{ {CONTRAST}"
    + """
  const seen = (element) => (element ? Number(getComputedStyle(element).opacity) * seen(element.parentElement) : 1);
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const has = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!has || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const under = ground(element), share = seen(element);
    const own = parse(element.closest("svg") ? style.fill : style.color);
    const color = under.slice(0, 3).map((part, at) => share * own[at] + (1 - share) * part);
    found.push([contrast(color, under), element.textContent.trim().slice(0, 40)]);
  }
  return found;
}"""
)
EDGES = (
    f"() => {{ {CONTRAST}"
    + """
  return [...document.querySelectorAll("select, button:not(.fold, .switch)")].flatMap((element) => {
    const edge = parse(getComputedStyle(element).borderTopColor);
    return [[contrast(edge, ground(element)), element.localName], [contrast(edge, ground(element.parentElement)), element.localName]];
  });
}"""
)


class TestAppearance:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_all_text_has_contrast_in_light_and_dark(self, visit: Open, still: Served, scheme: str) -> None:
        found = visit(still.base, color_scheme=scheme)
        live(found.page)
        for summary in found.page.locator("summary").all():
            summary.click()
        ground = found.page.evaluate("getComputedStyle(document.body).backgroundColor")
        red = int(re.findall(r"\d+", ground)[0])
        assert red > 200 if scheme == "light" else red < 60
        contrasts = found.page.evaluate(CONTRASTS)
        assert len(contrasts) > 100
        assert [pair for pair in contrasts if pair[0] < 4.5] == []

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_controls_have_visible_edges(self, visit: Open, fresh: Served, scheme: str) -> None:
        found = visit(fresh.base, expected=("status of 401",), color_scheme=scheme)
        live(found.page)
        found.page.route("**/api/**", lambda route: route.fulfill(status=401))
        found.ask_again()
        expect(found.page.get_by_role("button", name="Log in again")).to_be_visible()
        edges = found.page.evaluate(EDGES)
        assert {name for _, name in edges} == {"select", "button"}
        assert [pair for pair in edges if pair[0] < 3] == []

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_the_last_numbers_are_readable_while_the_server_is_away(self, visit: Open, fresh: Served, scheme: str) -> None:
        found = visit(fresh.base, expected=("ERR_CONNECTION_REFUSED",), color_scheme=scheme)
        live(found.page)
        fresh.server.stop()
        found.ask_again()
        expect(found.page.locator(".pill")).to_have_text("Stale")
        assert [pair for pair in found.page.evaluate(CONTRASTS) if pair[0] < 4.5] == []
        assert found.section(EXPERIMENT).evaluate("e => getComputedStyle(e).borderTopStyle") == "dashed"
        assert found.section(EXPERIMENT).locator(".verdict").evaluate("e => getComputedStyle(e).filter") == "grayscale(1)"

    def test_a_narrow_screen_needs_no_sideways_scrolling(self, visit: Open, still: Served) -> None:
        found = visit(still.base, viewport=NARROW, has_touch=True, is_mobile=True)
        live(found.page)
        for summary in found.page.locator("summary").all():
            summary.click()
        expect(found.page.locator("details:not([open])")).to_have_count(0)
        assert found.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]") == [360, 360]
        assert all(plot.bounding_box()["width"] <= 340 for plot in found.page.locator(".uplot").all())  # type: ignore[index]
        assert not any(found.page.locator(".rows").evaluate_all("found => found.map((e) => e.scrollWidth > e.clientWidth)"))

    def test_a_chart_follows_the_width_of_the_window(self, visit: Open, still: Served) -> None:
        found = visit(still.base)
        canvas = found.section("All traffic").locator(".plot canvas")
        expect(canvas).to_be_visible()
        wide = canvas.bounding_box()
        found.page.set_viewport_size(NARROW)  # type: ignore[arg-type]
        found.page.wait_for_function("document.querySelector('#all-traffic .plot canvas').clientWidth < 340")
        assert wide is not None
        assert wide["width"] > 1_000


class TestPointer:
    def test_a_chart_shows_the_values_at_the_pointer_and_else_the_newest(self, visit: Open, fresh: Served) -> None:
        found = visit(fresh.base)
        figure = found.section(EXPERIMENT).locator("figure").filter(has_text="Lift of")
        newest, readout = clock(fetched(fresh.base)["experiments_entered_ms"]), figure.locator(".readout")
        expect(readout).to_contain_text(f"To {newest}: treatment {MINUS}")
        figure.locator(".u-over").hover(position={"x": 3, "y": 100})
        expect(readout).to_contain_text(f"To {clock(fetched(fresh.base)['experiments_entered_ms'] - 4 * MINUTE_MS)}: treatment {MINUS}")
        found.page.locator("h1").hover()
        expect(readout).to_contain_text(f"To {newest}: treatment {MINUS}")


class TestWithoutAMouse:
    def test_the_keyboard_reaches_all_controls_in_page_order(self, visit: Open, still: Served) -> None:
        page = visit(still.base).page
        live(page)
        expect(page.locator(".plot canvas")).to_have_count(3)
        reached = []
        for _ in range(24):
            page.keyboard.press("Tab")
            reached.append(page.evaluate(FOCUSED))
        assert reached == [
            "Skip to the numbers",
            EXPERIMENT,
            "window",
            "metric",
            "k",
            "lists",
            "segment",
            "scope",
            f"Experiment {EXPERIMENT}",
            "NDCG@10: variants side by side",
            "treatment",
            "Lift of NDCG@10 against control, since the start, by time",
            "Zoom in",
            "Curves as numbers",
            "control, final",
            "control, live",
            "treatment, final",
            "treatment, live",
            "NDCG@10 over the last 1 hour, by time",
            "Zoom in",
            "Curves as numbers",
            "NDCG@10 over the last 1 hour",
            "All metrics",
            "All traffic",
        ]
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"

    def test_arrow_keys_move_the_cursor_of_a_chart_and_updates_keep_it(
        self, visit: Open, fresh: Served, history: tuple[Story, list[Report]]
    ) -> None:
        found = visit(fresh.base)
        slider = found.page.get_by_role("slider", name="Lift of NDCG@10 against control, since the start, by time")
        slider.focus()
        ends = [report.entered_ms for report in history[1][-5:]]
        assert None not in ends
        for key, end in (("ArrowLeft", ends[3]), ("ArrowLeft", ends[2]), ("Home", ends[0]), ("ArrowRight", ends[1])):
            found.page.keyboard.press(key)
            expect(slider).to_have_attribute("aria-valuetext", re.compile(rf"^To {clock(end or 0)}: treatment {MINUS}"))
        fresh.views.show(with_experiments(history[1][-1], *history[1][-2].experiments))
        found.ask_again()
        expect(found.page.locator("section .readout").first).to_contain_text(f"To {clock(ends[1] or 0)}")
        expect(slider).to_be_focused()

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
            'table "NDCG@10: variants side by side"',
            'rowheader "treatment"',
            'slider "NDCG@10 over the last 1 hour, by time"',
            'figure "NDCG@10 over the last 1 hour"',
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
        found = visit(fresh.base)
        live(found.page)
        spoken = found.page.get_by_role("status")
        expect(spoken).to_have_text("")
        better = SimulatedUsers(story.pipeline.engine.layout, {"control": 0.6, "treatment": 0.8})
        better.add_users(2_000)
        fresh.views.show(with_experiments(reports[-1], better.report(story.policy)))
        found.ask_again()
        expect(spoken).to_have_text(
            re.compile(rf"^Experiment {EXPERIMENT}: Improved\. treatment: .* 95 % confidence, safe to check at any time\.$")
        )
        expect(found.section(EXPERIMENT).locator(".verdict .word")).to_have_text("▲ Improved")
        crossed = better.report(story.policy, multi_exposed_users=500)
        fresh.views.show(with_experiments(reports[-1], crossed))
        found.ask_again()
        expect(spoken).to_contain_text("Invalid. 12.5 % of the users saw more than one variant")
        expect(found.section(EXPERIMENT)).to_contain_text("500 users who saw several variants are excluded.")


class TestManyVariants:
    @pytest.fixture
    def show(self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]) -> Callable[..., Visit]:
        """Open the page with these experiments."""
        story, reports = history

        def shown(*experiments: ExperimentReport, path: str = "", **options: Any) -> Visit:
            port = serve(story.views(), *reports[:-1], with_experiments(reports[-1], *experiments))
            found = visit(port.base, path, **options)
            live(found.page)
            return found

        return shown

    def test_six_variants_have_one_row_each_and_the_banner_sums_up(self, show: Callable[..., Visit]) -> None:
        six = experiment(SIX, name="six")
        found = show(six)
        lifts = {each.variant: one.lift or 0 for each in six.variants for one in each.measures if (one.metric, one.k) == ("ndcg", 10)}
        fall, rise = f"{MINUS}{-100 * lifts['popularity']:.1f}\u00a0%", f"+{100 * lifts['two-tower']:.1f}\u00a0%"
        banner = f"3 of 5 regressed (worst: popularity {fall} NDCG@10), 1 improved (two-tower {rise} NDCG@10), 1 undecided."
        expect(found.section("six").locator(".verdict .reason")).to_have_text(banner)
        expect(found.page.locator("#overview li", has_text="six").locator(".line-text")).to_have_text(banner)
        rows = found.section("six").locator(".rows").first.locator("tbody tr")
        expect(rows.locator("th .variant")).to_have_text(["control", "popularity", "item-knn", "gru4rec", "sasrec", "two-tower"])
        expect(rows.locator("td:last-child")).to_have_text(
            ["", "▼ Regressed", "▼ Regressed", "▼ Regressed", "○ Inconclusive", "▲ Improved"]
        )

    def test_an_undecided_variant_shows_what_it_still_needs(self, show: Callable[..., Visit]) -> None:
        found = show(experiment({"control": 0.3, "treatment": 0.3}, name="even", users=400))
        (even,) = fetched(found.base)["experiments"]
        first = even["variants"][1]["needed"][0]
        shown = found.section("even").locator(".verdict .needs")
        users = first["users"]
        count = f"{float(f'{users:.2g}'):,.0f}"
        expect(shown).to_contain_text(f"treatment needs about {count} more users (")
        expect(shown).to_contain_text("10\u00a0%." if first["verdict"] != "safe" else "if there is no difference.")

    def test_intervals_are_bars_on_one_axis(self, show: Callable[..., Visit]) -> None:
        six = experiment(SIX, name="six")
        found = show(six)
        bars = (
            found.section("six")
            .locator(".interval")
            .evaluate_all(
                """(bars) => bars.map((bar) => ["rect", "circle", ".zero"].map((part) => {
                 const box = bar.querySelector(part).getBoundingClientRect();
                 return [box.left, box.right];
               }))"""
            )
        )
        assert len(bars) == 5
        zeros = {round(zero[0]) for _, _, zero in bars}
        assert len(zeros) == 1, "no difference is at the same place in each row"
        [zero] = zeros
        popularity, two_tower = bars[0], bars[-1]
        assert popularity[0][1] < zero < two_tower[0][0], "certain drops are left of no difference, certain gains right of it"
        (worst,) = (each for each in six.variants if each.variant == "popularity")
        measure = worst.measures[0]
        assert measure.lift is not None
        assert measure.lift_lower is not None
        pixels = (zero - (popularity[1][0] + popularity[1][1]) / 2) / -measure.lift
        assert abs((zero - popularity[0][0]) / -measure.lift_lower / pixels - 1) < 0.05, "the bounds and the lift have one scale"

    def test_a_mixed_variant_comes_first_and_is_explained(self, show: Callable[..., Visit]) -> None:
        found = show(mixed_experiment())
        section = found.section(EXPERIMENT)
        expect(section.locator(".verdict .reason")).to_have_text(re.compile(r"^1 of 3 mixed \(deep-list .*\), 1 regressed \(popularity "))
        expect(section.locator(".verdict")).to_contain_text("Mixed means that one measure is better and another is worse.")
        expect(section.locator(".rows").first.locator("tbody th .variant")).to_have_text(
            ["control", "deep-list", "popularity", "two-tower", "treatment"]
        )

    def test_experiments_are_listed_worst_first_before_the_controls_and_their_cards_fold(self, show: Callable[..., Visit]) -> None:
        found = show(*many_experiments())
        page = found.page
        words = page.locator("#overview .badge").all_text_contents()
        order = ["! Invalid", "▼ Regressed", "No verdict yet", "○ Inconclusive", "▲ Improved"]
        assert words == sorted(words, key=lambda word: order.index(word) if word != "No verdict yet" else order.index("○ Inconclusive"))
        assert len(words) == 11
        assert words[0] == "! Invalid"
        heights = page.locator("#overview li").evaluate_all("lines => lines.map((line) => line.getBoundingClientRect().height)")
        assert max(heights) < 40, "one line each"
        overview, controls = page.locator("#overview").bounding_box(), page.locator("#choices").bounding_box()
        assert overview is not None
        assert controls is not None
        assert overview["y"] + overview["height"] <= controls["y"]
        folded = page.locator(".fold[aria-expanded=false]")
        expect(page.locator(".fold[aria-expanded=true]")).to_have_count(1)
        expect(folded).to_have_count(11)
        page.locator("#overview a", has_text="six-variants").click()
        expect(found.section("six-variants").locator(".rows").first).to_be_visible()
        expect(folded).to_have_count(10)
        found.section("six-variants").locator(".fold").click()
        expect(found.section("six-variants").locator(".rows")).to_have_count(0)
        expect(found.section("six-variants").locator(".verdict")).to_be_visible()

    @pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
    @pytest.mark.parametrize("case", ["two", "six", "twenty", "ten experiments", "mixed"])
    def test_axe_finds_no_violation_and_nothing_is_wider_than_the_screen(
        self, show: Callable[..., Visit], history: tuple[Story, list[Report]], case: str, width: int, scheme: str
    ) -> None:
        experiments = {
            "two": lambda: history[1][-1].experiments,
            "six": lambda: [experiment(SIX, name=EXPERIMENT)],
            "twenty": lambda: [many_variants()],
            "ten experiments": many_experiments,
            "mixed": lambda: [mixed_experiment()],
        }[case]()
        found = show(*experiments, viewport={"width": width, "height": 900}, color_scheme=scheme, fake_clock=False)
        open_all(found)
        assert found.page.evaluate("document.documentElement.scrollWidth") <= width
        violations = found.page.evaluate(f"async () => {{ {axe()}; return (await axe.run()).violations; }}")
        assert [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in violations] == []


def axe() -> str:
    """Return the script of axe-core, which checks accessibility."""
    return (fetched_by_npm("axe", "axe-core@4.10.3") / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


class TestCurves:
    def test_since_the_start_begins_at_the_start_after_a_restart(
        self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]
    ) -> None:
        story, reports = history
        stored = History()
        for report in reports:
            stored = stored.add(report.entered_ms or 0, report.experiments) if report.entered_ms else stored
        port = serve(story.views())
        port.views.show(reports[-1], stored)  # a new process has one report, and the stored history
        found = visit(port.base)
        live(found.page)
        shown = found.page.evaluate(DRAWN, f"experiment-{EXPERIMENT}-lift")
        series = stored.of(EXPERIMENT, "start").snapshots.kept
        first = next(at for at, snapshot in series if any(point.lift is not None for point in snapshot.points))
        assert shown["ends"][0] == shown["x"][0] == first
        assert shown["x"][1] == reports[-1].entered_ms
        assert len(shown["ends"]) > 30

    def test_axes_stay_within_the_range_of_the_metric(self, visit: Open, still: Served) -> None:
        found = visit(still.base, "?metric=hit_rate&window=5m")
        live(found.page)
        low, high = found.page.evaluate(DRAWN, f"experiment-{EXPERIMENT}-window")["y"]
        assert 0 <= low < high <= 1
        ranges = found.page.evaluate(
            """async () => {
                 const { range } = await import("/plot.js");
                 const of = (values, bounds) => range({ bounds, lines: [{ drawn: values.map((value, end) => ({ end, value })) }] }, 0, 9);
                 return [of([0.0, 0.9], [0, 1]), of([0.2, 1.0], [0, 1]), of([0.1, 4.0], [0, null]), of([-0.99, 0.5], [-1, null])];
               }"""
        )
        assert [(low >= floor, high <= ceiling) for (low, high), (floor, ceiling) in zip(
            ranges, [(0, 1), (0, 1), (0, 9), (-1, 9)], strict=True
        )] == [(True, True)] * 4  # fmt: skip

    def test_the_legend_switches_a_curve_off_and_on(self, visit: Open, still: Served) -> None:
        found = visit(still.base)
        figure = found.section(EXPERIMENT).locator("figure").filter(has_text="over the last 1 hour")
        switch = figure.get_by_role("button", name="control, live")
        expect(switch).to_have_attribute("aria-pressed", "true")
        expect(figure.locator(".readout")).to_contain_text("control, live")
        switch.click()
        expect(switch).to_have_attribute("aria-pressed", "false")
        expect(figure.locator(".readout")).not_to_contain_text("control, live")
        found.page.keyboard.press("Enter")
        expect(switch).to_have_attribute("aria-pressed", "true")
        expect(figure.locator(".readout")).to_contain_text("control, live")

    def test_a_chart_zooms_by_dragging_by_buttons_and_by_keys(self, visit: Open, still: Served) -> None:
        found = visit(still.base)
        figure = found.section(EXPERIMENT).locator("figure").filter(has_text="Lift of")
        name = f"experiment-{EXPERIMENT}-lift"
        expect(figure.locator("canvas")).to_be_visible()
        first, last = found.page.evaluate(DRAWN, name)["x"]
        whole = figure.get_by_role("button", name="Whole time")
        expect(whole).to_have_count(0)
        figure.get_by_role("button", name="Zoom in").click()
        expect(whole).to_be_visible()
        assert found.page.evaluate(DRAWN, name)["x"] == [(first + last) / 2, last]
        whole.click()
        expect(whole).to_have_count(0)
        assert found.page.evaluate(DRAWN, name)["x"] == [first, last]
        figure.locator(".plot").focus()
        found.page.keyboard.press("+")
        expect(whole).to_be_visible()
        found.page.keyboard.press("0")
        expect(whole).to_have_count(0)
        box = figure.locator(".u-over").bounding_box()
        assert box is not None
        found.page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 50)
        found.page.mouse.down()
        found.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 50, steps=4)
        found.page.mouse.up()
        expect(whole).to_be_visible()
        low, high = found.page.evaluate(DRAWN, name)["x"]
        assert abs((low - first) / (last - first) - 0.25) < 0.02
        assert abs((high - first) / (last - first) - 0.5) < 0.02

    def test_the_chart_library_is_that_of_its_package(self) -> None:
        assert {copy.name: copy.read_bytes() for copy in originals()} == {
            copy.name: original.read_bytes() for copy, original in originals().items()
        }


class TestReportFile:
    """`streammetrics report --html` writes the page with the report inside."""

    @pytest.fixture
    def written(self, tmp_path: Path, history: tuple[Story, list[Report]]) -> Callable[..., Path]:
        story, reports = history

        def write(*experiments: ExperimentReport) -> Path:
            at_ms = reports[-1].entered_ms or 0
            stored = History()
            for minutes in range(20, 0, -1):
                stored = stored.add(at_ms - minutes * MINUTE_MS, experiments)
            report = with_experiments(reports[-1], *experiments).to_json(story.pipeline.engine.layout) | {"history": stored.to_json()}
            plain = json.loads(msgspec.json.encode(report))
            path = tmp_path / "report.html"
            path.write_bytes(page_of(read_report(plain, "report.json"), plain, "report.json", whole=True))
            return path

        return write

    @pytest.fixture
    def read(self, visit: Open) -> Callable[..., Visit]:
        return lambda path, **options: visit(path.parent.as_uri(), path.name, fake_clock=False, **options)

    @pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
    def test_four_experiments_need_three_screens_and_nothing_is_clipped(
        self, written: Callable[..., Path], read: Callable[..., Visit], width: int, scheme: str
    ) -> None:
        pair = {"control": 0.5, "treatment": 0.5}
        four = [experiment(SIX, name="six"), experiment(pair, name="flat"), mixed_experiment(), experiment(pair, name=LONG_NAME)]
        found = read(written(*four), viewport={"width": width, "height": 900}, color_scheme=scheme)
        expect(found.page.locator(".pill")).to_have_text("Report")
        expect(found.page.locator("#overview li")).to_have_count(4)
        expect(found.page.locator("header")).to_contain_text("from report.json")
        assert found.page.evaluate("document.documentElement.scrollWidth") <= width
        if width == 1280:
            assert found.page.evaluate("document.documentElement.scrollHeight") <= 3 * 900
        clipped = "found => found.filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent)"
        assert found.page.locator("main :is(p, li, a, h2, td, th)").evaluate_all(clipped) == []

    def test_choices_and_curves_work_without_a_server(self, written: Callable[..., Path], read: Callable[..., Visit]) -> None:
        six = experiment(SIX, name=EXPERIMENT)
        found = read(written(six))
        expect(found.page.locator(f"#experiment-{EXPERIMENT}-lift canvas")).to_be_visible()
        expect(found.cell("Against the control", "popularity").locator(".value")).to_have_text(re.compile(f"^{MINUS}37"))
        found.choose("Metric", "Hit rate")
        found.choose("Cut-off", "first 5")
        measure = next(each for each in six.variants[1].measures if (each.metric, each.k) == ("hit_rate", 5))
        expect(found.cell("Mean", six.variants[1].variant).locator(".value")).to_have_text(f"{measure.mean:.4f}")

    def test_names_in_a_file_are_never_markup(self, written: Callable[..., Path], read: Callable[..., Visit]) -> None:
        found = read(written(experiment({"control": 0.5, HOSTILE: 0.4}, name=f"</script>{HOSTILE}")))
        expect(found.page.locator("h2", has_text="</script>")).to_have_text(f"Experiment </script>{HOSTILE}")
        assert found.page.evaluate("[document.images.length, document.body.dataset.ran ?? null]") == [0, None]

    def test_paper_has_all_cards_and_no_controls(self, written: Callable[..., Path], read: Callable[..., Visit]) -> None:
        pair = {"control": 0.5, "treatment": 0.4}
        found = read(written(*(experiment(pair, name=f"e{number}") for number in range(5))))
        expect(found.page.locator(".fold[aria-expanded=true]")).to_have_count(1)
        found.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        found.page.emulate_media(media="print")
        expect(found.page.locator(".fold[aria-expanded=true]")).to_have_count(7)
        expect(found.page.locator("#choices")).to_be_hidden()
        assert len(found.page.pdf()) > 20_000
        found.page.emulate_media(media="screen")
        expect(found.page.locator(".fold[aria-expanded=true]")).to_have_count(1)

    def test_a_report_without_experiments_and_windows_says_so(self, tmp_path: Path, read: Callable[..., Visit]) -> None:
        path = tmp_path / "report.html"
        path.write_bytes(page_of(read_report({"experiments": []}, "x"), {"experiments": []}, "x", whole=True))
        expect(read(path).page.locator("#cards")).to_have_text("No experiment has final lists yet, up to an unknown time.")
