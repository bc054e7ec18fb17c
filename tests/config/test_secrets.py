"""Tests that no message and no output contains a secret."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from streammetrics.config import (
    Settings,
    keys,
    mask_url,
    render_effective,
)
from tests.support.settings import PASSWORD_HASH, SASL, SECRET, by_flags, problems_of
from tests.support.tables import for_each


@for_each([key for key, setting in keys().items() if setting.is_secret and key != "redis.url"])
def test_no_output_contains_a_secret(key: Any) -> None:
    limited = {"http.password_hash": PASSWORD_HASH, "client.url": "http://cache/hunter2"}
    secret = limited.get(key, SECRET)
    logins = {"http.username": "u", "http.password_hash": PASSWORD_HASH, "client.username": "u", "client.password": SECRET}
    loaded = by_flags({**SASL, **logins, key: secret})
    section, _, leaf = key.partition(".")
    assert getattr(getattr(loaded.settings, section), leaf).get_secret_value() == secret
    for text in (repr(loaded), str(loaded.settings), repr(loaded.settings), render_effective(loaded), str(loaded.settings.model_dump())):
        assert secret not in text
        assert ascii(secret)[1:-1] not in text


@pytest.mark.parametrize("url", [f"redis://sm:{SECRET}@cache/0", f"rediss://cache/0?password={SECRET}", f"redis://:{SECRET}@cache:6380"])
def test_no_output_contains_the_password_of_a_url(url):
    loaded = by_flags({"redis.url": url})
    assert loaded.settings.redis.url.get_secret_value() == url
    for text in (repr(loaded), str(loaded.settings), render_effective(loaded), str(loaded.settings.model_dump())):
        assert SECRET not in text
        assert "cache" in text


@for_each(
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
        {"http.username": "u", "http.password_hash": f"$2b$12${SECRET}{SECRET}"},
    ]
)
def test_no_error_about_a_setting_contains_a_secret(given: Any) -> None:
    assert problems_of(flags=given)


def test_no_error_about_a_variable_or_file_contains_a_secret(tmp_path):
    path = tmp_path / "broken.toml"
    path.write_text(f'[redis]\npassword = "{SECRET}\n')
    problems = problems_of(path, {"STREAMMETRICS_REDIS_PASWORD": SECRET})
    assert [problem.key for problem in problems] == ["--config", "STREAMMETRICS_REDIS_PASWORD"]


def test_errors_of_settings_built_in_code_contain_no_secret():
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"redis": {"password": [SECRET], "url": f"http://{SECRET}@x"}})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("url", [f"redis://cache?password=x@{SECRET}", f"redis://cache#x@{SECRET}", f"redis://:x?y@z@{SECRET}?@"])
def test_a_url_is_fully_masked_if_host_and_password_are_ambiguous(url):
    assert mask_url(url) == "redis://***"


@given(st.text(max_size=12), st.text(max_size=12))
def test_everything_before_the_last_at_sign_of_a_url_is_masked(user, password):
    masked = mask_url(f"redis://S{user}:S{password}S@cache:6379/0")
    assert "S" not in masked
    assert masked.startswith("redis://***")
