"""Names from events are displayed safely: no line breaks, no reversed direction, no lost name."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.reports.text import fit, isolated
from tests.support.tables import for_each

BIDI_CONTROLS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
HEBREW = "\u05d0\u05d7\u05e8"


@pytest.mark.parametrize("text", ["", "treatment", "naïve 日本", "👩‍🔬", HEBREW, "مرحبا\u200cبك"])
def test_displayable_text_is_unchanged(text: str) -> None:
    assert fit(text) == text


@for_each([*BIDI_CONTROLS, *"\x00\x1b\n\r\x7f\x85\u2028\u2029\ud800\udfff\ufffe\uffff"])
def test_line_breaks_and_direction_marks_are_replaced(character: str) -> None:
    assert fit(f"a{character}b") == "a\ufffdb"


@given(st.text(st.characters()))
def test_no_control_characters_remain(text: str) -> None:
    shown = fit(text)
    assert len(shown) == len(text)
    assert not [each for each in shown if unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp")]
    assert not {unicodedata.bidirectional(each) for each in shown} & {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(st.text(st.characters()))
def test_a_name_in_a_sentence_is_isolated_if_it_is_not_ascii(text: str) -> None:
    shown = isolated(text)
    assert shown in (fit(text), f"\u2068{fit(text)}\u2069")
    assert (shown == fit(text)) == text.isascii()
