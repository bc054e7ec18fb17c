"""Credits of lists, and the interval on their mean."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streammetrics.errors import ExperimentError
from streammetrics.statistics.estimates import Estimate, difference
from streammetrics.statistics.interleaving import (
    LEVELS_MAX,
    credit_levels,
    credit_moments,
    credit_thresholds,
    credit_width,
    drafted_first,
    list_credit,
    preference,
    reversed_credit,
)
from streammetrics.statistics.moments import add
from streammetrics.statistics.sequence import Mixture


def test_the_team_with_more_relevant_items_wins_the_list() -> None:
    teams = ["a", "b", "b", "a", None, "c"]
    assert list_credit(teams, [1, 0, 0, 0, 3, 3], "a", "b") == -1
    assert list_credit(teams, [1, 2, 1, 0, 0, 0], "a", "b") == 1
    assert list_credit(teams, [3, 1, 0, 0, 0, 0], "a", "b") == 0
    assert list_credit(teams, [0, 0, 0, 0, 0, 1], "a", "c") == 1
    assert list_credit(teams, [0.5, 0, 0, 0, 0, 0], "a", "b", threshold=0.5) == -1


def test_a_list_without_both_teams_compares_nothing() -> None:
    assert list_credit(["a", "a"], [1, 1], "a", "b") is None
    assert list_credit([], [], "a", "b") is None


@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 3)), max_size=10))
@example([("a", 3), ("b", 1), ("a", 0)])
@example([("a", 0), (None, 2)])
def test_the_outcome_for_one_team_is_the_opposite_of_the_other_s(items: list[tuple[str | None, int]]) -> None:
    teams, grades = [team for team, _ in items], [float(grade) for _, grade in items]
    one, other = list_credit(teams, grades, "a", "b"), list_credit(teams, grades, "b", "a")
    assert (one is None) == (other is None)
    assert one is None or one == -other  # type: ignore[operator]


def counted(lists: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(-lists, lists), min_size=2, max_size=2).map(lambda credits: [lists, *credits])


kinds = st.integers(0, 5).flatmap(counted)
one_user = st.tuples(kinds, kinds).map(lambda both: [both[kind][at] for at in range(3) for kind in (0, 1)])
"""A user's lists of both kinds, and the credits of two levels."""
users = st.lists(one_user, min_size=2, max_size=12)


def summed(all_users: list[list[int]]) -> list[int]:
    moments = [0] * credit_width(2)
    for sums in all_users:
        moments = add(moments, credit_moments(sums))
    return moments


@given(users, st.floats(0.01, 0.5), st.sampled_from([0, 1]))
@example([[1, 2, 1, -1, 1, -2], [3, 1, -2, 0, -3, 1], [0, 1, 0, 1, 0, 1]], 0.05, 0)
@example([[2, 0, 1, 0, 1, 0], [1, 0, -1, 0, 1, 0]], 0.05, 1)
def test_the_mean_is_post_stratified_with_a_clustered_variance(all_users: list[list[int]], alpha: float, level: int) -> None:
    estimate = preference(summed(all_users), alpha, min_users=2, effective_users_min=0, level=level)
    counted = [user for user in all_users if user[0] + user[1]]
    d = [sum(user[kind] for user in counted) for kind in (0, 1)]
    if not any(d):
        assert estimate is None
        return
    assert estimate is not None
    y = [[user[2 + 2 * level + kind] for user in counted] for kind in (0, 1)]
    assert estimate.plain == pytest.approx((sum(y[0]) + sum(y[1])) / sum(d))
    assert estimate.first_share == d[1] / sum(d)
    if not all(d):
        assert (estimate.lower, estimate.mean, estimate.effective_orders) == (None, estimate.plain, 0.0)
        return
    means = [sum(y[kind]) / d[kind] for kind in (0, 1)]
    assert estimate.mean == pytest.approx(sum(means) / 2, abs=1e-15)
    rest = [sum((y[kind][at] - means[kind] * user[kind]) / d[kind] for kind in (0, 1)) / 2 for at, user in enumerate(counted)]
    count = len(counted)
    if count < 2:
        assert estimate.variance == math.inf
        return
    assert estimate.variance == pytest.approx(
        count / (count - 1) * math.fsum(residual * residual for residual in rest), rel=1e-9, abs=1e-18
    )
    apart = difference(Estimate(estimate.mean, estimate.variance, estimate.users), Estimate(0.0, 0.0, estimate.users), Mixture(0.05), alpha)
    assert (None if apart is None else apart[1:]) == (None if estimate.lower is None else (estimate.lower, estimate.upper))
    assert not (estimate.preferred and estimate.disliked)


@given(users)
@example([[1, 2, 1, -1, 1, -2], [3, 1, -2, 0, -3, 1]])
def test_the_other_team_has_the_opposite_mean_and_the_same_variance(all_users: list[list[int]]) -> None:
    moments = summed(all_users)
    turned = reversed_credit(moments)
    assert reversed_credit(turned) == moments
    one, other = (preference(credits, 0.05, min_users=2, effective_users_min=0, level=1) for credits in (moments, turned))
    if one is not None and other is not None:
        assert (one.mean, one.variance, one.first_share) == (-other.mean, other.variance, pytest.approx(1 - other.first_share))


def test_removing_a_user_leaves_the_others() -> None:
    one, other = [2, 1, -1, 1, 0, 0], [0, 3, 0, -2, 0, 1]
    assert add(summed([one, other]), [-moment for moment in credit_moments(other)]) == summed([one])
    assert credit_moments([0, 0, 0, 0, 0, 0]) == [0] * credit_width(2)


@pytest.mark.parametrize("sums", [[1, 0, 2, 0], [1, 0, 0, 1], [-1, 0, 0, 0]])
def test_credit_beyond_the_lists_is_refused(sums: list[int]) -> None:
    with pytest.raises(ExperimentError, match="credit"):
        credit_moments(sums)


def test_moments_of_another_width_are_refused() -> None:
    for width in (0, 6, 14, 16):
        with pytest.raises(ExperimentError, match="moments"):
            credit_levels([0] * width)


def test_levels_are_the_deciding_grade_and_those_of_other_actions() -> None:
    assert credit_thresholds((0, 1, 2, 3), 1) == (1, 2, 3)
    assert credit_thresholds((0, 1, 3), 2) == (2, 1)
    assert credit_thresholds((0,), 1) == (1,)
    assert credit_thresholds((0, 1, 2), 0.5) == (0.5, 2)
    many = credit_thresholds(tuple(range(20)), 1)
    assert (len(many), many[0], many[-1]) == (LEVELS_MAX, 1, 19)


def test_the_team_with_the_first_item_drafted_first() -> None:
    assert [drafted_first([None, "c", "b", "a"], "a", "b"), drafted_first(["a", "b"], "a", "b")] == [1, 0]


def test_there_is_no_interval_with_too_few_users() -> None:
    moments = [0] * credit_width(1)
    for user in range(99):
        moments = add(moments, credit_moments([1, 1, *((1, 1) if user % 7 else (0, 0))]))
    estimate = preference(moments, 0.05)
    assert estimate is not None
    assert (estimate.users, estimate.lower, estimate.upper, estimate.preferred) == (99, None, None, False)
    estimate = preference(add(moments, credit_moments([1, 1, 1, 0])), 0.05)
    assert estimate is not None
    assert estimate.preferred
    assert preference([0] * credit_width(1), 0.05) is None


def test_there_is_no_interval_while_a_few_users_dominate() -> None:
    moments = [0] * credit_width(1)
    for user in range(400):
        moments = add(moments, credit_moments([1, 1, *((1, 1) if user % 4 else (-1, -1))]))
    estimate = preference(add(moments, credit_moments([200, 200, 200, 200])), 0.05)
    assert estimate is not None
    assert (estimate.lower, estimate.preferred) == (None, False)
    assert estimate.effective_users == pytest.approx(1_200**2 / (400 * 4 + 400**2))


@pytest.mark.parametrize("rare", [0, 1])
def test_no_team_is_preferred_while_one_rarely_drafts_first(rare: int) -> None:
    """Each kind of lists needs 20 effective users. All lists together have them long before."""
    usual, seldom = ([1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1]) if rare else ([0, 1, 0, 1, 0, 1], [1, 0, 1, 0, 1, 0])
    estimates = [preference(summed([usual] * 300 + [seldom] * users), 0.05) for users in (19, 20)]
    assert [(estimate.effective_orders, estimate.preferred) for estimate in estimates if estimate is not None] == [
        (19.0, False),
        (20.0, True),
    ]


def simulated(seed: int, first_chance: float, appeal: float = 1.0, users: int = 300) -> list[int]:
    """Moments of users of a draft of two items. The first place gets twice the clicks; the second team's are better by `appeal`."""
    random = np.random.default_rng(seed)
    moments = [0] * credit_width(1)
    for lists in random.geometric(0.3, users).tolist():
        sums = [0, 0, 0, 0]
        for kind in (random.random(lists) < first_chance).astype(int).tolist():
            places = (0.4, 0.2) if kind == 0 else (0.2, 0.4)
            won = int(random.random() < places[1] * appeal) - int(random.random() < places[0])
            sums[kind] += 1
            sums[2 + kind] += won
        moments = add(moments, credit_moments(sums))
    return moments


@pytest.mark.parametrize("first_chance", [0.5, 0.8, 0.95])
def test_a_team_that_drafts_first_more_often_has_no_advantage(first_chance: float) -> None:
    estimates = [preference(simulated(seed, first_chance), 0.05) for seed in range(200)]
    assert all(estimate is not None and estimate.lower is not None for estimate in estimates)
    certain_estimates = [estimate for estimate in estimates if estimate is not None]
    assert np.mean([estimate.mean for estimate in certain_estimates]) == pytest.approx(0.0, abs=0.01)
    assert np.mean([estimate.plain for estimate in certain_estimates]) == pytest.approx(0.2 * (2 * first_chance - 1), abs=0.01)
    assert np.mean([estimate.mean**2 for estimate in certain_estimates]) == pytest.approx(
        float(np.mean([estimate.variance for estimate in certain_estimates])), rel=0.3
    )
    assert np.mean([estimate.preferred or estimate.disliked for estimate in certain_estimates]) <= 0.05


@pytest.mark.parametrize("first_chance", [0.5, 0.9])
def test_without_a_preference_it_is_rarely_ever_wrong_at_many_looks(first_chance: float) -> None:
    ever_outside = 0
    for seed in range(150):
        moments, outside = [0] * credit_width(1), False
        for look in range(30):
            moments = add(moments, simulated(1_000 * look + seed, first_chance, users=50))
            estimate = preference(moments, 0.05)
            outside = outside or (estimate is not None and estimate.lower is not None and not estimate.lower <= 0 <= (estimate.upper or 0))
        ever_outside += outside
    assert ever_outside / 150 <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 150)


def test_the_correction_makes_a_fair_draft_more_precise() -> None:
    estimates = [preference(simulated(seed, 0.5), 0.05) for seed in range(200)]
    corrected, plain = ([getattr(estimate, name) for estimate in estimates] for name in ("mean", "plain"))
    assert np.var(corrected) < np.var(plain)


def test_a_preference_is_found_in_spite_of_the_draft() -> None:
    """The second team is better and rarely drafts first. By the plain credit it seems worse."""
    estimates = [preference(simulated(seed, 0.1, appeal=1.6, users=1_500), 0.05) for seed in range(20)]
    assert all(estimate is not None and estimate.plain < 0 < estimate.mean for estimate in estimates)
    assert np.mean([estimate is not None and estimate.preferred for estimate in estimates]) > 0.8


@pytest.mark.parametrize(("credit", "preferred", "disliked"), [(1, True, False), (-1, False, True), (0, False, False)])
def test_all_against_none_is_found_in_both_directions(credit: int, preferred: bool, disliked: bool) -> None:
    moments = summed([[1, 1, credit, credit, credit, credit]] * 300)
    estimate = preference(moments, 0.05)
    assert estimate is not None
    assert (estimate.mean, estimate.variance, estimate.preferred, estimate.disliked) == (credit, 0.0, preferred, disliked)


def test_a_few_users_who_all_prefer_one_team_are_not_enough() -> None:
    estimates = [preference(summed([[1, 1, 1, 1, 1, 1]] * users), 0.05, min_users=2, effective_users_min=0) for users in (5, 7, 8)]
    assert [estimate is not None and estimate.preferred for estimate in estimates] == [False, True, True]
    several = preference(summed([[1, 1, 1, 1, 1, 1]] * 7), 0.05, min_users=2, effective_users_min=0, teams=3)
    assert several is not None
    assert not several.preferred


def test_several_teams_without_a_preference_share_the_error() -> None:
    """Three teams against the control, each with 200 to 1,000 users and eight looks; any verdict is wrong, in either direction."""
    wrong, ones = 0, np.ones((1_000, 2), dtype=np.int64)
    for seed in range(400):
        credits = np.random.default_rng(seed).choice([-1, 0, 1], (3, 1_000, 2), p=[0.3, 0.4, 0.3])
        has_estimate = False
        for team in credits:
            y, d = team, ones
            columns = [ones[:, 0], d[:, 0], d[:, 1], d[:, 0] ** 2, d[:, 0] * d[:, 1], d[:, 1] ** 2]
            columns += [
                y[:, 0],
                y[:, 1],
                y[:, 0] ** 2,
                y[:, 0] * y[:, 1],
                y[:, 1] ** 2,
                *(y[:, one] * d[:, other] for one in (0, 1) for other in (0, 1)),
            ]
            moments = np.cumsum(np.stack(columns, axis=1), axis=0)
            assert moments[0].tolist() == credit_moments([1, 1, *map(int, team[0])])
            for users in range(200, 1_001, 100):
                judged = preference(moments[users - 1].tolist(), 0.05, teams=3)
                has_estimate = has_estimate or (judged is not None and (judged.preferred or judged.disliked))
        wrong += has_estimate
    assert wrong / 400 <= 0.1  # 5 % in each direction
