"""Values from senders cannot break the text, rename other values, or decrease a counter."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.exporters.prometheus.labels import CHARS_MAX, OTHER, LabelNames, MonotonicCounters, clean
from streammetrics.windows.panes import Group


class TestClean:
    @pytest.mark.parametrize(
        "value", ["", "treatment", "<script>alert('x')</script>", 'say "hi" \\ then go', "👩‍🔬 naïve 日本", "a" * CHARS_MAX]
    )
    def test_safe_values_are_unchanged(self, value: str) -> None:
        assert clean(value) == value

    @pytest.mark.parametrize("value", ["a\nb", "a\x00b", "a\x7fb", "a\u2028b", "a\u202eb", "a\u200fb", "a\ud800b"])
    def test_unsafe_characters_are_replaced(self, value: str) -> None:
        assert clean(value).startswith("a\ufffdb~")

    def test_a_long_value_is_shortened(self) -> None:
        assert len(clean("a" * (CHARS_MAX + 1))) == CHARS_MAX

    def test_no_value_can_imitate_other(self) -> None:
        assert clean(OTHER) != OTHER

    @given(st.text(st.characters(), max_size=CHARS_MAX * 2))
    def test_any_value_becomes_one_short_encodable_line(self, value: str) -> None:
        text = clean(value)
        assert len(text) <= CHARS_MAX
        assert len(text.splitlines()) <= 1
        text.encode()

    @given(st.lists(st.text(st.sampled_from("a\n\r\x00\ud800"), max_size=4), unique=True, min_size=2))
    def test_distinct_values_stay_distinct(self, values: list[str]) -> None:
        assert len({clean(value) for value in values}) == len(values)

    @pytest.mark.parametrize("value", ["rank\u200eer", OTHER, "a" * (CHARS_MAX + 1)])
    def test_no_value_can_imitate_a_changed_value(self, value: str) -> None:
        posing = clean(value)
        assert clean(posing) not in (posing, value)


def groups(*experiments: str) -> list[Group]:
    return [Group(), *(Group(experiment, "control") for experiment in experiments)]


def own_names(names: LabelNames, live: list[Group], resting: list[Group] | None = None) -> set[str]:
    """Return the experiments that keep their own name."""
    return {group.experiment for group, labels in names.assign(live, resting or []).items() if group.experiment and not labels.is_folded}


class TestLabelNames:
    def test_up_to_the_limit_all_values_keep_their_names(self) -> None:
        assert own_names(LabelNames(2), groups("a", "b")) == {"a", "b"}

    def test_over_the_limit_experiments_and_their_variants_are_other(self) -> None:
        groups_by_name = LabelNames(2).assign(groups("a", "b", "c"), [])
        assert groups_by_name[Group("c", "control")] == (OTHER, OTHER, "")
        assert groups_by_name[Group("b", "control")] == ("b", "control", "")

    def test_all_traffic_does_not_count_for_the_limit(self) -> None:
        assert LabelNames(1).assign(groups("a"), [])[Group()] == ("", "", "")

    def test_a_new_name_does_not_change_others(self) -> None:
        names = LabelNames(2)
        own_names(names, groups("b", "c"))
        assert own_names(names, groups("a", "b", "c")) == {"b", "c"}

    def test_a_new_name_takes_a_free_place(self) -> None:
        names = LabelNames(2)
        own_names(names, groups("a", "b", "c"))
        assert own_names(names, groups("b", "c")) == {"b", "c"}

    def test_values_with_lists_have_priority_over_values_in_totals(self) -> None:
        names = LabelNames(1)
        assert own_names(names, groups("old"), groups("old")) == {"old"}
        assert own_names(names, groups("new"), groups("old", "new")) == {"new"}

    def test_variants_are_limited(self) -> None:
        groups = LabelNames(1).assign([Group("a", "x"), Group("a", "y")], [])
        assert groups[Group("a", "x")] == ("a", "x", "")
        assert groups[Group("a", "y")] == ("a", OTHER, "")

    def test_segments_are_limited(self) -> None:
        groups = LabelNames(1).assign([Group("", "", "s", "x"), Group("", "", "s", "y")], [])
        assert [labels.segments for labels in groups.values()] == ["s=x", OTHER]

    def test_of_two_segments_with_one_text_the_first_keeps_it(self) -> None:
        early, late = Group("", "", "s=x", "y"), Group("", "", "s", "x=y")
        names = LabelNames(2)
        names.assign([early], [])
        groups = names.assign([late, early], [])
        assert (groups[early].segments, groups[late].segments) == ("s=x=y", OTHER)


READINGS = st.lists(st.dictionaries(st.sampled_from("xyz"), st.tuples(st.sampled_from("ab"), st.integers(0, 9))), max_size=8)
Reading = dict[str, tuple[str, int]]


def sums(counters: MonotonicCounters[str], reading: Reading) -> dict[str, int]:
    return dict(counters.update((source, counter, value) for source, (counter, value) in reading.items()))


class TestCounters:
    @given(READINGS)
    def test_counters_never_decrease(self, readings: list[Reading]) -> None:
        counters = MonotonicCounters[str]()
        for before, after in pairwise([sums(counters, reading) for reading in readings]):
            assert all(after[name] >= before[name] for name in before.keys() & after.keys())

    @given(READINGS)
    def test_counters_without_sources_are_dropped(self, readings: list[Reading]) -> None:
        counters = MonotonicCounters[str]()
        assert [set(sums(counters, reading)) for reading in readings] == [{name for name, _ in reading.values()} for reading in readings]

    @given(st.lists(st.dictionaries(st.sampled_from("xyz"), st.integers(0, 9)), max_size=8))
    def test_growing_sources_are_summed(self, growths: list[dict[str, int]]) -> None:
        counters, values = MonotonicCounters[str](), dict.fromkeys("xyz", 0)
        for growth in growths:
            for source, more in growth.items():
                values[source] += more
            assert sums(counters, {source: ("sum", value) for source, value in values.items()}) == {"sum": sum(values.values())}

    def test_a_decreased_source_counts_again_above_its_maximum(self) -> None:
        counters = MonotonicCounters[str]()
        assert [sums(counters, {"x": ("a", value)})["a"] for value in (10, 4, 9, 12)] == [10, 10, 10, 12]

    def test_a_folded_source_adds_only_its_growth(self) -> None:
        counters = MonotonicCounters[str]()
        sums(counters, {"x": ("own", 100), "y": (OTHER, 5)})
        assert sums(counters, {"x": (OTHER, 103), "y": (OTHER, 5)}) == {OTHER: 8}

    def test_a_source_with_a_new_counter_adds_its_whole_count(self) -> None:
        counters = MonotonicCounters[str]()
        sums(counters, {"x": (OTHER, 100), "y": (OTHER, 5)})
        assert sums(counters, {"x": ("own", 103), "y": (OTHER, 6)}) == {"own": 103, OTHER: 106}
