"""Checks certificate files (PEM) before anything connects: are they readable, and do they belong together?

OpenSSL reports a wrong key, a wrong password and a wrong file with the same error, and asks for a password on the
terminal. Here each problem names the setting to correct. No part of a key or password is ever shown.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from streammetrics.errors import ConfigError, Problem

TOO_WEAK = ("EE_KEY_TOO_SMALL", "CA_MD_TOO_WEAK", "CA_KEY_TOO_SMALL")


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFiles:
    """The files of one configuration section; None: not given. `repr` shows no secret. The names of the settings begin with `prefix`.

    `cafile` has the trusted authorities. `certfile` has our own certificate, and its key if `keyfile` is None. If the section
    has no setting for a password (`takes_password` is false), the key must not have one.
    """

    section: str
    prefix: str = "ssl_"
    cafile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    password: str | None = field(default=None, repr=False)
    takes_password: bool = True

    def load_into(self, context: ssl.SSLContext) -> None:
        """Load the files into the context. Raises ConfigError: for all unreadable files, or else for the first one that does not fit."""
        self._require_readable()
        if self.cafile is not None:
            self._load_authorities(context, self.cafile)
        if self.certfile is not None:
            self._load_own(context, self.certfile)

    def check(self) -> None:
        """Check the files for a client that reads them itself each time it connects."""
        self.load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def _key(self, name: str) -> str:
        return f"{self.section}.{self.prefix}{name}"

    def _require_readable(self) -> None:
        problems = []
        for name, path in (("cafile", self.cafile), ("certfile", self.certfile), ("keyfile", self.keyfile)):
            if path is not None:
                try:
                    Path(path).open("rb").close()
                except OSError as error:
                    problems.append(Problem(self._key(name), path, f"must be a file that can be read ({error.strerror})"))
        if problems:
            raise ConfigError(problems)

    def _load_authorities(self, context: ssl.SSLContext, path: str) -> None:
        try:
            context.load_verify_locations(path)
        except ssl.SSLError:
            allowed = "must hold the certificates of authorities in PEM (-----BEGIN CERTIFICATE-----)"
            raise ConfigError([Problem(self._key("cafile"), path, allowed)]) from None

    def _load_own(self, context: ssl.SSLContext, certfile: str) -> None:
        asked = []

        def password() -> str:  # without this function, OpenSSL would ask on the terminal
            asked.append(True)
            return self.password or ""

        try:
            context.load_cert_chain(certfile, self.keyfile, password)
        except (ssl.SSLError, ValueError) as error:  # a ValueError is a password that is too long
            raise ConfigError([self._mismatch(certfile, str(getattr(error, "reason", "") or ""), bool(asked))]) from None

    def _mismatch(self, certfile: str, reason: str, password_asked: bool) -> Problem:
        """Return what is wrong with readable files that do not work together."""
        name, path = ("keyfile", self.keyfile) if self.keyfile else ("certfile", certfile)
        key, certificate_key = self._key(name), self._key("certfile")
        if reason == "KEY_VALUES_MISMATCH":
            allowed = f"must hold the key of the first certificate in {certificate_key} ({certfile}); it holds another"
            return Problem(key, path, allowed)
        if password_asked and not self.takes_password:
            return Problem(key, path, "must hold a key without a password")
        if password_asked:
            message = "does not open" if self.password else "is empty and must open"
            password = "***" if self.password else "(empty)"
            return Problem(self._key("password"), password, f"{message} the key in {key} ({path})")
        if not _holds_certificate(certfile):
            return Problem(certificate_key, certfile, "must hold a certificate in PEM (-----BEGIN CERTIFICATE-----)")
        if reason in TOO_WEAK:
            allowed = f"must hold a certificate that is strong enough for today's peers ({reason})"
            return Problem(certificate_key, certfile, allowed)
        also = "" if self.keyfile else f"; or name the file of the key in {self._key('keyfile')}"
        return Problem(key, path, f"must hold the private key in PEM (-----BEGIN PRIVATE KEY-----){also}")


def _holds_certificate(path: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError:
        return False
    return True
