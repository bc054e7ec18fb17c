"""Settings of what this program sends: requests to an exporter and to the receiver of a webhook, and files of results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr

from streammetrics.config.addresses import http_parts, is_this_machine
from streammetrics.config.fields import (
    PATH_OR_EMPTY,
    Conflict,
    Listed,
    OptionalSecret,
    OptionalText,
    OptionalUserName,
    Section,
    Whole,
    milliseconds,
    setting,
)
from streammetrics.events.event_time import DAY_MS


def _http_url(given: SecretStr | None) -> SecretStr | None:
    if given is None:
        return None
    parts = http_parts(given.get_secret_value())
    if "@" in parts.netloc or parts.fragment:
        raise ValueError("the URL must have no user, no password and no #")
    return given


HttpUrl = Annotated[OptionalSecret, AfterValidator(_http_url)]


class ClientSettings(Section):
    url: HttpUrl = setting(
        None,
        "The exporter that `gate` and `report` ask. Empty: they read the state in Redis.",
        "http://host:port or https://host, or empty for none",
    )
    username: OptionalUserName = setting(None, "User name for HTTP basic authentication.", "a name without a colon, or empty for none")
    password: OptionalSecret = setting(None, "Password of that user.", "a text, or empty for none")
    ssl_cafile: OptionalText = setting(
        None, "Certificate authorities to trust (PEM), beside those of the system.", "a file path, or empty for none"
    )
    timeout_ms: Whole = milliseconds(10_000, "Time for one whole request.", least=100, most=600_000)

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the settings of this section that contradict each other."""
        if self.password and not self.username:
            yield Conflict(("client.username", "client.password"), "is required with client.password")
        if self.username and not self.password:
            yield Conflict(("client.password", "client.username"), "is required with client.username")

    def advice(self) -> Iterator[str]:
        """Yield warnings: settings that are valid but probably not intended."""
        parts = urlsplit(self.url.get_secret_value() if self.url else "")
        if self.password and parts.scheme == "http" and not is_this_machine(parts.hostname):
            yield f"client.url without https: the password is sent to {parts.hostname} unencrypted"


def _whole_minutes(span_ms: int) -> int:
    if span_ms % 60_000 or DAY_MS % span_ms:
        raise ValueError("a day must be a whole number of spans, and a span a whole number of minutes")
    return span_ms


class ResultSettings(Section):
    directory: OptionalText = setting(
        None,
        "Directory for Parquet files of results: final panes, and changes of verdicts. Every exporter writes them; several may share the"
        " directory. Empty: no files.",
        PATH_OR_EMPTY,
    )
    file_ms: Annotated[Whole, AfterValidator(_whole_minutes)] = milliseconds(
        3_600_000,
        "Event time of one file of panes. A file is written once all of its panes are final, so a shorter time means fresher data in more"
        " and smaller files. It divides a day, and is a whole number of minutes and of panes.",
        least=60_000,
        most=DAY_MS,
    )


class WebhookSettings(Section):
    url: HttpUrl = setting(
        None, "Where to send each change of a verdict or a gate. Empty: nowhere.", "an http or https URL, or empty for none"
    )
    secret: OptionalSecret = setting(
        None,
        "Shared secret. Messages are signed with it: HMAC-SHA256 over TIMESTAMP.BODY, in the header x-streammetrics-signature.",
        "a text, or empty for none",
    )
    format: Literal["json", "slack"] = setting("json", "json has all fields; slack is one text, for an incoming webhook of Slack.")
    on: Listed[Literal["verdict", "gate"]] = setting(
        ("verdict", "gate"), "What makes a message: a changed verdict, a changed gate, or both.", "a list of verdict and gate"
    )
    timeout_ms: Whole = milliseconds(10_000, "Time for one whole request.", least=100, most=60_000)
    give_up_ms: Whole = milliseconds(
        86_400_000, "How long to try a message again, with growing pauses of up to five minutes, before it is dropped and counted."
    )
    ssl_cafile: OptionalText = setting(
        None, "Certificate authorities to trust (PEM), beside those of the system.", "a file path, or empty for none"
    )

    def advice(self) -> Iterator[str]:
        """Yield warnings: settings that are valid but probably not intended."""
        if self.url and self.format == "json" and not self.secret:
            yield "webhook.secret is empty: messages are not signed, so anybody who can reach the receiver can forge them"
        if self.secret and not self.url:
            yield "webhook.secret: ignored, because webhook.url is empty"
        if self.url and not self.on:
            yield "webhook.url: nothing is sent, because webhook.on is empty"
