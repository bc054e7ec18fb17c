"""Settings of assessment metrics."""

from __future__ import annotations

import pytest

from streammetrics.config import Settings
from tests.support.settings import by_flags, problems_of

WHOLE = {
    "assessment.names": "diversity,novelty,popularity_share,catalogue_share,fallback_share",
    "assessment.catalogue_file": "items.csv",
    "assessment.attributes": "genre",
    "assessment.users_field": "users",
    "assessment.users": "100",
    "assessment.interactions_field": "uses",
    "assessment.fallback": "source=popular",
}


def test_each_metric_is_computed_at_each_cut_off() -> None:
    settings = by_flags({**WHOLE, "assessment.cutoffs": "5,10"}).settings.assessment
    assert [str(metric) for metric in settings.metrics][:3] == ["diversity@5", "diversity@10", "novelty@5"]
    assert str(settings.metrics[-1]) == "fallback_share"
    assert settings.fallback_label == ("source", "popular")


def test_none_is_the_default() -> None:
    assert Settings().assessment.metrics == ()


@pytest.mark.parametrize("field", ["catalogue_file", "attributes", "users_field", "users", "interactions_field", "fallback"])
def test_what_a_metric_needs_is_required(field: str) -> None:
    flags = {key: value for key, value in WHOLE.items() if key != f"assessment.{field}"}
    assert [problem.key for problem in problems_of(flags=flags)] == [f"assessment.{field}"]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("assessment.names", "gini", "gini is not an assessment metric"),
        ("assessment.fallback", "popular", "a segment is NAME=VALUE"),
        ("assessment.cutoffs", "2000", "2000 exceeds events.items_max (1000)"),
    ],
)
def test_wrong_settings_are_rejected(key: str, value: str, message: str) -> None:
    assert message in str(problems_of(flags={**WHOLE, key: value})[0])
