"""The sample of items: which items it has, what a list adds, and how samples merge."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.events.model import Impression
from streammetrics.sessions.state import GradedPositions, ShownList
from streammetrics.windows.examination import NO_LIMIT, ExaminationRules, ExaminationSample, ItemCounts, ItemHashes, merged_counts
from tests.oracle import Arrival
from tests.windows.samples import final

ARM = (("e", "a"),)


def listed(items: str, hits: GradedPositions = (), segments: tuple[tuple[str, str], ...] = ()) -> ShownList:
    """A list of one-letter items; a blank is a place without an item."""
    names = tuple(item.strip() for item in items)
    return final(Arrival("events", Impression("i", "u", 0, names, ARM, segments)), hits)


def sample_of(lists: list[ShownList], rules: ExaminationRules) -> ExaminationSample:
    sample, hashes = ExaminationSample(), ItemHashes(rules.context)
    for each in lists:
        sample.add(each, rules, hashes)
    return sample


def rows(counts: ItemCounts) -> set[tuple[int, int, int, int]]:
    return set(zip(counts.items.tolist(), counts.ranks.tolist(), counts.shows.tolist(), counts.clicks.tolist(), strict=True))


def test_only_the_first_place_of_an_item_and_no_empty_place_counts() -> None:
    rules, of = ExaminationRules(ranks=4), ItemHashes(())
    sample = sample_of([listed("a ab", (0, 2.0, 2, 1.0)), listed("babcd", (4, 1.0))], rules)
    assert rows(sample.counts()) == {
        (of.of("", "a"), 1, 1, 1),
        (of.of("", "b"), 4, 1, 0),
        (of.of("", "b"), 1, 1, 0),
        (of.of("", "a"), 2, 1, 0),
        (of.of("", "c"), 4, 1, 0),
    }
    assert sample.variants[ARM[0]].lists == 2
    assert sample.variants[ARM[0]].by_place == {(0, 2.0): 1, (2, 1.0): 1}


def test_an_item_has_another_hash_in_another_context() -> None:
    hashes = ItemHashes(("query", "shop"))
    texts = [hashes.context_of(labels) for labels in ((("query", "a1:b"),), (("query", "a"), ("shop", "b")), (("shop", "a1:b"),), ())]
    assert len(set(texts)) == 4
    assert len({hashes.of(text, "x") for text in texts}) == 4
    assert hashes.of("", "x") == ItemHashes(()).of("", "x") < NO_LIMIT


@given(st.lists(st.text("abcdefgh", max_size=4), max_size=30), st.integers(1, 4), st.integers(0, 30))
def test_samples_of_parts_merge_to_the_sample_of_all(lists: list[str], items_max: int, cut: int) -> None:
    """The merged sample may have more items than a sample of all, because each part has its own limit. All have the same counts."""
    rules = ExaminationRules(items_max=items_max)
    shown = [listed(items, (0, 1.0) if items else ()) for items in lists]
    everything = rows(sample_of(shown, ExaminationRules()).counts())
    merged = merged_counts([sample_of(part, rules).counts() for part in (shown[:cut], shown[cut:])])
    assert rows(merged) == {row for row in everything if row[0] < merged.limit}
    assert merged.limit >= sample_of(shown, rules).limit
    whole = sample_of(shown, rules).counts()
    assert rows(whole) == {row for row in everything if row[0] < whole.limit}
    assert len(np.unique(whole.items)) == min(items_max, len({row[0] for row in everything}))


def test_nothing_merges_to_nothing() -> None:
    assert rows(merged_counts([])) == set()
