"""One open session and its events. Each event is added to the log. A plain one also updates the lists at once.

Any other event (a copy, a fragment, a list before feedback without an id) leaves the session stale, and `untangle` joins it again, at most
once between two commits. A long session then keeps what was joined, so that later only the lists that events touch are joined again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final, TypeVar

import msgspec

from streammetrics.events.event_time import NEVER
from streammetrics.events.model import Feedback, Impression, Labels
from streammetrics.sessions.engagement import value_units
from streammetrics.sessions.item_text import place_of, text_of
from streammetrics.sessions.join_rules import add, answer, count_outcome, join_again, new_list, outcomes_of
from streammetrics.sessions.rules import EngagementRules, JoinRules
from streammetrics.sessions.state import (
    KINDS,
    NOTHING,
    ORPHAN,
    OUT_OF_LIST,
    ChangedLists,
    JoinedLog,
    LogEntry,
    LogExtension,
    LogFeedback,
    LogLabels,
    LogList,
    Session,
    ShownList,
    mark_changed,
)
from streammetrics.state.codec import array_head, pack_into

T = TypeVar("T")

decode_entries: Final = msgspec.msgpack.Decoder(list[LogEntry]).decode
"""Decode the entries of a log from their array. Raises msgspec.DecodeError for other bytes."""


def add_extension(session: Session, ts: int) -> None:
    """Add an event that only extends its session."""
    pack_into(LogExtension(ts), session.log, -1)


def add_feedback(session: Session, event: Feedback, grade: float, topic: int, rules: JoinRules, changed: ChangedLists) -> None:
    """Add one feedback with a grade. It never changes what other feedback belongs to."""
    name, engagement = event.impression_id, rules.engagement
    value = value_units(event.value) if engagement is not None and event.action in engagement.purchases else 0
    feedback = LogFeedback(event.ts, name, event.item_id, event.action, grade, topic, value)
    pack_into(feedback, session.log, -1)
    if name is None and session.unnamed_last < feedback.ts:
        session.unnamed_last = feedback.ts
    if session.joined is not None:
        _add_to_joined(session, session.joined, feedback, rules, changed)
        return
    if session.is_stale:
        return
    if name is not None:
        shown_list = session.lists.get(name)
    elif session.pieces:  # which list shows an item at a given time is a question for `join`
        session.is_stale = True
        return
    else:
        shown_list = _latest(session, feedback)
    if shown_list is not None:
        answer(shown_list, feedback, rules, session.outcomes, changed)
    elif name is None:
        begun = any(shown_list.ts <= feedback.ts for shown_list in list(session.lists.values())[:1])
        count_outcome(session.outcomes, feedback, OUT_OF_LIST if begun else ORPHAN)
    else:
        count_outcome(session.outcomes, feedback, ORPHAN)
        if session.waiting is NOTHING:
            session.waiting = {}
        session.waiting.setdefault(name, []).append(feedback)


def _add_to_joined(session: Session, joined: JoinedLog, feedback: LogFeedback, rules: JoinRules, changed: ChangedLists) -> None:
    """Add one feedback to a session that keeps what was joined: at once if it names a list that nothing touches."""
    name = feedback.impression_id
    shown_list = None if name is None or name in joined.touched else session.lists.get(name)
    if name is None or shown_list is None:
        add(joined, (feedback,))
        session.is_stale = True
        return
    of_id = joined.ids[name]
    of_id.named.append(feedback)
    answer(shown_list, feedback, rules, of_id.outcomes, changed)


def _latest(session: Session, feedback: LogFeedback) -> ShownList | None:
    """Return the latest list, at or before a feedback, that shows its item. Lists are in order."""
    for shown_list in reversed(session.lists.values()):
        if shown_list.ts <= feedback.ts and place_of(shown_list.text, feedback.item_id) >= 0:
            return shown_list
    return None


def add_list(session: Session, event: Impression, topic: int, rules: JoinRules, changed: ChangedLists) -> bool:
    """Add one list or fragment. Returns whether it is a later copy with the items of its list, which is a duplicate."""
    name, ts = event.impression_id, event.ts
    entry = LogList(ts, name, event.items, event.experiments, event.segments, topic, event.teams, event.positions)
    may_be_copy = name in session.lists or name in session.pieces or event.positions is not None
    if may_be_copy or session.is_stale or session.joined is not None:
        return _add_copy(session, entry)
    pack_into(entry, session.log, -1)
    shown_list = new_list(entry)
    if rules.engagement is not None:
        _link_new(session, shown_list, rules.engagement, changed)
    changed.append(shown_list)
    if ts > session.shown_last:
        session.lists[name], session.shown_last = shown_list, ts
    else:
        _insert(session, shown_list)
    if ts <= session.unnamed_last:
        session.is_stale = True
    elif name in session.waiting:
        for feedback in session.waiting.pop(name):
            session.outcomes[KINDS * feedback.topic + ORPHAN] -= 1
            answer(shown_list, feedback, rules, session.outcomes, changed)
    return False


def _insert(session: Session, shown_list: ShownList) -> None:
    """Insert a list that is not later than all others. Most such lists are only a little earlier."""
    lists, place = session.lists, (shown_list.ts, shown_list.impression_id)
    later: list[ShownList] = []
    while lists:
        name, last = lists.popitem()
        if (last.ts, name) < place:
            lists[name] = last
            break
        later.append(last)
    session.older = min(session.older, len(lists))
    for later_list in [shown_list, *reversed(later)]:
        lists[later_list.impression_id] = later_list


def _add_copy(session: Session, entry: LogList) -> bool:
    """Add a copy or a fragment of a list, or any list of a session that is stale or keeps what was joined."""
    name, joined = entry.impression_id, session.joined
    is_untouched = not session.is_stale if joined is None else name not in joined.touched
    shown_list = session.lists.get(name) if is_untouched and name not in session.pieces and entry.positions is None else None
    if shown_list is not None and _is_later(entry, shown_list):
        add_extension(session, entry.ts)
        return True
    pack_into(entry, session.log, -1)
    if session.pieces is NOTHING:
        session.pieces = {}
    session.pieces[name] = session.pieces.get(name, 0) + len(entry.positions or ())
    session.is_stale = True
    if joined is not None:
        add(joined, (entry,))
    return False


def _is_later(copy: LogList, shown_list: ShownList) -> bool:
    """Whether a whole copy surely repeats an earlier one: it has its items, and a later time or the same content."""
    if text_of(copy.items) != shown_list.text:
        return False
    if copy.ts != shown_list.ts:
        return copy.ts > shown_list.ts
    labels = copy.experiments, copy.segments
    return copy.topic >= shown_list.topic and (*labels, copy.teams) == (shown_list.experiments, shown_list.segments, shown_list.teams)


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


def relabel(session: Session, shown_list: ShownList, experiments: Labels, segments: Labels, changed: ChangedLists) -> None:
    """Give a list other experiments and segments. No event before it may arrive any more, so it keeps them."""
    entry = LogLabels(shown_list.ts, shown_list.impression_id, experiments, segments)
    pack_into(entry, session.log, -1)
    session.relabels += 1
    if session.joined is not None:
        session.joined.ids[shown_list.impression_id].labels[shown_list.ts] = entry
    mark_changed(shown_list, changed)
    shown_list.experiments, shown_list.segments = experiments, segments


def untangle(session: Session, rules: JoinRules, changed: ChangedLists) -> dict[int, int]:
    """Bring a stale session up to date with its log. Returns the duplicates that this reveals, by topic."""
    if not session.is_stale:
        return NOTHING
    duplicates = session.duplicates
    if session.joined is None:
        join_log(session, log_of(session), rules, changed)
    else:
        _join_again(session, session.joined, rules, changed)
    return {topic: more for topic, count in session.duplicates.items() if (more := count - duplicates.get(topic, 0))}


def log_of(session: Session) -> list[LogEntry]:
    """Return the entries of a session's log."""
    return decode_entries(array_head(session.size + session.relabels) + session.log)


def join_log(session: Session, log: Iterable[LogEntry], rules: JoinRules, changed: ChangedLists) -> None:
    """Join the whole log of a session. Everything that follows from it is set. A session that was just read keeps nothing more."""
    joined = JoinedLog(session.is_stale and session.size > rules.joined_whole_max)
    add(joined, log)
    _join_again(session, joined, rules, changed)
    if joined.is_kept:
        session.joined, session.outcomes = joined, NOTHING
    else:
        session.outcomes = outcomes_of(joined)


def _join_again(session: Session, joined: JoinedLog, rules: JoinRules, changed: ChangedLists) -> None:
    lists = join_again(joined, rules)
    _set_lists(session, lists, changed)
    waiting, pieces = dict[str, list[LogFeedback]](), dict[str, int]()
    for name, shown_list in lists.items():
        of_id = joined.ids[name]
        if shown_list is None and of_id.named:
            waiting[name] = of_id.named
        if of_id.pieces is not None:
            pieces[name] = of_id.pieces
    if waiting or session.waiting:
        session.waiting = _updated(session.waiting, lists, waiting)
    if pieces or session.pieces:
        session.pieces = _updated(session.pieces, lists, pieces)
    session.duplicates, session.unnamed_last, session.is_stale = dict(joined.duplicates), joined.unnamed_last, False


def _updated(before: dict[str, T], names: Iterable[str], now: dict[str, T]) -> dict[str, T]:
    """Return what is known by name after some names have changed."""
    if not before:
        return now
    for name in names:
        before.pop(name, None)
    before.update(now)
    return before


def _set_lists(session: Session, lists: Mapping[str, ShownList | None], changed: ChangedLists) -> None:
    """Replace lists of a session. A list that stays is changed in place, because others know it."""
    in_place = True
    for name, new in lists.items():
        shown_list = session.lists.get(name)
        if new is None:
            if shown_list is not None:
                remove_list(session.lists.pop(name), changed)
                in_place = False
        elif shown_list is None:
            session.lists[name] = new
            changed.append(new)
            in_place &= new.ts > session.shown_last
            session.shown_last = new.ts
        else:
            if shown_list.facts() != new.facts():
                in_place &= shown_list.ts == new.ts
                mark_changed(shown_list, changed)
                shown_list.ts, shown_list.text, shown_list.experiments, shown_list.segments, shown_list.reactions, shown_list.engagement = (
                    new.facts()
                )
            shown_list.topic, shown_list.teams = new.topic, new.teams
    if not in_place:
        session.lists, session.older = in_order(session.lists), 0
        session.shown_last = next(reversed(session.lists.values())).ts if session.lists else NEVER


def outcomes(session: Session) -> dict[int, int]:
    """Return what became of the events of a session that is not stale, by `KINDS` * topic + outcome."""
    return session.outcomes if session.joined is None else outcomes_of(session.joined)


def in_order(lists: dict[str, ShownList]) -> dict[str, ShownList]:
    """Return lists in order of (time, id)."""
    return {
        shown_list.impression_id: shown_list
        for shown_list in sorted(lists.values(), key=lambda shown_list: (shown_list.ts, shown_list.impression_id))
    }


def remove_list(shown_list: ShownList, changed: ChangedLists) -> None:
    """Note that a list no longer exists."""
    mark_changed(shown_list, changed)
    shown_list.exists = False


def lists_between(session: Session, since: int, until: int) -> list[ShownList]:
    """Return the lists from a time on and before another (ms). `since` must not decrease from call to call.

    Neither older lists nor later ones are looked at, so the time of a call is that of its answer.
    """
    lists, older = [], 0
    for shown_list in islice(session.lists.values(), session.older, None):
        if shown_list.ts >= until:
            break
        if shown_list.ts >= since:
            lists.append(shown_list)
        else:
            older += 1
    session.older += older
    return lists


def first_from(session: Session, since: int, counts: Callable[[Labels], bool]) -> ShownList | None:
    """Return the first list from a time (ms) on that counts. See `lists_between`."""
    for shown_list in islice(session.lists.values(), session.older, None):
        if shown_list.ts >= since and counts(shown_list.experiments):
            return shown_list
    return None
