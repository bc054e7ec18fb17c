"""Builds the HTTP server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from streammetrics.config import PasswordHash, read_htpasswd
from streammetrics.config.fields import secret_text

if TYPE_CHECKING:
    from streammetrics.config.worker import HttpSettings
    from streammetrics.exporters.http.answers import HttpAnswers
    from streammetrics.exporters.http.connections import HttpRules
    from streammetrics.exporters.http.server import HttpServer


def http_rules(http: HttpSettings) -> HttpRules:
    """Build the TLS files and limits of the HTTP port."""
    from streammetrics.exporters.http.connections import HttpRules  # noqa: PLC0415  slow import

    return HttpRules(
        ssl_certfile=http.ssl_certfile,
        ssl_keyfile=http.ssl_keyfile,
        ssl_password=secret_text(http.ssl_password),
        connections_max=http.connections_max,
        request_seconds=http.request_ms / 1_000,
    )


def http_server(answers: HttpAnswers, http: HttpSettings) -> HttpServer:
    """Build the HTTP server. Raises ConfigError if the address or the certificate cannot be used."""
    from streammetrics.exporters.http.auth import Login  # noqa: PLC0415  slow import
    from streammetrics.exporters.http.server import HttpServer  # noqa: PLC0415

    users = http_users(http)
    login = Login({name: stored.matches for name, stored in users.items()}) if users else None
    return HttpServer(answers, http.host, http.port, http_rules(http), login)


def http_users(http: HttpSettings) -> dict[str, PasswordHash]:
    """Return the hashes of passwords by user; empty if the port needs no login.

    Raises ConfigError if the htpasswd file cannot be used.
    """
    if http.htpasswd_file:
        return read_htpasswd(Path(http.htpasswd_file))
    if http.username and http.password_hash:
        return {http.username: PasswordHash.parse(http.password_hash.get_secret_value())}
    return {}
