"""The stored form of a user: the log of the open sessions, and exposures. It is put together and read here; `session_events` adds each
entry to a log in the form in which it is stored.

A stored part has the entries that were added to the logs since the part before, and what else is known of the user. The first part has
all entries. A small user is stored as one part. A large one grows: each commit appends a part. So a commit writes about as much as its
events hold, however long the session is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

import msgspec

from streammetrics.events.event_time import FOREVER
from streammetrics.sessions.exposures import StoredExposures, UserExposures
from streammetrics.sessions.open_sessions import set_sessions
from streammetrics.sessions.rules import JoinRules
from streammetrics.sessions.session_events import decode_entries, join_log
from streammetrics.sessions.state import NO_CHANGE, LogEntry, LogLabels, Session, User
from streammetrics.state.codec import VERSION, array_head, check_version, pack, refusal, values_of
from streammetrics.state.tables import GROWS, StatePiece

GROWING_BYTES: Final = 1_024
"""A user of this size is stored in pieces from then on. A smaller one costs less when it is written again."""
PIECES_MIN: Final = 16
"""Pieces after which a user may be stored whole again: once they have as many bytes as the state that they were appended to. So all
of this rewriting costs at most about twice the bytes of the pieces."""
FRAME: Final = 4
"""Bytes of the size before each part of a growing state."""
WHAT: Final = "a user's sessions"

_Part = tuple[int, int, int, int, StoredExposures, msgspec.Raw]
"""Version, handed_on_before, unlabelled_from, exposed_before, exposures, entries."""

_decode_part = msgspec.msgpack.Decoder(_Part).decode
_plain = msgspec.msgpack.Decoder().decode
_HEAD = array_head(6) + pack(VERSION)
_LABELLED: Final = -1
"""Stored instead of FOREVER: all lists have the variants of their exposures. It takes one byte."""
_NO_EXPOSURES: Final = pack(_LABELLED) + pack(0) + array_head(0)


def encode_user(user: User) -> bytes:
    """Encode all of a user. No session may be stale."""
    entries = sum([session.size + session.relabels for session in user.sessions])
    return _encoded(user, entries, [session.log for session in user.sessions])


def _encode_new(user: User) -> bytes:
    """Encode the entries since the part before."""
    entries = sum([session.size + session.relabels - session.saved_entries for session in user.sessions])
    return _encoded(user, entries, [session.log[session.saved_bytes :] for session in user.sessions])


def _encoded(user: User, entries: int, logs: Iterable[bytearray]) -> bytes:
    return b"".join([_HEAD, pack(user.handed_on_before), _packed_exposures(user), array_head(entries), *logs])


def _packed_exposures(user: User) -> bytes:
    if user.exposures is None and user.unlabelled_from == FOREVER:
        return _NO_EXPOSURES
    unlabelled_from = _LABELLED if user.unlabelled_from == FOREVER else user.unlabelled_from
    return pack(unlabelled_from) + pack(user.exposed_before) + pack([] if user.exposures is None else user.exposures.stored())


def save_user(user: User) -> bytes | StatePiece:
    """Return what to store of a user with open sessions or exposures: the whole state, or a piece to append. It is stored from now on."""
    if user.pieces >= 0 and not user.rewrite and not (user.pieces >= PIECES_MIN and user.piece_bytes >= user.whole_bytes):
        piece = _framed(_encode_new(user))
        user.pieces += 1
        user.piece_bytes += len(piece)
        _mark_saved(user)
        return StatePiece(user.pieces, piece, user.whole_bytes + user.piece_bytes)
    whole = encode_user(user)
    user.pieces, user.piece_bytes, user.rewrite = -1, 0, False
    if len(whole) >= GROWING_BYTES:
        whole = GROWS + _framed(whole)
        user.pieces, user.whole_bytes = 0, len(whole)
    _mark_saved(user)
    return whole


def _framed(part: bytes) -> bytes:
    return len(part).to_bytes(FRAME) + part


def _mark_saved(user: User) -> None:
    for session in user.sessions:
        session.saved_bytes = len(session.log)
        session.saved_entries = session.size + session.relabels


def decode_user(stored: bytes, rules: JoinRules, wrong_partition: bool = False) -> User:
    """Decode a user, and join their sessions again."""
    grows = stored.startswith(GROWS)
    try:
        parts = [_decode_part(part) for part in _parts_of(stored)] if grows else [_decode_part(stored)]
        for version, *_ in parts:
            check_version(version, WHAT)
        entries: list[LogEntry] = []
        log = b""
        for *_, raw in parts:
            new = decode_entries(raw)
            entries += new
            log += values_of(bytes(raw), len(new))
        user = User(wrong_partition)
        set_sessions(user, _sessions(entries, log, rules))
    except (msgspec.DecodeError, IndexError) as error:
        raise refusal(stored[len(GROWS) + FRAME :] if grows else stored, _plain, WHAT, error) from error
    _, user.handed_on_before, unlabelled_from, user.exposed_before, exposures, *_ = parts[-1]
    if exposures:
        user.exposures = UserExposures(exposures)
    if unlabelled_from != _LABELLED:
        user.unlabelled_from = unlabelled_from
    user.exposures_only = not user.sessions
    if grows:
        user.pieces, user.whole_bytes = len(parts) - 1, len(GROWS) + FRAME + int.from_bytes(stored[len(GROWS) : len(GROWS) + FRAME])
        user.piece_bytes = len(stored) - user.whole_bytes
    return user


def _parts_of(stored: bytes) -> Iterator[bytes]:
    """Return the parts of a growing state. Raises msgspec.DecodeError if one is cut off."""
    at, end = len(GROWS), 0
    while at < len(stored) or not end:
        end = at + FRAME + int.from_bytes(stored[at : at + FRAME])
        if end > len(stored):
            raise msgspec.DecodeError("a part of the state is missing")
        yield stored[at + FRAME : end]
        at = end


def _sessions(entries: list[LogEntry], log: bytes, rules: JoinRules) -> list[Session]:
    """Return the sessions of a log, as they were when it was stored."""
    if not entries:
        return []
    times = sorted([entry.ts for entry in entries])
    starts = [times[0], *[later for ts, later in pairwise(times) if later - ts > rules.gap_ms]]
    if len(starts) == 1:
        return [_session(times[0], times[-1], entries, log, rules)]
    sessions = []
    for start, end in zip(starts, [*starts[1:], FOREVER], strict=True):
        mine = [entry for entry in entries if start <= entry.ts < end]
        sessions.append(_session(start, max([entry.ts for entry in mine]), mine, b"".join(map(pack, mine)), rules))
    return sessions


def _session(first: int, last: int, entries: list[LogEntry], log: bytes, rules: JoinRules) -> Session:
    relabels = sum([type(entry) is LogLabels for entry in entries])
    size = len(entries) - relabels
    session = Session(first, last, size, relabels, bytearray(log), len(log), len(entries))
    join_log(session, entries, rules, [])
    for shown_list in session.lists.values():
        shown_list.tallied = NO_CHANGE
    return session
