"""A task's control record: everything that is not stored by user or in a row of a table."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from streammetrics.engine.lateness import StoredLateness, TimeSetter
from streammetrics.engine.signature import Signature
from streammetrics.engine.supported_time import StoredSupport
from streammetrics.enrolment.runs import OF_RUN, CovariatePeriod, PartName
from streammetrics.enrolment.stage_changes import CountedStage
from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.events.model import WatchedPath
from streammetrics.state.codec import VERSION, check_version, encode_json, plain_json, refusal
from streammetrics.windows.panes import Group

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

    def counted_stages(self) -> list[CountedStage]:
        """Return the stages whose lists count."""
        runs = {number: (experiment, last) for number, experiment, _, last, *_ in self.runs}
        counted = [(number, OF_RUN, last) for number, last in self.counted]
        counted += [(run, PartName(entry, stage, variant), last) for _, run, entry, stage, variant, last in self.parts if last != NEVER]
        return [CountedStage(runs[number][0], part, last, runs[number][1], self.watermark) for number, part, last in counted]

    def shown_watermark(self, lateness_ms: int) -> int:
        """Return the watermark (ms) up to which results are shown. Lists that wait for their exposures hold it back."""
        if self.labelled_before in (NEVER, FOREVER):
            return min(self.watermark, self.labelled_before)
        return min(self.watermark, self.labelled_before + lateness_ms)


_decode_control = msgspec.json.Decoder(Control).decode


def encode_control(control: Control) -> bytes:
    return encode_json(control)


def decode_control(stored: bytes) -> Control:
    try:
        control = _decode_control(stored)
    except msgspec.DecodeError as error:
        raise refusal(stored, plain_json, "a task's control record", error) from error
    check_version(control.version, "a task's control record")
    return control
