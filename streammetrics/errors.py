"""Errors, grouped by cause: the caller, the sender, the operator, external systems or an earlier version.

Every message states the broken rule, the value received and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final


class StreammetricsError(Exception):
    """Base class of all deliberate errors. `message` states the problem; `fix` states what to do, if that is separate.

    >>> print(StreammetricsError("no broker can be reached", "start one"))
    no broker can be reached; start one
    """

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(*filter(None, (message, fix)))
        self.message, self.fix = message, fix

    def __str__(self) -> str:
        return f"{self.message}; {self.fix}" if self.fix else self.message


class CallerError(StreammetricsError, ValueError):
    """An invalid argument. `subject` names the argument; `rule` states the value received and what is allowed.

    >>> print(CallerError("seed", "got -1; allowed are whole numbers >= 0"))
    seed: got -1; allowed are whole numbers >= 0
    """

    def __init__(self, subject: str, rule: str) -> None:
        super().__init__(f"{subject}: {rule}")
        self.args = (subject, rule)  # the constructor's arguments, for copying and pickling
        self.subject, self.rule = subject, rule


@final
class MalformedEvent(StreammetricsError):
    """A record without a usable event. It is counted by `reason` and written to the dead letters; it never stops the process.

    `reason` is one of the names in `streammetrics.events.outcomes.MALFORMED`, because it becomes a label. `detail` is text for people.
    `unknown_type` is the type of an event that is neither impression nor feedback, if that is what is wrong. `missing` is the field that
    the event lacks, if it lacks one.
    """

    def __init__(self, reason: str, detail: str, unknown_type: str | None = None, missing: str | None = None) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        self.unknown_type = unknown_type
        self.missing = missing


@dataclass(frozen=True, slots=True)
class Problem:
    """One configuration problem: the key, the value given, what is allowed, and where the value came from."""

    key: str
    value: str
    allowed: str
    origin: str = ""

    def __str__(self) -> str:
        source = f" (from {self.origin})" if self.origin else ""
        return f"{self.key} = {self.value}{source}: {self.allowed}"


class ConfigError(StreammetricsError):
    """An invalid configuration or command. Lists all problems at once. Exit code 2."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class SourceError(StreammetricsError):
    """The event source cannot be read now. Retried within limits, then exit code 1."""


class StoreError(StreammetricsError):
    """The state store cannot be reached now. Retried within limits, then exit code 1."""


class GaveUp(StreammetricsError):
    """Retries in this process have not helped. Exit code 1, so that a supervisor restarts the process."""


class StateError(StreammetricsError):
    """The stored state does not fit this version, this configuration or these topics. The message names the way out. Exit code 1."""


class UnfitStateError(StateError):
    """The stored state fits another configuration, version or topics. Another try fails again, so the exit code is 2, as for settings."""


class ExperimentError(CallerError):
    """The caller broke a rule of the experiment statistics. The message names the rule and the value."""
