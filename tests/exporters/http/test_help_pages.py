"""The glossary and the runbooks that the exporter serves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from streammetrics.experiments.verdict import Word
from streammetrics.exporters.http.help_pages import glossary, help_routes, rendered, with_glossary

ROOT = Path(__file__).parents[3]
STATIC = ROOT / "streammetrics" / "exporters" / "http" / "static"


def test_there_is_a_page_for_each_runbook_and_the_glossary() -> None:
    alerts = sorted(path.stem for path in (ROOT / "deploy" / "runbooks").glob("*.md"))
    assert [route.path for route in help_routes()] == [f"/help/{name}" for name in ("glossary", *alerts)]


def test_the_glossary_has_the_terms_that_the_page_explains() -> None:
    scripts = "\n".join(script.read_text(encoding="utf-8") for script in STATIC.glob("*.js"))
    asked = {term.lower() for term in re.findall(r'\b(?:help|termButton)\("([^"]+)"[,)]', scripts)}
    needed = {*get_args(Word), "final", "live", "ndcg", "mrr", "hit rate", "item hit rate", "user hit rate"}
    assert {"gate", "lift", "verdict"} < asked
    assert (asked | needed) - {term.lower() for term in glossary()} == set()


def test_each_verdict_and_the_gate_lead_to_a_page_that_says_more() -> None:
    terms = glossary()
    assert {name: terms[name].page for name in (*get_args(Word), "gate") if not terms[name].address} == {}
    assert terms["regressed"].address == "/help/StreammetricsRankingRegressed"
    assert terms["safe"].address.endswith("/blob/main/streammetrics/experiments/README.md#verdicts")


def test_text_of_the_glossary_cannot_end_the_script_that_holds_it() -> None:
    assert "<" not in with_glossary("GLOSSARY")
    assert with_glossary("a GLOSSARY b").startswith('a {"')


def test_a_page_is_html_without_markup_from_its_text_and_its_links_lead_to_runbooks_or_the_repository() -> None:
    text = "# A & B\n\n<script>x</script> see [the page](../page.md#here), [another](Other.md) and [x](https://x.example)\n"
    page = rendered("A & B", text, "deploy/runbooks").decode()
    assert "<title>A &amp; B</title>" in page
    assert "<script>" not in page
    assert 'href="https://github.com/streammetrics/streammetrics/blob/main/deploy/page.md#here"' in page
    assert 'href="/help/Other"' in page
    assert 'href="https://x.example"' in page
