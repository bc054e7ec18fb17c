"""Grade rules: which relevance a feedback gives its item. Text to rules and rules to a number; no events, no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from streammetrics.errors import ConfigError, Problem

GRADE_MAX = 100
"""No grade above this: gains stay small enough for exact integer sums."""

THRESHOLD_MAX = 2**53
"""No threshold beyond this (either sign): up to here a JSON number and a double say the same integer."""

RULES_MAX = 256
"""More rules than this are a mistake of whatever wrote them."""

ACTION_CHARS_MAX = 128
"""The longest action name that a rule may have."""

DEFAULT_GRADES = "purchase=3, watch>=30=2, click=1, skip=0"

_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")
_HOW = "write action=grade or action>=threshold=grade (or >), separated by commas"


class Rule(NamedTuple):
    """One rule of an action. `operator` is None (always), ">=" or ">"; `threshold` is 0 where there is no operator."""

    operator: str | None
    threshold: float
    grade: float


@dataclass(frozen=True, slots=True)
class GradeRules:
    """All rules, ready to use. Equal when they mean the same rules, in whatever order these were written.

    `table` holds each known action's rules, greatest grade first, so the first rule that holds decides. `text` is the
    canonical spelling: `parse_grades(rules.text) == rules`.

    >>> rules = parse_grades("click=1, watch>=30=2, watch>=300=3")
    >>> rules.grade("watch", 48.0), rules.grade("watch", 10.0), rules.grade("watch", None)
    (2, 0, 0)
    >>> rules.grade("shrug", None) is None
    True
    """

    text: str
    table: Mapping[str, tuple[Rule, ...]] = field(compare=False, repr=False)

    def grade(self, action: str, value: float | None) -> float | None:
        """The greatest grade among the action's rules that hold; 0 when none does; None for an unknown action.

        A rule with a threshold never holds for a feedback without a value. Whole grades are returned as `int`.
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
        """Every grade that a feedback can get, ascending; 0 is always among them.

        >>> parse_grades("purchase=3, watch>=30=2").grades
        (0, 2, 3)
        """
        return tuple(sorted({0} | {rule.grade for rules in self.table.values() for rule in rules}))


def parse_grades(text: str) -> GradeRules:
    """Read rules such as `purchase=3, watch>=30=2, click=1, skip=0`.

    Raises ConfigError with every problem at once: a rule that cannot be read, a grade outside 0 … GRADE_MAX, the same
    condition twice, a rule that can never decide because a wider rule of its action gives at least as much.

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
    problems.extend(_quarrels(written))
    if problems:
        raise ConfigError(problems)
    return _rules(written)


def _rule(piece: str) -> tuple[str, Rule]:
    if not piece:
        raise ValueError(f"a rule is missing; {_HOW}")
    condition, equals, grade_text = piece.rpartition("=")
    if not equals:
        raise ValueError(_HOW)
    operator = ">=" if ">=" in condition else ">" if ">" in condition else None
    action, _, threshold_text = condition.partition(operator) if operator else (condition, "", "0")
    grade = _number(grade_text, "the grade", 0, GRADE_MAX)
    threshold = _number(threshold_text, "the threshold", -THRESHOLD_MAX, THRESHOLD_MAX)
    return _action(action.strip()), Rule(operator, threshold, grade)


def _action(action: str) -> str:
    if not action or set(action) & set("<>=!") or not action.isprintable():
        raise ValueError(_HOW)
    if len(action) > ACTION_CHARS_MAX:
        raise ValueError(f"an action has at most {ACTION_CHARS_MAX} characters")
    return action


def _number(text: str, what: str, least: float, most: float) -> float:
    """A plain decimal number; a whole one as `int`, so that 3 and 3.0 are one grade and print alike."""
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError(f"{what} is not a plain number; {_HOW}")
    exact = Decimal(text.strip())
    if not least <= exact <= most:
        raise ValueError(f"{what} must be from {least} to {most}")
    number = float(exact)
    return int(number) if number.is_integer() else number


def _quarrels(written: list[tuple[str, Rule]]) -> Iterable[Problem]:
    """Rules that repeat, contradict or hide one another: whoever wrote them meant something else."""
    for place, (action, rule) in enumerate(written):
        for earlier_action, earlier in written[:place]:
            if earlier_action != action:
                continue
            if (earlier.operator, earlier.threshold) == (rule.operator, rule.threshold):
                yield _problem(_spell(action, rule), f"the same condition as {_spell(action, earlier)}; keep one of them")
            elif hidden := _hidden(earlier, rule):
                other = rule if hidden is earlier else earlier
                yield _problem(
                    _spell(action, hidden), f"can never decide, because {_spell(action, other)} is wider and gives at least as much"
                )


def _hidden(one: Rule, other: Rule) -> Rule | None:
    """Which of two rules of an action can never decide, if one of them cannot."""
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
    condition = f"{rule.operator}{_plain(rule.threshold)}" if rule.operator else ""
    return f"{action}{condition}={_plain(rule.grade)}"


def _plain(number: float) -> str:
    """Digits without an exponent, which the rules' own grammar does not have."""
    return repr(number) if "e" not in repr(number) else f"{number:.20f}".rstrip("0")


def _problem(value: str, allowed: str) -> Problem:
    return Problem("join.grades", value if value.isprintable() else ascii(value), allowed)
