"""Save pictures of the live page in its states, and of the demo for the README.

    python -m tests.support.page_pictures FOLDER

The pictures use a real Chromium, the real HTTP port and reports of the product's own code.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from streammetrics.events.model import Impression
from streammetrics.exporters.http.answers import HttpAnswers
from streammetrics.exporters.http.server import HttpServer
from streammetrics.reports.freshness import FirstEvents
from streammetrics.reports.report import Report
from tests.support.command_line import started
from tests.support.committed_state import MINUTE_MS, Pipeline, served
from tests.support.experiment_samples import experiment
from tests.support.page_story import EXPERIMENT, SIX, Story, make_story, many_experiments, many_variants, mixed_experiment, with_experiments
from tests.tools.servers.tools import find_chromium

WIDTHS = {"wide": 1280, "narrow": 390}
DEMO_SECONDS = 100
"""How long the demo runs before its picture, so that curves are long and the statistics have enough users."""


def main() -> int:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    story, reports = make_story(int(time.time() * 1_000) + MINUTE_MS, minutes=120)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"])
        with _live(story, reports) as base:
            _all(browser, base, folder, "live", "Live")
        for name, experiments in (
            ("six-variants", [experiment(SIX, name=EXPERIMENT)]),
            ("twenty-variants", [many_variants()]),
            ("ten-experiments", many_experiments()),
            ("mixed", [mixed_experiment()]),
        ):
            with _live(story, [*reports, with_experiments(reports[-1], *experiments)]) as base:
                _all(browser, base, folder, name, "Live")
        with _stale(story, reports) as (base, server):
            _all(browser, base, folder, "stale", "Live", server)
        with served(story.answers()) as base:
            _all(browser, base, folder, "not-ready", "Not ready")
        with _empty(story) as base:
            _all(browser, base, folder, "no-data", "No data yet")
        _demo(browser, folder / "demo.png")
        browser.close()
    return 0


def _all(browser: Browser, base: str, folder: Path, name: str, state: str, server: HttpServer | None = None) -> None:
    """Save a state in light and dark, wide and narrow. A given server is stopped before the pictures."""
    pages = [
        (f"{name}-{scheme}-{width}.png", browser.new_context(viewport={"width": pixels, "height": 800}, color_scheme=scheme).new_page())
        for scheme in ("light", "dark")
        for width, pixels in WIDTHS.items()
    ]
    for _, page in pages:
        page.goto(base)
        page.locator(".pill", has_text=state).wait_for()
    if server is not None:
        server.stop()
    for file, page in pages:
        if server is not None:
            page.locator(".pill", has_text="Stale").wait_for()
        page.screenshot(path=folder / file, full_page=True)
        page.context.close()


@contextmanager
def _live(story: Story, reports: list[Report]) -> Iterator[str]:
    with served(_shown(story, reports)) as base:
        yield base


@contextmanager
def _stale(story: Story, reports: list[Report]) -> Iterator[tuple[str, HttpServer]]:
    server = HttpServer(_shown(story, reports), "127.0.0.1", 0)
    server.start()
    try:
        yield f"http://127.0.0.1:{server.port}", server
    finally:
        server.stop()


@contextmanager
def _empty(story: Story) -> Iterator[str]:
    answers = story.answers(first_events=FirstEvents(("impressions", "feedback")))
    answers.show(Pipeline().feed("impressions", Impression("r", "u", int(time.time() * 1_000), ("a",))).report())
    with served(answers) as base:
        yield base


def _shown(story: Story, reports: list[Report]) -> HttpAnswers:
    answers = story.answers()
    for report in reports:
        answers.show(report)
    return answers


def _demo(browser: Browser, path: Path) -> None:
    with started("demo", "--port", "0", "--scenario", "six-variants") as process:
        assert process.stdout is not None
        address = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
        assert address
        time.sleep(DEMO_SECONDS)
        page = browser.new_context(viewport={"width": 1080, "height": 1240}, color_scheme="light").new_page()
        page.goto(address[0])
        page.locator(".pill", has_text="Live").wait_for()
        page.locator(".plot canvas").first.wait_for()
        page.screenshot(path=path)
        process.kill()


if __name__ == "__main__":
    sys.exit(main())
