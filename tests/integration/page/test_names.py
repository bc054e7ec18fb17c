"""Names from events: never markup, never a change of the reading direction."""

from __future__ import annotations

import re
import time
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from streammetrics.events.model import Feedback, Impression
from streammetrics.reports.report import Report
from streammetrics.words.names import fit
from streammetrics.words.numbers import counted
from tests.integration.page.visits import HOSTILE, NARROW, READ, Open, Serve, Served, fetched, open_all
from tests.support.committed_state import MINUTE_MS, Pipeline
from tests.support.experiment_samples import experiment
from tests.support.page_story import (
    EXPERIMENT,
    Story,
    with_experiments,
)

HEBREW, HEBREW_7 = "\u05d0\u05d7\u05e8", "\u05de\u05d1\u05d7\u05df 7"

BIDI_CONTROLS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

FORGED = f"new{BIDI_CONTROLS} %4 yb retteb"

REPLACED = "\ufffd"

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


def serve_names(serve: Serve, history: tuple[Story, list[Report]], *names: str, experiment_name: str = EXPERIMENT) -> Served:
    """Serve two reports of an experiment with the control and these variants, in a segment named like the first."""
    now_ms = int(time.time() * 1_000) // MINUTE_MS * MINUTE_MS
    pipeline, variants = Pipeline(segments=("surface",)), ("control", *names)
    stats = experiment(dict.fromkeys(variants, 0.5) | {names[-1]: 0.4}, name=experiment_name, whole=True)
    port = serve(history[0].answers())
    for minute in range(40):
        ts = now_ms - (40 - minute) * MINUTE_MS
        impressions = [
            Impression(
                f"{at}{ts}", f"{at}{ts}", ts, ("a", "b"), ((experiment_name, variant), (names[0], names[0])), (("surface", names[0]),)
            )
            for at, variant in enumerate(variants)
        ]
        pipeline.feed("impressions", *impressions).feed("feedback", Feedback(user_id=f"1{ts}", ts=ts, item_id="a", action="click"))
        if minute % 20 == 19:
            pipeline.move_on(ts + MINUTE_MS - 1)
            port.answers.show(with_experiments(pipeline.report(), stats))
    return port


@pytest.fixture
def hostile(serve: Serve, history: tuple[Story, list[Report]]) -> Served:
    return serve_names(serve, history, HOSTILE)


@pytest.fixture
def hebrew(serve: Serve, history: tuple[Story, list[Report]]) -> Served:
    return serve_names(serve, history, HEBREW, HEBREW_7, experiment_name=HEBREW_7)


@pytest.fixture
def forged(serve: Serve, history: tuple[Story, list[Report]]) -> Served:
    return serve_names(serve, history, FORGED, experiment_name=f"{FORGED} 7")


class TestNames:
    def test_names_from_events_are_never_markup(self, visit: Open, hostile: Served) -> None:
        name = HOSTILE
        page_visit = visit(hostile.base, "?window=5m")
        expect(page_visit.section(EXPERIMENT).locator(".variant", has_text="<script>").first).to_have_text(name)
        expect(page_visit.page.locator("h2", has_text="<script>")).to_have_text(f"Experiment {name}")
        page_visit.choose("Segment", f"surface={name}")
        expect(page_visit.cell("Live", "<script>").locator(".value")).to_have_text(re.compile(r"^\d\.\d{4}$"))
        open_all(page_visit)
        assert page_visit.page.evaluate(
            "[document.querySelectorAll('script').length, document.images.length, document.body.dataset.ran ?? null]"
        ) == [
            3,  # the two scripts of the page, and the glossary as data
            0,
            None,
        ]

    def test_counts_stay_beside_right_to_left_names(self, visit: Open, hebrew: Served) -> None:
        page_visit = visit(hebrew.base, "?window=5m")
        verdict = page_visit.section(HEBREW_7).locator(".verdict")
        expect(verdict.locator(".fine")).to_contain_text("6,000 users: ")
        expect(verdict.locator(".reason")).to_contain_text(f"{HEBREW_7}: 20.8\u00a0% lower NDCG@10 than control")
        assert verdict.locator("p").evaluate_all(OUT_OF_ORDER) == []

    def test_names_are_isolated_from_the_text_around_them(self, visit: Open, hebrew: Served) -> None:
        page_visit = visit(hebrew.base, "?window=5m")
        page_visit.choose("Segment", f"surface=\u2068{HEBREW}\u2069")
        assert parse_qs(urlsplit(page_visit.page.url).query)["segment"] == [f"surface={HEBREW}"]
        expect(page_visit.cell("Live", HEBREW_7, section=HEBREW_7).locator(".value")).to_have_text(re.compile(r"^\d\.\d{4}$"))
        expect(page_visit.page.locator(".plot canvas").first).to_be_visible()
        open_all(page_visit)
        texts = page_visit.page.evaluate(READ)
        assert len([text for kind, text in texts if HEBREW in text or HEBREW_7 in text]) > 20
        assert {kind for kind, text in texts if HEBREW in text} >= {"bdi", "option", "aria-valuetext"}
        bare = [
            (kind, text)
            for kind, text in texts
            if kind != "bdi" and re.search("[\u0590-\u05ff]", re.sub("\u2068[^\u2069]*\u2069", "", text))
        ]
        assert bare == []

    def test_no_name_changes_the_reading_direction(self, visit: Open, forged: Served) -> None:
        seen = f"new{REPLACED * len(BIDI_CONTROLS)} %4 yb retteb"
        page_visit = visit(forged.base, "?window=5m")
        expect(page_visit.section(f"{seen} 7").locator(".verdict .reason")).to_contain_text(f"{seen}: ")
        page_visit.choose("Segment", f"surface=\u2068{seen}\u2069")
        assert parse_qs(urlsplit(page_visit.page.url).query)["segment"] == [f"surface={FORGED}"]
        expect(page_visit.cell("Live", seen, section=f"{seen} 7").locator(".value")).to_have_text(re.compile(r"^\d\.\d{4}$"))
        open_all(page_visit)
        controls = re.compile(f"[{BIDI_CONTROLS}]")
        texts = [re.sub("\u2068([^\u2068\u2069]*)\u2069", r"\1", text) for _, text in page_visit.page.evaluate(READ)]
        assert len([text for text in texts if seen in text]) > 20
        assert [text for text in texts if controls.search(text)] == []
        (reported,) = fetched(forged.base)["experiments"]
        assert reported["experiment"] == f"{FORGED} 7"  # the report has the original names

    def test_the_page_replaces_the_same_characters_as_python(self, visit: Open, still: Served) -> None:
        page = visit(still.base).page
        values = page.evaluate(
            """async () => {
                 const { fit } = await import("/text.js");
                 const every = Array.from({ length: 0x110000 }, (_, code) => code);
                 return every.filter((code) => fit(String.fromCodePoint(code)) !== String.fromCodePoint(code));
               }"""
        )
        assert values == [code for code in range(0x110000) if fit(chr(code)) != chr(code)]

    def test_nouns_agree_with_their_count(self, visit: Open, still: Served) -> None:
        page = visit(still.base).page
        values = page.evaluate(
            """async () => {
                 const { countedText } = await import("/text.js");
                 return [0, 1, 12_000].map((count) => countedText(count, "rebalance"));
               }"""
        )
        assert values == [counted(count, "rebalance") for count in (0, 1, 12_000)]

    def test_long_names_do_not_break_a_narrow_screen(self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]) -> None:
        now_ms = int(time.time() * 1_000) // MINUTE_MS * MINUTE_MS
        experiment, variant = "e" * 128, "v" * 128
        pipeline = (
            Pipeline()
            .feed("impressions", Impression("r", "u", now_ms - 3 * MINUTE_MS, ("a", "b"), ((experiment, variant),)))
            .move_on(now_ms)
        )
        port = serve(history[0].answers())
        port.answers.show(pipeline.report())
        page_visit = visit(port.base, viewport=NARROW)
        expect(page_visit.page.locator("h2", has_text="eee")).to_be_visible()
        assert page_visit.page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
