"""Errors, sorted by whose fault they are; every message says the rule broken, the value got and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final


class StreammetricsError(Exception):
    """The base of every error that streammetrics raises on purpose. `message` is what is wrong; `fix` what to do, where that is said apart.

    >>> print(StreammetricsError("no broker can be reached", "start one"))
    no broker can be reached; start one
    """

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(*filter(None, (message, fix)))
        self.message, self.fix = message, fix

    def __str__(self) -> str:
        return f"{self.message}; {self.fix}" if self.fix else self.message


class CallerError(StreammetricsError, ValueError):
    """The caller's fault: what was given to a function breaks a rule. `subject` names it; `rule` has the value got and what is allowed.

    >>> print(CallerError("seed", "got -1; allowed are whole numbers >= 0"))
    seed: got -1; allowed are whole numbers >= 0
    """

    def __init__(self, subject: str, rule: str) -> None:
        super().__init__(f"{subject}: {rule}")
        self.args = (subject, rule)  # what it is made of again where it is copied or comes from another process
        self.subject, self.rule = subject, rule


@final
class MalformedEvent(StreammetricsError):
    """The sender's fault: these bytes hold no usable event. Counted by `reason` and dead-lettered, never fatal.

    `reason` is one of a small fixed set (`streammetrics.events.outcomes.MALFORMED`), because it becomes a label;
    `detail` is for people.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with the configuration: the key, the value given, what is allowed."""

    key: str
    value: str
    allowed: str
    origin: str = ""

    def __str__(self) -> str:
        source = f" (from {self.origin})" if self.origin else ""
        return f"{self.key} = {self.value}{source}: {self.allowed}"


class ConfigError(StreammetricsError):
    """The operator's fault: the configuration or the command cannot work. Carries all problems at once; exit code 2."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class SourceError(StreammetricsError):
    """The world's fault: the event source cannot be read now. Retried within bounds, then exit code 1."""


class StoreError(StreammetricsError):
    """The world's fault: the state store cannot be reached now. Retried within bounds, then exit code 1."""


class GaveUp(StreammetricsError):
    """The world's fault, and trying again in this process has not mended it: exit code 1, for a supervisor to start afresh."""


class StateError(StreammetricsError):
    """A former version's fault, or a topic's history: the stored state does not fit. Rejected, with the way out; exit code 1."""
