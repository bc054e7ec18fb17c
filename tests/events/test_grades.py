"""Grade rules: parsing, errors, and the greatest grade of an action's matching rules."""

from __future__ import annotations

import pickle
from itertools import permutations
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streammetrics.errors import ConfigError
from streammetrics.events.grades import ACTION_CHARS_MAX, DEFAULT_GRADES, GRADE_MAX, RULES_MAX, THRESHOLD_MAX, GradeRules, parse_grades
from tests.support.tables import for_each

numbers = st.integers(-50, 50) | st.decimals(-50, 50, places=3).map(float)
conditions = st.none() | st.tuples(st.sampled_from([">=", ">"]), numbers)
written_rules = st.lists(
    st.tuples(st.sampled_from(["watch", "click", "add to cart", "Klick·ß"]), conditions, st.integers(0, 4) | st.sampled_from([0.5, 2.25])),
    min_size=1,
    max_size=8,
)


def spell(rule: tuple[str, tuple[str, float] | None, float]) -> str:
    action, condition, grade = rule
    return f"{action}{condition[0] if condition else ''}{condition[1] if condition else ''}={grade}"


def parsed(rules: list[tuple[str, tuple[str, float] | None, float]]) -> GradeRules:
    """Return the parsed rules, or skip examples with conflicting rules."""
    try:
        return parse_grades(", ".join(map(spell, rules)))
    except ConfigError:
        assume(False)
        raise


def holds(condition: tuple[str, float] | None, value: float | None) -> bool:
    if condition is None:
        return True
    operator, threshold = condition
    return value is not None and (value >= threshold if operator == ">=" else value > threshold)


@given(written_rules, st.none() | numbers)
def test_the_greatest_grade_of_the_matching_rules_counts(rules, value):
    grades = parsed(rules)
    for action in {action for action, _, _ in rules}:
        expected = max([0, *(grade for its, condition, grade in rules if its == action and holds(condition, value))])
        assert grades.grade(action, value) == expected


@given(written_rules)
def test_the_canonical_text_parses_to_equal_rules(rules):
    grades = parsed(rules)
    again = parse_grades(grades.text)
    assert (again, again.table, again.text) == (grades, grades.table, grades.text)


@given(written_rules, st.randoms())
def test_the_order_of_rules_does_not_matter(rules, random):
    shuffled = random.sample(rules, len(rules))
    assert parsed(rules) == parsed(shuffled)
    assert hash(parsed(rules)) == hash(parsed(shuffled))


@given(written_rules, st.none() | numbers)
def test_every_computed_grade_is_a_possible_grade(rules, value):
    grades = parsed(rules)
    assert grades.grades == tuple(sorted(set(grades.grades)))
    assert {grades.grade(action, value) for action, _, _ in rules} <= set(grades.grades)
    assert set(grades.grades) == {0} | {grade for _, _, grade in rules}


def test_the_default_rules():
    rules = parse_grades(DEFAULT_GRADES)
    assert rules.text == DEFAULT_GRADES
    assert rules.grades == (0, 1, 2, 3)
    assert [rules.grade(action, None) for action in ("purchase", "click", "skip", "share")] == [3, 1, 0, None]


@pytest.mark.parametrize(("value", "grade"), [(29.999, 0), (30, 2), (30.001, 2), (None, 0)])
def test_at_least_includes_its_threshold(value, grade):
    assert parse_grades("watch>=30=2").grade("watch", value) == grade


@pytest.mark.parametrize(("value", "grade"), [(29.999, 0), (30, 0), (30.001, 2), (None, 0)])
def test_more_than_excludes_its_threshold(value, grade):
    assert parse_grades("watch>30=2").grade("watch", value) == grade


def test_both_operators_may_share_a_threshold():
    rules = parse_grades("watch>=30=1, watch>30=2")
    assert [rules.grade("watch", value) for value in (29, 30, 31)] == [0, 1, 2]


def test_whole_grades_are_integers_in_any_spelling():
    rules = parse_grades("click=1.0, purchase=3, glance=0.5")
    assert [type(rules.grade(action, None)) for action in ("click", "purchase", "glance")] == [int, int, float]
    assert rules.text == "purchase=3, click=1, glance=0.5"


def test_very_small_thresholds_keep_their_value_in_the_canonical_text():
    rules = parse_grades("watch>=0.00000012=1")
    assert parse_grades(rules.text).table["watch"][0].threshold == 0.00000012


def test_actions_are_compared_exactly():
    rules = parse_grades("click=1")
    assert [rules.grade(action, None) for action in ("Click", "click ", "clic")] == [None, None, None]


def test_rules_survive_pickling():
    rules = parse_grades(DEFAULT_GRADES)
    copy = pickle.loads(pickle.dumps(rules))
    assert (copy, copy.table) == (rules, rules.table)


@pytest.mark.parametrize("grade", ["0", "0.5", str(GRADE_MAX)])
def test_grades_range_from_zero_to_the_limit(grade):
    assert parse_grades(f"click={grade}").grade("click", None) == float(grade)


@for_each(
    [
        "",
        "click",
        "click=",
        "=1",
        "click=one",
        "click=-1",
        "click=nan",
        "click=inf",
        "click=1e1",
        "click=\u0663",
        f"click={GRADE_MAX + 1}",
        f"click={GRADE_MAX}.1",
        "watch>=30",
        "watch>=",
        "watch>=x=1",
        "watch>==1",
        f"watch>={THRESHOLD_MAX + 1}=1",
        "watch<30=1",
        "watch<=30=1",
        "watch==30=1",
        "watch!=30=1",
        "wa\x00tch=1",
        "wa\nb=1",
        "\ud800=1",
        "x" * 129 + "=1",
    ]
)
def test_an_unreadable_rule_is_rejected_and_shown_in_the_message(rule: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_grades(f"click=1, {rule}")
    (problem,) = caught.value.problems
    assert problem.key == "join.grades"
    assert problem.value == (rule if rule.isprintable() else ascii(rule))
    assert problem.value.isprintable()


def test_all_bad_rules_are_reported_at_once():
    with pytest.raises(ConfigError) as caught:
        parse_grades("click=one, purchase=3, watch<3=1, skip=-1")
    assert [problem.value for problem in caught.value.problems] == ["click=one", "watch<3=1", "skip=-1"]


@pytest.mark.parametrize("second", ["click=1", "click=2"])
def test_a_repeated_condition_is_rejected(second):
    with pytest.raises(ConfigError, match="same condition as click=1"):
        parse_grades(f"click=1, {second}")


def test_a_rule_hidden_by_a_wider_rule_is_rejected_in_any_order():
    for order in permutations(["watch>=30=2", "watch>=60=2", "click=1"]):
        with pytest.raises(ConfigError) as caught:
            parse_grades(",".join(order))
        assert [problem.value for problem in caught.value.problems] == ["watch>=60=2"]


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("click=1", "click>=5=1"),
        ("click=1", "click>5=0"),
        ("click=1", "click>=-5=1"),
        ("watch>=30=2", "watch>30=1"),
        ("watch>30=2", "watch>31=2"),
    ],
)
def test_a_narrower_rule_must_have_a_higher_grade(wide, narrow):
    for order in permutations([wide, narrow]):
        with pytest.raises(ConfigError) as caught:
            parse_grades(", ".join(order))
        (problem,) = caught.value.problems
        assert (problem.value, problem.allowed) == (narrow, f"never applies, because {wide} is wider and has an equal or higher grade")


def test_a_rule_without_a_condition_is_the_least_grade_of_its_action():
    rules = parse_grades("watch=1, watch>=30=2")
    assert [rules.grade("watch", value) for value in (None, 29, 30)] == [1, 1, 2]


def test_an_action_may_be_as_long_as_its_limit():
    action = "x" * ACTION_CHARS_MAX
    assert parse_grades(f"{action}=1").grade(action, None) == 1


def test_the_number_of_rules_is_limited():
    rules = [f"a{number}=1" for number in range(RULES_MAX + 1)]
    assert len(parse_grades(",".join(rules[:-1])).table) == RULES_MAX
    with pytest.raises(ConfigError, match=f"at most {RULES_MAX}"):
        parse_grades(",".join(rules))
