"""Tests of the estimate over cells: the example of the page, brute force, and what the rules are for."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.experiments.cell_estimates import Pair, PairEstimate
from streammetrics.experiments.cells import HourSpan
from streammetrics.experiments.hours import Entry, EntrySums, Hours
from streammetrics.experiments.stored import StoredSums
from tests.experiments.raw_lists import MEASURES, RATE, stored_of
from tests.oracle.cells import PairResult, RawList, compare, hour_rows


def assert_equal(pair_estimate: PairEstimate | None, wanted: PairResult | None) -> None:
    assert (pair_estimate is None) == (wanted is None)
    if pair_estimate is None or wanted is None:
        return
    for arm_estimate, other, effective in zip(
        (pair_estimate.treatment, pair_estimate.control), wanted[:2], pair_estimate.effective_users, strict=True
    ):
        assert arm_estimate.users == other.users
        assert math.isclose(arm_estimate.mean, other.mean, rel_tol=1e-9, abs_tol=1e-12)
        assert math.isclose(arm_estimate.variance, other.variance, rel_tol=1e-9, abs_tol=1e-12)
        assert math.isclose(effective, other.effective_users, rel_tol=1e-9)
    bound = math.sqrt(pair_estimate.treatment.variance * pair_estimate.control.variance)
    assert math.isclose(pair_estimate.covariance, max(-bound, min(bound, float(wanted.covariance))), rel_tol=1e-9, abs_tol=1e-12)


def example() -> StoredSums:
    """Three hours and two days of entry, as in the page on how arms are compared."""
    hours, day, moments = Hours(), 24, EntrySums(24)
    for hour, entry, treatment, control in (
        (25, 0, (10, 4), (190, 95)),
        (26, 0, (8, 2), (152, 61)),
        (26, 1, (60, 15), (60, 16)),
        (27, 0, (0, 0), (140, 42)),
    ):
        for variant, (lists, hits) in (("t", treatment), ("c", control)):
            if lists:
                hours.row(hour).add_totals(variant, Entry(day, entry), [lists, hits, lists])
    sums = {
        ("t", 0): (10, 18, 36, 6, 13, 8),
        ("t", 1): (40, 60, 110, 15, 30, 19),
        ("c", 0): (250, 482, 1150, 198, 520, 320),
        ("c", 1): (41, 60, 108, 16, 31, 20),
    }
    at = MEASURES.places(RATE)
    for (variant, entry), (users, d, dd, y, yd, yy) in sums.items():
        row = [0] * MEASURES.moments_width
        for place, value in zip((at.users, at.d, at.dd, at.y, at.yd, at.yy), (users, d, dd, y, yd, yy), strict=True):
            row[place] = value
        moments.add(variant, Entry(day, entry), row)
    return StoredSums(
        experiment="ranker",
        scope="start",
        moments=moments.by_variant(),
        first_list_users={},
        hours=hours,
        entry_moments=moments,
    )


def test_the_example_of_the_page() -> None:
    pair = Pair(MEASURES, example(), "t", "c")
    pair_estimate = pair.combined(RATE)
    assert pair_estimate is not None
    assert pair.lists.parts(2).weight == 47.1
    assert round(pair_estimate.treatment.mean, 9) == 0.280254777
    assert round(pair_estimate.control.mean, 9) == 0.335456476
    assert round(pair_estimate.treatment.mean - pair_estimate.control.mean, 9) == -0.055201699
    assert round(100 * (pair_estimate.treatment.mean / pair_estimate.control.mean - 1), 4) == -16.4557
    squares = [
        [round(sums.squares(sums.y, sums.d, 0) * sums.users / (sums.users - 1), 6) for sums in days.values()] for days in pair.days(RATE)
    ]
    assert squares == [[3.703704, 11.153846], [87.187994, 11.425333]]
    assert [[round(value, 6) for value in days.values()] for days in pair.squared_parts(RATE)] == [[16.245, 15.0], [0.855, 15.0]]
    assert round(pair_estimate.control.variance, 9) == 0.001357275
    assert round(pair_estimate.treatment.variance, 9) == 0.002763716


def test_a_small_arm_that_spreads_less_has_the_variance_of_both_together() -> None:
    """The example again: the users of the treatment have all the same mean. Per list, both arms have 90.9 / 500 and 11.4 / 120."""
    stored = example()
    at = MEASURES.places(RATE)
    for (variant, _), row in stored.entry_moments.sums.items():
        if variant == "t":
            row[at.yy], row[at.yd] = row[at.y] ** 2 * row[at.dd] / row[at.d] ** 2, row[at.y] * row[at.dd] / row[at.d]  # type: ignore[call-overload]
    pair_estimate = Pair(MEASURES, stored, "t", "c").combined(RATE)
    assert pair_estimate is not None
    wanted = (87.187994 / 500 * 16.245 + 11.425333 / 120 * 15) / 47.1**2
    assert math.isclose(pair_estimate.treatment.variance, wanted, rel_tol=1e-6)


@st.composite
def lists(draw: st.DrawFn) -> list[RawList]:
    """Lists of users who came at different times, in up to three arms and strata; the spans are from an hour to months."""
    span = draw(st.sampled_from((3, 12, 60, 400, 3_000)))
    users = draw(st.integers(2, 60))
    seed = draw(st.randoms(use_true_random=False))
    moving = draw(st.sampled_from((0.0, 0.3)))
    arms = ["a", "b", "c"][: draw(st.integers(2, 3))]
    strata = draw(st.sampled_from(([""], ["x=1", "x=2", "x="])))
    raw_lists = []
    for user in range(users):
        first, arm, stratum = 480_000 + seed.randrange(span), seed.choice(arms), seed.choice(strata)
        for _ in range(seed.choice((1, 1, 2, 5, 12))):
            d = seed.choice((1, 1, 1, 3, 0))
            variant = seed.choice(arms) if seed.random() < moving else arm
            raw_lists.append(RawList(f"u{user}", first + seed.choice((0, 0, 1, 7, 8, 50, 200)), variant, seed.randint(0, d), d, stratum))
    return raw_lists


@given(lists())
def test_equals_brute_force(raw: list[RawList]) -> None:
    stored = stored_of(raw)
    rows = {
        (block, variant, tuple(entry)): tuple(totals)
        for block, row in stored.hours.rows.items()
        for (variant, entry), totals in row.totals.items()
    }
    assert rows == hour_rows(raw)
    for by_entry in (True, False):
        assert_equal(Pair(MEASURES, stored, "a", "b", by_entry=by_entry).combined(RATE), compare(raw, "a", "b", by_entry=by_entry))


@given(lists())
def test_hours_that_are_left_out_equal_brute_force(raw: list[RawList]) -> None:
    hours = sorted(raw_list.hour for raw_list in raw)
    span = HourSpan(hours[len(hours) // 3], hours[len(hours) // 2] + 1)
    pair_estimate = Pair(MEASURES, stored_of(raw), "a", "b", left_out=[span]).combined(RATE)
    assert_equal(pair_estimate, compare(raw, "a", "b", silent=[span]))
