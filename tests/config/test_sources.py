"""Tests of the sources of settings: files, environment variables, secrets in files, unknown names."""

from __future__ import annotations

import pytest

from streammetrics.config import (
    Settings,
    environment_name,
    keys,
    load,
)
from streammetrics.config.sources import FILE_BYTES_MAX, SECRET_BYTES_MAX, _is_service_link
from streammetrics.errors import ConfigError
from tests.support.settings import SECRET, configured, problem_of, problems_of

TOO_LONG = "0x" + "f" * 5_000


def test_a_secret_from_a_file_loses_its_line_end(tmp_path):
    path = tmp_path / "password"
    path.write_bytes(f"{SECRET}\r\n".encode())
    loaded = load(None, {"STREAMMETRICS_REDIS_PASSWORD_FILE": str(path)}, {})
    assert loaded.settings.redis.password is not None
    assert loaded.settings.redis.password.get_secret_value() == SECRET
    assert loaded.origins["redis.password"] == f"file {path}, environment STREAMMETRICS_REDIS_PASSWORD_FILE"


def test_the_redis_url_can_come_from_a_file(tmp_path):
    path = tmp_path / "url"
    path.write_text("redis://:p@cache/3")
    loaded = load(None, {"STREAMMETRICS_REDIS_URL_FILE": str(path)}, {})
    assert loaded.settings.redis.url.get_secret_value() == "redis://:p@cache/3"


def test_files_can_begin_with_a_byte_order_mark(tmp_path):
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
        (b"", "exactly one non-empty line"),
        (b"\n", "exactly one non-empty line"),
        (b"a\nb\n", "exactly one non-empty line"),
        (b"\xff", "UTF-8"),
        (b"x" * (SECRET_BYTES_MAX + 1), "more than"),
    ],
)
def test_a_secrets_file_without_exactly_one_line_is_rejected(tmp_path, content, rule):
    path = tmp_path / "password"
    path.write_bytes(content)
    (problem,) = problems_of(environ={"STREAMMETRICS_KAFKA_SASL_PASSWORD_FILE": str(path)})
    assert (problem.key, problem.value) == ("kafka.sasl_password", str(path))
    assert rule in problem.allowed


@pytest.mark.parametrize("name", ["missing", ".", "nul\x00"])
def test_an_unreadable_secrets_file_is_reported_with_its_variable(tmp_path, name):
    (problem,) = problems_of(environ={"STREAMMETRICS_REDIS_PASSWORD_FILE": f"{tmp_path}/{name}"})
    assert (problem.key, problem.origin) == ("redis.password", "environment STREAMMETRICS_REDIS_PASSWORD_FILE")


def test_an_empty_variable_for_a_secrets_file_is_rejected() -> None:
    (problem,) = problems_of(environ={"STREAMMETRICS_REDIS_PASSWORD_FILE": ""})
    assert str(problem) == (
        "redis.password = (empty) (from environment STREAMMETRICS_REDIS_PASSWORD_FILE): "
        "must name the file with the secret; unset the variable if there is none"
    )


def test_a_secret_given_twice_is_rejected(tmp_path):
    environ = {"STREAMMETRICS_REDIS_PASSWORD": SECRET, "STREAMMETRICS_REDIS_PASSWORD_FILE": str(tmp_path)}
    (problem,) = problems_of(environ=environ)
    assert "STREAMMETRICS_REDIS_PASSWORD is set too" in problem.allowed


def test_only_secrets_can_come_from_a_file():
    (problem,) = problems_of(environ={"STREAMMETRICS_HTTP_PORT_FILE": "/port"})
    assert problem.allowed == "only secrets can be read from a file; give the value in STREAMMETRICS_HTTP_PORT"


@pytest.mark.parametrize(
    ("toml", "key", "suggestion"),
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
def test_an_unknown_key_is_rejected_with_a_suggestion(tmp_path, toml, key, suggestion):
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, toml)
    (problem,) = caught.value.problems
    assert (problem.key, problem.value, problem.allowed) == (key, "***", f"unknown key; did you mean {suggestion}?")


def test_an_unknown_key_without_a_similar_one_gets_no_suggestion():
    assert problem_of(zzz__qqq=1).allowed == "unknown key"


def test_an_experiment_in_the_wrong_table_is_sent_to_the_right_one():
    assert (
        problem_of(**{"experiments.ranker-v7": "{}"}).allowed
        == "unknown key; rules of one experiment go below [experiments.named.ranker-v7]"
    )


def test_a_key_inside_a_value_is_rejected_with_the_parent_key():
    parent = "experiments.named is a table of tables; in the environment or by --set, a JSON object of objects"
    assert problem_of(**{"experiments.named.x.control": "a"}).allowed == f"unknown key; {parent}"


@pytest.mark.parametrize("toml", ["redis = 'x'", "[[redis]]\nurl = 'x'"])
def test_a_section_that_is_not_a_table_is_rejected(tmp_path, toml):
    with pytest.raises(ConfigError, match=r"redis = .*: must be a table: write \[redis\]"):
        configured(tmp_path, toml)


def test_an_empty_section_is_allowed(tmp_path):
    assert configured(tmp_path, "[join]\n").settings == Settings()


def test_an_unknown_variable_is_rejected_with_a_suggestion():
    (problem,) = problems_of(environ={"STREAMMETRICS_JOIN_GAP": "5"})
    assert (problem.key, problem.allowed) == (
        "STREAMMETRICS_JOIN_GAP",
        "unknown variable; did you mean STREAMMETRICS_JOIN_GAP_MS?",
    )


def test_kubernetes_service_variables_are_ignored():
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


def test_no_setting_looks_like_a_kubernetes_service_variable():
    assert not [key for key in keys() if _is_service_link(environment_name(key), "5")]


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"[join]\ngap_ms = \n", "line 2"),
        (b"[join]\ngap_ms = 1\ngap_ms = 2\n", "line 3"),
        (b"[join\n", "line 1"),
        (b"[log]\nlevel = info\n", "strings need quotes"),
        (b"[log]\n\n# \xff\n", "line 3"),
        (b"x = " + b"[" * 100_000, "nested too deeply"),
        (b"#" * (FILE_BYTES_MAX + 1), "more than"),
    ],
)
def test_a_file_that_is_not_toml_is_rejected_with_place_and_fix(tmp_path, content, rule):
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    (problem,) = problems_of(path)
    assert (problem.key, problem.value) == ("--config", str(path))
    assert rule in problem.allowed


@pytest.mark.parametrize(
    ("toml", "key"),
    [
        (f"[join]\ngap_ms = {TOO_LONG}", "join.gap_ms"),
        ("[join]\ngap_ms = -9_223_372_036_854_775_809", "join.gap_ms"),
        (f"[kafka]\nstart = {TOO_LONG}", "kafka.start"),
        (f"[events]\nreader = {TOO_LONG}", "events.reader"),
        (f"[windows]\nwindows = [60_000, {TOO_LONG}]", "windows.windows"),
        (f"[metrics]\ncutoffs = [{TOO_LONG}]", "metrics.cutoffs"),
        (f"[metrics]\nrelevant_grade = {TOO_LONG}", "metrics.relevant_grade"),
        ("[experiments]\nminimum_lift = 9_223_372_036_854_775_808", "experiments.minimum_lift"),
        (f"[experiments.named.a]\nshares = {{ a = {TOO_LONG}, b = 1 }}", "experiments.named"),
        (f"[experiments.named.a]\nstart = {TOO_LONG}", "experiments.named"),
        (f"[redis]\npassword = {TOO_LONG}", "redis.password"),
    ],
)
def test_a_number_in_a_file_outside_64_bits_is_rejected_with_its_key(tmp_path, toml, key):
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, toml + "\n")
    (problem,) = caught.value.problems
    assert (problem.key, problem.value) == (key, "***")
    assert problem.allowed == "a whole number in TOML must be from -9223372036854775808 to 9223372036854775807"


@pytest.mark.parametrize("name", ["missing.toml", "", "nul\x00.toml", "file/streammetrics.toml"])
def test_a_path_that_cannot_be_read_is_rejected(tmp_path, name):
    (tmp_path / "file").write_text("")
    (problem,) = problems_of(tmp_path / name)
    assert problem.key == "--config"
    assert problem.value.isprintable()
