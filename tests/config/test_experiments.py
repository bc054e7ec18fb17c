"""Tests of the settings of experiments."""

from __future__ import annotations

import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.config import (
    load,
)
from streammetrics.config.experiments import settings_text
from streammetrics.errors import ConfigError
from tests.support.settings import NAMED, configured, problems_of


def test_a_number_too_large_for_a_double_is_rejected_in_a_named_experiment():
    given = '{"ranker": {"minimum_lift": 1' + "0" * 400 + "}}"
    (problem,) = problems_of(environ={"STREAMMETRICS_EXPERIMENTS_NAMED": given})
    assert "ranker.minimum_lift: the number is too large" in problem.allowed


def test_a_named_experiment_overrides_the_general_rules(tmp_path):
    experiments = configured(tmp_path, NAMED).settings.experiments
    policy, general = experiments.policy("ranker-v7"), experiments.policy("another")
    assert (policy.control, policy.shares, policy.alpha) == ("old", {"old": 1, "new": 3}, 0.01)
    assert (policy.margin, policy.paging) == (0.02, ("ndcg@10",)) == (general.margin, general.paging)
    assert (general.control, general.shares, general.alpha) == (None, None, 0.05)


def test_times_of_experiments_are_dumped_with_their_zone(tmp_path, recwarn):
    named = configured(tmp_path, NAMED).settings.model_dump(mode="json")["experiments"]["named"]
    assert (named["ranker-v7"]["start"], named["ranker-v7"]["end"]) == ("2026-01-31T09:00:00Z", "2026-03-01T00:00:00+01:00")
    assert not recwarn


def test_all_problems_of_experiments_are_reported_together_with_their_key(tmp_path):
    toml = "[experiments]\nalpha = 0\nmargin = 1\npaging = ['ndcg@7']\n"
    toml += "[experiments.named.x]\nalpha = 5\nmin_users = 1\ncontrol = 'c'\n"
    toml += "[experiments.named.y]\ncontrol = 'c'\nshares = { a = 1, b = 1 }\n"
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, toml)
    assert [(problem.key.partition(".")[2], re.split(" got| is", problem.allowed)[0]) for problem in caught.value.problems] == [
        ("alpha", "alpha:"),
        ("margin", "margin:"),
        ("paging", "ndcg@7"),
        ("named", "x: alpha:"),
        ("named", "x: min_users:"),
        ("named", "y: control:"),
    ]


def test_experiments_in_the_environment_are_json():
    loaded = load(None, {"STREAMMETRICS_EXPERIMENTS_NAMED": '{"a b": {"control": "old"}}'}, {})
    assert loaded.settings.experiments.policy("a b").control == "old"
    (problem,) = problems_of(environ={"STREAMMETRICS_EXPERIMENTS_NAMED": "{"})
    assert "not a JSON object" in problem.allowed


HALVES = "shares = { c = 1, t = 1 }"
UNITS = [
    ("unit = 'request'", r"x\.unit: "),
    ("start = 2026-01-02T00:00:00Z\ncuped_days = 7\nunit = 'list'", 'x: cuped_days needs unit = "user"'),
    ("unit = 'list'\npaging = ['user_hit_rate@10']", "x: user_hit_rate@10 cannot decide with unit"),
]


@pytest.mark.parametrize(
    ("toml", "key", "rule"),
    [
        ("[experiments.named.x]\nshares = { a = 1, b = 0 }", "experiments.named", r"x\.shares\.b"),
        ("[experiments.named.x]\nshares = { a = 1, b = 'x' }", "experiments.named", r"^x\.shares\.b: must be a number$"),
        ("[experiments.named.x]\nmin_users = 1.5", "experiments.named", r"^x\.min_users: "),
        ("[experiments.named.x]\nstart = 2026-01-31T09:00:00", "experiments.named", r"x\.start: a time needs a zone"),
        ("[experiments.named.x]\nmarign = 0.1", "experiments.named", r"x\.marign: unknown key; did you mean margin\?$"),
        ("[experiments.named.x]\ncolour = 1", "experiments.named", r"^x\.colour: unknown key; the keys are control, shares, .*"),
        ("[experiments.named]\nx = 1", "experiments.named", "^x: must be a table$"),
        ("[experiments.named.x]\nshares = 1", "experiments.named", r"^x\.shares: must be a table$"),
        ('[experiments.named.""]\ncontrol = "c"', "experiments.named", '^the name "": must not be empty$'),
        ('[experiments.named.x]\nshares = { c = 1, "" = 1 }', "experiments.named", r'^x\.shares: the name "": must not be empty$'),
        (
            '[experiments.named."a\\u0000\\u00e9"]\ncontrol = "c"',
            "experiments.named",
            r'^the name "a\\u0000\\u00e9": control characters are not allowed$',
        ),
        (
            '[experiments.named."a.b\\u001b"]\nmin_user = 1',
            "experiments.named",
            r"'a\.b\\x1b\.min_user': unknown key; did you mean min_users\?$",
        ),
        (
            "[experiments.named.x]\nshares = { a = 1 }",
            "experiments.named",
            "x: shares: .* two or more variants; leave them out to skip the check$",
        ),
        (
            "[experiments.named.x]\nshares = { a = 1e308, b = 1e308 }",
            "experiments.named",
            "x: share of 'a': got 1e[+]308; must be from",
        ),
        ("[experiments.named.x]\nalpha = 2", "experiments.named", "x: alpha: got 2"),
        ("[experiments.named.x]\npaging = ['ndcg@7']", "experiments.named", "x: ndcg@7 is not measured; must be one of ndcg@10"),
        ("[experiments.named.x]\ncontrol = 'c'\nshares = { a = 1, b = 1 }", "experiments.named", "x: control: got 'c'"),
        (
            "[experiments.named.x]\nstart = 2026-02-01T00:00:00Z\nend = 2026-01-01T00:00:00Z",
            "experiments.named",
            "x: start must be before end",
        ),
        ("[experiments.named.x]\ncuped_days = 7", "experiments.named", "x: cuped_days = 7 needs a start"),
        ("[experiments.named.x]\nstart = 2026-02-01T00:00:00Z\ncuped_days = 0", "experiments.named", r"x\.cuped_days"),
        *((f"[experiments.named.x]\n{unit}", "experiments.named", rule) for unit, rule in UNITS),
        ("[experiments]\nalpha = 1", "experiments.alpha", "alpha: got 1"),
        ("[experiments]\npaging = ['mrr@3']", "experiments.paging", "mrr@3 is not measured"),
        ("[experiments]\nmetrics = ['mrr@3']", "experiments.metrics", "mrr@3 is not computed"),
        ("[experiments]\nidle_days = 1\n[join]\nattribution_ms = 86_400_000", "experiments.idle_days", "before its lists are added"),
    ],
)
def test_an_invalid_experiment_is_rejected_with_its_place(tmp_path, toml, key, rule):
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, toml)
    (problem,) = caught.value.problems
    assert problem.key == key
    assert re.search(rule, problem.allowed)


def test_the_unit_becomes_a_rule(tmp_path):
    experiments = configured(tmp_path, '[experiments.named.mesh]\nunit = "list"').settings.experiments
    assert (experiments.policy("mesh").unit, experiments.policy("other").unit) == ("list", "user")


@given(st.text(min_size=1), st.lists(st.text(min_size=1), min_size=2, max_size=3, unique=True))
def test_the_printed_toml_is_valid_for_any_names(experiment: str, variants: list[str]) -> None:
    for settings in ({"shares": dict.fromkeys(variants, 0.5)}, {"control": variants[0]}):
        table, _, line = settings_text(experiment, settings).removeprefix("under ").partition("]: ")
        assert tomllib.loads(f"{table}]\n{line}") == {"experiments": {"named": {experiment: settings}}}
