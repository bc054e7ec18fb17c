"""Names are displayed safely, and in an order in which numbers count by their value."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.words.names import fit, group_order, in_order, isolated, name_order
from tests.support.experiment_samples import experiment
from tests.support.tables import for_each


@for_each(
    [
        ["-1", "-2", "-10"],
        ["v1", "v2", "v10"],
        ["v1.2", "v1.2.1", "v1.10", "v2"],
        ["2024-11-9", "2024-11-10"],
        ["", "0", "00", "01", "1", "9" * 5_000, "1" + "0" * 5_000, "a"],
        ["Control", "b", "b10", "b 2", "\u05d0 2", "\u05d0 10"],
        ["x\u0663", "x\u0664"],  # digits of other scripts are text
    ]
)
def test_numbers_in_names_count_by_their_value(wanted: list[str]) -> None:
    assert in_order([*wanted, *reversed(wanted)]) == wanted


@given(prefix=st.sampled_from(["", "-", "v", "ranker 2, arm "]), numbers=st.sets(st.integers(0, 10**30)))
def test_names_that_differ_in_one_number_have_its_order(prefix: str, numbers: set[int]) -> None:
    assert in_order(f"{prefix}{number}" for number in numbers) == [f"{prefix}{number}" for number in sorted(numbers)]


@given(st.sets(st.text(alphabet="-.0129ab", max_size=6)))
def test_every_two_names_have_an_order(names: set[str]) -> None:
    keys = [name_order(name) for name in names]
    assert len(set(keys)) == len(names)
    assert in_order(names) == in_order(sorted(names, reverse=True))


@given(st.sets(st.text(alphabet="-.ab", max_size=6)))
def test_names_without_numbers_are_in_the_order_of_code_points(names: set[str]) -> None:
    assert in_order(names) == sorted(names)


def test_groups_are_in_the_order_of_their_names() -> None:
    groups = [("ranker-2", "v10"), ("ranker-10", "v1"), ("ranker-2", "v9")]
    assert sorted(groups, key=group_order) == [("ranker-2", "v9"), ("ranker-2", "v10"), ("ranker-10", "v1")]


def test_a_report_has_its_variants_in_this_order_after_the_control() -> None:
    report = experiment(dict.fromkeys(["-10", "control", "-1", "-2"], 0.3))
    assert [variant.variant for variant in report.variants] == ["control", "-1", "-2", "-10"]
    without = experiment({"-10": 0.3, "-2": 0.3}, control="-3")
    assert "Variants seen: -2, -10. " in without.verdict.reason
    assert without.verdict.reason.endswith("the one that you compare with: -2, -10")


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
    fitted = fit(text)
    assert len(fitted) == len(text)
    assert not [character for character in fitted if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")]
    assert not {unicodedata.bidirectional(character) for character in fitted} & {
        "LRE",
        "RLE",
        "LRO",
        "RLO",
        "PDF",
        "LRI",
        "RLI",
        "FSI",
        "PDI",
    }


@given(st.text(st.characters()))
def test_a_name_in_a_sentence_is_isolated_if_it_is_not_ascii(text: str) -> None:
    text_isolated = isolated(text)
    assert text_isolated in (fit(text), f"\u2068{fit(text)}\u2069")
    assert (text_isolated == fit(text)) == text.isascii()
