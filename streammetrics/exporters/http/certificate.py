"""The certificate of the HTTP port. A renewed one is used from the next connection on, without a restart."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, Any

import structlog

from streammetrics.connectors.tls import CertificateFiles
from streammetrics.errors import ConfigError

if TYPE_CHECKING:
    from streammetrics.exporters.http.limits import HttpRules

log = structlog.get_logger("streammetrics.http")


def tls_context(rules: HttpRules) -> ssl.SSLContext | None:
    """Return the TLS context of the port; None without a certificate. Raises ConfigError with the name of an unusable file."""
    return None if rules.ssl_certfile is None else _Certificate(rules).context


class _Certificate:
    """The files of a certificate. `context` looks at them in each handshake and reads them again if they have changed."""

    def __init__(self, rules: HttpRules) -> None:
        self._files = CertificateFiles(section="http", certfile=rules.ssl_certfile, keyfile=rules.ssl_keyfile, password=rules.ssl_password)
        self._seen = self._versions()
        self._current = self.context = self._loaded()
        self.context.sni_callback = self._renew

    def _renew(self, connection: ssl.SSLObject, name: str | None, context: Any) -> None:
        """Give a new connection the certificate that is in the files now. Files that do not fit yet leave the former one."""
        if (seen := self._versions()) != self._seen:
            self._seen = seen
            try:
                self._current = self._loaded()
            except ConfigError as error:
                log.warning("the renewed certificate cannot be used; the former one stays in use", reason=str(error))
            else:
                log.info("the certificate was renewed", file=self._files.certfile)
        connection.context = self._current

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2  # some distributions leave it to the configuration of OpenSSL
        self._files.load_into(context)
        return context

    def _versions(self) -> list[tuple[int, int] | None]:
        """Return what changes when a file is replaced or written; None for a file that cannot be looked at."""
        return [_version(path) for path in (self._files.certfile, self._files.keyfile) if path is not None]


def _version(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
