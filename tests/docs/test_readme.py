"""The README says what is true: its Python runs, its links lead somewhere, its commands exist."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from streammetrics.cli.main import NAMES
from tests.support.paths import ROOT
from tests.support.tables import for_each

FOLDERS = (".github", "deploy", "grafana", "streammetrics", "tests")
PAGES = sorted([*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))])


def test_the_python_in_the_readme_runs() -> None:
    results = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert results.attempted > 0
    assert results.failed == 0


@for_each(PAGES, lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_command_in_the_readme_exists() -> None:
    named = re.findall(r"(?:^    |`)streammetrics ([a-z-]+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"doctor", "run", "replay", "simulate"} <= set(named) <= set(NAMES)


def test_every_make_target_in_the_docs_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for page in PAGES:
        named = re.findall(r"(?:^    |`)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(named) <= targets
