"""Certificate files of Kafka and Redis: a problem is reported before anything connects, with the setting to correct."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from streammetrics.config.kafka import KafkaSettings
from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.kafka.topics import describe_topics
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.connectors.tls import CertificateFiles
from streammetrics.errors import ConfigError, Problem, SourceError
from tests.tools.servers.certificates import Authority, Identity
from tests.tools.servers.process import HOST, free_port


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def identity(authority: Authority) -> Identity:
    return authority.client("reader")


def ask_kafka(**files: str) -> None:
    """Connect to a port without a server: the files are checked first."""
    describe_topics(KafkaSettings(bootstrap_servers=(f"{HOST}:{free_port()}",), security_protocol="SSL", **files), ["any"])


def make_redis_store(**files: str) -> None:
    RedisStore(RedisSettings(url=f"rediss://{HOST}", **files)).close()


USES = {"kafka": ask_kafka, "redis": make_redis_store}


def problem_of(use: Callable[..., None], **files: Path | str) -> Problem:
    with pytest.raises(ConfigError) as caught:
        use(**{f"ssl_{name}": str(path) for name, path in files.items()})
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize("section", USES)
class TestWrongFiles:
    def test_a_key_of_another_certificate(self, section: str, identity: Identity, authority: Authority) -> None:
        other = authority.client("other").keyfile
        problem = problem_of(USES[section], certfile=identity.certfile, keyfile=other)
        assert (problem.key, problem.value) == (f"{section}.ssl_keyfile", str(other))
        assert f"must hold the key of the first certificate in {section}.ssl_certfile ({identity.certfile})" in problem.allowed

    def test_a_certificate_without_a_key(self, section: str, identity: Identity) -> None:
        problem = problem_of(USES[section], certfile=identity.certfile)
        assert problem.key == f"{section}.ssl_certfile"
        assert f"name the file of the key in {section}.ssl_keyfile" in problem.allowed

    def test_files_with_other_content(self, section: str, identity: Identity) -> None:
        assert problem_of(USES[section], cafile=identity.keyfile).key == f"{section}.ssl_cafile"
        assert problem_of(USES[section], certfile=identity.keyfile, keyfile=identity.keyfile).key == f"{section}.ssl_certfile"
        assert problem_of(USES[section], certfile=identity.certfile, keyfile=identity.certfile).key == f"{section}.ssl_keyfile"

    def test_files_that_cannot_be_read_are_all_named(self, section: str, tmp_path: Path) -> None:
        with pytest.raises(ConfigError) as caught:
            USES[section](ssl_cafile=str(tmp_path / "none"), ssl_certfile=str(tmp_path), ssl_keyfile=str(tmp_path / "none"))
        assert [problem.key for problem in caught.value.problems] == [f"{section}.ssl_{name}" for name in ("cafile", "certfile", "keyfile")]


def test_an_encrypted_kafka_key_needs_its_password_which_is_never_shown(identity: Identity, authority: Authority) -> None:
    files = {"certfile": identity.certfile, "keyfile": identity.locked_keyfile}
    missing = problem_of(ask_kafka, **files)
    assert (missing.key, missing.value) == ("kafka.ssl_password", "(empty)")
    wrong = problem_of(ask_kafka, **files, password="hunter2")
    assert (wrong.key, wrong.value) == ("kafka.ssl_password", "***")
    assert "hunter2" not in str(wrong)
    with pytest.raises(SourceError, match="no Kafka broker can be reached"):
        ask_kafka(**{f"ssl_{name}": str(path) for name, path in files.items()}, ssl_password=authority.key_password)


def test_an_encrypted_redis_key_is_rejected_because_there_is_no_password_setting(identity: Identity) -> None:
    problem = problem_of(make_redis_store, certfile=identity.certfile, keyfile=identity.locked_keyfile)
    assert (problem.key, problem.allowed) == ("redis.ssl_keyfile", "must hold a key without a password")


def test_files_that_the_protocol_does_not_use_are_not_read() -> None:
    settings = KafkaSettings(bootstrap_servers=(f"{HOST}:{free_port()}",), ssl_cafile="/nonexistent")
    with pytest.raises(SourceError, match="no Kafka broker can be reached"):
        describe_topics(settings, ["any"])


def test_files_that_fit_are_loaded(identity: Identity, authority: Authority) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    CertificateFiles(
        section="kafka", cafile=str(authority.cafile), certfile=str(identity.certfile), keyfile=str(identity.keyfile)
    ).load_into(context)
    assert context.cert_store_stats()["x509_ca"] == 1


def test_nothing_secret_shows_in_repr() -> None:
    assert "hunter2" not in repr(CertificateFiles(section="kafka", password="hunter2"))
