"""The Redis store with TLS."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.errors import ConfigError, StoreError
from tests.support.store_contract import Owner
from tests.tools.servers.process import HOST, free_port
from tests.tools.servers.redis import RedisServer


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of a CA, a server and a client with their keys, and a second CA that signed none of them."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    for authority in ("ca", "other-ca"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{authority}.key", "-out", f"{authority}.crt",
                "-days", "2", "-subj", f"/CN={authority}")  # fmt: skip
    (folder / "extensions").write_text(f"subjectAltName=IP:{HOST}\n", encoding="utf-8")
    for name in ("server", "client"):
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-out", f"{name}.crt",
                "-days", "2", "-extfile", "extensions")  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def tls_url(certificates: Path) -> Iterator[str]:
    port = free_port()
    files = {"tls-cert-file": "server.crt", "tls-key-file": "server.key", "tls-ca-cert-file": "ca.crt"}
    options = {"tls-port": str(port), "tls-auth-clients": "yes", **{name: str(certificates / file) for name, file in files.items()}}
    with RedisServer(append_only=False, settings=options):
        yield f"rediss://{HOST}:{port}/0"


def test_tls_with_certificates_on_both_sides(certificates: Path, tls_url: str, namespace: str) -> None:
    files = {"ssl_cafile": "ca.crt", "ssl_certfile": "client.crt", "ssl_keyfile": "client.key"}
    connection = RedisSettings(url=tls_url, namespace=namespace, **{name: str(certificates / file) for name, file in files.items()})
    store = RedisStore(connection)
    Owner(store, 0).must_commit()
    store.close()


@pytest.mark.parametrize(
    "files",
    [{"ssl_cafile": "other-ca.crt", "ssl_certfile": "client.crt", "ssl_keyfile": "client.key"}, {"ssl_cafile": "ca.crt"}, {}],
    ids=["another CA", "no client certificate", "the system's CAs"],
)
def test_failed_tls_names_the_certificate_settings(certificates: Path, tls_url: str, files: dict[str, str]) -> None:
    store = RedisStore(RedisSettings(url=tls_url, **{name: str(certificates / file) for name, file in files.items()}))
    with pytest.raises(StoreError, match=r"check redis\.ssl_cafile, redis\.ssl_certfile and redis\.ssl_keyfile"):
        store.ping()
    store.close()


def test_tls_to_a_server_without_tls_is_explained(redis_server: RedisServer) -> None:
    store = RedisStore(RedisSettings(url=f"rediss://{HOST}:{redis_server.port}/0", socket_timeout_ms=300))
    with pytest.raises(StoreError, match=r"redis\.url must begin with redis:// if the server does not use TLS"):
        store.ping()
    store.close()


def test_all_unreadable_certificates_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        RedisStore(RedisSettings(url="rediss://localhost", ssl_cafile="/nonexistent/ca", ssl_keyfile="/nonexistent/key"))
    assert [problem.key for problem in caught.value.problems] == ["redis.ssl_cafile", "redis.ssl_keyfile"]
