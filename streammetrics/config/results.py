"""Settings that decide results: events, the join, metrics and windows. Two runs that agree in these give the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from streammetrics.config.fields import (
    MS_MAX,
    Clash,
    Duration,
    DurationField,
    Grades,
    Listed,
    Number,
    OptionalText,
    Section,
    Segment,
    Whole,
    WholeOrOff,
    milliseconds,
    parse_duration,
    setting,
    shown,
    whole,
)
from streammetrics.events.event_time import DAY_MS
from streammetrics.events.grades import DEFAULT_GRADES
from streammetrics.events.model import EventLimits
from streammetrics.metrics import METRIC_NAMES

PANES_MAX = 100_000
"""Most panes that a retention may span: a group costs one tally a pane."""


def _metric(name: str) -> str:
    if name not in METRIC_NAMES:
        cutoff = ", and its cut-off belongs in metrics.cutoffs" if "@" in name else ""
        raise ValueError(f"{shown(name)} is none of them{cutoff}")
    return name


MetricName = Annotated[str, AfterValidator(_metric)]

_LIMITS = EventLimits()


class EventSettings(Section):
    format: Literal["native", "ubi"] = setting("native", "Whose events: the native schema, or OpenSearch User Behavior Insights 1.3.")
    ubi_lists: Literal["impressions", "hit_ids"] = setting(
        "impressions", "With ubi: lists from item-level impression events, or from the hit ids of a query's response, where it has some."
    )
    ubi_user: Literal["client_id", "session_id", "user_id"] = setting("client_id", "With ubi: the field that says whose event it is.")
    ubi_experiment: OptionalText = setting(
        None, "With ubi: the name of the experiment whose variant the events carry.", "a name, or empty for none"
    )
    ubi_value: OptionalText = setting(
        None, "With ubi: the field of an event or its attributes that holds the value of a feedback.", "a field's name, or empty for none"
    )
    event_bytes_max: Whole = whole(_LIMITS.event_bytes_max, "Most bytes of an event.", 1, 104_857_600)
    items_max: Whole = whole(_LIMITS.items_max, "Most items of a list, of its fragments together too.", 1, 100_000)
    experiments_max: Whole = whole(_LIMITS.experiments_max, "Most experiments of a list.", 0, 1_000)
    segments_max: Whole = whole(_LIMITS.segments_max, "Most segments of a list.", 0, 1_000)
    id_chars_max: Whole = whole(_LIMITS.id_chars_max, "Most characters of an id.", 1, 65_536)
    label_chars_max: Whole = whole(
        _LIMITS.label_chars_max, "Most characters of an action, or of an experiment's, variant's or segment's name or value.", 1, 4_096
    )

    @property
    def limits(self) -> EventLimits:
        """The limits alone, as the decoders take them."""
        return EventLimits(**{name: getattr(self, name) for name in EventLimits.__struct_fields__})


class JoinSettings(Section):
    gap_ms: Whole = milliseconds(1_800_000, "Longest pause within a session, inclusive.")
    attribution_ms: Whole = milliseconds(1_800_000, "Longest time from a list to feedback that counts for it, inclusive.")
    out_of_orderness_ms: Whole = milliseconds(5_000, "How far the watermark stays behind the newest event of an input.")
    lateness_ms: Whole = milliseconds(60_000, "How far behind the watermark an event may be and still be joined.")
    idle_ms: Whole = milliseconds(30_000, "Silence after which an input that is read to its end no longer holds the watermark.")
    future_ms: WholeOrOff = milliseconds(
        3_600_000,
        "How far an event may be dated after its record's own timestamp; beyond it is refused. Lines of a file have no timestamp.",
        unless=", or off",
    )
    skew_ms_max: Whole = milliseconds(
        3_600_000,
        "How far an input may run ahead of its task's slowest that is not idle, or of the watermark if that is later; then it is paused.",
    )
    session_events_max: Whole = whole(2_000, "Most events of a session; then it is sealed, and further ones are counted.", 1, 1_000_000)
    lists_open_max: Whole = whole(1_000, "Most open lists of a user.", 1, 1_000_000)
    grades: Grades = setting(
        DEFAULT_GRADES,
        "What a feedback is worth to its item: action=grade, or action>=threshold=grade (or >) on the feedback's value."
        " The greatest grade that holds counts. Where 2^grade is earned (ndcg_exp, metrics.gain = exp2), grades go to about 15.",
        "rules separated by commas, with grades from 0 to 100",
    )

    def advice(self) -> Iterator[str]:
        """What works, but probably not as meant."""
        if self.attribution_ms > self.gap_ms:
            yield (
                f"join.attribution_ms ({self.attribution_ms}) exceeds join.gap_ms ({self.gap_ms}): a session can close, and its lists"
                " become final, before the attribution time is over"
            )


class MetricSettings(Section):
    names: Annotated[Listed[MetricName], Field(min_length=1)] = setting(
        ("ndcg", "mrr", "hit_rate", "item_hit_rate", "precision", "recall", "map", "dcg"),
        "The metrics to compute.",
        f"a list of distinct names out of {', '.join(METRIC_NAMES)}",
    )
    cutoffs: Annotated[Listed[Annotated[Whole, Field(ge=1)]], Field(min_length=1, max_length=32)] = setting(
        (5, 10, 20),
        "The cut-offs k: how many places from the top a metric looks at.",
        "a list of 1 to 32 distinct numbers from 1 to events.items_max",
    )
    gain: Literal["linear", "exp2"] = setting("linear", "The gain of a grade g: g, or 2^g - 1. (ndcg_exp has the second whatever is set.)")
    relevant_grade: Number = setting(
        1,
        "The least grade that makes an item relevant, for the metrics that only tell relevant from not.",
        "a number above 0, at most the greatest grade of join.grades",
        gt=0,
        le=100,
    )


class WindowSettings(Section):
    pane_ms: Whole = milliseconds(60_000, "The smallest interval of event time that is tallied.", least=1, most=DAY_MS)
    windows: Annotated[Listed[DurationField], Field(min_length=1, max_length=16)] = setting(
        (parse_duration("5m"), parse_duration("1h")),
        "The spans that a gauge covers, each a whole number of panes.",
        "a list of 1 to 16 distinct durations such as 30s, 5m, 1h, 7d, or a number of ms",
    )
    retention_ms: Whole = Field(
        default_factory=lambda valid: longest_ms(valid.get("windows", ())) + DAY_MS,
        ge=1,
        le=2 * MS_MAX,
        description="How long panes stay in the store behind the watermark.",
        json_schema_extra={
            "allowed": f"a whole number, at least the longest window, at most {PANES_MAX} panes",
            "default": "the longest window and a day",
        },
    )
    users: Literal["auto", "on", "off"] = setting(
        "auto",
        "Whether the distinct users of every window are counted, in all traffic and in each variant: window_users and user_hit_rate."
        " auto: where experiments.enabled has users looked at anyway, so that it costs little. user_hit_rate is there if hit_rate is in"
        " metrics.names.",
    )
    segments: Annotated[Listed[Segment], Field(max_length=32)] = setting(
        (), "Segments that get tallies of their own, one at a time, never crossed.", "a list of at most 32 distinct names without ="
    )
    groups_max: Whole = whole(
        1_000, "Most groups (experiment, variant, segment value) that a task has within windows.retention_ms.", 1, 1_000_000
    )

    def clashes(self) -> Iterator[Clash]:
        """What cannot work together in this section."""
        for window in self.windows:
            if window.ms % self.pane_ms:
                rule = f"{window} ({window.ms} ms) is not a whole number of panes: windows.pane_ms is {self.pane_ms}"
                yield Clash(("windows.windows", "windows.pane_ms"), rule)
        if self.retention_ms < longest_ms(self.windows):
            rule = f"must be at least the longest window in windows.windows, {longest_ms(self.windows)} ms"
            yield Clash(("windows.retention_ms", "windows.windows"), rule)
        if self.retention_ms > PANES_MAX * self.pane_ms:
            least_ms = -(-self.retention_ms // PANES_MAX)
            rule = f"must be at most {PANES_MAX} panes of windows.pane_ms = {self.pane_ms}; set windows.pane_ms to at least {least_ms}"
            if "retention_ms" in self.model_fields_set:
                yield Clash(("windows.retention_ms", "windows.windows", "windows.pane_ms"), rule)
            else:
                rule = f"panes are kept for the longest and a day, {self.retention_ms} ms, which {rule}"
                yield Clash(("windows.windows", "windows.retention_ms", "windows.pane_ms"), rule)


def longest_ms(windows: tuple[Duration, ...]) -> int:
    """The length of the longest of some windows in milliseconds; 0 where none is known to be good."""
    return max((window.ms for window in windows), default=0)
