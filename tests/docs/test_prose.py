"""The pages read easily: short sentences, plain words, and a README that fits in one sitting."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT

README_WORDS_MAX = 900
SENTENCE_WORDS_MAX = 40
SENTENCE_WORDS_MEAN_MAX = 18
FOLDERS = (".github", "deploy", "grafana", "streammetrics", "tests")
PAGES = sorted([ROOT / "README.md", *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))])
WORDS_OF_A_TRANSLATION = re.compile(
    r"\b(anew|nobody|whoever|whomever|tells? of|told of|is told|are told|lets go of|at hand|he|his|him)\b", re.IGNORECASE
)


def prose_of(text: str) -> str:
    """The text without code blocks, comments, link targets and inline code, which counts as one word."""
    text = re.sub(r"<!--.*?-->|^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(?: {4}|\t)(?! *[-*\d]).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"`[^`]*`", "Code", text)


def sentences_of(text: str) -> list[str]:
    """The sentences of a page. A heading, an item of a list and a cell of a table each end one.

    >>> sentences_of("# Start\\n\\nRun it. Then look at\\nthe page: it is live.\\n\\n- one\\n- two\\n")
    ['Start', 'Run it', 'Then look at the page: it is live', 'one', 'two']
    """
    blocks: list[str] = []
    for line in prose_of(text).splitlines():
        stripped = line.strip()
        if re.match(r"\|[-| :]+\|$", stripped):
            continue
        if stripped.startswith("|"):
            blocks += [cell.strip() for cell in stripped.strip("|").split("|")] + [""]
        elif not stripped or re.match(r"(#+|[-*]|\d+\.) ", stripped):
            blocks += ["", re.sub(r"^(#+|[-*]|\d+\.) ", "", stripped)]
        elif blocks:
            blocks[-1] += f" {stripped}"
        else:
            blocks.append(stripped)
    found = [sentence.strip(" .*_") for block in blocks for sentence in re.split(r"(?<=[.!?])\s+(?=[^a-z])", block)]
    return [sentence for sentence in found if re.search(r"\w", sentence)]


def words_of(sentence: str) -> int:
    return len(re.findall(r"[\w'%@/+.=-]+", sentence))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_are_short(page: Path) -> None:
    sentences = sentences_of(page.read_text(encoding="utf-8"))
    full = [sentence for sentence in sentences if words_of(sentence) > 3]  # headings and cells would flatter the mean
    assert [sentence for sentence in sentences if words_of(sentence) > SENTENCE_WORDS_MAX] == []
    assert not full or sum(map(words_of, full)) / len(full) < SENTENCE_WORDS_MEAN_MAX


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_avoid_words_of_a_translation(page: Path) -> None:
    found = [sentence for sentence in sentences_of(page.read_text(encoding="utf-8")) if WORDS_OF_A_TRANSLATION.search(sentence)]
    assert found == []


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    without_code = re.sub(r"^ *```.*?^ *```|^    .*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert len(without_code.split()) <= README_WORDS_MAX
