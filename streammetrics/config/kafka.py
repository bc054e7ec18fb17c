"""Settings of the connection to Kafka. None of them changes a result."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

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

ProviderName = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", max_length=512)]


_SKIPPED: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}:[0-9]{1,9}:([0-9]{1,18})-([0-9]{1,18})", re.ASCII)


def _skipped(text: str) -> str:
    """Check offsets of a partition, from the first to the last."""
    match = _SKIPPED.fullmatch(text)
    if match is None:
        raise ValueError("write topic:partition:first-last, such as clicks:3:17-20")
    if int(match[1]) > int(match[2]):
        raise ValueError(f"the first offset, {match[1]}, must not be after the last, {match[2]}")
    return text


SkippedRecords = Annotated[str, AfterValidator(_skipped)]


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
    skip_records: Listed[SkippedRecords] = setting(
        (),
        "Records that are left out: those that cannot be read, or that Kafka has deleted. If the stored offset of the partition is one of"
        " these, reading goes on after the last one. Restart the workers to apply it.",
        "a list of topic:partition:first-last, such as clicks:3:17-20",
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
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = setting(
        "PLAINTEXT", "Protocol for the connections to the brokers."
    )
    ssl_cafile: OptionalText = setting(None, "Certificate authorities to trust (PEM). Empty: those of the system.", PATH_OR_EMPTY)
    ssl_certfile: OptionalText = setting(None, "Client certificate (PEM), if the brokers require one.", PATH_OR_EMPTY)
    ssl_keyfile: OptionalText = setting(None, "Private key of the client certificate (PEM).", PATH_OR_EMPTY)
    ssl_password: OptionalSecret = setting(None, "Password of that private key.", "a text, or empty for none")
    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"] = setting(
        "",
        "Login mechanism, for a SASL_ protocol. OAUTHBEARER takes its tokens from sasl_oauth_token_provider. AWS_MSK_IAM takes the"
        " credentials and the region of the environment, as the AWS command line does, and needs the extra: pip install"
        " 'streammetrics[aws]'. All others need a user and a password.",
    )
    sasl_username: OptionalText = setting(None, "User to log in as.", "a name, or empty for none")
    sasl_password: OptionalSecret = setting(None, "Password to log in with.", "a text, or empty for none")
    sasl_oauth_token_provider: Literal[""] | ProviderName = setting(
        "",
        "With OAUTHBEARER: the class that gives tokens, as module:Class. Its method token() returns a token that has not expired. The"
        " module must be on Python's path (PYTHONPATH).",
        "module:Class, or empty for none",
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
        needed: tuple[str, ...] = ("sasl_mechanism", "sasl_username", "sasl_password")
        if self.sasl_mechanism == "OAUTHBEARER":
            needed = ("sasl_oauth_token_provider",)
        elif self.sasl_mechanism == "AWS_MSK_IAM":
            needed = ()
            if self.security_protocol != "SASL_SSL":
                yield Conflict(("kafka.security_protocol", "kafka.sasl_mechanism"), "must be SASL_SSL with sasl_mechanism AWS_MSK_IAM")
        because = ("kafka.security_protocol", f"security_protocol {self.security_protocol}")
        if self.sasl_mechanism == "OAUTHBEARER":
            because = ("kafka.sasl_mechanism", "sasl_mechanism OAUTHBEARER")
        for name in needed:
            if not getattr(self, name):
                yield Conflict((f"kafka.{name}", because[0]), f"is required with {because[1]}")

    def advice(self) -> Iterator[str]:
        """Yield warnings: settings that are valid but probably not intended."""
        if self.sasl_mechanism != "OAUTHBEARER" and (unused := non_empty(self, "kafka", "sasl_oauth_")):
            yield f"{unused}: ignored, because kafka.sasl_mechanism is not OAUTHBEARER"
        for prefix, protocols in (("sasl_", ("SASL_PLAINTEXT", "SASL_SSL")), ("ssl_", ("SSL", "SASL_SSL"))):
            if self.security_protocol not in protocols and (unused := non_empty(self, "kafka", prefix)):
                yield f"{unused}: ignored, because kafka.security_protocol is {self.security_protocol}"
