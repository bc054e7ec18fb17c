"""A rule of a table fails with every row that breaks it."""

from __future__ import annotations

import pytest

from tests.support.tables import for_each


def test_a_rule_fails_with_every_row_that_breaks_it() -> None:
    @for_each([1, 2, 3, 4], lambda number: f"number {number}")
    def rule(number: int) -> None:
        assert number % 2 == 0

    with pytest.raises(AssertionError, match=r"2 of 4 break the rule:\nnumber 1: AssertionError .*\nnumber 3: AssertionError"):
        rule()


def test_a_rule_without_a_row_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="a rule without a row cannot fail"):
        for_each([])
