"""Builds the HTTP server and the sender of the webhook."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from streammetrics.config import PasswordHash, Settings, read_htpasswd
from streammetrics.config.fields import secret_text
from streammetrics.connectors.clock import Clock
from streammetrics.connectors.http_client import HttpClient
from streammetrics.connectors.tls import CertificateFiles
from streammetrics.connectors.webhook import WebhookReceiver
from streammetrics.reports.changes import json_message, slack_message
from streammetrics.runtime.publish.webhook import RecordStore, WebhookRules, WebhookSender
from streammetrics.runtime.status import ProcessStatus

if TYPE_CHECKING:
    from streammetrics.config.outgoing import WebhookSettings
    from streammetrics.config.serving import HttpSettings
    from streammetrics.exporters.http.limits import HttpRules
    from streammetrics.exporters.http.server import HttpServer
    from streammetrics.exporters.http.views import HttpViews


def http_rules(http: HttpSettings) -> HttpRules:
    """Build the TLS files and limits of the HTTP port."""
    from streammetrics.exporters.http.limits import HttpRules  # noqa: PLC0415  slow import

    return HttpRules(
        ssl_certfile=http.ssl_certfile,
        ssl_keyfile=http.ssl_keyfile,
        ssl_password=secret_text(http.ssl_password),
        connections_max=http.connections_max,
        request_seconds=http.request_ms / 1_000,
    )


def http_server(views: HttpViews, http: HttpSettings) -> HttpServer:
    """Build the HTTP server. Raises ConfigError if the address or the certificate cannot be used."""
    from streammetrics.exporters.http.auth import Login  # noqa: PLC0415  slow import
    from streammetrics.exporters.http.server import HttpServer  # noqa: PLC0415

    users = http_users(http)
    login = Login({name: stored.matches for name, stored in users.items()}) if users else None
    return HttpServer(views, http.host, http.port, http_rules(http), login)


def http_users(http: HttpSettings) -> dict[str, PasswordHash]:
    """Return the hashes of passwords by user; empty if the port needs no login.

    Raises ConfigError if the htpasswd file cannot be used.
    """
    if http.htpasswd_file:
        return read_htpasswd(Path(http.htpasswd_file))
    if http.username and http.password_hash:
        return {http.username: PasswordHash.parse(http.password_hash.get_secret_value())}
    return {}


def webhook_client(webhook: WebhookSettings, timeout_seconds: float) -> HttpClient:
    """Build the HTTP client of the webhook."""
    files = CertificateFiles(section="webhook", cafile=webhook.ssl_cafile)
    return HttpClient(timeout_seconds=timeout_seconds, certificates=files)


def webhook_sender(settings: Settings, store: RecordStore, clock: Clock, status: ProcessStatus) -> WebhookSender:
    """Build the sender of the webhook, whose URL must be set. Raises ConfigError for authorities that cannot be used."""
    webhook = settings.webhook
    client = webhook_client(webhook, webhook.timeout_ms / 1_000)
    client.check()
    receiver = WebhookReceiver(url=secret_text(webhook.url) or "", client=client, wall_ms=clock.wall_ms, secret=secret_text(webhook.secret))
    rules = WebhookRules(
        source=settings.redis.namespace,
        watched=frozenset(webhook.on),
        message=slack_message if webhook.format == "slack" else json_message,
        timeout_seconds=webhook.timeout_ms / 1_000,
        give_up_ms=webhook.give_up_ms,
    )
    return WebhookSender(store, receiver, rules, clock, status)
