"""Turns the client's errors while reading into ours: by cause, with what to do. Reads no record."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import structlog
from kafka.errors import FencedInstanceIdError, KafkaError, LogTruncationError, OffsetOutOfRangeError, UnsupportedCodecError

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.client import BOOTSTRAP_MS, describe_error
from streammetrics.connectors.kafka.client_log import client_log
from streammetrics.connectors.kafka.consumer import bounds_of
from streammetrics.connectors.kafka.liveness import LivenessMonitor
from streammetrics.connectors.kafka.log_identity import LogIdentity
from streammetrics.connectors.source import Input
from streammetrics.errors import ConfigError, Problem, SourceError

log = structlog.get_logger("streammetrics.kafka")


@contextlib.contextmanager
def explained(consumer: Any, settings: KafkaSettings, identity: LogIdentity, monitor: LivenessMonitor) -> Iterator[None]:
    """Turn the client's errors into ours. Retriable errors are kept in the monitor's `health` and not raised."""
    try:
        yield
    except OffsetOutOfRangeError as error:
        _explain_gap(consumer, {Input(*place): offset for place, offset in error.args[0].items()}, identity, monitor)
    except LogTruncationError as error:
        identity.require_same_topics()
        lost = [f"{place.topic} [{place.partition}]" for place in error.divergent_offsets]
        raise identity.truncated(lost) from error
    except FencedInstanceIdError as error:
        taken = "another process has joined the group with it and owns the partitions; give each worker its own"
        raise ConfigError([Problem("kafka.group_instance_id", str(settings.group_instance_id), taken)]) from error
    except UnsupportedCodecError as error:
        raise SourceError(
            f"this Python cannot read the records' compression ({error})", "install lz4, python-snappy or zstandard"
        ) from error
    except KafkaError as error:
        is_news = monitor.note_error(describe_error(error))
        if not error.retriable:
            cause = client_log().last_error(time.time() - BOOTSTRAP_MS / 1_000)
            raise SourceError(f"Kafka cannot be read: {describe_error(error)}{f' ({cause})' if cause else ''}") from error
        if is_news:
            log.warning("Kafka cannot be read at the moment", reason=describe_error(error))


def _explain_gap(consumer: Any, positions: Mapping[Input, int], identity: LogIdentity, monitor: LivenessMonitor) -> None:
    """Raise StateError for positions outside the log. Return if the broker does not answer: the error comes again."""
    try:
        bounds = bounds_of(consumer, positions)
    except KafkaError as error:
        monitor.note_error(str(error))
        return
    identity.require_held(positions, bounds)
