"""What senders do to names, and how they are drawn all the same: no line is broken, no direction turned, no name lost."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.reports.text import Name, fit, isolated, with_names

BIDI_CONTROLS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
HEBREW = "\u05d0\u05d7\u05e8"


@pytest.mark.parametrize("text", ["", "treatment", "naïve 日本", "👩‍🔬", HEBREW, "مرحبا\u200cبك"])
def test_what_is_fit_is_shown_as_sent(text: str) -> None:
    assert fit(text) == text


@pytest.mark.parametrize("character", [*BIDI_CONTROLS, *"\x00\x1b\n\r\x7f\x85\u2028\u2029\ud800\udfff\ufffe\uffff"])
def test_what_breaks_a_line_or_turns_its_direction_is_seen(character: str) -> None:
    assert fit(f"a{character}b") == "a\ufffdb"


@given(st.text(st.characters()))
def test_no_control_of_any_kind_is_left(text: str) -> None:
    shown = fit(text)
    assert len(shown) == len(text)
    assert not [each for each in shown if unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp")]
    assert not {unicodedata.bidirectional(each) for each in shown} & {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(st.text(st.characters()))
def test_a_name_in_a_sentence_opens_and_closes_its_own_isolation_only(text: str) -> None:
    shown = isolated(text)
    assert shown in (fit(text), f"\u2068{fit(text)}\u2069")
    assert (shown == fit(text)) == text.isascii()


@given(st.text(), st.lists(st.text()))
def test_the_parts_of_a_sentence_are_the_sentence(sentence: str, names: list[str]) -> None:
    parts = with_names(sentence, names)
    assert "".join(parts) == sentence
    assert {part for part in parts if isinstance(part, Name)} <= set(names)


@pytest.mark.parametrize(
    ("sentence", "names", "found"),
    [
        (f"{HEBREW}: 12 % fewer than control", [HEBREW, "control"], [HEBREW, "control"]),
        ("b-a 3, a 4", ["a", "b-a"], ["b-a", "a"]),
        ("a hit among many", ["a", "man"], ["a"]),
        ("a.b* 1", ["a.b*", "a"], ["a.b*"]),
        ("nobody is named", [], []),
    ],
)
def test_names_are_found_whole_the_longest_first(sentence: str, names: list[str], found: list[str]) -> None:
    assert [part for part in with_names(sentence, names) if isinstance(part, Name)] == found
