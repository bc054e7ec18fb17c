"""What the client's errors mean while records are read: whose fault each is, and in what words. Nothing is read here."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import structlog
from kafka.errors import FencedInstanceIdError, KafkaError, LogTruncationError, OffsetOutOfRangeError, UnsupportedCodecError

from streammetrics.connectors.base import Input
from streammetrics.connectors.kafka.client import BOOTSTRAP_MS, KafkaConnection, client_log, words_of
from streammetrics.connectors.kafka.consumer import bounds_of
from streammetrics.connectors.kafka.liveness import LivenessMonitor
from streammetrics.connectors.kafka.log_identity import LogIdentity
from streammetrics.errors import ConfigError, Problem, SourceError

log = structlog.get_logger("streammetrics.kafka")


@contextlib.contextmanager
def explained(consumer: Any, settings: KafkaConnection, history: LogIdentity, watchdog: LivenessMonitor) -> Iterator[None]:
    """Turn the client's errors into ours. Those that mend themselves are kept in the watchdog's `health` and nothing is raised."""
    try:
        yield
    except OffsetOutOfRangeError as error:
        _explain_gap(consumer, {Input(*place): offset for place, offset in error.args[0].items()}, history, watchdog)
    except LogTruncationError as error:
        history.refuse_other_topics()
        lost = [f"{place.topic} [{place.partition}]" for place in error.divergent_offsets]
        raise history.truncated(lost) from error
    except FencedInstanceIdError as error:
        taken = "another process has joined the group with it, and has the partitions; give each worker its own"
        raise ConfigError([Problem("kafka.group_instance_id", str(settings.group_instance_id), taken)]) from error
    except UnsupportedCodecError as error:
        raise SourceError(
            f"records are compressed in a way this Python cannot read ({error})", "install lz4, python-snappy or zstandard"
        ) from error
    except KafkaError as error:
        is_news = watchdog.failed(words_of(error))
        if not error.retriable:
            cause = client_log().last_error(time.time() - BOOTSTRAP_MS / 1_000)
            raise SourceError(f"Kafka cannot be read: {words_of(error)}{f' ({cause})' if cause else ''}") from error
        if is_news:
            log.warning("Kafka cannot be read just now", reason=words_of(error))


def _explain_gap(consumer: Any, positions: Mapping[Input, int], history: LogIdentity, watchdog: LivenessMonitor) -> None:
    """Raise StateError for positions outside of the log; return if the broker cannot say now (the error comes again)."""
    try:
        bounds = bounds_of(consumer, positions)
    except KafkaError as error:
        watchdog.failed(str(error))
        return
    history.require_held(positions, bounds)
