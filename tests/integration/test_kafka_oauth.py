"""Logins by OAUTHBEARER at a real broker that validates tokens, and tokens that are renewed while a worker runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.kafka import client as kafka_client
from streammetrics.connectors.kafka.client import KafkaConnection
from streammetrics.connectors.kafka.dead_letters import KafkaDeadLetters
from streammetrics.connectors.kafka.oauth import OAuthLogin, tokens_of
from streammetrics.connectors.kafka.topics import describe_topics
from streammetrics.connectors.source import Input
from streammetrics.errors import SourceError
from tests.servers.oauth import CLIENT_ID, CLIENT_SECRET, OAuthKafkaBroker, TokenEndpoint, TokenSigner, token_endpoint
from tests.support.command_line import streammetrics
from tests.support.kafka_member import Member, running, send, settings_for, turn_until

TOPIC = "oauth-events"
LETTERS = "oauth-refused"
EMPTY = "oauth-empty"
SHORT_SECONDS = 4.0


@pytest.fixture(scope="module")
def signer() -> TokenSigner:
    return TokenSigner()


@pytest.fixture(scope="module")
def broker(signer: TokenSigner) -> Iterator[OAuthKafkaBroker]:
    """A broker that ends the session of a connection with its token."""
    with OAuthKafkaBroker(signer, {"connections.max.reauth.ms": "60000"}) as broker:
        broker.create_topic(TOPIC)
        broker.create_topic(LETTERS)
        broker.create_topic(EMPTY)
        yield broker


@pytest.fixture
def endpoint(signer: TokenSigner) -> Iterator[TokenEndpoint]:
    with token_endpoint(signer) as endpoint:
        yield endpoint


@pytest.fixture
def _short_bootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_client, "BOOTSTRAP_MS", 2_500)


def by_endpoint(endpoint: TokenEndpoint) -> OAuthLogin:
    return OAuthLogin(token_url=endpoint.url, client_id=CLIENT_ID, client_secret=CLIENT_SECRET, scope="kafka")


def connection(broker: OAuthKafkaBroker, login: OAuthLogin, group: str) -> KafkaConnection:
    own = settings_for(broker, TOPIC, security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER", oauth=login, group_id=group)
    return replace(own, bootstrap_servers=(broker.login_bootstrap,))


def reads_what_is_sent(broker: OAuthKafkaBroker, member: Member, value: bytes) -> None:
    send(broker, Input(TOPIC, 0), [value])
    turn_until(lambda: value in member.values(Input(TOPIC, 0)), member)


@pytest.mark.parametrize("way", ["endpoint", "file"])
def test_both_ways_read_records_and_write_dead_letters(
    broker: OAuthKafkaBroker, endpoint: TokenEndpoint, signer: TokenSigner, tmp_path: Path, way: str
) -> None:
    token_file = tmp_path / "token"
    token_file.write_text(signer.token() + "\n")
    login = by_endpoint(endpoint) if way == "endpoint" else OAuthLogin(token_file=str(token_file))
    settings = connection(broker, login, f"both-{way}")
    with running(settings) as member:
        reads_what_is_sent(broker, member, way.encode())
    letters = KafkaDeadLetters(settings, LETTERS)
    try:
        letters.write([DeadLetter("bad_json", way, Input(TOPIC, 0), 0, b"raw")])
    finally:
        letters.close()
    assert endpoint.issued == ([{"grant_type": "client_credentials", "scope": "kafka"}] if way == "endpoint" else [])


@pytest.mark.usefixtures("_short_bootstrap")
@pytest.mark.parametrize("fault", ["signature", "issuer", "audience", "nonsense"])
def test_a_forged_token_is_refused_and_explained(broker: OAuthKafkaBroker, signer: TokenSigner, tmp_path: Path, fault: str) -> None:
    tokens = {
        "signature": TokenSigner().token(),
        "issuer": signer.token(iss="https://other.test"),
        "audience": signer.token(aud="other"),
        "nonsense": "nonsense",
    }
    (tmp_path / "token").write_text(tokens[fault])
    with pytest.raises(SourceError) as caught:
        describe_topics(connection(broker, OAuthLogin(token_file=str(tmp_path / "token")), fault), [TOPIC])
    assert "invalid_token" in str(caught.value) or "the broker may have refused the login" in str(caught.value)
    assert tokens[fault] not in str(caught.value)


def test_tokens_are_renewed_while_a_worker_reads(broker: OAuthKafkaBroker, endpoint: TokenEndpoint) -> None:
    endpoint.seconds = SHORT_SECONDS
    with running(connection(broker, by_endpoint(endpoint), "renewed")) as member:
        for round_ in range(3):
            tokens = len(endpoint.issued)
            turn_until(lambda tokens=tokens: len(endpoint.issued) > tokens, member)  # type: ignore[misc]
            reads_what_is_sent(broker, member, b"round %d" % round_)


def test_a_worker_reads_on_after_an_outage_of_the_endpoint(broker: OAuthKafkaBroker, endpoint: TokenEndpoint) -> None:
    endpoint.seconds = SHORT_SECONDS
    with running(connection(broker, by_endpoint(endpoint), "outage")) as member:
        reads_what_is_sent(broker, member, b"before")
        endpoint.answer = 503, b"down for maintenance"
        login = tokens_of(by_endpoint(endpoint))

        def expired() -> bool:
            try:
                login.current()
            except SourceError:
                return True
            return False

        turn_until(expired, member)
        endpoint.answer = None
        reads_what_is_sent(broker, member, b"after")


def test_doctor_says_what_the_endpoint_answered_and_no_secret(broker: OAuthKafkaBroker, endpoint: TokenEndpoint, redis_url: str) -> None:
    given = {
        "kafka.bootstrap_servers": broker.login_bootstrap,
        "kafka.topics": EMPTY,
        "kafka.dead_letter_topic": LETTERS,
        "kafka.security_protocol": "SASL_PLAINTEXT",
        "kafka.sasl_mechanism": "OAUTHBEARER",
        "kafka.oauth_token_url": endpoint.url,
        "kafka.oauth_client_id": CLIENT_ID,
        "redis.url": redis_url,
        "http.port": "0",
    }
    flags = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
    done = streammetrics("doctor", *flags, environ={"STREAMMETRICS_KAFKA_OAUTH_CLIENT_SECRET": CLIENT_SECRET})
    assert done.returncode == 0, done.stdout + done.stderr
    done = streammetrics("doctor", *flags, environ={"STREAMMETRICS_KAFKA_OAUTH_CLIENT_SECRET": "wr0ng-word"})
    assert done.returncode != 0
    assert 'refused a token with status 401: {"error":"invalid_client"}' in " ".join(done.stdout.split())
    assert "wr0ng-word" not in done.stdout + done.stderr
