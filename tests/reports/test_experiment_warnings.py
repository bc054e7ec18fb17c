"""Sentences about users: a stream needs many with one list each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streammetrics.reports.experiment_warnings import USERS_MIN, user_warnings
from tests.support.experiment_samples import experiment


@pytest.mark.parametrize(
    ("users", "lists", "warned"), [(USERS_MIN, USERS_MIN, True), (USERS_MIN - 1, USERS_MIN - 1, False), (USERS_MIN, USERS_MIN + 1, False)]
)
def test_users_with_exactly_one_list_each_are_named_when_they_are_many(users: int, lists: int, warned: bool) -> None:
    report = experiment({"control": 0.5, "new": 0.5}, name="ranker")
    one, other = report.variants
    arms = replace(one, first_list_users=users - 9, lists=lists - 9), replace(other, first_list_users=9, lists=9)
    texts = [warning.text for warning in user_warnings(replace(report, variants=arms))]
    assert texts == [f"Each of the {users:,} users of experiment ranker has exactly one list"] * warned
