"""Settings -> how to reach Kafka and Redis. Apart from `assembly`, so that what needs neither does not import their clients."""

from __future__ import annotations

from pydantic import SecretStr

from streammetrics.adapters.kafka.client import KafkaConnection
from streammetrics.adapters.redis.client import RedisConnection
from streammetrics.config import Settings
from streammetrics.config.fields import epoch_ms


def kafka_connection(settings: Settings) -> KafkaConnection:
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
        security_protocol=kafka.security_protocol,
        ssl_cafile=kafka.ssl_cafile,
        ssl_certfile=kafka.ssl_certfile,
        ssl_keyfile=kafka.ssl_keyfile,
        ssl_password=_secret(kafka.ssl_password),
        sasl_mechanism=kafka.sasl_mechanism or None,
        sasl_username=kafka.sasl_username,
        sasl_password=_secret(kafka.sasl_password),
    )


def redis_connection(settings: Settings) -> RedisConnection:
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
        socket_timeout_ms=redis.socket_timeout_ms,
    )


def _secret(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()
