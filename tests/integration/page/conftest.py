"""The browser, the story that the page tells, and its ports."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from streammetrics.reports.report import Report
from tests.integration.page.visits import SECONDS, WIDE, Open, Serve, Served, Visit, serving
from tests.support.committed_state import MINUTE_MS
from tests.support.page_story import Story, make_story
from tests.tools.servers.tools import find_chromium

STORY_SECONDS = 120
"""A story that is older is told again."""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as driver:
        # The sandbox of Chromium does not start for root, and CI may run as root. The tests open only our own page.
        browser = driver.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve answers with reports until the pages of the test are closed, so that no last poll fails."""
    with ExitStack() as ports:
        yield lambda answers, *reports: ports.enter_context(serving(answers, *reports))


@pytest.fixture
def visit(chromium: Browser, serve: Serve) -> Iterator[Open]:
    """Open pages: `visit(base, "?window=5m", expected=("text of an expected console error",), **browser_options)`."""
    visits: list[Visit] = []

    def opened(base: str, path: str = "", *, expected: tuple[str, ...] = (), fake_clock: bool = True, **options: Any) -> Visit:
        page = chromium.new_context(**{"viewport": WIDE, **options}).new_page()
        page.set_default_timeout(SECONDS)
        page_visit = Visit(page, base, expected)
        page_visit.watch()
        if fake_clock:
            page.clock.install()
        visits.append(page_visit)
        page.goto(f"{base}/{path}")
        return page_visit

    yield opened
    for visit in visits:
        visit.page.context.close()
    assert [visit.troubles for visit in visits] == [[] for _ in visits]


@pytest.fixture(scope="session")
def stories() -> list[tuple[float, Story, list[Report]]]:
    """The stories that were told so far, each with the time at which it was made."""
    return []


@pytest.fixture
def history(stories: list[tuple[float, Story, list[Report]]]) -> tuple[Story, list[Report]]:
    """A story of more than an hour that ends now. Half an hour of it is live, and the treatment is worse.

    Numbers that are five minutes old count as behind, so a slow machine gets a new story in time.
    """
    if not stories or time.monotonic() > stories[-1][0] + STORY_SECONDS:
        stories.append((time.monotonic(), *make_story(int(time.time() * 1_000) + MINUTE_MS, minutes=75)))
    return stories[-1][1:]


@pytest.fixture
def still(serve: Serve, history: tuple[Story, list[Report]]) -> Served:
    """The whole story on a port."""
    story, reports = history
    return serve(story.answers(), *reports)


@pytest.fixture
def fresh(serve: Serve, history: tuple[Story, list[Report]]) -> Iterator[Served]:
    """The end of the story on a port for one test."""
    story, reports = history
    status = story.status
    yield serve(story.answers(), *reports[-5:])
    status.source_trouble = status.store_trouble = status.publish_trouble = None
    status.lag_records.clear()
    status.lag_seconds.clear()
    story.now.seconds = 1_000.0
