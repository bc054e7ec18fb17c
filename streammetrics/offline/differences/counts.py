"""Which counters and inputs differ between two reports, and what that does to the numbers. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from streammetrics.events.outcomes import LABELS, MALFORMED, NOT_REFUSED, UNMATCHED
from streammetrics.offline.differences.found import ChangedCount, ChangedInput
from streammetrics.reports.published import TopicCount

EVENTS: Final = "events"
_EXPLAINS: Final = {
    EVENTS: "records that only one side has read",
    "late": "late events are not joined: a late list is missing, late feedback gives no grade",
    "future": "too far ahead of the record's time, which files do not have, or of the other events of its input",
    "session_full": "events beyond the limit of a session count nowhere",
    "too_many_lists": "lists beyond the limit of a user count nowhere",
    "matched": "feedback that grades a list; counted when its session closes",
    "duplicate": "a list or an exposure that was sent twice counts once; more copies change no number",
    "list_id_reused": "a list with the id of another one of its session, but other items, counts nowhere; counted when its session closes",
    "place_conflict": "two items of a list claim one place and are ordered by id; counted when its session closes",
    "exposure": "exposures give lists their variants",
    "list_exposed": "lists with a variant; counted when their session closes",
    "list_unexposed": "lists without a variant, for lack of an exposure; counted when their session closes",
    "repeated": "the same feedback again changes no grade",
    "ignored": "records that a mapping leaves out, and exposures that are not read",
}
_HARMLESS: Final = "counted for information; changes no list"


def changed_counts(online: Mapping[str, int], offline: Mapping[str, int]) -> tuple[ChangedCount, ...]:
    """Return the counters that differ: `events` first, then by size of the difference. A missing counter is 0."""
    names = {name for name in (*online, *offline) if online.get(name, 0) != offline.get(name, 0)}
    found = [ChangedCount(name, online.get(name, 0), offline.get(name, 0), _explains(name)) for name in sorted(names)]
    return tuple(sorted(found, key=lambda each: (each.reason != EVENTS, -abs(each.online - each.offline))))


def changed_inputs(online: Iterable[TopicCount], offline: Iterable[TopicCount]) -> tuple[ChangedInput, ...]:
    """Return the inputs whose number of events differs, from `counters_by_topic` of both reports.

    A file stands for the topic of the other side that its name begins with, up to a dot. Files in different folders have their names
    only. Empty if no name of one side is known to the other.
    """
    ours, theirs = _events(online), _events(offline)
    if not ours.keys() & theirs.keys():
        theirs = _named_as(theirs, ours)
        ours = _named_as(ours, theirs)
    if not ours.keys() & theirs.keys():
        return ()
    names = sorted(ours.keys() | theirs.keys())
    return tuple(ChangedInput(name, ours[name], theirs[name]) for name in names if ours[name] != theirs[name])


def refuses(reason: str) -> bool:
    """Return whether events of this counter count nowhere."""
    return reason not in NOT_REFUSED


def _explains(reason: str) -> str:
    if reason in _EXPLAINS:
        return _EXPLAINS[reason]
    if reason in UNMATCHED:
        return "feedback without a list gives no grade; counted when its session closes"
    if reason in MALFORMED or refuses(reason):
        return "refused records count nowhere"
    return "the list counts in all traffic, but not under this label" if reason in LABELS else _HARMLESS


def _events(counts: Iterable[TopicCount]) -> Counter[str]:
    return Counter({one.topic: one.count for one in counts if one.reason == EVENTS})


def _named_as(events: Counter[str], topics: Iterable[str]) -> Counter[str]:
    """Give files the longest topic that their name begins with; without one, their name without folders."""
    found: Counter[str] = Counter()
    for path, count in events.items():
        name = path.rpartition("/")[2]
        found[max((topic for topic in topics if f"{name}.".startswith(f"{topic}.")), key=len, default=name)] += count
    return found
