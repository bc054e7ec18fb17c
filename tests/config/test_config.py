"""Configuration: three layers, every problem at once, no secret ever shown, and a reference file that cannot drift."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from streammetrics.cli.wiring import build_engine, kafka_connection
from streammetrics.config import (
    LoadedSettings,
    PasswordHash,
    Settings,
    environment_name,
    hash_password,
    keys,
    load,
    mask_url,
    reference_toml,
    render_effective,
)
from streammetrics.config.fields import MS_MAX, parse_duration
from streammetrics.config.results import PANES_MAX
from streammetrics.config.sources import FILE_BYTES_MAX, SECRET_BYTES_MAX, _is_service_link
from streammetrics.errors import ConfigError, Problem
from streammetrics.events.grades import parse_grades
from streammetrics.events.json_text import iso_ms
from streammetrics.events.model import EventLimits
from streammetrics.exporters.http.views import STUCK_SECONDS
from streammetrics.metrics.names import ALL_METRIC_NAMES, METRIC_NAMES
from streammetrics.windows.unique_users import UniqueUserRules
from tests.support.paths import ROOT

DEPLOY = ROOT / "deploy"
REFERENCE = DEPLOY / "streammetrics.toml"
SECRET = "hunter2-тайна"
PASSWORD_HASH = hash_password("open sesame")
SASL = {
    "kafka.security_protocol": "SASL_SSL",
    "kafka.sasl_mechanism": "PLAIN",
    "kafka.sasl_username": "sm",
    "kafka.sasl_password": SECRET,
}


def configured(tmp_path: Path, toml: str = "", environ: dict[str, str] | None = None, **flags: object) -> LoadedSettings:
    path = tmp_path / "streammetrics.toml"
    path.write_text(toml)
    return load(path, environ or {}, {key.replace("__", "."): value for key, value in flags.items()})


def by_flags(flags: dict[str, object]) -> LoadedSettings:
    return load(None, {}, flags)


def problems_of(
    path: Path | None = None, environ: dict[str, str] | None = None, flags: dict[str, object] | None = None
) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        load(path, environ or {}, flags or {})
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value)
    return caught.value.problems


def problem_of(**given: object) -> Problem:
    """The only problem of some flags; `kafka__topics` stands for kafka.topics."""
    (problem,) = problems_of(flags={key.replace("__", "."): value for key, value in given.items()})
    return problem


# ------------------------------------------------------------------------------------------------------- layers


def test_nothing_given_means_the_defaults():
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


def test_a_value_that_a_later_layer_replaces_is_not_judged(tmp_path):
    loaded = configured(tmp_path, "[http]\nport = -1\n", {"STREAMMETRICS_HTTP_PORT": "no"}, http__port="8080")
    assert loaded.settings.http.port == 8080


def test_a_flag_that_is_none_was_not_given(tmp_path):
    loaded = configured(tmp_path, "[http]\nport = 1\n", http__port=None)
    assert loaded.settings.http.port == 1


def test_false_and_zero_are_given(tmp_path):
    loaded = configured(tmp_path, "[redis]\ncluster = true\n[http]\nport = 1\n", redis__cluster=False, http__port=0)
    assert (loaded.settings.redis.cluster, loaded.settings.http.port) == (False, 0)


def test_a_variable_may_name_the_file_and_a_path_wins_over_it(tmp_path):
    (tmp_path / "a.toml").write_text("[http]\nport = 1\n")
    (tmp_path / "b.toml").write_text("[http]\nport = 2\n")
    environ = {"STREAMMETRICS_CONFIG": str(tmp_path / "a.toml")}
    assert load(None, environ, {}).settings.http.port == 1
    assert load(tmp_path / "b.toml", environ, {}).settings.http.port == 2


def test_a_file_that_cannot_be_read_is_told_by_who_named_it(tmp_path):
    environ = {"STREAMMETRICS_CONFIG": str(tmp_path / "none.toml")}
    for path, named_by in ((None, "STREAMMETRICS_CONFIG"), (tmp_path / "other.toml", "--config")):
        (problem,) = problems_of(path, environ)
        assert problem.key == named_by


def test_the_process_environment_is_never_read(monkeypatch):
    monkeypatch.setenv("STREAMMETRICS_HTTP_PORT", "1")
    monkeypatch.setenv("HTTP_PORT", "1")
    assert load(None, {}, {}).settings == Settings()


@pytest.mark.parametrize("text", ["a, b", '["a","b"]', " a,b "])
def test_a_list_is_an_array_or_text_with_commas(text):
    assert load(None, {"STREAMMETRICS_KAFKA_TOPICS": text}, {}).settings.kafka.topics == ("a", "b")
    assert by_flags({"kafka.topics": text}).settings.kafka.topics == ("a", "b")


def test_every_kind_of_value_may_come_as_text():
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


# ------------------------------------------------------------------------------------------------------ secrets


def test_a_secret_may_come_from_a_file_without_its_line_end(tmp_path):
    path = tmp_path / "password"
    path.write_bytes(f"{SECRET}\r\n".encode())
    loaded = load(None, {"STREAMMETRICS_REDIS_PASSWORD_FILE": str(path)}, {})
    assert loaded.settings.redis.password is not None
    assert loaded.settings.redis.password.get_secret_value() == SECRET
    assert loaded.origins["redis.password"] == f"file {path}, environment STREAMMETRICS_REDIS_PASSWORD_FILE"


def test_the_store_url_counts_as_a_secret(tmp_path):
    path = tmp_path / "url"
    path.write_text("redis://:p@cache/3")
    loaded = load(None, {"STREAMMETRICS_REDIS_URL_FILE": str(path)}, {})
    assert loaded.settings.redis.url.get_secret_value() == "redis://:p@cache/3"


def test_a_file_may_begin_with_the_mark_that_some_editors_put_there(tmp_path):
    path, secret = tmp_path / "config.toml", tmp_path / "password"
    path.write_bytes(b"\xef\xbb\xbf[http]\nport = 5\n")
    secret.write_bytes(b"\xef\xbb\xbfhunter2\n")
    loaded = load(path, {"STREAMMETRICS_KAFKA_SASL_PASSWORD_FILE": str(secret)}, {})
    assert loaded.settings.http.port == 5
    assert loaded.settings.kafka.sasl_password is not None
    assert loaded.settings.kafka.sasl_password.get_secret_value() == "hunter2"
    path.write_bytes(b"\xef\xbb\xbf\n[http]\nhost = '\xff'\n")
    assert "not UTF-8 text (line 3)" in str(problems_of(path))


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "one line"),
        (b"\n", "one line"),
        (b"a\nb\n", "one line"),
        (b"\xff", "UTF-8"),
        (b"x" * (SECRET_BYTES_MAX + 1), "more than"),
    ],
)
def test_a_secrets_file_that_holds_no_single_line_is_refused(tmp_path, content, rule):
    path = tmp_path / "password"
    path.write_bytes(content)
    (problem,) = problems_of(environ={"STREAMMETRICS_KAFKA_SASL_PASSWORD_FILE": str(path)})
    assert (problem.key, problem.value) == ("kafka.sasl_password", str(path))
    assert rule in problem.allowed


@pytest.mark.parametrize("name", ["missing", ".", "nul\x00"])
def test_a_secrets_file_that_cannot_be_read_is_told_with_its_variable(tmp_path, name):
    (problem,) = problems_of(environ={"STREAMMETRICS_REDIS_PASSWORD_FILE": f"{tmp_path}/{name}"})
    assert (problem.key, problem.origin) == ("redis.password", "environment STREAMMETRICS_REDIS_PASSWORD_FILE")


def test_a_secrets_variable_that_names_no_file_is_told_so() -> None:
    (problem,) = problems_of(environ={"STREAMMETRICS_REDIS_PASSWORD_FILE": ""})
    assert str(problem) == (
        "redis.password = (empty) (from environment STREAMMETRICS_REDIS_PASSWORD_FILE): "
        "must name the secret's file; unset the variable where there is none"
    )


def test_a_secret_given_both_ways_is_refused(tmp_path):
    environ = {"STREAMMETRICS_REDIS_PASSWORD": SECRET, "STREAMMETRICS_REDIS_PASSWORD_FILE": str(tmp_path)}
    (problem,) = problems_of(environ=environ)
    assert "STREAMMETRICS_REDIS_PASSWORD is given too" in problem.allowed


def test_only_secrets_may_come_from_a_file():
    (problem,) = problems_of(environ={"STREAMMETRICS_HTTP_PORT_FILE": "/port"})
    assert problem.allowed == "only secrets are read from a file; give the value itself in STREAMMETRICS_HTTP_PORT"


@pytest.mark.parametrize("key", [key for key, known in keys().items() if known.is_secret and key != "redis.url"])
def test_a_secret_is_shown_nowhere(key):
    secret = PASSWORD_HASH if key == "http.password_hash" else SECRET
    loaded = by_flags({**SASL, "http.username": "u", "http.password_hash": PASSWORD_HASH, key: secret})
    section, _, leaf = key.partition(".")
    assert getattr(getattr(loaded.settings, section), leaf).get_secret_value() == secret
    for text in (repr(loaded), str(loaded.settings), repr(loaded.settings), render_effective(loaded), str(loaded.settings.model_dump())):
        assert secret not in text
        assert ascii(secret)[1:-1] not in text


@pytest.mark.parametrize("url", [f"redis://sm:{SECRET}@cache/0", f"rediss://cache/0?password={SECRET}", f"redis://:{SECRET}@cache:6380"])
def test_the_password_of_a_url_is_shown_nowhere(url):
    loaded = by_flags({"redis.url": url})
    assert loaded.settings.redis.url.get_secret_value() == url
    for text in (repr(loaded), str(loaded.settings), render_effective(loaded), str(loaded.settings.model_dump())):
        assert SECRET not in text
        assert "cache" in text


@pytest.mark.parametrize(
    "given",
    [
        {"redis.password": [SECRET]},
        {"redis.password": {"is": SECRET}},
        {"redis.pasword": SECRET},
        {"redis": f"redis://:{SECRET}@cache"},
        {"redis.url": f"http://:{SECRET}@cache"},
        {"redis.url": f"redis://:{SECRET}/x@cache"},
        {"redis.url": f"redis://:{SECRET}?x@cache"},
        {"redis.url": f"redis://:{SECRET}#x@cache"},
        {"redis.url": f"{SECRET}@cache"},
        {"redis.url": [f"redis://:{SECRET}@cache"]},
        {"redis.url": f"redis://:{SECRET}@cache", "redis.password": SECRET},
        {**SASL, "kafka.sasl_username": ""},
        {**SASL, "http.port": "x"},
        {"http.password_hash": SECRET},
        {"http.username": "u", "http.password_hash": f"scrypt:16384:8:1:{SECRET}:{SECRET}"},
    ],
)
def test_no_message_about_a_wrong_setting_shows_a_secret(given):
    assert problems_of(flags=given)


def test_no_message_about_an_unknown_variable_or_a_broken_file_shows_a_secret(tmp_path):
    path = tmp_path / "broken.toml"
    path.write_text(f'[redis]\npassword = "{SECRET}\n')
    problems = problems_of(path, {"STREAMMETRICS_REDIS_PASWORD": SECRET})
    assert [problem.key for problem in problems] == ["--config", "STREAMMETRICS_REDIS_PASWORD"]


def test_settings_built_by_hand_show_no_secret_in_their_errors():
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"redis": {"password": [SECRET], "url": f"http://{SECRET}@x"}})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("url", [f"redis://cache?password=x@{SECRET}", f"redis://cache#x@{SECRET}", f"redis://:x?y@z@{SECRET}?@"])
def test_a_url_in_which_the_host_cannot_be_told_from_a_password_is_masked_whole(url):
    assert mask_url(url) == "redis://***"


@given(st.text(max_size=12), st.text(max_size=12))
def test_whatever_stands_before_the_last_at_sign_of_a_url_is_masked(user, password):
    masked = mask_url(f"redis://S{user}:S{password}S@cache:6379/0")
    assert "S" not in masked
    assert masked.startswith("redis://***")


# ----------------------------------------------------------------------------------------------- all at once


def test_every_problem_of_every_layer_is_told_at_once(tmp_path):
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


def test_a_problem_says_key_value_origin_and_what_is_allowed():
    (problem,) = problems_of(environ={"STREAMMETRICS_HTTP_PORT": "65536"})
    assert problem == Problem("http.port", "65536", "must be a whole number from 0 to 65535", "environment STREAMMETRICS_HTTP_PORT")


@pytest.mark.parametrize("earned", [{"metrics.names": "ndcg_exp"}, {"metrics.gain": "exp2"}])
def test_grades_whose_gains_would_overflow_are_told_with_the_greatest_that_would_not(earned):
    assert by_flags({"join.grades": "click=100"}).settings.scorer()
    assert by_flags({"join.grades": "click=15", **earned}).settings.scorer()
    (problem,) = problems_of(flags={"join.grades": "click=16", **earned})
    assert (problem.key, problem.value) == ("join.grades", "click=16")
    assert "2^grade" in problem.allowed
    assert "got 16; allowed at cut-off 20 are 0 < grade_max <= 15" in problem.allowed


def test_a_clash_is_told_beside_other_problems_but_not_where_it_may_follow_from_them():
    given = {"windows.windows": "90s", "metrics.cutoffs": "2000", "events.items_max": "many"}
    assert [problem.key for problem in problems_of(flags=given)] == ["events.items_max", "windows.windows"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("windows.segments", "surface"),
        ("experiments.named", '{"ranker-v7": {}}'),
        ("experiments.named", '{"a": {"control": "baseline"}}'),
        ("experiments.named", '{"a": {"control": "old", "shares": {"old": 1, "new-one": 1}}}'),
    ],
)
def test_a_label_that_no_event_may_carry_is_refused(key, value):
    (problem,) = problems_of(flags={key: value, "events.label_chars_max": 6})
    assert (problem.key, problem.allowed.partition(", and")[2]) == (key, " no event may carry it: events.label_chars_max is 6")


def test_a_file_that_cannot_be_read_is_told_with_the_problems_of_the_other_layers(tmp_path):
    problems = problems_of(tmp_path / "missing.toml", {"STREAMMETRICS_HTTP_PORT": "x"}, {"kafka.security_protocol": "SASL_SSL"})
    assert [problem.key for problem in problems] == ["--config", "http.port"]


# ----------------------------------------------------------------------------------------------- unknown names


@pytest.mark.parametrize(
    ("toml", "key", "meant"),
    [
        ("[join]\ngap = 5", "join.gap", "join.gap_ms"),
        ("[jion]\ngap_ms = 5", "jion.gap_ms", "join.gap_ms"),
        ("gap_ms = 5", "gap_ms", "join.gap_ms"),
        ("[jion]", "jion", "[join]"),
        ("[worker]\npane_ms = 5", "worker.pane_ms", "windows.pane_ms"),
        ("[redis]\npasword = 'x'", "redis.pasword", "redis.password"),
        ('"a\\nb.gap_ms" = 1', r"'a\nb.gap_ms'", "join.gap_ms"),
    ],
)
def test_an_unknown_key_is_refused_with_what_was_probably_meant(tmp_path, toml, key, meant):
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, toml)
    (problem,) = caught.value.problems
    assert (problem.key, problem.value, problem.allowed) == (key, "***", f"there is no such key; did you mean {meant}?")


def test_a_path_with_a_line_break_breaks_no_rendering(tmp_path):
    path = tmp_path / "two\nlines.toml"
    path.write_text("[http]\nport = 5\n")
    assert tomllib.loads(render_effective(load(path, {}, {})))["http"]["port"] == 5


def test_an_unknown_key_unlike_any_other_is_refused_without_a_guess():
    assert problem_of(zzz__qqq=1).allowed == "there is no such key"


def test_a_part_of_a_value_is_no_key_and_the_value_is_told():
    whole = "experiments.named is a table of tables; in the environment or by --set, a JSON object of objects"
    assert problem_of(**{"experiments.named.x.control": "a"}).allowed == f"there is no such key; {whole}"


@pytest.mark.parametrize("toml", ["redis = 'x'", "[[redis]]\nurl = 'x'"])
def test_a_section_that_is_no_table_is_refused(tmp_path, toml):
    with pytest.raises(ConfigError, match=r"redis = .*: must be a table: write \[redis\]"):
        configured(tmp_path, toml)


def test_an_empty_section_is_fine(tmp_path):
    assert configured(tmp_path, "[join]\n").settings == Settings()


def test_an_unknown_variable_is_refused_with_what_was_probably_meant():
    (problem,) = problems_of(environ={"STREAMMETRICS_JOIN_GAP": "5"})
    assert (problem.key, problem.allowed) == (
        "STREAMMETRICS_JOIN_GAP",
        "there is no such variable; did you mean STREAMMETRICS_JOIN_GAP_MS?",
    )


def test_variables_that_kubernetes_sets_for_a_service_of_our_name_are_no_settings():
    environ = {
        "STREAMMETRICS_SERVICE_HOST": "10.0.0.1",
        "STREAMMETRICS_SERVICE_PORT": "9464",
        "STREAMMETRICS_SERVICE_PORT_METRICS": "9464",
        "STREAMMETRICS_PORT": "tcp://10.0.0.1:9464",
        "STREAMMETRICS_PORT_9464_TCP": "tcp://10.0.0.1:9464",
        "STREAMMETRICS_PORT_9464_TCP_ADDR": "10.0.0.1",
        "STREAMMETRICS_REDIS_SERVICE_HOST": "10.0.0.2",
        "STREAMMETRICS_HTTP_PORT": "tcp://10.0.0.1:9464",
    }
    assert load(None, environ, {}).settings == Settings()


def test_no_setting_looks_like_a_variable_of_kubernetes():
    assert not [key for key in keys() if _is_service_link(environment_name(key), "5")]


def test_every_setting_has_a_variable_of_its_own():
    names = [environment_name(key) for key in keys()]
    files = [f"{environment_name(key)}_FILE" for key, known in keys().items() if known.is_secret]
    assert len({*names, *files, "STREAMMETRICS_CONFIG"}) == len(names) + len(files) + 1


# ------------------------------------------------------------------------------------------------ broken files


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"[join]\ngap_ms = \n", "line 2"),
        (b"[join]\ngap_ms = 1\ngap_ms = 2\n", "line 3"),
        (b"[join\n", "line 1"),
        (b"[log]\nlevel = info\n", "texts need quotes"),
        (b"[log]\n\n# \xff\n", "line 3"),
        (b"x = " + b"[" * 100_000, "nested too deeply"),
        (b"#" * (FILE_BYTES_MAX + 1), "more than"),
    ],
)
def test_a_file_that_is_not_toml_is_refused_with_the_place_and_the_cure(tmp_path, content, rule):
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    (problem,) = problems_of(path)
    assert (problem.key, problem.value) == ("--config", str(path))
    assert rule in problem.allowed


@pytest.mark.parametrize("key", ["join.gap_ms", "experiments.named"])
def test_a_table_deeper_than_any_message_could_show_is_refused_with_its_key(tmp_path, key):
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, f"[{key}.{'x.' * 5_000}x]\na = 1\n")
    (problem,) = caught.value.problems
    assert (problem.key, problem.value) == (key, "(nested too deeply)")


TOO_LONG = "0x" + "f" * 5_000


@pytest.mark.parametrize(
    ("toml", "key"),
    [
        (f"[join]\ngap_ms = {TOO_LONG}", "join.gap_ms"),
        ("[join]\ngap_ms = -9_223_372_036_854_775_809", "join.gap_ms"),
        (f"[kafka]\nstart = {TOO_LONG}", "kafka.start"),
        (f"[events]\nformat = {TOO_LONG}", "events.format"),
        (f"[windows]\nwindows = [60_000, {TOO_LONG}]", "windows.windows"),
        (f"[metrics]\ncutoffs = [{TOO_LONG}]", "metrics.cutoffs"),
        (f"[metrics]\nrelevant_grade = {TOO_LONG}", "metrics.relevant_grade"),
        ("[experiments]\nminimum_lift = 9_223_372_036_854_775_808", "experiments.minimum_lift"),
        (f"[experiments.named.a]\nshares = {{ a = {TOO_LONG}, b = 1 }}", "experiments.named"),
        (f"[experiments.named.a]\nstart = {TOO_LONG}", "experiments.named"),
        (f"[redis]\npassword = {TOO_LONG}", "redis.password"),
    ],
)
def test_a_number_of_a_file_that_64_bits_do_not_hold_is_refused_with_its_key(tmp_path, toml, key):
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, toml + "\n")
    (problem,) = caught.value.problems
    assert (problem.key, problem.value) == (key, "***")
    assert problem.allowed == "a whole number of TOML lies in -9223372036854775808 … 9223372036854775807"


@pytest.mark.parametrize("key", ["experiments.alpha", "experiments.margin", "experiments.minimum_lift"])
def test_a_number_that_no_double_holds_is_refused(key):
    (problem,) = problems_of(flags={key: "9" * 400})
    assert problem.key == key
    assert problem.allowed.endswith("; a number of this size cannot be computed with")


def test_a_number_that_no_double_holds_is_refused_in_the_table_of_an_experiment():
    given = '{"ranker": {"minimum_lift": 1' + "0" * 400 + "}}"
    (problem,) = problems_of(environ={"STREAMMETRICS_EXPERIMENTS_NAMED": given})
    assert "ranker.minimum_lift: a number of this size cannot be computed with" in problem.allowed


@pytest.mark.parametrize("name", ["missing.toml", "", "nul\x00.toml", "file/streammetrics.toml"])
def test_a_path_that_is_no_readable_file_is_refused(tmp_path, name):
    (tmp_path / "file").write_text("")
    (problem,) = problems_of(tmp_path / name)
    assert problem.key == "--config"
    assert problem.value.isprintable()


# -------------------------------------------------------------------------------------------- single settings


def numeric_bounds() -> list[tuple[str, int, int]]:
    found = []
    for key, known in keys().items():
        words = known.allowed.split(" ")
        if known.allowed.startswith("a whole number from "):
            found.append((key, int(words[4]), int(words[6].rstrip(","))))
    return found


@pytest.mark.parametrize(("key", "least", "most"), numeric_bounds())
def test_the_told_bounds_of_a_number_are_its_bounds(key, least, most):
    for outside in (least - 1, most + 1, str(least - 1), str(most + 1), f"{least}.5", "", "many", True, [least], float("nan")):
        problems = problems_of(flags={key: outside})
        assert [problem.key for problem in problems] == [key]
        assert keys()[key].allowed in problems[0].allowed
    for inside in {least, most}:
        assert value_or_clash(key, inside) in (inside, "clash")


def value_or_clash(key: str, value: int | str) -> object:
    """The value as loaded; "clash" where it is fine alone and another default forbids it."""
    try:
        settings = by_flags({key: value}).settings
    except ConfigError as error:
        alone = [problem for problem in error.problems if keys()[key].allowed in problem.allowed]
        return alone or "clash"
    section, _, leaf = key.partition(".")
    return getattr(getattr(settings, section), leaf)


def test_most_bounds_can_be_reached_with_the_other_defaults():
    clashing = {key for key, least, most in numeric_bounds() for value in (least, most) if value_or_clash(key, value) == "clash"}
    assert clashing == {"events.items_max", "experiments.patience_ms", "join.attribution_ms", "windows.pane_ms"}


@pytest.mark.parametrize("key", [key for key, least, _ in numeric_bounds() if key.endswith("_ms")])
def test_a_negative_duration_is_refused(key):
    assert problem_of(**{key.replace(".", "__"): -1}).key == key


@pytest.mark.parametrize("key", [key for key, known in keys().items() if known.allowed.startswith("one of ")])
def test_a_choice_takes_what_is_told_and_nothing_else(key):
    section, _, leaf = key.partition(".")
    choices = get_args(type(getattr(Settings(), section)).model_fields[leaf].annotation)
    for choice in choices:
        assert value_or_clash(key, choice) in (choice, "clash")
        assert choice in keys()[key].allowed
    assert problems_of(flags={key: "sideways"})[0].key == key


@pytest.mark.parametrize(
    "server", ["kafka", "kafka:", "kafka:0", "kafka:65536", "http://kafka:9092", "::1:9092", "user@kafka:1", "a b:1", ":1", "a\x00:1"]
)
def test_a_server_without_host_and_port_is_refused(server):
    problem = problem_of(kafka__bootstrap_servers=["ok:9092", server])
    assert problem.key == "kafka.bootstrap_servers"
    assert "host:port" in problem.allowed


def test_servers_may_be_names_and_addresses():
    servers = ("kafka:1", "10.0.0.1:65535", "[::1]:9092")
    assert by_flags({"kafka.bootstrap_servers": list(servers)}).settings.kafka.bootstrap_servers == servers


@pytest.mark.parametrize("topics", ["", [], "a,,b", "a,a", [".."], ["a b"], ["ä"], ["x" * 250], ["a\n"], [1], '["a"', {"a": 1}])
def test_topics_are_distinct_legal_names_and_at_least_one(topics):
    assert problem_of(kafka__topics=topics).key == "kafka.topics"


def test_refused_events_never_go_to_an_input_topic():
    problem = problem_of(kafka__dead_letter_topic="feedback")
    assert (problem.key, problem.value) == ("kafka.dead_letter_topic", "feedback")


@pytest.mark.parametrize("missing", ["sasl_mechanism", "sasl_username", "sasl_password"])
def test_sasl_needs_mechanism_user_and_password(missing):
    assert by_flags(SASL).settings.kafka.sasl_username == "sm"
    (problem,) = problems_of(flags={key: value for key, value in SASL.items() if key != f"kafka.{missing}"})
    assert problem == Problem(f"kafka.{missing}", "(empty)", "is needed with security_protocol SASL_SSL", "default")


def test_everything_that_sasl_lacks_is_told_at_once():
    assert len(problems_of(flags={"kafka.security_protocol": "SASL_PLAINTEXT"})) == 3


@pytest.mark.parametrize("section", ["kafka", "redis"])
def test_a_key_needs_its_certificate(section):
    (problem,) = problems_of(flags={f"{section}.ssl_keyfile": "/key.pem"})
    assert problem.key == f"{section}.ssl_certfile"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "cache",
        "http://cache",
        "redis://",
        "redis:///0",
        "redis://cache/x",
        "redis://cache:x/0",
        "redis://cache:70000",
        "unix://",
        "redis://[::1",
    ],
)
def test_a_url_that_names_no_store_is_refused(url):
    assert problem_of(redis__url=url).key == "redis.url"


@pytest.mark.parametrize("url", ["redis://cache", "redis://cache:1/15", "rediss://[::1]:6379/0", "unix:///run/redis.sock?db=1"])
def test_a_url_may_name_a_host_or_a_socket(url):
    assert by_flags({"redis.url": url}).settings.redis.url.get_secret_value() == url


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("foo=bar", "foo: leave it out"),
        ("foo", "foo: leave it out"),
        ("decode_responses=True&db=1", "decode_responses: leave it out"),
        ("protocol=3", "protocol: leave it out"),
        ("client_name=x", "client_name: leave it out"),
        ("max_connections=abc", "max_connections: leave it out"),
        ("socket_timeout=600", "socket_timeout: set redis.socket_timeout_ms instead"),
        ("socket_connect_timeout=600", "socket_connect_timeout: set redis.socket_timeout_ms instead"),
        ("ssl_cert_reqs=none", "ssl_cert_reqs: name whom to trust in redis.ssl_cafile instead"),
        ("ssl_check_hostname=false", "ssl_check_hostname: name whom to trust in redis.ssl_cafile instead"),
        ("ssl_ca_certs=/ca.pem", "ssl_ca_certs: name whom to trust in redis.ssl_cafile instead"),
        ("ssl_certfile=/own.pem", "ssl_certfile: set redis.ssl_certfile instead"),
        ("ssl_keyfile=/own.key", "ssl_keyfile: set redis.ssl_keyfile instead"),
        ("foo=1&bar=2", "foo: leave it out; bar: leave it out"),
        ("db=x", "db is a number of at most 5 digits"),
        ("db=", "db is a number of at most 5 digits"),
        ("db=1&db=2", "db is said twice"),
    ],
)
def test_after_the_question_mark_of_a_url_nothing_overrides_what_settings_say(query, told):
    problem = problem_of(redis__url=f"rediss://cache?{query}")
    assert (problem.key, problem.value) == ("redis.url", "rediss://cache?***")
    assert problem.allowed.endswith(told)


@pytest.mark.parametrize("url", ["redis://cache/1?db=2", "redis://u@cache?username=v", "redis://:p@cache?password=q"])
def test_what_a_url_says_before_the_question_mark_is_not_said_again(url):
    assert problem_of(redis__url=url).allowed.endswith("is said twice")


@pytest.mark.parametrize("query", [f"{SECRET}", "pass=hunter2-тайна", "hunter2@cache", "a=b&hunter2=@cache", "password=p@ss&hunter2=1"])
def test_what_may_be_part_of_a_password_is_not_told_as_the_name_of_an_option(query):
    problem = problem_of(redis__url=f"redis://user:123?{query}")
    assert "hunter2" not in str(problem)
    assert "username and password" in problem.allowed


@pytest.mark.parametrize("url", ["redis://cache/1", "unix:///run/redis.sock", "redis://cache?db=1"])
def test_a_cluster_has_one_database_and_no_socket(url):
    assert problem_of(redis__url=url, redis__cluster=True).key == "redis.url"
    assert by_flags({"redis.url": "redis://cache/0", "redis.cluster": True}).settings.redis.cluster


@pytest.mark.parametrize("url", ["redis://u:p@cache", "redis://cache?password=p&username=u"])
def test_user_and_password_stand_in_the_url_or_beside_it(url):
    problems = problems_of(flags={"redis.url": url, "redis.username": "u", "redis.password": "p"})
    assert {problem.key for problem in problems} == {"redis.username", "redis.password"}


@pytest.mark.parametrize("namespace", ["", "a{b", "a}b", "a b", "x" * 65, "a\n"])
def test_a_namespace_can_hold_nothing_that_would_move_a_key_to_another_slot(namespace):
    assert problem_of(redis__namespace=namespace).key == "redis.namespace"


def test_grades_are_kept_in_their_canonical_spelling():
    assert by_flags({"join.grades": "click = 1.0 ,purchase=3"}).settings.join.grades == "purchase=3, click=1"
    assert parse_grades(Settings().join.grades).grades == (0, 1, 2, 3)


def test_a_problem_in_the_grades_names_the_rule():
    problem = problem_of(join__grades="click=1, watch<3=1")
    assert "'watch<3=1'" in problem.allowed


def test_relevance_must_be_within_reach_of_the_grades():
    assert by_flags({"metrics.relevant_grade": 3}).settings.metrics.relevant_grade == 3
    assert problem_of(metrics__relevant_grade=3.5).key == "metrics.relevant_grade"
    assert problem_of(join__grades="skip=0").key == "metrics.relevant_grade"
    assert problem_of(metrics__relevant_grade=0).key == "metrics.relevant_grade"


def test_cutoffs_reach_to_the_longest_list():
    assert by_flags({"metrics.cutoffs": [1, 1000]}).settings.metrics.cutoffs == (1, 1000)
    for cutoffs in ([1001], [0], [5, 5], [], [True], ["x"]):
        assert problem_of(metrics__cutoffs=cutoffs).key == "metrics.cutoffs"


def test_metrics_are_named_once_and_known():
    for names in (["ndgc"], ["mrr", "mrr"], []):
        assert problem_of(metrics__names=names).key == "metrics.names"


def test_a_metric_with_a_cut_off_is_told_where_that_belongs():
    assert problem_of(metrics__names=["ndcg@10"]).allowed.endswith("ndcg@10 is none of them, and its cut-off belongs in metrics.cutoffs")


def test_every_metric_that_the_stream_publishes_may_be_asked_for_and_no_other():
    names = by_flags({"metrics.names": ",".join(METRIC_NAMES)}).settings.metrics.names
    assert names == METRIC_NAMES
    for name in {*ALL_METRIC_NAMES} - {*METRIC_NAMES}:
        told = problem_of(metrics__names=["mrr", name]).allowed
        assert told == f"must be a list of distinct names out of {', '.join(METRIC_NAMES)}; {name} is none of them"


def test_the_limits_of_an_event_are_those_of_the_event_model():
    assert Settings().events.limits == EventLimits()
    assert by_flags({"events.items_max": 50}).settings.events.limits == EventLimits(items_max=50)


# ---------------------------------------------------------------------------------------------------- windows


@pytest.mark.parametrize(
    ("given", "text", "ms"),
    [
        ("1ms", "1ms", 1),
        ("90s", "90s", 90_000),
        ("60m", "60m", 3_600_000),
        ("1h", "1h", 3_600_000),
        ("366d", "366d", MS_MAX),
        (1, "1ms", 1),
        (1500, "1500ms", 1500),
        ("90000", "90s", 90_000),
        (3_600_000, "1h", 3_600_000),
        (86_400_000, "1d", 86_400_000),
    ],
)
def test_a_duration_keeps_the_text_that_was_written(given, text, ms):
    assert (parse_duration(given).text, parse_duration(given).ms) == (text, ms)


@pytest.mark.parametrize("given", ["", "m", "-5m", "5 m", "5M", "1.5h", "5w", "0", "0s", "367d", "\u0665m", 0, -1, 1.5, True, None, [5]])
def test_what_is_no_duration_is_refused(given):
    with pytest.raises(ValueError, match="a duration"):
        parse_duration(given)


@given(st.integers(1, MS_MAX))
def test_a_plain_number_of_milliseconds_is_told_in_a_unit_that_says_the_same(ms):
    told = parse_duration(ms)
    assert (parse_duration(told.text), told.ms) == (told, ms)


def test_a_window_that_is_no_whole_number_of_panes_is_refused_naming_both():
    problem = problem_of(windows__windows=["2m", "90s"], windows__pane_ms=60_000)
    assert (problem.key, problem.value) == ("windows.windows", '["2m", "90s"]')
    assert "90s (90000 ms)" in problem.allowed
    assert "windows.pane_ms is 60000" in problem.allowed


def test_a_segment_whose_label_could_be_that_of_another_is_refused():
    problem = problem_of(windows__segments=["a", "a=b"])
    assert (problem.key, problem.value) == ("windows.segments", '["a", "a=b"]')
    assert problem.allowed == (
        "must be a list of at most 32 distinct names without =;"
        " a segment is shown as name=value, and with = in its name could be taken for another"
    )


def test_the_same_window_in_two_spellings_is_refused():
    assert "twice" in problem_of(windows__windows=["60m", "1h"]).allowed


def test_panes_are_kept_for_the_longest_window_and_a_day_unless_told():
    assert Settings().windows.retention_ms == 3_600_000 + 86_400_000
    assert by_flags({"windows.windows": "2d,1h"}).settings.windows.retention_ms == 3 * 86_400_000


def test_panes_are_kept_for_the_longest_window_at_least():
    assert by_flags({"windows.retention_ms": 3_600_000}).settings.windows.retention_ms == 3_600_000
    assert problem_of(windows__retention_ms=3_599_999).key == "windows.retention_ms"


def test_the_number_of_kept_panes_is_limited():
    most = PANES_MAX * 60_000
    assert by_flags({"windows.retention_ms": most}).settings.windows.retention_ms == most
    problem = problem_of(windows__retention_ms=most + 1)
    assert problem.key == "windows.retention_ms"
    assert problem.allowed.endswith("set windows.pane_ms to at least 60001")


def test_windows_that_keep_too_many_panes_are_told_by_their_own_name_where_nobody_said_how_long():
    most = f"{PANES_MAX * 1_000 - 86_400_000}ms"
    assert by_flags({"windows.windows": most, "windows.pane_ms": 1_000}).settings.windows.retention_ms == PANES_MAX * 1_000
    problem = problem_of(windows__windows=["25h"], windows__pane_ms=1_000)
    assert (problem.key, problem.value) == ("windows.windows", '["25h"]')
    assert "for the longest and a day, 176400000 ms" in problem.allowed
    assert problem.allowed.endswith("set windows.pane_ms to at least 1764")


# --------------------------------------------------------------------------------------------------- warnings


def test_attribution_beyond_the_gap_is_a_warning_and_at_the_gap_it_is_not():
    assert by_flags({"join.attribution_ms": 1_800_000}).warnings == ()
    (warning,) = by_flags({"join.attribution_ms": 1_800_001}).warnings
    assert warning.startswith("join.attribution_ms (1800001) exceeds join.gap_ms (1800000)")


def test_retention_that_ends_before_a_window_is_final_is_a_warning():
    enough = 3_600_000 + 60_000 + 60_000 + 1_800_000
    assert by_flags({"windows.retention_ms": enough}).warnings == ()
    (warning,) = by_flags({"windows.retention_ms": enough - 1}).warnings
    assert "never appear" in warning


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"kafka.sasl_username": "u", "kafka.ssl_cafile": "/ca"}, ["kafka.sasl_username: not used", "kafka.ssl_cafile: not used"]),
        ({**SASL, "kafka.security_protocol": "SSL"}, ["kafka.sasl_mechanism, kafka.sasl_username, kafka.sasl_password: not used"]),
        ({**SASL, "kafka.ssl_cafile": "/ca"}, []),
        ({"redis.ssl_cafile": "/ca"}, ["redis.ssl_cafile: not used"]),
        ({"redis.ssl_cafile": "/ca", "redis.url": "rediss://cache"}, []),
        ({"redis.allow_eviction": True}, ["redis.allow_eviction is true"]),
        ({"redis.socket_timeout_ms": 9_000}, []),
        ({"redis.socket_timeout_ms": 5_000, "redis.cluster": True}, []),
        ({"redis.socket_timeout_ms": 5_001, "redis.cluster": True}, ["redis.socket_timeout_ms (5001) is more than 5000"]),
    ],
)
def test_settings_that_do_nothing_or_risk_state_are_warned_of(given, told):
    warnings = by_flags(given).warnings
    assert len(warnings) == len(told)
    assert all(warning.startswith(start) for warning, start in zip(warnings, told, strict=True))


# ---------------------------------------------------------------------------------------------------- the port


@given(st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=40), st.text(max_size=40))
@settings(max_examples=4, deadline=None)  # a try is meant to cost something
def test_a_hash_knows_its_password_and_no_other(password, other):
    stored = PasswordHash.parse(hash_password(password))
    assert stored.matches(password.encode())
    assert stored.matches(other.encode("utf-8", "replace")) == (other == password)


def test_the_command_that_the_reference_names_prints_a_hash():
    (command,) = [line.removeprefix("# ") for line in REFERENCE.read_text().splitlines() if "hash_password" in line]
    assert command.startswith("python -c '")
    done = subprocess.run(
        command.replace("python", sys.executable, 1), shell=True, input="open sesame\n", capture_output=True, text=True,
        start_new_session=True, check=True, cwd=REFERENCE.parent.parent,
    )  # fmt: skip  # in a session without a terminal it asks standard input
    assert PasswordHash.parse(done.stdout.strip().rpartition(" ")[2]).matches(b"open sesame")


def test_two_hashes_of_a_password_differ_and_neither_shows_itself():
    one, other = hash_password("open sesame"), hash_password("open sesame")
    assert one != other
    assert one.startswith("scrypt:16384:8:1:")
    assert not set("$`'\"\\ ") & set(one)
    assert one.split(":")[4] not in repr(PasswordHash.parse(one))


@pytest.mark.parametrize("password", ["", "a\n", "\x00"])
def test_a_password_that_nobody_could_type_gets_no_hash(password):
    with pytest.raises(ValueError, match="at least one character"):
        hash_password(password)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("open sesame", "has the form scrypt:N:r:p:SALT:DIGEST"),
        ("scrypt:16384:8:1:c2FsdA", "has the form"),
        ("scrypt:1024:8:1:{salt}:{digest}", "N is a power of two from 16384 to 131072"),
        ("scrypt:20000:8:1:{salt}:{digest}", "N is a power of two"),
        ("scrypt:262144:8:1:{salt}:{digest}", "N is a power of two"),
        ("scrypt:16384:4:1:{salt}:{digest}", "r from 8 to 32"),
        ("scrypt:16384:8:0:{salt}:{digest}", "p from 1 to 4"),
        ("scrypt:131072:32:1:{salt}:{digest}", "128 * N * r, the bytes that a login takes, is at most 268435456"),
        ("scrypt:16384:8:1:c2FsdA:{digest}", "the salt has 16 to 64 bytes, the digest 32"),
        ("scrypt:16384:8:1:{salt}:{salt}", "the salt has 16 to 64 bytes, the digest 32"),
        ("scrypt:16384:8:1:{salt}:{digest}xx", "not base64"),
    ],
)
def test_what_is_no_hash_is_refused_with_the_rule(text, rule):
    salt, digest = PASSWORD_HASH.split(":")[4:]
    (problem,) = problems_of(flags={"http.username": "u", "http.password_hash": text.format(salt=salt, digest=digest)})
    assert (problem.key, problem.value) == ("http.password_hash", "***")
    assert rule in problem.allowed


def test_a_user_of_the_port_and_the_hash_belong_together():
    assert problem_of(http__username="u").key == "http.password_hash"
    assert problem_of(http__password_hash=PASSWORD_HASH).key == "http.username"
    assert "a colon" in problem_of(http__username="a:b", http__password_hash=PASSWORD_HASH).allowed


def test_a_key_of_the_port_needs_its_certificate():
    assert problem_of(http__ssl_keyfile="/key").allowed == "is needed with http.ssl_keyfile: a key alone identifies nobody"


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"http.host": "127.0.0.1"}, 0),
        ({"http.host": "localhost"}, 0),
        ({"http.host": "::1"}, 0),
        ({"http.host": "0.0.0.0"}, 1),
        ({"http.host": "0.0.0.0", "http.ssl_certfile": "/certificate"}, 0),
    ],
)
def test_a_password_that_would_travel_readable_is_warned_of(flags, told):
    warnings = by_flags({"http.username": "u", "http.password_hash": PASSWORD_HASH, **flags}).warnings
    assert len([warning for warning in warnings if "the password travels readable" in warning]) == told


# --------------------------------------------------------------------------------------------- frozen settings


def test_settings_are_frozen():
    settings = Settings()
    for change in (lambda: setattr(settings, "join", None), lambda: setattr(settings.join, "gap_ms", 1)):
        with pytest.raises(ValidationError, match="frozen"):
            change()


def test_settings_built_by_hand_obey_the_rules_between_sections():
    with pytest.raises(ValidationError, match=r"kafka\.dead_letter_topic"):
        Settings.model_validate({"kafka": {"dead_letter_topic": "feedback"}})
    with pytest.raises(ValidationError):
        Settings.model_validate({"kafka": {"unknown": 1}})


# --------------------------------------------------------------------------------------- reference and rendering


def test_the_committed_reference_file_is_what_the_model_says():
    assert REFERENCE.read_text() == reference_toml(), "run: python -m streammetrics.config > deploy/streammetrics.toml"


def test_the_reference_file_gives_exactly_the_defaults_and_leaves_no_key_out():
    loaded = load(REFERENCE, {}, {})
    assert loaded.settings == Settings()
    from_default = {key for key, origin in loaded.origins.items() if origin == "default"}
    assert from_default == {"windows.retention_ms"}


def test_the_value_that_the_reference_file_only_mentions_is_the_default_too():
    assert f"#retention_ms = {Settings().windows.retention_ms:_}\n" in reference_toml()


def test_every_key_is_described_with_what_is_allowed():
    for key, known in keys().items():
        assert known.describes.endswith((".", ".)")), key
        assert known.allowed, key
        assert (known.allowed == "true or false") == isinstance(known.default, bool), key
        assert environment_name(key) in reference_toml()


def test_the_effective_settings_load_back_as_themselves(tmp_path):
    flags = {
        "join.future_ms": "off",
        "kafka.topics": "a",
        "windows.windows": "90000,3m",
        "windows.pane_ms": 30_000,
        "metrics.relevant_grade": 0.5,
    }
    flags |= {"kafka.group_id": 'q"\\u00e9é', "worker.role": "exporter"}
    loaded = by_flags(flags)
    again = by_flags(
        {
            f"{section}.{leaf}": value
            for section, leaves in tomllib.loads(render_effective(loaded)).items()
            for leaf, value in leaves.items()
        }
    )
    assert again.settings == loaded.settings


def test_the_effective_settings_tell_every_origin(tmp_path):
    loaded = configured(tmp_path, "[join]\ngap_ms = 2000000\n", {"STREAMMETRICS_HTTP_PORT": "80"}, log__level="debug")
    lines = render_effective(loaded).splitlines()
    assert f"gap_ms = 2_000_000  # file {tmp_path}/streammetrics.toml" in lines
    assert "port = 80  # environment STREAMMETRICS_HTTP_PORT" in lines
    assert 'level = "debug"  # command line' in lines
    assert 'role = "all"  # default' in lines
    assert len([line for line in lines if "  # " in line]) == len(keys())


def test_the_effective_settings_show_that_a_secret_is_set_but_not_which():
    shown = tomllib.loads(render_effective(by_flags({"redis.password": SECRET, "redis.url": "redis://cache:1/0"})))
    assert (shown["redis"]["password"], shown["redis"]["url"], shown["kafka"]["sasl_password"]) == ("***", "redis://cache:1/0", "")


def test_a_message_stays_one_short_printable_line_whatever_the_value():
    for value in ("x\ny\x00", "x" * 10_000, ["\ud800"], {"a": "\n"}):
        problem = problem_of(log__level=value)
        assert problem.value.isprintable()
        assert len(problem.value) <= 120
    assert json.dumps(["a", "b"]) == problem_of(log__level=["a", "b"]).value


# --------------------------------------------------------------------------------------------------- experiments

NAMED = """
[experiments]
margin = 0.02
paging = ["ndcg@10"]
[experiments.named.ranker-v7]
control = "old"
shares = { old = 1, new = 3 }
start = 2026-01-31T09:00:00Z
end = "2026-03-01T00:00:00+01:00"
alpha = 0.01
"""


def test_what_was_decided_about_one_experiment_wins_over_what_holds_for_all(tmp_path):
    experiments = configured(tmp_path, NAMED).settings.experiments
    policy, general = experiments.policy("ranker-v7"), experiments.policy("another")
    assert (policy.control, policy.shares, policy.alpha) == ("old", {"old": 1, "new": 3}, 0.01)
    assert (policy.margin, policy.paging) == (0.02, ("ndcg@10",)) == (general.margin, general.paging)
    assert (general.control, general.shares, general.alpha) == (None, None, 0.05)


def test_the_times_of_an_experiment_become_milliseconds(tmp_path):
    rules = build_engine(configured(tmp_path, NAMED).settings, ["events"]).rules.experiments
    assert rules is not None
    assert rules.span("ranker-v7") == (1_769_850_000_000, 1_772_319_600_000)
    assert rules.span("another") == (None, None)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-01-31T09:00:00.123900+00:00", 1_769_850_000_123),
        ("2026-01-31T10:00:00.999999+01:00", 1_769_850_000_999),
        ("9999-12-31T23:59:59.999999+00:00", 253_402_300_799_999),
    ],
)
def test_a_moment_is_the_same_number_wherever_it_is_said(tmp_path, text, ms):
    toml = f'[kafka]\nstart = "{text}"\n[experiments.named]\nbegins = {{ start = "{text}", cuped_days = 1 }}\nends = {{ end = "{text}" }}\n'
    settings = configured(tmp_path, toml).settings
    rules = build_engine(settings, ["events"]).rules.experiments
    assert rules is not None
    assert rules.span("begins") == (ms, None)
    assert rules.span("ends") == (None, ms)
    assert rules.earlier == (("begins", ms - 86_400_000, ms),)
    assert kafka_connection(settings).start == ms == iso_ms(text)


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        ("2026-01-31T10:00:00.5+01:00", 1_769_850_000_500),
        ("2026-01-31T09:00:00.0009999Z", 1_769_850_000_000),
        (1_769_850_000_001, 1_769_850_000_001),
        ("1769850000001", 1_769_850_000_001),
        ("1970-01-01T00:00:00Z", 0),
        ("earliest", "earliest"),
        ("latest", "latest"),
    ],
)
def test_a_namespace_may_begin_at_a_time(given, ms):
    assert kafka_connection(by_flags({"kafka.start": given}).settings).start == ms


def test_a_start_from_a_file_is_shown_as_a_file_would_hold_it(tmp_path):
    for text in ("2026-01-31T09:00:00.250Z", '"2026-01-31T09:00:00.250Z"', "1769850000250", '"1769850000250"'):
        loaded = configured(tmp_path, f"[kafka]\nstart = {text}\n")
        assert tomllib.loads(render_effective(loaded))["kafka"]["start"] == loaded.settings.kafka.start
        assert kafka_connection(loaded.settings).start_told == "2026-01-31T09:00:00.250+00:00"


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("yesterday", "a time is ISO-8601"),
        ("2026-01-31T09:00:00", "a time needs its zone"),
        ("2026-01-31", "a time needs its zone"),
        (1_769_850_000, "were seconds meant"),
        ("1769850000", "were seconds meant"),
        (-1, "were seconds meant"),
        (999_999_999_999_999, "before the year 10000"),
        (10**30, "before the year 10000"),
        ("1969-12-31T23:59:59Z", "does not lie before 1970"),
        ("1970-01-01T00:30:00+01:00", "does not lie before 1970"),
        (True, "true and false are no numbers"),
        (1.5, "a time is ISO-8601"),
        ("", "a time is ISO-8601"),
        ([], "a time is ISO-8601"),
    ],
)
def test_what_is_no_start_is_refused_with_what_is_allowed(given, rule):
    problem = problem_of(kafka__start=given)
    assert problem.key == "kafka.start"
    assert problem.allowed.startswith("must be earliest, latest, or a time: ISO-8601 with a zone, or epoch milliseconds; ")
    assert rule in problem.allowed


def test_the_longest_answer_of_redis_leaves_a_waiting_loop_well():
    most_ms = by_flags({"redis.socket_timeout_ms": 9_000}).settings.redis.socket_timeout_ms
    assert problem_of(redis__socket_timeout_ms=most_ms + 1).key == "redis.socket_timeout_ms"
    assert 3 * most_ms < STUCK_SECONDS * 1_000, "a turn may wait for a few slow answers before one fails"


def test_limits_that_let_one_user_outgrow_what_redis_takes_are_warned_of():
    assert not by_flags({}).warnings
    of_lists, of_events = by_flags({"events.event_bytes_max": 1_048_576}).warnings
    assert "join.lists_open_max (1000) lists of events.event_bytes_max (1048576) bytes are more than 500 MiB" in of_lists
    (warning,) = by_flags({"join.session_events_max": 2_001}).warnings
    assert "join.session_events_max (2001) events of events.event_bytes_max (262144) bytes are more than 500 MiB" in warning
    assert "join.session_events_max (2000) events" in of_events


@pytest.mark.parametrize("name", ["streammetrics.toml", "ubi.toml"])
def test_no_settings_that_are_shipped_are_warned_of(name):
    assert not load(DEPLOY / name, {}, {}).warnings


def test_the_days_before_an_experiment_become_milliseconds(tmp_path):
    toml = "[experiments]\ncuped_verdict = true\n[experiments.named.x]\nstart = 2026-01-31T09:00:00Z\ncuped_days = 2\n"
    toml += '[experiments.named.y]\nstart = "2026-03-01T00:00:00+01:00"\ncuped_verdict = false\n'
    settings = configured(tmp_path, toml).settings
    rules = build_engine(settings, ["events"]).rules.experiments
    assert rules is not None
    assert rules.earlier == (("x", 1_769_850_000_000 - 2 * 86_400_000, 1_769_850_000_000),)
    assert [settings.experiments.policy(name).cuped_verdict for name in ("x", "y", "z")] == [True, False, True]


def test_the_report_shows_the_times_of_experiments_as_they_were_meant(tmp_path, recwarn):
    named = configured(tmp_path, NAMED).settings.model_dump(mode="json")["experiments"]["named"]
    assert (named["ranker-v7"]["start"], named["ranker-v7"]["end"]) == ("2026-01-31T09:00:00Z", "2026-03-01T00:00:00+01:00")
    assert not recwarn


def test_experiments_may_be_switched_off(tmp_path):
    assert build_engine(configured(tmp_path, "[experiments]\nenabled = false\n").settings, ["events"]).users is None


@pytest.mark.parametrize(
    ("users", "enabled", "counted"),
    [("auto", True, True), ("auto", False, False), ("on", False, True), ("on", True, True), ("off", True, False)],
)
def test_users_are_counted_in_windows_where_that_is_wanted_and_by_default_with_experiments(tmp_path, users, enabled, counted):
    text = f'[windows]\nusers = "{users}"\n[experiments]\nenabled = {str(enabled).lower()}\npatience_ms = 7\n'
    reach = build_engine(configured(tmp_path, text).settings, ["events"]).rules.reach
    assert reach == (UniqueUserRules(panes=60, patience_ms=7) if counted else None)


def test_all_that_is_wrong_with_the_rules_of_experiments_is_told_at_once_and_where_it_was_said(tmp_path):
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


def test_experiments_are_named_in_the_environment_as_json():
    loaded = load(None, {"STREAMMETRICS_EXPERIMENTS_NAMED": '{"a b": {"control": "old"}}'}, {})
    assert loaded.settings.experiments.policy("a b").control == "old"
    (problem,) = problems_of(environ={"STREAMMETRICS_EXPERIMENTS_NAMED": "{"})
    assert "not a JSON object" in problem.allowed


@pytest.mark.parametrize(
    ("toml", "key", "rule"),
    [
        ("[experiments.named.x]\nshares = { a = 1, b = 0 }", "experiments.named", r"x\.shares\.b"),
        ("[experiments.named.x]\nshares = { a = 1, b = 'x' }", "experiments.named", r"objects; x\.shares\.b: must be a number$"),
        ("[experiments.named.x]\nmin_users = 1.5", "experiments.named", r"objects; x\.min_users: "),
        ("[experiments.named.x]\nstart = 2026-01-31T09:00:00", "experiments.named", r"x\.start: a time needs its zone"),
        ("[experiments.named.x]\nmarign = 0.1", "experiments.named", r"x\.marign: there is no such key; did you mean margin\?$"),
        ("[experiments.named.x]\ncolour = 1", "experiments.named", r"x\.colour: there is no such key$"),
        ("[experiments.named]\nx = 1", "experiments.named", "; x: must be a table$"),
        ("[experiments.named.x]\nshares = 1", "experiments.named", r"; x\.shares: must be a table$"),
        ('[experiments.named.""]\ncontrol = "c"', "experiments.named", '; the name "": must not be empty$'),
        ('[experiments.named.x]\nshares = { c = 1, "" = 1 }', "experiments.named", r'; x\.shares: the name "": must not be empty$'),
        (
            '[experiments.named."a\\u0000\\u00e9"]\ncontrol = "c"',
            "experiments.named",
            r'; the name "a\\u0000\\u00e9": control characters are not allowed$',
        ),
        (
            '[experiments.named."a.b\\u001b"]\nmin_user = 1',
            "experiments.named",
            r"'a\.b\\x1b\.min_user': there is .* did you mean min_users\?$",
        ),
        (
            "[experiments.named.x]\nshares = { a = 1 }",
            "experiments.named",
            "x: shares: .* two or more variants; leave them out for equal shares$",
        ),
        (
            "[experiments.named.x]\nshares = { a = 1e308, b = 1e308 }",
            "experiments.named",
            "x: share of 'a': got 1e[+]308; must be from",
        ),
        ("[experiments.named.x]\nalpha = 2", "experiments.named", "x: alpha: got 2"),
        ("[experiments.named.x]\npaging = ['ndcg@7']", "experiments.named", "x: ndcg@7 is not measured; must be one of ndcg@5"),
        ("[experiments.named.x]\ncontrol = 'c'\nshares = { a = 1, b = 1 }", "experiments.named", "x: control: got 'c'"),
        (
            "[experiments.named.x]\nstart = 2026-02-01T00:00:00Z\nend = 2026-01-01T00:00:00Z",
            "experiments.named",
            "x: start must be before end",
        ),
        ("[experiments.named.x]\ncuped_days = 7", "experiments.named", "x: cuped_days = 7 needs a start"),
        ("[experiments.named.x]\nstart = 2026-02-01T00:00:00Z\ncuped_days = 0", "experiments.named", r"x\.cuped_days"),
        ("[experiments]\nalpha = 1", "experiments.alpha", "alpha: got 1"),
        ("[experiments]\npaging = ['mrr@3']", "experiments.paging", "mrr@3 is not measured"),
        ("[experiments]\nmetrics = ['mrr@3']", "experiments.metrics", "mrr@3 is not computed"),
        ("[experiments]\nidle_days = 1\n[join]\nattribution_ms = 86_400_000", "experiments.idle_days", "before its lists enter"),
    ],
)
def test_what_cannot_be_meant_of_experiments_is_refused_with_its_place(tmp_path, toml, key, rule):
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, toml)
    (problem,) = caught.value.problems
    assert problem.key == key
    assert re.search(rule, problem.allowed)


def test_effective_settings_show_experiments_as_toml(tmp_path):
    text = render_effective(configured(tmp_path, NAMED))
    shown = tomllib.loads(text)["experiments"]["named"]
    assert shown["ranker-v7"]["shares"] == {"old": 1, "new": 3}
    assert tomllib.loads(text)["experiments"]["margin"] == 0.02
