"""The grade rules of the oracle."""

from __future__ import annotations

from tests.oracle import (
    Rule,
    parse_rules,
)


class TestRules:
    def test_a_rule_has_an_action_a_grade_and_an_optional_least_value(self) -> None:
        assert parse_rules("purchase=3, watch>=0.5=2.5") == (Rule("purchase", 3), Rule("watch", 2.5, 0.5))
