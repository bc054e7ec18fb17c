"""All settings as one frozen value, and the rules between its sections. Reads no file and no environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Self, get_args, get_origin

import msgspec
from pydantic import Field, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from streammetrics.config.experiments import ExperimentSettings, ExposureSettings
from streammetrics.config.fields import MASK, Conflict, MaskedUrl, Section, mask_url, value_text
from streammetrics.config.kafka import KafkaSettings
from streammetrics.config.metrics import AssessmentSettings, EngagementSettings, MetricSettings
from streammetrics.config.redis import RedisSettings
from streammetrics.config.results import EventSettings, JoinSettings, WindowSettings, longest_ms
from streammetrics.config.worker import ClientSettings, ExporterSettings, HttpSettings, LogSettings, WorkerSettings
from streammetrics.events.event_time import DAY_MS
from streammetrics.events.grades import parse_grades
from streammetrics.events.model import EventLimits
from streammetrics.metrics import MetricError, Scorer
from streammetrics.metrics.names import metric_text
from streammetrics.metrics.records import depends_on

PREFIX = "STREAMMETRICS_"
STATE_BYTES_MAX = 500 << 20
"""Maximum size of the events or lists that one user may store. Redis limits a value to 512 MiB."""


class Settings(Section):
    """Every setting, validated. `Settings()` has the defaults.

    >>> Settings().join.gap_ms
    1800000
    """

    kafka: KafkaSettings = Field(default_factory=KafkaSettings, description="Where events come from, and where refused events go.")
    redis: RedisSettings = Field(default_factory=RedisSettings, description="Where state, offsets and tallies are stored.")
    events: EventSettings = Field(
        default_factory=EventSettings,
        description="How records are read, and limits of events. An event that exceeds a limit is refused and counted, never shortened.",
    )
    join: JoinSettings = Field(default_factory=JoinSettings, description="Sessions, watermarks and grades.")
    metrics: MetricSettings = Field(default_factory=MetricSettings, description="Metrics to compute for each list.")
    engagement: EngagementSettings = Field(
        default_factory=EngagementSettings, description="Metrics of what users do with lists: empty lists, first clicks, purchases."
    )
    assessment: AssessmentSettings = Field(
        default_factory=AssessmentSettings, description="Metrics of what lists show, whatever users do: diversity, novelty, popularity."
    )
    windows: WindowSettings = Field(
        default_factory=WindowSettings, description="Panes and windows: the spans of event time that results cover."
    )
    exposures: ExposureSettings = Field(
        default_factory=ExposureSettings, description="Exposures: which variant of an experiment a user was given, as events of their own."
    )
    experiments: ExperimentSettings = Field(default_factory=ExperimentSettings, description="How the variants of experiments are compared.")
    worker: WorkerSettings = Field(default_factory=WorkerSettings, description="The process that consumes events.")
    http: HttpSettings = Field(default_factory=HttpSettings, description="The HTTP port.")
    exporter: ExporterSettings = Field(default_factory=ExporterSettings, description="The series for Prometheus.")
    client: ClientSettings = Field(default_factory=ClientSettings, description="The exporter that other commands ask.")
    log: LogSettings = Field(default_factory=LogSettings, description="Logs of the process, on standard error.")

    @model_validator(mode="after")
    def _no_conflicts(self) -> Self:
        if conflicts := tuple(self.conflicts()):
            text = "; ".join(f"{conflict.keys[0]}: {conflict.rule}" for conflict in conflicts)
            raise PydanticCustomError("conflict", "{text}", {"text": text, "conflicts": conflicts})
        return self

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the settings that contradict each other, within a section or between sections."""
        yield from self.kafka.conflicts()
        yield from self.redis.conflicts()
        yield from self.exposures.conflicts()
        yield from self.windows.conflicts()
        yield from self.http.conflicts()
        yield from self.client.conflicts()
        if (deepest := max(self.metrics.cutoffs)) > self.events.items_max:
            yield Conflict(("metrics.cutoffs", "events.items_max"), f"{deepest} exceeds events.items_max ({self.events.items_max})")
        if (highest := parse_grades(self.join.grades).grades[-1]) < self.metrics.relevant_grade:
            rule = f"must be at most the highest grade in join.grades, {highest}: otherwise no item could be relevant"
            yield Conflict(("metrics.relevant_grade", "join.grades"), rule)
        elif conflicts := [Conflict(*conflict) for conflict in self.metrics.conflicts_with(self.join.grades)]:
            yield from conflicts
        else:
            yield from self._conflicts_of_scores()
        yield from self._conflicts_of_engagement()
        yield from self.assessment.conflicts(self.events.items_max)
        yield from self._conflicts_of_labels()
        yield from self._conflicts_of_experiments()

    @property
    def event_limits(self) -> EventLimits:
        """Limits in the form that decoders take."""
        return msgspec.structs.replace(self.events.limits, exposures=self.exposures.enabled)

    def scorer(self) -> Scorer:
        """Return the scorer for all metrics and cut-offs. Raises MetricError if its integers could overflow; see `conflicts`."""
        metrics = self.metrics
        return Scorer(
            metrics.metrics,
            spec=metrics.spec,
            items_max=self.events.items_max,
            grade_max=parse_grades(self.join.grades).grades[-1],
        )

    def _conflicts_of_scores(self) -> Iterator[Conflict]:
        try:
            self.scorer()
        except MetricError as error:
            keys = ("join.grades", "metrics.names", "metrics.gain", "metrics.cutoffs", "events.items_max")
            too_high = "the highest grade is too high for exponential gain (ndcg_exp, or metrics.gain = exp2)"
            yield Conflict(keys, f"{too_high}: {error.rule}" if error.subject == "grade_max" else str(error))

    def _conflicts_of_engagement(self) -> Iterator[Conflict]:
        engagement, grades = self.engagement, parse_grades(self.join.grades)
        if not engagement.names:
            return
        if (deepest := max(engagement.click_ranks)) > self.events.items_max:
            yield Conflict(("engagement.click_ranks", "events.items_max"), f"{deepest} exceeds events.items_max ({self.events.items_max})")
        if depends_on(engagement.names, "satisfied_grade") and engagement.satisfied_grade > grades.grades[-1]:
            rule = f"must be at most the highest grade in join.grades, {grades.grades[-1]}: otherwise no list could satisfy"
            yield Conflict(("engagement.satisfied_grade", "join.grades"), rule)
        if depends_on(engagement.names, "purchases"):
            for action in engagement.purchases:
                if not any(rule.grade > 0 for rule in grades.table.get(action, ())):
                    rule = f"{value_text(action)} needs a grade above 0 in join.grades: otherwise it never counts"
                    yield Conflict(("engagement.purchases", "join.grades"), rule)
        if "reformulation_ms" in engagement.model_fields_set and engagement.reformulation_ms > self.join.attribution_ms:
            rule = f"must be at most join.attribution_ms ({self.join.attribution_ms}): a final list may not change"
            yield Conflict(("engagement.reformulation_ms", "join.attribution_ms"), rule)

    def _conflicts_of_labels(self) -> Iterator[Conflict]:
        """Yield labels that are too long for any event: settings for them would have no effect."""
        limit, trials = self.events.label_chars_max, self.experiments.named
        variants = [variant for trial in trials.values() for variant in (trial.control, *(trial.shares or ())) if variant]
        for key, labels in (("windows.segments", self.windows.segments), ("experiments.named", [*trials, *variants])):
            if too_long := next((label for label in labels if len(label) > limit), None):
                rule = f"{value_text(too_long)} has {len(too_long)} characters, but events.label_chars_max is {limit}: no event can have it"
                yield Conflict((key, "events.label_chars_max"), rule)

    def _conflicts_of_experiments(self) -> Iterator[Conflict]:
        measured = (*self.metrics.metrics, *self.engagement.measured)
        metrics = tuple(map(str, measured))
        chosen = self.experiments.metrics or metrics
        of_users = ((metric, metric.record.of_users) for metric in measured if str(metric) in chosen)
        users = tuple(metric_text(name, metric.k) for metric, name in of_users if name)
        yield from self.experiments.conflicts(metrics, (*chosen, *users))
        waits_ms = self.join.attribution_ms + self.experiments.patience_ms + self.windows.pane_ms
        if self.experiments.idle_days * DAY_MS <= waits_ms:
            rule = "must be more than join.attribution_ms plus experiments.patience_ms: an experiment would end before its lists are added"
            yield Conflict(("experiments.idle_days", "join.attribution_ms", "experiments.patience_ms", "windows.pane_ms"), rule)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about settings that are valid but probably not intended, one sentence each."""
        return (
            *self.kafka.advice(),
            *self.redis.advice(),
            *self.worker.advice(),
            *self.join.advice(),
            *self.http.advice(),
            *self.client.advice(),
            *self._between(),
        )

    def _between(self) -> Iterator[str]:
        bounds = (
            ("join.lists_open_max", self.join.lists_open_max, "lists"),
            ("join.session_events_max", self.join.session_events_max, "events"),
        )
        for key, count, unit in bounds:
            if count * self.events.event_bytes_max > STATE_BYTES_MAX:
                yield (
                    f"{key} ({count}) {unit} of events.event_bytes_max ({self.events.event_bytes_max}) bytes are more than"
                    f" {STATE_BYTES_MAX >> 20} MiB: one user with that much data exceeds the Redis limit for a value and stops"
                    " the task"
                )
        behind_ms = self.join.lateness_ms + self.join.attribution_ms
        if self.windows.retention_ms < longest_ms(self.windows.windows) + behind_ms + self.windows.pane_ms:
            yield (
                f"windows.retention_ms ({self.windows.retention_ms}) is less than the longest window plus windows.pane_ms,"
                " join.lateness_ms and join.attribution_ms: the first panes of that window are deleted before it is final, so its final"
                " numbers never appear"
            )


@dataclass(frozen=True, slots=True)
class SettingKey:
    """Description of one setting, used by validation messages, the environment and the reference file."""

    name: str
    description: str
    allowed: str
    default: Any
    default_text: str
    is_secret: bool

    def value_text(self, value: object) -> str:
        """Return a value of this key as text for a message. Secrets are masked; of a URL with a login only the place is shown."""
        if not self.is_secret or value is None or value == "":
            has_login = isinstance(value, str) and "://" in value and "@" in value
            return value_text(mask_url(str(value)) if has_login else value)
        if isinstance(value, MaskedUrl):
            return value_text(str(value))
        is_url = isinstance(self.default, MaskedUrl) and isinstance(value, str)
        return value_text(mask_url(str(value))) if is_url else MASK

    @property
    def section(self) -> str:
        return self.name.partition(".")[0]

    @property
    def leaf(self) -> str:
        return self.name.partition(".")[2]


@cache
def keys() -> Mapping[str, SettingKey]:
    """Return every setting by its dotted name, in the order of the reference file."""
    defaults = Settings()
    by_name = {}
    for section in Settings.model_fields:
        values = getattr(defaults, section)
        for leaf, info in type(values).model_fields.items():
            by_name[f"{section}.{leaf}"] = _key(f"{section}.{leaf}", info, getattr(values, leaf))
    return by_name


def environment_name(key: str) -> str:
    """Return the environment variable of a key.

    >>> environment_name("join.gap_ms")
    'STREAMMETRICS_JOIN_GAP_MS'
    """
    return PREFIX + key.upper().replace(".", "_")


def _key(name: str, info: FieldInfo, default: Any) -> SettingKey:
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    return SettingKey(
        name=name,
        description=info.description or "",
        allowed=str(extra.get("allowed") or _allowed(info.annotation)),
        default=default,
        default_text=str(extra.get("default", "")),
        is_secret="Secret" in str(info.annotation) or isinstance(default, MaskedUrl),
    )


def _allowed(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(choice or '"" (none)' for choice in get_args(annotation))
    return "true or false"
