"""Grade rules. Which list a feedback belongs to is decided in `join`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streammetrics.events.model import Feedback


@dataclass(frozen=True, slots=True)
class Rule:
    """`action=grade`, or `action>=at_least=grade` for feedback whose value is at least that."""

    action: str
    grade: float
    at_least: float | None = None


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Parse rules as written in a configuration.

    >>> parse_rules("watch>=30=2, click=1")
    (Rule(action='watch', grade=2, at_least=30), Rule(action='click', grade=1, at_least=None))
    """
    return tuple(_parse_rule(part.strip()) for part in text.split(","))


def _parse_rule(text: str) -> Rule:
    left, grade = text.rsplit("=", 1)
    if ">=" in left:
        action, at_least = left.split(">=")
        return Rule(action.strip(), _number(grade), _number(at_least))
    return Rule(left.strip(), _number(grade))


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() else value


def is_known(action: str, rules: Sequence[Rule]) -> bool:
    return any(rule.action == action for rule in rules)


def grade_of(feedback: Feedback, rules: Sequence[Rule]) -> float:
    """Return the greatest grade of the action's matching rules; 0 if none matches.

    >>> rules = parse_rules("purchase=3, watch>=30=2, click=1, skip=0")
    >>> [grade_of(Feedback("u", 0, "a", "watch", value), rules) for value in (None, 29.9, 30.0)]
    [0, 0, 2]
    """
    return max((rule.grade for rule in rules if rule.action == feedback.action and _matches(rule, feedback)), default=0)


def _matches(rule: Rule, feedback: Feedback) -> bool:
    return rule.at_least is None or (feedback.value is not None and feedback.value >= rule.at_least)
