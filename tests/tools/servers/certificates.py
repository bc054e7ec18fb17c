"""Certificates for test servers and their clients, issued by a CA that each test creates. None is ever committed."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography.hazmat.primitives import serialization

from tests.tools.servers.process import HOST

KEY_PASSWORD = "key-pass-word"


class Identity(NamedTuple):
    """PEM files: a certificate, its key (PKCS#8), both in one file, and the key encrypted with a password."""

    certfile: Path
    keyfile: Path
    bothfile: Path
    locked_keyfile: Path


class Authority:
    """A certificate authority with its files in a directory. `key_password` opens the encrypted keys.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     Authority(Path(scratch)).server().certfile.read_text().splitlines()[0]
    '-----BEGIN CERTIFICATE-----'
    """

    key_password = KEY_PASSWORD

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._authority = trustme.CA()
        self.cafile = directory / "authority.pem"
        self._authority.cert_pem.write_to_path(str(self.cafile))

    def server(self, name: str = "server", *places: str, expired: bool = False, password: str = KEY_PASSWORD) -> Identity:
        """Issue a server certificate for the loopback address and localhost, or for the given `places`."""
        until = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1) if expired else None
        from_ = until - datetime.timedelta(days=2) if until else None
        issued = self._authority.issue_cert(*(places or (HOST, "localhost")), common_name=name, not_after=until, not_before=from_)
        return self._written(name, issued, password)

    def client(self, name: str, password: str = KEY_PASSWORD) -> Identity:
        """Issue a client certificate with the common name `name`."""
        return self._written(name, self._authority.issue_cert(f"{name}@test.invalid", common_name=name), password)

    def _written(self, name: str, issued: trustme.LeafCert, password: str) -> Identity:
        key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), password=None)
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        plain = _key_pem(key, serialization.NoEncryption())
        contents = (chain, plain, plain + chain, _key_pem(key, serialization.BestAvailableEncryption(password.encode())))
        files = Identity(*(self._directory / f"{name}-{part}.pem" for part in ("certificate", "key", "both", "locked-key")))
        for path, content in zip(files, contents, strict=True):
            path.write_bytes(content)
        return files


def _key_pem(key: object, encryption: serialization.KeySerializationEncryption) -> bytes:
    content = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)  # type: ignore[attr-defined]
    return bytes(content)
