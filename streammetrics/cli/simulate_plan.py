"""From the words of `simulate` to the traffic that is meant, where it ends and how fast it goes. Pure; makes no event itself.

All that is wrong with the words is told at once, as problems of the options that held them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from streammetrics.config.fields import parse_duration
from streammetrics.connectors.simulated import Regression, SimulatedRecord, Traffic, Variant, generate
from streammetrics.errors import ConfigError, Problem
from streammetrics.events.fields import ts_of

STDOUT = Path("-")
FILE_MINUTES = 10.0
"""How much event time goes into files where nothing else bounds it."""

FILE_START_MS = Traffic().start_ms
"""Files begin at a fixed time, so that the same words give the same bytes on any day."""

_OPTIONS = {
    "users": "--users",
    "seed": "--seed",
    "impressions_per_second": "--rate",
    "items_per_list": "--items",
    "experiment": "--experiment",
    "variants": "--variant",
    "regression": "--regression",
    "interleaved": "--interleaved",
    "disorder_ms": "--disorder-ms",
    "duplicate_rate": "--duplicates",
    "late_rate": "--lates",
    "late_ms": "--late-ms",
    "malformed_rate": "--malformed",
    "feedback_without_id_rate": "--without-id",
}
"""What traffic depends on, by the options that stand for it."""


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
    interleaved: bool = False
    disorder_ms: int = 2_000
    duplicates: float = 0.0
    lates: float = 0.0
    late_ms: int = 300_000
    malformed: float = 0.0
    without_id: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatePlan:
    """What is to be made. `events_max` and `span_ms` are None where they bound nothing."""

    traffic: Traffic
    events_max: int | None
    span_ms: int | None
    in_real_time: bool

    def records(self) -> Iterator[SimulatedRecord]:
        """The traffic in order of arrival."""
        until_ms = None if self.span_ms is None else self.traffic.start_ms + self.span_ms
        return generate(self.traffic, self.events_max, until_ms)


def plan_of(wishes: SimulateOptions, topics: Sequence[str], now_ms: int) -> SimulatePlan:
    """What the wishes mean; `topics` are those of impressions and feedback (or one for both). Raises ConfigError.

    >>> plan = plan_of(SimulateOptions(out=(Path("events"),), variants=("a=0.5", "b=0.5:0.9")), ["shown", "done"], now_ms=0)
    >>> plan.span_ms, plan.in_real_time, plan.traffic.variants[1]
    (600000, False, Variant(name='b', share=0.5, quality=0.9))
    """
    problems = list(_place_problems(wishes))
    if wishes.kafka and len(topics) > 2:
        problems.append(Problem("kafka.topics", ",".join(topics), "simulate sends to one topic, or to two: impressions, then feedback"))
    variants = [_variant(given, problems) for given in wishes.variants]
    regression = _regression(wishes.regression, problems) if wishes.regression else None
    start_ms = _start_ms(wishes.start, now_ms, problems) if wishes.start else None
    in_real_time = wishes.pace == "real" or (wishes.pace is None and wishes.kafka)
    if problems:
        raise ConfigError(problems)
    minutes = FILE_MINUTES if not wishes.kafka and wishes.events is None and wishes.minutes is None else wishes.minutes
    with _naming_options():
        traffic = Traffic(
            users=wishes.users,
            seed=wishes.seed,
            start_ms=FILE_START_MS,
            impressions_per_second=wishes.rate,
            items_per_list=wishes.items,
            experiment=wishes.experiment,
            variants=tuple(variant for variant in variants if variant) or Traffic().variants,
            regression=regression,
            interleaved=wishes.interleaved,
            disorder_ms=wishes.disorder_ms,
            duplicate_rate=wishes.duplicates,
            late_rate=wishes.lates,
            late_ms=wishes.late_ms,
            malformed_rate=wishes.malformed,
            feedback_without_id_rate=wishes.without_id,
            impressions_topic=topics[0],
            feedback_topic=topics[-1],
        )
    plan = SimulatePlan(
        traffic=traffic,
        events_max=wishes.events,
        span_ms=None if minutes is None else max(1, round(minutes * 60_000)),
        in_real_time=in_real_time,
    )
    if start_ms is None:
        start_ms = _usual_start_ms(wishes, plan, now_ms)
    return dataclasses.replace(plan, traffic=dataclasses.replace(traffic, start_ms=start_ms))


@contextmanager
def _naming_options() -> Iterator[None]:
    """Let a ConfigError of traffic name options; the part of one that is wrong is named after it."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError([dataclasses.replace(problem, key=_option(problem.key)) for problem in error.problems]) from None


def _option(key: str) -> str:
    """The option of a key of traffic.

    >>> _option("items_per_list"), _option("variants.treatment.share")
    ('--items', '--variant treatment.share')
    """
    field, _, part = key.partition(".")
    return f"{_OPTIONS.get(field, field)} {part}".rstrip()


def _place_problems(wishes: SimulateOptions) -> Iterator[Problem]:
    given = " ".join([*(f"--out {path}" for path in wishes.out), *(["--kafka"] if wishes.kafka else [])])
    if not given:
        yield Problem("--out", "(none)", "say where events go: --out FILE, --out - for standard output, or --kafka")
    elif wishes.kafka and wishes.out:
        yield Problem("--kafka", given, "give --out or --kafka, not both")
    elif len(wishes.out) > 2:
        yield Problem("--out", given, "at most two: impressions, then feedback")
    elif len({path if path == STDOUT else path.resolve() for path in wishes.out}) < len(wishes.out):
        yield Problem("--out", given, "two different ones, or one for both")
    if wishes.kafka and wishes.pace == "fast" and wishes.events is None and wishes.minutes is None:
        yield Problem("--pace", "fast", "needs --events or --minutes, or it would never end")


def _variant(given: str, problems: list[Problem]) -> Variant | None:
    name, _, rest = given.rpartition("=")
    share, _, quality = rest.partition(":")
    try:
        return Variant(name, float(share), float(quality or 1))
    except ValueError:
        problems.append(Problem("--variant", given, "NAME=SHARE or NAME=SHARE:QUALITY, such as treatment=0.5:0.9"))
        return None


def _regression(given: str, problems: list[Problem]) -> Regression | None:
    words, _, after = given.partition("@")
    variant, _, factor = words.rpartition(":")
    try:
        return Regression(variant, float(factor), parse_duration(after).ms if after else 0)
    except ValueError:
        problems.append(Problem("--regression", given, "VARIANT:FACTOR or VARIANT:FACTOR@AFTER, such as treatment:0.85@600s"))
        return None


def _start_ms(given: str, now_ms: int, problems: list[Problem]) -> int | None:
    found = now_ms if given == "now" else ts_of(int(given) if re.fullmatch(r"[0-9]{1,15}", given) else given)
    if found is None:
        problems.append(Problem("--start", given, "now, epoch milliseconds, or ISO 8601 with a zone, such as 2024-11-21T10:00:00Z"))
    return found


def _usual_start_ms(wishes: SimulateOptions, plan: SimulatePlan, now_ms: int) -> int:
    """Real time begins now; a burst into Kafka ends now, for the log dates nothing into the future; files begin where they always do."""
    if plan.in_real_time:
        return now_ms
    if not wishes.kafka:
        return FILE_START_MS
    if plan.span_ms is not None:
        return now_ms - plan.span_ms
    return now_ms - (max(sent.ts for sent in plan.records()) - plan.traffic.start_ms)
