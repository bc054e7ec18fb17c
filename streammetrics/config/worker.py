"""Settings of processes: the worker, the HTTP port, the log, and requests to an exporter. None of them changes a result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr

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
    http_parts,
    is_this_machine,
    key_without_certificate,
    milliseconds,
    setting,
    whole,
)
from streammetrics.config.password_hash import COST_WEAK, PasswordHash


class WorkerSettings(Section):
    role: Literal["all", "worker", "exporter"] = setting(
        "all", "worker consumes events, exporter serves results, all does both in one process."
    )
    processes: Whole = whole(
        1,
        "Worker processes under one parent. The parent has the HTTP port and, with role all, reads committed state. Every limit of this"
        " section is per process. A process that dies is started again. With kafka.group_instance_id, process n is member <id>-<n>.",
        1,
        64,
    )
    batch_events_max: Whole = whole(20_000, "Maximum records per poll.", 1, 1_000_000)
    commit_ms: Whole = milliseconds(
        1_000,
        "Time between commits while events arrive, the same moments for all tasks of a process. A user with many events is written once per"
        " commit. A worker that has caught up lets the brokers collect records until shortly before a commit, at most for a second.",
        most=60_000,
    )
    commit_behind_ms: Whole = milliseconds(
        3_000,
        "Time between commits while the worker is behind, if it is longer than commit_ms. Fewer commits make catching up faster. A worker"
        " that has caught up commits at once.",
        most=60_000,
    )
    commit_users_max: Whole = whole(
        8_000,
        "Maximum users per commit. Reaching it commits early. The limit is lower when the experiment totals of that many users would"
        " exceed commit_bytes_max, estimated from the previous commit.",
        1,
        100_000,
    )
    commit_bytes_max: Whole = whole(
        33_554_432,
        "Maximum bytes per commit: its records, and the state of their large users (4 KiB or more). Reaching it commits early. Redis"
        " serves no other client while it writes a commit, and rejects requests of a gigabyte.",
        65_536,
        536_870_912,
    )
    cached_users_max: Whole = whole(
        200_000,
        "Approximate number of users to keep in memory, for a few commits up to a third more. The users saved longest ago are dropped"
        " first.",
        1,
        100_000_000,
    )
    cached_bytes_max: Whole = whole(
        268_435_456,
        "Maximum bytes of stored state to keep in memory for large users (4 KiB or more). In memory they take four times as much. The"
        " least recently used are dropped first.",
        1_048_576,
        1_099_511_627_776,
    )
    retry_seconds_max: Whole = whole(
        0, "How long Kafka or Redis may be unavailable before the process exits with code 1. 0: it retries for ever.", 0, 2_592_000
    )

    def advice(self) -> Iterator[str]:
        """Yield warnings: settings that are valid but probably not intended."""
        if self.role == "exporter" and self.processes > 1:
            yield "worker.processes: ignored, because worker.role is exporter"


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
