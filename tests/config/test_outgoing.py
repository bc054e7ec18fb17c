"""Settings of requests that the program sends."""

from __future__ import annotations

import pytest

from tests.support.settings import by_flags, problems_of
from tests.support.tables import for_each


@pytest.mark.parametrize("url", ["http://exporter:9464", "https://exporter", "http://[::1]:9464/metrics/", ""])
def test_a_url_of_an_exporter_is_http(url: str) -> None:
    client_url = by_flags({"client.url": url}).settings.client.url
    assert (client_url.get_secret_value() if client_url else "") == url


@for_each(["exporter:9464", "ftp://x", "http://", "http://x:99999", "http://u:p@x", "http://x y", "http://x#a", "http://é", "http://a..b"])
def test_another_url_is_refused(url: str) -> None:
    (problem,) = problems_of(flags={"client.url": url})
    assert (problem.key, problem.value) == ("client.url", "***")


def test_a_login_needs_both_parts() -> None:
    assert [problem.key for problem in problems_of(flags={"client.password": "x"})] == ["client.username"]
    assert [problem.key for problem in problems_of(flags={"client.username": "x"})] == ["client.password"]


@pytest.mark.parametrize(("url", "warned"), [("http://exporter", True), ("https://exporter", False), ("http://127.0.0.1:1", False)])
def test_a_password_without_tls_is_warned_about(url: str, warned: bool) -> None:
    login = {"client.url": url, "client.username": "x", "client.password": "y"}
    assert any("client.url without https" in warning for warning in by_flags(login).warnings) == warned
