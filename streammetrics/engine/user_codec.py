"""The stored form of a user's open sessions and exposures. It is written and read only here.

A small user is stored whole. A large one grows: after it was stored whole, each commit appends a piece with what has changed. So a commit
writes about as much as its events hold, however long the session is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from streammetrics.engine.codec import VERSION, check_version, refusal
from streammetrics.engine.stored_state import GROWS, StatePiece
from streammetrics.events.event_time import FOREVER
from streammetrics.sessions.exposures import StoredExposures, UserExposures
from streammetrics.sessions.fragments import Fragment, Fragments, StoredImpression
from streammetrics.sessions.msgpack import array_head, pack
from streammetrics.sessions.rules import JoinRules
from streammetrics.sessions.session import Session
from streammetrics.sessions.session_record import StoredFeedback
from streammetrics.sessions.user import User

GROWING_BYTES: Final = 1_024
"""A user of this size is stored in pieces from then on. A smaller one costs less when it is written again."""
PIECES_MIN: Final = 16
"""Pieces after which a user may be stored whole again: once they have as many bytes as the state that they were appended to. So all
of this rewriting costs at most about twice the bytes of the pieces."""
FRAME: Final = 4
"""Bytes of the size before each part of a growing state."""
WHAT: Final = "a user's sessions"

_StoredParts = tuple[str, StoredImpression | None, bool, tuple[Fragment, ...]]
_StoredSession = tuple[int, int, int, msgspec.Raw, msgspec.Raw, list[_StoredParts]]
"""First and last time, number of events, lists, feedback, fragments. The session itself decodes lists and feedback."""
_WholeSession = tuple[int, int, int, list[StoredImpression], list[StoredFeedback], list[_StoredParts]]
"""The same, decoded."""
_StoredDelta = tuple[
    int, int, int, int, list[StoredImpression], list[StoredFeedback], list[str], list[StoredImpression], list[_StoredParts]
]
"""What has changed of one session: its number among the sessions before, from 1 on (0: it is new), first and last time, number of events,
new lists, new feedback; ids of lists that changed, and these lists and their fragments as they are now."""

_decode_user = msgspec.msgpack.Decoder(tuple[int, int, int, int, StoredExposures, list[_StoredSession]]).decode
_decode_whole = msgspec.msgpack.Decoder(tuple[int, int, int, int, StoredExposures, list[_WholeSession]]).decode
_decode_piece = msgspec.msgpack.Decoder(tuple[int, int, int, StoredExposures, list[_StoredDelta]]).decode
_plain = msgspec.msgpack.Decoder().decode
_USER_HEAD, _PIECE_HEAD = array_head(6) + pack(VERSION), array_head(5)
_SESSION_HEAD, _DELTA_HEAD, _NOTHING = array_head(6), array_head(9), array_head(0)
_LABELLED: Final = -1
"""Stored instead of FOREVER: all lists have the variants of their exposures. It takes one byte."""
_NO_EXPOSURES: Final = pack(_LABELLED) + pack(0) + _NOTHING


def encode_user(user: User) -> bytes:
    """Encode a user's open sessions and exposures. Hits are left out, because they follow from lists and feedback."""
    pieces: list[bytes | bytearray] = [_USER_HEAD, pack(user.enrolled_before), _packed_exposures(user), array_head(len(user.sessions))]
    for session in user.sessions:
        pieces += (_SESSION_HEAD, pack(session.first), pack(session.last), pack(session.size))
        pieces += session.packed_lists()
        pieces += session.packed_feedback()
        pieces.append(_packed_parts(session))
    return b"".join(pieces)


def _packed_exposures(user: User) -> bytes:
    if user.exposures is None and user.unlabelled_from == FOREVER:
        return _NO_EXPOSURES
    unlabelled_from = _LABELLED if user.unlabelled_from == FOREVER else user.unlabelled_from
    return pack(unlabelled_from) + pack(user.exposed_before) + pack([] if user.exposures is None else user.exposures.stored())


def _packed_parts(session: Session) -> bytes:
    return pack([(identity, *parts) for identity, parts in session.fragmented.items()]) if session.fragmented else _NOTHING


def save_user(user: User) -> bytes | StatePiece:
    """Return what to store of a user with open sessions or exposures: the whole state, or a piece to append. It is stored from now on."""
    stored = user.stored
    if stored.pieces >= 0 and not (stored.pieces >= PIECES_MIN and stored.piece_bytes >= stored.whole_bytes):
        piece = _framed(_encode_piece(user))
        stored.pieces += 1
        stored.piece_bytes += len(piece)
        _mark_saved(user)
        return StatePiece(stored.pieces, piece, stored.whole_bytes + stored.piece_bytes)
    whole = encode_user(user)
    stored.pieces, stored.piece_bytes = -1, 0
    if len(whole) >= GROWING_BYTES:
        whole = GROWS + _framed(whole)
        stored.pieces, stored.whole_bytes = 0, len(whole)
        _mark_saved(user)
    return whole


def _framed(part: bytes) -> bytes:
    return len(part).to_bytes(FRAME) + part


def _mark_saved(user: User) -> None:
    for number, session in enumerate(user.sessions, 1):
        session.mark_saved(number)


def _encode_piece(user: User) -> bytes:
    """Encode what has changed of a user since the last piece."""
    pieces: list[bytes | bytearray] = [_PIECE_HEAD, pack(user.enrolled_before), _packed_exposures(user), array_head(len(user.sessions))]
    for session in user.sessions:
        pieces += (_DELTA_HEAD, pack(session.number), pack(session.first), pack(session.last), pack(session.size))
        if session.number == 0:
            pieces += session.packed_lists()
            pieces += session.packed_feedback()
            pieces += (_NOTHING, _NOTHING, _packed_parts(session))
            continue
        pieces += session.packed_new_lists()
        pieces += session.packed_new_feedback()
        if not session.touched:
            pieces += (_NOTHING, _NOTHING, _NOTHING)
            continue
        lists = [session.lists[identity].impression for identity in session.touched if identity in session.lists]
        parts = [(identity, *session.fragmented[identity]) for identity in session.touched if identity in session.fragmented]
        pieces += (pack(list(session.touched)), pack(lists), pack(parts))
    return b"".join(pieces)


class _GrowingSession:
    """A session while the pieces of its user are read, in order. `times` are the first and the last one."""

    def __init__(self, first: int, last: int, size: int) -> None:
        self.times, self.size = (first, last), size
        self.lists: dict[str, StoredImpression] = {}
        self.feedback: list[StoredFeedback] = []
        self.parts: dict[str, _StoredParts] = {}

    def add(self, lists: Iterable[StoredImpression], feedback: Iterable[StoredFeedback], parts: Iterable[_StoredParts]) -> None:
        self.lists.update({each.impression_id: each for each in lists})
        self.feedback += feedback
        self.parts.update({each[0]: each for each in parts})

    def remove(self, touched: Iterable[str]) -> None:
        for identity in touched:
            self.lists.pop(identity, None)
            self.parts.pop(identity, None)

    def stored(self) -> _StoredSession:
        lists, feedback = (msgspec.Raw(pack(values)) for values in (list(self.lists.values()), self.feedback))
        return (*self.times, self.size, lists, feedback, list(self.parts.values()))


def _whole_session(first: int, last: int, size: int, *content: Any) -> _GrowingSession:
    session = _GrowingSession(first, last, size)
    session.add(*content)
    return session


def _after_piece(before: list[_GrowingSession], deltas: list[_StoredDelta]) -> list[_GrowingSession]:
    """Return the sessions after a piece."""
    sessions = []
    for number, first, last, size, new_lists, new_feedback, touched, lists, parts in deltas:
        session = before[number - 1] if number else _GrowingSession(first, last, size)
        session.times, session.size = (first, last), size
        session.add(new_lists, new_feedback, ())
        session.remove(touched)
        session.add(lists, (), parts)
        sessions.append(session)
    return sessions


def decode_user(stored: bytes, rules: JoinRules, wrong_partition: bool = False) -> User:
    """Decode a user and join every session."""
    try:
        if not stored.startswith(GROWS):
            version, entered, unlabelled, exposed, exposures, sessions = _decode_user(stored)
            check_version(version, WHAT)
            user = User(wrong_partition, entered, _restored(sessions, rules))
            return _with_exposures(user, unlabelled, exposed, exposures)
        return _decode_growing(stored, rules, wrong_partition)
    except (msgspec.DecodeError, IndexError) as error:
        raise refusal(stored[len(GROWS) + FRAME :] if stored.startswith(GROWS) else stored, _plain, WHAT, error) from error


def _with_exposures(user: User, unlabelled_from: int, exposed_before: int, exposures: StoredExposures) -> User:
    """Give a user that was read the stored exposures."""
    if exposures:
        user.exposures = UserExposures(exposures)
    user.exposed_before = exposed_before
    if unlabelled_from != _LABELLED:
        user.unlabelled_from = unlabelled_from
    user.stored.without_sessions = not user.sessions
    return user


def _restored(sessions: Sequence[_StoredSession], rules: JoinRules) -> tuple[Session, ...]:
    restored = []
    for first, last, size, lists, feedback, parts in sessions:
        fragments_of = {identity: Fragments(whole, seen, fragments) for identity, whole, seen, fragments in parts}
        restored.append(Session.restore(first, last, size, bytes(lists), bytes(feedback), fragments_of, rules))
    return tuple(restored)


def _decode_growing(stored: bytes, rules: JoinRules, wrong_partition: bool) -> User:
    whole, *pieces = _parts_of(stored)
    version, entered, unlabelled, exposed, exposures, sessions = _decode_whole(whole)
    check_version(version, WHAT)
    growing = [_whole_session(*session) for session in sessions]
    for piece in pieces:
        entered, unlabelled, exposed, exposures, deltas = _decode_piece(piece)
        growing = _after_piece(growing, deltas)
    user = User(wrong_partition, entered, _restored([session.stored() for session in growing], rules))
    _with_exposures(user, unlabelled, exposed, exposures)
    user.stored.pieces, user.stored.whole_bytes = len(pieces), len(GROWS) + FRAME + len(whole)
    user.stored.piece_bytes = len(stored) - user.stored.whole_bytes
    _mark_saved(user)
    return user


def _parts_of(stored: bytes) -> Iterator[bytes]:
    """Return the whole state and the pieces of a growing state. Raises msgspec.DecodeError if a part is cut off."""
    at, end = len(GROWS), 0
    while at < len(stored) or not end:
        end = at + FRAME + int.from_bytes(stored[at : at + FRAME])
        if end > len(stored):
            raise msgspec.DecodeError("a part of the state is missing")
        yield stored[at + FRAME : end]
        at = end
