"""The examination curve: a known curve is found again, the equations hold, and what cannot be estimated has a reason."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.metrics.arrays import Floats
from streammetrics.metrics.examination import (
    CLICKS_MIN,
    FEW_CLICKS,
    NO_SHARED_ITEMS,
    NO_SHOWS,
    RANKS_MAX,
    ExaminationCurve,
    examination_curve,
)
from streammetrics.metrics.names import MetricError
from tests.metrics.clax_golden import FILE
from tests.support.click_simulation import simulate

RANKS = np.arange(1, 11)
CURVES = {"square root": 1 / np.sqrt(RANKS), "logarithm": 1 / np.log2(RANKS + 1), "flat": np.ones(10)}


def curve_of(counts: dict[tuple[int, int], tuple[int, int]], ranks_max: int = 10) -> ExaminationCurve:
    """The curve of shows and clicks by item and rank."""
    items, ranks = zip(*counts, strict=True)
    shows, clicks = zip(*counts.values(), strict=True)
    return examination_curve(items, ranks, shows, clicks, ranks_max=ranks_max)


@pytest.mark.parametrize("name", CURVES)
def test_a_known_curve_is_within_five_percent_after_100_000_lists(name: str) -> None:
    known = CURVES[name]
    curve = examination_curve(*simulate(7, known).entries())
    assert curve.known_to == 10
    assert np.abs(np.array(curve.values) / known - 1).max() < 0.05


def test_the_band_holds_the_known_curve_as_often_as_it_says() -> None:
    known = CURVES["square root"][:5]
    hits = 0
    for seed in range(60):
        curve = examination_curve(*simulate(seed, known, lists=3_000, queries=30).entries(), ranks_max=5)
        hits += sum(each.lower <= value <= each.upper for each, value in zip(curve.ranks[1:], known[1:], strict=True))  # type: ignore[operator]
    assert 0.91 <= hits / 240 <= 0.99


def test_few_shows_of_each_item_do_not_bias_the_curve() -> None:
    draw = np.random.default_rng(3)
    attraction = draw.beta(1, 3, 100_000)
    ranks = np.tile([1, 2], 100_000)
    clicks = draw.random(200_000) < np.repeat(attraction, 2) * np.where(ranks == 1, 1.0, 0.4)
    curve = examination_curve(np.repeat(np.arange(100_000), 2), ranks, np.ones(200_000, dtype=int), clicks.astype(int), ranks_max=2)
    (second,) = curve.ranks[1:]
    assert second.lower is not None
    assert second.upper is not None
    assert second.lower < 0.4 < second.upper
    assert second.upper / second.lower < 1.1


def test_a_ranker_that_is_right_does_not_bias_the_curve() -> None:
    """Better items are shown higher and more often. A ratio of click rates would say 0.125; the items that were shown twice say 0.5."""
    curve = curve_of({(1, 1): (9_000, 7_200), (1, 2): (1_000, 400), (2, 1): (100, 20), (2, 2): (8_000, 800)}, ranks_max=2)
    assert curve.values == (1.0, pytest.approx(0.5))


def test_users_who_stop_at_a_click_break_the_model() -> None:
    """The cascade model has no curve by rank. What is estimated is near how often users come that far, and not exactly that."""
    simulated = simulate(5, np.ones(5), cascade=True)
    reached = (np.cumsum(simulated.clicks, axis=1) - simulated.clicks == 0).mean(axis=0)
    curve = examination_curve(*simulated.entries(), ranks_max=5)
    assert curve.known_to == 5
    assert 0.02 < np.abs(np.array(curve.values) / reached - 1).max() < 0.5


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4), st.integers(0, 400), st.floats(0, 1)), min_size=1, max_size=24),
    st.randoms(use_true_random=False),
)
def test_order_and_splits_of_counts_do_not_matter(rows: list[tuple[int, int, int, float]], shuffle: object) -> None:
    split = [(item, rank, shows // 2 if half else shows - shows // 2, share) for item, rank, shows, share in rows for half in (0, 1)]
    counts: dict[tuple[int, int], list[int]] = {}
    for item, rank, shows, share in split:
        entry = counts.setdefault((item, rank), [0, 0])
        entry[0] += shows
        entry[1] += int(shows * share)
    entries = [(item, rank, shows, int(shows * share)) for item, rank, shows, share in split]
    shuffle.shuffle(entries)  # type: ignore[attr-defined]
    apart, together = (
        examination_curve(*np.array(given, dtype=np.int64).reshape(-1, 4).T, ranks_max=4)
        for given in (entries, [(*key, *each) for key, each in counts.items()])
    )
    assert [each.why_not for each in apart.ranks] == [each.why_not for each in together.ranks]
    assert np.allclose(np.array(apart.values, dtype=float), np.array(together.values, dtype=float), equal_nan=True)
    for each in apart.ranks:
        assert (each.examination is None) == (each.why_not is not None)
        if each.examination is not None:
            assert each.lower is not None
            assert each.upper is not None
            assert 0 < each.lower <= each.examination <= each.upper < np.inf


def equations(counts: dict[tuple[int, int], tuple[int, int]], p: Floats) -> list[float]:
    """The left sides of the equations of the module's page, by plain sums."""
    found = []
    for k in range(2, len(p) + 1):
        total = 0.0
        for x in {item for item, _ in counts}:
            own = {rank: each for (item, rank), each in counts.items() if item == x}
            clicks = sum(clicked for _, clicked in own.values())
            weight = sum(shown * p[rank - 1] for rank, (shown, _) in own.items())
            shown, clicked = own.get(k, (0, 0))
            total += clicked - clicks * shown * p[k - 1] / weight
        found.append(total)
    return found


def test_the_estimate_solves_the_equations() -> None:
    counts = {
        (1, 1): (900, 300),
        (1, 2): (700, 150),
        (2, 2): (500, 90),
        (2, 3): (800, 70),
        (3, 1): (60, 40),
        (3, 3): (900, 200),
        (4, 4): (9, 9),
    }
    curve = curve_of(counts, ranks_max=3)
    del counts[4, 4]
    assert equations(counts, np.array(curve.values, dtype=float)) == pytest.approx([0, 0], abs=1e-6)


def test_two_ranks_are_about_the_ratio_of_mantel_and_haenszel() -> None:
    counts = {(1, 1): (900, 300), (1, 2): (700, 230), (2, 1): (400, 100), (2, 2): (500, 122), (3, 1): (60, 40), (3, 2): (20, 13)}
    sums = [0.0, 0.0]
    for item in (1, 2, 3):
        (n1, c1), (n2, c2) = counts[item, 1], counts[item, 2]
        sums[0] += c2 * n1 / (n1 + n2)
        sums[1] += c1 * n2 / (n1 + n2)
    assert curve_of(counts, ranks_max=2).values[1] == pytest.approx(sums[0] / sums[1], rel=1e-3)


def test_the_curve_is_that_of_clax() -> None:
    golden = json.loads(FILE.read_text(encoding="utf-8"))
    curve = examination_curve(*np.array(golden["counts"]).T, ranks_max=5)
    assert curve.values == pytest.approx(golden["examination"], rel=0.01)
    assert all(each.lower <= value <= each.upper for each, value in zip(curve.ranks, golden["examination"], strict=True))  # type: ignore[operator]


def test_items_at_one_rank_only_leave_ranks_without_an_estimate() -> None:
    curve = curve_of({(1, 1): (500, 200), (2, 2): (500, 100)}, ranks_max=3)
    assert [each.why_not for each in curve.ranks] == [NO_SHARED_ITEMS, NO_SHARED_ITEMS, NO_SHOWS]
    assert (curve.values, curve.known_to, curve.items, curve.shared_items) == ((None, None, None), 0, 2, 0)
    assert [(each.shows, each.clicks, each.shared_shows) for each in curve.ranks] == [(500, 200, 0), (500, 100, 0), (0, 0, 0)]
    assert NO_SHARED_ITEMS in repr(curve)


def test_ranks_that_no_chain_of_items_links_to_the_first_have_no_estimate() -> None:
    curve = curve_of({(1, 1): (500, 200), (1, 2): (500, 100), (2, 3): (500, 50), (2, 4): (500, 40)}, ranks_max=4)
    assert [each.why_not for each in curve.ranks] == [None, None, NO_SHARED_ITEMS, NO_SHARED_ITEMS]
    assert curve.known_to == 2


def test_a_chain_links_ranks_that_share_no_item() -> None:
    curve = curve_of({(1, 1): (500, 200), (1, 2): (500, 100), (2, 2): (500, 80), (2, 3): (500, 60)}, ranks_max=3)
    assert curve.values == (1.0, pytest.approx(0.5), pytest.approx(0.375))


@pytest.mark.parametrize("clicks", [CLICKS_MIN - 1, CLICKS_MIN])
def test_a_rank_needs_some_clicks(clicks: int) -> None:
    curve = curve_of({(1, 1): (500, 200), (1, 2): (500, clicks)}, ranks_max=2)
    assert curve.ranks[1].why_not == (None if clicks == CLICKS_MIN else FEW_CLICKS)
    assert (curve.values[0] is None) == (clicks < CLICKS_MIN)  # one rank alone shows nothing


def test_a_rank_in_between_without_enough_clicks_does_not_cut_off_the_next() -> None:
    counts = {(1, 1): (500, 200), (1, 2): (500, 10), (1, 3): (500, 100)}
    curve = curve_of(counts, ranks_max=3)
    assert curve.values == (1.0, None, pytest.approx(0.5))
    assert curve.known_to == 1


def test_clicks_on_one_side_only_have_no_finite_ratio() -> None:
    """Item 1 has clicks at rank 1 only, item 2 at rank 2 only with rank 3: no item says how ranks 1 and 2 compare from both sides."""
    curve = curve_of({(1, 1): (500, 200), (1, 2): (500, 0), (2, 2): (500, 100), (2, 3): (500, 50)}, ranks_max=3)
    assert curve.values == (None, None, None)


def test_no_counts_at_all() -> None:
    curve = examination_curve([], [], [], [], ranks_max=2)
    assert [each.why_not for each in curve.ranks] == [NO_SHOWS, NO_SHOWS]


@pytest.mark.parametrize(
    ("given_counts", "message"),
    [
        (([1], [0], [1], [0]), "ranks: got 0 at entry 0; allowed are ranks from 1"),
        (([1], [1], [-1], [0]), "shows: got -1 at entry 0; allowed are counts from 0"),
        (([1, 1], [1, 2], [1, 1], [1, 2]), "clicks: got 2 at entry 1; allowed are counts from 0 to the shows of the entry"),
        (([1], [1, 2], [1, 1], [1, 1]), "counts: got 1, 2, 2, 2 items, ranks, shows and clicks; allowed are as many of each"),
    ],
)
def test_wrong_counts_have_a_message(given_counts: tuple[list[int], ...], message: str) -> None:
    with pytest.raises(MetricError, match=re.escape(message)):
        examination_curve(*given_counts)


@pytest.mark.parametrize("ranks_max", [0, RANKS_MAX + 1, 2.5])
def test_a_curve_has_one_to_fifty_ranks(ranks_max: int) -> None:
    with pytest.raises(MetricError, match=r"ranks_max: got .*; allowed are whole numbers 1..50"):
        examination_curve([1], [1], [1], [1], ranks_max=ranks_max)


def test_confidence_is_a_share() -> None:
    with pytest.raises(MetricError, match="confidence: got 95; allowed are numbers above 0 and below 1"):
        examination_curve([1], [1], [1], [1], confidence=95)
