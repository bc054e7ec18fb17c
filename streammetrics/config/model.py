"""All settings as one frozen value, and the rules between its sections. No reading of files or environment happens here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Self, get_args, get_origin

from pydantic import Field, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from streammetrics.config.experiments import ExperimentSettings
from streammetrics.config.fields import MASK, Clash, MaskedUrl, Section, mask_url, shown
from streammetrics.config.infrastructure import ExporterSettings, HttpSettings, KafkaSettings, LogSettings, RedisSettings, WorkerSettings
from streammetrics.config.results import EventSettings, JoinSettings, MetricSettings, WindowSettings, longest_ms
from streammetrics.events.event_time import DAY_MS
from streammetrics.events.grades import parse_grades
from streammetrics.metrics import MetricError, Scorer, Spec

PREFIX = "STREAMMETRICS_"
STATE_BYTES_MAX = 500 << 20
"""How large what one user sends may become in a session, or in lists: Redis takes values of at most 512 MiB."""


class Settings(Section):
    """Every setting, validated. `Settings()` is the defaults; nothing outside is ever read.

    >>> Settings().join.gap_ms
    1800000
    """

    kafka: KafkaSettings = Field(default_factory=KafkaSettings, description="Where events come from, and where refused ones go.")
    redis: RedisSettings = Field(default_factory=RedisSettings, description="Where state, offsets and tallies live.")
    events: EventSettings = Field(
        default_factory=EventSettings, description="What an event may be. What exceeds a limit is refused and counted, never cut."
    )
    join: JoinSettings = Field(default_factory=JoinSettings, description="Sessions, watermarks, and what feedback is worth.")
    metrics: MetricSettings = Field(default_factory=MetricSettings, description="What is computed of a list.")
    windows: WindowSettings = Field(default_factory=WindowSettings, description="What lists are summed over.")
    experiments: ExperimentSettings = Field(
        default_factory=ExperimentSettings, description="How variants of experiments are compared, user by user."
    )
    worker: WorkerSettings = Field(default_factory=WorkerSettings, description="The process that consumes.")
    http: HttpSettings = Field(default_factory=HttpSettings, description="The port.")
    exporter: ExporterSettings = Field(default_factory=ExporterSettings, description="What Prometheus sees.")
    log: LogSettings = Field(default_factory=LogSettings, description="What the process says of itself.")

    @model_validator(mode="after")
    def _work_together(self) -> Self:
        if found := tuple(self.clashes()):
            text = "; ".join(f"{clash.keys[0]}: {clash.rule}" for clash in found)
            raise PydanticCustomError("clash", "{text}", {"text": text, "clashes": found})
        return self

    def clashes(self) -> Iterator[Clash]:
        """Settings that are fine alone and cannot work together, of all sections and between them."""
        yield from self.kafka.clashes()
        yield from self.redis.clashes()
        yield from self.windows.clashes()
        yield from self.http.clashes()
        if (deepest := max(self.metrics.cutoffs)) > self.events.items_max:
            yield Clash(("metrics.cutoffs", "events.items_max"), f"{deepest} exceeds events.items_max ({self.events.items_max})")
        if (best := parse_grades(self.join.grades).grades[-1]) < self.metrics.relevant_grade:
            rule = f"must be at most the greatest grade in join.grades, {best}: nothing could be relevant"
            yield Clash(("metrics.relevant_grade", "join.grades"), rule)
        else:
            yield from self._clashes_of_scores()
        yield from self._clashes_of_labels()
        yield from self._clashes_of_experiments()

    def scorer(self) -> Scorer:
        """The metrics at all cut-offs. Raises MetricError where their whole numbers could overflow, which `clashes` has told before."""
        metrics = self.metrics
        return Scorer(
            [f"{name}@{k}" for name in metrics.names for k in metrics.cutoffs],
            spec=Spec(gain=metrics.gain, relevance_threshold=metrics.relevant_grade),
            items_max=self.events.items_max,
            grade_max=parse_grades(self.join.grades).grades[-1],
        )

    def _clashes_of_scores(self) -> Iterator[Clash]:
        try:
            self.scorer()
        except MetricError as error:
            keys = ("join.grades", "metrics.names", "metrics.gain", "metrics.cutoffs", "events.items_max")
            too_great = "the greatest grade is too great where 2^grade is earned (ndcg_exp, and metrics.gain = exp2)"
            yield Clash(keys, f"{too_great}: {error.rule}" if error.subject == "grade_max" else str(error))

    def _clashes_of_labels(self) -> Iterator[Clash]:
        """Labels that no event can carry: what is said of them would never matter, and nobody would hear why."""
        limit, trials = self.events.label_chars_max, self.experiments.named
        variants = [variant for trial in trials.values() for variant in (trial.control, *(trial.shares or ())) if variant]
        for key, labels in (("windows.segments", self.windows.segments), ("experiments.named", [*trials, *variants])):
            if too_long := next((label for label in labels if len(label) > limit), None):
                rule = f"{shown(too_long)} has {len(too_long)} characters, and no event may carry it: events.label_chars_max is {limit}"
                yield Clash((key, "events.label_chars_max"), rule)

    def _clashes_of_experiments(self) -> Iterator[Clash]:
        known = tuple(f"{name}@{k}" for name in self.metrics.names for k in self.metrics.cutoffs)
        chosen = self.experiments.metrics or known
        users = tuple(f"user_{name}" for name in chosen if name.startswith("hit_rate@"))
        yield from self.experiments.clashes(known, (*chosen, *users))
        waits_ms = self.join.attribution_ms + self.experiments.patience_ms + self.windows.pane_ms
        if self.experiments.idle_days * DAY_MS <= waits_ms:
            rule = (
                "must be more than join.attribution_ms and experiments.patience_ms together: an experiment would end before its lists enter"
            )
            yield Clash(("experiments.idle_days", "join.attribution_ms", "experiments.patience_ms", "windows.pane_ms"), rule)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What works, but probably not as meant: one sentence each."""
        return (*self.kafka.advice(), *self.redis.advice(), *self.join.advice(), *self.http.advice(), *self._between())

    def _between(self) -> Iterator[str]:
        bounds = (
            ("join.lists_open_max", self.join.lists_open_max, "lists"),
            ("join.session_events_max", self.join.session_events_max, "events"),
        )
        for key, count, of_what in bounds:
            if count * self.events.event_bytes_max > STATE_BYTES_MAX:
                yield (
                    f"{key} ({count}) {of_what} of events.event_bytes_max ({self.events.event_bytes_max}) bytes are more than"
                    f" {STATE_BYTES_MAX >> 20} MiB: who sends that much as one user makes a state that Redis cannot"
                    " take, and stops its task"
                )
        behind_ms = self.join.lateness_ms + self.join.attribution_ms
        if self.windows.retention_ms < longest_ms(self.windows.windows) + behind_ms + self.windows.pane_ms:
            yield (
                f"windows.retention_ms ({self.windows.retention_ms}) is less than the longest window, a pane, join.lateness_ms and"
                " join.attribution_ms together: that window's first panes are gone before it is final, and its final numbers never appear"
            )


@dataclass(frozen=True, slots=True)
class SettingKey:
    """What is known of one setting: the table behind validation messages, the environment, and the reference file."""

    name: str
    describes: str
    allowed: str
    default: Any
    default_told: str
    is_secret: bool

    def shown(self, value: object) -> str:
        """A value of this key, given or effective, for a message: of a secret nothing but the place that a URL names."""
        if not self.is_secret or value is None or value == "":
            return shown(value)
        if isinstance(value, MaskedUrl):
            return shown(str(value))
        is_url = isinstance(self.default, MaskedUrl) and isinstance(value, str)
        return shown(mask_url(str(value))) if is_url else MASK

    @property
    def section(self) -> str:
        return self.name.partition(".")[0]

    @property
    def leaf(self) -> str:
        return self.name.partition(".")[2]


@cache
def keys() -> Mapping[str, SettingKey]:
    """Every setting by its dotted name, in the order of the reference."""
    defaults = Settings()
    found = {}
    for section in Settings.model_fields:
        values = getattr(defaults, section)
        for leaf, info in type(values).model_fields.items():
            found[f"{section}.{leaf}"] = _key(f"{section}.{leaf}", info, getattr(values, leaf))
    return found


def environment_name(key: str) -> str:
    """The environment variable of a key.

    >>> environment_name("join.gap_ms")
    'STREAMMETRICS_JOIN_GAP_MS'
    """
    return PREFIX + key.upper().replace(".", "_")


def _key(name: str, info: FieldInfo, default: Any) -> SettingKey:
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    return SettingKey(
        name=name,
        describes=info.description or "",
        allowed=str(extra.get("allowed") or _allowed(info.annotation)),
        default=default,
        default_told=str(extra.get("default", "")),
        is_secret="Secret" in str(info.annotation) or isinstance(default, MaskedUrl),
    )


def _allowed(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(choice or '"" (none)' for choice in get_args(annotation))
    return "true or false"
