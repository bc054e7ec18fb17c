"""Credits of lists, and the interval on their mean."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.experiments.estimates import Estimate, difference
from streammetrics.experiments.interleaving import CREDIT_WIDTH, credit_moments, list_credit, preference
from streammetrics.experiments.measures import ExperimentError
from streammetrics.experiments.moments import add
from streammetrics.experiments.sequence import Mixture

users = st.lists(st.integers(1, 9).flatmap(lambda lists: st.tuples(st.just(lists), st.integers(-lists, lists))), min_size=2, max_size=12)


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
def test_the_outcome_for_one_team_is_the_opposite_of_the_other_s(items: list[tuple[str | None, int]]) -> None:
    teams, grades = [team for team, _ in items], [float(grade) for _, grade in items]
    one, other = list_credit(teams, grades, "a", "b"), list_credit(teams, grades, "b", "a")
    assert (one is None) == (other is None)
    assert one is None or one == -other  # type: ignore[operator]


@given(users, st.floats(0.01, 0.5))
def test_the_interval_equals_that_of_a_difference_with_the_same_variance(all_users: list[tuple[int, int]], alpha: float) -> None:
    moments = [0] * CREDIT_WIDTH
    for lists, credit in all_users:
        moments = add(moments, credit_moments(lists, credit))
    found = preference(moments, alpha, min_users=2, effective_users_min=0)
    assert found is not None
    shown = sum(lists for lists, _ in all_users)
    mean = sum(credit for _, credit in all_users) / shown
    squares = math.fsum((credit - mean * lists) ** 2 for lists, credit in all_users)
    assert found.mean == mean
    assert found.variance == pytest.approx(len(all_users) / (len(all_users) - 1) * squares / shown**2, rel=1e-9, abs=1e-18)
    apart = difference(Estimate(found.mean, found.variance, found.users), Estimate(0.0, 0.0, found.users), Mixture(0.05), alpha)
    assert (None if apart is None else apart[1:]) == (None if found.lower is None else (found.lower, found.upper))
    assert not (found.preferred and found.disliked)


def test_there_is_no_interval_with_too_few_users() -> None:
    moments = [0] * CREDIT_WIDTH
    for user in range(99):
        moments = add(moments, credit_moments(3, 3 if user % 7 else 1))
    found = preference(moments, 0.05)
    assert found is not None
    assert (found.users, found.lower, found.upper, found.preferred) == (99, None, None, False)
    found = preference(add(moments, credit_moments(3, 2)), 0.05)
    assert found is not None
    assert found.preferred
    assert preference([0] * CREDIT_WIDTH, 0.05) is None


def test_there_is_no_interval_while_a_few_users_dominate() -> None:
    moments = [0] * CREDIT_WIDTH
    for user in range(400):
        moments = add(moments, credit_moments(2, 1 if user % 4 else -1))
    found = preference(add(moments, credit_moments(400, 400)), 0.05)
    assert found is not None
    assert (found.lower, found.preferred) == (None, False)
    assert found.effective_users == pytest.approx(1_200**2 / (400 * 4 + 400**2))


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(ExperimentError, match="grades: got 1; must be 2"):
        list_credit(["a", "b"], [1], "a", "b")
    with pytest.raises(ExperimentError, match="team: got 'a'"):
        list_credit(["a"], [1], "a", "a")
    with pytest.raises(ExperimentError, match="credit: got 3 for 2 lists"):
        credit_moments(2, 3)
    with pytest.raises(ExperimentError, match="moments: got 2 numbers"):
        preference([1, 2], 0.05)
