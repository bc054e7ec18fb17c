"""The exact rules of one session: its log -> its lists with their reactions, and what became of every event. Pure.

A plain event needs no `join`: a whole list with a new id, and feedback that names a list, are taken one by one, and `answer` gives the
feedback to its list. Copies, fragments, sessions that become one and sessions that come back from the store are joined here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.sessions.copies import Formed, form
from streammetrics.sessions.rules import EngagementRules, JoinRules
from streammetrics.sessions.state import (
    KINDS,
    MATCHED,
    ORPHAN,
    OUT_OF_LIST,
    REPEATED,
    TOO_MANY_ITEMS,
    TOO_OLD,
    UNCHANGED,
    ChangedLists,
    LogEntry,
    LogFeedback,
    LogLabels,
    LogList,
    ShownList,
    mark_changed,
)


class JoinResult(NamedTuple):
    """What a log says. The fields of `Session` with these names explain them."""

    lists: dict[str, ShownList]
    outcomes: dict[int, int]
    duplicates: dict[int, int]
    waiting: dict[str, list[LogFeedback]]
    pieces: dict[str, int]
    unnamed_last: int


def join(log: Iterable[LogEntry], rules: JoinRules) -> JoinResult:
    """Join all events of a session."""
    copies: dict[str, list[LogList]] = {}
    labels: dict[tuple[str, int], LogLabels] = {}
    answers: list[LogFeedback] = []
    for entry in log:
        if type(entry) is LogFeedback:
            answers.append(entry)
        elif type(entry) is LogList:
            copies.setdefault(entry.impression_id, []).append(entry)
        elif type(entry) is LogLabels:
            labels[entry.impression_id, entry.ts] = entry
    joined = JoinResult({}, {}, {}, {}, {}, max([each.ts for each in answers if each.impression_id is None], default=NEVER))
    formed = {name: _add_list(name, of_name, joined, rules) for name, of_name in copies.items()}
    for shown in joined.lists.values():
        if labels and (given := labels.get((shown.impression_id, shown.ts))) is not None:
            shown.experiments, shown.segments = given.experiments, given.segments
    begins = {name: min([copy.ts for copy in of_name]) for name, of_name in copies.items()}
    _add_answers(answers, joined, formed, begins, rules)
    if rules.engagement is not None:
        _link(joined.lists, begins, rules.engagement)
    ordered = sorted(joined.lists.values(), key=lambda shown: (shown.ts, shown.impression_id))
    return joined._replace(lists={shown.impression_id: shown for shown in ordered})


def new_list(shown: LogList) -> ShownList:
    """Return a list that was sent as a whole."""
    return ShownList(shown.ts, shown.impression_id, shown.items, shown.experiments, shown.segments, shown.topic, shown.teams)


def _add_list(name: str, copies: Sequence[LogList], joined: JoinResult, rules: JoinRules) -> Formed | None:
    """Add the list that copies form, and count the others. Returns what they form if there are several, or fragments."""
    first = copies[0]
    if len(copies) == 1 and first.positions is None:  # most lists
        joined.lists[name] = new_list(first)
        return None
    formed = form(copies, rules)
    base, fits = formed.base, formed.whole is not None or len(formed.items) <= rules.items_max
    if fits:
        joined.lists[name] = ShownList(base.ts, name, formed.items, base.experiments, base.segments, base.topic, formed.teams)
    for events, weight in ((copies, 1), (formed.counting, -1)):
        for copy in events:
            joined.duplicates[copy.topic] = joined.duplicates.get(copy.topic, 0) + weight
    if not fits:
        for copy in formed.counting:
            count_outcome(joined.outcomes, copy, TOO_MANY_ITEMS)
    if all(copy.positions is None for copy in copies):
        return None
    joined.pieces[name] = sum([len(copy.positions) for copy in copies if copy.positions is not None])
    return formed


def _add_answers(
    answers: Sequence[LogFeedback], joined: JoinResult, formed: Mapping[str, Formed | None], begins: Mapping[str, int], rules: JoinRules
) -> None:
    """Give all feedback to the lists that it belongs to."""
    index = None
    unchanged: ChangedLists = []
    for feedback in answers:
        name = feedback.impression_id
        if name is None:
            if index is None:
                items = {each.item_id for each in answers if each.impression_id is None}
                index = _index(items, joined.lists, formed)
                begun = min([begins[each] for each in joined.lists], default=FOREVER)
            name = _latest(index.get(feedback.item_id, ()), feedback.ts)
            if name is None:
                count_outcome(joined.outcomes, feedback, OUT_OF_LIST if begun <= feedback.ts else ORPHAN)
                continue
        shown = joined.lists.get(name)
        if shown is not None:
            answer(shown, feedback, rules, joined.outcomes, unchanged)
            continue
        count_outcome(joined.outcomes, feedback, ORPHAN)
        if feedback.impression_id is not None:
            joined.waiting.setdefault(name, []).append(feedback)


def answer(shown: ShownList, feedback: LogFeedback, rules: JoinRules, outcomes: dict[int, int], changed: ChangedLists) -> None:
    """Give a feedback to the list that it belongs to, and count what becomes of it."""
    ts, action, grade = feedback.ts, feedback.action, feedback.grade
    try:
        place = shown.items.index(feedback.item_id)
    except ValueError:
        count_outcome(outcomes, feedback, OUT_OF_LIST)
        return
    if ts - shown.ts > rules.attribution_ms:
        count_outcome(outcomes, feedback, TOO_OLD)
        return
    matched = KINDS * feedback.topic + MATCHED
    outcomes[matched] = outcomes.get(matched, 0) + 1
    if shown.tallied is UNCHANGED:
        mark_changed(shown, changed)
    reactions = shown.reactions
    for number, (of_place, of_action, greatest, first, topic) in enumerate(reactions):
        if of_place == place and of_action == action:
            earlier, later = sorted([(first, topic), (ts, feedback.topic)])
            repeated = KINDS * later[1] + REPEATED
            outcomes[repeated] = outcomes.get(repeated, 0) + 1
            same = (place, action, max(grade, greatest), *earlier)
            shown.reactions = (*reactions[:number], same, *reactions[number + 1 :])
            break
    else:
        shown.reactions = (*reactions, (place, action, grade, ts, feedback.topic))
    if grade > 0 and rules.engagement is not None:
        value = feedback.value if action in rules.engagement.purchases else None
        shown.engagement = shown.engagement.with_feedback(ts, place, value)


def count_outcome(outcomes: dict[int, int], event: LogFeedback | LogList, outcome: int) -> None:
    """Count what becomes of an event."""
    at = KINDS * event.topic + outcome
    outcomes[at] = outcomes.get(at, 0) + 1


Showing = tuple[int, int, int, str]
"""From when, and until when, a list shows an item; the list's time then, and its id."""


def _index(wanted: set[str], lists: Mapping[str, ShownList], formed: Mapping[str, Formed | None]) -> dict[str, list[Showing]]:
    """Return which lists show these items at a given time: at that time, only events dated at or before it count.

    Later copies must not move older feedback between lists, because those lists may be final. So a list of fragments shows an item from
    some time on, and perhaps until a whole copy takes precedence. Fragments with too many items keep the feedback that finds them.
    """
    index: dict[str, list[Showing]] = {}
    for name, copies in formed.items():
        if copies is None:
            shown = lists[name]
            for item in wanted.intersection(shown.items):
                index.setdefault(item, []).append((shown.ts, FOREVER, shown.ts, name))
            continue
        whole = copies.whole
        until, known = FOREVER if whole is None else whole.ts, set[str]()
        for fragment in copies.fragments:
            if fragment.ts < until:
                for item in wanted.intersection(fragment.items) - known:
                    index.setdefault(item, []).append((fragment.ts, until, copies.fragments[0].ts, name))
                    known.add(item)
        for item in wanted.intersection(() if whole is None else whole.items):
            index.setdefault(item, []).append((until, FOREVER, until, name))
    for showing in index.values():
        showing.sort()
    return index


def _latest(showing: Sequence[Showing], ts: int) -> str | None:
    """Return the id of the latest list that shows an item at a time (same time: the greatest id), or None."""
    best = (NEVER, "")
    for at in range(bisect_left(showing, (ts + 1,)) - 1, -1, -1):
        since, until, of_list, name = showing[at]
        if since < best[0]:  # no list begins after it shows an item
            break
        if ts < until and (of_list, name) > best:
            best = of_list, name
    return best[1] or None


def _link(lists: Mapping[str, ShownList], begins: Mapping[str, int], rules: EngagementRules) -> None:
    """Find where each list stands in its session: which is the first, and which are followed by another list soon.

    Lists are in order of (begin, id). A list begins with the earliest event of its id, even if a later copy replaces it: what comes before
    or soon after a final list can then no longer change. Fragments with too many items begin, too, though they form no list.
    """
    ordered = sorted((ts, name) for name, ts in begins.items())
    soon = {name for (begin, name), (later, _) in pairwise(ordered) if later - begin <= rules.reformulation_ms}
    first = next((name for _, name in ordered if name in lists), None)
    for name, shown in lists.items():
        shown.engagement = shown.engagement.linked(name == first, name in soon)
