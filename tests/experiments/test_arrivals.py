"""Arrivals by block: any order of merging gives the same, nothing is lost, and blocks stay few."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streammetrics.experiments.arrivals import BLOCKS_MAX, HOUR_MS, NO_ARRIVALS, Arrivals, merge

hours = st.dictionaries(
    st.sampled_from(["control", "treatment", "other"]),
    st.dictionaries(st.integers(0, 3_000), st.integers(1, 9), min_size=1),
    max_size=3,
)
MONTH = {"control": dict.fromkeys(range(BLOCKS_MAX), 1)}
NEXT = {"control": dict.fromkeys(range(BLOCKS_MAX, 2 * BLOCKS_MAX + 5), 2), "treatment": {3: 1}}
LONG = {"treatment": dict.fromkeys(range(1, 2_999, 2), 1)}


def at_once(parts: list[dict[str, dict[int, int]]]) -> Arrivals:
    """All the hours added first, and put in blocks last."""
    total: dict[str, Counter[int]] = {}
    for part in parts:
        for variant, blocks in part.items():
            total.setdefault(variant, Counter()).update(blocks)
    return Arrivals.of({variant: dict(blocks) for variant, blocks in total.items()})


@given(st.lists(hours, max_size=5), st.randoms())
@example([MONTH, NEXT, LONG], None)
@example([NEXT, LONG, MONTH], None)
@example([LONG, MONTH], None)
def test_any_order_and_grouping_of_merges_gives_the_arrivals_of_all(parts: list[dict[str, dict[int, int]]], random: object) -> None:
    one_by_one = NO_ARRIVALS
    for part in parts:
        one_by_one = merge([one_by_one, Arrivals.of(part)])
    mixed = [Arrivals.of(part) for part in parts]
    if random is not None:
        random.shuffle(mixed)  # type: ignore[attr-defined]
    in_halves = merge([merge(mixed[:2]), merge(mixed[2:])])
    assert one_by_one == in_halves == at_once(parts)


@given(hours)
@example(LONG)
@example(NEXT)
def test_no_arrival_is_lost_and_blocks_are_few_and_no_longer_than_they_must(by_hour: dict[str, dict[int, int]]) -> None:
    found = Arrivals.of(by_hour)
    assert found.by_variant == {variant: sum(blocks.values()) for variant, blocks in by_hour.items()}
    assert all(len(blocks) <= BLOCKS_MAX for blocks in found.counts.values())
    shorter = found.block_ms // 2 // HOUR_MS
    if shorter:
        assert any(len({hour // shorter for hour in blocks}) > BLOCKS_MAX for blocks in by_hour.values())


def test_the_721st_block_doubles_the_length() -> None:
    assert Arrivals.of(MONTH).block_ms == HOUR_MS
    found = merge([Arrivals.of(MONTH), Arrivals.of({"control": {BLOCKS_MAX: 7}})])
    assert (found.block_ms, found.counts["control"][0], found.counts["control"][BLOCKS_MAX // 2]) == (2 * HOUR_MS, 2, 7)


def test_blocks_of_a_length_that_does_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="block_ms: got 5400000; must be a multiple of 3600000"):
        Arrivals.of({"control": {0: 1}}).in_blocks(5_400_000)
