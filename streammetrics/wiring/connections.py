"""Builds the settings of the connections to Kafka and Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streammetrics.config import Settings
from streammetrics.config.fields import secret_text
from streammetrics.config.times import epoch_ms
from streammetrics.wiring.encodings import reads_headers

if TYPE_CHECKING:
    from streammetrics.config.kafka import KafkaSettings
    from streammetrics.connectors.kafka.client import KafkaConnection
    from streammetrics.connectors.kafka.oauth import OAuthLogin
    from streammetrics.connectors.redis.client import RedisConnection


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
        ssl_password=secret_text(kafka.ssl_password),
        sasl_mechanism=kafka.sasl_mechanism or None,
        sasl_username=kafka.sasl_username,
        sasl_password=secret_text(kafka.sasl_password),
        whole_records=reads_headers(settings),
        oauth=_oauth_login(kafka) if kafka.sasl_mechanism == "OAUTHBEARER" else None,
    )


def _oauth_login(kafka: KafkaSettings) -> OAuthLogin:
    from streammetrics.connectors.kafka.oauth import OAuthLogin  # noqa: PLC0415  slow import

    return OAuthLogin(
        token_url=kafka.oauth_token_url,
        client_id=kafka.oauth_client_id,
        client_secret=secret_text(kafka.oauth_client_secret),
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
        password=secret_text(redis.password),
        ssl_cafile=redis.ssl_cafile,
        ssl_certfile=redis.ssl_certfile,
        ssl_keyfile=redis.ssl_keyfile,
        sentinels=tuple(redis.sentinels),
        sentinel_username=redis.sentinel_username,
        sentinel_password=secret_text(redis.sentinel_password),
        socket_timeout_ms=redis.socket_timeout_ms,
    )
