"""Takes over kafka-python's own log: limits repeated warnings and remembers the cause of a failed start."""

from __future__ import annotations

import functools
import logging
import threading
from typing import NamedTuple

import structlog

log = structlog.get_logger("streammetrics.kafka")

REPEAT_SECONDS = 10.0
"""The pause before the same message is logged again. In an outage the client repeats one up to 400 times a second. The pause doubles
each time, because a dozen such messages in turn still flood the log."""
REPEAT_SECONDS_MAX = 640.0
CALM_SECONDS = 60.0
"""A message that did not occur for this long is logged at once when it occurs again."""

SUMMARY = "Bootstrap failed"
"""The client's last message when it cannot start. It hides the cause, which was logged before it."""
CLOSED = "socket disconnected"
WITHOUT_CAUSE = (CLOSED, "RequestTimedOutError")
"""The client gives the reason for a refused login only once. For the next attempts it logs nothing but these."""
INTERNAL = ("blocking the event loop", "Failed to build connection log_prefix", "Metadata refresh: failed Cancelled")
"""Messages about the client's own internals, which are dropped: a busy machine, a connection that failed before it had a name, and a
metadata request that the client cancelled and repeats by itself."""


class LoggedMessage(NamedTuple):
    """One kind of message: when it was logged and last seen (epoch seconds), how many were held back since, and the pause in force."""

    at: float
    seen_at: float
    held_back: int
    pause_seconds: float


class ClientLog(logging.Handler):
    """Passes the client's warnings on with growing pauses, and remembers its last error.

    The client raises the same "Unable to bootstrap" for a wrong password, a wrong certificate authority and a plaintext port. Only its
    log has the cause. While `quiet` is set, an outage has already been reported, and messages are logged at debug level.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lock = threading.Lock()
        self._logged: dict[tuple[str, int], LoggedMessage] = {}
        self._last = self._last_cause = (0.0, "")
        self._last_closed = 0.0
        self.quiet = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = str(record.msg)
        if any(part in text for part in INTERNAL):
            return
        with self._lock:
            self._remember(record, text)
            key = (record.pathname, record.lineno)  # not the text, which may contain changing values
            now, last = record.created, self._logged.get(key)
            if last is None or now - last.seen_at > CALM_SECONDS:
                pause_seconds = REPEAT_SECONDS
            elif now - last.at < last.pause_seconds:
                self._logged[key] = last._replace(seen_at=now, held_back=last.held_back + 1)
                return
            else:
                pause_seconds = min(2 * last.pause_seconds, REPEAT_SECONDS_MAX)
            held_back = last.held_back if last is not None else 0
            self._logged[key] = LoggedMessage(now, now, 0, pause_seconds)
        write = log.debug if self.quiet else log.error if record.levelno >= logging.ERROR else log.warning
        write("kafka client", logger=record.name, message=text, held_back=held_back)

    def _remember(self, record: logging.LogRecord, text: str) -> None:
        if record.levelno < logging.ERROR or text.startswith(SUMMARY):
            return
        self._last = (record.created, text)
        if CLOSED in text:
            self._last_closed = record.created
        if not any(part in text for part in WITHOUT_CAUSE):
            self._last_cause = (record.created, text)

    def was_closed(self, since: float) -> bool:
        """Return whether a broker closed a connection at or after `since` (epoch seconds)."""
        with self._lock:
            return self._last_closed >= since

    def last_error(self, since: float) -> str | None:
        """Return the last error logged at or after `since` (epoch seconds), preferring one that names a cause."""
        with self._lock:
            return next((text for at, text in (self._last_cause, self._last) if text and at >= since), None)


@functools.cache
def client_log() -> ClientLog:
    """Return the process' only ClientLog. The first call attaches it, because the client logs through process-wide loggers."""
    handler = ClientLog()
    logger = logging.getLogger("kafka")
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)  # below this level the admin client logs its whole configuration, with passwords
    logger.propagate = False
    return handler
