"""Settings that change results: events, the join and windows.

Two runs over the same events give the same numbers if these settings are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from streammetrics.config.fields import (
    Conflict,
    Grades,
    Listed,
    Section,
    Segment,
    Text,
    Topic,
    Whole,
    WholeOrOff,
    milliseconds,
    parsed_json,
    setting,
    whole,
)
from streammetrics.config.times import Duration, DurationField, parse_duration
from streammetrics.events.event_time import DAY_MS
from streammetrics.events.grades import DEFAULT_GRADES
from streammetrics.events.model import EventLimits
from streammetrics.events.record import topic_of
from streammetrics.words.times import SPAN_MS_MAX

PANES_MAX = 100_000
"""Maximum panes in a retention. Every group stores one tally per pane."""


_LIMITS = EventLimits()


NATIVE: Final = "native"
"""The reader of topics with native events: there is none."""


def _readers(given: object) -> object:
    """Return the name of a reader, or a table of names by topic."""
    if not isinstance(given, str):
        return given
    return parsed_json(given, "a JSON object") if given.strip().startswith("{") else given


class EventSettings(Section):
    reader: Annotated[Text | Mapping[Topic, Text], BeforeValidator(_readers)] = setting(
        NATIVE,
        "The Python function that makes events of records: native (none, records are events already), the name of a reader that ships with"
        " streammetrics, a file beside the configuration and its function (reader.py:read), or an installed module (package.module:read)."
        " A table names them by topic; topics without one are native. A reader runs with the rights of the worker.",
        'a name, or a table of names by topic; in the environment or by --set also {"clicks": "clicks.py:read"}',
    )
    positions: Literal["order", "absolute", "absolute_from_0"] = setting(
        "order",
        "What the position of an item says. order: positions sort the items, and ranks are 1, 2, 3 without gaps. absolute: the position is"
        " the rank, so that a second page may begin at 11. absolute_from_0: the same, and 0 is the first place.",
    )
    numeric_ids: bool = setting(False, "Read whole numbers as ids, such as 42, by their decimal text.")
    event_bytes_max: Whole = whole(_LIMITS.event_bytes_max, "Maximum bytes of an event.", 1, 104_857_600)
    items_max: Whole = whole(_LIMITS.items_max, "Maximum items of a list. For a list in fragments, the total.", 1, 100_000)
    experiments_max: Whole = whole(_LIMITS.experiments_max, "Maximum experiments of a list. Further ones are dropped.", 0, 1_000)
    segments_max: Whole = whole(_LIMITS.segments_max, "Maximum segments of a list. Further ones are dropped.", 0, 1_000)
    id_chars_max: Whole = whole(_LIMITS.id_chars_max, "Maximum characters of an id.", 1, 65_536)
    label_chars_max: Whole = whole(
        _LIMITS.label_chars_max, "Maximum characters of an action, an experiment, a variant, or a segment's name or value.", 1, 4_096
    )

    def reader_of(self, topic: str) -> str:
        """Return the reader of a topic, or of a file, which has the topic that its name begins with."""
        if isinstance(self.reader, str):
            return self.reader
        name = topic_of(topic, self.reader)
        return NATIVE if name is None else self.reader[name]

    @property
    def first_place(self) -> int | None:
        """The position of the first place; None if positions give only the order."""
        return {"order": None, "absolute": 1, "absolute_from_0": 0}[self.positions]

    @property
    def limits(self) -> EventLimits:
        """Limits in the form that decoders take, without exposures."""
        return EventLimits(**{name: getattr(self, name) for name in EventLimits.__struct_fields__ if name != "exposures"})


class JoinSettings(Section):
    gap_ms: Whole = milliseconds(1_800_000, "Maximum time between two neighbouring events of one session, inclusive.")
    attribution_ms: Whole = milliseconds(1_800_000, "Maximum time from a list to feedback that counts for it, inclusive.")
    out_of_orderness_ms: Whole = milliseconds(5_000, "How far the watermark of an input stays behind its newest event.")
    lateness_ms: Whole = milliseconds(60_000, "How far behind the watermark an event may be before it is refused as late.")
    idle_ms: Whole = milliseconds(
        30_000, "Time without records after which an input that is read to its end no longer holds the watermark back."
    )
    future_ms: WholeOrOff = milliseconds(
        3_600_000,
        "How far an event's ts may lie after its record timestamp. Later events are refused as future. Lines of a file have no record"
        " timestamp, so files are not checked.",
        unless=", or off",
    )
    support_jump_ms: Whole = milliseconds(
        5_000,
        "How far one event may move the time of its input, at most out_of_orderness_ms plus lateness_ms. A larger jump needs events of"
        " several users in a row, over more event time than that.",
    )
    support_users: Whole = whole(
        5, "Distinct users in a row that a larger jump needs. A long row needs fewer. With 1, every event sets the time.", 1, 100
    )
    support_far_ms: Whole = milliseconds(
        7 * DAY_MS, "How far an event may lie ahead of the time of its input. Later events are refused as future, until the time has moved."
    )
    skew_ms_max: Whole = milliseconds(
        3_600_000,
        "How far an input may run ahead, in event time, of the slowest active input of its task (or of the"
        " watermark, if that is later). Beyond that it is paused.",
    )
    session_events_max: Whole = whole(2_000, "Maximum events of a session. Events beyond it are counted but not joined.", 1, 1_000_000)
    lists_open_max: Whole = whole(1_000, "Maximum open lists of a user.", 1, 1_000_000)
    grades: Grades = setting(
        DEFAULT_GRADES,
        "Grade that feedback gives to its item: action=grade, or action>=threshold=grade (or >) on the feedback value. The highest"
        " matching grade counts. With exponential gain (ndcg_exp, or metrics.gain = exp2) the highest possible grade is about 15.",
        "rules separated by commas, with grades from 0 to 100",
    )

    def advice(self) -> Iterator[str]:
        """Yield warnings: settings that are valid but probably not intended."""
        if self.attribution_ms > self.gap_ms:
            yield (
                f"join.attribution_ms ({self.attribution_ms}) exceeds join.gap_ms ({self.gap_ms}): a session can close, and its lists"
                " become final, before attribution_ms has passed"
            )


class WindowSettings(Section):
    pane_ms: Whole = milliseconds(
        60_000, "Smallest interval of event time that is tallied. Window lengths are multiples of it.", least=1, most=DAY_MS
    )
    windows: Annotated[Listed[DurationField], Field(min_length=1, max_length=16)] = setting(
        (parse_duration("5m"), parse_duration("1h")),
        "Lengths of the windows, each a whole number of panes.",
        "a list of 1 to 16 distinct durations such as 30s, 5m, 1h, 7d, or a number of ms",
    )
    retention_ms: Whole = Field(
        default_factory=lambda valid: longest_ms(valid.get("windows", ())) + DAY_MS,
        ge=1,
        le=2 * SPAN_MS_MAX,
        description="How long Redis keeps panes behind the watermark.",
        json_schema_extra={
            "allowed": f"a whole number, at least the longest window, at most {PANES_MAX} panes",
            "default": "the longest window plus one day",
        },
    )
    users: Literal["auto", "on", "off"] = setting(
        "auto",
        "Whether to count the distinct users of every window, for all traffic and for each variant (window_users and user_hit_rate)."
        " auto: on if experiments.enabled is true, because it then costs little. user_hit_rate needs hit_rate in metrics.names.",
    )
    segments: Annotated[Listed[Segment], Field(max_length=32)] = setting(
        (),
        "Segments to tally separately. Each segment is tallied alone, never in combination.",
        "a list of at most 32 distinct names without =",
    )
    groups_max: Whole = whole(
        1_000,
        "Maximum groups (experiment, variant, segment value) of a task within windows.retention_ms. "
        "Further segment values count as _other.",
        1,
        1_000_000,
    )

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the settings of this section that contradict each other."""
        for window in self.windows:
            if window.ms % self.pane_ms:
                rule = f"{window} ({window.ms} ms) is not a whole number of panes: windows.pane_ms is {self.pane_ms}"
                yield Conflict(("windows.windows", "windows.pane_ms"), rule)
        if self.retention_ms < longest_ms(self.windows):
            rule = f"must be at least the longest window in windows.windows, {longest_ms(self.windows)} ms"
            yield Conflict(("windows.retention_ms", "windows.windows"), rule)
        if self.retention_ms > PANES_MAX * self.pane_ms:
            least_ms = -(-self.retention_ms // PANES_MAX)
            rule = f"must be at most {PANES_MAX} panes of windows.pane_ms = {self.pane_ms}; set windows.pane_ms to at least {least_ms}"
            if "retention_ms" in self.model_fields_set:
                yield Conflict(("windows.retention_ms", "windows.windows", "windows.pane_ms"), rule)
            else:
                rule = f"panes are kept for the longest window plus one day, {self.retention_ms} ms, which {rule}"
                yield Conflict(("windows.windows", "windows.retention_ms", "windows.pane_ms"), rule)


def longest_ms(windows: tuple[Duration, ...]) -> int:
    """Return the length of the longest window in milliseconds; 0 if there is none."""
    return max((window.ms for window in windows), default=0)
