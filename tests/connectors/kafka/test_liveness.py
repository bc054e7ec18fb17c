"""The watchdog's boundaries, on a clock of our own."""

from __future__ import annotations

import pytest

from streammetrics.connectors.base import Input
from streammetrics.connectors.kafka.liveness import (
    AWAY_SECONDS,
    HUNG_SECONDS,
    NEWS_SECONDS,
    STALL_SECONDS,
    STALL_SECONDS_PER_INPUT,
    LivenessMonitor,
)

PLACE, OTHER = Input("clicked", 0), Input("shown", 0)


def stalled_at(dog: LivenessMonitor, now: float, position: int = 3, end: int = 5) -> bool:
    return dog.heard(now, {PLACE: end}, {PLACE: position}) == [PLACE]


class TestDeafness:
    @pytest.mark.parametrize(("seconds", "stalled"), [(STALL_SECONDS - 0.1, False), (STALL_SECONDS, True), (STALL_SECONDS + 0.1, True)])
    def test_an_unmoved_position_below_the_end_is_deafness_after_a_while(self, seconds: float, stalled: bool) -> None:
        dog = LivenessMonitor(0.0)
        assert not stalled_at(dog, 0.0)
        assert stalled_at(dog, seconds) is stalled

    def test_each_further_input_adds_patience(self) -> None:
        dog = LivenessMonitor(0.0)
        ends, positions = {PLACE: 5, OTHER: 5}, {PLACE: 3, OTHER: 3}
        dog.heard(0.0, ends, positions)
        assert dog.heard(STALL_SECONDS, ends, positions) == []
        assert dog.heard(STALL_SECONDS + STALL_SECONDS_PER_INPUT, ends, positions) == [PLACE, OTHER]

    def test_a_position_that_moves_starts_the_time_anew(self) -> None:
        dog = LivenessMonitor(0.0)
        stalled_at(dog, 0.0, position=3)
        stalled_at(dog, STALL_SECONDS - 1, position=4)
        assert not stalled_at(dog, STALL_SECONDS, position=4)

    def test_at_the_end_nothing_is_missing_however_long_it_stays_there(self) -> None:
        dog = LivenessMonitor(0.0)
        assert not any(stalled_at(dog, now, position=5) for now in (0.0, 1_000.0))

    def test_a_change_of_hands_starts_the_time_anew(self) -> None:
        dog = LivenessMonitor(0.0)
        stalled_at(dog, 0.0)
        dog.moved()
        assert not stalled_at(dog, STALL_SECONDS)

    def test_time_in_which_nobody_polled_does_not_count(self) -> None:
        dog = LivenessMonitor(0.0)
        stalled_at(dog, 0.0)
        dog.polled(AWAY_SECONDS + 0.1)
        assert not stalled_at(dog, STALL_SECONDS)

    def test_an_outage_does_not_count(self) -> None:
        dog = LivenessMonitor(0.0)
        stalled_at(dog, 0.0)
        dog.unheard(5.0, "refused", connects=False)
        assert not stalled_at(dog, STALL_SECONDS)


class TestReachability:
    def test_health_tells_since_when(self) -> None:
        dog = LivenessMonitor(1.0)
        assert (dog.health.reachable, dog.health.since) == (True, 1.0)
        dog.unheard(5.0, "refused", connects=False)
        dog.unheard(6.0, "refused again", connects=False)
        assert (dog.health.reachable, dog.health.since, dog.health.last_error) == (False, 5.0, "refused again")
        dog.heard(9.0, {}, {})
        assert (dog.health.reachable, dog.health.since, dog.health.last_error) == (True, 9.0, "refused again")

    def test_records_are_an_answer_too(self) -> None:
        dog = LivenessMonitor(0.0)
        dog.unheard(5.0, "refused", connects=False)
        dog.records_came(6.0)
        assert (dog.health.reachable, dog.health.since) == (True, 6.0)

    def test_a_broker_that_is_down_is_waited_for_however_long(self) -> None:
        dog = LivenessMonitor(0.0)
        assert not any(dog.unheard(float(now), "refused", connects=False) for now in range(0, 10_000, 100))

    def test_a_client_is_suspected_once_connections_have_worked_without_answers_for_long(self) -> None:
        dog = LivenessMonitor(0.0)
        assert not dog.unheard(0.0, "refused", connects=False)
        assert not dog.unheard(100.0, "silent", connects=True)
        assert not dog.unheard(100.0 + HUNG_SECONDS - 0.1, "silent", connects=True)
        assert dog.unheard(100.0 + HUNG_SECONDS, "silent", connects=True)

    def test_a_rebuild_is_counted_and_the_new_client_gets_its_time(self) -> None:
        dog = LivenessMonitor(0.0)
        dog.unheard(0.0, "silent", connects=True)
        dog.rebuilding(HUNG_SECONDS)
        assert dog.health.rebuilds == 1
        assert not dog.unheard(HUNG_SECONDS + 1, "silent", connects=True)


def test_a_client_that_fails_again_and_again_is_news_once() -> None:
    """Behind a load balancer that resets what it accepts it fails ten times a second."""
    dog = LivenessMonitor(0.0)
    news = []
    for tenth in range(1_000):
        dog.polled(tenth / 10)
        news.append(dog.failed("connection reset"))
    assert news == [True] + 999 * [False]
    dog.polled(100 + NEWS_SECONDS)
    assert dog.failed("connection reset")


def test_what_fails_while_brokers_are_known_to_be_away_is_no_news() -> None:
    dog = LivenessMonitor(0.0)
    dog.unheard(1.0, "nobody answers", connects=False)
    dog.polled(2.0)
    assert not dog.failed("connection reset")
    assert dog.health.last_error == "connection reset"
