"""Settings of the connection to Kafka. None of them changes a result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from streammetrics.config.addresses import http_parts, is_this_machine
from streammetrics.config.fields import (
    PATH_OR_EMPTY,
    Conflict,
    Listed,
    OptionalSecret,
    OptionalText,
    Section,
    Server,
    Text,
    Topic,
    Whole,
    key_without_certificate,
    milliseconds,
    non_empty,
    setting,
    whole,
)
from streammetrics.config.times import StartField

LINGER_MS_MAX: Final = 1_000
"""Checks of the brokers wait behind a fetch on the same connection, and a check fails after two seconds."""


def _token_url(url: str | None) -> str | None:
    """Check the URL of a token endpoint. The client's secret is sent there, so it must not travel in clear text."""
    if url is None:
        return None
    parts = http_parts(url)
    if "@" in parts.netloc or not (parts.scheme == "https" or is_this_machine(parts.hostname)):
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
        if self.sasl_mechanism != "OAUTHBEARER" and (unused := non_empty(self, "kafka", "oauth_")):
            yield f"{unused}: ignored, because kafka.sasl_mechanism is not OAUTHBEARER"
        for prefix, protocols in (("sasl_", ("SASL_PLAINTEXT", "SASL_SSL")), ("ssl_", ("SSL", "SASL_SSL"))):
            if self.security_protocol not in protocols and (unused := non_empty(self, "kafka", prefix)):
                yield f"{unused}: ignored, because kafka.security_protocol is {self.security_protocol}"
