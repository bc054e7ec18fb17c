"""Which feedback of a session belongs to which list.

The hits of every list are a function of the session's events, not of their order. `rejoin` is the reference implementation. Feedback that
arrives after its list takes a shorter path with the same result.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from streammetrics.sessions.engagement import Engagement
from streammetrics.sessions.fragments import Fragment
from streammetrics.sessions.item_index import ItemIndex
from streammetrics.sessions.list_order import Begin, begins, linked
from streammetrics.sessions.msgpack import pack_into
from streammetrics.sessions.rules import EngagementRules, JoinRules
from streammetrics.sessions.session_record import SessionRecord, StoredFeedback
from streammetrics.sessions.shown_list import NO_HITS, ChangedLists, GradedPositions, ShownList, engage, mark_changed, raise_grade


class JoinedSession(SessionRecord):
    """A session whose lists have the grades that their feedback gives them, and their place among the lists of the session.

    `orphans` is the feedback whose list is missing, by the list's id. `latest_without_id` is the time of the latest feedback that names no
    list. `_answered` is the feedback by item, once fragments need it. `_latest` is the last list to begin, if engagement metrics are
    computed.
    """

    __slots__ = ("_answered", "_item_index", "_latest", "latest_without_id", "orphans")

    def __init__(self, first: int, last: int, size: int = 0) -> None:
        super().__init__(first, last, size)
        self.orphans: dict[str, list[StoredFeedback]] = {}
        self.latest_without_id = -1
        self._item_index: ItemIndex | None = None
        self._latest: Begin | None = None
        self._answered: dict[str, list[StoredFeedback]] | None = None

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

    def _add_waiting_feedback(self, identity: str, rules: JoinRules, changed: ChangedLists) -> None:
        """Join the feedback that arrived before the list that it names."""
        for feedback in self.orphans.pop(identity):
            if feedback.grade > 0:
                self._grade(feedback, rules, changed)

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


def _engaged(before: Engagement, feedback: StoredFeedback, position: int, rules: EngagementRules) -> Engagement:
    """Add a feedback to the engagement of the list that it belongs to."""
    return before.with_feedback(feedback.ts, position, feedback.value if feedback.action in rules.purchases else None)
