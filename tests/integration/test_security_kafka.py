"""TLS, SASL and ACLs between the real client and a real broker.

A user has only the rights that the product needs: read the input topics and its group, and write the dead letters.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest
from kafka.admin import ACLOperation, ResourceType

from streammetrics.config import Settings
from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.kafka import client as kafka_client
from streammetrics.connectors.kafka.sinks import KafkaDeadLetters
from streammetrics.connectors.kafka.source import KafkaSource
from streammetrics.connectors.kafka.stored_offsets import LogIdentity
from streammetrics.connectors.kafka.topics import MissingTopic, describe_topics
from streammetrics.connectors.source import Input, LogIds
from streammetrics.errors import ConfigError, SourceError
from streammetrics.events.model import Impression
from tests.support.command_line import called, streammetrics
from tests.support.native_json import native_json
from tests.support.real_pipeline import PARTITIONS, Pipeline, Service, start_ms
from tests.tools.servers.certificates import Authority
from tests.tools.servers.kafka_secure import MECHANISMS, SecureKafkaBroker
from tests.tools.servers.process import HOST, wait_until
from tests.tools.servers.redis import RedisServer

PASSWORD = "s3cret of the broker"
WRONG = "wr0ng-word"
TOPICS = ("secure-impressions", "secure-feedback")
LETTERS = "secure-refused"
GROUP = "secure"
USER = "reader"
LACKING = ("without-describe", "without-read", "without-group", "without-write")

GivenValue = dict[str, object]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[SecureKafkaBroker]:
    """A broker with topics and users; a user's name says which right it lacks."""
    with SecureKafkaBroker(authority, dict.fromkeys((USER, "nobody", "fickle", *LACKING), PASSWORD)) as broker:
        for topic in TOPICS:
            broker.create_topic(topic, partitions=PARTITIONS)
        broker.create_topic(LETTERS)
        grant(broker, USER)
        grant(broker, "certified")
        for user in LACKING:
            grant(broker, user, without=user.removeprefix("without-"))
        yield broker


def grant(
    broker: SecureKafkaBroker, user: str, topics: tuple[str, ...] = TOPICS, letters: str = LETTERS, group: str = GROUP, without: str = ""
) -> None:
    """Grant a user the documented rights, or all but one. The right to read or write a topic includes the right to describe it."""
    rights = {(ResourceType.TOPIC, letters): [ACLOperation.DESCRIBE if without == "write" else ACLOperation.WRITE]}
    if without != "describe":
        rights |= {(ResourceType.TOPIC, topic): [ACLOperation.DESCRIBE if without == "read" else ACLOperation.READ] for topic in topics}
    if without != "group":
        rights[ResourceType.GROUP, group] = [ACLOperation.READ]
    broker.allow_all(user, rights)


def by_certificate(broker: SecureKafkaBroker, authority: Authority) -> GivenValue:
    redis_client = authority.client("certified")
    return {
        "bootstrap_servers": [broker.bootstrap_of("SSL")],
        "security_protocol": "SSL",
        "ssl_cafile": str(authority.cafile),
        "ssl_certfile": str(redis_client.certfile),
        "ssl_keyfile": str(redis_client.keyfile),
    }


def by_locked_key(broker: SecureKafkaBroker, authority: Authority) -> GivenValue:
    locked = str(authority.client("certified").locked_keyfile)
    return by_certificate(broker, authority) | {"ssl_keyfile": locked, "ssl_password": authority.key_password}


def by_password(mechanism: str, protocol: str = "SASL_SSL", user: str = USER) -> Callable[[SecureKafkaBroker, Authority], GivenValue]:
    def given(broker: SecureKafkaBroker, authority: Authority) -> GivenValue:
        return {
            "bootstrap_servers": [broker.bootstrap_of(protocol)],
            "security_protocol": protocol,
            "sasl_mechanism": mechanism,
            "sasl_username": user,
            "sasl_password": PASSWORD,
            **({"ssl_cafile": str(authority.cafile)} if protocol == "SASL_SSL" else {}),
        }

    return given


@pytest.fixture
def _short_bootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a client give up after 2.5 s instead of 5 s. It logs the cause at its first attempt."""
    monkeypatch.setattr(kafka_client, "BOOTSTRAP_MS", 2_500)


@contextmanager
def tls_server(bothfile: Path) -> Iterator[tuple[int, list[bytes]]]:
    """Accept TLS connections with a certificate. Yields the port, and the data received after successful handshakes."""
    received: list[bytes] = []
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(bothfile)
    with socket.create_server((HOST, 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:  # the server was closed
                    return
                with connection, contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
                    if data := secured.recv(65_536):
                        received.append(data)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(server.getsockname()[1]), received
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


WAYS = {
    "certificate": by_certificate,
    "locked key": by_locked_key,
    **{mechanism: by_password(mechanism) for mechanism in MECHANISMS},
    "SCRAM without TLS": by_password("SCRAM-SHA-512", "SASL_PLAINTEXT"),
}


class LaunchedService(Service):
    """A process that may never be ready. Entering its context waits until its port answers."""

    def start(self) -> Self:
        self.launch()
        self.wait_until_passes(self._answers)
        return self

    def _answers(self) -> None:
        self.get("/healthz")


def settings_of(given: Mapping[str, object]) -> Settings:
    kafka_settings = {"topics": list(TOPICS), "group_id": GROUP, "dead_letter_topic": LETTERS, "session_timeout_ms": 3_000}
    return Settings.model_validate({"kafka": {**kafka_settings, **given}})


def flags(given: Mapping[str, object], redis_url: str) -> list[str]:
    """Return the arguments of a command, without the password."""
    everything = {**given, "topics": TOPICS, "group_id": GROUP, "dead_letter_topic": LETTERS}
    texts = {key: ",".join(value) if isinstance(value, list | tuple) else str(value) for key, value in everything.items()}
    shown_keys = {f"kafka.{key}": text for key, text in texts.items() if "password" not in key} | {"redis.url": redis_url, "http.port": "0"}
    return [word for key, text in shown_keys.items() for word in ("--set", f"{key}={text}")]


def passwords(given: Mapping[str, object]) -> dict[str, str]:
    return {f"STREAMMETRICS_KAFKA_{key.upper()}": str(value) for key, value in given.items() if "password" in key}


@pytest.mark.parametrize("way", WAYS)
def test_every_kind_of_login_reads_topics_and_writes_dead_letters(broker: SecureKafkaBroker, authority: Authority, way: str) -> None:
    settings = settings_of(WAYS[way](broker, authority))
    source = KafkaSource(settings.kafka)
    try:
        tasks: set[int] = set()

        def all_assigned() -> bool:
            tasks.update(source.poll(0.2).assigned)
            return tasks == set(range(PARTITIONS))

        wait_until(all_assigned, what="all tasks are assigned")
        assert set(source.start(0, {})) == {Input(topic, 0) for topic in TOPICS}
    finally:
        source.close()
    letters = KafkaDeadLetters(settings.kafka, LETTERS)
    try:
        letters.write([DeadLetter("bad_json", way, Input(TOPICS[0], 0), 0, b"raw")])
    finally:
        letters.close()


@pytest.mark.parametrize("way", WAYS)
def test_doctor_finds_no_problem_and_shows_no_password(broker: SecureKafkaBroker, authority: Authority, redis_url: str, way: str) -> None:
    given = WAYS[way](broker, authority)
    done = called("doctor", *flags(given, redis_url), environ=passwords(given))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert f"({given['security_protocol']})" in done.stdout
    assert f"dead-letter topic {LETTERS}: 1 partition" in done.stdout
    assert not [secret for secret in (PASSWORD, authority.key_password) if secret in done.stdout]


@pytest.mark.usefixtures("_short_bootstrap")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_explained_and_hidden(broker: SecureKafkaBroker, authority: Authority, mechanism: str) -> None:
    given = by_password(mechanism)(broker, authority) | {"sasl_password": WRONG}
    with pytest.raises(SourceError) as caught:
        describe_topics(settings_of(given).kafka, TOPICS)
    assert "Authentication failed" in str(caught.value) or "the broker may have refused the login" in str(caught.value)
    assert "check kafka.security_protocol (now SASL_SSL), certificates and credentials" in str(caught.value)
    assert WRONG not in str(caught.value)


@pytest.mark.usefixtures("_short_bootstrap")
def test_a_broker_with_a_certificate_of_another_ca_is_refused(broker: SecureKafkaBroker, authority: Authority, tmp_path: Path) -> None:
    given = by_password("PLAIN")(broker, authority) | {"ssl_cafile": str(Authority(tmp_path).cafile)}
    with pytest.raises(SourceError, match="CERTIFICATE_VERIFY_FAILED"):
        describe_topics(settings_of(given).kafka, TOPICS)


@pytest.mark.usefixtures("_short_bootstrap")
def test_a_broker_with_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    """Otherwise the password would be sent to any server with a certificate of the same CA."""
    elsewhere = Authority(tmp_path)
    with tls_server(elsewhere.server("impostor", "elsewhere.invalid").bothfile) as (port, received):
        given = {
            "bootstrap_servers": [f"{HOST}:{port}"],
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_username": USER,
            "sasl_password": PASSWORD,
            "ssl_cafile": str(elsewhere.cafile),
        }
        with pytest.raises(SourceError, match=r"CERTIFICATE_VERIFY_FAILED.*IP address mismatch"):
            describe_topics(settings_of(given).kafka, TOPICS)
    assert received == []


@pytest.mark.usefixtures("_short_bootstrap")
def test_a_missing_client_certificate_is_explained(broker: SecureKafkaBroker, authority: Authority) -> None:
    given = {key: value for key, value in by_certificate(broker, authority).items() if key not in ("ssl_certfile", "ssl_keyfile")}
    with pytest.raises(SourceError, match=r"(?i)certificate"):
        describe_topics(settings_of(given).kafka, TOPICS)


def test_a_key_of_another_certificate_is_explained(broker: SecureKafkaBroker, authority: Authority) -> None:
    given = by_certificate(broker, authority) | {"ssl_keyfile": str(authority.client("another").keyfile)}
    with pytest.raises(ConfigError, match=r"kafka\.ssl_keyfile.*it holds another"):
        describe_topics(settings_of(given).kafka, TOPICS)


def test_a_run_with_mismatched_files_exits_and_names_the_setting(broker: SecureKafkaBroker, authority: Authority, redis_url: str) -> None:
    given = by_certificate(broker, authority) | {"ssl_keyfile": str(authority.client("another").keyfile)}
    done = streammetrics("run", *flags(given, redis_url))
    assert done.returncode == 2, done.stdout + done.stderr
    assert "kafka.ssl_keyfile" in done.stderr
    doctor = called("doctor", *flags(given, redis_url))
    assert (doctor.returncode, "fail  kafka.ssl_keyfile = " in doctor.stdout) == (1, True), doctor.stdout


class TestMissingRights:
    """The messages when an ACL is missing. The process continues by itself once the ACL exists."""

    def given(self, broker: SecureKafkaBroker, authority: Authority, user: str) -> GivenValue:
        return by_password("SCRAM-SHA-512", user=user)(broker, authority)

    def test_topics_that_may_not_be_described(self, broker: SecureKafkaBroker, authority: Authority, redis_url: str) -> None:
        given = self.given(broker, authority, "without-describe")
        done = called("doctor", *flags(given, redis_url), environ=passwords(given))
        assert done.returncode == 1
        for topic in TOPICS:
            assert f"topic {topic} may not be described by this user, so it is unknown whether it exists" in done.stdout
        assert "fix: grant DESCRIBE on it" in done.stdout
        with pytest.raises(ConfigError, match=r"kafka\.topics = secure-impressions: may not be described by this user"):
            KafkaSource(settings_of(given).kafka)

    def test_topics_that_do_not_exist(self, broker: SecureKafkaBroker, authority: Authority, redis_url: str) -> None:
        broker.allow(USER, ResourceType.TOPIC, "secure-nowhere", ACLOperation.READ)
        given = self.given(broker, authority, USER)
        with pytest.raises(ConfigError, match=r"kafka\.dead_letter_topic = secure-nowhere: does not exist; create it .*, or leave"):
            KafkaDeadLetters(settings_of(given).kafka, "secure-nowhere")
        done = called("doctor", *flags(given, redis_url), "--set", "kafka.topics=secure-nowhere,secure-unnamed", environ=passwords(given))
        assert done.returncode == 1
        assert "fail  topic secure-nowhere does not exist" in done.stdout
        assert "fail  topic secure-unnamed may not be described by this user" in done.stdout

    def test_a_user_without_rights_sees_no_topic(self, broker: SecureKafkaBroker, authority: Authority) -> None:
        """Existing and missing topics look the same."""
        names = [*TOPICS, LETTERS, "secure-missing"]
        described = describe_topics(settings_of(self.given(broker, authority, "nobody")).kafka, names)
        assert (described.topics, described.absent) == ({}, dict.fromkeys(names, MissingTopic.HIDDEN))

    def test_a_revoked_right_is_not_a_deleted_topic(self, broker: SecureKafkaBroker, authority: Authority) -> None:
        """An operator who reads that a topic was deleted starts again, and loses the counts."""
        settings = settings_of(self.given(broker, authority, "fickle")).kafka
        grant(broker, "fickle")
        topic_ids = {name: topic.topic_id for name, topic in describe_topics(settings, TOPICS).topics.items()}
        assert topic_ids.keys() == set(TOPICS)
        identity = LogIdentity(settings, LogIds(topic_ids=topic_ids), PARTITIONS)
        identity.require_same_topics()
        for topic in TOPICS:
            broker.forbid("fickle", ResourceType.TOPIC, topic, ACLOperation.READ)
        wait_until(lambda: not describe_topics(settings, TOPICS).topics, what="the right is revoked")
        identity.require_same_topics()

    def test_letters_that_may_not_be_written(self, broker: SecureKafkaBroker, authority: Authority) -> None:
        letters = KafkaDeadLetters(settings_of(self.given(broker, authority, "without-write")).kafka, LETTERS)
        try:
            with pytest.raises(
                SourceError, match=r"dead letters cannot be written to topic 'secure-refused': TopicAuthorizationFailedError"
            ):
                letters.write([DeadLetter("bad_json", "", Input(TOPICS[0], 0), 0, b"raw")])
        finally:
            letters.close()

    @pytest.mark.parametrize(
        ("user", "message", "kind", "name"),
        [
            ("without-group", "GroupAuthorizationFailedError", ResourceType.GROUP, GROUP),
            ("without-read", "TopicAuthorizationFailedError", ResourceType.TOPIC, TOPICS[0]),
        ],
    )
    def test_a_running_process_names_the_missing_right_and_continues_when_it_is_granted(
        self, broker: SecureKafkaBroker, authority: Authority, redis_url: str, user: str, message: str, kind: ResourceType, name: str
    ) -> None:
        kafka = {"topics": list(TOPICS), "group_id": GROUP, "dead_letter_topic": LETTERS, **self.given(broker, authority, user)}
        with LaunchedService({"kafka": kafka, "redis": {"url": redis_url, "namespace": user}, "log": {"format": "json"}}) as service:
            wait_until(lambda: message in service.get("/readyz").text, what=f"/readyz names {message}")
            for topic in TOPICS if kind is ResourceType.TOPIC else (name,):
                broker.allow(user, kind, topic, ACLOperation.READ)
            service.wait_ready()
            assert PASSWORD not in service.log


def test_a_whole_run_needs_only_the_documented_rights(broker: SecureKafkaBroker, authority: Authority, redis_server: RedisServer) -> None:
    kafka = by_password("SCRAM-SHA-512", user="nobody")(broker, authority)
    pipeline = Pipeline(broker, redis_server.fresh_url(), "least", ["impressions", "feedback"], kafka=kafka)
    grant(broker, "nobody", pipeline.topics, pipeline.dead_letters, "least")
    ts = start_ms()
    with pipeline.producer() as producer:
        for number in range(20):
            event = Impression("list", f"u{number}", ts, ("a", "b"))
            producer.send(pipeline.topics[0], native_json(event), key=event.user_id.encode(), timestamp_ms=ts)
        producer.send(pipeline.topics[0], b"{broken", key=b"u1", timestamp_ms=ts)
    with pipeline.service() as service:
        wait_until(lambda: pipeline.committed() == 21, what="all records are committed")
        wait_until(lambda: len(pipeline.letters()) == 1, what="the broken record is a dead letter")
        assert service.get("/readyz").status == 200
        assert PASSWORD not in service.log + service.get("/metrics").text + service.get("/api/report").text
