"""Turns the options of `simulate` into a plan: the traffic, and where it ends. Pure.

All invalid options are reported together, each as a problem of its option.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from streammetrics.connectors.simulated import SimulatedRecord, Traffic, Variant, generate
from streammetrics.errors import ConfigError, Problem

STDOUT = Path("-")
FILE_MINUTES = 10.0
"""Default length of files in event time."""

FILE_START_MS = Traffic().start_ms
"""Files begin at a fixed time, so that the same options give the same bytes on any day."""

_OPTIONS = {
    "users": "--users",
    "seed": "--seed",
    "start_ms": "--start",
    "impressions_per_second": "--rate",
    "variants": "--variant",
    "interleaved": "--interleaved",
}
"""The option that sets each field of Traffic, for error messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions:
    """The options of `simulate`, as they were given. `start_ms`: time of the first event (epoch ms); None: the default."""

    out: tuple[Path, ...] = ()
    kafka: bool = False
    minutes: float | None = None
    start_ms: int | None = None
    seed: int = 1
    users: int = 20_000
    rate: float = 20.0
    variants: tuple[str, ...] = ()
    interleaved: bool = False
    exposures: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatePlan:
    """What to send. `span_ms` is the length in event time; None: no limit."""

    traffic: Traffic
    span_ms: int | None

    @property
    def topics(self) -> set[str]:
        """The topics that get records."""
        traffic = self.traffic
        return {traffic.impressions_topic, traffic.feedback_topic, *([traffic.exposures_topic] if traffic.exposures else [])}

    def records(self) -> Iterator[SimulatedRecord]:
        """Return the records in order of arrival."""
        return generate(self.traffic, until_ms=None if self.span_ms is None else self.traffic.start_ms + self.span_ms)


def plan_of(options: SimulateOptions, topics: Sequence[str], now_ms: int) -> SimulatePlan:
    """Build the plan. `topics` are those of impressions, feedback and exposures, or one for all. Raises ConfigError.

    >>> plan = plan_of(SimulateOptions(out=(Path("events"),), variants=("a=0.5", "b=0.5:0.9")), ["shown", "done"], now_ms=0)
    >>> plan.span_ms, plan.traffic.variants[1]
    (600000, Variant(name='b', share=0.5, quality=0.9))
    """
    problems = list(_place_problems(options))
    if options.kafka and (rule := _places_rule(options, len(topics), "topic")):
        problems.append(Problem("kafka.topics", ",".join(topics), f"simulate needs {rule}"))
    variants = [_variant(given, problems) for given in options.variants]
    if problems:
        raise ConfigError(problems)
    minutes = FILE_MINUTES if options.minutes is None and not options.kafka else options.minutes
    default_start_ms = now_ms if options.kafka else FILE_START_MS
    with _naming_options():
        traffic = Traffic(
            users=options.users,
            seed=options.seed,
            start_ms=default_start_ms if options.start_ms is None else options.start_ms,
            impressions_per_second=options.rate,
            variants=tuple(variant for variant in variants if variant) or Traffic().variants,
            interleaved=options.interleaved,
            exposures=options.exposures,
            impressions_topic=topics[0],
            feedback_topic=topics[min(1, len(topics) - 1)],
            exposures_topic=topics[-1],
        )
    return SimulatePlan(traffic=traffic, span_ms=None if minutes is None else max(1, round(minutes * 60_000)))


@contextmanager
def _naming_options() -> Iterator[None]:
    """Rename the keys in a ConfigError of Traffic to options."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError([dataclasses.replace(problem, key=_option(problem.key)) for problem in error.problems]) from None


def _option(key: str) -> str:
    """Return the option for a key of Traffic.

    >>> _option("impressions_per_second"), _option("variants.treatment.share")
    ('--rate', '--variant treatment.share')
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
