"""Grade rules: how much relevance a feedback gives its item. Parses rule texts and computes grades."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from streammetrics.errors import ConfigError, Problem

GRADE_MAX = 100
"""Greatest grade. It keeps gains small enough for exact integer sums."""

THRESHOLD_MAX = 2**53
"""Greatest absolute threshold. Up to here a JSON number and a double represent the same integers."""

RULES_MAX = 256
"""Most rules in one text. More indicate a broken generator."""

ACTION_CHARS_MAX = 128
"""Most characters of a rule's action."""

DEFAULT_GRADES = "purchase=3, watch>=30=2, click=1, skip=0"

_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")
_SYNTAX = "write action=grade or action>=threshold=grade (or >), separated by commas"


class Rule(NamedTuple):
    """One rule of an action. `operator` is None (always), `>=` or `>`. `threshold` is 0 without an operator."""

    operator: str | None
    threshold: float
    grade: float


@dataclass(frozen=True, slots=True)
class GradeRules:
    """Parsed grade rules. Rule sets that mean the same are equal, in any order of writing.

    `table` maps each known action to its rules, greatest grade first, so the first matching rule decides. `text` is the canonical form:
    `parse_grades(rules.text) == rules`.

    >>> rules = parse_grades("click=1, watch>=30=2, watch>=300=3")
    >>> rules.grade("watch", 48.0), rules.grade("watch", 10.0), rules.grade("watch", None)
    (2, 0, 0)
    >>> rules.grade("shrug", None) is None
    True
    """

    text: str
    table: Mapping[str, tuple[Rule, ...]] = field(compare=False, repr=False)

    def grade(self, action: str, value: float | None) -> float | None:
        """Return the greatest grade of the action's matching rules: 0 if none matches, None for an unknown action.

        A rule with a threshold never matches a feedback without a value. Whole grades are of type `int`.
        """
        rules = self.table.get(action)
        if rules is None:
            return None
        for operator, threshold, grade in rules:
            if operator is None:
                return grade
            if value is not None and (value > threshold or (value == threshold and operator == ">=")):
                return grade
        return 0

    @property
    def grades(self) -> tuple[float, ...]:
        """All possible grades, ascending. 0 is always among them.

        >>> parse_grades("purchase=3, watch>=30=2").grades
        (0, 2, 3)
        """
        return tuple(sorted({0} | {rule.grade for rules in self.table.values() for rule in rules}))

    def conditions(self, grade: float) -> list[str]:
        """Return the conditions that give exactly this grade, as written.

        >>> parse_grades("purchase=3, watch>=30=2, click=1").conditions(2)
        ['watch>=30']
        """
        return [_condition(action, rule) for action, rules in self.table.items() for rule in rules if rule.grade == grade]


def parse_grades(text: str) -> GradeRules:
    """Parse rules such as `purchase=3, watch>=30=2, click=1, skip=0`.

    Raises ConfigError with all problems at once: an unreadable rule, a grade outside 0 … GRADE_MAX, a repeated condition, or a rule
    that never applies because a wider rule of its action has an equal or higher grade.

    >>> parse_grades("click=1,purchase = 3.0").text
    'purchase=3, click=1'
    """
    problems: list[Problem] = []
    written: list[tuple[str, Rule]] = []
    pieces = [piece.strip() for piece in text.split(",")]
    if len(pieces) > RULES_MAX:
        raise ConfigError([_problem(f"{len(pieces)} rules", f"at most {RULES_MAX} rules")])
    for piece in pieces:
        try:
            written.append(_rule(piece))
        except ValueError as error:
            problems.append(_problem(piece, str(error)))
    problems.extend(_conflicts(written))
    if problems:
        raise ConfigError(problems)
    return _rules(written)


def _rule(piece: str) -> tuple[str, Rule]:
    if not piece:
        raise ValueError(f"empty rule; {_SYNTAX}")
    condition, equals, grade_text = piece.rpartition("=")
    if not equals:
        raise ValueError(_SYNTAX)
    operator = ">=" if ">=" in condition else ">" if ">" in condition else None
    action, _, threshold_text = condition.partition(operator) if operator else (condition, "", "0")
    grade = _number(grade_text, "the grade", 0, GRADE_MAX)
    threshold = _number(threshold_text, "the threshold", -THRESHOLD_MAX, THRESHOLD_MAX)
    return _action(action.strip()), Rule(operator, threshold, grade)


def _action(action: str) -> str:
    if not action or set(action) & set("<>=!") or not action.isprintable():
        raise ValueError(_SYNTAX)
    if len(action) > ACTION_CHARS_MAX:
        raise ValueError(f"an action may have at most {ACTION_CHARS_MAX} characters")
    return action


def _number(text: str, name: str, least: float, most: float) -> float:
    """Parse a plain decimal number. Whole numbers become `int`, so that 3 and 3.0 are the same grade."""
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError(f"{name} is not a plain number; {_SYNTAX}")
    exact = Decimal(text.strip())
    if not least <= exact <= most:
        raise ValueError(f"{name} must be from {least} to {most}")
    number = float(exact)
    return int(number) if number.is_integer() else number


def _conflicts(written: list[tuple[str, Rule]]) -> Iterable[Problem]:
    """Yield a problem for each pair of rules where one repeats, contradicts or hides the other."""
    for place, (action, rule) in enumerate(written):
        for earlier_action, earlier in written[:place]:
            if earlier_action != action:
                continue
            if (earlier.operator, earlier.threshold) == (rule.operator, rule.threshold):
                yield _problem(_spell(action, rule), f"the same condition as {_spell(action, earlier)}; keep one of them")
            elif hidden := _hidden(earlier, rule):
                other = rule if hidden is earlier else earlier
                yield _problem(
                    _spell(action, hidden), f"never applies, because {_spell(action, other)} is wider and has an equal or higher grade"
                )


def _hidden(one: Rule, other: Rule) -> Rule | None:
    """Return the rule that never applies because the other one is wider, or None."""
    wide, narrow = (one, other) if _is_wider(one, other) else (other, one)
    return narrow if wide.grade >= narrow.grade else None


def _is_wider(one: Rule, other: Rule) -> bool:
    if one.operator is None or other.operator is None:
        return one.operator is None
    return (one.threshold, one.operator == ">") < (other.threshold, other.operator == ">")


def _rules(written: list[tuple[str, Rule]]) -> GradeRules:
    table: dict[str, tuple[Rule, ...]] = {}
    ordered = sorted(written, key=lambda pair: (-pair[1].grade, pair[0]))
    for action, rule in ordered:
        table[action] = (*table.get(action, ()), rule)
    return GradeRules(text=", ".join(_spell(action, rule) for action, rule in ordered), table=table)


def _spell(action: str, rule: Rule) -> str:
    return f"{_condition(action, rule)}={_plain(rule.grade)}"


def _condition(action: str, rule: Rule) -> str:
    return f"{action}{rule.operator}{_plain(rule.threshold)}" if rule.operator else action


def _plain(number: float) -> str:
    """Format a number without an exponent, which the rule syntax does not allow."""
    return repr(number) if "e" not in repr(number) else f"{number:.20f}".rstrip("0")


def _problem(value: str, allowed: str) -> Problem:
    return Problem("join.grades", value if value.isprintable() else ascii(value), allowed)
