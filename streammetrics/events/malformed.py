"""How a refusal is put into words: the rule broken, the value got, what to do. No rule lives here."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from streammetrics.errors import MalformedEvent

SHOWN_CHARS_MAX = 80
"""How much of a refused value a message shows; the whole of it is in the dead letter."""

Got: TypeAlias = bytes | str | msgspec.Raw | None


def malformed(reason: str, rule: str, got: Got, advice: str) -> MalformedEvent:
    """The error for one broken rule. `got` is None where the value would say nothing (it is absent, or only too many).

    >>> malformed("bad_id", "user_id must be a string", b"7", "send ids as strings").detail
    'user_id must be a string; got 7; send ids as strings'
    """
    found = "" if got is None else f"; got {excerpt(got)}"
    return MalformedEvent(reason, f"{rule}{found}; {advice}")


def kept(error: MalformedEvent) -> MalformedEvent:
    """The error without the frames it came through: they would keep the whole record alive for as long as it is kept."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def excerpt(got: bytes | str | msgspec.Raw) -> str:
    """At most SHOWN_CHARS_MAX characters of a value, fit for one line of a log: what is not printable is replaced."""
    start = got if isinstance(got, str) else bytes(memoryview(got)[: 4 * (SHOWN_CHARS_MAX + 1)])
    text = start if isinstance(start, str) else start.decode(errors="replace")
    printable = "".join(char if char.isprintable() else "\ufffd" for char in text[:SHOWN_CHARS_MAX])
    return printable + ("…" if len(text) > SHOWN_CHARS_MAX else "")
