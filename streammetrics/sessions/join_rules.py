"""The exact rules of one session: its log -> its lists with their reactions, and what became of every event. Pure.

A plain event needs no join: a whole list with a new id, and feedback that names a list, are taken one by one, and `answer` gives the
feedback to its list. Copies, fragments, sessions that become one and sessions that come back from the store are joined here.

`join_again` joins the ids that new events touch. When a log was just read, these are all of them. So a long session costs what its new
events touch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence

from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.sessions.copies import ListForm, form
from streammetrics.sessions.item_text import place_of, text_of
from streammetrics.sessions.rules import EngagementRules, JoinRules
from streammetrics.sessions.state import (
    KINDS,
    LIST_ID_REUSED,
    MATCHED,
    NO_CHANGE,
    ORPHAN,
    OUT_OF_LIST,
    PLACE_CONFLICT,
    REPEATED,
    TOO_MANY_ITEMS,
    TOO_OLD,
    ChangedLists,
    ItemSpan,
    JoinedId,
    JoinedLog,
    LogEntry,
    LogExtension,
    LogFeedback,
    LogLabels,
    LogList,
    ShownList,
    UnnamedFeedback,
    mark_changed,
)


def add(joined: JoinedLog, log: Iterable[LogEntry]) -> None:
    """Add entries of the log, and note what they touch."""
    ids, touched = joined.ids, joined.touched
    for entry in log:
        if type(entry) is LogExtension:
            continue
        name = entry.impression_id  # type: ignore[union-attr]  # not an extension
        if name is None:
            _add_unnamed(joined, entry)  # type: ignore[arg-type]  # all others have an id
            continue
        touched[name] = None
        of_id = ids.get(name)
        if of_id is None:
            of_id = ids[name] = JoinedId()
        if type(entry) is LogFeedback:
            of_id.named.append(entry)
        elif type(entry) is LogList:
            of_id.copies.append(entry)
        elif type(entry) is LogLabels:
            of_id.labels[entry.ts] = entry


def _add_unnamed(joined: JoinedLog, feedback: LogFeedback) -> None:
    """Add feedback without an id. From the first one on, it must be known which lists show an item."""
    item, ts = feedback.item_id, feedback.ts
    if not joined.unnamed:
        joined.touched.update(dict.fromkeys(joined.ids))
    of_item = joined.unnamed.get(item)
    if of_item is None:
        joined.unnamed[item] = UnnamedFeedback([feedback], [None])
    else:
        at = bisect_right(of_item.feedback, ts, key=_ts)
        of_item.feedback.insert(at, feedback)
        of_item.ids.insert(at, None)
    if ts > joined.unnamed_last:
        joined.unnamed_last = ts
    _touch_item(joined, item, ts)


def _ts(feedback: LogFeedback) -> int:
    return feedback.ts


def _touch_item(joined: JoinedLog, item: str, since: int) -> None:
    """Note that feedback on an item, from a time on, may belong to another list now."""
    if since < joined.touched_items.get(item, FOREVER):
        joined.touched_items[item] = since


def join_again(joined: JoinedLog, rules: JoinRules) -> dict[str, ShownList | None]:
    """Join what was touched. Returns the new lists of all ids whose lists may have changed; None for an id without a list."""
    lists: dict[str, ShownList | None] = {}
    _form_touched(joined, lists, rules)
    _find_ids(joined)
    if rules.engagement is not None:
        _touch_first(joined)
    _form_touched(joined, lists, rules)
    for name, shown_list in lists.items():
        _add_answers(joined.ids[name], shown_list, rules)
        if shown_list is not None and rules.engagement is not None:
            _link(shown_list, joined, rules.engagement)
    joined.touched, joined.touched_items = {}, {}
    return lists


def new_list(log_list: LogList) -> ShownList:
    """Return a list that was sent as a whole."""
    return ShownList(
        log_list.ts,
        log_list.impression_id,
        text_of(log_list.items),
        log_list.experiments,
        log_list.segments,
        log_list.topic,
        log_list.teams,
    )


def _form_touched(joined: JoinedLog, lists: dict[str, ShownList | None], rules: JoinRules) -> None:
    """Form the lists of the touched ids that are not formed yet. This may touch their neighbours."""
    while len(joined.touched) > len(lists):
        for name in [name for name in joined.touched if name not in lists]:
            of_id = joined.ids[name]
            lists[name] = shown_list = _form(name, of_id, joined, rules)
            if of_id.labels and shown_list is not None and (given := of_id.labels.get(shown_list.ts)) is not None:
                shown_list.experiments, shown_list.segments = given.experiments, given.segments


def _form(name: str, of_id: JoinedId, joined: JoinedLog, rules: JoinRules) -> ShownList | None:
    """Return the list that the copies of an id form, without answers, and count the other copies."""
    copies = of_id.copies
    of_id.outcomes, of_id.has_list = {} if joined.is_kept else joined.outcomes, False
    if not copies:  # feedback that names a list which has not come
        return None
    first = copies[0]
    begin = first.ts if len(copies) == 1 else min([copy.ts for copy in copies])
    if of_id.begin != begin:
        _set_begin(name, of_id, begin, joined, rules)
    if len(copies) == 1 and first.positions is None:  # most lists
        of_id.has_list = True
        if joined.unnamed:
            _set_showing(of_id, [(item, (begin, FOREVER, begin, name)) for item in _wanted(joined, first.items)], joined)
        return new_list(first)
    formed = form(copies, rules)
    base = formed.base
    of_id.has_list = formed.whole is not None or len(formed.items) <= rules.items_max
    _count_duplicates(of_id, formed, joined)
    pieces = [len(copy.positions) for copy in copies if copy.positions is not None]
    of_id.pieces = sum(pieces) if pieces else None
    if joined.unnamed:
        _set_showing(of_id, list(_showing(name, formed, joined)), joined)
    for copy in formed.reused:
        count_outcome(of_id.outcomes, copy, LIST_ID_REUSED)
    if of_id.has_list:
        if formed.has_conflict:
            count_outcome(of_id.outcomes, base, PLACE_CONFLICT)
        return ShownList(base.ts, name, text_of(formed.items), base.experiments, base.segments, base.topic, formed.teams)
    for copy in formed.counting:
        count_outcome(of_id.outcomes, copy, TOO_MANY_ITEMS)
    return None


def _count_duplicates(of_id: JoinedId, formed: ListForm, joined: JoinedLog) -> None:
    places: dict[int, int] = {}
    for events, weight in ((of_id.copies, 1), (formed.counting, -1), (formed.reused, -1)):
        for copy in events:
            places[copy.topic] = places.get(copy.topic, 0) + weight
    for counts, weight in ((places, 1), (of_id.duplicates, -1)):
        for topic, count in counts.items():
            joined.duplicates[topic] = joined.duplicates.get(topic, 0) + weight * count
    of_id.duplicates = places


def _wanted(joined: JoinedLog, items: Iterable[str]) -> Iterable[str]:
    """Return those items, each once, of which it must be known when they are shown: all if the joined log is kept."""
    return dict.fromkeys(items) if joined.is_kept else joined.unnamed.keys() & items


def _showing(name: str, formed: ListForm, joined: JoinedLog) -> Iterator[tuple[str, ItemSpan]]:
    """Return when a list shows its items: at a given time, only events dated at or before it count.

    Later copies must not move older feedback between lists, because those lists may be final. So a list of fragments shows an item from
    some time on, and perhaps until a whole copy takes precedence. Fragments with too many items keep the feedback that finds them.
    """
    whole = formed.whole
    until, items_before = FOREVER if whole is None else whole.ts, set[str]()
    for fragment in formed.fragments:
        if fragment.ts < until:
            for item in _wanted(joined, fragment.items):
                if item not in items_before:
                    items_before.add(item)
                    yield item, (fragment.ts, until, formed.fragments[0].ts, name)
    for item in _wanted(joined, () if whole is None else whole.items):
        yield item, (until, FOREVER, until, name)


def _set_showing(of_id: JoinedId, now: list[tuple[str, ItemSpan]], joined: JoinedLog) -> None:
    """Set when an id shows its items. Feedback from the times on that have changed may belong to another list."""
    before, of_id.showing = of_id.showing, now
    if before == now:
        return
    if before:
        ended = set(before).difference(now)
        now = [item for item in now if item not in set(before)]
        for item, showing in ended:
            lists_of_item = joined.showing[item]
            del lists_of_item[bisect_left(lists_of_item, showing)]
            _touch_item(joined, item, showing[0])
    for item, showing in now:
        if item in joined.showing:
            insort(joined.showing[item], showing)
        else:
            joined.showing[item] = [showing]
        if joined.is_kept:  # if not, everything is joined
            _touch_item(joined, item, showing[0])


def _find_ids(joined: JoinedLog) -> None:
    """Find the list of the feedback without an id that may belong to another one now."""
    for item, since in joined.touched_items.items():
        of_item = joined.unnamed.get(item)
        if of_item is None:
            continue
        showing = joined.showing.get(item, ())
        first = bisect_left(of_item.feedback, since, key=_ts) if joined.is_kept else 0
        for at in range(first, len(of_item.feedback)):
            feedback, before = of_item.feedback[at], of_item.ids[at]
            now = _latest(showing, feedback.ts)
            if now == before:
                continue
            of_item.ids[at] = now
            if before is not None:
                joined.ids[before].unnamed.remove(feedback)
                joined.touched[before] = None
            if now is not None:
                joined.ids[now].unnamed.append(feedback)
                joined.touched[now] = None


def _latest(showing: Sequence[ItemSpan], ts: int) -> str | None:
    """Return the id of the latest list that shows an item at a time (same time: the greatest id), or None."""
    best = (NEVER, "")
    for at in range(bisect_left(showing, (ts + 1,)) - 1, -1, -1):
        since, until, of_list, name = showing[at]
        if since < best[0]:  # no list begins after it shows an item
            break
        if ts < until and (of_list, name) > best:
            best = of_list, name
    return best[1] or None


def _add_answers(of_id: JoinedId, shown_list: ShownList | None, rules: JoinRules) -> None:
    """Give all feedback of an id to its list."""
    unchanged: ChangedLists = []
    for feedback in [*of_id.named, *of_id.unnamed] if of_id.unnamed else of_id.named:
        if shown_list is None:
            count_outcome(of_id.outcomes, feedback, ORPHAN)
        else:
            answer(shown_list, feedback, rules, of_id.outcomes, unchanged)


def answer(shown_list: ShownList, feedback: LogFeedback, rules: JoinRules, outcomes: dict[int, int], changed: ChangedLists) -> None:
    """Give a feedback to the list that it belongs to, and count what becomes of it."""
    ts, action, grade = feedback.ts, feedback.action, feedback.grade
    place = place_of(shown_list.text, feedback.item_id)
    if place < 0:
        count_outcome(outcomes, feedback, OUT_OF_LIST)
        return
    if ts - shown_list.ts > rules.attribution_ms:
        count_outcome(outcomes, feedback, TOO_OLD)
        return
    matched = KINDS * feedback.topic + MATCHED
    outcomes[matched] = outcomes.get(matched, 0) + 1
    if shown_list.tallied is NO_CHANGE:
        mark_changed(shown_list, changed)
    reactions = shown_list.reactions
    for number, (of_place, of_action, greatest, first, topic) in enumerate(reactions):
        if of_place == place and of_action == action:
            earlier, later = sorted([(first, topic), (ts, feedback.topic)])
            repeated = KINDS * later[1] + REPEATED
            outcomes[repeated] = outcomes.get(repeated, 0) + 1
            same = (place, action, max(grade, greatest), *earlier)
            shown_list.reactions = (*reactions[:number], same, *reactions[number + 1 :])
            break
    else:
        shown_list.reactions = (*reactions, (place, action, grade, ts, feedback.topic))
    if grade > 0 and rules.engagement is not None:
        value = feedback.value if action in rules.engagement.purchases else None
        shown_list.engagement = shown_list.engagement.with_feedback(ts, place, value)


def count_outcome(outcomes: dict[int, int], event: LogFeedback | LogList, outcome: int) -> None:
    """Count what becomes of an event."""
    at = KINDS * event.topic + outcome
    outcomes[at] = outcomes.get(at, 0) + 1


def outcomes_of(joined: JoinedLog) -> dict[int, int]:
    """Return what became of all events that were joined."""
    total = dict(joined.outcomes)
    for of_id in joined.ids.values() if joined.is_kept else ():
        for at, count in of_id.outcomes.items():
            total[at] = total.get(at, 0) + count
    if not joined.unnamed:
        return total
    begun = min([of_id.begin for of_id in joined.ids.values() if of_id.has_list], default=FOREVER)
    for of_item in joined.unnamed.values():
        for feedback, name in zip(of_item.feedback, of_item.ids, strict=True):
            if name is None:
                count_outcome(total, feedback, OUT_OF_LIST if begun <= feedback.ts else ORPHAN)
    return total


def _set_begin(name: str, of_id: JoinedId, begin: int, joined: JoinedLog, rules: JoinRules) -> None:
    """Set the time of the earliest event of an id. What stands before it in the session gets another next list."""
    before, of_id.begin = of_id.begin, begin
    if rules.engagement is None:
        return
    order = joined.order
    at = bisect_left(order, (before, name))
    if before != FOREVER:
        del order[at]
        _touch_previous(joined, at)
    at = bisect_left(order, (begin, name))
    order.insert(at, (begin, name))
    _touch_previous(joined, at)


def _touch_previous(joined: JoinedLog, at: int) -> None:
    if at > 0:
        joined.touched[joined.order[at - 1][1]] = None


def _touch_first(joined: JoinedLog) -> None:
    """Find the first list of the session. If it is another one now, both are touched."""
    first = next((name for _, name in joined.order if joined.ids[name].has_list), None)
    if first != joined.first:
        joined.touched.update({name: None for name in (first, joined.first) if name is not None})
        joined.first = first


def _link(shown_list: ShownList, joined: JoinedLog, rules: EngagementRules) -> None:
    """Note where a list stands in its session: whether it is the first, and whether it is followed by another list soon.

    Lists are in order of (begin, id). A list begins with the earliest event of its id, even if a later copy replaces it: what comes before
    or soon after a final list can then no longer change. Fragments with too many items begin, too, though they form no list.
    """
    begin, order = joined.ids[shown_list.impression_id].begin, joined.order
    at = bisect_left(order, (begin, shown_list.impression_id)) + 1
    soon = at < len(order) and order[at][0] - begin <= rules.reformulation_ms
    shown_list.engagement = shown_list.engagement.linked(shown_list.impression_id == joined.first, soon)
