"""The stored form of a task's state, written and read in this one place; every value carries a version.

Users and panes are MessagePack behind a version; tallies are JSON text inside it because their integers may outgrow 64
bits. Bytes of an unknown version are refused with the way out, never guessed at.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from streammetrics.engine.experiment_runs import WHOLE, CovariatePeriod, Scope
from streammetrics.engine.signature import Signature
from streammetrics.errors import StateError
from streammetrics.events.event_time import NEVER
from streammetrics.sessions.fragments import Fragment, Fragments, StoredImpression
from streammetrics.sessions.msgpack import array_head, pack
from streammetrics.sessions.rules import JoinRules
from streammetrics.sessions.session import Session
from streammetrics.sessions.user import User
from streammetrics.windows.last_seen import StoredLastSeen
from streammetrics.windows.panes import Group, Pane
from streammetrics.windows.unique_users import PaneUserCounts, flatten_counts, unflatten_counts

VERSION = 4
SCALES = "scales "

_StoredParts = tuple[str, StoredImpression | None, bool, tuple[Fragment, ...]]
_StoredSession = tuple[int, int, int, msgspec.Raw, msgspec.Raw, list[_StoredParts]]
"""First and last time, number of events, lists, feedback, parts; what lists and feedback are is read by the session."""

StoredCredit = tuple[str, str, int, int]
"""Of a user's interleaved lists: a pair of teams, the lists that compare them, and the credit of the second."""
StoredTotals = tuple[int, int, str | None, int, bytes, list[StoredCredit]]
"""What a user adds to one scope of a life: its number, the day, his variant (None: he saw several), lists, packed sums, credits."""
StoredEarlier = tuple[CovariatePeriod, int, bytes]
"""A user's totals before an experiment: of which time, lists, packed sums."""

_decode_user = msgspec.msgpack.Decoder(tuple[int, int, list[_StoredSession]]).decode
_decode_totals = msgspec.msgpack.Decoder(tuple[int, list[StoredTotals], list[StoredEarlier], list[StoredLastSeen]]).decode
_decode_reach = msgspec.msgpack.Decoder(tuple[int, list[tuple[str, str, list[int]]]]).decode
_plain_msgpack = msgspec.msgpack.Decoder().decode
_encode_json = msgspec.json.Encoder().encode
_decode_pane = msgspec.json.Decoder(tuple[int, list[tuple[str, str, str, str, list[int]]]]).decode
_decode_scales = msgspec.json.Decoder(tuple[int, int, dict[str, float]]).decode
_decode_scope = msgspec.json.Decoder(tuple[int, dict[str, int], int, dict[str, list[int]], list[tuple[tuple[str, str], list[int]]]]).decode
_plain_json = msgspec.json.Decoder().decode


class Control(msgspec.Struct, kw_only=True, array_like=True):
    """A task's own record: where it stands in its inputs and all that it has counted.

    `rules` and `measures` are the signature, so that state of other rules is never merged. Offsets and watermarks are by topic index;
    `counts` is (reason, topic index, count); `totals` are cumulative tallies of final panes; `groups` is (group, newest ts, known
    since); `runs` is (number, experiment, first and last time, variants, the time of its covariates), and the number of the next one
    is `runs_from`. All lists of panes that end at or before `entered_before` are in the moments of their experiments, if they are no
    older than `counted_from`, and in the reach of their panes: that of lists from `reach_from` on, with gaps of at most `reach_panes`;
    0: none is counted. `entering_ms` is the greatest time that lists of the state have to wait. `joined` is (UTC day in which sessions
    ended, feedback that counts for a list, feedback that does not), where experiments are counted.
    """

    version: int = VERSION
    rules: str
    measures: tuple[str, ...] | None
    topics: list[str]
    topic_ids: list[str]
    offsets: list[int | None]
    watermarks: list[int]
    watermark: int
    newest: int
    oldest_kept: int
    pane_from: int
    sessions_open: int
    counts: list[tuple[str, int, int]]
    totals: list[tuple[str, str, list[int]]]
    groups: list[tuple[Group, int, int]]
    runs: list[tuple[int, str, int, int, list[str], CovariatePeriod | None]]
    runs_from: int
    entered_before: int
    counted_from: int = NEVER
    entering_ms: int
    reach_panes: int
    reach_from: int
    joined: list[tuple[int, int, int]] = []
    ends: list[tuple[str, int]] = []
    """When the experiments that live were to end (ms), as far as they were."""

    @property
    def signature(self) -> Signature:
        return Signature(self.rules, self.measures)


_decode_control = msgspec.json.Decoder(Control).decode


_USER_HEAD, _SESSION_HEAD, _NO_PARTS = array_head(3) + pack(VERSION), array_head(6), array_head(0)


def encode_user(user: User) -> bytes:
    """One user's open sessions; hits are left out because they follow from the rest."""
    pieces: list[bytes | bytearray] = [_USER_HEAD, pack(user.enrolled_before), array_head(len(user.sessions))]
    for session in user.sessions:
        pieces += (_SESSION_HEAD, pack(session.first), pack(session.last), pack(session.size))
        pieces += session.packed_lists()
        pieces += session.packed_feedback()
        pieces.append(pack([(identity, *parts) for identity, parts in session.parts.items()]) if session.parts else _NO_PARTS)
    return b"".join(pieces)


def decode_user(stored: bytes, rules: JoinRules, wrong_partition: bool = False) -> User:
    """The user that was stored, every session joined."""
    try:
        version, entered, sessions = _decode_user(stored)
        _check(version, "a user's sessions")
        return User(wrong_partition, entered, tuple([_session_of(*stored_session, rules) for stored_session in sessions]))
    except msgspec.DecodeError as error:
        raise _refusal(stored, _plain_msgpack, "a user's sessions", error) from error


def _session_of(
    first: int, last: int, size: int, lists: msgspec.Raw, feedback: msgspec.Raw, parts: list[_StoredParts], rules: JoinRules
) -> Session:
    copies = {identity: Fragments(whole, seen, fragments) for identity, whole, seen, fragments in parts}
    return Session.restore(first, last, size, bytes(lists), bytes(feedback), copies, rules.attribution_ms)


def encode_pane(pane: Pane) -> bytes:
    return _encode_json((VERSION, [(*group, tally) for group, tally in pane.items()]))


def decode_pane(stored: bytes) -> Pane:
    try:
        version, tallies = _decode_pane(stored)
    except msgspec.DecodeError as error:
        raise _refusal(stored, _plain_json, "a pane", error) from error
    _check(version, "a pane")
    return {Group(*group): tally for *group, tally in tallies}


def encode_totals(totals: list[StoredTotals], earlier: list[StoredEarlier], presence: list[StoredLastSeen]) -> bytes:
    return pack((VERSION, totals, earlier, presence))


def decode_totals(stored: bytes) -> tuple[list[StoredTotals], list[StoredEarlier], list[StoredLastSeen]]:
    try:
        version, totals, earlier, presence = _decode_totals(stored)
    except msgspec.DecodeError as error:
        raise _refusal(stored, _plain_msgpack, "a user's totals", error) from error
    _check(version, "a user's totals")
    return totals, earlier, presence


def encode_reach(reach: PaneUserCounts) -> bytes:
    return pack((VERSION, [(*arm, flatten_counts(of_arm)) for arm, of_arm in reach.items()]))


def decode_reach(stored: bytes) -> PaneUserCounts:
    try:
        version, arms = _decode_reach(stored)
    except msgspec.DecodeError as error:
        raise _refusal(stored, _plain_msgpack, "a pane's reach", error) from error
    _check(version, "a pane's reach")
    return {(experiment, variant): unflatten_counts(numbers) for experiment, variant, numbers in arms}


def encode_scope(scope: Scope) -> bytes:
    return _encode_json((VERSION, scope.first_exposures, scope.multi_exposed, scope.moments, list(scope.credits.items())))


def decode_scope(stored: bytes) -> Scope:
    scope = Scope()
    try:
        version, scope.first_exposures, scope.multi_exposed, scope.moments, credits = _decode_scope(stored)
    except msgspec.DecodeError as error:
        raise _refusal(stored, _plain_json, "an experiment", error) from error
    _check(version, "an experiment")
    scope.credits = dict(credits)
    return scope


def cell_name(run: int, day: int) -> str:
    """What the cell of a life's scope is called in the store.

    >>> cell_name(7, WHOLE), cell_name(7, 20045)
    ('7', '7:20045')
    """
    return str(run) if day == WHOLE else f"{run}:{day}"


def parse_cell(name: str) -> tuple[int, int]:
    """The number of the life, and the day, whose cell has this name.

    >>> parse_cell("7") == (7, WHOLE), parse_cell("7:20045")
    (True, (7, 20045))
    """
    run, _, day = name.partition(":")
    return int(run), int(day) if day else WHOLE


class Scales(NamedTuple):
    """The frozen scales of an experiment by measure, and the greatest time that its life was known to last to (ms)."""

    until: int
    by_measure: dict[str, float]


def encode_scales(scales: Scales) -> bytes:
    return _encode_json((VERSION, *scales))


def decode_scales(stored: bytes) -> Scales:
    try:
        version, until, by_measure = _decode_scales(stored)
    except msgspec.DecodeError as error:
        raise _refusal(stored, _plain_json, "an experiment's scales", error) from error
    _check(version, "an experiment's scales")
    return Scales(until, by_measure)


def scales_name(experiment: str) -> str:
    """The name under which the scales of an experiment are settled.

    >>> experiment_of_scales(scales_name("ranker-v7")), experiment_of_scales("something else")
    ('ranker-v7', None)
    """
    return f"{SCALES}{experiment}"


def experiment_of_scales(name: str) -> str | None:
    """The experiment whose scales have this name; None for the name of something else."""
    return name.removeprefix(SCALES) if name.startswith(SCALES) else None


def encode_control(control: Control) -> bytes:
    return _encode_json(control)


def decode_control(stored: bytes) -> Control:
    try:
        control = _decode_control(stored)
    except msgspec.DecodeError as error:
        raise _refusal(stored, _plain_json, "a task's control record", error) from error
    _check(control.version, "a task's control record")
    return control


def _check(version: Any, what: str) -> None:
    if version != VERSION:
        raise StateError(
            f"{what} in the store has version {version}, this program reads version {VERSION}",
            "run the version that wrote it, or start a new redis.namespace and replay",
        )


def _refusal(stored: bytes, plain: Callable[[bytes], Any], what: str, error: Exception) -> StateError:
    """Why bytes of another shape are refused: another version wrote them, if that is what they say."""
    with contextlib.suppress(msgspec.DecodeError):
        found = plain(stored)
        if isinstance(found, list) and found and isinstance(found[0], int):
            _check(found[0], what)
    return StateError(f"{what} in the store cannot be read ({error})", "start a new redis.namespace and replay from the topics")
