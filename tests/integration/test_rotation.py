"""Renewed passwords and certificates, as the runbook has it: what needs a restart, and what does not. Real servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from kafka.admin import ACLOperation, ResourceType, ScramMechanism, UserScramCredentialUpsertion

from streammetrics.config import load
from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.errors import StoreError
from streammetrics.events.model import Impression
from tests.support.native_json import native_json
from tests.support.real_pipeline import Pipeline, start_ms
from tests.tools.servers.certificates import Authority
from tests.tools.servers.kafka_secure import SecureKafkaBroker
from tests.tools.servers.process import wait_until
from tests.tools.servers.redis import Guard, RedisServer

FORMER, RENEWED = "the-former-word", "the-renewed-word"
USER = "reader"


class TestRedis:
    """A server with TLS and users. The connection of a worker goes on; a broken one comes back as the files and users are then."""

    @pytest.fixture
    def authority(self, tmp_path: Path) -> Authority:
        return Authority(tmp_path / "certificates")

    @pytest.fixture
    def server(self, authority: Authority) -> Iterator[RedisServer]:
        acl = f"user default off\nuser operator on >{FORMER} ~* &* +@all\nuser streammetrics on >{FORMER} ~* &* +@all\n"
        with RedisServer(guard=Guard(authority, acl, "operator", FORMER)) as server:
            yield server

    @pytest.fixture
    def connect(self, authority: Authority, server: RedisServer) -> Iterator[Callable[[str], RedisStore]]:
        stores: list[RedisStore] = []
        redis_client = authority.client("streammetrics")
        files = {"ssl_cafile": str(authority.cafile), "ssl_certfile": str(redis_client.certfile), "ssl_keyfile": str(redis_client.keyfile)}

        def connected(password: str) -> RedisStore:
            stores.append(RedisStore(RedisSettings(url=server.url, username="streammetrics", password=password, **files)))
            return stores[-1]

        yield connected
        for store in stores:
            store.close()

    def test_two_passwords_hold_while_processes_restart(self, server: RedisServer, connect: Callable[[str], RedisStore]) -> None:
        before = connect(FORMER)
        before.ping()
        with server.client() as operator:
            operator.execute_command("ACL", "SETUSER", "streammetrics", f">{RENEWED}")
            connect(RENEWED).ping()
            operator.execute_command("ACL", "SETUSER", "streammetrics", f"<{FORMER}")
            before.ping()  # its connection is logged in
            operator.execute_command("CLIENT", "KILL", "USER", "streammetrics")
            with pytest.raises(StoreError, match=r"redis\.password"):
                before.ping()
            after = connect(RENEWED)
            after.ping()
            operator.execute_command("CLIENT", "KILL", "USER", "streammetrics")
            after.ping()

    def test_renewed_files_are_read_by_the_next_connection(
        self, server: RedisServer, authority: Authority, connect: Callable[[str], RedisStore]
    ) -> None:
        store = connect(FORMER)
        store.ping()
        with server.client() as operator:
            operator.ping()
            another = Authority(authority.cafile.parent)  # every file of both sides, in the same places
            another.client("redis-test")
            another.server("redis")
            another.client("streammetrics")
            operator.config_set("tls-ca-cert-file", str(another.cafile))  # the server reads all three files again
            store.ping()
            operator.execute_command("CLIENT", "KILL", "USER", "streammetrics")
            store.ping()


def send(pipeline: Pipeline, prefix: str) -> None:
    ts = start_ms()
    with pipeline.producer() as producer:
        for number in range(20):
            impression = Impression("list", f"{prefix}{number}", ts, ("a", "b"))
            producer.send(pipeline.topics[0], native_json(impression), key=impression.user_id.encode(), timestamp_ms=ts)


def secure(broker: SecureKafkaBroker, redis_url: str, name: str, user: str, kafka: Mapping[str, object]) -> Pipeline:
    # With a second topic, whose inputs have no events, the next lists would wait until these count as idle (`idle_ms`).
    pipeline = Pipeline(broker, redis_url, name, ["impressions"], kafka=kafka)
    rights = {(ResourceType.TOPIC, topic): [ACLOperation.READ] for topic in pipeline.topics}
    rights |= {(ResourceType.TOPIC, pipeline.dead_letters): [ACLOperation.WRITE], (ResourceType.GROUP, name): [ACLOperation.READ]}
    broker.allow_all(user, rights)
    return pipeline


def test_a_worker_reads_on_with_renewed_certificates_of_a_new_authority(redis_url: str, topic_name: str, tmp_path: Path) -> None:
    folder = tmp_path / "certificates"
    authority = Authority(folder)
    redis_client = authority.client("certified")
    files = {"ssl_cafile": str(authority.cafile), "ssl_certfile": str(redis_client.certfile), "ssl_keyfile": str(redis_client.keyfile)}
    with SecureKafkaBroker(authority, {}) as broker:
        kafka = {"bootstrap_servers": [broker.bootstrap_of("SSL")], "security_protocol": "SSL", **files}
        pipeline = secure(broker, redis_url, topic_name, "certified", kafka)
        send(pipeline, "before")
        with pipeline.service() as service:
            wait_until(lambda: pipeline.committed() == 20, what="all records are committed")
            renewed = Authority(folder)
            renewed.server("broker")
            renewed.client("certified")
            broker.kill()
            broker.restart()
            send(pipeline, "after")
            wait_until(lambda: pipeline.committed() == 40, what="the worker reads on")
            assert service.alive


def test_a_worker_keeps_its_login_when_the_password_changes_and_the_next_process_needs_the_new_one(
    redis_url: str, topic_name: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "certificates")
    with SecureKafkaBroker(authority, {USER: FORMER}) as broker:
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-512", "sasl_username": USER}
        kafka = {"bootstrap_servers": [broker.bootstrap_of("SASL_PLAINTEXT")], **login, "sasl_password": FORMER}
        pipeline = secure(broker, redis_url, topic_name, USER, kafka)
        send(pipeline, "before")
        with pipeline.service() as service:
            wait_until(lambda: pipeline.committed() == 20, what="all records are committed")
            with broker.admin() as admin:
                admin.alter_user_scram_credentials([UserScramCredentialUpsertion(USER, ScramMechanism.SCRAM_SHA_512, RENEWED)])
            send(pipeline, "between")
            wait_until(lambda: pipeline.committed() == 40, what="open connections are used on")
            assert service.get("/readyz").status == 200
            with pipeline.producer() as producer:
                producer.send(pipeline.topics[0], b"no event")  # the first dead letter opens a connection
            wait_until(lambda: service.get("/readyz").status == 503, what="/readyz fails, because the login is refused")
            assert "dead letters cannot be written" in service.get("/readyz").text
            assert "SaslAuthenticationFailedError" in service.get("/readyz").text
            assert service.sample("streammetrics_source_up") == 0
            assert service.alive
        with pipeline.service(kafka={"sasl_password": RENEWED}):
            send(pipeline, "after")
            wait_until(lambda: pipeline.committed() == 61, what="the next process reads on")
            assert b"no event" in [value for _, value in pipeline.letters()]


@pytest.mark.parametrize("section", ["kafka.sasl_password", "redis.password", "http.ssl_password"])
def test_a_password_in_a_file_is_read_once_at_the_start(tmp_path: Path, section: str) -> None:
    word, dotted = tmp_path / "word", section.split(".")
    word.write_text(FORMER + "\n")
    environ = {f"STREAMMETRICS_{'_'.join(dotted).upper()}_FILE": str(word)}
    settings = load(None, environ, {}).settings
    word.write_text(RENEWED + "\n")
    assert getattr(getattr(settings, dotted[0]), dotted[1]).get_secret_value() == FORMER
    assert getattr(getattr(load(None, environ, {}).settings, dotted[0]), dotted[1]).get_secret_value() == RENEWED
