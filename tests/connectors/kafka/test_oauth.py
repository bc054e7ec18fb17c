"""Tokens of a login by OAUTHBEARER: when they are renewed, and what is said without one."""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.errors import KafkaConnectionError

from streammetrics.connectors.kafka import oauth
from streammetrics.connectors.kafka.oauth import OAuthLogin, OAuthTokens, expiry_of, tokens_of
from streammetrics.errors import ConfigError, SourceError
from tests.servers.certificates import Authority
from tests.servers.oauth import CLIENT_ID, CLIENT_SECRET, TokenEndpoint, TokenSigner, token_endpoint
from tests.support.sockets import dripping, receiver, replying

SIGNER = TokenSigner()


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with token_endpoint(SIGNER) as endpoint:
        yield endpoint


def tokens(endpoint: TokenEndpoint, **more: str) -> OAuthTokens:
    return OAuthTokens(OAuthLogin(token_url=endpoint.url, client_id=CLIENT_ID, **{"client_secret": CLIENT_SECRET, **more}))


def test_a_token_is_kept_for_four_fifths_of_its_life(endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tokens(endpoint)
    began = time.time()
    first = found.current()
    for later, requests in ((479, 1), (481, 2)):
        monkeypatch.setattr(time, "time", lambda later=later: began + later)
        found.current()
        assert len(endpoint.issued) == requests
    assert expiry_of(first) == pytest.approx(began + 600, abs=2)


def test_a_token_is_used_to_its_end_if_the_endpoint_is_away(endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    found, began = tokens(endpoint), time.time()
    first = found.current()
    endpoint.answer = 503, b"down"
    monkeypatch.setattr(time, "time", lambda: began + 590)
    assert found.current() == first
    monkeypatch.setattr(time, "time", lambda: began + 610)
    with pytest.raises(SourceError, match="refused a token with status 503: down"):
        found.current()
    with pytest.raises(KafkaConnectionError, match="status 503"):
        found.token()


def test_a_token_without_a_lifetime_is_kept_for_a_minute(endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    found, began = tokens(endpoint), time.time()
    for later, token in ((0, "one"), (59, "one"), (61, "two")):
        endpoint.answer = 200, json.dumps({"access_token": "one" if later == 0 else "two"}).encode()
        monkeypatch.setattr(time, "time", lambda later=later: began + later)
        assert found.current() == token


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (200, b"<html>", "answered something else than JSON"),
        (200, b"[]", "answered without an access_token"),
        (200, b'{"access_token": ""}', "answered without an access_token"),
        (200, b'{"access_token": "a\\u0001b"}', "answered without an access_token"),
        (400, b'{"error":"invalid_scope"}', 'status 400: {"error":"invalid_scope"}'),
        (302, b"http://elsewhere.test/", "refused a token with status 302"),
    ],
)
def test_an_unusable_answer_is_explained(endpoint: TokenEndpoint, status: int, body: bytes, words: str) -> None:
    endpoint.answer = status, body
    with pytest.raises(SourceError) as caught:
        tokens(endpoint).current()
    assert words in str(caught.value)
    assert CLIENT_SECRET not in str(caught.value)


def test_an_answer_that_is_no_http_does_not_end_the_thread_of_the_client() -> None:
    with receiver(replying(b"220 smtp ready\r\n")) as url, pytest.raises(KafkaConnectionError, match="220 smtp ready"):
        OAuthTokens(OAuthLogin(token_url=f"{url}/token", client_id=CLIENT_ID, client_secret=CLIENT_SECRET)).token()


@pytest.mark.parametrize("end", [b"Content-Length: 1000000", b"Connection: close"])
def test_an_endpoint_that_answers_byte_by_byte_holds_the_client_no_longer_than_its_limit(
    monkeypatch: pytest.MonkeyPatch, end: bytes
) -> None:
    monkeypatch.setattr(oauth, "TIMEOUT_SECONDS", 0.5)
    with (
        receiver(dripping(b"HTTP/1.1 200 OK\r\n" + end + b"\r\n\r\n")) as url,
        pytest.raises(SourceError, match=r"no answer within 0\.5 s"),
    ):
        OAuthTokens(OAuthLogin(token_url=f"{url}/token", client_id=CLIENT_ID, client_secret=CLIENT_SECRET)).current()


def test_a_wrong_secret_and_an_absent_endpoint_are_explained(endpoint: TokenEndpoint) -> None:
    with pytest.raises(SourceError, match=r"status 401.*check kafka.oauth_client_id"):
        tokens(endpoint, client_secret="wrong").current()
    endpoint.close()
    with pytest.raises(SourceError, match=r"no token can be had from .*refused"):
        tokens(endpoint).current()


def test_an_endpoint_with_tls_is_checked(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.server().bothfile)
    with token_endpoint(SIGNER, tls=context) as endpoint:
        assert tokens(endpoint, cafile=str(authority.cafile)).current()
        with pytest.raises(SourceError, match="its certificate is not trusted"):
            tokens(endpoint).current()
        with pytest.raises(ConfigError, match=r"kafka\.oauth_cafile"):
            tokens(endpoint, cafile=str(tmp_path / "none.pem")).current()


def test_a_token_file_is_read_for_each_connection(tmp_path: Path) -> None:
    file = tmp_path / "token"
    found = OAuthTokens(OAuthLogin(token_file=str(file)))
    for token in (SIGNER.token(), "opaque"):
        file.write_text(f"{token}\n")
        assert found.token() == token
    for content, words in (("", "must hold one token"), ("two tokens", "must hold one token"), (SIGNER.token(-60), "expired 6")):
        file.write_text(content)
        with pytest.raises(SourceError, match=words):
            found.current()
    file.unlink()
    with pytest.raises(SourceError, match="cannot be read"):
        found.current()


def test_aws_tokens_are_signed_requests_to_connect(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in (("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "word"), ("AWS_EC2_METADATA_DISABLED", "true")):
        monkeypatch.setenv(name, value)
    token = OAuthTokens(OAuthLogin(aws_region="eu-west-1")).current()
    url = urllib.parse.urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    query = dict(urllib.parse.parse_qsl(url.query))
    assert url.hostname == "kafka.eu-west-1.amazonaws.com"
    assert query["Action"] == "kafka-cluster:Connect"
    assert query["X-Amz-Credential"].startswith("AKIDEXAMPLE/")
    assert query["X-Amz-Signature"]
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(SourceError, match="AWS gives no token for MSK in eu-west-1"):
        OAuthTokens(OAuthLogin(aws_region="eu-west-1")).current()


def test_all_clients_of_a_process_share_the_tokens_of_a_login() -> None:
    login = OAuthLogin(token_file="/a", extensions=(("logicalCluster", "lkc-1"),))
    assert tokens_of(login) is tokens_of(OAuthLogin(token_file="/a", extensions=(("logicalCluster", "lkc-1"),)))
    assert tokens_of(login).extensions() == {"logicalCluster": "lkc-1"}
    assert "word" not in repr(OAuthLogin(client_secret="word"))
