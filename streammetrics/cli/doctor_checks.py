"""What `doctor` looks at: each check asks one place and gives findings. Reads only; prints nothing and bounds no time."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from streammetrics.cli.wiring import build_engine, http_rules, kafka_connection, redis_connection
from streammetrics.config import Settings
from streammetrics.connectors.kafka.client import require_files, unreachable_reason
from streammetrics.connectors.kafka.cluster_info import read_cluster
from streammetrics.connectors.kafka.topics import describe_topics
from streammetrics.connectors.redis.client import RedisConnection, connect, send, speaking
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.engine.codec import decode_control
from streammetrics.engine.signature import OTHER_MEASURES, Signature, differing, fit_of
from streammetrics.errors import ConfigError
from streammetrics.exporters.http.limits import tls_context
from streammetrics.exporters.http.server import resolved, why_not_listened_on
from streammetrics.reports.text import counted

REDIS_ANSWER_MS = 2_000
CONNECT_SECONDS = 2.0
CLOCK_SECONDS_MAX = 1.0
OTHER_RULES = "set them back, or start a new redis.namespace: numbers of different rules are never merged"
NO_PANES_FROM_MS = 1 << 52
"""Later than any pane: control values are wanted, not tallies."""

Level: TypeAlias = Literal["ok", "warn", "fail"]


class DoctorFinding(NamedTuple):
    """One thing that was looked at, and what to do where it is not as it should be."""

    level: Level
    text: str
    fix: str = ""


@dataclass(slots=True)
class DoctorContext:
    """What one place told that matters to another: partitions of the input topics, and tasks that the namespace has."""

    partitions: int | None = None
    tasks: int | None = None


DoctorCheck: TypeAlias = Callable[[Settings, DoctorContext], Iterator[DoctorFinding]]
"""Gives findings as it makes them; may raise StreammetricsError, which is a finding too."""


def kafka_findings(settings: Settings, seen: DoctorContext) -> Iterator[DoctorFinding]:
    """Servers one by one, the cluster, the input topics and the dead-letter topic; nothing of it for an exporter."""
    if settings.worker.role == "exporter":
        yield DoctorFinding("ok", "not asked, because worker.role is exporter: an exporter never speaks to Kafka")
        return
    kafka, connection = settings.kafka, kafka_connection(settings)
    require_files(connection)
    refused = {server: reason for server in kafka.bootstrap_servers if (reason := unreachable_reason([server], CONNECT_SECONDS))}
    all_refused = len(refused) == len(kafka.bootstrap_servers)
    for reason in refused.values():
        yield DoctorFinding("fail" if all_refused else "warn", reason, "start that broker, or correct kafka.bootstrap_servers")
    if all_refused:
        return
    cluster = read_cluster(connection)
    version = f"version {cluster.version} or newer, " if cluster.version else ""
    yield DoctorFinding("ok", f"{version}{counted(cluster.brokers, 'broker')}, cluster id {cluster.cluster_id or 'unknown'}")
    letters = kafka.dead_letter_topic
    described = describe_topics(connection, [*kafka.topics, *([letters] if letters else [])])
    found, absent = described.found, described.absent
    for name in kafka.topics:
        if name in found:
            yield DoctorFinding("ok", f"topic {name}: {counted(found[name].partitions, 'partition')}")
        else:
            yield DoctorFinding("fail", f"topic {name} {absent[name].message}", f"{absent[name].fix}, or correct kafka.topics")
    counts = {found[name].partitions for name in kafka.topics if name in found}
    if len(counts) > 1:
        fix = "expand or re-create the smaller ones: a user's events must meet in one partition number"
        yield DoctorFinding("fail", "the topics differ in partitions", fix)
    elif counts:
        seen.partitions = counts.pop()
    if not letters:
        yield DoctorFinding(
            "warn", "no dead-letter topic: refused events are counted, but cannot be read back", "set kafka.dead_letter_topic"
        )
    elif letters in found:
        yield DoctorFinding("ok", f"dead-letter topic {letters}: {counted(found[letters].partitions, 'partition')}")
    else:
        message, fix = absent[letters].message, absent[letters].fix
        yield DoctorFinding("fail", f"dead-letter topic {letters} {message}", f"{fix}, or leave kafka.dead_letter_topic empty")


def redis_findings(settings: Settings, seen: DoctorContext) -> Iterator[DoctorFinding]:
    """The server, what it does with keys when memory or power fails, its clock, and what the namespace holds."""
    connection = redis_connection(settings)
    store = RedisStore(replace(connection, socket_timeout_ms=min(connection.socket_timeout_ms, REDIS_ANSWER_MS)))
    try:
        store.ping()
        began = time.perf_counter()
        store.ping()
        yield DoctorFinding("ok", f"answers in {(time.perf_counter() - began) * 1_000:.1f} ms")
        yield from _server_findings(store, settings)
        yield from _namespace_findings(store, settings, seen)
        if not connection.cluster:
            yield from _clock_findings(store.settings)
    finally:
        store.close()


def _server_findings(store: RedisStore, settings: Settings) -> Iterator[DoctorFinding]:
    facts = store.facts()
    problems, risks = facts.problems(settings.redis.cluster), facts.risks(settings.redis.allow_eviction)
    for problem in problems:
        yield DoctorFinding("fail", f"{problem.key}: {problem.value}", problem.allowed)
    if not problems:
        yield DoctorFinding(
            "ok", f"Redis {facts.version or 'of unknown version'}, {facts.mode or 'mode unknown'}, {facts.role or 'role unknown'}"
        )
    for risk in risks:
        yield DoctorFinding("fail" if risk.is_refused else "warn", f"{risk.setting} is {risk.value}", risk.fix)
    at_risk = {risk.setting for risk in risks}
    if facts.maxmemory_policy and "maxmemory-policy" not in at_risk:
        yield DoctorFinding("ok", f"maxmemory-policy {facts.maxmemory_policy}, {_memory(facts.used_memory, facts.maxmemory)}")
    if facts.appendonly and "appendonly" not in at_risk:
        fsync = f", appendfsync {facts.appendfsync}" if facts.appendonly == "yes" and facts.appendfsync else ""
        yield DoctorFinding("ok", f"appendonly {facts.appendonly}{fsync}, snapshots {facts.save or 'off'}")
    if facts.unknown:
        yield DoctorFinding(
            "warn",
            f"the server does not tell {', '.join(facts.unknown)}",
            "see to it that keys are never evicted and writes are kept on disk",
        )


def _namespace_findings(store: RedisStore, settings: Settings, seen: DoctorContext) -> Iterator[DoctorFinding]:
    tasks = seen.tasks = store.partitions()
    if tasks is None:
        yield DoctorFinding("ok", "the namespace is new: nothing is stored in it")
        return
    views = store.view(range(tasks), {}, *[dict.fromkeys(range(tasks), NO_PANES_FROM_MS)] * 2)
    users = sum(view.users for view in views.values())
    yield DoctorFinding(
        "ok", f"the namespace has {counted(tasks, 'task')}, {len(views)} of them with state; {counted(users, 'user')} with open sessions"
    )
    signature = build_engine(settings, settings.kafka.topics).signature
    controls = [decode_control(view.control) for view in views.values()]
    yield from _rules_findings({control.signature for control in controls}, signature, "on" if settings.experiments.enabled else "off")
    if any(control.topics != list(settings.kafka.topics) for control in controls):
        yield DoctorFinding(
            "fail",
            f"the stored state is of the topics {', '.join(controls[0].topics)}",
            "set kafka.topics back, or start a new redis.namespace",
        )


def _rules_findings(stored: Iterable[Signature], now: Signature, switched: str) -> Iterator[DoctorFinding]:
    """Whether the stored state can be gone on with by these rules; `switched` says how experiments are."""
    by_fit: dict[str, Signature] = {}
    for rules in sorted(stored, key=str):
        by_fit.setdefault(fit_of(rules, now), rules)
    if "switched" in by_fit:
        yield DoctorFinding(
            "warn",
            f"experiments are switched {switched}, and were not when the state was stored",
            "a worker that starts drops what is known of users in experiments, and counting them begins anew; windows go on",
        )
    for fit, fix in (("measures", OTHER_MEASURES), ("other", OTHER_RULES)):
        if fit in by_fit:
            then, since = differing(str(by_fit[fit]), str(now))
            yield DoctorFinding(
                "fail", f"the stored state was made by other settings:\n          stored {then}\n          now    {since}", fix
            )


def _clock_findings(connection: RedisConnection) -> Iterator[DoctorFinding]:
    """How far this machine's clock is from the server's: ticks and the refusal of future events go by the clock."""
    with speaking(connection), closing(connect(connection)) as client:
        before = time.time()
        seconds, microseconds = send(client, "TIME")
        after = time.time()
    difference = (before + after) / 2 - (int(seconds) + int(microseconds) / 1_000_000)
    message = f"the clocks of this machine and of Redis differ by {abs(difference) * 1_000:,.0f} ms"
    if abs(difference) <= CLOCK_SECONDS_MAX + (after - before):
        yield DoctorFinding("ok", message)
    else:
        yield DoctorFinding("warn", message, "set both by NTP: event times far from the clock are refused, or hold back what is final")


def port_findings(settings: Settings, seen: DoctorContext) -> Iterator[DoctorFinding]:
    """Whether `run` could listen here, with the certificate that it has been given."""
    http = settings.http
    if tls_context(http_rules(http)) is not None:
        yield DoctorFinding("ok", f"speaks HTTPS with the certificate of {http.ssl_certfile}")
    try:
        family, kind, _, _, address = resolved(http.host, http.port)
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise ConfigError([why_not_listened_on(error, http.host, http.port)]) from None
        message = f"cannot be listened on: {error.strerror or error}"
        yield DoctorFinding("warn", message, "if that is not streammetrics itself, choose another http.port or http.host")
    else:
        yield DoctorFinding("ok", "free")


def agreement_findings(seen: DoctorContext) -> Iterator[DoctorFinding]:
    """Whether Kafka and Redis fit together."""
    if seen.tasks is not None and seen.partitions is not None:
        if seen.tasks == seen.partitions:
            yield DoctorFinding("ok", f"the namespace was made for topics of {counted(seen.tasks, 'partition')}, as they are")
        else:
            message = f"the namespace was made for topics of {counted(seen.tasks, 'partition')}, these have {seen.partitions}"
            yield DoctorFinding("fail", message, "users have moved between partitions: start a new redis.namespace")


def _memory(used_bytes: int | None, limit_bytes: int | None) -> str:
    used = "memory unknown" if used_bytes is None else f"{used_bytes / (1 << 20):,.0f} MiB in use"
    return used if limit_bytes is None else f"{used}, {f'limit {limit_bytes / (1 << 20):,.0f} MiB' if limit_bytes else 'no limit'}"
