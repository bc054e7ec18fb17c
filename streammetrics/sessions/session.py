"""One open session of a user: its lists, its feedback, and which feedback belongs to which list.

The hits of every list and the outcome of every feedback are a function of the session's events, not of their order. `rejoin` is the
reference implementation. Events in order take a shorter path with the same result. All others (a copy, a fragment, a list older than
feedback that may belong to it, two sessions that become one) use `rejoin`.

Times are event times in epoch milliseconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, islice

import msgspec

from streammetrics.events.model import Impression
from streammetrics.sessions.engagement import Engagement
from streammetrics.sessions.fragments import Duplicates, Fragment, Fragments, FragmentUnion, StoredImpression, resolve, unite
from streammetrics.sessions.item_index import ImpressionCopies, ItemIndex
from streammetrics.sessions.list_order import Begin, begins, linked
from streammetrics.sessions.msgpack import array_head, pack_into, packed, values_of
from streammetrics.sessions.rules import EngagementRules, JoinRules
from streammetrics.sessions.shown_list import NO_HITS, ChangedLists, GradedPositions, ShownList, engage, mark_changed, placed, raise_grade


class StoredFeedback(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One feedback with its grade.

    `topic` is the index of its topic in the configured order. `value` is that of a purchase, in the unit of `value_units`; it is kept
    only if engagement metrics are computed.
    """

    ts: int
    impression_id: str | None
    item_id: str
    action: str
    grade: float | int
    topic: int
    value: int = 0


_decode_lists = msgspec.msgpack.Decoder(list[StoredImpression]).decode
_decode_feedback = msgspec.msgpack.Decoder(list[StoredFeedback]).decode


class Session:
    """One user's events without a gap longer than `gap_ms`. `size` counts them; `first` and `last` are inclusive times.

    Feedback is kept in its stored form only, because it is seldom needed again before the session closes. `fragmented` has the events
    of lists with fragments, by the list's id. `orphans` is the feedback whose list is missing, by the list's id. `_packed_lists` is
    None when the lists must be packed again. Once the session is saved with a `number`, it has the lists since then, and `touched` are the
    ids of lists that have changed otherwise. `_latest` is the last list to begin, if engagement metrics are computed. `_older` is how
    many of the first lists `lists_from` skips. `_unions` speeds up lists of many fragments; `_answered` is the feedback by item for that.
    """

    __slots__ = (
        "_answered",
        "_feedbacks",
        "_item_index",
        "_latest",
        "_new_lists",
        "_older",
        "_packed_feedback",
        "_packed_lists",
        "_saved_bytes",
        "_saved_feedbacks",
        "_unions",
        "first",
        "fragmented",
        "last",
        "latest_without_id",
        "lists",
        "number",
        "orphans",
        "size",
        "touched",
    )

    def __init__(self, first: int, last: int, size: int = 0) -> None:
        self.first = first
        self.last = last
        self.size = size
        self.lists: dict[str, ShownList] = {}
        self.fragmented: dict[str, Fragments] = {}
        self.orphans: dict[str, list[StoredFeedback]] = {}
        self.latest_without_id = -1
        self._item_index: ItemIndex | None = None
        self._latest: Begin | None = None
        self._unions: dict[str, FragmentUnion] = {}
        self._answered: dict[str, list[StoredFeedback]] | None = None
        self._older = 0
        self._packed_lists: bytearray | None = bytearray()
        self._packed_feedback = bytearray()
        self._feedbacks = self._new_lists = self._saved_feedbacks = self._saved_bytes = 0
        self.number = 0
        self.touched: dict[str, None] = {}

    @classmethod
    def restore(
        cls, first: int, last: int, size: int, lists: bytes, feedback: bytes, parts: dict[str, Fragments], rules: JoinRules
    ) -> Session:
        """Restore a session from its stored form. The hits and the engagement of its lists are computed again from its events.

        Raises msgspec.DecodeError for bytes that are not lists or feedback.
        """
        impressions, answers = _decode_lists(lists), _decode_feedback(feedback)
        session = cls(first, last, size)
        session.lists = {each.impression_id: ShownList.restored(each) for each in impressions}
        session.fragmented = parts
        session._packed_lists = bytearray(values_of(lists, len(impressions)))
        session._packed_feedback = bytearray(values_of(feedback, len(answers)))
        session._feedbacks = len(answers)
        if answers:
            for identity, (earned, engagement) in session._join(answers, rules).items():
                session.lists[identity].hits = earned
                session.lists[identity].engagement = engagement
        if rules.engagement is not None:
            ordered = begins(session.lists, session.fragmented)
            session._latest = ordered[-1] if ordered else None
            for shown, engagement in linked(session.lists, ordered, rules.engagement.reformulation_ms):
                shown.engagement = engagement
        return session

    @property
    def feedback(self) -> list[StoredFeedback]:
        """All feedback in order of arrival, decoded from its stored form."""
        return _decode_feedback(b"".join(self.packed_feedback()))

    def packed_lists(self) -> tuple[bytes, bytearray]:
        """Return the stored form of all lists: the head of an array, and its values."""
        if self.number:  # `_packed_lists` has new lists only
            return array_head(len(self.lists)), packed(shown.impression for shown in self.lists.values())
        if self._packed_lists is None:
            self._packed_lists = packed(shown.impression for shown in self.lists.values())
        return array_head(len(self.lists)), self._packed_lists

    def packed_feedback(self) -> tuple[bytes, bytearray]:
        """Return the stored form of all feedback: the head of an array, and its values."""
        return array_head(self._feedbacks), self._packed_feedback

    def packed_new_lists(self) -> tuple[bytes, bytearray]:
        """Return the stored form of the lists since the last call of `mark_saved`."""
        assert self._packed_lists is not None
        return array_head(self._new_lists), self._packed_lists

    def packed_new_feedback(self) -> tuple[bytes, bytearray]:
        """Return the stored form of the feedback since the last call of `mark_saved`."""
        return array_head(self._feedbacks - self._saved_feedbacks), self._packed_feedback[self._saved_bytes :]

    def mark_saved(self, number: int) -> None:
        """Note that all is stored, as the session with this number (from 1 on). From then on, changes are packed only."""
        self.number = number
        self._packed_lists, self._new_lists = bytearray(), 0
        self._saved_feedbacks, self._saved_bytes = self._feedbacks, len(self._packed_feedback)
        if self.touched:
            self.touched = {}

    def lists_from(self, since: int) -> list[ShownList]:
        """Return the lists from a time (ms) on. `since` must not decrease from call to call: older lists are not looked at again."""
        lists = list(islice(self.lists.values(), self._older, None))
        older = 0
        for shown in lists:
            if shown.ts >= since:
                break
            older += 1
        self._older += older
        return [shown for shown in lists[older:] if shown.ts >= since]

    def extend(self, ts: int) -> None:
        """Count one more event of this session."""
        self.size += 1
        if ts > self.last:
            self.last = ts
        elif ts < self.first:
            self.first = ts

    def add_feedback(self, feedback: StoredFeedback, rules: JoinRules, changed: ChangedLists) -> None:
        """Join one feedback. It never changes what other feedback belongs to, so no rejoin is needed."""
        pack_into(feedback, self._packed_feedback, -1)
        self._feedbacks += 1
        if self._answered is not None:
            self._answered.setdefault(feedback.item_id, []).append(feedback)
        if feedback.impression_id not in self.lists:
            self._remember(feedback)
        if feedback.grade > 0:
            self._grade(feedback, rules, changed)

    def _grade(self, feedback: StoredFeedback, rules: JoinRules, changed: ChangedLists) -> None:
        """Give a feedback with a grade above 0 to the list that it belongs to, if there is one."""
        found = self.find(feedback, rules.attribution_ms)
        if type(found) is tuple:
            shown, position = found
            raise_grade(shown, position, feedback.grade, changed)
            if rules.engagement is not None:
                engage(shown, _engaged(shown.engagement, feedback, position, rules.engagement), changed)

    def add_impression(self, impression: Impression, topic: int, rules: JoinRules, changed: ChangedLists) -> Duplicates | None:
        """Join one list or fragment. Returns the duplicates that it reveals, or None."""
        stored = StoredImpression.of(impression, topic)
        identity = stored.impression_id
        if impression.positions is None and identity not in self.lists and not (self.fragmented and identity in self.fragmented):
            shown = self._add(stored, changed)
            if self._item_index is not None:
                self._item_index.add(stored)
            if stored.ts <= self.latest_without_id:
                self.rejoin(rules, changed)
            elif identity in self.orphans:
                self._add_waiting_feedback(identity, rules, changed)
            if rules.engagement is not None:
                self._link_new(shown, rules, rules.engagement, changed)
            return None
        return self._add_copy(impression, stored, rules, changed)

    def _add_waiting_feedback(self, identity: str, rules: JoinRules, changed: ChangedLists) -> None:
        """Join the feedback that arrived before the list that it names."""
        for feedback in self.orphans.pop(identity):
            if feedback.grade > 0:
                self._grade(feedback, rules, changed)

    def absorb(self, other: Session, rules: JoinRules, changed: ChangedLists) -> Duplicates:
        """Merge another session into this one. The event that connects them is added afterwards."""
        self.first, self.last, self.size = min(self.first, other.first), max(self.last, other.last), self.size + other.size
        self._packed_feedback += other._packed_feedback
        self._feedbacks += other._feedbacks
        self._item_index = self._packed_lists = self._answered = None
        self._older = self.number = 0
        self._unions.clear()
        duplicates: Duplicates = Counter()
        for identity in {*other.lists, *other.fragmented}:
            if identity in self.lists or identity in self.fragmented:
                parts = unite(self._events_of(identity), other._events_of(identity), duplicates)
                other._remove(identity, changed)
                self._resolve(identity, parts, duplicates, rules, changed)
            else:
                if identity in other.lists:
                    self.lists[identity] = other.lists[identity]
                if identity in other.fragmented:
                    self.fragmented[identity] = other.fragmented[identity]
        self.rejoin(rules, changed)
        self._link(rules, changed)
        return duplicates

    def rejoin(self, rules: JoinRules, changed: ChangedLists) -> None:
        """Join all feedback again: the reference implementation of the join."""
        answered = self._join(self.feedback, rules)
        for identity, shown in self.lists.items():
            earned, engagement = answered.get(identity) or (NO_HITS, shown.engagement.without_feedback())
            if earned != shown.hits:  # a different order of the same hits changes no tally
                mark_changed(shown, changed)
                shown.hits = earned
            engage(shown, engagement, changed)

    def _join(self, answers: Iterable[StoredFeedback], rules: JoinRules) -> dict[str, tuple[GradedPositions, Engagement]]:
        """Return the hits and the engagement of each list that some feedback with a grade above 0 belongs to."""
        hits: dict[str, dict[int, float]] = {}
        engagements: dict[str, Engagement] = {}
        self.orphans.clear()
        for feedback in answers:
            self._remember(feedback)
            found = self.find(feedback, rules.attribution_ms) if feedback.grade > 0 else ""
            if type(found) is tuple:
                shown, position = found
                identity = shown.impression.impression_id
                grades = hits.setdefault(identity, {})
                grades[position] = max(grades.get(position, 0), feedback.grade)
                before = engagements.get(identity) or shown.engagement.without_feedback()
                engagements[identity] = before if rules.engagement is None else _engaged(before, feedback, position, rules.engagement)
        return {identity: (tuple(chain.from_iterable(grades.items())), engagements[identity]) for identity, grades in hits.items()}

    def _link(self, rules: JoinRules, changed: ChangedLists) -> None:
        """Find again where each list stands among the lists of the session."""
        if rules.engagement is not None:
            ordered = begins(self.lists, self.fragmented)
            self._latest = ordered[-1] if ordered else None
            for shown, engagement in linked(self.lists, ordered, rules.engagement.reformulation_ms):
                engage(shown, engagement, changed)

    def _link_new(self, new: ShownList, rules: JoinRules, engagement: EngagementRules, changed: ChangedLists) -> None:
        """Do the same after a whole list was added. Cheap if it is the last one in order."""
        latest, begin = self._latest, (new.ts, new.impression.impression_id)
        if latest is None or begin < latest:
            self._link(rules, changed)
            return
        self._latest = begin
        before = self.lists.get(latest[1])
        if before is not None:
            engage(before, before.engagement.linked(before.engagement.opens, new.ts - latest[0] <= engagement.reformulation_ms), changed)
        engage(new, new.engagement.linked(len(self.lists) == 1, False), changed)

    def find(self, feedback: StoredFeedback, attribution_ms: int) -> tuple[ShownList, int] | str:
        """Return the list and position that a feedback belongs to, or its outcome if there is none.

        Feedback with an impression_id belongs to that list, even if it is dated before it. Without one it belongs to the latest list at
        or before it that shows the item (same time: the greatest id). Only events at or before the feedback decide which list shows the
        item.
        """
        ts, identity, item_id = feedback.ts, feedback.impression_id, feedback.item_id
        if identity is None:
            index = self._item_index
            if index is None:
                index = self._item_index = ItemIndex([shown.impression for shown in self.lists.values()], self.fragmented)
            identity = index.latest(ts, item_id)
            if identity is None:
                return "out_of_list" if index.earliest <= ts else "orphan"
        shown = self.lists.get(identity)
        if shown is None:
            return "orphan"
        try:
            position = shown.items.index(item_id)
        except ValueError:
            return "out_of_list"
        if ts - shown.ts > attribution_ms:
            return "too_old"
        return shown, position

    def _remember(self, feedback: StoredFeedback) -> None:
        """Remember feedback that a later event may join to another list."""
        if feedback.impression_id is None:
            self.latest_without_id = max(self.latest_without_id, feedback.ts)
        elif feedback.impression_id not in self.lists:
            self.orphans.setdefault(feedback.impression_id, []).append(feedback)

    def _add(self, stored: StoredImpression, changed: ChangedLists) -> ShownList:
        shown = ShownList.new(stored)
        changed.append(shown)
        self.lists[stored.impression_id] = shown
        if self._packed_lists is not None and stored.impression_id not in self.touched:
            pack_into(stored, self._packed_lists, -1)
            self._new_lists += 1
        return shown

    def _remove(self, identity: str, changed: ChangedLists) -> None:
        shown = self.lists.pop(identity, None)
        if shown is not None:
            self._touch(identity)
            self._older = 0
            mark_changed(shown, changed)
            shown.hits = None

    def _touch(self, identity: str) -> None:
        """Note that the list or the fragments of an id are not as they were packed."""
        if self.number:
            self.touched[identity] = None
        else:
            self._packed_lists = None

    def _events_of(self, identity: str) -> Fragments:
        parts = self.fragmented.get(identity)
        if parts is None:
            return Fragments(self.lists[identity].impression, True, ())
        return parts

    def _add_copy(self, impression: Impression, stored: StoredImpression, rules: JoinRules, changed: ChangedLists) -> Duplicates:
        identity = stored.impression_id
        duplicates: Duplicates = Counter()
        if impression.positions is None:
            arrived = Fragments(stored, True, ())
        else:
            labels = stored.experiments, stored.segments
            fragment = Fragment(stored.ts, stored.items, impression.positions, *labels, stored.teams, stored.topic)
            if self._extend_union(identity, fragment, duplicates, rules, changed):
                return duplicates
            arrived = Fragments(None, False, (fragment,))
        known = identity in self.lists or identity in self.fragmented
        parts = unite(self._events_of(identity), arrived, duplicates) if known else arrived
        if self._resolve(identity, parts, duplicates, rules, changed):
            self.rejoin(rules, changed)
            self._link(rules, changed)
        return duplicates

    def fragment_items(self, identity: str) -> int:
        """Return the number of items, repeated ones included, of the fragments of a list."""
        union, parts = self._unions.get(identity), self.fragmented.get(identity)
        if union is not None:
            return union.items
        return 0 if parts is None else sum(len(fragment.items) for fragment in parts.fragments)

    def _extend_union(self, identity: str, fragment: Fragment, duplicates: Duplicates, rules: JoinRules, changed: ChangedLists) -> bool:
        """Join a fragment that only adds new items to the fragments of its list, or adds nothing. Returns False for any other.

        The result is that of `_resolve` and `rejoin`, at a cost that hardly grows with the number of fragments.
        """
        parts = self.fragmented.get(identity)
        if parts is None or parts.whole is not None or parts.whole_seen or fragment.teams:
            return False
        first, begun = parts.fragments[0], parts.fragments[0].ts
        if fragment.ts < begun or not first.items:
            return False
        union = self._unions.get(identity)
        if union is None:
            union = self._unions[identity] = FragmentUnion(parts.fragments)
        if fragment.ts > begun + rules.attribution_ms or union.covers(fragment):
            duplicates[fragment.topic] += 1
            return True
        shown = self.lists.get(identity)
        if not union.is_apart(fragment) or (rules.absolute_positions and not union.is_free(fragment)):
            return False
        length = max(fragment.positions) + 1 if rules.absolute_positions else len(union.places) + len(fragment.items)
        if shown is not None and (length > rules.items_max or shown.impression.teams):
            return False
        at = bisect_right(parts.fragments, fragment)
        self.fragmented[identity] = parts._replace(fragments=(*parts.fragments[:at], fragment, *parts.fragments[at:]))
        self._touch(identity)
        added = union.add(fragment)
        if shown is not None:
            leads = fragment if at == 0 else None
            if rules.absolute_positions:
                items = placed(shown.items, [(union.places[item], item) for _, item in added])
                self._replace_items(shown, items, shown.hits, shown.engagement, leads, changed)
            else:
                self._insert_items(shown, added, leads, changed)
        if self._item_index is not None:
            self._item_index.add_fragment(identity, fragment, begun)
        self._join_answers_to(identity, fragment, rules, changed)
        return True

    def _insert_items(self, shown: ShownList, added: Sequence[tuple[int, str]], first: Fragment | None, changed: ChangedLists) -> None:
        """Insert items into a list, one after the other. `first` is the fragment that now gives the list its labels, if it changed."""
        items, hits, engagement = shown.items, shown.hits, shown.engagement
        assert hits is not None
        for index, item in added:
            if hits and index < len(items):
                hits = tuple([value + 1 if at % 2 == 0 and value >= index else value for at, value in enumerate(hits)])
                engagement = engagement.shifted(index)
            items = (*items[:index], item, *items[index:])
        self._replace_items(shown, items, hits, engagement, first, changed)

    def _replace_items(
        self,
        shown: ShownList,
        items: tuple[str, ...],
        hits: GradedPositions | None,
        engagement: Engagement,
        first: Fragment | None,
        changed: ChangedLists,
    ) -> None:
        """Give a list other items, with their hits and engagement."""
        labels = shown.impression if first is None else first
        impression = msgspec.structs.replace(
            shown.impression, items=items, experiments=labels.experiments, segments=labels.segments, topic=labels.topic
        )
        if shown.tallied is not None:  # the tallies contain the list as it was: replace it
            mark_changed(shown, changed)
            shown.hits = None
            shown = ShownList.new(impression)
            changed.append(shown)
            self.lists[impression.impression_id] = shown
        shown.impression, shown.items, shown.hits, shown.engagement = impression, items, hits, engagement

    def _join_answers_to(self, identity: str, fragment: Fragment, rules: JoinRules, changed: ChangedLists) -> None:
        """Join the feedback that a fragment with new items can change: the feedback to these items."""
        if not self._feedbacks:
            return
        if self._answered is None:
            self._answered = {}
            for feedback in self.feedback:
                self._answered.setdefault(feedback.item_id, []).append(feedback)
        answers = [feedback for item in {*fragment.items} for feedback in self._answered.get(item, ())]
        if any(feedback.impression_id is None for feedback in answers):  # it may leave another list
            self.rejoin(rules, changed)
            return
        for feedback in answers:
            if feedback.impression_id == identity and feedback.grade > 0:
                self._grade(feedback, rules, changed)

    def _resolve(self, identity: str, parts: Fragments, duplicates: Duplicates, rules: JoinRules, changed: ChangedLists) -> bool:
        """Update the list of one id after its copies changed. Returns False if the list and its copies are as before."""
        self._unions.pop(identity, None)
        parts, stored = resolve(identity, parts, duplicates, rules)
        shown = self.lists.get(identity)
        before: ImpressionCopies = None if shown is None else shown.impression, self.fragmented.get(identity)
        after: ImpressionCopies = stored, parts if parts.fragments else None
        if after == before:
            return False
        self._touch(identity)
        if parts.fragments:
            self.fragmented[identity] = parts
        else:
            self.fragmented.pop(identity, None)
        if stored != before[0]:
            self._remove(identity, changed)
            if stored is not None:
                self._add(stored, changed)
        if self._item_index is not None:
            self._item_index.replace(identity, before, after, [shown.impression for shown in self.lists.values()], self.fragmented)
        return True


def _engaged(before: Engagement, feedback: StoredFeedback, position: int, rules: EngagementRules) -> Engagement:
    """Add a feedback to the engagement of the list that it belongs to."""
    return before.with_feedback(feedback.ts, position, feedback.value if feedback.action in rules.purchases else None)
