"""The stored form of a task's state, except users' sessions (`user_codec`). It is written and read only here.

Every value carries a version; another version is rejected with what to do. What is stored by user, and unique users, is MessagePack.
Panes, sums of experiments and the control record are JSON, because their integers may exceed 64 bits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

import msgspec

from streammetrics.engine.experiment_runs import WHOLE, CovariatePeriod, PairKey, Scope
from streammetrics.engine.lateness import StoredLateness, TimeSetter
from streammetrics.engine.signature import Signature
from streammetrics.engine.supported_time import StoredSupport
from streammetrics.errors import StateError, UnfitStateError
from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.events.model import WatchedPath
from streammetrics.experiments.arrivals import Arrivals
from streammetrics.sessions.msgpack import pack
from streammetrics.windows.last_seen import SeenArms, StoredLastSeen
from streammetrics.windows.last_seen import decode_arms as _decode_arms
from streammetrics.windows.panes import Group, Pane
from streammetrics.windows.unique_users import PaneUserCounts, flatten_counts, unflatten_counts

VERSION = 12
SCALES = "scales "

StoredCredit = tuple[str, str, list[int]]
"""Lists and credits of a user's interleaved lists for two teams: see `interleaving.credit_moments`."""
StoredTotals = tuple[msgspec.Raw, int, bytes, list[StoredCredit]]
"""A user's totals in scopes where they are equal: the scopes, number of lists, packed sums, credits."""
StoredScope = tuple[int, int, str | None]
"""A scope and the user's variant there: number of the run, day, variant (None: several)."""
StoredEarlier = tuple[CovariatePeriod, int, bytes]
"""A user's totals before an experiment: the period, number of lists, packed sums."""

_decode_user_totals = msgspec.msgpack.Decoder(
    tuple[int, list[StoredTotals], list[StoredEarlier], list[StoredLastSeen], list[tuple[int, int]]]
).decode
_decode_scopes = msgspec.msgpack.Decoder(list[StoredScope]).decode
_decode_user_counts = msgspec.msgpack.Decoder(tuple[int, list[tuple[str, str, list[int]]]]).decode
_plain_msgpack = msgspec.msgpack.Decoder().decode
_encode_json = msgspec.json.Encoder().encode
_decode_pane = msgspec.json.Decoder(tuple[int, list[tuple[str, str, str, str, list[int]]]]).decode
_decode_scales = msgspec.json.Decoder(tuple[int, int, dict[str, float]]).decode


_StoredHours: TypeAlias = dict[str, list[int]]
"""Counts over time by variant: the steps from block to block and the counts, in turn. Most blocks follow each other."""
_StoredArrivals: TypeAlias = tuple[int, _StoredHours]
"""The length of a block (ms), and arrivals."""


class _StoredScope(msgspec.Struct, array_like=True):
    version: int
    arrivals: _StoredArrivals
    multi_exposed: int
    moments: dict[str, list[int]]
    credits: list[tuple[tuple[str, str], list[int]]]
    recent: _StoredHours
    reactions: dict[str, list[int]]
    pairs: list[tuple[PairKey, list[int]]] = []
    exposed: _StoredArrivals | None = None


_decode_scope = msgspec.json.Decoder(_StoredScope).decode
_plain_json = msgspec.json.Decoder().decode


StoredPath: TypeAlias = tuple[int, WatchedPath, tuple[str, int, int, int, int]]
"""The topic index, the path, and its row (see `path_counts`)."""


class Control(msgspec.Struct, kw_only=True, array_like=True):
    """A task's control record: everything that is not stored by user, pane or scope. Times are in milliseconds.

    The owners of `TaskState` explain their fields. In short:

    - `rules` and `measures` are the signature of the rules.
    - `offsets`, `topic_ids` and `watermarks` are by topic index. `counts` is (reason, topic index, count).
    - `pane_from` is the start of the oldest pane that may change. `totals` are (experiment, variant, tally) of all final panes.
    - `groups` is (group, newest list, no list is older than).
    - `runs` is (number, experiment, first list, last list, variants, covariate period); `runs_from` is the next run's number.
    - `enrolled_before`: all lists of panes that end by then are enrolled, except those before `counted_from` or `users_counted_from`.
    - `enrolment_wait_ms` is the longest time that a list waits for enrolment.
    - `user_window_panes` is the length of the longest window of unique users in panes; 0: users are not counted.
    - `feedback_by_day` is (UTC day in which sessions ended, matched feedback, unmatched feedback). It is empty without experiments.
    - `spans` is (experiment, configured start, configured end), for experiments with a run and one of both. None: there is none.
    - `parts` is (number, number of its run, entry, stage, variant, latest list) of the parts of rollouts: see `PartName`.
    - `counted` is (number of a run, latest enrolled list in stage ""). It is empty in state of earlier versions.
    - `unknown_names` is (kind, name or empty for all others, count).
    - `paths` is (topic index, optional path of a mapping, counts of records).
    - `users_sampled` is (start of a period, packed hashes of users).
    - `support`, `setters` and `lateness` are by topic index.
    - `record_times` are timestamps of the last records of each input, by topic index. Only ticks use them.
    - `labelled_before`: all lists before this time have the variants of their exposures. FOREVER without exposures.
    - `users_without_sessions` is the number of stored users that have exposures only.
    - `newest_supported` is the greatest supported time of any input, where windows end after a flush. NEVER: unknown.
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
    enrolled_before: int
    counted_from: int = NEVER
    enrolment_wait_ms: int
    user_window_panes: int
    users_counted_from: int
    feedback_by_day: list[tuple[int, int, int]] = []
    spans: list[tuple[str, int | None, int | None]] = []
    users_sampled: list[tuple[int, str]] = []
    support: list[StoredSupport]
    setters: list[TimeSetter | None]
    lateness: list[StoredLateness]
    newest_supported: int = NEVER
    record_times: list[int]
    unknown_names: list[tuple[str, str, int]] = []
    paths: list[StoredPath] = []
    parts: list[tuple[int, int, str, str, str, int]] = []
    counted: list[tuple[int, int]] = []
    labelled_before: int = FOREVER
    users_without_sessions: int = 0

    @property
    def signature(self) -> Signature:
        return Signature(self.rules, self.measures)

    def shown_watermark(self, lateness_ms: int) -> int:
        """Return the watermark (ms) up to which results are shown. Lists that wait for their exposures hold it back."""
        if self.labelled_before in (NEVER, FOREVER):
            return min(self.watermark, self.labelled_before)
        return min(self.watermark, self.labelled_before + lateness_ms)


_decode_control = msgspec.json.Decoder(Control).decode


def encode_pane(pane: Pane) -> bytes:
    return _encode_json((VERSION, [(*group, tally) for group, tally in pane.items()]))


def decode_pane(stored: bytes) -> Pane:
    try:
        version, tallies = _decode_pane(stored)
    except msgspec.DecodeError as error:
        raise refusal(stored, _plain_json, "a pane", error) from error
    check_version(version, "a pane")
    return {Group(*group): tally for *group, tally in tallies}


def encode_user_totals(
    totals: list[StoredTotals], earlier: list[StoredEarlier], last_seen: list[StoredLastSeen], exposed: Sequence[tuple[int, int]] = ()
) -> bytes:
    return pack((VERSION, totals, earlier, last_seen, exposed))


def decode_user_totals(
    stored: bytes,
) -> tuple[list[StoredTotals], list[StoredEarlier], list[StoredLastSeen], list[tuple[int, int]]]:
    try:
        version, totals, earlier, last_seen, exposed = _decode_user_totals(stored)
    except msgspec.DecodeError as error:
        raise refusal(stored, _plain_msgpack, "a user's totals", error) from error
    check_version(version, "a user's totals")
    return totals, earlier, last_seen, exposed


def encode_scopes(scopes: Sequence[StoredScope]) -> msgspec.Raw:
    return msgspec.Raw(pack(scopes))


def decode_scopes(stored: bytes) -> list[StoredScope]:
    """Decode the scopes of `StoredTotals`."""
    try:
        return _decode_scopes(stored)
    except msgspec.DecodeError as error:
        raise refusal(stored, _plain_msgpack, "a user's totals", error) from error


def decode_arms(stored: bytes) -> SeenArms:
    """Decode the variants of `StoredLastSeen`."""
    try:
        return _decode_arms(stored)
    except msgspec.DecodeError as error:
        raise refusal(stored, _plain_msgpack, "a user's totals", error) from error


def encode_user_counts(pane: PaneUserCounts) -> bytes:
    return pack((VERSION, [(*variant, flatten_counts(counts)) for variant, counts in pane.items()]))


def decode_user_counts(stored: bytes) -> PaneUserCounts:
    try:
        version, variants = _decode_user_counts(stored)
    except msgspec.DecodeError as error:
        raise refusal(stored, _plain_msgpack, "the user counts of a pane", error) from error
    check_version(version, "the user counts of a pane")
    return {(experiment, variant): unflatten_counts(numbers) for experiment, variant, numbers in variants}


def encode_scope(scope: Scope) -> bytes:
    more: list[Any] = [list(scope.pairs.items())] if scope.pairs or scope.exposed.counts else []
    more += [_stored_arrivals(scope.exposed)] if scope.exposed.counts else []
    arrivals, recent = _stored_arrivals(scope.arrivals), _stored_hours(scope.recent)
    sums = scope.multi_exposed, scope.moments, list(scope.credits.items())
    return _encode_json((VERSION, arrivals, *sums, recent, scope.reactions, *more))


def _stored_hours(counts: Mapping[str, Mapping[int, int]]) -> _StoredHours:
    """
    >>> _stored_hours({"control": {481_162: 7, 481_163: 5, 481_170: 1}})
    {'control': [481162, 7, 1, 5, 7, 1]}
    """
    stored: _StoredHours = {}
    for variant, blocks in counts.items():
        row, before = stored.setdefault(variant, []), 0
        for block in sorted(blocks):
            row += (block - before, blocks[block])
            before = block
    return stored


def _hours(stored: _StoredHours) -> dict[str, dict[int, int]]:
    return {variant: dict(zip(accumulate(row[::2]), row[1::2], strict=True)) for variant, row in stored.items()}


def _stored_arrivals(arrivals: Arrivals) -> _StoredArrivals:
    return arrivals.block_ms, _stored_hours(arrivals.counts)


def _arrivals(stored: _StoredArrivals) -> Arrivals:
    block_ms, counts = stored
    return Arrivals(block_ms, _hours(counts))


def decode_scope(stored: bytes, day: int) -> Scope:
    scope = Scope(day)
    try:
        found = _decode_scope(stored)
    except msgspec.DecodeError as error:
        raise refusal(stored, _plain_json, "an experiment", error) from error
    check_version(found.version, "an experiment")
    scope.arrivals, scope.recent = _arrivals(found.arrivals), _hours(found.recent)
    if found.exposed is not None:
        scope.exposed = _arrivals(found.exposed)
    scope.multi_exposed, scope.moments, scope.reactions = found.multi_exposed, found.moments, found.reactions
    scope.credits, scope.pairs = dict(found.credits), dict(found.pairs)
    return scope


def scope_name(run: int, day: int) -> str:
    """Return the name of a scope in the store.

    >>> scope_name(7, WHOLE), scope_name(7, 20045)
    ('7', '7:20045')
    """
    return str(run) if day == WHOLE else f"{run}:{day}"


def parse_scope_name(name: str) -> tuple[int, int]:
    """Return the number of the run, and the day, of a scope's name.

    >>> parse_scope_name("7") == (7, WHOLE), parse_scope_name("7:20045")
    (True, (7, 20045))
    """
    run, _, day = name.partition(":")
    return int(run), int(day) if day else WHOLE


class Scales(NamedTuple):
    """The frozen scales of an experiment by measure, and the last time (ms) to which its run was known to last."""

    until: int
    by_measure: dict[str, float]


def encode_scales(scales: Scales) -> bytes:
    return _encode_json((VERSION, *scales))


def decode_scales(stored: bytes) -> Scales:
    try:
        version, until, by_measure = _decode_scales(stored)
    except msgspec.DecodeError as error:
        raise refusal(stored, _plain_json, "an experiment's scales", error) from error
    check_version(version, "an experiment's scales")
    return Scales(until, by_measure)


def scales_name(experiment: str) -> str:
    """Return the name of an experiment's scales in the store.

    >>> experiment_of_scales(scales_name("ranker-v7")), experiment_of_scales("something else")
    ('ranker-v7', None)
    """
    return f"{SCALES}{experiment}"


def experiment_of_scales(name: str) -> str | None:
    """Return the experiment whose scales have this name. None if the name is of something else."""
    return name.removeprefix(SCALES) if name.startswith(SCALES) else None


def encode_control(control: Control) -> bytes:
    return _encode_json(control)


def decode_control(stored: bytes) -> Control:
    try:
        control = _decode_control(stored)
    except msgspec.DecodeError as error:
        raise refusal(stored, _plain_json, "a task's control record", error) from error
    check_version(control.version, "a task's control record")
    return control


def check_version(version: Any, what: str) -> None:
    """Raise StateError for state of another version."""
    if version != VERSION:
        raise UnfitStateError(
            f"{what} in the store has version {version}, this program reads version {VERSION}",
            "run the version that wrote it, or start a new redis.namespace and replay",
        )


def refusal(stored: bytes, plain: Callable[[bytes], Any], what: str, error: Exception) -> StateError:
    """Return the error for bytes that cannot be decoded. If they name another version, that is the reason."""
    with contextlib.suppress(msgspec.DecodeError):
        found = plain(stored)
        if isinstance(found, list) and found and isinstance(found[0], int):
            check_version(found[0], what)
    return StateError(f"{what} in the store cannot be read ({error})", "start a new redis.namespace and replay from the topics")
