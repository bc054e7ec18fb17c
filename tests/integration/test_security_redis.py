"""Redis with TLS and the users of deploy/redis-users.acl. The whole product works with their rights, and they have no other rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.namespaces import client_name
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.errors import ConfigError, StoreError
from streammetrics.events.model import Feedback, Impression
from tests.support.command_line import called
from tests.support.native_json import native_json
from tests.support.paths import ROOT
from tests.support.real_pipeline import HOUR_MS, Pipeline, Truth, as_toml, start_ms
from tests.support.redis_acl import with_passwords
from tests.tools.servers.certificates import Authority
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import wait_until
from tests.tools.servers.redis import Guard, RedisCluster, RedisServer

SHIPPED = (ROOT / "deploy" / "redis-users.acl").read_text(encoding="utf-8")
PASSWORDS = {
    "operator": "s3cret of the operator",
    "streammetrics": "s3cret of the store",
    "streammetrics-exporter": "s3cret of the reader",
    "streammetrics-admin": "s3cret of the admin",
}
NAMESPACE = "sm"
"""The namespace in the file."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def guard(authority: Authority) -> Guard:
    return Guard(authority, with_passwords(SHIPPED, PASSWORDS), "operator", PASSWORDS["operator"])


@pytest.fixture(scope="module")
def server(guard: Guard) -> Iterator[RedisServer]:
    with RedisServer(guard=guard) as server:
        yield server


@pytest.fixture(scope="module")
def cluster(guard: Guard) -> Iterator[RedisCluster]:
    with RedisCluster(masters=3, guard=guard) as cluster:
        yield cluster


def access(authority: Authority, user: str = "streammetrics") -> dict[str, object]:
    """Return the product's settings to log in as a user."""
    redis_client = authority.client("streammetrics")
    return {
        "namespace": NAMESPACE,
        "username": user,
        "password": PASSWORDS[user],
        "ssl_cafile": str(authority.cafile),
        "ssl_certfile": str(redis_client.certfile),
        "ssl_keyfile": str(redis_client.keyfile),
    }


def settings(url: str, authority: Authority, **other: object) -> RedisSettings:
    return RedisSettings.model_validate({"url": url, **access(authority), **other})


def send_events(pipeline: Pipeline) -> None:
    """Send events of users whose sessions end, so that every command of every script runs. One record is malformed."""
    ts = start_ms()
    with pipeline.producer() as producer:
        for number in range(60):
            user = f"u{number}"
            for event in (Impression("list", user, ts, ("a", "b")), Feedback(user, ts + 1, "a", "click", impression_id="list")):
                topic = pipeline.topics[isinstance(event, Feedback)]
                producer.send(topic, native_json(event), key=user.encode(), timestamp_ms=event.ts)
        producer.send(pipeline.topics[0], b"{broken", key=b"u1", timestamp_ms=ts)
    pipeline.write_ends(ts + 3 * HOUR_MS)


def refusals(client: redis.Redis) -> list[str]:
    return [f"{entry['username']} {entry['reason']} {entry['object']}" for entry in client.acl_log()]


def test_the_shipped_file_loads_and_allows_no_login(authority: Authority) -> None:
    with RedisServer() as server, server.client() as client:
        path = server.directory / "users.acl"
        path.write_text(SHIPPED, encoding="utf-8")
        server.settings["aclfile"] = str(path)
        server.stop()
        server.launch()
        wait_until(lambda: "Ready to accept connections" in server.log_tail(200).rpartition("SIGTERM")[2], what="the server has restarted")
        for user in ("default", *PASSWORDS):
            for password in ("", "0" * 64, user):
                with pytest.raises(redis.AuthenticationError):
                    client.execute_command("AUTH", user, password)
        with pytest.raises(redis.AuthenticationError):
            client.ping()
    assert authority.cafile.exists()


class TestRun:
    """One whole `run` over real records, through TLS and the ACL."""

    @pytest.fixture(params=["server", "cluster"])
    def url(self, request: pytest.FixtureRequest) -> str:
        return str(request.getfixturevalue(request.param).url)

    def test_the_product_needs_only_the_granted_rights(
        self, kafka_broker: KafkaBroker, authority: Authority, server: RedisServer, cluster: RedisCluster, url: str, topic_name: str
    ) -> None:
        nodes = [server] if url == server.url else cluster.nodes
        for node in nodes:
            with node.client() as client:
                client.flushall()
                client.acl_log_reset()
        given = {**access(authority), "cluster": url != server.url}
        pipeline = Pipeline(kafka_broker, url, topic_name, ["impressions", "feedback"], redis=given)
        send_events(pipeline)
        with pipeline.service() as service:
            truth: Truth = pipeline.assert_exact()
            wait_until(lambda: len(pipeline.letters()) == 1, what="the broken record is a dead letter")
            service.restart()
            assert pipeline.assert_exact().counters == truth.counters
            wait_until(lambda: service.report().get("tasks_committed") == 4, what="there is a report")
            output = service.log + service.get("/api/report").text + service.get("/metrics").text
        assert not [word for word in PASSWORDS.values() if word in output]
        for node in nodes:
            with node.client() as client:
                assert refusals(client) == []

    def test_an_exporter_reads_what_a_worker_writes(
        self, kafka_broker: KafkaBroker, authority: Authority, server: RedisServer, topic_name: str
    ) -> None:
        with server.client() as client:
            client.flushall()
            client.acl_log_reset()
        pipeline = Pipeline(kafka_broker, server.url, topic_name, ["impressions", "feedback"], redis=access(authority))
        send_events(pipeline)
        reader = access(authority, "streammetrics-exporter")
        with (
            pipeline.service(worker={"role": "worker"}),
            pipeline.service(worker={"role": "exporter"}, redis=reader) as exporter,
        ):
            pipeline.assert_exact()
            wait_until(lambda: exporter.report().get("tasks_committed") == 4, what="the exporter shows what the worker committed")
        with server.client() as client:
            assert refusals(client) == []

    @pytest.mark.parametrize("user", ["streammetrics", "streammetrics-exporter"])
    def test_workers_and_exporters_may_read_tasks_and_change_namespace_values(
        self, authority: Authority, server: RedisServer, cluster: RedisCluster, url: str, user: str
    ) -> None:
        nodes = [server] if url == server.url else cluster.nodes
        for node in nodes:
            with node.client() as client:
                client.flushall()
                client.acl_log_reset()
        store = RedisStore(settings(url, authority, **access(authority, user), cluster=url != server.url))
        assert store.compare_and_set({"a": (None, b"1"), "b": (None, b"1")}) == {"a": b"1", "b": b"1"}
        assert store.compare_and_set({"a": (b"1", b"2"), "b": (b"1", None)}) == {"a": b"2"}
        assert store.view([0, 1], {}) == {}
        store.close()
        for node in nodes:
            with node.client() as client:
                assert refusals(client) == []

    def test_doctor_finds_no_problem(self, kafka_broker: KafkaBroker, authority: Authority, server: RedisServer, topic_name: str) -> None:
        with server.client() as client:
            client.flushall()
            client.acl_log_reset()
        pipeline = Pipeline(kafka_broker, server.url, topic_name, ["impressions", "feedback"], redis=access(authority))
        service = pipeline.service()
        try:
            service.prepare()
            done = called("doctor", "--config", service.config)
        finally:
            service.close()
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert "the clocks of this machine and of Redis differ" in done.stdout
        assert not [word for word in PASSWORDS.values() if word in done.stdout]
        with server.client() as client:
            assert refusals(client) == []


class TestNamespaces:
    @pytest.mark.parametrize("of_cluster", [False, True], ids=["server", "cluster"])
    def test_the_admin_user_lists_and_deletes_namespaces(
        self, authority: Authority, server: RedisServer, cluster: RedisCluster, of_cluster: bool, tmp_path: Path
    ) -> None:
        nodes = cluster.nodes if of_cluster else [server]
        for node in nodes:
            with node.client() as client:
                client.flushall()
                client.acl_log_reset()
        worker = settings(nodes[0].url, authority, cluster=of_cluster)
        store = RedisStore(worker, client_name("worker", NAMESPACE))
        store.announce(3)
        for task in range(3):
            store.claim(task, "token")
        given = {"url": nodes[0].url, "cluster": of_cluster, **access(authority, "streammetrics-admin"), "namespace": "another"}
        config = tmp_path / "admin.toml"
        config.write_text(as_toml({"redis": given}), encoding="utf-8")
        assert "worker at 127.0.0.1" in called("namespaces", "list", "--config", config).stdout
        assert called("namespaces", "delete", NAMESPACE, "--yes", "--config", config).returncode == 1
        store.close()
        done = called("namespaces", "delete", NAMESPACE, "--yes", "--config", config)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"deleted namespace {NAMESPACE}: 19 keys")
        for node in nodes:
            with node.client() as client:
                assert refusals(client) == []
                assert client.dbsize() == 0

    def test_the_product_user_may_not_and_reads_why(self, authority: Authority, server: RedisServer, tmp_path: Path) -> None:
        config = tmp_path / "streammetrics.toml"
        config.write_text(as_toml({"redis": {"url": server.url, **access(authority)}}), encoding="utf-8")
        for words in (["list"], ["delete", NAMESPACE, "--yes"]):
            done = called("namespaces", *words, "--config", config)
            assert done.returncode == 1
            assert "log in as a user that may read all keys, such as streammetrics-admin in deploy/redis-users.acl" in done.stderr

    def test_deletion_needs_force_if_the_connected_clients_are_unknown(
        self, authority: Authority, server: RedisServer, tmp_path: Path
    ) -> None:
        store = RedisStore(settings(server.url, authority))
        store.claim(0, "token")
        store.close()
        config = tmp_path / "admin.toml"
        config.write_text(as_toml({"redis": {"url": server.url, **access(authority, "streammetrics-admin")}}), encoding="utf-8")
        with server.client() as operator:
            operator.execute_command("ACL", "SETUSER", "streammetrics-admin", "-client|list")
            try:
                assert "unknown" in called("namespaces", "list", "--config", config).stdout
                refused = called("namespaces", "delete", NAMESPACE, "--yes", "--config", config)
                assert refused.returncode == 1
                assert "Redis does not show its connections" in refused.stderr
                assert called("namespaces", "delete", NAMESPACE, "--yes", "--force", "--config", config).returncode == 0
            finally:
                operator.execute_command("ACL", "SETUSER", "streammetrics-admin", "+client|list")


COMMANDS = [
    ("FLUSHALL",),
    ("FLUSHDB",),
    ("KEYS", "*"),
    ("SCAN", "0"),
    ("CONFIG", "SET", "maxmemory-policy", "allkeys-lru"),
    ("CONFIG", "REWRITE"),
    ("SCRIPT", "FLUSH"),
    ("ACL", "LIST"),
    ("ACL", "SETUSER", "streammetrics", "+@all"),
    ("CLIENT", "KILL", "TYPE", "normal"),
    ("CLIENT", "PAUSE", "1000"),
    ("CLIENT", "LIST"),
    ("MEMORY", "DOCTOR"),
    ("SHUTDOWN", "NOSAVE"),
    ("REPLICAOF", "127.0.0.1", "1"),
    ("MONITOR",),
    ("SAVE",),
    ("SUBSCRIBE", "channel"),
    ("PUBLISH", "channel", "x"),
    ("GET", "{sm:0}:ctl"),
    ("DEL", "{sm:0}:ctl"),
    ("HSET", "foreign", "a", "b"),
    ("HMGET", "{other:0}:ctl", "a"),
    ("HSET", "sm", "a", "b"),
    ("EVAL", "return redis.call('HSET', 'foreign', 'a', 'b')", "0"),
    ("EVAL", "return redis.call('HSET', KEYS[1], 'a', 'b')", "1", "{other:0}:ctl"),
    ("EVAL", "return redis.call('FLUSHALL')", "0"),
]
WRITES = [
    ("HSET", "{sm:0}:ctl", "a", "b"),
    ("HDEL", "{sm:0}:ctl", "a"),
    ("EVAL", "return redis.call('HSET', KEYS[1], 'a', 'b')", "1", "{sm:0}:ctl"),
    ("EVALSHA", "0" * 40, "0"),
]
FOREIGN = [
    ("UNLINK", "foreign"),
    ("UNLINK", "{foreign}:ctl"),
    ("HGET", "foreign", "a"),
    ("MEMORY", "USAGE", "foreign"),
    ("EXISTS", "foreign"),
]
ALLOWED_TO_ADMIN = {("SCAN", "0"), ("CLIENT", "LIST")}


class TestForbidden:
    @pytest.mark.parametrize(
        ("user", "command"),
        [
            *((user, command) for user in ("streammetrics", "streammetrics-exporter") for command in COMMANDS),
            *(("streammetrics-exporter", command) for command in WRITES),
            *(("streammetrics-admin", command) for command in [*COMMANDS, *WRITES, *FOREIGN] if command not in ALLOWED_TO_ADMIN),
        ],
        ids=lambda given: given if isinstance(given, str) else " ".join(given),
    )
    def test_other_commands_and_keys_are_refused(self, server: RedisServer, user: str, command: tuple[str, ...]) -> None:
        with server.client() as operator, server.client(username=user, password=PASSWORDS[user]) as client:
            before = operator.dbsize()
            with pytest.raises(redis.RedisError, match=r"(?i)no permission|can't run this command|can't access|ACL failure|NOPERM"):
                client.execute_command(*command)
            assert operator.dbsize() == before

    def test_another_namespace_is_refused_with_the_right_to_grant(self, server: RedisServer, authority: Authority) -> None:
        store = RedisStore(settings(server.url, authority, namespace="other"))
        with pytest.raises(StoreError, match=r"grant redis\.username this command and the keys of redis\.namespace"):
            store.claim(0, "token")
        store.close()

    def test_a_missing_right_fails_the_claim_before_anything_is_written(self, server: RedisServer, authority: Authority) -> None:
        with server.client() as operator:
            operator.flushall()
            operator.execute_command("ACL", "SETUSER", "streammetrics", "-zrem")
            store = RedisStore(settings(server.url, authority))
            try:
                with pytest.raises(StoreError, match=r"grant redis\.username"):
                    store.claim(0, "token")
                assert operator.hget("{sm:0}:ctl", "epoch") is None
            finally:
                store.close()
                operator.execute_command("ACL", "SETUSER", "streammetrics", "+zrem")


class TestTlsAndLogin:
    def test_a_wrong_password_is_explained_and_hidden(self, server: RedisServer, authority: Authority) -> None:
        store = RedisStore(settings(server.url, authority, password="wr0ng-word"))
        with pytest.raises(StoreError, match=r"check redis\.username and redis\.password") as caught:
            store.ping()
        assert "wr0ng-word" not in str(caught.value)
        store.close()

    @pytest.mark.parametrize(
        "without", [{"ssl_certfile": None, "ssl_keyfile": None}, {"ssl_cafile": None}], ids=["certificate", "authority"]
    )
    def test_missing_tls_files_name_the_settings(self, server: RedisServer, authority: Authority, without: dict[str, object]) -> None:
        store = RedisStore(settings(server.url, authority, **without))
        with pytest.raises(StoreError, match=r"check redis\.ssl_cafile, redis\.ssl_certfile and redis\.ssl_keyfile|check that Redis runs"):
            store.ping()
        store.close()

    def test_a_server_with_a_certificate_for_another_name_is_refused(self, authority: Authority, guard: Guard) -> None:
        impostor = RedisServer(guard=guard)
        elsewhere = authority.server("impostor", "elsewhere.invalid")
        impostor.settings |= {"tls-cert-file": str(elsewhere.certfile), "tls-key-file": str(elsewhere.keyfile)}
        try:
            impostor.launch()
            store = RedisStore(settings(impostor.url, authority))
            message = ""

            def refused() -> bool:
                nonlocal message
                try:
                    store.ping()
                except StoreError as error:
                    message = str(error)
                return "certificate" in message.lower()

            wait_until(refused, what="the certificate is refused")
            assert "mismatch" in message
            store.close()
        finally:
            impostor.close()

    def test_a_connection_without_tls_is_refused(self, server: RedisServer, authority: Authority) -> None:
        store = RedisStore(settings(server.url.replace("rediss:", "redis:"), authority))
        with pytest.raises(StoreError, match=r"check "):
            store.ping()
        store.close()

    def test_unreadable_files_are_named_at_the_start(self, server: RedisServer, authority: Authority, tmp_path: Path) -> None:
        with pytest.raises(ConfigError) as caught:
            RedisStore(settings(server.url, authority, ssl_cafile=str(tmp_path / "none"), ssl_keyfile=str(tmp_path)))
        assert [problem.key for problem in caught.value.problems] == ["redis.ssl_cafile", "redis.ssl_keyfile"]
