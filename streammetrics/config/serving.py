"""Settings of the HTTP port, the published results and the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from streammetrics.config.addresses import is_this_machine
from streammetrics.config.fields import (
    PATH_OR_EMPTY,
    PORT_MAX,
    Conflict,
    OptionalPasswordHash,
    OptionalSecret,
    OptionalText,
    OptionalUserName,
    Section,
    Text,
    Whole,
    key_without_certificate,
    milliseconds,
    setting,
    whole,
)
from streammetrics.config.password_hash import COST_WEAK, PasswordHash


class HttpSettings(Section):
    host: Text = setting("127.0.0.1", "Address to listen on. 0.0.0.0 means all.", "an address or a host name")
    port: Whole = whole(9464, "Port of /metrics, /healthz, /readyz, /api/report and the page. 0: any free port.", 0, PORT_MAX)
    ssl_certfile: OptionalText = setting(
        None, "Server certificate and its chain (PEM). The port then serves HTTPS only. Read once, at start-up.", PATH_OR_EMPTY
    )
    ssl_keyfile: OptionalText = setting(None, "Private key of that certificate (PEM). Empty: it is in http.ssl_certfile.", PATH_OR_EMPTY)
    ssl_password: OptionalSecret = setting(None, "Password of that private key.", "a text, or empty for none")
    username: OptionalUserName = setting(
        None,
        "User name for HTTP basic authentication. Empty: no login. /healthz and /readyz stay open for probes, but give their reasons only"
        " after a login.",
        "a name without a colon, or empty for none",
    )
    password_hash: OptionalPasswordHash = setting(
        None,
        "bcrypt hash of that user's password. `streammetrics hash-password` prints one. A successful login is remembered while the process"
        " runs. Every other attempt costs about a quarter of a second of one core, one at a time.",
        "a bcrypt hash ($2b$…), or empty for none",
    )
    htpasswd_file: OptionalText = setting(
        None,
        "Users in a file instead, one USER:HASH a line, with bcrypt hashes as `htpasswd -B` writes them. Read once, at start-up.",
        PATH_OR_EMPTY,
    )
    connections_max: Whole = whole(
        200, "Maximum connections to serve. A further one replaces the one that has waited longest for its client.", 4, 10_000
    )
    request_ms: Whole = milliseconds(
        10_000,
        "Time a client has to send a request or to read the response. Then the connection is closed.",
        least=100,
        most=600_000,
    )

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the settings of this section that contradict each other."""
        yield from key_without_certificate("http", self.ssl_certfile, self.ssl_keyfile)
        if self.username and not self.password_hash:
            yield Conflict(("http.password_hash", "http.username"), "is required with http.username")
        if self.password_hash and not self.username:
            yield Conflict(("http.username", "http.password_hash"), "is required with http.password_hash")
        if self.htpasswd_file and (self.username or self.password_hash):
            yield Conflict(("http.htpasswd_file", "http.username"), "cannot be used with http.username; add that user to the file")

    def advice(self) -> Iterator[str]:
        """Yield warnings: settings that are valid but probably not intended."""
        if self.ssl_password and not self.ssl_certfile:
            yield "http.ssl_password: ignored, because http.ssl_certfile is empty"
        has_login = self.username or self.htpasswd_file
        if has_login and not self.ssl_certfile and not is_this_machine(self.host):
            yield f"a login without http.ssl_certfile: the password is sent to {self.host} unencrypted"
        if self.password_hash and PasswordHash.parse(self.password_hash.get_secret_value()).cost < COST_WEAK:
            yield f"http.password_hash has a cost below {COST_WEAK}, so guesses are cheap; `streammetrics hash-password` makes a better one"


class ExporterSettings(Section):
    publish_ms: Whole = milliseconds(1_000, "Time between two reads of the committed state.", least=10, most=600_000)
    gate_stale_ms: Whole = milliseconds(
        120_000,
        "The gate of a rollout does not pass while the last read of the committed state is older than this, while a worker is further"
        " behind its inputs, or while the data is further behind the clock than usual. The results topic gets no verdict of such"
        " data.",
        least=1_000,
    )
    series_max: Whole = whole(50_000, "Maximum number of series. Series beyond it are folded and counted.", 100, 10_000_000)
    label_values_max: Whole = whole(100, "Maximum values of one label. Further values are folded into _other.", 1, 100_000)


class LogSettings(Section):
    level: Literal["debug", "info", "warning", "error"] = setting("info", "Minimum level of the lines to write.")
    format: Literal["auto", "console", "json"] = setting("auto", "auto writes text on a terminal and JSON lines elsewhere.")
