"""What is stored of an open session: its lists and feedback in their packed form, and what of that is new since the last commit.

Lists and feedback are packed when they arrive. Times are event times in epoch milliseconds.
"""

from __future__ import annotations

from itertools import islice

import msgspec

from streammetrics.sessions.fragments import Fragments, StoredImpression
from streammetrics.sessions.msgpack import array_head, packed, values_of
from streammetrics.sessions.shown_list import ShownList


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


class SessionRecord:
    """The events of a session and their stored form. `size` counts the events; `first` and `last` are inclusive times.

    Feedback is kept in its stored form only, because it is seldom needed again before the session closes. `fragmented` has the events
    of lists with fragments, by the list's id. `_packed_lists` is None when the lists must be packed again. Once the session is saved with
    a `number`, it has the lists since then, and `touched` are the ids of lists that have changed otherwise. `_older` is how many of the
    first lists `lists_from` skips.
    """

    __slots__ = (
        "_feedbacks",
        "_new_lists",
        "_older",
        "_packed_feedback",
        "_packed_lists",
        "_saved_bytes",
        "_saved_feedbacks",
        "first",
        "fragmented",
        "last",
        "lists",
        "number",
        "size",
        "touched",
    )

    def __init__(self, first: int, last: int, size: int = 0) -> None:
        self.first = first
        self.last = last
        self.size = size
        self.lists: dict[str, ShownList] = {}
        self.fragmented: dict[str, Fragments] = {}
        self._older = 0
        self._packed_lists: bytearray | None = bytearray()
        self._packed_feedback = bytearray()
        self._feedbacks = self._new_lists = self._saved_feedbacks = self._saved_bytes = 0
        self.number = 0
        self.touched: dict[str, None] = {}

    def _unpack(self, lists: bytes, feedback: bytes, parts: dict[str, Fragments]) -> list[StoredFeedback]:
        """Take lists and feedback in their stored form. Returns the feedback. Raises msgspec.DecodeError for other bytes."""
        impressions, answers = _decode_lists(lists), _decode_feedback(feedback)
        self.lists = {each.impression_id: ShownList.restored(each) for each in impressions}
        self.fragmented = parts
        self._packed_lists = bytearray(values_of(lists, len(impressions)))
        self._packed_feedback = bytearray(values_of(feedback, len(answers)))
        self._feedbacks = len(answers)
        return answers

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

    def _touch(self, identity: str) -> None:
        """Note that the list or the fragments of an id are not as they were packed."""
        if self.number:
            self.touched[identity] = None
        else:
            self._packed_lists = None
