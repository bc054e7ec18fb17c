"""From simulated clicks to the verdict that an alert acts on, in a real Prometheus: found when it is there, and quiet when it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.prometheus import PrometheusServer
from tests.tools.story import STORIES, Observation, watch
from tests.tools.story_ramp import watch_ramp

WORSE, SAME, UNEVEN = STORIES


@pytest.fixture
def observed(kafka_broker: KafkaBroker, redis_url: str, prometheus_server: PrometheusServer, request: pytest.FixtureRequest) -> Observation:
    return watch(request.param, kafka_broker, redis_url, prometheus_server)


@pytest.mark.parametrize("observed", [WORSE], indirect=True)
def test_a_ranker_that_is_15_percent_worse_is_regressed(observed: Observation) -> None:
    assert (observed.code, observed.least, observed.alarms) == (-1, -1, 2)
    assert observed.users > 2_500
    assert "REGRESSED  treatment: " in observed.text
    assert "% lower ndcg@10 than control; 95 % confidence, safe to check at any time" in observed.text
    assert observed.words == {"regressed"}


@pytest.mark.parametrize("observed", [SAME], indirect=True)
def test_two_equal_rankers_raise_no_alarm_at_any_time(observed: Observation) -> None:
    assert observed.code >= 0
    assert (observed.least, observed.alarms) == (0, 0)
    assert observed.users > 2_500
    assert "REGRESSED" not in observed.text
    assert "INVALID" not in observed.text


@pytest.mark.parametrize("observed", [UNEVEN], indirect=True)
def test_a_split_of_45_to_55_makes_the_experiment_invalid_and_raises_no_ranking_alarm(observed: Observation) -> None:
    assert (observed.code, observed.least) == (-2, -2)
    assert "INVALID  users are not split as configured" in observed.text
    assert "regressed" not in observed.text.lower()


@pytest.mark.timeout(1_200)
def test_a_bad_ranker_that_ramps_up_is_stopped_at_5_percent(
    kafka_broker: KafkaBroker, redis_url: str, prometheus_server: PrometheusServer, tmp_path: Path
) -> None:
    seen = watch_ramp(kafka_broker, redis_url, prometheus_server, tmp_path)
    assert (seen.steps, seen.words, seen.series) == ([1, 5], ["wait", "fail"], -1)
    assert seen.reason.startswith("treatment: ")
    assert "95 % confidence, safe to check at any time" in seen.reason
