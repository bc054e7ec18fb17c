"""Builds the parts of a command from Settings: engine, decoder, report builder, rules, connections and HTTP server.

Only `wiring_encodings` converts settings to parts too. Clients are imported inside the functions that need them, so that a command without
Kafka or Redis does not load theirs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from streammetrics.cli.wiring_encodings import reads_attributes, reads_headers, with_encoding
from streammetrics.config import PasswordHash, Settings, read_htpasswd
from streammetrics.config.results import EventSettings
from streammetrics.config.times import epoch_ms
from streammetrics.connectors.base import Clock
from streammetrics.connectors.http_client import HttpClient
from streammetrics.connectors.webhook import WebhookReceiver
from streammetrics.engine.engine import Engine
from streammetrics.engine.experiment_runs import CovariatePeriod, ExperimentRules, Span
from streammetrics.engine.rules import EngineRules
from streammetrics.engine.stage_plans import StagePlan
from streammetrics.engine.supported_time import SupportRules
from streammetrics.events import Decoder, UbiSettings, topic_decoder
from streammetrics.events.envelopes import without_envelope
from streammetrics.events.event_time import DAY_MS, NEVER
from streammetrics.events.grades import parse_grades
from streammetrics.events.mappings.presets import preset_digest
from streammetrics.events.mappings.rules import parse_mappings
from streammetrics.events.unknown_names import ACTION, TYPE
from streammetrics.experiments import Policy, stage_key
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.changes import json_message, slack_message
from streammetrics.reports.experiment_view import ExperimentView
from streammetrics.runtime.rules import WorkerRules
from streammetrics.runtime.status import ProcessStatus
from streammetrics.runtime.webhook import RecordStore, WebhookRules, WebhookSender
from streammetrics.sessions.rules import JoinRules
from streammetrics.windows.panes import WindowRules
from streammetrics.windows.unique_users import UniqueUserRules

if TYPE_CHECKING:
    from streammetrics.config.kafka import KafkaSettings
    from streammetrics.config.serving import HttpSettings
    from streammetrics.connectors.kafka.client import KafkaConnection
    from streammetrics.connectors.kafka.oauth import OAuthLogin
    from streammetrics.connectors.redis.client import RedisConnection
    from streammetrics.exporters.http.limits import HttpRules
    from streammetrics.exporters.http.server import HttpServer
    from streammetrics.exporters.http.views import HttpViews


def build_engine(settings: Settings, topics: Sequence[str]) -> Engine:
    """Build the engine for these topics, in this order."""
    join, windows = settings.join, settings.windows
    rules = EngineRules(
        topics=tuple(topics),
        grades=parse_grades(join.grades),
        join=JoinRules(
            gap_ms=join.gap_ms,
            attribution_ms=join.attribution_ms,
            session_events_max=join.session_events_max,
            lists_open_max=join.lists_open_max,
            items_max=settings.events.items_max,
            absolute_positions=settings.events.first_place is not None,
            engagement=settings.engagement.rules(join.attribution_ms),
        ),
        out_of_orderness_ms=join.out_of_orderness_ms,
        lateness_ms=join.lateness_ms,
        future_ms=join.future_ms,
        support=SupportRules(
            jump_ms=join.support_jump_ms, users=join.support_users, events=join.support_events, far_ms=join.support_far_ms
        ),
        pane_ms=windows.pane_ms,
        retention_ms=windows.retention_ms,
        segments=tuple(windows.segments),
        groups_max=windows.groups_max,
        experiments=_experiment_rules(settings),
        unique_users=_unique_user_rules(settings),
        decoding=" ".join(f"{name}={value}" for name, value in decoding_settings(settings).items()),
    )
    return Engine(rules, settings.scorer(), settings.engagement.layout())


def _experiment_rules(settings: Settings) -> ExperimentRules | None:
    experiments = settings.experiments
    if not experiments.enabled:
        return None
    return ExperimentRules(
        idle_ms=experiments.idle_days * DAY_MS,
        patience_ms=experiments.patience_ms,
        variants_max=experiments.variants_max,
        metrics=experiments.metrics,
        spans={
            name: Span(None if named.start is None else epoch_ms(named.start), None if named.end is None else epoch_ms(named.end))
            for name, named in experiments.named.items()
        },
        earlier=tuple(
            CovariatePeriod(name, epoch_ms(named.start) - named.cuped_days * DAY_MS, epoch_ms(named.start))
            for name, named in sorted(experiments.named.items())
            if named.cuped_days is not None and named.start is not None
        ),
        plans={name: plan for name in sorted(experiments.named) if (plan := _stage_plan(experiments.policy(name))) is not None},
    )


def _stage_plan(policy: Policy) -> StagePlan | None:
    """Return how an experiment's lists belong to cells; None if there is one stage and each user has a variant."""
    if not policy.in_cells:
        return None
    by_list, by_label = policy.unit == "list", policy.stage_label is not None
    if by_label:
        return StagePlan((), policy.stage_label, tuple(stage_key(stage, by_label) for stage in policy.stages), by_list)
    starts = [(stage_key(stage, by_label), NEVER if stage.start_ms is None else stage.start_ms) for stage in policy.stages]
    return StagePlan(tuple(starts) or (("", NEVER),), by_list=by_list)


def _unique_user_rules(settings: Settings) -> UniqueUserRules | None:
    windows = settings.windows
    if windows.users == "off" or (windows.users == "auto" and not settings.experiments.enabled):
        return None
    return UniqueUserRules(
        panes=max(window.ms for window in windows.windows) // windows.pane_ms, patience_ms=settings.experiments.patience_ms
    )


def build_decoder(settings: Settings, topic: str = "") -> Decoder:
    """Build the decoder of a topic, or of a file by its path. Without a topic, mappings that name topics do not apply."""
    events = settings.events.of_topic(topic)
    ubi = UbiSettings(
        lists_from=events.ubi_lists,
        user_field=events.ubi_user,
        segments=tuple(dict.fromkeys((*settings.windows.segments, *settings.experiments.stage_labels))),
        experiment_from=events.ubi_experiment,
        value_from=events.ubi_value,
        exposure=events.ubi_exposure,
        empty_lists=events.ubi_empty_lists,
    )
    decode = topic_decoder(topic, events.format, parse_mappings(events.mappings), events.limits, ubi)
    with_attributes = reads_attributes(events, settings)
    return with_encoding(without_envelope(events.envelope, decode, with_attributes=with_attributes), settings, topic)


def build_topic_decoders(settings: Settings, topics: Iterable[str]) -> dict[str, Decoder]:
    """Build one decoder for each topic or file. Empty if no setting names topics: `build_decoder` then decodes them all."""
    if settings.events.topics or any(rule.topics for rule in parse_mappings(settings.events.mappings)):
        return {topic: build_decoder(settings, topic) for topic in topics}
    return {}


_LATER_SETTINGS = (
    "envelope",
    "mappings",
    "numeric_ids",
    "positions",
    "ubi_empty_lists",
    "ubi_exposure",
    "encoding",
    "frame",
    "schema_message",
    "topics",
)
"""Settings that stored state names only where they are set: state of versions without them fits."""


def decoding_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that decide how bytes become events. Settings that stored state may lack are left out at their default."""
    events = settings.events
    unused = {name for name in EventSettings.model_fields if name.startswith("ubi_") and events.format != "ubi"}
    unused.add("schema_file")  # a file may move, and its schema may grow a field
    unused |= {name for name in _LATER_SETTINGS if getattr(events, name) == EventSettings.model_fields[name].default}
    shown = events.model_dump(exclude=unused)
    if events.topics:
        shown["topics"] = {name: own.model_dump(exclude={"schema_file"}, exclude_none=True) for name, own in events.topics.items()}
    used = [events.format, *sorted({own.format for own in events.topics.values() if own.format is not None} - {events.format})]
    digests = [preset_digest(name) for name in used if name not in ("native", "ubi")]
    return shown | ({"preset": " ".join(digests)} if digests else {})


def build_report_builder(settings: Settings, engine: Engine) -> ReportBuilder:
    """Build the report builder for the state that the engine writes."""
    rules = WindowRules(
        pane_ms=settings.windows.pane_ms,
        windows_ms=tuple(window.ms for window in settings.windows.windows),
        lateness_ms=settings.join.lateness_ms,
        attribution_ms=settings.join.attribution_ms,
    )
    view = None
    if engine.user_totals is not None:
        experiments = settings.experiments
        view = ExperimentView(
            engine.user_totals.measures,
            experiments.policy,
            experiments.idle_days * DAY_MS,
            experiments.patience_ms,
            _credit_actions(engine),
        )
    lists = (settings.events.ubi_exposure,) if settings.events.format == "ubi" else ()  # here the name of an action makes an event a list
    known = {ACTION: (*engine.rules.grades.table, *lists), TYPE: ("impression", "feedback")}
    return ReportBuilder(engine.layout, rules, result_settings(settings, engine), engine.signature, view, known)


def _credit_actions(engine: Engine) -> tuple[str, ...]:
    """Return the action from which on an item counts, for each level of the credit of interleaved lists."""
    assert engine.user_totals is not None
    grades, thresholds = engine.rules.grades, engine.user_totals.credit_thresholds
    least = [min((each for each in grades.grades if each >= threshold), default=threshold) for threshold in thresholds]
    return tuple(" or ".join(grades.conditions(each)) for each in least)


def build_worker_rules(settings: Settings) -> WorkerRules:
    """Build the limits and intervals of the consume loop."""
    worker = settings.worker
    return WorkerRules(
        commit_ms=worker.commit_ms,
        commit_behind_ms=worker.commit_behind_ms,
        commit_users_max=worker.commit_users_max,
        commit_bytes_max=worker.commit_bytes_max,
        cached_users_max=worker.cached_users_max,
        cached_bytes_max=worker.cached_bytes_max,
        idle_ms=settings.join.idle_ms,
        out_of_orderness_ms=settings.join.out_of_orderness_ms,
        skew_ms_max=settings.join.skew_ms_max,
        fenced_wait_seconds=settings.kafka.session_timeout_ms / 1_000,
        retry_seconds_max=worker.retry_seconds_max,
    )


def result_settings(settings: Settings, engine: Engine) -> dict[str, Any]:
    """Return the settings that change results, as the report shows them."""
    join, windows = settings.join, settings.windows
    return {
        "metrics": [str(metric) for metric in engine.layout.metrics],
        "spec": dataclasses.asdict(engine.layout.scorer.spec),
        "spec_digest": engine.layout.scorer.spec.digest(),
        "grades": engine.rules.grades.text,
        **({"engagement": settings.engagement.model_dump(mode="json")} if settings.engagement.names else {}),
        "gap_ms": join.gap_ms,
        "attribution_ms": join.attribution_ms,
        "out_of_orderness_ms": join.out_of_orderness_ms,
        "lateness_ms": join.lateness_ms,
        "idle_ms": join.idle_ms,
        "future_ms": join.future_ms,
        "support_jump_ms": join.support_jump_ms,
        "support_users": join.support_users,
        "support_events": join.support_events,
        "support_far_ms": join.support_far_ms,
        "session_events_max": join.session_events_max,
        "lists_open_max": join.lists_open_max,
        "pane_ms": windows.pane_ms,
        "windows_ms": [window.ms for window in windows.windows],
        "retention_ms": windows.retention_ms,
        "segments": list(windows.segments),
        "groups_max": windows.groups_max,
        "users": engine.user_count_layout is not None,
        "experiments": settings.experiments.model_dump(mode="json"),
        "events": decoding_settings(settings),
    }


def window_names(settings: Settings) -> dict[int, str]:
    """Return the label value of each window by its length in ms."""
    return {window.ms: window.text for window in settings.windows.windows}


def control_of(settings: Settings) -> Callable[[str, Collection[str]], str | None]:
    """Return a function from an experiment and its variants to its control variant, if it has one."""
    return lambda experiment, variants: settings.experiments.policy(experiment).control_of(variants)


def http_rules(http: HttpSettings) -> HttpRules:
    """Build the TLS files and limits of the HTTP port."""
    from streammetrics.exporters.http.limits import HttpRules  # noqa: PLC0415  slow import

    return HttpRules(
        ssl_certfile=http.ssl_certfile,
        ssl_keyfile=http.ssl_keyfile,
        ssl_password=_secret(http.ssl_password),
        connections_max=http.connections_max,
        request_seconds=http.request_ms / 1_000,
    )


def http_server(views: HttpViews, http: HttpSettings) -> HttpServer:
    """Build the HTTP server. Raises ConfigError if the address or the certificate cannot be used."""
    from streammetrics.exporters.http.auth import Login  # noqa: PLC0415  slow import
    from streammetrics.exporters.http.server import HttpServer  # noqa: PLC0415

    users = http_users(http)
    login = Login({name: stored.matches for name, stored in users.items()}) if users else None
    return HttpServer(views, http.host, http.port, http_rules(http), login)


def http_users(http: HttpSettings) -> dict[str, PasswordHash]:
    """Return the hashes of passwords by user; empty if the port needs no login.

    Raises ConfigError if the htpasswd file cannot be used.
    """
    if http.htpasswd_file:
        return read_htpasswd(Path(http.htpasswd_file))
    if http.username and http.password_hash:
        return {http.username: PasswordHash.parse(http.password_hash.get_secret_value())}
    return {}


def webhook_sender(settings: Settings, store: RecordStore, clock: Clock, status: ProcessStatus) -> WebhookSender:
    """Build the sender of the webhook, whose URL must be set. Raises ConfigError for authorities that cannot be used."""
    webhook = settings.webhook
    client = HttpClient(section="webhook", timeout_seconds=webhook.timeout_ms / 1_000, cafile=webhook.ssl_cafile)
    client.check()
    receiver = WebhookReceiver(url=_secret(webhook.url) or "", client=client, wall_ms=clock.wall_ms, secret=_secret(webhook.secret))
    rules = WebhookRules(
        source=settings.redis.namespace,
        watched=frozenset(webhook.on),
        message=slack_message if webhook.format == "slack" else json_message,
        timeout_seconds=webhook.timeout_ms / 1_000,
        give_up_ms=webhook.give_up_ms,
    )
    return WebhookSender(store, receiver, rules, clock, status)


def kafka_connection(settings: Settings) -> KafkaConnection:
    """Build the connection settings for Kafka."""
    from streammetrics.connectors.kafka.client import KafkaConnection  # noqa: PLC0415  slow import

    kafka = settings.kafka
    return KafkaConnection(
        bootstrap_servers=tuple(kafka.bootstrap_servers),
        topics=tuple(kafka.topics),
        group_id=kafka.group_id,
        group_instance_id=kafka.group_instance_id,
        start=kafka.start if isinstance(kafka.start, str) else epoch_ms(kafka.start),
        isolation_level=kafka.isolation_level,
        session_timeout_ms=kafka.session_timeout_ms,
        poll_records_max=settings.worker.batch_events_max,
        partition_fetch_bytes_max=kafka.partition_fetch_bytes_max,
        linger_ms=kafka.linger_ms,
        security_protocol=kafka.security_protocol,
        ssl_cafile=kafka.ssl_cafile,
        ssl_certfile=kafka.ssl_certfile,
        ssl_keyfile=kafka.ssl_keyfile,
        ssl_password=_secret(kafka.ssl_password),
        sasl_mechanism=kafka.sasl_mechanism or None,
        sasl_username=kafka.sasl_username,
        sasl_password=_secret(kafka.sasl_password),
        headers=reads_headers(settings),
        oauth=_oauth_login(kafka) if kafka.sasl_mechanism == "OAUTHBEARER" else None,
    )


def _oauth_login(kafka: KafkaSettings) -> OAuthLogin:
    from streammetrics.connectors.kafka.oauth import OAuthLogin  # noqa: PLC0415  slow import

    return OAuthLogin(
        token_url=kafka.oauth_token_url,
        client_id=kafka.oauth_client_id,
        client_secret=_secret(kafka.oauth_client_secret),
        scope=kafka.oauth_scope,
        cafile=kafka.oauth_cafile,
        token_file=kafka.oauth_token_file,
        aws_region=kafka.oauth_aws_region,
        extensions=tuple((name, value) for name, _, value in (pair.partition("=") for pair in kafka.oauth_extensions)),
    )


def redis_connection(settings: Settings) -> RedisConnection:
    """Build the connection settings for Redis."""
    from streammetrics.connectors.redis.client import RedisConnection  # noqa: PLC0415  slow import

    redis = settings.redis
    return RedisConnection(
        url=redis.url.get_secret_value(),
        cluster=redis.cluster,
        namespace=redis.namespace,
        username=redis.username,
        password=_secret(redis.password),
        ssl_cafile=redis.ssl_cafile,
        ssl_certfile=redis.ssl_certfile,
        ssl_keyfile=redis.ssl_keyfile,
        sentinels=tuple(redis.sentinels),
        sentinel_username=redis.sentinel_username,
        sentinel_password=_secret(redis.sentinel_password),
        socket_timeout_ms=redis.socket_timeout_ms,
    )


def _secret(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()
