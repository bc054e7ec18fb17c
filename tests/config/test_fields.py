"""Tests of the types of settings: lists and numbers."""

from __future__ import annotations

import pytest

from streammetrics.config import load
from tests.support.settings import by_flags, problems_of


@pytest.mark.parametrize("text", ["a, b", '["a","b"]', " a,b "])
def test_a_list_is_an_array_or_a_string_with_commas(text):
    assert load(None, {"STREAMMETRICS_KAFKA_TOPICS": text}, {}).settings.kafka.topics == ("a", "b")
    assert by_flags({"kafka.topics": text}).settings.kafka.topics == ("a", "b")


@pytest.mark.parametrize("key", ["experiments.alpha", "experiments.margin", "experiments.minimum_lift"])
def test_a_number_too_large_for_a_double_is_rejected(key):
    (problem,) = problems_of(flags={key: "9" * 400})
    assert problem.key == key
    assert problem.allowed.endswith("; the number is too large")
