"""The documentation site: it builds without a broken link, can be searched, and has every page, public name and command."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

import streammetrics
from streammetrics import experiments
from streammetrics.cli.main import NAMES
from streammetrics.config import keys
from tests.deploy.tools import run
from tests.support.paths import ROOT

DOCS = ROOT / ".github" / "docs"
TERMS_MAX = 58
BUILD_SECONDS_MAX = 900
"""A build takes half a minute on a quiet machine, and many times that beside other tests."""
TUPLES = {"SINCE_START", "THIS_DAY"}
"""Names that one line assigns together. The reference cannot list them."""


def build(site: Path, config: Path = ROOT / ".github" / "mkdocs.yml") -> tuple[int, str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config, "--site-dir", site]
    done = run(command, environ={"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}, seconds_max=BUILD_SECONDS_MAX)
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    code, said = build(folder)
    assert code == 0, said
    return folder


def test_every_page_is_in_the_site_and_can_be_found(site: Path) -> None:
    entries = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    titles = {page["title"] for page in entries}
    assert {"Glossary", "Metrics in Python", "StreammetricsRankingRegressed"} <= titles
    pages = [*ROOT.glob("deploy/runbooks/*.md"), *ROOT.glob("streammetrics/*/README.md"), ROOT / "deploy" / "README.md"]
    places = {page["location"].partition("#")[0] for page in entries}
    for page in pages:
        place = page.relative_to(ROOT).with_suffix("").as_posix().removesuffix("README").rstrip("/")
        assert f"{place}/" in places


def test_the_site_asks_no_other_host(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=.https?:[^ ]+", text) == []
    assert re.findall(r"<link[^>]*rel=.(?:stylesheet|preconnect)[^>]*href=.https?:[^ ]+", text) == []


@pytest.mark.parametrize(("page", "names"), [("metrics", streammetrics.__all__), ("experiments", experiments.__all__)])
def test_the_reference_has_every_public_name(site: Path, page: str, names: list[str]) -> None:
    text = (site / "api" / page / "index.html").read_text(encoding="utf-8")
    listed = {name.rpartition(".")[2] for name in re.findall(r"id=\"(streammetrics[\w.]*)\"", text)}
    assert {*names} - TUPLES <= listed


def test_the_examples_of_docstrings_are_code(site: Path) -> None:
    text = (site / "api" / "metrics" / "index.html").read_text(encoding="utf-8")
    assert text.count('<span class="gp">') > 20
    assert "<p>&gt;&gt;&gt;" not in text
    assert "<blockquote>" not in text


def test_commands_and_settings_are_listed(site: Path) -> None:
    commands = (site / "commands" / "index.html").read_text(encoding="utf-8")
    assert all(f"streammetrics {name}" in commands for name in NAMES)
    settings = re.sub("<[^>]+>", "", (site / "settings" / "index.html").read_text(encoding="utf-8"))
    assert all(name.partition(".")[2] in settings for name in keys())


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    """Otherwise the test above could pass because nothing is checked. It works on a copy, so that a stopped test leaves no page behind."""
    copy = tmp_path / "copy"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", ".*cache", "__pycache__", "dist"))
    for command in (["init", "--quiet"], ["add", "--all"]):  # the site has the pages that git knows
        assert run(["git", "-C", copy, *command]).returncode == 0
    (copy / ".github" / "docs" / "broken.md").write_text("[nowhere](nothing.md)\n", encoding="utf-8")
    code, said = build(tmp_path / "site", copy / ".github" / "mkdocs.yml")
    assert code == 1
    assert "nothing.md" in said


def test_the_glossary_is_short_and_sorted_and_its_terms_are_used() -> None:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\| ([^|]+?) \| [^|]+\|$", text, re.MULTILINE)[1:]
    assert 20 < len(terms) <= TERMS_MAX
    assert terms == sorted(terms, key=str.casefold)
    pages = [
        *(ROOT / "streammetrics").rglob("*.md"),
        *(ROOT / "deploy").rglob("*.md"),
        ROOT / "CHANGELOG.md",
        ROOT / "deploy" / "streammetrics.toml",
    ]
    elsewhere = "\n".join(path.read_text(encoding="utf-8") for path in pages)
    written = {term: re.escape(term).replace("\\ ", "[ _]") for term in terms}  # a metric is written with underscores, too
    assert [term for term, pattern in written.items() if not re.search(rf"\b{pattern}", elsewhere, re.IGNORECASE)] == []
