"""The test of shares over time: against brute force, as a martingale, without changes, and with changes of every kind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import betaln

from streammetrics.experiments.arrivals import BLOCKS_MAX, HOUR_MS, Arrivals
from streammetrics.experiments.share_changes import (
    ALPHA,
    BLOCKS_TESTED,
    ShareChange,
    ShareSegment,
    dispersion,
    log_evidence,
    segment_starts,
    share_change,
)

Counts = Sequence[int]
counts = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)).filter(any), min_size=1, max_size=6)


def of_blocks(blocks: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    control, treatment = np.array(blocks, dtype=np.int64).T
    return control, treatment


def weights_of_all_segmentations(blocks: Sequence[tuple[int, int]]) -> dict[tuple[int, ...], float]:
    """ln of (prior * KT of each segment), by the starts of the segments."""
    found = {}
    for changes in range(len(blocks)):
        for later in combinations(range(1, len(blocks)), changes):
            starts, total = (0, *later), 0.0
            for place in range(1, len(blocks)):
                chance = 1 / (2 * (place + 1))
                total += math.log(chance if place in later else 1 - chance)
            for start, end in zip(starts, [*later, len(blocks)], strict=True):
                k, m = (sum(each[arm] for each in blocks[start:end]) for arm in (0, 1))
                total += betaln(k + 0.5, m + 0.5) - math.log(math.pi)
            found[starts] = float(total)
    return found


def log_constant(blocks: Sequence[tuple[int, int]]) -> float:
    """ln P: the probability of the arrivals with the most probable constant share."""
    whole = [sum(each[arm] for each in blocks) for arm in (0, 1)]
    return sum(count * math.log(count / sum(whole)) for count in whole if count)


def log_mixture(blocks: Sequence[tuple[int, int]]) -> float:
    """ln Q."""
    return log_evidence(*of_blocks(blocks)) + log_constant(blocks)


@given(counts)
@example([(1, 0)])
@example([(95, 5), (90, 10), (50, 50), (45, 55)])
@example([(1_000_000, 1_000), (1_000, 1_000_000)])
def test_evidence_and_segments_equal_brute_force_over_all_segmentations(blocks: list[tuple[int, int]]) -> None:
    every = weights_of_all_segmentations(blocks)
    highest = max(every.values())
    whole = highest + math.log(math.fsum(math.exp(each - highest) for each in every.values()))
    assert log_evidence(*of_blocks(blocks)) == pytest.approx(whole - log_constant(blocks), abs=1e-7)
    assert every[tuple(segment_starts(*of_blocks(blocks)))] == pytest.approx(highest, abs=1e-7)


@given(counts, st.booleans())
@example([(20, 1)], True)
@example([(3, 2), (0, 9)], False)
def test_the_mixture_is_a_probability_so_its_next_arrival_is_of_one_arm_or_the_other(blocks: list[tuple[int, int]], is_later: bool) -> None:
    """Q of the arrivals so far is the sum of Q over both arms of the next one: so Q / (p**t (1 - p)**c) is a martingale for any p."""
    known = blocks if is_later else blocks[:-1]
    last = (0, 0) if is_later else blocks[-1]
    following = [log_mixture([*known, (last[0] + 1, last[1])]), log_mixture([*known, (last[0], last[1] + 1)])]
    assert math.fsum(map(math.exp, following)) == pytest.approx(math.exp(log_mixture(blocks)), rel=1e-7)


@given(counts, st.floats(0.01, 0.99))
@example([(95, 5), (50, 50)], 0.3)
def test_the_evidence_is_never_above_the_martingale_of_any_constant_share(blocks: list[tuple[int, int]], share: float) -> None:
    control, treatment = (sum(each[arm] for each in blocks) for arm in (0, 1))
    log_share = treatment * math.log(share) + control * math.log(1 - share)
    assert log_evidence(*of_blocks(blocks)) <= log_mixture(blocks) - log_share + 1e-9


def arrivals_of(control: Counts, treatment: Counts) -> Arrivals:
    by_hour = {name: {hour: int(count) for hour, count in enumerate(each) if count} for name, each in (("a", control), ("b", treatment))}
    return Arrivals.of({name: hours for name, hours in by_hour.items() if hours})


def shares_of(change: ShareChange | None) -> list[tuple[int, float]]:
    """The first hour and the share of each segment; empty without a change."""
    return [] if change is None else [(each.start_ms // HOUR_MS, round(each.share, 2)) for each in change.segments]


@pytest.mark.parametrize(
    ("share", "users", "blocks", "is_by_day"),
    [(0.5, 4_000, 24, False), (0.5, 4_000, 200, False), (0.05, 6_000, 200, False), (0.01, 20_000, 200, False), (0.5, 6_000, 240, True)],
)
def test_a_constant_share_is_never_called_a_change_at_any_look(share: float, users: int, blocks: int, is_by_day: bool) -> None:
    hours = np.arange(blocks)
    rate = 0.05 + np.maximum(0, np.sin(2 * np.pi * hours / 24)) if is_by_day else np.ones(blocks)
    for seed in range(8):
        random = np.random.default_rng([seed, blocks])
        all_users = random.multinomial(users, rate / rate.sum())
        treated = random.binomial(all_users, share)
        for end in range(2, blocks + 1, max(1, blocks // 12)):
            assert share_change(arrivals_of((all_users - treated)[:end], treated[:end]), "a", "b") is None


def test_households_that_are_assigned_and_arrive_together_are_no_change() -> None:
    """With independent users in mind, the evidence is far above the level in some of these. The dispersion explains it."""
    alarms, above = 0, 0
    for seed in range(25):
        random = np.random.default_rng(seed)
        sizes = random.integers(3, 5, 1_700)
        hours, treated = random.integers(0, 200, len(sizes)), random.random(len(sizes)) < 0.5
        control, treatment = (np.bincount(hours, sizes * arm, 200).astype(np.int64) for arm in (~treated, treated))
        above += log_evidence(control, treatment) >= -math.log(ALPHA)
        alarms += share_change(arrivals_of(control, treatment), "a", "b") is not None
    assert above >= 10
    assert alarms <= 1


def steps(*parts: tuple[int, int, int]) -> tuple[list[int], list[int]]:
    """Arrivals by hour: for each part, a number of hours with so many users of the control and of the treatment in each."""
    return tuple([count for part in parts for count in [part[arm]] * part[0]] for arm in (1, 2))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param([(24, 95, 5), (24, 50, 50)], [(0, 0.05), (24, 0.5)], id="ramp"),
        pytest.param([(24, 99, 1), (24, 75, 25), (24, 50, 50)], [(0, 0.01), (24, 0.25), (48, 0.5)], id="ramp of three stages"),
        pytest.param([(40, 20, 20), (10, 20, 0)], [(0, 0.5), (40, 0.0)], id="the treatment ends"),
        pytest.param([(40, 20, 20), (10, 0, 20)], [(0, 0.5), (40, 1.0)], id="the control ends"),
        pytest.param([(10, 20, 0), (40, 20, 20)], [(0, 0.0), (10, 0.5)], id="the treatment joins late"),
        pytest.param([(40, 20, 20), (20, 20, 0), (40, 20, 20)], [(0, 0.5), (40, 0.0), (60, 0.5)], id="outage"),
        pytest.param([(24, 42, 42), (144, 75, 8)], [(0, 0.5), (24, 0.1)], id="half, then 90 : 10"),
        pytest.param([(10, 0, 20), (10, 20, 0)], [(0, 1.0), (10, 0.0)], id="renamed"),
    ],
)
def test_a_change_is_found_with_its_hour_and_shares(parts: list[tuple[int, int, int]], expected: list[tuple[int, float]]) -> None:
    assert shares_of(share_change(arrivals_of(*steps(*parts)), "a", "b")) == expected


def test_few_new_users_after_a_large_change_suffice() -> None:
    before = (40, 25, 25)
    assert share_change(arrivals_of(*steps(before, (1, 9, 0))), "a", "b") is None
    assert shares_of(share_change(arrivals_of(*steps(before, (1, 40, 0))), "a", "b")) == [(0, 0.5), (40, 0.0)]


def test_a_pair_without_both_arms_has_no_share() -> None:
    assert share_change(Arrivals(), "a", "b") is None
    assert share_change(Arrivals.of({"a": {1: 900}}), "a", "b") is None
    assert share_change(Arrivals.of({"b": {1: 900}}), "a", "b") is None


def test_a_third_arm_that_joins_or_leaves_does_not_matter() -> None:
    steady = {"a": dict.fromkeys(range(30), 20), "b": dict.fromkeys(range(30), 20)}
    assert share_change(Arrivals.of({**steady, "c": dict.fromkeys(range(15), 90)}), "a", "b") is None


def smallest_step(tests: int, first_hour: int = 0, hours: int = 1) -> int:
    """The least users of the control in a last block without the treatment that make a change, of `tests` tests."""
    for users in range(1, 200):
        control, treatment = ({first_hour + hours * block: 20 for block in range(30)} for _ in range(2))
        control[first_hour + hours * 30] = users
        found = Arrivals.of({"a": control, "b": treatment}).in_blocks(hours * HOUR_MS)
        if share_change(found, "a", "b", tests) is not None:
            return users
    raise AssertionError("no change found")


def test_several_tests_and_longer_blocks_share_the_error() -> None:
    """Each factor of 2 in the level takes one user more: a segment without the treatment is about twice as likely as before."""
    alone = smallest_step(1)
    assert smallest_step(16) in (alone + 3, alone + 4, alone + 5)
    assert smallest_step(1, hours=16) == smallest_step(16)


def test_a_long_experiment_is_tested_in_longer_blocks_and_its_times_are_still_told_by_the_hour() -> None:
    change = 501
    found = share_change(arrivals_of(*steps((change, 5, 5), (BLOCKS_MAX - change, 9, 1))), "a", "b")
    assert BLOCKS_TESTED < BLOCKS_MAX
    assert shares_of(found) == [(0, 0.5), (change, 0.1)]


def test_the_end_of_a_segment_is_the_start_of_the_next_one_and_pauses_belong_to_the_earlier_one() -> None:
    hours = {"a": {0: 100, 1: 100, 9: 100, 10: 100}, "b": {0: 100, 1: 100, 9: 10, 10: 10}}
    found = share_change(Arrivals.of(hours), "a", "b")
    assert found is not None
    assert found.segments == (ShareSegment(0, 9 * HOUR_MS, 200, 200), ShareSegment(9 * HOUR_MS, 11 * HOUR_MS, 200, 20))


def test_the_unlike_share_is_what_an_arm_has_too_much_of_at_some_time() -> None:
    assert ShareChange((ShareSegment(0, 1, 90, 100), ShareSegment(1, 2, 10, 0)), 9.0).unlike_share == pytest.approx(0.1)
    assert ShareChange((ShareSegment(0, 1, 0, 100), ShareSegment(1, 2, 50, 0)), 9.0).unlike_share == 1.0


@pytest.mark.parametrize(("size", "expected"), [(1, 1.0), (4, 4.0)])
def test_the_dispersion_is_the_size_of_groups_that_arrive_together(size: int, expected: float) -> None:
    found = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        control, treatment = (size * random.poisson(40, 300) for _ in range(2))
        found.append(dispersion(control, treatment) / (1 + 2 / math.sqrt(299)))
    assert np.mean(found) == pytest.approx(expected, rel=0.2)


def test_the_dispersion_of_few_groups_is_assumed() -> None:
    assert dispersion(np.full(8, 10), np.full(8, 10)) == 3.0
    assert dispersion(np.full(9, 10), np.full(9, 10)) == 1.0
    rare = np.full(9, 1)
    assert dispersion(np.full(9, 999), rare) == 3.0, "blocks are put together until they have five users of the smaller arm"
