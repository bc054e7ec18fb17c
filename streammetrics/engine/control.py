"""A task's control record: everything that is not stored by user or in a row of a table."""

from __future__ import annotations

import msgspec

from streammetrics.engine.input_progress import ProgressState
from streammetrics.engine.label_index import LabelState
from streammetrics.engine.path_counts import StoredPath
from streammetrics.engine.signature import Signature
from streammetrics.enrolment.reducer import EnrolmentState
from streammetrics.enrolment.stage_changes import CountedStage
from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.sessions.store import SessionState
from streammetrics.state.codec import VERSION, check_version, encode_json, plain_json, refusal
from streammetrics.windows.pane_store import PaneState
from streammetrics.windows.unique_user_panes import UniqueUserState


class Control(msgspec.Struct, kw_only=True, array_like=True):
    """What the owners of `TaskState` store, each in a struct of its own. Times are in milliseconds.

    - `rules` and `measures` are the signature of the rules, `topics` the inputs.
    - `labelled_before`: all lists before this time have the variants of their exposures. FOREVER without exposures.
    - `feedback_days` is (UTC day in which sessions ended, matched feedback, unmatched feedback). It is empty without experiments.
    - `unknown_names` is (kind, name or empty for all others, count).
    - `users_sampled` is (start of a period, packed hashes of users).
    """

    version: int = VERSION
    rules: str
    measures: tuple[str, ...] | None
    topics: list[str]
    progress: ProgressState
    panes: PaneState
    labels: LabelState
    labelled_before: int
    sessions: SessionState
    enrolment: EnrolmentState
    unique_users: UniqueUserState
    feedback_days: list[tuple[int, int, int]]
    users_sampled: list[tuple[int, str]]
    unknown_names: list[tuple[str, str, int]]
    paths: list[StoredPath]

    @property
    def signature(self) -> Signature:
        return Signature(self.rules, self.measures)

    def counted_stages(self) -> list[CountedStage]:
        """Return the stages whose lists count."""
        return self.labels.counted_stages(self.progress.watermark)

    def shown_watermark(self, lateness_ms: int) -> int:
        """Return the watermark (ms) up to which results are shown. Lists that wait for their exposures hold it back."""
        if self.labelled_before in (NEVER, FOREVER):
            return min(self.progress.watermark, self.labelled_before)
        return min(self.progress.watermark, self.labelled_before + lateness_ms)


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
