"""Builds MalformedEvent errors: the broken rule, the value received, what to do. The rules themselves are in `fields`."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from streammetrics.errors import MalformedEvent

SHOWN_CHARS_MAX = 80
"""Most characters of a rejected value in a message. The dead letter has the whole value."""

NOT_ACCEPTED: Final = (msgspec.MsgspecError, ValueError, RecursionError, MalformedEvent)
"""What a typed parser raises for input that it leaves to its explainer."""

Got: TypeAlias = bytes | str | msgspec.Raw | None


def malformed(reason: str, rule: str, got: Got, advice: str) -> MalformedEvent:
    """Return the error for a broken rule. `got` is None where the value would not help (absent, or too many).

    >>> malformed("bad_id", "user_id must be a string", b"7", "send ids as strings").detail
    'user_id must be a string; got 7; send ids as strings'
    """
    value = "" if got is None else f"; got {excerpt(got)}"
    return MalformedEvent(reason, f"{rule}{value}; {advice}")


def without_traceback(error: MalformedEvent) -> MalformedEvent:
    """Return the error without its traceback, which would keep the whole record in memory."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def printable(value: bytes) -> str:
    """Return a whole value as text for one line. Unprintable characters are replaced.

    >>> printable(b"tea\\x00pot") == "tea\\ufffdpot"
    True
    """
    return "".join(char if char.isprintable() else "\ufffd" for char in value.decode(errors="replace"))


def excerpt(got: bytes | str | msgspec.Raw, chars_max: int = SHOWN_CHARS_MAX) -> str:
    """Return the first characters of a value for one log line. Unprintable characters are replaced."""
    start = got if isinstance(got, str) else bytes(memoryview(got)[: 4 * (chars_max + 1)])
    text = start if isinstance(start, str) else start.decode(errors="replace")
    printable = "".join(char if char.isprintable() else "\ufffd" for char in text[:chars_max])
    return printable + ("…" if len(text) > chars_max else "")
