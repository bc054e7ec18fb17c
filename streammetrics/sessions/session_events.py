"""One open session and its events. Each event is added to the log. A plain one also updates the lists at once.

Any other event (a copy, a fragment, a list before feedback without an id) leaves the session stale, and `untangle` joins its log again. So
a session is joined at most once between two commits, however many such events it has.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import Final

import msgspec

from streammetrics.events.event_time import NEVER
from streammetrics.events.model import Impression, Labels
from streammetrics.sessions.join_rules import JoinResult, answer, count_outcome, join, new_list
from streammetrics.sessions.msgpack import array_head, pack_into
from streammetrics.sessions.rules import EngagementRules, JoinRules
from streammetrics.sessions.state import (
    KINDS,
    NOTHING,
    ORPHAN,
    OUT_OF_LIST,
    ChangedLists,
    LogEntry,
    LogFeedback,
    LogLabels,
    LogList,
    LogMark,
    Session,
    ShownList,
    mark_changed,
)

decode_entries: Final = msgspec.msgpack.Decoder(list[LogEntry]).decode
"""Decode the entries of a log from their array. Raises msgspec.DecodeError for other bytes."""


def add_mark(session: Session, ts: int) -> None:
    """Add an event that only extends its session."""
    pack_into(LogMark(ts), session.log, -1)


def add_feedback(session: Session, feedback: LogFeedback, rules: JoinRules, changed: ChangedLists) -> None:
    """Add one feedback. It never changes what other feedback belongs to."""
    pack_into(feedback, session.log, -1)
    name = feedback.impression_id
    if name is None and session.unnamed_last < feedback.ts:
        session.unnamed_last = feedback.ts
    if session.is_stale:
        return
    if name is not None:
        shown = session.lists.get(name)
    elif session.pieces:  # which list shows an item at a given time is a question for `join`
        session.is_stale = True
        return
    else:
        shown = _latest(session, feedback)
    if shown is not None:
        answer(shown, feedback, rules, session.outcomes, changed)
    elif name is None:
        begun = any(shown.ts <= feedback.ts for shown in list(session.lists.values())[:1])
        count_outcome(session.outcomes, feedback, OUT_OF_LIST if begun else ORPHAN)
    else:
        count_outcome(session.outcomes, feedback, ORPHAN)
        if session.waiting is NOTHING:
            session.waiting = {}
        session.waiting.setdefault(name, []).append(feedback)


def _latest(session: Session, feedback: LogFeedback) -> ShownList | None:
    """Return the latest list, at or before a feedback, that shows its item. Lists are in order."""
    for shown in reversed(session.lists.values()):
        if shown.ts <= feedback.ts and feedback.item_id in shown.items:
            return shown
    return None


def add_list(session: Session, event: Impression, topic: int, rules: JoinRules, changed: ChangedLists) -> bool:
    """Add one list or fragment. Returns whether it is a copy that is later than its list, which is a duplicate."""
    name, ts = event.impression_id, event.ts
    entry = LogList(ts, name, event.items, event.experiments, event.segments, topic, event.teams, event.positions)
    if session.is_stale or name in session.lists or name in session.pieces or event.positions is not None:
        return _add_copy(session, entry)
    pack_into(entry, session.log, -1)
    shown = new_list(entry)
    if rules.engagement is not None:
        _link_new(session, shown, rules.engagement, changed)
    session.lists[name] = shown
    changed.append(shown)
    if ts > session.shown_last:
        session.shown_last = ts
    else:
        session.lists, session.older = in_order(session.lists), 0
    if ts <= session.unnamed_last:
        session.is_stale = True
    elif name in session.waiting:
        for feedback in session.waiting.pop(name):
            session.outcomes[KINDS * feedback.topic + ORPHAN] -= 1
            answer(shown, feedback, rules, session.outcomes, changed)
    return False


def _add_copy(session: Session, entry: LogList) -> bool:
    """Add a copy or a fragment of a list, or any list of a stale session."""
    name = entry.impression_id
    if not session.is_stale and entry.positions is None and name not in session.pieces and _is_later(entry, session.lists[name]):
        add_mark(session, entry.ts)
        return True
    pack_into(entry, session.log, -1)
    if session.pieces is NOTHING:
        session.pieces = {}
    session.pieces[name] = session.pieces.get(name, 0) + len(entry.positions or ())
    session.is_stale = True
    return False


def _is_later(copy: LogList, shown: ShownList) -> bool:
    """Whether a whole copy is surely not the least one: it has a later time, or the same content."""
    if copy.ts != shown.ts:
        return copy.ts > shown.ts
    labels = copy.experiments, copy.segments
    return copy.topic >= shown.topic and (copy.items, *labels, copy.teams) == (shown.items, shown.experiments, shown.segments, shown.teams)


def _link_new(session: Session, new: ShownList, rules: EngagementRules, changed: ChangedLists) -> None:
    """Note where a new list stands in its session, if it is the last one in order."""
    latest = next(reversed(session.lists.values()), None)
    if session.pieces or (latest is not None and new.ts <= latest.ts):
        session.is_stale = True
    elif latest is not None:
        followed = latest.engagement.linked(latest.engagement.opens, new.ts - latest.ts <= rules.reformulation_ms)
        if followed is not latest.engagement:
            mark_changed(latest, changed)
            latest.engagement = followed
        new.engagement = new.engagement.linked(False, False)


def relabel(session: Session, shown: ShownList, experiments: Labels, segments: Labels, changed: ChangedLists) -> None:
    """Give a list other experiments and segments. No event before it may arrive any more, so it keeps them."""
    pack_into(LogLabels(shown.ts, shown.impression_id, experiments, segments), session.log, -1)
    session.relabels += 1
    mark_changed(shown, changed)
    shown.experiments, shown.segments = experiments, segments


def untangle(session: Session, rules: JoinRules, changed: ChangedLists) -> dict[int, int]:
    """Bring a stale session up to date with its log. Returns the duplicates that this reveals, by topic."""
    if not session.is_stale:
        return NOTHING
    known, lists = session.duplicates, session.lists
    set_joined(session, join(decode_entries(array_head(session.size + session.relabels) + session.log), rules))
    for name, shown in lists.items():
        if name not in session.lists:
            remove_list(shown, changed)
    for name, new in session.lists.items():
        shown = session.lists[name] = lists.get(name, new)
        if shown is new:
            changed.append(new)
            continue
        if shown.facts() != new.facts():
            mark_changed(shown, changed)
            shown.ts, shown.items, shown.experiments, shown.segments, shown.reactions, shown.engagement = new.facts()
        shown.topic, shown.teams = new.topic, new.teams
    return {topic: more for topic, count in session.duplicates.items() if (more := count - known.get(topic, 0))}


def set_joined(session: Session, joined: JoinResult) -> None:
    """Set all fields of a session that follow from its log."""
    session.lists, session.outcomes, session.duplicates = joined.lists, joined.outcomes, joined.duplicates
    session.waiting, session.pieces = joined.waiting or NOTHING, joined.pieces or NOTHING
    session.unnamed_last, session.shown_last = joined.unnamed_last, max([shown.ts for shown in joined.lists.values()], default=NEVER)
    session.older, session.is_stale = 0, False


def in_order(lists: dict[str, ShownList]) -> dict[str, ShownList]:
    """Return lists in order of (time, id)."""
    return {shown.impression_id: shown for shown in sorted(lists.values(), key=lambda shown: (shown.ts, shown.impression_id))}


def remove_list(shown: ShownList, changed: ChangedLists) -> None:
    """Note that a list no longer exists."""
    mark_changed(shown, changed)
    shown.exists = False


def lists_from(session: Session, since: int) -> list[ShownList]:
    """Return the lists from a time (ms) on. `since` must not decrease from call to call: older lists are not looked at again."""
    lists = list(islice(session.lists.values(), session.older, None))
    if not lists or lists[0].ts >= since:
        return lists
    at = bisect_left(lists, since, key=lambda shown: shown.ts)
    session.older += at
    return lists[at:]
