"""One open session of a user: how its lists come together from whole copies and fragments, and how two sessions merge.

The lists of a session, their hits, and the outcome of every feedback are a function of the session's events, not of their order. Events in
order take short paths. All others (a copy, a fragment, a list older than feedback that may belong to it, two sessions that become one)
join all feedback again.

Times are event times in epoch milliseconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

import msgspec

from streammetrics.events.model import Impression, Labels
from streammetrics.sessions.engagement import Engagement
from streammetrics.sessions.fragments import Duplicates, Fragment, Fragments, FragmentUnion, StoredImpression, resolve, unite
from streammetrics.sessions.item_index import ImpressionCopies
from streammetrics.sessions.joined_session import JoinedSession
from streammetrics.sessions.list_order import begins, linked
from streammetrics.sessions.msgpack import pack_into
from streammetrics.sessions.rules import JoinRules
from streammetrics.sessions.shown_list import ChangedLists, GradedPositions, ShownList, mark_changed, placed


class Session(JoinedSession):
    """One user's events without a gap longer than `gap_ms`. `_unions` speeds up lists of many fragments."""

    __slots__ = ("_unions",)

    def __init__(self, first: int, last: int, size: int = 0) -> None:
        super().__init__(first, last, size)
        self._unions: dict[str, FragmentUnion] = {}

    @classmethod
    def restore(
        cls, first: int, last: int, size: int, lists: bytes, feedback: bytes, parts: dict[str, Fragments], rules: JoinRules
    ) -> Session:
        """Restore a session from its stored form. The hits and the engagement of its lists are computed again from its events.

        Raises msgspec.DecodeError for bytes that are not lists or feedback.
        """
        session = cls(first, last, size)
        answers = session._unpack(lists, feedback, parts)
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

    def relabel(self, shown: ShownList, experiments: Labels, segments: Labels, changed: ChangedLists) -> None:
        """Give a list other experiments and segments. No event before it may arrive any more.

        The event that the list has its labels from gets them too, so that later copies and fragments lead to the same list.
        """
        identity = shown.impression.impression_id
        parts = self.fragmented.get(identity)
        if parts is not None:
            if parts.whole is not None:
                parts = parts._replace(whole=msgspec.structs.replace(parts.whole, experiments=experiments, segments=segments))
            else:
                first = msgspec.structs.replace(parts.fragments[0], experiments=experiments, segments=segments)
                parts = parts._replace(fragments=(first, *parts.fragments[1:]))
            self.fragmented[identity] = parts
            self._unions.pop(identity, None)
        self._touch(identity)
        impression = msgspec.structs.replace(shown.impression, experiments=experiments, segments=segments)
        self._replace_impression(shown, impression, changed)

    def _replace_impression(self, shown: ShownList, impression: StoredImpression, changed: ChangedLists) -> ShownList:
        """Give a list another impression. The tallies may contain the list as it was; then a new one replaces it."""
        if shown.tallied is None:
            shown.impression = impression
            return shown
        replaced = ShownList(impression, impression.ts, impression.items, shown.hits, None, shown.engagement)
        mark_changed(shown, changed)
        shown.hits = None
        changed.append(replaced)
        self.lists[impression.impression_id] = replaced
        return replaced

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
        shown = self._replace_impression(shown, impression, changed)
        shown.items, shown.hits, shown.engagement = items, hits, engagement

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
