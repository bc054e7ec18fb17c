"""Tests of the plan that the options of `simulate` become."""

from __future__ import annotations

from pathlib import Path

import pytest

from streammetrics.cli.traffic_plan import FILE_START_MS, STDOUT, SimulateOptions, plan_of
from streammetrics.connectors.simulated import Variant
from streammetrics.errors import ConfigError
from tests.support.tables import for_each

NOW_MS = 1_800_000_000_000


TOPICS = ("impressions", "feedback")


def test_options_become_traffic() -> None:
    options = SimulateOptions(out=(STDOUT,), variants=("a=b=0.25:2", "c:d=0.5"), rate=7, users=3, seed=8)
    traffic = plan_of(options, TOPICS, NOW_MS).traffic
    assert traffic.variants == (Variant("a=b", 0.25, 2), Variant("c:d", 0.5, 1))
    assert (traffic.impressions_per_second, traffic.users, traffic.seed) == (7, 3, 8)


@for_each(
    [
        (SimulateOptions(out=(STDOUT,)), FILE_START_MS),
        (SimulateOptions(out=(STDOUT,), start_ms=1234), 1234),
        (SimulateOptions(kafka=True), NOW_MS),
        (SimulateOptions(kafka=True, start_ms=0), 0),
    ]
)
def test_traffic_has_a_sensible_default_start(case: tuple[SimulateOptions, int]) -> None:
    options, start_ms = case
    assert plan_of(options, TOPICS, NOW_MS).traffic.start_ms == start_ms


def test_traffic_to_kafka_has_no_end_without_minutes() -> None:
    assert plan_of(SimulateOptions(kafka=True), TOPICS, NOW_MS).span_ms is None
    assert plan_of(SimulateOptions(kafka=True, minutes=5), TOPICS, NOW_MS).span_ms == 300_000


def test_one_topic_takes_both_kinds_of_events() -> None:
    traffic = plan_of(SimulateOptions(kafka=True), ["events"], NOW_MS).traffic
    assert (traffic.impressions_topic, traffic.feedback_topic) == ("events", "events")


@for_each(
    [
        (SimulateOptions(), ["--out"]),
        (SimulateOptions(out=(Path("a"), Path("b"), Path("c"))), ["--out"]),
        (SimulateOptions(out=(Path("a"), Path("b")), exposures=True), ["--out"]),
        (SimulateOptions(out=(Path("a"), Path("b"), Path("b")), exposures=True), ["--out"]),
        (SimulateOptions(out=(Path("a"), Path("./a"))), ["--out"]),
        (SimulateOptions(out=(Path("a"),), kafka=True), ["--kafka"]),
        (SimulateOptions(out=(STDOUT,), variants=("a", "b=x")), ["--variant", "--variant"]),
        (SimulateOptions(out=(STDOUT,), start_ms=-1), ["--start"]),
        (SimulateOptions(out=(STDOUT,), variants=("a=0.9", "b=0.9")), ["--variant"]),
        (SimulateOptions(out=(STDOUT,), variants=("a.b=-1", "c=0.5:0")), ["--variant a.b.share", "--variant c.quality"]),
        (SimulateOptions(out=(STDOUT,), variants=("a=1",), interleaved=True), ["--interleaved"]),
        (SimulateOptions(out=(STDOUT,), users=0, rate=1e12, seed=-1), ["--users", "--seed", "--rate"]),
    ]
)
def test_all_invalid_options_are_reported_together(case: tuple[SimulateOptions, list[str]]) -> None:
    options, keys = case
    with pytest.raises(ConfigError) as caught:
        plan_of(options, TOPICS, NOW_MS)
    assert [problem.key for problem in caught.value.problems] == keys


@pytest.mark.parametrize(
    ("exposures", "topics", "rule"),
    [
        (False, "abc", r"one topic for all events, or two: impressions, then feedback \(with --exposures, a third\)$"),
        (False, "abcd", r"one topic for all events, or two: impressions, then feedback$"),
        (True, "ab", r"one topic for all events, or three: impressions, feedback, exposures$"),
        (True, "abcd", r"one topic for all events, or three"),
    ],
)
def test_a_wrong_number_of_topics_is_rejected(exposures: bool, topics: str, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        plan_of(SimulateOptions(kafka=True, exposures=exposures), [*topics], NOW_MS)


@pytest.mark.parametrize(("given", "topics"), [("abc", ("a", "b", "c")), ("a", ("a", "a", "a"))])
def test_exposures_have_a_topic_of_their_own_or_share_the_only_one(given: str, topics: tuple[str, ...]) -> None:
    plan = plan_of(SimulateOptions(kafka=True, exposures=True), [*given], NOW_MS)
    assert (plan.traffic.impressions_topic, plan.traffic.feedback_topic, plan.traffic.exposures_topic) == topics
    assert plan.topics == {*given}
    assert plan_of(SimulateOptions(kafka=True), ["a", "b"], NOW_MS).topics == {"a", "b"}
