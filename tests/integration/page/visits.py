"""What the tests of the page share: a page in its own browser window, answers on a port, and what they read from both."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Locator, Page, expect

from streammetrics.exporters.http.answers import HttpAnswers
from streammetrics.exporters.http.server import HttpServer
from streammetrics.reports.report import Report
from tests.support.committed_state import HOUR_MS
from tests.support.page_story import (
    EXPERIMENT,
)
from tests.tools.servers.npm import fetched as fetched_by_npm
from tests.tools.servers.process import wait_until

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 360, "height": 740}

SECONDS = 10_000
"""Timeout for a state to show, in ms. The page polls every two seconds."""

EVERY_MS = 2_000

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

    def cell(self, head: str, variant: str, *, section: str = EXPERIMENT, group: int = 0) -> Locator:
        """Return a cell of a table of variants by the head of its column, the number of its group of columns, and its variant."""
        with_head = self.page.locator("thead tr:last-child th", has_text=re.compile(f"^{head}"))
        elements = self.section(section).locator(".rows table").filter(has=with_head)
        heads = elements.locator("thead tr:last-child th")
        expect(heads.first).to_be_attached()
        at = [index for index, text in enumerate(heads.all_text_contents()) if re.match(head, text)][group]
        return elements.locator("tbody tr").filter(has=self.page.locator("th", has_text=variant)).locator("td").nth(at - 1)

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


CURVES = "async (id) => { try { return (await import('/plot.js')).drawn(id).ends.length > 1; } catch { return false; } }"
"""Return whether a chart is drawn: it waits for the recent points of the server."""


@dataclass(slots=True)
class Served:
    """Views on a port."""

    answers: HttpAnswers
    server: HttpServer

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def restart(self, answers: HttpAnswers) -> None:
        """Start another process on the same port."""
        self.answers, self.server = answers, HttpServer(answers, "127.0.0.1", self.server.port)
        self.server.start()


Serve = Callable[..., Served]


@contextmanager
def serving(answers: HttpAnswers, *reports: Report) -> Iterator[Served]:
    for report in reports:
        answers.show(report)
    port = Served(answers, HttpServer(answers, "127.0.0.1", 0))
    port.server.start()
    try:
        yield port
    finally:
        port.server.stop()


def group(
    report: dict[str, Any], view: str, variant: str, *, window_ms: int = HOUR_MS, segments: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return a variant in a window of a report."""
    window = next(window for window in report["windows"] if (window["window_ms"], window["view"]) == (window_ms, view))
    wanted = (EXPERIMENT if variant else "", variant, segments or {})
    return next(group for group in window["groups"] if (group["experiment"], group["variant"], group["segments"]) == wanted)


def fetched(base: str, path: str = "/api/report") -> Any:
    with urllib.request.urlopen(f"{base}{path}", timeout=10) as answer:
        return json.load(answer)


def lifts(base: str) -> int:
    """Count the recent lifts of NDCG@10 since the start on the server."""
    asked = fetched(base, f"/api/curves?window_ms={HOUR_MS}&metric=ndcg@10")
    experiment_lines = next(experiment for experiment in asked["experiments"] if experiment["scope"] == "start")
    return sum(lift is not None for line in experiment_lines["lines"] for lift in line["lift"])


def clock(ms: int) -> str:
    """Return a time as the page shows it: with its day, unless that is the current one."""
    at, today = time.gmtime(ms / 1_000), time.gmtime()
    return time.strftime("%H:%M:%S UTC" if at[:3] == today[:3] else "%Y-%m-%d %H:%M:%S UTC", at)


def live(page: Page) -> None:
    expect(page.locator(".pill")).to_have_text("Live")


def curves_are_drawn(page: Page, chart: str) -> None:
    """Wait until a chart has the recent points of the server, which come after the numbers."""
    wait_until(lambda: page.evaluate(CURVES, chart), what=f"{chart} has curves")


def open_all(page_visit: Visit) -> None:
    """Open all folded parts of the page."""
    for summary in page_visit.page.locator("summary").all():
        summary.click()
    expect(page_visit.page.locator("details:not([open])")).to_have_count(0)


READ = """() => {
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) texts.push([walker.currentNode.parentElement.localName, walker.currentNode.data]);
  for (const element of document.querySelectorAll("*"))
    for (const { name, value } of element.attributes) if (name === "title" || name.startsWith("aria-")) texts.push([name, value]);
  return texts;
}"""
"""Return all visible and spoken text, each with its element or attribute."""

HOSTILE = '<script>document.body.dataset.ran="1"</script><img src=x onerror=document.body.dataset.ran=1>"\'&amp;'


def violations(page: Page) -> list[tuple[str, list[str]]]:
    """Return the rules of accessibility that axe-core finds broken, each with the first elements that break it.

    It describes only these: to describe all elements that keep a rule takes it a third of its time.
    """
    axe = (fetched_by_npm("axe", "axe-core@4.10.3") / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    values = page.evaluate(f"async () => {{ {axe}; return (await axe.run({{ resultTypes: ['violations'] }})).violations; }}")
    return [(violation["id"], [node["html"] for node in violation["nodes"]][:3]) for violation in values]
