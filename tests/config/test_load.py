"""Tests of loading settings: precedence of the sources, and all problems reported together."""

from __future__ import annotations

import json

import pytest

from streammetrics.config import (
    Settings,
    keys,
    load,
)
from streammetrics.errors import ConfigError, Problem
from tests.support.settings import DEPLOY, by_flags, configured, problem_of, problems_of


def test_no_sources_give_the_defaults():
    loaded = load(None, {}, {})
    assert loaded.settings == Settings()
    assert set(loaded.origins) == set(keys())
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.warnings == ()


def test_the_environment_wins_over_the_file_and_flags_win_over_both(tmp_path):
    loaded = configured(
        tmp_path,
        "[join]\ngap_ms = 1\nlateness_ms = 1\nidle_ms = 1\nattribution_ms = 0\n",
        {"STREAMMETRICS_JOIN_LATENESS_MS": "2", "STREAMMETRICS_JOIN_IDLE_MS": "2"},
        join__idle_ms=3,
    )
    join = loaded.settings.join
    assert (join.out_of_orderness_ms, join.gap_ms, join.lateness_ms, join.idle_ms) == (5_000, 1, 2, 3)
    assert [loaded.origins[f"join.{key}"] for key in ("out_of_orderness_ms", "gap_ms", "lateness_ms", "idle_ms")] == [
        "default",
        f"file {tmp_path}/streammetrics.toml",
        "environment STREAMMETRICS_JOIN_LATENESS_MS",
        "command line",
    ]


def test_an_overridden_value_is_not_validated(tmp_path):
    loaded = configured(tmp_path, "[http]\nport = -1\n", {"STREAMMETRICS_HTTP_PORT": "no"}, http__port="8080")
    assert loaded.settings.http.port == 8080


def test_a_flag_with_value_none_is_ignored(tmp_path):
    loaded = configured(tmp_path, "[http]\nport = 1\n", http__port=None)
    assert loaded.settings.http.port == 1


def test_false_and_zero_are_values(tmp_path):
    loaded = configured(tmp_path, "[redis]\ncluster = true\n[http]\nport = 1\n", redis__cluster=False, http__port=0)
    assert (loaded.settings.redis.cluster, loaded.settings.http.port) == (False, 0)


def test_a_path_argument_wins_over_the_config_variable(tmp_path):
    (tmp_path / "a.toml").write_text("[http]\nport = 1\n")
    (tmp_path / "b.toml").write_text("[http]\nport = 2\n")
    environ = {"STREAMMETRICS_CONFIG": str(tmp_path / "a.toml")}
    assert load(None, environ, {}).settings.http.port == 1
    assert load(tmp_path / "b.toml", environ, {}).settings.http.port == 2


def test_an_unreadable_file_is_reported_with_the_option_that_named_it(tmp_path):
    environ = {"STREAMMETRICS_CONFIG": str(tmp_path / "none.toml")}
    for path, named_by in ((None, "STREAMMETRICS_CONFIG"), (tmp_path / "other.toml", "--config")):
        (problem,) = problems_of(path, environ)
        assert problem.key == named_by


def test_the_process_environment_is_never_read(monkeypatch):
    monkeypatch.setenv("STREAMMETRICS_HTTP_PORT", "1")
    monkeypatch.setenv("HTTP_PORT", "1")
    assert load(None, {}, {}).settings == Settings()


def test_every_type_of_value_can_be_a_string():
    loaded = by_flags(
        {
            "metrics.cutoffs": "1,3",
            "windows.windows": "1m, 120000",
            "redis.cluster": "true",
            "join.future_ms": "off",
            "metrics.relevant_grade": "0.5",
            "kafka.dead_letter_topic": "",
            "windows.segments": "",
        }
    )
    settings = loaded.settings
    assert settings.metrics.cutoffs == (1, 3)
    assert [window.ms for window in settings.windows.windows] == [60_000, 120_000]
    assert [str(window) for window in settings.windows.windows] == ["1m", "2m"]
    assert (settings.redis.cluster, settings.join.future_ms, settings.metrics.relevant_grade) == (True, None, 0.5)
    assert (settings.kafka.dead_letter_topic, settings.windows.segments) == ("", ())


def test_all_problems_of_all_sources_are_reported_together(tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text('[join]\ngap_ms = -1\ngrades = "click=x"\n[windows]\npane_ms = 0\nwindows = ["5m", "x"]\n[metrics]\nnmaes = ["ndcg"]\n')
    environ = {"STREAMMETRICS_KAFKA_TOPICS": "a,a", "STREAMMETRICS_JOIN_GAPMS": "1", "STREAMMETRICS_LOG_LEVEL": "loud"}
    problems = problems_of(path, environ, {"http.port": 65_536, "redis.cluster": True, "redis.url": "redis://cache/1"})
    assert [problem.key for problem in problems] == [
        "metrics.nmaes",
        "STREAMMETRICS_JOIN_GAPMS",
        "kafka.topics",
        "join.gap_ms",
        "join.grades",
        "windows.pane_ms",
        "windows.windows",
        "http.port",
        "log.level",
        "redis.url",
    ]


def test_a_problem_has_key_value_origin_and_rule():
    (problem,) = problems_of(environ={"STREAMMETRICS_HTTP_PORT": "65536"})
    assert problem == Problem("http.port", "65536", "must be a whole number from 0 to 65535", "environment STREAMMETRICS_HTTP_PORT")


def test_a_conflict_is_reported_unless_it_may_follow_from_another_problem():
    given = {"windows.windows": "90s", "metrics.cutoffs": "2000", "events.items_max": "many"}
    assert [problem.key for problem in problems_of(flags=given)] == ["events.items_max", "windows.windows"]


def test_an_unreadable_file_is_reported_with_the_problems_of_the_other_sources(tmp_path):
    problems = problems_of(tmp_path / "missing.toml", {"STREAMMETRICS_HTTP_PORT": "x"}, {"kafka.security_protocol": "SASL_SSL"})
    assert [problem.key for problem in problems] == ["--config", "http.port"]


@pytest.mark.parametrize("key", ["join.gap_ms", "experiments.named"])
def test_a_table_nested_too_deeply_is_rejected_with_its_key(tmp_path, key):
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, f"[{key}.{'x.' * 5_000}x]\na = 1\n")
    (problem,) = caught.value.problems
    assert (problem.key, problem.value) == (key, "(nested too deeply)")


def test_a_message_is_one_short_printable_line():
    for value in ("x\ny\x00", "x" * 10_000, ["\ud800"], {"a": "\n"}):
        problem = problem_of(log__level=value)
        assert problem.value.isprintable()
        assert len(problem.value) <= 120
    assert json.dumps(["a", "b"]) == problem_of(log__level=["a", "b"]).value


@pytest.mark.parametrize("name", ["streammetrics.toml", "ubi.toml"])
def test_the_shipped_files_give_no_warnings(name):
    assert not load(DEPLOY / name, {}, {}).warnings
