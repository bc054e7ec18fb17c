"""Settings of the requests that this program sends to an exporter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr

from streammetrics.config.addresses import http_parts, is_this_machine
from streammetrics.config.fields import (
    Conflict,
    OptionalSecret,
    OptionalText,
    OptionalUserName,
    Section,
    Whole,
    milliseconds,
    setting,
)


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
