"""Marks on the curves: deploys and firing alerts that others report. A bounded set, for display only. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

import msgspec

from streammetrics.errors import CallerError
from streammetrics.events.event_time import DAY_MS
from streammetrics.reports.text import fit

MarkKind: TypeAlias = Literal["deploy", "alert"]
MARKS_MAX: Final = 100
"""Most marks of one namespace. The newest are kept."""
SHOWN_MAX: Final = 20
"""Most marks as series. Each is a series of its own."""
TEXT_CHARS_MAX: Final = 120
BODY_BYTES_MAX: Final = 65_536
"""Largest request: a group of alerts."""
_ALLOWED: Final = '{"text": "ranker 7.2", "experiment": "ranker-v7", "at": "2026-01-31T12:00:00Z"}; only text is required'


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at a time (epoch ms). Without an experiment it concerns all of them.

    `ended_ms` is the end of an alert; None for a deploy, and for an alert of which no end is known. `alert` tells two alerts apart: it is
    the fingerprint that Alertmanager gives to the labels of an alert; empty for a deploy.
    """

    at_ms: int
    kind: MarkKind
    text: str
    experiment: str = ""
    ended_ms: int | None = None
    alert: str = ""


def merged(marks: Iterable[Mark], more: Iterable[Mark]) -> tuple[Mark, ...]:
    """Return both without repetitions, in the order of time, at most the MARKS_MAX newest.

    Alertmanager repeats an alert while it fires, with new numbers in its text, and sends it once more when it ends. What comes later
    replaces what is known of the same alert at the same time.

    >>> one, other = Mark(2, "deploy", "b"), Mark(1, "deploy", "a")
    >>> [mark.text for mark in merged([one], [other, one])]
    ['a', 'b']
    >>> begun, ended = Mark(1, "alert", "5 tries", alert="f1"), Mark(1, "alert", "9 tries", ended_ms=7, alert="f1")
    >>> [(mark.text, mark.ended_ms) for mark in merged([begun], [ended])]
    [('9 tries', 7)]
    """
    known: list[Mark] = []
    for mark in (*marks, *more):
        same = [one for one in known if _is_same(one, mark)]
        known = [one for one in known if one not in same]
        known.append(replace(mark, at_ms=min(each.at_ms for each in (mark, *same))))
    return tuple(sorted(known, key=lambda mark: (mark.at_ms, mark.kind, mark.text, mark.experiment, mark.alert))[-MARKS_MAX:])


def _is_same(one: Mark, later: Mark) -> bool:
    """Whether both are one mark. Two reports of one alert are, unless it had ended before the later one began."""
    if one.alert and one.alert == later.alert:
        return (one.ended_ms is None or later.at_ms <= one.ended_ms) and (later.ended_ms is None or one.at_ms <= later.ended_ms)
    return (one.at_ms, one.kind, one.text, one.experiment, one.alert) == (
        later.at_ms,
        later.kind,
        later.text,
        later.experiment,
        later.alert,
    )


def encode_marks(marks: Iterable[Mark]) -> bytes:
    """Encode marks for the store."""
    return msgspec.json.encode(list(marks))


def decode_marks(stored: bytes | None) -> tuple[Mark, ...]:
    """Decode stored marks. Returns none if there are none, or if they are of another version; the next write replaces them."""
    try:
        return () if stored is None else tuple(msgspec.json.decode(stored, type=list[Mark]))
    except msgspec.DecodeError:
        return ()


def parse_marks(content: bytes, now_ms: int) -> tuple[Mark, ...]:
    """Read the body of a request: one deploy, or a message of Alertmanager, of which each alert is a mark. One that is resolved has an end.

    Raises CallerError for anything else, with what is allowed.
    """
    try:
        given = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        raise CallerError("body", f"got no JSON; send a JSON object such as {_ALLOWED}") from None
    if not isinstance(given, dict):
        raise CallerError("body", f"got {type(given).__name__}; send a JSON object such as {_ALLOWED}")
    if isinstance(given.get("alerts"), list):
        alerts = [each for each in given["alerts"] if isinstance(each, dict) and each.get("status") in ("firing", "resolved")]
        return tuple(_alert(each, now_ms) for each in alerts[-MARKS_MAX:])
    if unknown := given.keys() - {"text", "experiment", "at"}:
        raise CallerError("body", f"got the field {sorted(unknown)[0]!r}; send {_ALLOWED}")
    text, experiment = _text("text", given.get("text")), _text("experiment", given.get("experiment", ""), least=0)
    return (Mark(_time("at", given.get("at"), now_ms), "deploy", text, experiment),)


def _alert(given: Mapping[str, Any], now_ms: int) -> Mark:
    labels = given.get("labels") if isinstance(given.get("labels"), dict) else {}
    annotations = given.get("annotations") if isinstance(given.get("annotations"), dict) else {}
    assert labels is not None
    assert annotations is not None
    text = annotations.get("summary") or labels.get("alertname") or "alert"
    experiment = labels.get("experiment", "")
    at_ms = _time("startsAt", given.get("startsAt"), now_ms)
    ended_ms = max(at_ms, _time("endsAt", given.get("endsAt"), now_ms)) if given["status"] == "resolved" else None
    return Mark(at_ms, "alert", _shortened(text), _shortened(experiment), ended_ms, _shortened(given.get("fingerprint") or ""))


def _shortened(value: object) -> str:
    return fit(str(value))[:TEXT_CHARS_MAX]


def _text(name: str, value: object, least: int = 1) -> str:
    if not isinstance(value, str) or not least <= len(value.strip()) <= TEXT_CHARS_MAX:
        got = "nothing" if value is None else repr(value)[:TEXT_CHARS_MAX]
        raise CallerError(name, f"got {got}; allowed are texts of {least} to {TEXT_CHARS_MAX} characters")
    return fit(value.strip())


def _time(name: str, value: object, now_ms: int) -> int:
    """Return a time in epoch ms: now if there is none, a number of ms, or ISO-8601 with a zone; at most a day ahead."""
    if value is None:
        return now_ms
    rule = "allowed are epoch milliseconds, or a time such as 2026-01-31T12:00:00Z, at most a day ahead"
    try:
        ms = value if isinstance(value, int) and not isinstance(value, bool) else _from_iso(value)
    except (TypeError, ValueError, OverflowError):
        raise CallerError(name, f"got {str(value)[:TEXT_CHARS_MAX]!r}; {rule}") from None
    if not 0 <= ms <= now_ms + DAY_MS:
        raise CallerError(name, f"got {value!r}; {rule}")
    return ms


def _from_iso(value: object) -> int:
    if not isinstance(value, str):
        raise TypeError
    time = datetime.fromisoformat(value)
    if time.tzinfo is None:
        raise ValueError
    return int(time.timestamp() * 1_000)
