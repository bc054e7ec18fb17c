"""Settings of the world around the engine: Kafka, Redis, the process, its port, its log. None of them changes a result."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal
from urllib.parse import parse_qs, parse_qsl, urlsplit

from pydantic import AfterValidator, Field

from streammetrics.config.fields import (
    PORT_MAX,
    Clash,
    Listed,
    MaskedUrl,
    OptionalPasswordHash,
    OptionalSecret,
    OptionalText,
    OptionalUserName,
    RedisUrl,
    Section,
    Server,
    StartField,
    Text,
    Topic,
    Whole,
    milliseconds,
    setting,
    whole,
)

_PATH = "a path, or empty for none"
CLUSTER_TIMEOUT_MS_MAX = 5_000
"""The client of a cluster waits for one node after the other when they hang: for three nodes five times, and /healthz fails at 30 s."""

_REDIS_QUERY: Final = ("db", "username", "password")
_WHOM_TO_TRUST: Final = "name whom to trust in redis.ssl_cafile instead"
_INSTEAD_OF: Final[Mapping[str, str]] = {
    "socket_timeout": "set redis.socket_timeout_ms instead",
    "socket_connect_timeout": "set redis.socket_timeout_ms instead",
    "ssl_ca_certs": _WHOM_TO_TRUST,
    "ssl_cert_reqs": _WHOM_TO_TRUST,
    "ssl_check_hostname": _WHOM_TO_TRUST,
    "ssl_certfile": "set redis.ssl_certfile instead",
    "ssl_keyfile": "set redis.ssl_keyfile instead",
}
"""What to do about an option that the client would take out of the URL, and that would win over ours."""


def _redis_query(url: MaskedUrl) -> MaskedUrl:
    """What may follow the ? of a Redis URL. The messages repeat no value, and no name that may be part of a password."""
    parts = urlsplit(url.get_secret_value())
    query = parse_qsl(parts.query, keep_blank_values=True)
    if foreign := [name for name, _ in query if name not in _REDIS_QUERY]:
        message = [name for name in foreign if "@" not in parts.query and re.fullmatch(r"[a-z_]{1,40}", name)]
        advice = "; ".join(f"{name}: {_INSTEAD_OF.get(name, 'leave it out')}" for name in message)
        raise ValueError("only db, username and password may follow the ?" + (f"; {advice}" if message else ""))
    if any(name == "db" and not re.fullmatch(r"[0-9]{1,5}", value) for name, value in query):
        raise ValueError("db is a number of at most 5 digits")
    before = {"db": parts.scheme != "unix" and parts.path.strip("/"), "username": parts.username, "password": parts.password}
    said = Counter([*(name for name, _ in query), *(name for name, value in before.items() if value)])
    if twice := [name for name in _REDIS_QUERY if said[name] > 1]:
        raise ValueError(f"{twice[0]} is said twice")
    return url


class KafkaSettings(Section):
    bootstrap_servers: Annotated[Listed[Server], Field(min_length=1)] = setting(
        ("127.0.0.1:9092",), "Brokers to ask first; the others are learnt from them.", "a list of distinct host:port"
    )
    topics: Annotated[Listed[Topic], Field(min_length=1, max_length=64)] = setting(
        ("impressions", "feedback"),
        "Input topics. All need the same number of partitions, and the user id as key, so that a user's events meet.",
        "a list of 1 to 64 distinct topic names",
    )
    group_id: Text = setting("streammetrics", "Consumer group: workers with the same id share the partitions.", "1 to 512 characters")
    group_instance_id: OptionalText = setting(
        None,
        "Static member id, another one for every worker: a restart within session_timeout_ms then moves no partition.",
        "a name, or empty for none",
    )
    dead_letter_topic: Literal[""] | Topic = setting(
        "streammetrics-dead-letters",
        "Topic that keeps what was refused, with the reason and the raw bytes.",
        "a topic name that is not in kafka.topics, or empty for none",
    )
    start: StartField = setting(
        "earliest",
        "Where a task begins that has no stored offsets: with the oldest record, with what comes next, or in each of its inputs with the"
        " first record whose own timestamp (not the event's ts) is at or after a time, which is the input's end where there is none yet."
        " Sessions that were open then are cut. Never looked at where offsets are stored; those that Kafka no longer has are never"
        " skipped silently.",
        "earliest, latest, or a time: ISO-8601 with a zone, or epoch milliseconds",
    )
    isolation_level: Literal["read_committed", "read_uncommitted"] = setting(
        "read_committed", "read_committed holds back the records of open and aborted producer transactions."
    )
    session_timeout_ms: Whole = milliseconds(
        10_000, "Silence after which the broker gives a worker's partitions to others.", least=1_000, most=1_800_000
    )
    partition_fetch_bytes_max: Whole = whole(
        4_194_304,
        "Most bytes fetched ahead of one partition, as they are on the wire; a worker holds as many for each partition of each topic"
        " that it has. A batch that is larger is fetched all the same.",
        65_536,
        1_073_741_824,
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = setting("PLAINTEXT", "How to talk to the brokers.")
    ssl_cafile: OptionalText = setting(None, "The authorities to trust (PEM); empty: those of the system.", _PATH)
    ssl_certfile: OptionalText = setting(None, "Our own certificate (PEM), where brokers ask for one.", _PATH)
    ssl_keyfile: OptionalText = setting(None, "The key of our own certificate (PEM).", _PATH)
    ssl_password: OptionalSecret = setting(None, "The password of that key.", "a text, or empty for none")
    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = setting(
        "", "How to log in, with a SASL_ protocol. The others need a library or code of one's own."
    )
    sasl_username: OptionalText = setting(None, "The user to log in as.", "a name, or empty for none")
    sasl_password: OptionalSecret = setting(None, "The password to log in with.", "a text, or empty for none")

    def clashes(self) -> Iterator[Clash]:
        """What cannot work together in this section."""
        if self.dead_letter_topic in self.topics:
            yield Clash(("kafka.dead_letter_topic", "kafka.topics"), "must not be in kafka.topics: refused events would come back as input")
        if self.security_protocol.startswith("SASL_"):
            for name in ("sasl_mechanism", "sasl_username", "sasl_password"):
                if not getattr(self, name):
                    yield Clash((f"kafka.{name}", "kafka.security_protocol"), f"is needed with security_protocol {self.security_protocol}")
        yield from _key_without_certificate(self, "kafka")

    def advice(self) -> Iterator[str]:
        """What works, but probably not as meant."""
        for prefix, protocols in (("sasl_", ("SASL_PLAINTEXT", "SASL_SSL")), ("ssl_", ("SSL", "SASL_SSL"))):
            if self.security_protocol not in protocols and (idle := _given(self, "kafka", prefix)):
                yield f"{idle}: not used, because kafka.security_protocol is {self.security_protocol}"


class RedisSettings(Section):
    url: Annotated[RedisUrl, AfterValidator(_redis_query)] = setting(
        MaskedUrl("redis://127.0.0.1:6379/0"),
        "The store. rediss:// speaks TLS; with a cluster, any one of its nodes.",
        "redis://host:port/database, rediss://host:port/database or unix://path",
    )
    cluster: bool = setting(False, "Whether the store is a Redis Cluster.")
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,64}$")] = setting(
        "sm", "First part of every key: several deployments can share one store.", "1 to 64 letters, digits and _ . : -"
    )
    username: OptionalText = setting(None, "The user to log in as.", "a name, or empty for none")
    password: OptionalSecret = setting(None, "The password to log in with.", "a text, or empty for none")
    ssl_cafile: OptionalText = setting(None, "The authorities to trust (PEM); empty: those of the system.", _PATH)
    ssl_certfile: OptionalText = setting(None, "Our own certificate (PEM), where the server asks for one.", _PATH)
    ssl_keyfile: OptionalText = setting(None, "The key of our own certificate (PEM).", _PATH)
    socket_timeout_ms: Whole = milliseconds(
        5_000,
        "How long one answer may take before the connection counts as dead. A worker's loop stands still for as long; with a cluster, for"
        " a few times as long.",
        least=1,
        most=9_000,  # three such waits in one turn are less than what /healthz takes for a loop that hangs
    )
    allow_eviction: bool = setting(False, "Whether to go on with a store that may evict keys: state can then be lost.")

    def clashes(self) -> Iterator[Clash]:
        """What cannot work together in this section."""
        parts = urlsplit(self.url.get_secret_value())
        query = parse_qs(parts.query)
        if self.cluster and (parts.scheme == "unix" or parts.path not in ("", "/", "/0") or query.get("db", ["0"]) != ["0"]):
            yield Clash(("redis.url", "redis.cluster"), "a cluster has the database 0 only and no unix socket (redis.cluster is true)")
        if self.password and (parts.password or "password" in query):
            yield Clash(("redis.password", "redis.url"), "redis.url holds a password too; keep one of them")
        if self.username and (parts.username or "username" in query):
            yield Clash(("redis.username", "redis.url"), "redis.url holds a user too; keep one of them")
        yield from _key_without_certificate(self, "redis")

    def advice(self) -> Iterator[str]:
        """What works, but probably not as meant."""
        if not self.url.get_secret_value().startswith("rediss:") and (idle := _given(self, "redis", "ssl_")):
            yield f"{idle}: not used, because redis.url does not begin with rediss://"
        if self.cluster and self.socket_timeout_ms > CLUSTER_TIMEOUT_MS_MAX:
            yield (
                f"redis.socket_timeout_ms ({self.socket_timeout_ms}) is more than {CLUSTER_TIMEOUT_MS_MAX} with redis.cluster: a worker"
                " whose nodes hang waits for one after the other, and /healthz may fail meanwhile"
            )
        if self.allow_eviction:
            yield "redis.allow_eviction is true: a store that evicts keys loses state, and numbers with it"


class WorkerSettings(Section):
    role: Literal["all", "worker", "exporter"] = setting(
        "all", "all: consume and export in one process; worker or exporter: one of the two."
    )
    batch_events_max: Whole = whole(20_000, "Most records that one poll brings.", 1, 1_000_000)
    commit_ms: Whole = milliseconds(1_000, "Time between commits while events flow; a hot user is written once a commit.", most=60_000)
    commit_behind_ms: Whole = milliseconds(
        3_000,
        "Time between commits while records wait to be read, if that is longer: a hot user is then written less often, and catching up"
        " takes less. Who has caught up commits at once.",
        most=60_000,
    )
    commit_users_max: Whole = whole(
        8_000,
        "Most users that one commit writes; reaching it commits early. Fewer where their totals in experiments would have more than"
        " commit_bytes_max, as those of the commit before tell.",
        1,
        100_000,
    )
    commit_bytes_max: Whole = whole(
        33_554_432,
        "Most bytes of the records of one commit and of the large users (4 KiB of state and more) whom they concern; reaching it commits"
        " early. Redis serves nobody else while it writes a commit, and refuses requests of a gigabyte.",
        65_536,
        536_870_912,
    )
    cached_users_max: Whole = whole(
        200_000,
        "About how many users are kept in memory, for a few commits up to a third more; who was not saved for long goes first.",
        1,
        100_000_000,
    )
    cached_bytes_max: Whole = whole(
        268_435_456,
        "Most bytes of stored state of the large users (4 KiB and more) kept in memory, where they take four times as much; the longest"
        " unused go first.",
        1_048_576,
        1_099_511_627_776,
    )
    retry_seconds_max: Whole = whole(
        0, "How long Kafka or Redis may be away before the process gives up with exit code 1; 0: it never gives up.", 0, 2_592_000
    )


class HttpSettings(Section):
    host: Text = setting("127.0.0.1", "Address to listen on; 0.0.0.0 for all.", "an address or a host name")
    port: Whole = whole(9464, "Port of /metrics, /healthz, /readyz, /api/report and the page; 0: any free one.", 0, PORT_MAX)
    ssl_certfile: OptionalText = setting(
        None, "Our certificate and those that link it to its authority (PEM): the port then speaks HTTPS only. Read at the start.", _PATH
    )
    ssl_keyfile: OptionalText = setting(None, "The key of that certificate (PEM); empty: it is in http.ssl_certfile too.", _PATH)
    ssl_password: OptionalSecret = setting(None, "The password of that key.", "a text, or empty for none")
    username: OptionalUserName = setting(
        None,
        "Who may look, by HTTP basic authentication; empty: everybody. /healthz and /readyz stay open for probes, but give their reasons"
        " only to who has logged in.",
        "a name without a colon, or empty for none",
    )
    password_hash: OptionalPasswordHash = setting(
        None,
        "The hash of that user's password. This prints one:\n"
        "python -c 'import getpass, streammetrics.config as c; print(c.hash_password(getpass.getpass()))'\n"
        "Who has logged in is remembered while the process runs; every other try costs some 50 ms and 16 MiB, one at a time.",
        "scrypt:N:r:p:SALT:DIGEST, or empty for none",
    )
    connections_max: Whole = whole(
        200, "Most connections that are answered; further ones get 503, and beyond a quarter more are closed at once.", 4, 10_000
    )
    request_ms: Whole = milliseconds(
        10_000,
        "How long a client may take to send a request, or to take its answer; then the connection is closed.",
        least=100,
        most=600_000,
    )

    def clashes(self) -> Iterator[Clash]:
        """What cannot work together in this section."""
        yield from _key_without_certificate(self, "http")
        if self.username and not self.password_hash:
            yield Clash(("http.password_hash", "http.username"), "is needed with http.username")
        if self.password_hash and not self.username:
            yield Clash(("http.username", "http.password_hash"), "is needed with http.password_hash")

    def advice(self) -> Iterator[str]:
        """What works, but probably not as meant."""
        if self.ssl_password and not self.ssl_certfile:
            yield "http.ssl_password: not used, because http.ssl_certfile is empty"
        if self.username and not self.ssl_certfile and not _is_loopback(self.host):
            yield f"http.username without http.ssl_certfile: the password travels readable to {self.host}"


class ExporterSettings(Section):
    publish_ms: Whole = milliseconds(1_000, "Time between two looks at the committed state.", least=10, most=600_000)
    series_max: Whole = whole(50_000, "Most series; what goes beyond is folded and counted.", 100, 10_000_000)
    label_values_max: Whole = whole(100, "Most values of one label; further ones fold into _other.", 1, 100_000)


class LogSettings(Section):
    level: Literal["debug", "info", "warning", "error"] = setting("info", "The least important lines to write.")
    format: Literal["auto", "console", "json"] = setting("auto", "auto: console on a terminal, JSON lines elsewhere.")


def _key_without_certificate(section: KafkaSettings | RedisSettings | HttpSettings, name: str) -> Iterator[Clash]:
    if section.ssl_keyfile and not section.ssl_certfile:
        rule = f"is needed with {name}.ssl_keyfile: a key alone identifies nobody"
        yield Clash((f"{name}.ssl_certfile", f"{name}.ssl_keyfile"), rule)


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host.startswith("127.") or host == "::1"


def _given(section: Section, name: str, prefix: str) -> str:
    """The keys of a section that begin with a prefix and were given something."""
    return ", ".join(f"{name}.{key}" for key in type(section).model_fields if key.startswith(prefix) and getattr(section, key))
