"""Settings of the systems around the engine: Kafka, Redis, the process, its HTTP port and its log.

None of them changes a result. Settings that do are in `results` and `experiments`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal
from urllib.parse import parse_qs, parse_qsl, urlsplit

from pydantic import AfterValidator, Field

from streammetrics.config.fields import (
    PATH_OR_EMPTY,
    Conflict,
    Listed,
    MaskedUrl,
    OptionalSecret,
    OptionalText,
    RedisUrl,
    Section,
    Server,
    StartField,
    Text,
    Topic,
    Whole,
    key_without_certificate,
    milliseconds,
    setting,
    whole,
)

CLUSTER_TIMEOUT_MS_MAX = 5_000
"""A cluster client waits for hanging nodes in turn: up to five times with three nodes, and /healthz fails after 30 s."""
LINGER_MS_MAX: Final = 1_000
"""Checks of the brokers wait behind a fetch on the same connection, and a check fails after two seconds."""

_REDIS_QUERY: Final = ("db", "username", "password")
_SET_CAFILE: Final = "set redis.ssl_cafile instead"
_INSTEAD_OF: Final[Mapping[str, str]] = {
    "socket_timeout": "set redis.socket_timeout_ms instead",
    "socket_connect_timeout": "set redis.socket_timeout_ms instead",
    "ssl_ca_certs": _SET_CAFILE,
    "ssl_cert_reqs": _SET_CAFILE,
    "ssl_check_hostname": _SET_CAFILE,
    "ssl_certfile": "set redis.ssl_certfile instead",
    "ssl_keyfile": "set redis.ssl_keyfile instead",
}
"""Advice for URL options that the Redis client would read and that would override our settings."""


def _redis_query(url: MaskedUrl) -> MaskedUrl:
    """Check the query of a Redis URL. Messages contain no value, and no name that may be part of a password."""
    parts = urlsplit(url.get_secret_value())
    query = parse_qsl(parts.query, keep_blank_values=True)
    if foreign := [name for name, _ in query if name not in _REDIS_QUERY]:
        showable = [name for name in foreign if "@" not in parts.query and re.fullmatch(r"[a-z_]{1,40}", name)]
        advice = "; ".join(f"{name}: {_INSTEAD_OF.get(name, 'remove it')}" for name in showable)
        raise ValueError("only db, username and password may follow the ?" + (f"; {advice}" if showable else ""))
    if any(name == "db" and not re.fullmatch(r"[0-9]{1,5}", value) for name, value in query):
        raise ValueError("db is a number of at most 5 digits")
    in_address = {"db": parts.scheme != "unix" and parts.path.strip("/"), "username": parts.username, "password": parts.password}
    counts = Counter([*(name for name, _ in query), *(name for name, value in in_address.items() if value)])
    if repeated := [name for name in _REDIS_QUERY if counts[name] > 1]:
        raise ValueError(f"{repeated[0]} is given twice")
    return url


def _token_url(url: str | None) -> str | None:
    """Check the URL of a token endpoint. The client's secret is sent there, so it must not travel in clear text."""
    if url is None:
        return None
    parts = urlsplit(url)
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not parts.hostname or parts.username or not (parts.scheme == "https" or (parts.scheme == "http" and local)):
        raise ValueError("must be an https:// URL without a user; http:// is allowed on this machine only")
    return url


Extension = Annotated[Text, Field(pattern=r"^[A-Za-z]+=[\x21-\x7e]+$")]
"""An extension of an OAUTHBEARER login (RFC 7628): a name of letters, and a printable value."""
_TOKEN_SOURCES: Final = ("oauth_token_url", "oauth_token_file", "oauth_aws_region")


class KafkaSettings(Section):
    bootstrap_servers: Annotated[Listed[Server], Field(min_length=1)] = setting(
        ("127.0.0.1:9092",), "Brokers to connect to first. They name the other brokers of the cluster.", "a list of distinct host:port"
    )
    topics: Annotated[Listed[Topic], Field(min_length=1, max_length=64)] = setting(
        ("impressions", "feedback"),
        "Input topics. All of them need the same number of partitions, and records keyed by user id.",
        "a list of 1 to 64 distinct topic names",
    )
    group_id: Text = setting(
        "streammetrics",
        "Consumer group. Workers with the same id share the partitions. All workers of a namespace need the same id.",
        "1 to 512 characters",
    )
    group_instance_id: OptionalText = setting(
        None,
        "Static member id, different for every worker. A restart within session_timeout_ms then moves no partition.",
        "a name, or empty for none",
    )
    dead_letter_topic: Literal[""] | Topic = setting(
        "streammetrics-dead-letters",
        "Topic for refused events, each with its reason and raw bytes.",
        "a topic name that is not in kafka.topics, or empty for none",
    )
    results_topic: Literal[""] | Topic = setting(
        "",
        "Topic for results: a record for each group of a final pane, and for each changed verdict. Make it compacted "
        "(cleanup.policy=compact): the newest record of a key counts.",
        "a topic name that is not in kafka.topics, or empty for none",
    )
    start: StartField = setting(
        "earliest",
        "Where to begin reading when no offsets are stored: at the oldest record, at the end, or at a time. A time selects the first"
        " record with that record timestamp (not the event's ts) or a later one; without such a record, reading begins at the end."
        " Sessions that were open at that point are cut. Ignored once offsets are stored. If Kafka no longer has the stored offsets,"
        " the worker stops instead of skipping records.",
        "earliest, latest, or a time: ISO-8601 with a zone, or epoch milliseconds",
    )
    isolation_level: Literal["read_committed", "read_uncommitted"] = setting(
        "read_committed", "read_committed skips aborted producer transactions and waits for open ones."
    )
    session_timeout_ms: Whole = milliseconds(
        10_000, "Time without a heartbeat after which the broker gives a worker's partitions to other workers.", least=1_000, most=1_800_000
    )
    partition_fetch_bytes_max: Whole = whole(
        4_194_304,
        "Maximum bytes to fetch ahead per partition, as sent over the network. A worker may hold this much for each of its partitions."
        " A larger record batch is still fetched.",
        65_536,
        1_073_741_824,
    )
    linger_ms: Whole = milliseconds(
        100,
        "How long a broker collects records before it sends a worker that has caught up what there is. Larger batches cost less CPU per"
        " event; every number is later by this time. A worker with a backlog does not wait. 0: the broker sends each record at once.",
        most=LINGER_MS_MAX,
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = setting(
        "PLAINTEXT", "Protocol for the connections to the brokers."
    )
    ssl_cafile: OptionalText = setting(None, "Certificate authorities to trust (PEM). Empty: those of the system.", PATH_OR_EMPTY)
    ssl_certfile: OptionalText = setting(None, "Client certificate (PEM), if the brokers require one.", PATH_OR_EMPTY)
    ssl_keyfile: OptionalText = setting(None, "Private key of the client certificate (PEM).", PATH_OR_EMPTY)
    ssl_password: OptionalSecret = setting(None, "Password of that private key.", "a text, or empty for none")
    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = setting(
        "",
        "Login mechanism, for a SASL_ protocol. OAUTHBEARER takes its tokens from one of oauth_token_url, oauth_token_file and"
        " oauth_aws_region; all others need a user and a password.",
    )
    sasl_username: OptionalText = setting(None, "User to log in as.", "a name, or empty for none")
    sasl_password: OptionalSecret = setting(None, "Password to log in with.", "a text, or empty for none")
    oauth_token_url: Annotated[OptionalText, AfterValidator(_token_url)] = setting(
        None,
        "With OAUTHBEARER: the token endpoint, which gives tokens for the client credentials below. They are renewed before they expire.",
        "an https:// URL (http:// only on this machine), or empty for none",
    )
    oauth_client_id: OptionalText = setting(None, "Client id for the token endpoint.", "a name, or empty for none")
    oauth_client_secret: OptionalSecret = setting(None, "Client secret for the token endpoint.", "a text, or empty for none")
    oauth_scope: OptionalText = setting(None, "Scope to ask the token endpoint for.", "a text, or empty for none")
    oauth_cafile: OptionalText = setting(
        None, "Certificate authorities to trust at the token endpoint (PEM). Empty: those of the system.", PATH_OR_EMPTY
    )
    oauth_token_file: OptionalText = setting(
        None,
        "With OAUTHBEARER: a file with the current token, which another program renews. It is read for every connection.",
        PATH_OR_EMPTY,
    )
    oauth_aws_region: OptionalText = setting(
        None,
        "With OAUTHBEARER: the region of an AWS MSK cluster. Tokens are signed with the AWS credentials of the environment. This needs the"
        " extra: pip install 'streammetrics[aws]'.",
        "a region such as eu-west-1, or empty for none",
    )
    oauth_extensions: Listed[Extension] = setting(
        (), "With OAUTHBEARER: extensions that the brokers ask for, such as logicalCluster=lkc-1.", "a list of name=value"
    )

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the settings of this section that contradict each other."""
        if self.dead_letter_topic in self.topics:
            yield Conflict(
                ("kafka.dead_letter_topic", "kafka.topics"), "must not be in kafka.topics: refused events would be read again as input"
            )
        if self.results_topic in (*self.topics, self.dead_letter_topic) and self.results_topic:
            rule = "must not be in kafka.topics, or the topic of dead letters: results are no events"
            yield Conflict(("kafka.results_topic", "kafka.topics", "kafka.dead_letter_topic"), rule)
        if self.security_protocol.startswith("SASL_"):
            yield from self._login_conflicts()
        yield from key_without_certificate("kafka", self.ssl_certfile, self.ssl_keyfile)

    def _login_conflicts(self) -> Iterator[Conflict]:
        if self.sasl_mechanism != "OAUTHBEARER":
            for name in ("sasl_mechanism", "sasl_username", "sasl_password"):
                if not getattr(self, name):
                    yield Conflict(
                        (f"kafka.{name}", "kafka.security_protocol"), f"is required with security_protocol {self.security_protocol}"
                    )
            return
        given = [f"kafka.{name}" for name in _TOKEN_SOURCES if getattr(self, name)]
        if len(given) != 1:
            keys = (*given, "kafka.sasl_mechanism") if given else ("kafka.oauth_token_url", "kafka.sasl_mechanism")
            yield Conflict(keys, f"OAUTHBEARER needs exactly one of {', '.join(f'kafka.{name}' for name in _TOKEN_SOURCES)}")
        for name in ("oauth_client_id", "oauth_client_secret"):
            if self.oauth_token_url and not getattr(self, name):
                yield Conflict((f"kafka.{name}", "kafka.oauth_token_url"), "is required with kafka.oauth_token_url")

    def advice(self) -> Iterator[str]:
        """Yield warnings: settings that are valid but probably not intended."""
        if self.sasl_mechanism != "OAUTHBEARER" and (unused := _given(self, "kafka", "oauth_")):
            yield f"{unused}: ignored, because kafka.sasl_mechanism is not OAUTHBEARER"
        for prefix, protocols in (("sasl_", ("SASL_PLAINTEXT", "SASL_SSL")), ("ssl_", ("SSL", "SASL_SSL"))):
            if self.security_protocol not in protocols and (unused := _given(self, "kafka", prefix)):
                yield f"{unused}: ignored, because kafka.security_protocol is {self.security_protocol}"


class RedisSettings(Section):
    url: Annotated[RedisUrl, AfterValidator(_redis_query)] = setting(
        MaskedUrl("redis://127.0.0.1:6379/0"),
        "The Redis server. rediss:// uses TLS. For a cluster, give any one of its nodes.",
        "redis://host:port/database, rediss://host:port/database or unix://path",
    )
    cluster: bool = setting(False, "Whether Redis is a Redis Cluster.")
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,64}$")] = setting(
        "sm", "Prefix of every key. Deployments with different namespaces can share one Redis.", "1 to 64 letters, digits and _ . : -"
    )
    username: OptionalText = setting(None, "User to log in as.", "a name, or empty for none")
    password: OptionalSecret = setting(None, "Password to log in with.", "a text, or empty for none")
    ssl_cafile: OptionalText = setting(None, "Certificate authorities to trust (PEM). Empty: those of the system.", PATH_OR_EMPTY)
    ssl_certfile: OptionalText = setting(None, "Client certificate (PEM), if the server requires one.", PATH_OR_EMPTY)
    ssl_keyfile: OptionalText = setting(None, "Private key of the client certificate (PEM).", PATH_OR_EMPTY)
    sentinels: Listed[Server] = setting(
        (),
        "Redis Sentinel: the addresses of the sentinels, which say where the primary is. The host of redis.url is then the name of the"
        " service, without a port, such as redis://mymaster/0. With rediss:// the sentinels need TLS too. Empty: no Sentinel.",
        "a list of distinct host:port, or empty for none",
    )
    sentinel_username: OptionalText = setting(None, "User to log in to the sentinels as.", "a name, or empty for none")
    sentinel_password: OptionalSecret = setting(None, "Password to log in to the sentinels with.", "a text, or empty for none")
    socket_timeout_ms: Whole = milliseconds(
        5_000,
        "Timeout for one Redis reply. The worker waits this long before it treats the connection as lost; with a cluster, a few times"
        " as long.",
        least=1,
        most=9_000,  # three such waits in one turn stay below the time after which /healthz reports a stuck loop
    )
    allow_eviction: bool = setting(False, "Whether to run with a Redis that may evict keys. Evicted keys are lost state.")

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the settings of this section that contradict each other."""
        parts = urlsplit(self.url.get_secret_value())
        query = parse_qs(parts.query)
        if self.cluster and (parts.scheme == "unix" or parts.path not in ("", "/", "/0") or query.get("db", ["0"]) != ["0"]):
            yield Conflict(("redis.url", "redis.cluster"), "a cluster has only database 0 and no unix socket; redis.cluster is true")
        if self.sentinels and self.cluster:
            yield Conflict(("redis.sentinels", "redis.cluster"), "a cluster has no sentinels; redis.cluster is true")
        if self.sentinels and (parts.scheme == "unix" or parts.port is not None):
            yield Conflict(
                ("redis.url", "redis.sentinels"),
                "with redis.sentinels, its host is the name of the service and has no port: redis://mymaster/0",
            )
        if self.password and (parts.password or "password" in query):
            yield Conflict(("redis.password", "redis.url"), "redis.url contains a password too; keep one of them")
        if self.username and (parts.username or "username" in query):
            yield Conflict(("redis.username", "redis.url"), "redis.url contains a user too; keep one of them")
        yield from key_without_certificate("redis", self.ssl_certfile, self.ssl_keyfile)

    def advice(self) -> Iterator[str]:
        """Yield warnings: settings that are valid but probably not intended."""
        if not self.sentinels and (unused := _given(self, "redis", "sentinel_")):
            yield f"{unused}: ignored, because redis.sentinels is empty"
        if not self.url.get_secret_value().startswith("rediss:") and (unused := _given(self, "redis", "ssl_")):
            yield f"{unused}: ignored, because redis.url does not begin with rediss://"
        if self.cluster and self.socket_timeout_ms > CLUSTER_TIMEOUT_MS_MAX:
            yield (
                f"redis.socket_timeout_ms ({self.socket_timeout_ms}) is more than {CLUSTER_TIMEOUT_MS_MAX} with redis.cluster: a worker"
                " waits for hanging nodes one after the other, and /healthz may fail while it waits"
            )
        if self.allow_eviction:
            yield "redis.allow_eviction is true: if Redis evicts keys, state is lost and the results are wrong"


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
        1_000, "Time between commits while events arrive. A user with many events is written once per commit.", most=60_000
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


def _given(section: Section, name: str, prefix: str) -> str:
    """List the non-empty keys of a section that begin with a prefix."""
    return ", ".join(f"{name}.{key}" for key in type(section).model_fields if key.startswith(prefix) and getattr(section, key))
