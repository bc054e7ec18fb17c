"""Turns the options of `simulate` into a plan: the traffic, where it ends, and how fast it is sent. Pure.

All invalid options are reported together, each as a problem of its option.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from streammetrics.config.times import parse_duration
from streammetrics.connectors.simulated import Ramp, Regression, SimulatedRecord, Traffic, Variant, generate
from streammetrics.errors import ConfigError, Problem
from streammetrics.events.fields import ts_of

STDOUT = Path("-")
FILE_MINUTES = 10.0
"""Default length of files in event time."""

FILE_START_MS = Traffic().start_ms
"""Files begin at a fixed time, so that the same options give the same bytes on any day."""

_OPTIONS = {
    "users": "--users",
    "seed": "--seed",
    "impressions_per_second": "--rate",
    "items_per_list": "--items",
    "experiment": "--experiment",
    "variants": "--variant",
    "regression": "--regression",
    "ramps": "--ramp",
    "interleaved": "--interleaved",
    "exposures": "--exposures",
    "disorder_ms": "--disorder-ms",
    "duplicate_rate": "--duplicates",
    "late_rate": "--lates",
    "late_ms": "--late-ms",
    "malformed_rate": "--malformed",
    "feedback_without_id_rate": "--without-id",
}
"""The option that sets each field of Traffic, for error messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions:
    """The options of `simulate`, as they were given."""

    out: tuple[Path, ...] = ()
    kafka: bool = False
    events: int | None = None
    minutes: float | None = None
    pace: Literal["fast", "real"] | None = None
    start: str | None = None
    seed: int = 1
    users: int = 20_000
    rate: float = 20.0
    items: int = 12
    experiment: str = "ranker"
    variants: tuple[str, ...] = ()
    regression: str | None = None
    ramps: Sequence[str] = ()
    interleaved: bool = False
    exposures: bool = False
    disorder_ms: int = 2_000
    duplicates: float = 0.0
    lates: float = 0.0
    late_ms: int = 300_000
    malformed: float = 0.0
    without_id: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatePlan:
    """What to send. `events_max` and `span_ms` are None if they set no limit."""

    traffic: Traffic
    events_max: int | None
    span_ms: int | None
    in_real_time: bool

    @property
    def topics(self) -> set[str]:
        """The topics that get records."""
        traffic = self.traffic
        return {traffic.impressions_topic, traffic.feedback_topic, *([traffic.exposures_topic] if traffic.exposures else [])}

    def records(self) -> Iterator[SimulatedRecord]:
        """Return the records in order of arrival."""
        until_ms = None if self.span_ms is None else self.traffic.start_ms + self.span_ms
        return generate(self.traffic, self.events_max, until_ms)


def plan_of(options: SimulateOptions, topics: Sequence[str], now_ms: int) -> SimulatePlan:
    """Build the plan. `topics` are those of impressions, feedback and exposures, or one for all. Raises ConfigError.

    >>> plan = plan_of(SimulateOptions(out=(Path("events"),), variants=("a=0.5", "b=0.5:0.9")), ["shown", "done"], now_ms=0)
    >>> plan.span_ms, plan.in_real_time, plan.traffic.variants[1]
    (600000, False, Variant(name='b', share=0.5, quality=0.9))
    """
    problems = list(_place_problems(options))
    if options.kafka and (rule := _places_rule(options, len(topics), "topic")):
        problems.append(Problem("kafka.topics", ",".join(topics), f"simulate needs {rule}"))
    variants = [_variant(given, problems) for given in options.variants]
    regression = _regression(options.regression, problems) if options.regression else None
    ramps = [_ramp(given, problems) for given in options.ramps]
    start_ms = _start_ms(options.start, now_ms, problems) if options.start else None
    in_real_time = options.pace == "real" or (options.pace is None and options.kafka)
    if problems:
        raise ConfigError(problems)
    minutes = FILE_MINUTES if not options.kafka and options.events is None and options.minutes is None else options.minutes
    with _naming_options():
        traffic = Traffic(
            users=options.users,
            seed=options.seed,
            start_ms=FILE_START_MS,
            impressions_per_second=options.rate,
            items_per_list=options.items,
            experiment=options.experiment,
            variants=tuple(variant for variant in variants if variant) or Traffic().variants,
            regression=regression,
            ramps=tuple(ramp for ramp in ramps if ramp is not None),
            interleaved=options.interleaved,
            exposures=options.exposures,
            disorder_ms=options.disorder_ms,
            duplicate_rate=options.duplicates,
            late_rate=options.lates,
            late_ms=options.late_ms,
            malformed_rate=options.malformed,
            feedback_without_id_rate=options.without_id,
            impressions_topic=topics[0],
            feedback_topic=topics[min(1, len(topics) - 1)],
            exposures_topic=topics[-1],
        )
    plan = SimulatePlan(
        traffic=traffic,
        events_max=options.events,
        span_ms=None if minutes is None else max(1, round(minutes * 60_000)),
        in_real_time=in_real_time,
    )
    if start_ms is None:
        start_ms = _default_start_ms(options, plan, now_ms)
    return dataclasses.replace(plan, traffic=dataclasses.replace(traffic, start_ms=start_ms))


@contextmanager
def _naming_options() -> Iterator[None]:
    """Rename the keys in a ConfigError of Traffic to options."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError([dataclasses.replace(problem, key=_option(problem.key)) for problem in error.problems]) from None


def _option(key: str) -> str:
    """Return the option for a key of Traffic.

    >>> _option("items_per_list"), _option("variants.treatment.share")
    ('--items', '--variant treatment.share')
    """
    field, _, part = key.partition(".")
    return f"{_OPTIONS.get(field, field)} {part}".rstrip()


def _place_problems(options: SimulateOptions) -> Iterator[Problem]:
    given = " ".join([*(f"--out {path}" for path in options.out), *(["--kafka"] if options.kafka else [])])
    if not given:
        yield Problem("--out", "(none)", "give a destination: --out FILE, --out - for standard output, or --kafka")
    elif options.kafka and options.out:
        yield Problem("--kafka", given, "give either --out or --kafka")
    elif rule := _places_rule(options, len(options.out), "--out"):
        yield Problem("--out", given, f"give {rule}")
    elif len({path if path == STDOUT else path.resolve() for path in options.out}) < len(options.out):
        yield Problem("--out", given, "give different files, or one for all events")
    if options.kafka and options.pace == "fast" and options.events is None and options.minutes is None:
        yield Problem("--pace", "fast", "requires --events or --minutes; otherwise it would never end")


def _places_rule(options: SimulateOptions, count: int, place: str) -> str | None:
    """Return which places the traffic needs, if their number is wrong. `place` is what they are."""
    if options.exposures:
        return None if count in (0, 1, 3) else f"one {place} for all events, or three: impressions, feedback, exposures"
    rule = f"one {place} for all events, or two: impressions, then feedback"
    return None if count < 3 else f"{rule} (with --exposures, a third)" if count == 3 else rule


def _variant(given: str, problems: list[Problem]) -> Variant | None:
    name, _, rest = given.rpartition("=")
    share, _, quality = rest.partition(":")
    try:
        return Variant(name, float(share), float(quality or 1))
    except ValueError:
        problems.append(Problem("--variant", given, "must be NAME=SHARE or NAME=SHARE:QUALITY, such as treatment=0.5:0.9"))
        return None


def _regression(given: str, problems: list[Problem]) -> Regression | None:
    words, _, after = given.partition("@")
    variant, _, factor = words.rpartition(":")
    try:
        return Regression(variant, float(factor), parse_duration(after).ms if after else 0)
    except ValueError:
        problems.append(Problem("--regression", given, "must be VARIANT:FACTOR or VARIANT:FACTOR@AFTER, such as treatment:0.85@600s"))
        return None


def _ramp(given: str, problems: list[Problem]) -> Ramp | None:
    share, _, after = given.partition("@")
    try:
        return Ramp(float(share), parse_duration(after).ms if after else 0)
    except ValueError:
        problems.append(Problem("--ramp", given, "must be SHARE@AFTER, such as 0.5@30m"))
        return None


def _start_ms(given: str, now_ms: int, problems: list[Problem]) -> int | None:
    found = now_ms if given == "now" else ts_of(int(given) if re.fullmatch(r"[0-9]{1,15}", given) else given)
    if found is None:
        problems.append(Problem("--start", given, "must be now, epoch milliseconds, or ISO-8601 with a zone, such as 2024-11-21T10:00:00Z"))
    return found


def _default_start_ms(options: SimulateOptions, plan: SimulatePlan, now_ms: int) -> int:
    """Return the default start: now in real time; for a burst to Kafka so that it ends now; else the fixed start of files."""
    if plan.in_real_time:
        return now_ms
    if not options.kafka:
        return FILE_START_MS
    if plan.span_ms is not None:
        return now_ms - plan.span_ms
    return now_ms - (max(sent.ts for sent in plan.records()) - plan.traffic.start_ms)
