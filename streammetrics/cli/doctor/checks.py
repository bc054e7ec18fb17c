"""The checks of `doctor`: Kafka, Redis, the HTTP port, and whether Kafka and Redis agree.

A check yields findings. It only reads, prints nothing, and sets no deadline.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field

from streammetrics.cli.doctor.data import data_findings
from streammetrics.cli.doctor.experiments import RecentExperiments, experiment_findings
from streammetrics.cli.doctor.findings import DoctorFinding
from streammetrics.config import Settings
from streammetrics.connectors.kafka.client import require_login, unreachable_reason
from streammetrics.connectors.kafka.stored_offsets import LogIdentity, require_stored_offsets
from streammetrics.connectors.kafka.topics import describe_topics, foreign_members, read_cluster
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.connectors.source import Input, LogIds
from streammetrics.engine.signature import OTHER_MEASURES, Signature, differing, fit_of
from streammetrics.engine.task_state import decode_control
from streammetrics.engine.user_sample import decode_sample, merge_samples
from streammetrics.errors import ConfigError, StreammetricsError, UnfitStateError
from streammetrics.experiments import SINCE_START
from streammetrics.exporters.http.connections import tls_context
from streammetrics.exporters.http.server import listen_problem, resolved
from streammetrics.reports.input_warnings import FIX, UserPartitions
from streammetrics.reports.verdict_lines import VerdictLine, verdict_lines
from streammetrics.runtime.consume.claims import group_of_token
from streammetrics.runtime.publish.publisher import read_committed
from streammetrics.wiring.engine import build_engine
from streammetrics.wiring.http import http_rules, http_users
from streammetrics.wiring.reports import build_report_builder, first_verdict_wait
from streammetrics.words.numbers import counted
from streammetrics.words.times import span_text

REDIS_ANSWER_MS = 2_000
CONNECT_SECONDS = 2.0
CLOCK_MS_MAX = 1_000
OTHER_RULES = "restore the settings, or start a new redis.namespace: results of different settings are never merged"


@dataclass(slots=True)
class DoctorContext:
    """Facts that two checks share: partitions of the input topics, tasks of the namespace, the logs now and of the stored offsets, these
    offsets, the verdicts on whole experiments since their start, and the experiments of recent lists."""

    partitions: int | None = None
    tasks: int | None = None
    logs: LogIds = LogIds()  # noqa: RUF009  a frozen value
    stored_logs: tuple[LogIds, ...] = ()
    stored_offsets: dict[Input, int] = field(default_factory=dict)
    verdicts: dict[str, VerdictLine] = field(default_factory=dict)
    recent: RecentExperiments = field(default_factory=RecentExperiments)


def kafka_findings(settings: Settings, context: DoctorContext) -> Iterator[DoctorFinding]:
    """Check each bootstrap server, the cluster, the input topics, recent records, and the dead-letter topic. Skipped for an exporter."""
    if settings.worker.role == "exporter":
        yield DoctorFinding("ok", "skipped, because worker.role is exporter: an exporter does not use Kafka")
        return
    kafka = settings.kafka
    require_login(kafka)
    reasons = [reason for server in kafka.bootstrap_servers if (reason := unreachable_reason([server], CONNECT_SECONDS))]
    all_unreachable = len(reasons) == len(kafka.bootstrap_servers)
    for reason in reasons:
        yield DoctorFinding("fail" if all_unreachable else "warn", reason, "start that broker, or correct kafka.bootstrap_servers")
    if all_unreachable:
        return
    cluster = read_cluster(kafka)
    version = f"version {cluster.version} or newer, " if cluster.version else ""
    yield DoctorFinding("ok", f"{version}{counted(cluster.brokers, 'broker')}, cluster id {cluster.cluster_id or 'unknown'}")
    if others := foreign_members(kafka):
        yield DoctorFinding(
            "fail",
            f"consumer group {kafka.group_id!r} has members that are no workers: {', '.join(others)}",
            "give that program another group id, or set kafka.group_id: members of one group take topics from each other",
        )
    letters = kafka.dead_letter_topic
    described = describe_topics(kafka, [*kafka.topics, *([letters] if letters else [])])
    topics, absent = described.topics, described.absent
    for name in kafka.topics:
        if name in topics:
            yield DoctorFinding("ok", f"topic {name}: {counted(topics[name].partitions, 'partition')}")
        else:
            yield DoctorFinding("fail", f"topic {name} {absent[name].message}", f"{absent[name].fix}, or correct kafka.topics")
    context.logs = LogIds(cluster.cluster_id, {name: topics[name].topic_id for name in kafka.topics if name in topics})
    counts = {topics[name].partitions for name in kafka.topics if name in topics}
    if len(counts) > 1:
        fix = "add partitions to the smaller topics, or re-create them: a user's events need the same partition number in all topics"
        yield DoctorFinding("fail", "the topics have different partition counts", fix)
    elif counts:
        context.partitions = counts.pop()
        yield from _process_findings(settings.worker.processes, context.partitions)
    if not letters:
        yield DoctorFinding("warn", "no dead-letter topic: refused events are counted but not kept", "set kafka.dead_letter_topic")
    elif letters in topics:
        yield DoctorFinding("ok", f"dead-letter topic {letters}: {counted(topics[letters].partitions, 'partition')}")
    else:
        message, fix = absent[letters].message, absent[letters].fix
        yield DoctorFinding("fail", f"dead-letter topic {letters} {message}", f"{fix}, or set kafka.dead_letter_topic to an empty value")
    context.recent = yield from data_findings(settings, {name: topics[name].partitions for name in kafka.topics if name in topics})


def _process_findings(processes: int, partitions: int) -> Iterator[DoctorFinding]:
    """Check whether each worker process of this machine can have a task: there is one task for each partition number."""
    if processes > partitions:
        idle = processes - partitions
        unused = "1 worker process has" if idle == 1 else f"{idle} worker processes have"
        yield DoctorFinding(
            "warn",
            f"worker.processes is {processes}, and the topics have {counted(partitions, 'partition')}: {unused} nothing to read",
            f"use at most {partitions} of them in total on all machines, or topics with more partitions",
        )
    elif processes > 1:
        yield DoctorFinding("ok", f"{processes} worker processes for {counted(partitions, 'partition')}")


def redis_findings(settings: Settings, context: DoctorContext) -> Iterator[DoctorFinding]:
    """Check the server, its eviction and persistence settings, the stored state of the namespace, and the clock."""
    redis = settings.redis
    store = RedisStore(redis.model_copy(update={"socket_timeout_ms": min(redis.socket_timeout_ms, REDIS_ANSWER_MS)}))
    try:
        store.ping()
        began = time.perf_counter()
        store.ping()
        yield DoctorFinding("ok", f"answered in {(time.perf_counter() - began) * 1_000:.1f} ms")
        yield from _server_findings(store, settings)
        if settings.worker.role != "exporter":
            store.try_commit()
            yield DoctorFinding("ok", "the server and its user have every command that a commit needs")
        yield from _namespace_findings(store, settings, context)
        if not redis.cluster:
            yield from _clock_findings(store)
    finally:
        store.close()


def read_verdicts(settings: Settings, context: DoctorContext) -> None:
    """Read the verdicts from the stored state into the context. If it cannot be read, `redis_findings` says why."""
    engine = build_engine(settings, settings.kafka.topics)
    builder = build_report_builder(settings, engine)
    with closing(RedisStore(settings.redis)) as store, suppress(StreammetricsError):
        if tasks := store.partitions():
            read_committed(store, builder, tasks)
            report = builder.report(tasks)
            lines = verdict_lines([result for result in report.experiments if result.scope == SINCE_START], report.entered_ms)
            context.verdicts = {line.experiment: line for line in lines if not line.variant}


def _server_findings(store: RedisStore, settings: Settings) -> Iterator[DoctorFinding]:
    server = store.server_info()
    problems, risks = server.problems(settings.redis.cluster), server.risks(settings.redis.allow_eviction)
    for problem in problems:
        yield DoctorFinding("fail", f"{problem.key}: {problem.value}", problem.allowed)
    if not problems:
        version, mode, role = server.version or "of unknown version", server.mode or "mode unknown", server.role or "role unknown"
        yield DoctorFinding("ok", f"{server.product} {version}, {mode}, {role}")
    for risk in risks:
        yield DoctorFinding("fail" if risk.is_refused else "warn", f"{risk.setting} is {risk.value}", risk.fix)
    at_risk = {risk.setting for risk in risks}
    if server.maxmemory_policy and "maxmemory-policy" not in at_risk:
        yield DoctorFinding("ok", f"maxmemory-policy {server.maxmemory_policy}, {_memory(server.used_memory, server.maxmemory)}")
    if server.appendonly and "appendonly" not in at_risk:
        fsync = f", appendfsync {server.appendfsync}" if server.appendonly == "yes" and server.appendfsync else ""
        yield DoctorFinding("ok", f"appendonly {server.appendonly}{fsync}, snapshots {server.save or 'off'}")
    if server.unknown:
        yield DoctorFinding(
            "warn",
            f"the server does not show {', '.join(server.unknown)}",
            "make sure that Redis never evicts keys and writes to disk",
        )


def _namespace_findings(store: RedisStore, settings: Settings, context: DoctorContext) -> Iterator[DoctorFinding]:
    tasks = context.tasks = store.partitions()
    if tasks is None:
        yield DoctorFinding("ok", "the namespace is new: nothing is stored in it")
        return
    views = store.view(range(tasks), {}, tables=())
    users = sum(view.users for view in views.values())
    yield DoctorFinding(
        "ok", f"the namespace has {counted(tasks, 'task')}, {len(views)} of them with state; {counted(users, 'user')} with open sessions"
    )
    engine = build_engine(settings, settings.kafka.topics)
    signature = engine.signature
    controls = [decode_control(view.control) for view in views.values()]
    groups = {group for view in views.values() if (group := group_of_token(view.mark.token)) is not None}
    if others := sorted(groups - {settings.kafka.group_id}):
        yield DoctorFinding(
            "warn",
            f"tasks were last claimed by workers of consumer group {', '.join(map(repr, others))}, and kafka.group_id is "
            f"{settings.kafka.group_id!r}",
            "stop those workers first: two groups on one namespace take each task from the other",
        )
    placed = UserPartitions(*merge_samples(decode_sample(control.users_sampled) for control in controls))
    if placed.problem:
        yield DoctorFinding("fail", placed.problem, FIX)
    context.stored_offsets = {
        Input(topic, task): offset
        for task, control in zip(views, controls, strict=True)
        for topic, offset in zip(control.topics, control.progress.offsets, strict=True)
        if offset is not None
    }
    context.stored_logs = tuple(
        LogIds(control.progress.cluster_id, dict(zip(control.topics, control.progress.topic_ids, strict=True))) for control in controls
    )
    yield from _rules_findings({control.signature for control in controls}, signature, "on" if settings.experiments.enabled else "off")
    if any(control.topics != list(settings.kafka.topics) for control in controls):
        yield DoctorFinding(
            "fail",
            f"the stored state was made from the topics {', '.join(controls[0].topics)}",
            "restore kafka.topics, or start a new redis.namespace",
        )


def _rules_findings(stored: Iterable[Signature], current: Signature, experiments: str) -> Iterator[DoctorFinding]:
    """Check whether the stored state can be used with the current settings. `experiments` is "on" or "off" now."""
    by_fit: dict[str, Signature] = {}
    for rules in sorted(stored, key=str):
        by_fit.setdefault(fit_of(rules, current), rules)
    if "switched" in by_fit:
        yield DoctorFinding(
            "warn",
            f"experiments are {experiments}, but the state was stored with experiments {'off' if experiments == 'on' else 'on'}",
            "the next worker start drops the user totals of experiments and counts them from zero; windows continue",
        )
    for fit, fix in (("measures", OTHER_MEASURES), ("other", OTHER_RULES)):
        if fit in by_fit:
            differs = differing(str(by_fit[fit]), str(current)).splitlines()
            yield DoctorFinding("fail", "\n          ".join(("the stored state was made with other settings:", *differs)), fix)


def _clock_findings(store: RedisStore) -> Iterator[DoctorFinding]:
    """Compare the clocks of this machine and of Redis: idle inputs and the check for future events depend on them."""
    before_ms = time.time() * 1_000
    stored_ms = store.clock_ms(0)
    after_ms = time.time() * 1_000
    if stored_ms is None:
        yield DoctorFinding("warn", "Redis does not tell its time to this user", "allow EVAL and TIME, so that idle inputs can follow it")
        return
    apart_ms = abs((before_ms + after_ms) / 2 - stored_ms)
    message = f"the clocks of this machine and of Redis differ by {apart_ms:,.0f} ms"
    if apart_ms <= CLOCK_MS_MAX + (after_ms - before_ms):
        yield DoctorFinding("ok", message)
    else:
        yield DoctorFinding(
            "warn", message, "synchronize both with NTP: with a wrong clock, events are refused as future, or final results are late"
        )


def first_number_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Say when the first numbers of new topics come."""
    join, pane_ms = settings.join, settings.windows.pane_ms
    final_ms = join.attribution_ms + join.lateness_ms + join.out_of_orderness_ms
    live = "with the first lists"
    if settings.exposures.enabled:  # their labels come later
        live = f"{span_text(join.lateness_ms)} to {span_text(join.lateness_ms + pane_ms)} after the first lists"
    final = f"final ones {span_text(final_ms)} to {span_text(final_ms + pane_ms)} after them"
    yield DoctorFinding("ok", f"Live numbers come {live}, {final} (windows.pane_ms).")
    if (wait := first_verdict_wait(settings)) is not None:
        yield DoctorFinding("ok", wait.sentence())


def port_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Check whether `run` could listen on the port, and its TLS certificate."""
    http = settings.http
    if tls_context(http_rules(http)) is not None:
        yield DoctorFinding("ok", f"HTTPS with the certificate in {http.ssl_certfile}")
    if http.htpasswd_file:
        yield DoctorFinding("ok", f"{counted(len(http_users(http)), 'user')} in {http.htpasswd_file}")
    try:
        family, kind, _, _, address = resolved(http.host, http.port)
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise ConfigError([listen_problem(error, http.host, http.port)]) from None
        message = f"cannot listen: {error.strerror or error}"
        yield DoctorFinding("warn", message, "if this is not a running streammetrics, choose another http.port or http.host")
    else:
        yield DoctorFinding("ok", "the port is free")


def agreement_findings(settings: Settings, context: DoctorContext) -> Iterator[DoctorFinding]:
    """Check whether the namespace in Redis fits the cluster, the topics and their records in Kafka."""
    for stored in context.stored_logs:
        try:
            context.logs.require_same(stored)
        except UnfitStateError as error:
            yield DoctorFinding("fail", error.message, error.fix)
            break
    else:
        yield from _offset_findings(settings, context)
    if context.tasks is not None and context.partitions is not None:
        if context.tasks == context.partitions:
            yield DoctorFinding("ok", f"the namespace fits topics with {counted(context.tasks, 'partition')}")
        else:
            message = (
                f"the namespace was made for topics with {counted(context.tasks, 'partition')}, but the topics have {context.partitions}"
            )
            yield DoctorFinding("fail", message, "users have moved between partitions: start a new redis.namespace")


def running_experiment_findings(settings: Settings, context: DoctorContext) -> Iterator[DoctorFinding]:
    """Say of each experiment in Kafka or Redis whether it is over, and what to do before it ends."""
    yield from experiment_findings(settings.experiments, context.verdicts, context.recent, time.time_ns() // 1_000_000)


def _offset_findings(settings: Settings, context: DoctorContext) -> Iterator[DoctorFinding]:
    """Check whether the topics still have the records from the stored offsets on."""
    offsets = {place: offset for place, offset in context.stored_offsets.items() if place.topic in context.logs.topic_ids}
    if not offsets or context.partitions is None or any(place.partition >= context.partitions for place in offsets):
        return
    try:
        require_stored_offsets(settings.kafka, LogIdentity(settings.kafka, context.logs, context.partitions), offsets)
    except StreammetricsError as error:
        yield DoctorFinding("fail", error.message, error.fix)
    else:
        yield DoctorFinding("ok", "the topics have all records from the stored offsets on")


def _memory(used_bytes: int | None, limit_bytes: int | None) -> str:
    used = "memory unknown" if used_bytes is None else f"{used_bytes / (1 << 20):,.0f} MiB in use"
    return used if limit_bytes is None else f"{used}, {f'limit {limit_bytes / (1 << 20):,.0f} MiB' if limit_bytes else 'no limit'}"
