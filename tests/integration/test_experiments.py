"""From simulated clicks to the verdict that an alert acts on, in a real Prometheus: found when it is there, and quiet when it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.kafka import KafkaBroker
from tests.servers.prometheus import PrometheusServer
from tests.story import STORIES, Seen, watch

WORSE, SAME, UNEVEN = STORIES


@pytest.fixture
def told(
    kafka_broker: KafkaBroker, redis_url: str, prometheus_server: PrometheusServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Seen:
    return watch(request.param, kafka_broker, redis_url, prometheus_server, tmp_path)


@pytest.mark.parametrize("told", [WORSE], indirect=True)
def test_a_ranker_that_got_15_percent_worse_is_told_as_regressed(told: Seen) -> None:
    assert (told.code, told.least, told.alarms) == (-1, -1, 2)
    assert told.users > 2_500
    assert "REGRESSED  treatment: " in told.text
    assert "% lower ndcg@10 than control; 95 % confidence, safe to check at any time" in told.text
    assert told.html.count("<svg") >= 3


@pytest.mark.parametrize("told", [SAME], indirect=True)
def test_two_rankers_that_are_alike_stay_quiet_at_every_look(told: Seen) -> None:
    assert told.code >= 0
    assert (told.least, told.alarms) == (0, 0)
    assert told.users > 2_500
    assert "REGRESSED" not in told.text
    assert "INVALID" not in told.text


@pytest.mark.parametrize("told", [UNEVEN], indirect=True)
def test_a_split_of_45_to_55_makes_the_experiment_invalid_and_raises_no_ranking_alarm(told: Seen) -> None:
    assert (told.code, told.least) == (-2, -2)
    assert "INVALID  users are not split as configured" in told.text
    assert "regressed" not in told.text.lower()
