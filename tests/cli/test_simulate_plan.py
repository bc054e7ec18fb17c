"""Tests of the plan that the options of `simulate` become."""

from __future__ import annotations

from pathlib import Path

import pytest

from streammetrics.cli.simulate.plan import FILE_START_MS, STDOUT, SimulateOptions, plan_of
from streammetrics.connectors.simulated import Regression, Variant
from streammetrics.errors import ConfigError
from tests.support.tables import for_each

NOW_MS = 1_800_000_000_000


TOPICS = ("impressions", "feedback")


def test_options_become_traffic() -> None:
    options = SimulateOptions(out=(STDOUT,), variants=("a=b=0.25:2", "c:d=0.5"), regression="c:d:0.85@10m", rate=7, items=3, seed=8)
    traffic = plan_of(options, TOPICS, NOW_MS).traffic
    assert traffic.variants == (Variant("a=b", 0.25, 2), Variant("c:d", 0.5, 1))
    assert traffic.regression == Regression("c:d", 0.85, 600_000)
    assert (traffic.impressions_per_second, traffic.items_per_list, traffic.seed) == (7, 3, 8)


@for_each(
    [
        (SimulateOptions(out=(STDOUT,)), FILE_START_MS),
        (SimulateOptions(out=(STDOUT,), pace="real"), NOW_MS),
        (SimulateOptions(out=(STDOUT,), start="now"), NOW_MS),
        (SimulateOptions(out=(STDOUT,), start="1234"), 1234),
        (SimulateOptions(out=(STDOUT,), start="1970-01-01T01:00:01+01:00"), 1000),
        (SimulateOptions(kafka=True), NOW_MS),
        (SimulateOptions(kafka=True, pace="fast", minutes=5), NOW_MS - 300_000),
    ]
)
def test_traffic_has_a_sensible_default_start(case: tuple[SimulateOptions, int]) -> None:
    options, start_ms = case
    assert plan_of(options, TOPICS, NOW_MS).traffic.start_ms == start_ms


def test_a_burst_to_kafka_ends_now() -> None:
    plan = plan_of(SimulateOptions(kafka=True, pace="fast", events=2_000), TOPICS, NOW_MS)
    assert max(sent.ts for sent in plan.records()) == NOW_MS
    assert sum(1 for _ in plan.records()) == 2_000


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
        (SimulateOptions(kafka=True, pace="fast"), ["--pace"]),
        (
            SimulateOptions(out=(STDOUT,), variants=("a", "b=x"), regression="a:b", start="yesterday"),
            ["--variant", "--variant", "--regression", "--start"],
        ),
        (SimulateOptions(out=(STDOUT,), start="2024-11-21T10:00:00"), ["--start"]),
        (SimulateOptions(out=(STDOUT,), start="9" * 5_000), ["--start"]),
        (SimulateOptions(out=(STDOUT,), start="999999999999999"), ["--start"]),
        (SimulateOptions(out=(STDOUT,), start="\u0661\u0662"), ["--start"]),
        (SimulateOptions(out=(STDOUT,), variants=("a=0.9", "b=0.9")), ["--variant"]),
        (SimulateOptions(out=(STDOUT,), variants=("a.b=-1", "c=0.5:0")), ["--variant a.b.share", "--variant c.quality"]),
        (SimulateOptions(out=(STDOUT,), regression="nobody:0.5"), ["--regression variant"]),
        (SimulateOptions(out=(STDOUT,), ramps=("0.5@2m", "0.2@1m")), ["--ramp"]),
        (SimulateOptions(out=(STDOUT,), experiment="", interleaved=True), ["--experiment"]),
        (SimulateOptions(out=(STDOUT,), variants=("a=1",), interleaved=True), ["--interleaved"]),
        (
            SimulateOptions(out=(STDOUT,), users=0, rate=1e12, items=10_000_000, disorder_ms=-1, late_ms=-1, seed=-1),
            ["--users", "--seed", "--rate", "--items", "--disorder-ms", "--late-ms"],
        ),
        (
            SimulateOptions(out=(STDOUT,), duplicates=2, lates=2, malformed=2, without_id=2),
            ["--without-id", "--duplicates", "--lates", "--malformed"],
        ),
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
