"""The whole product with every kind of protection, on real servers. No secret appears in any output.

Kafka uses SCRAM over TLS, Redis uses TLS and an ACL, and the product's own port uses TLS and a login. Every command runs with every
secret, given in every way, and all its output is searched.
"""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import ACLOperation, ResourceType

from streammetrics.config import hash_password, keys
from streammetrics.events.model import Impression
from streammetrics.exporters.http.answers import HttpAnswers
from streammetrics.runtime.status import ProcessStatus
from tests.support.command_line import called, environment, streammetrics
from tests.support.committed_state import MINUTE_MS, START_MS, Now, served
from tests.support.committed_state import Pipeline as EnginePipeline
from tests.support.native_json import native_json
from tests.support.paths import ROOT
from tests.support.real_pipeline import PARTITIONS, Pipeline, Service, start_ms
from tests.support.redis_acl import with_passwords
from tests.tools.servers.certificates import Authority
from tests.tools.servers.kafka_secure import SecureKafkaBroker
from tests.tools.servers.process import HOST, wait_until
from tests.tools.servers.product import Answer
from tests.tools.servers.prometheus import PrometheusServer
from tests.tools.servers.redis import Guard, RedisServer

SHIPPED = ROOT / "deploy" / "redis-users.acl"
USER = "scraper"
SECRETS = {
    "kafka.sasl_password": "kafka-Word-73c1",
    "kafka.ssl_password": "kafka-Key-2f9e",
    "redis.password": "redis-Word-b81d",
    "redis.sentinel_password": "redis-Sentinel-5e1c",
    "http.ssl_password": "http-Key-5a07",
    "client.password": "client-Word-0a9d",
}
WORD = "http-Word-e446"
"""The password of the port. The product has only its hash."""
HASH = hash_password(WORD)
SALT, DIGEST = HASH.rpartition("$")[2][:22], HASH.rpartition("$")[2][22:]
SEARCHED = {**SECRETS, "the port's password": WORD, "http.password_hash": HASH, "its salt": SALT, "its digest": DIGEST}
CURVES = "/api/curves?window_ms=300000&metric=ndcg@10"
COMMANDS = ("run", "replay", "simulate", "demo", "doctor", "check-config")


def secrets_in(text: str) -> list[str]:
    """Return the secrets in a text: plain, in base64 or in hex."""
    forms = {name: (word, base64.b64encode(word.encode()).decode(), word.encode().hex()) for name, word in SEARCHED.items()}
    return [name for name, words in forms.items() if any(word in text for word in words)]


class LockedService(Service):
    """A process whose own port uses TLS and a login."""

    def __init__(self, settings: Mapping[str, Mapping[str, object]], cafile: Path) -> None:
        super().__init__(settings)
        self.context = ssl.create_default_context(cafile=str(cafile))
        self.login: str | None = f"{USER}:{WORD}"

    def request(self, path: str) -> urllib.request.Request:
        request = super().request(path)
        if self.login is not None:
            request.add_header("Authorization", "Basic " + base64.b64encode(self.login.encode()).decode())
        return request


@dataclass(frozen=True, slots=True)
class ProtectedServers:
    """Protected servers, the settings to reach them, and records in the topics."""

    authority: Authority
    broker: SecureKafkaBroker
    pipeline: Pipeline
    settings: dict[str, dict[str, object]]

    def without_secrets(self) -> dict[str, dict[str, object]]:
        return {
            section: {leaf: value for leaf, value in values.items() if not keys()[f"{section}.{leaf}"].is_secret or leaf == "url"}
            for section, values in self.settings.items()
        }

    def secrets(self) -> dict[str, str]:
        """Return every secret by its key. All secret settings are set, but URLs."""
        passwords = {
            f"{section}.{leaf}": str(value)
            for section, values in self.settings.items()
            for leaf, value in values.items()
            if keys()[f"{section}.{leaf}"].is_secret and leaf != "url"
        }
        assert set(passwords) == {key for key, setting in keys().items() if setting.is_secret and not key.endswith(".url")}
        return passwords


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProtectedServers]:
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    guard = Guard(
        authority,
        with_passwords(SHIPPED.read_text(), dict.fromkeys(("operator", "streammetrics"), SECRETS["redis.password"])),
        "operator",
        SECRETS["redis.password"],
    )
    certificate, kafka_own = authority.client("streammetrics"), authority.client("kafka", password=SECRETS["kafka.ssl_password"])
    port = authority.server("port", password=SECRETS["http.ssl_password"])
    with SecureKafkaBroker(authority, {"reader": SECRETS["kafka.sasl_password"]}) as broker, RedisServer(guard=guard) as server:
        sections: dict[str, dict[str, object]] = {
            "kafka": {
                "bootstrap_servers": [broker.bootstrap_of("SASL_SSL")],
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "SCRAM-SHA-512",
                "sasl_username": "reader",
                "sasl_password": SECRETS["kafka.sasl_password"],
                "ssl_cafile": str(authority.cafile),
                "ssl_certfile": str(kafka_own.certfile),
                "ssl_keyfile": str(kafka_own.locked_keyfile),
                "ssl_password": SECRETS["kafka.ssl_password"],
            },
            "redis": {
                "namespace": "sm",
                "username": "streammetrics",
                "password": SECRETS["redis.password"],
                "sentinel_password": SECRETS["redis.sentinel_password"],
                "ssl_cafile": str(authority.cafile),
                "ssl_certfile": str(certificate.certfile),
                "ssl_keyfile": str(certificate.keyfile),
            },
            "http": {
                "ssl_certfile": str(port.certfile),
                "ssl_keyfile": str(port.locked_keyfile),
                "ssl_password": SECRETS["http.ssl_password"],
                "username": USER,
                "password_hash": HASH,
            },
            "client": {"username": USER, "password": SECRETS["client.password"]},
            "windows": {"segments": ["surface"]},
            "log": {"format": "json", "level": "debug"},
        }
        pipeline = Pipeline(broker, server.url, "locked", ["impressions", "feedback"], **sections)
        for topic in pipeline.topics:
            broker.allow("reader", ResourceType.TOPIC, topic, ACLOperation.READ, ACLOperation.WRITE)
        broker.allow("reader", ResourceType.TOPIC, pipeline.dead_letters, ACLOperation.WRITE)
        broker.allow("reader", ResourceType.GROUP, "locked", ACLOperation.READ)
        with pipeline.producer() as producer:
            for number in range(30):
                event = Impression("list", f"u{number}", start_ms(), ("a", "b"), experiments=(("ranker", f"v{number % 2}"),))
                producer.send(pipeline.topics[0], native_json(event), key=event.user_id.encode(), timestamp_ms=event.ts)
            producer.send(pipeline.topics[0], b"{broken", key=b"u1", timestamp_ms=start_ms())
        pipeline.write_ends(start_ms() + 3_600_000)
        yield ProtectedServers(authority, broker, pipeline, {name: dict(values) for name, values in pipeline.sections.items()})


@pytest.fixture(scope="module")
def service(world: ProtectedServers) -> Iterator[LockedService]:
    with LockedService(world.settings, world.authority.cafile) as service:
        wait_until(lambda: service.report().get("tasks_committed") == 4, what="everything is committed and shown")
        yield service


class TestProtectedRun:
    def test_a_run_gives_exact_numbers(self, world: ProtectedServers, service: LockedService) -> None:
        truth = world.pipeline.assert_exact()
        assert truth.counters["events", world.pipeline.topics[0]] == 30 + 1 + PARTITIONS

    def test_prometheus_scrapes_it_with_tls_and_login(
        self, world: ProtectedServers, service: LockedService, prometheus_server: PrometheusServer
    ) -> None:
        how: dict[str, Any] = {"scheme": "https", "tls_config": {"ca_file": str(world.authority.cafile)}}
        login = {"username": USER, "password": WORD}
        at = f"{HOST}:{service.port}"
        prometheus_server.scrape("locked", at, **how, basic_auth=login)
        prometheus_server.scrape("wrong-word", at, **how, basic_auth={**login, "password": "wrong"})
        prometheus_server.scrape("no-login", at, **how)
        prometheus_server.scrape("no-authority", at, scheme="https", basic_auth=login)
        prometheus_server.scrape("no-tls", at, basic_auth=login)
        try:
            assert prometheus_server.wait_for('up{job="locked"} == 1')
            lists = prometheus_server.wait_for('streammetrics_final_lists_total{job="locked", variant="v1"}')
            assert [sample.value for sample in lists] == [15.0]
            for job in ("wrong-word", "no-login", "no-authority", "no-tls"):
                assert [sample.value for sample in prometheus_server.wait_for(f'up{{job="{job}"}}')] == [0.0], job
        finally:
            for job in ("locked", "wrong-word", "no-login", "no-authority", "no-tls"):
                prometheus_server.forget(job)

    def test_probes_need_tls_and_no_login(self, world: ProtectedServers, service: LockedService) -> None:
        stranger = LockedService(world.settings, world.authority.cafile)
        stranger.port, stranger.login = service.port, None
        try:
            assert [stranger.get(path) for path in ("/healthz", "/readyz")] == [Answer(200, "ok\n")] * 2
            assert [stranger.get(path).status for path in ("/", "/metrics", "/api/report", "/page.js")] == [401] * 4
        finally:
            stranger.close()


class TestSecrets:
    def test_the_search_finds_secrets(self, world: ProtectedServers, tmp_path: Path) -> None:
        (_, config) = configured(tmp_path, world.settings)
        assert set(secrets_in(Path(config).read_text())) == set(SEARCHED) - {"the port's password"}
        assert secrets_in("so 6b61666b612d576f72642d37336331 and aHR0cC1Xb3JkLWU0NDY=") == ["kafka.sasl_password", "the port's password"]

    def test_the_log_and_responses_of_a_run_show_none(self, service: LockedService) -> None:
        paths = ("/", "/page.js", "/metrics", "/api/report", "/api/pulse", CURVES, "/healthz", "/readyz", "/nothing")
        responses = {path: service.get(path).text for path in paths}
        for wrong in (f"{USER}:wrong", f"{WORD}:x", None):
            service.login, right = wrong, service.login
            responses[f"/metrics as {wrong}"] = service.get("/metrics").text
            service.login = right
        assert {where: secrets_in(text) for where, text in responses.items() if secrets_in(text)} == {}
        assert secrets_in(service.log) == []
        assert '"event": "started"' in service.log, "the log is not empty"
        assert "login refused" in service.log

    def test_the_process_list_shows_none(self, service: LockedService) -> None:
        assert secrets_in(Path(f"/proc/{service.pid}/cmdline").read_text()) == []

    @pytest.mark.parametrize("way", ["file", "environment", "secret files", "flags"])
    @pytest.mark.parametrize("command", ["check-config", "doctor"])
    def test_no_command_shows_one_however_it_was_given(self, world: ProtectedServers, tmp_path: Path, command: str, way: str) -> None:
        given = world.settings if way == "file" else world.without_secrets()
        words, environ = self.ways(world, tmp_path, way)
        done = called(command, *configured(tmp_path, given), *words, environ=environ)
        assert done.returncode == 0, done.stdout + done.stderr
        assert secrets_in(done.stdout + done.stderr) == []
        if command == "check-config":
            assert done.stdout.count('"***"') == len(world.secrets())

    @pytest.mark.parametrize("command", COMMANDS)
    def test_help_shows_none(self, world: ProtectedServers, tmp_path: Path, command: str) -> None:
        _, environ = self.ways(world, tmp_path, "environment")
        done = called(command, "--help", environ=environ)
        assert done.returncode == 0
        assert secrets_in(done.stdout + done.stderr) == []

    @pytest.mark.parametrize("way", ["file", "environment", "secret files", "flags"])
    def test_wrong_settings_show_none(self, world: ProtectedServers, tmp_path: Path, way: str) -> None:
        """Secrets are given together with settings that are invalid or unknown."""
        given = world.settings if way == "file" else world.without_secrets()
        words, environ = self.ways(world, tmp_path, way)
        wrong = [
            "--set",
            "http.port=none",
            "--set",
            "kafka.sasl_username=",
            "--set",
            f"kafka.sasl_pasword={SECRETS['kafka.sasl_password']}",
        ]
        done = called("check-config", *configured(tmp_path, given), *words, *wrong, environ=environ)
        assert done.returncode == 2
        assert "problems" in done.stderr
        assert secrets_in(done.stdout + done.stderr) == []

    def test_refused_logins_show_none(self, world: ProtectedServers, tmp_path: Path) -> None:
        """Every password is wrong for its server. The output has client errors, retries and the last error before the exit."""
        swapped = {section: dict(values) for section, values in world.settings.items()}
        swapped["kafka"]["sasl_password"], swapped["redis"]["password"] = SECRETS["redis.password"], SECRETS["kafka.sasl_password"]
        swapped["worker"] = {**swapped["worker"], "retry_seconds_max": 1}
        for command in ("doctor", "run"):
            done = streammetrics(command, *configured(tmp_path, swapped), "--set", "http.port=0")
            assert done.returncode == 1, done.stdout + done.stderr
            assert "redis.username and redis.password" in done.stdout + done.stderr
            assert secrets_in(done.stdout + done.stderr) == []

    @pytest.mark.parametrize(
        ("section", "leaf", "named"),
        [
            ("kafka", "ssl_password", "kafka.ssl_password"),
            ("http", "ssl_password", "http.ssl_password"),
            ("http", "password_hash", "http.password_hash"),
        ],
    )
    def test_a_wrong_key_password_shows_none(self, world: ProtectedServers, tmp_path: Path, section: str, leaf: str, named: str) -> None:
        wrong = {name: dict(values) for name, values in world.settings.items()}
        wrong[section][leaf] = SECRETS["redis.password"]
        wrong["worker"] = {**wrong["worker"], "retry_seconds_max": 1}
        for command in ("run", "doctor"):
            done = streammetrics(command, *configured(tmp_path, wrong), "--set", "http.port=0")
            assert done.returncode in (1, 2)
            assert named in done.stdout + done.stderr
            assert secrets_in(done.stdout + done.stderr) == []

    def test_a_crash_shows_its_traceback_without_values(self, world: ProtectedServers, tmp_path: Path) -> None:
        """A traceback on a terminal could print the variables of every frame. Ours must not."""
        script = tmp_path / "crash.py"
        script.write_text(
            "import sys, structlog\n"
            "from pathlib import Path\n"
            "from streammetrics.config import load\n"
            "from streammetrics.wiring.logs import configure_logs\n"
            "configure_logs('debug', 'console')\n"
            "def crash(settings, kafka, redis, word):\n"
            "    raise RuntimeError(f'{settings} {kafka} {redis}')\n"
            "settings = load(Path(sys.argv[1]), {}, {}).settings\n"
            "try:\n"
            "    crash(settings, settings.kafka, settings.redis, settings.redis.password)\n"
            "except RuntimeError:\n"
            "    structlog.get_logger().exception('crashed')\n"
            "crash(settings, settings.kafka, settings.redis, settings.redis.password)\n"
        )
        (_, config) = configured(tmp_path, world.settings)
        done = subprocess.run([sys.executable, script, config], capture_output=True, text=True, env=environment(), cwd=ROOT, check=False)
        assert (done.stdout + done.stderr).count("RuntimeError") >= 2
        assert secrets_in(done.stdout + done.stderr) == []

    def test_simulated_traffic_is_sent_without_showing_one(self, world: ProtectedServers, tmp_path: Path) -> None:
        done = streammetrics("simulate", "--kafka", "--start", "1m", "--minutes", "0.5", *configured(tmp_path, world.settings))
        assert done.returncode == 0, done.stdout + done.stderr
        assert secrets_in(done.stdout + done.stderr) == []

    @staticmethod
    def ways(world: ProtectedServers, folder: Path, way: str) -> tuple[list[str], dict[str, str]]:
        """Return the arguments and environment variables that pass every secret in one way."""
        secrets = world.secrets()
        variables = {f"STREAMMETRICS_{key.upper().replace('.', '_')}": word for key, word in secrets.items()}
        if way == "environment":
            return [], variables
        if way == "flags":
            return [word for key, secret in secrets.items() for word in ("--set", f"{key}={secret}")], {}
        if way == "secret files":
            for name, secret in variables.items():
                (folder / name).write_text(secret + "\n")
            return [], {f"{name}_FILE": str(folder / name) for name in variables}
        return [], {}


def configured(folder: Path, settings: Mapping[str, Mapping[str, object]]) -> tuple[str, str]:
    path = folder / "streammetrics.toml"
    tables = (
        "\n".join([f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]) for name, values in settings.items()
    )
    path.write_text("\n".join(tables) + "\n")
    return "--config", str(path)


class TestNamesThatAreMarkup:
    """Senders choose the names of experiments, variants and segments. They are shown as text everywhere."""

    NAMES = ('<script>alert("1")</script>', "'><img src=x onerror=alert(1)>", '\\"} 1\\n', "</script>&amp;{{7*7}}${x}")

    def test_prometheus_and_the_report_have_the_names_as_sent(self, prometheus_server: PrometheusServer) -> None:
        events = [
            Impression("list", f"u{number}", START_MS + number, ("a",), experiments=((name, name),), segments=(("surface", name),))
            for number, name in enumerate(self.NAMES)
        ]
        pipeline = EnginePipeline(segments=("surface",)).feed("impressions", *events).move_on(START_MS + 40 * MINUTE_MS)
        answers = HttpAnswers(pipeline.exposition(ProcessStatus()), Now())
        answers.show(pipeline.report())
        with served(answers) as base:
            prometheus_server.scrape("markup", base.removeprefix("http://"))
            lists = prometheus_server.wait_for('streammetrics_window_lists{job="markup", view="final", window="1h"}')
            prometheus_server.forget("markup")
            with urllib.request.urlopen(f"{base}/api/report", timeout=10) as answer:
                report, kind = json.load(answer), answer.headers
            with urllib.request.urlopen(f"{base}/", timeout=10) as page:
                content = page.read().decode()
        labels = ("experiment", "variant", "segments")
        seen = {tuple(sample.labels.get(label, "") for label in labels): sample.value for sample in lists}
        wanted: dict[tuple[str, ...], float] = {}
        for name in self.NAMES:
            wanted |= {(name, name, ""): 1.0, ("", "", f"surface={name}"): 1.0, (name, name, f"surface={name}"): 1.0}
        assert {key: value for key, value in seen.items() if key in wanted} == wanted
        assert {experiment for experiment, *_ in seen} == {"", *self.NAMES}
        assert kind["content-type"] == "application/json"
        assert kind["x-content-type-options"] == "nosniff"
        assert set(self.NAMES) <= {group["variant"] for window in report["windows"] for group in window["groups"]}
        assert not [name for name in self.NAMES if name in content], "the page contains no name, because its script fetches them as data"
