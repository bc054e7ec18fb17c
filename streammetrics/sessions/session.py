"""One open session of a user: which list a feedback answers, which fate each event meets.

Pure. The law is `join`: the hits of every list and the fate of every feedback are a function of the session's events
alone. What arrives in order takes a short way to the same result; everything else (a copy, a fragment, a list older than
feedback that may belong to it, a bridge between two sessions) joins the session anew.

A session stays until it closes, with all that a final list must still answer. Times are event times in epoch milliseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeAlias

import msgspec

from streammetrics.events.model import Impression
from streammetrics.sessions.fragments import Duplicates, Fragment, Fragments, StoredImpression, resolved, united
from streammetrics.sessions.item_index import ImpressionCopies, ItemIndex
from streammetrics.sessions.msgpack import array_head, pack_into, packed, values_of

TalliedHits: TypeAlias = tuple[float, ...]
"""A list's 0-based positions with grades above 0, each followed by its grade, in the order in which they first got one: (2, 1, 0, 3.0)."""

NO_HITS: TalliedHits = ()


def hits_of(hits: TalliedHits) -> Iterator[tuple[float, float]]:
    """Each position with its grade.

    >>> list(hits_of((2, 1, 0, 3.0)))
    [(2, 1), (0, 3.0)]
    """
    return zip(hits[::2], hits[1::2], strict=True)


REPEATS_MAX: Final = 10
"""How many times as many items as a list may have its fragments may hold, with those that come again: each one costs a look at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRules:
    """What decides a join. `gap_ms` and `attribution_ms` are inclusive; the limits are refusals, never cuts."""

    gap_ms: int = 1_800_000
    attribution_ms: int = 1_800_000
    session_events_max: int = 2_000
    lists_open_max: int = 1_000
    items_max: int = 1_000


class StoredFeedback(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One feedback of a session, graded. `topic` is the index of its topic in the configured order."""

    ts: int
    impression_id: str | None
    item_id: str
    action: str
    grade: float | int
    topic: int


_decode_lists = msgspec.msgpack.Decoder(list[StoredImpression]).decode
_decode_feedback = msgspec.msgpack.Decoder(list[StoredFeedback]).decode


class NotTallied:
    """Marks a list whose tallied hits are its hits."""


UNTOUCHED = NotTallied()


class ShownList(msgspec.Struct, gc=False, eq=False):
    """One list of an open session with the grades it has earned. `ts` and `items` are those of its facts.

    `hits` is replaced, never changed in place; None once the list is no more. `before` holds the hits as they were last
    tallied while the list is touched: None for a list that no tally knows.
    """

    facts: StoredImpression
    ts: int
    items: tuple[str, ...]
    hits: TalliedHits | None
    before: TalliedHits | NotTallied | None

    @classmethod
    def new(cls, facts: StoredImpression) -> ShownList:
        """A list that was shown just now."""
        return cls(facts, facts.ts, facts.items, NO_HITS, None)

    @classmethod
    def read(cls, facts: StoredImpression) -> ShownList:
        """A list that was stored, and tallied, before its session is joined."""
        return cls(facts, facts.ts, facts.items, NO_HITS, UNTOUCHED)


ChangedLists: TypeAlias = list[ShownList]


def touch(shown: ShownList, touched: ChangedLists) -> None:
    """Remember what the tallies hold of a list before it changes."""
    if shown.before is UNTOUCHED:
        shown.before = shown.hits
        touched.append(shown)


class Session:
    """One user's events joined by a gap. `size` counts its admitted events; `first` and `last` are inclusive.

    Feedback is held as it is stored only: what it does to lists is done as it comes, and it is seldom looked at again before the session
    closes. `orphans` is the feedback that names a list which is not there, by that name. Packed lists are None while they are to be packed
    anew.
    """

    __slots__ = (
        "_feedbacks",
        "_item_index",
        "_packed_feedback",
        "_packed_lists",
        "first",
        "idless_last",
        "last",
        "lists",
        "orphans",
        "parts",
        "size",
    )

    def __init__(self, first: int, last: int, size: int = 0) -> None:
        self.first = first
        self.last = last
        self.size = size
        self.lists: dict[str, ShownList] = {}
        self.parts: dict[str, Fragments] = {}
        self.orphans: dict[str, list[StoredFeedback]] = {}
        self.idless_last = -1
        self._item_index: ItemIndex | None = None
        self._packed_lists: bytearray | None = bytearray()
        self._packed_feedback = bytearray()
        self._feedbacks = 0

    @classmethod
    def read(
        cls, first: int, last: int, size: int, lists: bytes, feedback: bytes, parts: dict[str, Fragments], attribution_ms: int
    ) -> Session:
        """A session as it was stored: its lists are tallied with the hits that follow from its events.

        Raises msgspec.DecodeError where lists or feedback are none.
        """
        facts, answers = _decode_lists(lists), _decode_feedback(feedback)
        session = cls(first, last, size)
        session.lists = {each.impression_id: ShownList.read(each) for each in facts}
        session.parts = parts
        session._packed_lists = bytearray(values_of(lists, len(facts)))
        session._packed_feedback = bytearray(values_of(feedback, len(answers)))
        session._feedbacks = len(answers)
        if answers:
            for identity, earned in session._join(answers, attribution_ms).items():
                session.lists[identity].hits = earned
        return session

    @property
    def feedback(self) -> list[StoredFeedback]:
        """All feedback in the order in which it came, made anew from its stored form."""
        return _decode_feedback(b"".join(self.packed_feedback()))

    def packed_lists(self) -> tuple[bytes, bytearray]:
        """The facts of all lists as they are stored: the head of an array, and what it holds."""
        if self._packed_lists is None:
            self._packed_lists = packed(shown.facts for shown in self.lists.values())
        return array_head(len(self.lists)), self._packed_lists

    def packed_feedback(self) -> tuple[bytes, bytearray]:
        """All feedback as it is stored: the head of an array, and what it holds."""
        return array_head(self._feedbacks), self._packed_feedback

    def extend(self, ts: int) -> None:
        """Count one more event of this session."""
        self.size += 1
        if ts > self.last:
            self.last = ts
        elif ts < self.first:
            self.first = ts

    def add_feedback(self, feedback: StoredFeedback, attribution_ms: int, touched: ChangedLists) -> None:
        """Join one feedback. It moves no other feedback, so the short way is always the right one."""
        pack_into(feedback, self._packed_feedback, -1)
        self._feedbacks += 1
        if feedback.impression_id not in self.lists:
            self._note(feedback)
        if feedback.grade > 0:
            found = self.find(feedback, attribution_ms)
            if type(found) is tuple:
                _grade(*found, feedback.grade, touched)

    def add_impression(self, impression: Impression, topic: int, rules: JoinRules, touched: ChangedLists) -> Duplicates | None:
        """Join one list or fragment; returns the duplicates that this brought to light, None for none."""
        facts = StoredImpression.of(impression, topic)
        identity = facts.impression_id
        if impression.positions is None and identity not in self.lists and not (self.parts and identity in self.parts):
            self._show(facts, touched)
            if self._item_index is not None:
                self._item_index.add(facts)
            if facts.ts <= self.idless_last:
                self.rejoin(rules.attribution_ms, touched)
            elif identity in self.orphans:
                self._adopt(identity, rules.attribution_ms, touched)
            return None
        return self._add_copy(impression, facts, rules, touched)

    def _adopt(self, identity: str, attribution_ms: int, touched: ChangedLists) -> None:
        """Give a new list the feedback that named it before it came; nobody else's feedback can be its."""
        for feedback in self.orphans.pop(identity):
            if feedback.grade > 0:
                found = self.find(feedback, attribution_ms)
                if type(found) is tuple:
                    _grade(*found, feedback.grade, touched)

    def absorb(self, other: Session, rules: JoinRules, touched: ChangedLists) -> Duplicates:
        """Take in a session that a bridge has joined to this one; the bridge itself comes afterwards."""
        self.first, self.last, self.size = min(self.first, other.first), max(self.last, other.last), self.size + other.size
        self._packed_feedback += other._packed_feedback
        self._feedbacks += other._feedbacks
        self._item_index = self._packed_lists = None
        duplicates: Duplicates = Counter()
        for identity in {*other.lists, *other.parts}:
            if identity in self.lists or identity in self.parts:
                parts = united(self._parts_of(identity), other._parts_of(identity), duplicates)
                other._hide(identity, touched)
                self._resolve(identity, parts, duplicates, rules, touched)
            else:
                if identity in other.lists:
                    self.lists[identity] = other.lists[identity]
                if identity in other.parts:
                    self.parts[identity] = other.parts[identity]
        self.rejoin(rules.attribution_ms, touched)
        return duplicates

    def rejoin(self, attribution_ms: int, touched: ChangedLists) -> None:
        """Join all feedback anew: the law that every short way must equal."""
        hits = self._join(self.feedback, attribution_ms)
        for identity, shown in self.lists.items():
            earned = hits.get(identity, NO_HITS)  # perhaps the same in another order, which changes no tally
            if earned != shown.hits:
                touch(shown, touched)
                shown.hits = earned

    def _join(self, answers: Iterable[StoredFeedback], attribution_ms: int) -> dict[str, TalliedHits]:
        hits: dict[str, dict[int, float]] = {}
        self.orphans.clear()
        for feedback in answers:
            self._note(feedback)
            found = self.find(feedback, attribution_ms) if feedback.grade > 0 else ""
            if type(found) is tuple:
                shown, position = found
                grades = hits.setdefault(shown.facts.impression_id, {})
                grades[position] = max(grades.get(position, 0), feedback.grade)
        return {identity: tuple(chain.from_iterable(grades.items())) for identity, grades in hits.items()}

    def count_fates(self, attribution_ms: int, counts: Counter[tuple[str, int]]) -> tuple[int, int]:
        """Count the fates that are decided when a session closes, as (reason, topic index).

        Answers how much feedback counts for a list, and how much for none.
        """
        matched: dict[int, int] = {}
        distinct: dict[tuple[str | None, str, str], int] = {}
        answers, lists = self.feedback, self.lists
        if len({feedback.topic for feedback in answers}) > 1:  # of equal answers from two topics the first one is not repeated
            answers = sorted(answers, key=lambda stored: (stored.ts, stored.topic))
        for feedback in answers:
            topic, identity, item_id = feedback.topic, feedback.impression_id, feedback.item_id
            shown = None if identity is None else lists.get(identity)
            if shown is None or item_id not in shown.items or feedback.ts - shown.ts > attribution_ms:  # `find`, at once where it matched
                found = self.find(feedback, attribution_ms)
                if type(found) is not tuple:
                    counts[str(found), topic] += 1
                    continue
                identity = found[0].facts.impression_id
            matched[topic] = matched.get(topic, 0) + 1
            distinct.setdefault((identity, item_id, feedback.action), topic)
        for topic, count in matched.items():
            counts["matched", topic] += count
            repeated = count - (len(distinct) if len(matched) == 1 else sum(first == topic for first in distinct.values()))
            if repeated:
                counts["repeated", topic] += repeated
        for identity, parts in self.parts.items():
            if identity not in self.lists and not parts.whole_seen:
                for fragment in parts.fragments:
                    counts["too_many_items", fragment.topic] += 1
        joined = sum(matched.values())
        return joined, len(answers) - joined

    def find(self, feedback: StoredFeedback, attribution_ms: int) -> tuple[ShownList, int] | str:
        """The list and the position that a feedback answers, or the reason why there is none.

        With an impression_id the feedback belongs to that list, even if it is dated before it; without, to the latest list at
        or before it that shows the item (same time: the greatest id), as far as what came at or before the feedback shows it.
        """
        ts, identity, item_id = feedback.ts, feedback.impression_id, feedback.item_id
        if identity is None:
            index = self._item_index
            if index is None:
                index = self._item_index = ItemIndex([shown.facts for shown in self.lists.values()], self.parts)
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

    def _note(self, feedback: StoredFeedback) -> None:
        """Remember what a list that comes later, but is older, might have to answer."""
        if feedback.impression_id is None:
            self.idless_last = max(self.idless_last, feedback.ts)
        elif feedback.impression_id not in self.lists:
            self.orphans.setdefault(feedback.impression_id, []).append(feedback)

    def _show(self, facts: StoredImpression, touched: ChangedLists) -> None:
        shown = ShownList.new(facts)
        touched.append(shown)
        self.lists[facts.impression_id] = shown
        if self._packed_lists is not None:
            pack_into(facts, self._packed_lists, -1)

    def _hide(self, identity: str, touched: ChangedLists) -> None:
        shown = self.lists.pop(identity, None)
        if shown is not None:
            self._packed_lists = None
            touch(shown, touched)
            shown.hits = None

    def _parts_of(self, identity: str) -> Fragments:
        parts = self.parts.get(identity)
        if parts is None:
            return Fragments(self.lists[identity].facts, True, ())
        return parts

    def _add_copy(self, impression: Impression, facts: StoredImpression, rules: JoinRules, touched: ChangedLists) -> Duplicates:
        identity = facts.impression_id
        duplicates: Duplicates = Counter()
        if impression.positions is None:
            arrived = Fragments(facts, True, ())
        else:
            labels = facts.experiments, facts.segments
            fragment = Fragment(facts.ts, facts.items, impression.positions, *labels, facts.teams, facts.topic)
            arrived = Fragments(None, False, (fragment,))
        known = identity in self.lists or identity in self.parts
        parts = united(self._parts_of(identity), arrived, duplicates) if known else arrived
        if self._resolve(identity, parts, duplicates, rules, touched):
            self.rejoin(rules.attribution_ms, touched)
        return duplicates

    def _resolve(self, identity: str, parts: Fragments, duplicates: Duplicates, rules: JoinRules, touched: ChangedLists) -> bool:
        """Let the copies of one id make one list; False when it is the one that they made before, shown by the same copies."""
        parts, facts = resolved(identity, parts, duplicates, rules.attribution_ms, rules.items_max)
        shown = self.lists.get(identity)
        before: ImpressionCopies = None if shown is None else shown.facts, self.parts.get(identity)
        after: ImpressionCopies = facts, parts if parts.fragments else None
        if after == before:
            return False
        if parts.fragments:
            self.parts[identity] = parts
        else:
            self.parts.pop(identity, None)
        if facts != before[0]:
            self._hide(identity, touched)
            if facts is not None:
                self._show(facts, touched)
        if self._item_index is not None:
            self._item_index.replace(identity, before, after, [shown.facts for shown in self.lists.values()], self.parts)
        return True


def _grade(shown: ShownList, position: int, grade: float, touched: ChangedLists) -> None:
    """An item's grade is the maximum over its matched feedback."""
    hits = shown.hits
    assert hits is not None
    places = hits[::2]
    if position in places:
        at = 2 * places.index(position) + 1
        if grade <= hits[at]:
            return
        graded = (*hits[:at], grade, *hits[at + 1 :])
    else:
        graded = (*hits, position, grade)
    if shown.before is UNTOUCHED:  # `touch`, written out
        shown.before = hits
        touched.append(shown)
    shown.hits = graded
