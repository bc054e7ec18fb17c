"""Tests of the metrics' settings: gain and discount tables, definitions, and what contradicts the grades."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from streammetrics.config import Settings
from streammetrics.metrics import METRIC_NAMES, Spec
from tests.support.settings import by_flags, configured, problems_of
from tests.support.tables import for_each


@pytest.mark.parametrize("given", ["0,1,2,7", "[0, 1, 2, 7]", "0, 1, 2.0, 7"])
def test_a_gain_table_is_read_from_a_list_or_text(given: str) -> None:
    scorer = by_flags({"metrics.gain": given}).settings.scorer()
    assert scorer.spec == Spec(gain=(0, 1, 2, 7))


def test_a_table_may_be_an_array_of_the_file(tmp_path: Path) -> None:
    toml = '[metrics]\ngain = [0, 1, 3, 7]\ndiscount = [1, 2.5]\nnames = ["rbp", "err"]\nrbp_persistence = 0.9\nerr_grade_max = 3\n'
    spec = configured(tmp_path, toml).settings.scorer().spec
    assert spec == Spec(gain=(0, 1, 3, 7), discount=(1, 2.5), rbp_persistence=0.9, err_grade_max=3)


def test_all_definitions_have_the_defaults_of_the_library() -> None:
    assert by_flags({}).settings.scorer().spec == Spec()


def test_every_metric_is_computed_at_every_cutoff_and_r_precision_once() -> None:
    scorer = by_flags({"metrics.names": ",".join(METRIC_NAMES), "metrics.cutoffs": "3,5"}).settings.scorer()
    names = [str(metric) for metric in scorer.metrics]
    assert names.count("r_precision") == 1
    assert sorted(names) == sorted(["r_precision", *(f"{name}@{k}" for name in METRIC_NAMES if name != "r_precision" for k in (3, 5))])


@for_each(
    [
        ({"metrics.gain": "quadratic"}, "metrics.gain", "got 'quadratic'; allowed are linear, exp2, binary, or a table"),
        ({"metrics.gain": "[0, 1"}, "metrics.gain", "not a list of numbers"),
        ({"metrics.gain": 100_000 * "["}, "metrics.gain", "not a list of numbers"),
        ({"metrics.gain": "1,2,3,4"}, "metrics.gain", "got 1.0 at index 0 of the table; allowed are 0"),
        (
            {"metrics.gain": "0,1"},
            "metrics.gain",
            "has no gain for grade 2 of join.grades: a table has the gains of the whole",
        ),
        ({"metrics.gain": "0,1,2,3", "join.grades": "click=0.5, buy=1"}, "metrics.gain", "has no gain for grade 0.5 of join.grades"),
        ({"metrics.discount": "2,1"}, "metrics.discount", "divisors that never fall"),
        ({"metrics.names": "err", "metrics.err_grade_max": "2"}, "metrics.err_grade_max", "at least the highest grade in join.grades, 3"),
        ({"metrics.rbp_persistence": "1"}, "metrics.rbp_persistence", "a number above 0 and below 1"),
        ({"metrics.names": "dcg_exp"}, "metrics.names", "a list of distinct names from ndcg"),
    ]
)
def test_contradictions_are_explained(case: tuple[dict[str, str], str, str]) -> None:
    flags, key, message = case
    (problem,) = problems_of(flags=flags)
    assert problem.key == key
    assert message in problem.allowed


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"names": ["zero_results"]}, "is not an engagement metric"),
        ({"names": ["first_click_share"], "click_ranks": [3, 2_000]}, "2000 exceeds events.items_max (1000)"),
        ({"names": ["satisfied_rate"], "satisfied_grade": 50}, "must be at most the highest grade in join.grades, 3"),
        ({"names": ["value_per_list"], "purchases": ["purchase", "rent"]}, "rent needs a grade above 0 in join.grades"),
        ({"names": ["value_per_list"], "purchases": ["skip"]}, "skip needs a grade above 0 in join.grades"),
        ({"names": ["reformulation_rate"], "reformulation_ms": 1_800_001}, "must be at most join.attribution_ms (1800000)"),
    ],
)
def test_engagement_settings_that_can_have_no_effect_are_rejected(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        Settings.model_validate({"engagement": given})


def test_engagement_settings_do_not_matter_without_a_metric() -> None:
    settings = Settings.model_validate({"engagement": {"reformulation_ms": 1_800_001, "purchases": ["rent"]}})
    assert (settings.engagement.layout(), settings.engagement.rules(8_000)) == (None, None)


def test_the_default_of_reformulations_follows_a_short_attribution_time() -> None:
    settings = Settings.model_validate({"engagement": {"names": ["reformulation_rate"]}, "join": {"attribution_ms": 8_000}})
    rules = settings.engagement.rules(settings.join.attribution_ms)
    assert rules is not None
    assert rules.reformulation_ms == 8_000


def test_engagement_metrics_are_measures_of_experiments() -> None:
    names = {"names": ["abandonment_rate", "first_click_share"]}
    settings = Settings.model_validate({"engagement": names, "experiments": {"paging": ["abandonment_rate", "first_click_share@3"]}})
    assert settings.experiments.paging == ("abandonment_rate", "first_click_share@3")
    with pytest.raises(ValidationError, match="satisfied_rate is not measured"):
        Settings.model_validate({"engagement": names, "experiments": {"paging": ["satisfied_rate"]}})
