"""What to do when the store or the source fails: wait times, log lines, and the retry state of one task."""

from __future__ import annotations

import random
from dataclasses import dataclass

import structlog

CALM_SECONDS = 5.0
"""An outage is over once everything has worked for this long."""

log = structlog.get_logger("streammetrics.runtime.retry")


class Backoff:
    """Wait times that double up to a cap. Half of each is random, so that workers do not all retry at once."""

    def __init__(self, first_seconds: float = 0.1, cap_seconds: float = 5.0) -> None:
        self._first, self._cap = first_seconds, cap_seconds

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after this many failures in a row."""
        return random.uniform(0.5, 1.0) * min(self._cap, self._first * 2.0 ** min(failures - 1, 30))


@dataclass(slots=True)
class Trouble:
    """A current outage: since when (monotonic seconds), failures in a row, and the last error message."""

    since_seconds: float
    failures: int
    message: str


class Outage:
    """One outage of an external system, logged in two lines: when it begins, and after CALM_SECONDS without a failure.

    Without the calm time, a flapping network would log a line for every failure and every success.
    """

    def __init__(self, where: str) -> None:
        self.trouble: Trouble | None = None
        """The current failure; None from the first success on."""
        self._where = where
        self._failures = 0
        self._working_since = 0.0

    def failed(self, error: Exception, now_seconds: float, retry_seconds_max: float) -> None:
        """Count a failure. Raises the error if nothing has worked for longer than `retry_seconds_max`; 0 means no limit."""
        if not self._failures:
            log.warning(f"{self._where} unavailable, trying again", error=str(error))
        trouble = self.trouble or Trouble(now_seconds, 0, "")
        if retry_seconds_max and now_seconds - trouble.since_seconds > retry_seconds_max:
            raise error
        self.trouble = Trouble(trouble.since_seconds, trouble.failures + 1, str(error))
        self._failures += 1

    def succeeded(self, now_seconds: float) -> None:
        """Note a success. Call it repeatedly: the end of the outage is logged by a later call."""
        if self.trouble is not None:
            self.trouble, self._working_since = None, now_seconds
        elif self._failures and now_seconds - self._working_since > CALM_SECONDS:
            log.info(f"{self._where} available again", failures=self._failures)
            self._failures = 0


@dataclass(slots=True)
class RetryState:
    """Whether a task waits for an external system after a failure, and when it tries again."""

    waits_for: str = ""
    """`store` or `source`; empty while all is well."""
    failures: int = 0
    retry_at_seconds: float = 0.0

    @property
    def is_failing(self) -> bool:
        return bool(self.waits_for)

    def must_wait(self, now_seconds: float) -> bool:
        """Return whether the next try is still in the future."""
        return bool(self.waits_for) and now_seconds < self.retry_at_seconds

    def failed(self, where: str, now_seconds: float, backoff: Backoff) -> None:
        self.waits_for, self.failures = where, self.failures + 1
        self.retry_at_seconds = now_seconds + backoff.delay(self.failures)

    def succeeded(self) -> None:
        self.waits_for, self.failures = "", 0
