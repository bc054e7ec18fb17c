"""Contrast, edges, and widths."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.integration.page.visits import NARROW, Open, Served, live
from tests.support.page_story import (
    EXPERIMENT,
)
from tests.tools.servers.process import wait_until

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
        page_visit = visit(still.base, color_scheme=scheme)
        live(page_visit.page)
        for summary in page_visit.page.locator("summary").all():
            summary.click()
        ground = page_visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        red = int(re.findall(r"\d+", ground)[0])
        assert red > 200 if scheme == "light" else red < 60
        contrasts = page_visit.page.evaluate(CONTRASTS)
        assert len(contrasts) > 100
        assert [pair for pair in contrasts if pair[0] < 4.5] == []

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_controls_have_visible_edges(self, visit: Open, fresh: Served, scheme: str) -> None:
        page_visit = visit(fresh.base, expected=("status of 401",), color_scheme=scheme)
        live(page_visit.page)
        page_visit.page.route("**/api/**", lambda route: route.fulfill(status=401))
        page_visit.ask_again()
        expect(page_visit.page.get_by_role("button", name="Log in again")).to_be_visible()
        edges = page_visit.page.evaluate(EDGES)
        assert {name for _, name in edges} == {"select", "button"}
        assert [pair for pair in edges if pair[0] < 3] == []

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_the_last_numbers_are_readable_while_the_server_is_away(self, visit: Open, fresh: Served, scheme: str) -> None:
        page_visit = visit(fresh.base, expected=("ERR_CONNECTION_REFUSED",), color_scheme=scheme)
        live(page_visit.page)
        fresh.server.stop()
        page_visit.ask_again()
        expect(page_visit.page.locator(".pill")).to_have_text("Stale")
        assert [pair for pair in page_visit.page.evaluate(CONTRASTS) if pair[0] < 4.5] == []
        assert page_visit.section(EXPERIMENT).evaluate("e => getComputedStyle(e).borderTopStyle") == "dashed"
        assert page_visit.section(EXPERIMENT).locator(".verdict").evaluate("e => getComputedStyle(e).filter") == "grayscale(1)"

    def test_a_narrow_screen_needs_no_sideways_scrolling(self, visit: Open, still: Served) -> None:
        page_visit = visit(still.base, viewport=NARROW, has_touch=True, is_mobile=True)
        live(page_visit.page)
        for summary in page_visit.page.locator("summary").all():
            summary.click()
        expect(page_visit.page.locator("details:not([open])")).to_have_count(0)
        assert page_visit.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]") == [360, 360]
        assert all(plot.bounding_box()["width"] <= 340 for plot in page_visit.page.locator(".uplot").all())  # type: ignore[index]
        assert not any(page_visit.page.locator(".rows").evaluate_all("found => found.map((e) => e.scrollWidth > e.clientWidth)"))

    @pytest.mark.parametrize("width", [320, 390, 640, 720, 1024])
    def test_the_verdict_of_each_variant_is_on_the_screen(self, visit: Open, still: Served, width: int) -> None:
        """A screen of 1280 pixels at a zoom of 200 % has 640, and one at 400 % has 320."""
        page_visit = visit(still.base, viewport={"width": width, "height": 800})
        live(page_visit.page)
        badge = page_visit.section(EXPERIMENT).locator(".rows .badge").first
        box = badge.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= width
        assert page_visit.section(EXPERIMENT).locator(".rows").first.evaluate("(part) => part.scrollWidth <= part.clientWidth")

    def test_a_chart_follows_the_width_of_the_window(self, visit: Open, still: Served) -> None:
        page_visit = visit(still.base)
        canvas = page_visit.section("All traffic").locator(".plot canvas")
        expect(canvas).to_be_visible()
        wide = canvas.bounding_box()
        page_visit.page.set_viewport_size(NARROW)  # type: ignore[arg-type]
        wait_until(lambda: canvas.evaluate("(canvas) => canvas.clientWidth") < 340, what="the chart is as narrow as the window")
        assert wide is not None
        assert wide["width"] > 1_000
