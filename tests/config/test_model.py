"""Tests of the settings as a whole: documented bounds, variables, and rules between sections."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from streammetrics.config import (
    Settings,
    environment_name,
    keys,
)
from streammetrics.errors import ConfigError
from tests.support.settings import by_flags, problem_of, problems_of
from tests.support.tables import for_each


def numeric_bounds() -> list[tuple[str, int, int]]:
    bounds = []
    for key, setting in keys().items():
        words = setting.allowed.split(" ")
        if setting.allowed.startswith("a whole number from "):
            bounds.append((key, int(words[4]), int(words[6].rstrip(","))))
    return bounds


def value_or_conflict(key: str, value: int | str) -> object:
    """Return the loaded value, or "conflict" if the value is valid but contradicts another default."""
    try:
        settings = by_flags({key: value}).settings
    except ConfigError as error:
        alone = [problem for problem in error.problems if keys()[key].allowed in problem.allowed]
        return alone or "conflict"
    section, _, leaf = key.partition(".")
    return getattr(getattr(settings, section), leaf)


@pytest.mark.parametrize("earned", [{"metrics.names": "ndcg_exp"}, {"metrics.gain": "exp2"}])
def test_grades_that_would_overflow_are_rejected_with_the_highest_allowed(earned):
    assert by_flags({"join.grades": "click=100"}).settings.scorer()
    assert by_flags({"join.grades": "click=15", **earned}).settings.scorer()
    (problem,) = problems_of(flags={"join.grades": "click=16", **earned})
    assert (problem.key, problem.value) == ("join.grades", "click=16")
    assert "exponential gain" in problem.allowed
    assert "got 16; allowed at cut-off 10 are 0 < grade_max <= 15" in problem.allowed


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("windows.segments", "surface"),
        ("experiments.named", '{"ranker-v7": {}}'),
        ("experiments.named", '{"a": {"control": "baseline"}}'),
        ("experiments.named", '{"a": {"control": "old", "shares": {"old": 1, "new-one": 1}}}'),
    ],
)
def test_a_label_that_is_too_long_for_any_event_is_rejected(key, value):
    (problem,) = problems_of(flags={key: value, "events.label_chars_max": 6})
    assert (problem.key, problem.allowed.partition(", but ")[2]) == (
        key,
        "events.label_chars_max is 6: no event can have it",
    )


def test_every_setting_has_its_own_variable():
    names = [environment_name(key) for key in keys()]
    files = [f"{environment_name(key)}_FILE" for key, setting in keys().items() if setting.is_secret]
    assert len({*names, *files, "STREAMMETRICS_CONFIG"}) == len(names) + len(files) + 1


@for_each(numeric_bounds())
def test_the_documented_bounds_of_a_number_are_enforced(case: tuple[Any, Any, Any]) -> None:
    key, least, most = case
    for outside in (least - 1, most + 1, str(least - 1), str(most + 1), f"{least}.5", "", "many", True, [least], float("nan")):
        problems = problems_of(flags={key: outside})
        assert [problem.key for problem in problems] == [key]
        assert keys()[key].allowed in problems[0].allowed
    for inside in {least, most}:
        assert value_or_conflict(key, inside) in (inside, "conflict")


def test_most_bounds_are_valid_with_the_other_defaults():
    conflicting = {key for key, least, most in numeric_bounds() for value in (least, most) if value_or_conflict(key, value) == "conflict"}
    assert conflicting == {"events.items_max", "experiments.patience_ms", "join.attribution_ms", "windows.pane_ms"}


@for_each([key for key, least, _ in numeric_bounds() if key.endswith("_ms")])
def test_a_negative_duration_is_rejected(key: Any) -> None:
    assert problem_of(**{key.replace(".", "__"): -1}).key == key


@for_each([key for key, setting in keys().items() if setting.allowed.startswith("one of ")])
def test_a_choice_accepts_only_the_documented_values(key: Any) -> None:
    section, _, leaf = key.partition(".")
    choices = get_args(type(getattr(Settings(), section)).model_fields[leaf].annotation)
    for choice in choices:
        assert value_or_conflict(key, choice) in (choice, "conflict")
        assert choice in keys()[key].allowed
    assert problems_of(flags={key: "sideways"})[0].key == key


def test_the_relevant_grade_must_be_at_most_the_highest_grade():
    assert by_flags({"metrics.relevant_grade": 3}).settings.metrics.relevant_grade == 3
    assert problem_of(metrics__relevant_grade=3.5).key == "metrics.relevant_grade"
    assert problem_of(join__grades="skip=0").key == "metrics.relevant_grade"
    assert problem_of(metrics__relevant_grade=0).key == "metrics.relevant_grade"


def test_cutoffs_must_be_at_most_the_maximum_list_length():
    assert by_flags({"metrics.cutoffs": [1, 1000]}).settings.metrics.cutoffs == (1, 1000)
    for cutoffs in ([1001], [0], [5, 5], [], [True], ["x"]):
        assert problem_of(metrics__cutoffs=cutoffs).key == "metrics.cutoffs"


def test_a_retention_that_ends_before_a_window_is_final_is_a_warning():
    enough = 3_600_000 + 60_000 + 60_000 + 1_800_000
    assert by_flags({"windows.retention_ms": enough}).warnings == ()
    (warning,) = by_flags({"windows.retention_ms": enough - 1}).warnings
    assert "never appear" in warning


def test_settings_are_frozen():
    settings = Settings()
    for change in (lambda: setattr(settings, "join", None), lambda: setattr(settings.join, "gap_ms", 1)):
        with pytest.raises(ValidationError, match="frozen"):
            change()


def test_settings_built_in_code_obey_the_rules_between_sections():
    with pytest.raises(ValidationError, match=r"kafka\.dead_letter_topic"):
        Settings.model_validate({"kafka": {"dead_letter_topic": "feedback"}})
    with pytest.raises(ValidationError):
        Settings.model_validate({"kafka": {"unknown": 1}})


def test_limits_that_let_one_user_exceed_a_redis_value_are_warnings():
    assert not by_flags({}).warnings
    about_lists, about_events = by_flags({"events.event_bytes_max": 1_048_576}).warnings
    assert "join.lists_open_max (1000) lists of events.event_bytes_max (1048576) bytes are more than 500 MiB" in about_lists
    (warning,) = by_flags({"join.session_events_max": 2_001}).warnings
    assert "join.session_events_max (2001) events of events.event_bytes_max (262144) bytes are more than 500 MiB" in warning
    assert "join.session_events_max (2000) events" in about_events
