"""Logins by OAUTHBEARER at a real broker that validates tokens, and tokens that are renewed while a worker runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.kafka import client as kafka_client
from streammetrics.connectors.kafka.sinks import KafkaDeadLetters
from streammetrics.connectors.kafka.token_provider import provider_of
from streammetrics.connectors.kafka.topics import describe_topics
from streammetrics.connectors.source import Input
from streammetrics.errors import SourceError
from tests.support.command_line import streammetrics
from tests.support.kafka_member import Member, running, send, settings_for, turn_until
from tests.support.paths import ROOT
from tests.tools.servers.oauth import CLIENT_ID, CLIENT_SECRET, OAuthKafkaBroker, TokenEndpoint, TokenSigner, token_endpoint

TOPIC = "oauth-events"
LETTERS = "oauth-refused"
EMPTY = "oauth-empty"
SHORT_SECONDS = 4.0
PAGE = ROOT / "deploy" / "kafka-and-redis.md"


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


@pytest.fixture
def tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: TokenEndpoint) -> str:
    """The name of a module with both classes of the page, each test its own: a process makes one instance of a class."""
    name = f"tokens_{tmp_path.name}"
    matches = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / f"{name}.py").write_text("\n".join(matches), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    given = {"TOKEN_URL": endpoint.url, "CLIENT_ID": CLIENT_ID, "CLIENT_SECRET": CLIENT_SECRET, "TOKEN_FILE": str(tmp_path / "token")}
    for variable, value in given.items():
        monkeypatch.setenv(variable, value)
    return name


def connection(broker: OAuthKafkaBroker, provider: str, group: str) -> KafkaSettings:
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider}
    return settings_for(broker, TOPIC, group_id=group, bootstrap_servers=(broker.login_bootstrap,), **login)


def reads_what_is_sent(broker: OAuthKafkaBroker, member: Member, value: bytes) -> None:
    send(broker, Input(TOPIC, 0), [value])
    turn_until(lambda: value in member.values(Input(TOPIC, 0)), member)


@pytest.mark.parametrize("way", ["Endpoint", "File"])
def test_both_ways_read_records_and_write_dead_letters(
    broker: OAuthKafkaBroker, endpoint: TokenEndpoint, signer: TokenSigner, tmp_path: Path, tokens: str, way: str
) -> None:
    token_file = tmp_path / "token"
    token_file.write_text(signer.token() + "\n")
    settings = connection(broker, f"{tokens}:{way}", f"both-{way}")
    with running(settings) as member:
        reads_what_is_sent(broker, member, way.encode())
    letters = KafkaDeadLetters(settings, LETTERS)
    try:
        letters.write([DeadLetter("bad_json", way, Input(TOPIC, 0), 0, b"raw")])
    finally:
        letters.close()
    assert endpoint.issued == ([{"grant_type": "client_credentials", "scope": "kafka"}] if way == "Endpoint" else [])


@pytest.mark.usefixtures("_short_bootstrap")
@pytest.mark.parametrize("fault", ["signature", "issuer", "audience", "nonsense"])
def test_a_forged_token_is_refused_and_explained(
    broker: OAuthKafkaBroker, signer: TokenSigner, tmp_path: Path, tokens: str, fault: str
) -> None:
    forged = {
        "signature": TokenSigner().token(),
        "issuer": signer.token(iss="https://other.test"),
        "audience": signer.token(aud="other"),
        "nonsense": "nonsense",
    }
    (tmp_path / "token").write_text(forged[fault])
    with pytest.raises(SourceError) as caught:
        describe_topics(connection(broker, f"{tokens}:File", fault), [TOPIC])
    assert "invalid_token" in str(caught.value) or "the broker may have refused the login" in str(caught.value)
    assert forged[fault] not in str(caught.value)


def test_tokens_are_renewed_while_a_worker_reads(broker: OAuthKafkaBroker, endpoint: TokenEndpoint, tokens: str) -> None:
    endpoint.seconds = SHORT_SECONDS
    with running(connection(broker, f"{tokens}:Endpoint", "renewed")) as member:
        for round_ in range(3):
            issued = len(endpoint.issued)
            turn_until(lambda issued=issued: len(endpoint.issued) > issued, member)  # type: ignore[misc]
            reads_what_is_sent(broker, member, b"round %d" % round_)


def test_a_worker_reads_on_after_an_outage_of_the_endpoint(broker: OAuthKafkaBroker, endpoint: TokenEndpoint, tokens: str) -> None:
    endpoint.seconds = SHORT_SECONDS
    with running(connection(broker, f"{tokens}:Endpoint", "outage")) as member:
        reads_what_is_sent(broker, member, b"before")
        endpoint.answer = 503, b"down for maintenance"
        provider = provider_of(f"{tokens}:Endpoint")

        def expired() -> bool:
            try:
                provider.current()
            except SourceError:
                return True
            return False

        turn_until(expired, member)
        endpoint.answer = None
        reads_what_is_sent(broker, member, b"after")


def test_doctor_says_what_the_class_raised_and_no_secret(broker: OAuthKafkaBroker, tokens: str, tmp_path: Path, redis_url: str) -> None:
    given = {
        "kafka.bootstrap_servers": broker.login_bootstrap,
        "kafka.topics": EMPTY,
        "kafka.dead_letter_topic": LETTERS,
        "kafka.security_protocol": "SASL_PLAINTEXT",
        "kafka.sasl_mechanism": "OAUTHBEARER",
        "kafka.sasl_oauth_token_provider": f"{tokens}:Endpoint",
        "redis.url": redis_url,
        "http.port": "0",
    }
    flags = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
    environ = {name: os.environ[name] for name in ("TOKEN_URL", "CLIENT_ID", "CLIENT_SECRET")}
    environ["PYTHONPATH"] = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = streammetrics("doctor", *flags, environ=environ)
    assert done.returncode == 0, done.stdout + done.stderr
    done = streammetrics("doctor", *flags, environ={**environ, "CLIENT_SECRET": "wr0ng-word"})
    assert done.returncode != 0
    assert f"{tokens}:Endpoint gives no token: HTTPError: HTTP Error 401" in " ".join(done.stdout.split())
    assert "wr0ng-word" not in done.stdout + done.stderr
