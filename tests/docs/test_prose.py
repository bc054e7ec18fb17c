"""The pages read easily: short sentences, plain words, and a README that fits in one sitting."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.prose import sentences_of, words_of
from tests.support.tables import for_each

README_WORDS_MAX = 900
SENTENCE_WORDS_MAX = 40
SENTENCE_WORDS_MEAN_MAX = 18
FOLDERS = (".github", "deploy", "grafana", "streammetrics", "tests")
PAGES = sorted([ROOT / "README.md", *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))])
WORDS_OF_A_TRANSLATION = re.compile(
    r"\b(anew|nobody|whoever|whomever|tells? of|told of|is told|are told|lets go of|at hand|he|his|him)\b", re.IGNORECASE
)


@for_each(PAGES, lambda page: str(page.relative_to(ROOT)))
def test_sentences_are_short(page: Path) -> None:
    sentences = sentences_of(page.read_text(encoding="utf-8"))
    full = [sentence for sentence in sentences if words_of(sentence) > 3]  # headings and cells would flatter the mean
    assert [sentence for sentence in sentences if words_of(sentence) > SENTENCE_WORDS_MAX] == []
    assert not full or sum(map(words_of, full)) / len(full) < SENTENCE_WORDS_MEAN_MAX


@for_each(PAGES, lambda page: str(page.relative_to(ROOT)))
def test_pages_avoid_words_of_a_translation(page: Path) -> None:
    sentences = [sentence for sentence in sentences_of(page.read_text(encoding="utf-8")) if WORDS_OF_A_TRANSLATION.search(sentence)]
    assert sentences == []


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    without_code = re.sub(r"^ *```.*?^ *```|^    .*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert len(without_code.split()) <= README_WORDS_MAX
