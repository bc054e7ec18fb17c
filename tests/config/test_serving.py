"""Tests of the settings of the HTTP port."""

from __future__ import annotations

import pytest

from tests.support.settings import PASSWORD_HASH, by_flags, problem_of


def test_the_http_user_and_the_password_hash_require_each_other():
    assert problem_of(http__username="u").key == "http.password_hash"
    assert problem_of(http__password_hash=PASSWORD_HASH).key == "http.username"
    assert "a colon" in problem_of(http__username="a:b", http__password_hash=PASSWORD_HASH).allowed


def test_an_http_key_requires_its_certificate():
    assert problem_of(http__ssl_keyfile="/key").allowed == "is required with http.ssl_keyfile: a key needs its certificate"


@pytest.mark.parametrize(
    ("flags", "count"),
    [
        ({"http.host": "127.0.0.1"}, 0),
        ({"http.host": "localhost"}, 0),
        ({"http.host": "::1"}, 0),
        ({"http.host": "0.0.0.0"}, 1),
        ({"http.host": "0.0.0.0", "http.ssl_certfile": "/certificate"}, 0),
    ],
)
def test_an_unencrypted_http_password_is_a_warning(flags, count):
    warnings = by_flags({"http.username": "u", "http.password_hash": PASSWORD_HASH, **flags}).warnings
    assert len([warning for warning in warnings if "the password is sent" in warning]) == count
