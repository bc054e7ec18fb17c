"""The glossary and the runbooks that the exporter serves."""

from __future__ import annotations

from pathlib import Path

from streammetrics.exporters.http.help_pages import glossary, help_routes, rendered, with_glossary

ROOT = Path(__file__).parents[3]


def test_there_is_a_page_for_each_runbook_and_the_glossary() -> None:
    alerts = sorted(path.stem for path in (ROOT / "deploy" / "runbooks").glob("*.md"))
    assert [route.path for route in help_routes()] == [f"/help/{name}" for name in ("glossary", *alerts)]


def test_the_glossary_has_the_terms_that_the_page_explains() -> None:
    needed = {"ndcg", "final", "live", "margin", "safe to check at any time", "effective users", "gate", "lift", "verdict"}
    assert needed <= {term.lower() for term in glossary()}


def test_text_of_the_glossary_cannot_end_the_script_that_holds_it() -> None:
    assert "<" not in with_glossary("GLOSSARY")
    assert with_glossary("a GLOSSARY b").startswith('a {"')


def test_a_page_is_html_without_markup_from_its_text_and_its_links_lead_to_the_repository() -> None:
    page = rendered("A & B", "# A & B\n\n<script>x</script> see [the runbook](../runbook.md#here) and [x](https://x.example)\n").decode()
    assert "<title>A &amp; B</title>" in page
    assert "<script>" not in page
    assert 'href="https://github.com/streammetrics/streammetrics/blob/main/deploy/runbooks/../runbook.md#here"' in page
    assert 'href="https://x.example"' in page
