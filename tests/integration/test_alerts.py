"""What pages, end to end: real Kafka, Redis, workers, exporter, Prometheus with the rules, Alertmanager, a webhook.

One stack serves all tests of this file, with the spans of the rules shortened. Each test waits until all is quiet, brings one fault,
and looks at everything that the webhook heard until all is quiet again: that one alert, and no other.
"""

from __future__ import annotations

import json
import re
import threading
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor

from streammetrics.connectors.kafka.partitioner import partition_of
from streammetrics.connectors.redis.keys import TaskKeys
from streammetrics.connectors.simulated import SimulatedRecord
from tests.tools.servers.alertmanager import ReceivedAlert
from tests.tools.servers.feeder import now_ms
from tests.tools.servers.process import HOST, wait_until
from tests.tools.servers.stack import PARTITIONS, TOPICS, Stack

PATIENCE_SECONDS = 90.0
QUIET_SECONDS = 25
"""How long an A/B test without an effect is listened to: each span of the rules is shorter, save the hours that are compared."""
FOLLOWS_SECONDS = 5
"""How far an input's watermark is behind the clock at most while its events are sent at their time."""
LABEL_VALUES_MAX = 8
"""Room for the usual variants, and for few more."""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack(settings={"exporter.label_values_max": str(LABEL_VALUES_MAX)}) as stack:
        yield stack


class Listening:
    """The alerts that the webhook receives from now on."""

    def __init__(self, stack: Stack) -> None:
        self._stack, self._before = stack, len(stack.webhook.alerts)

    @property
    def alerts(self) -> list[ReceivedAlert]:
        return self._stack.webhook.alerts[self._before :]

    def of(self, status: str) -> set[str]:
        return {alert.name for alert in self.alerts if alert.status == status}

    def require_only(self, *names: str) -> None:
        """Check that these alerts have fired, and no other."""
        assert self.of("firing") == set(names), [(alert.name, alert.annotations) for alert in self.alerts if alert.name not in names]

    def one(self, name: str) -> ReceivedAlert:
        return next(alert for alert in self.alerts if alert.name == name)

    def wait_for(self, name: str, status: str = "firing", patience_seconds: float = PATIENCE_SECONDS) -> None:
        wait_until(lambda: name in self.of(status), what=f"the webhook has received {name} as {status}", deadline_seconds=patience_seconds)


def wait_until_quiet(stack: Stack) -> None:
    """Until no rule holds, whatever fired is resolved, and the time of each input follows its events again.

    After a silence the time of an input moves on only when enough users agree on it. A fault before that would meet an idle input.
    """
    stack.prometheus.wait_for("ALERTS", lambda samples: not samples, deadline_seconds=PATIENCE_SECONDS)
    stack.prometheus.wait_for(
        "streammetrics_watermark_timestamp_seconds",
        lambda samples: bool(samples) and min(one.value for one in samples) > now_ms() / 1_000 - FOLLOWS_SECONDS,
        deadline_seconds=PATIENCE_SECONDS,
    )


@contextmanager
def again_and_again(deed: Callable[[], object]) -> Iterator[None]:
    """While the block runs, do this in a thread, a few times a second at most. What goes wrong in it is raised at the end."""
    stop = threading.Event()

    def keep_on() -> None:
        while not stop.wait(0.2):
            deed()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(keep_on)
        try:
            yield
        finally:
            stop.set()
        done.result()


def wait_until_fires(stack: Stack, name: str) -> None:
    """Wait until Prometheus fires an alert, whether or not Alertmanager sends it."""
    stack.prometheus.wait_for(f'ALERTS{{alertname="{name}", alertstate="firing"}}', deadline_seconds=PATIENCE_SECONDS)


@contextmanager
def listening(stack: Stack) -> Iterator[Listening]:
    """Everything that is heard of what the block does, until all is quiet again."""
    wait_until_quiet(stack)
    heard = Listening(stack)
    yield heard
    wait_until_quiet(stack)
    for name in heard.of("firing"):
        heard.wait_for(name, "resolved")


def test_nothing_is_told_of_an_experiment_without_an_effect(stack: Stack) -> None:
    with listening(stack) as heard:
        (first,) = stack.prometheus.wait_for("job:streammetrics_tasks_watermark_timestamp_seconds:max")
        stack.prometheus.wait_for(
            "job:streammetrics_tasks_watermark_timestamp_seconds:max",
            lambda samples: samples[0].value >= first.value + QUIET_SECONDS,
            deadline_seconds=PATIENCE_SECONDS,
        )
    assert not heard.alerts
    assert stack.feeder.failure is None
    assert {one.labels["variant"] for one in stack.prometheus.query('streammetrics_ndcg{experiment="ranker"}')} == {"control", "treatment"}


class TestFaults:
    """Each pages its own alert, once, and not the ranking."""

    def test_redis_that_is_away(self, stack: Stack) -> None:
        with listening(stack) as heard:
            stack.redis.kill()
            heard.wait_for("StreammetricsRedisDown")
            wait_until_fires(stack, "StreammetricsWatermarkStalled")  # a consequence, which Alertmanager does not send
            stack.redis.start()
        heard.require_only("StreammetricsRedisDown")
        message = heard.one("StreammetricsRedisDown")
        assert message.path == "page"
        assert message.labels == {"alertname": "StreammetricsRedisDown", "job": "streammetrics", "severity": "critical"}
        assert "Processes of streammetrics that cannot use Redis: 3" in message.annotations["summary"]
        assert stack.exporter.target in message.annotations["description"]

    def test_kafka_that_is_away(self, stack: Stack) -> None:
        with listening(stack) as heard:
            stack.broker.kill()
            heard.wait_for("StreammetricsKafkaDown")
            wait_until_fires(stack, "StreammetricsWatermarkStalled")
            stack.broker.start()
        heard.require_only("StreammetricsKafkaDown")
        assert heard.one("StreammetricsKafkaDown").path == "page"

    def test_senders_that_fall_silent(self, stack: Stack) -> None:
        with listening(stack) as heard:
            stack.feeder.pause()
            heard.wait_for("StreammetricsNoTraffic")
            stack.feeder.resume()
        heard.require_only("StreammetricsNoTraffic")
        assert {message.labels["topic"] for message in heard.alerts} == {"impressions", "feedback"}

    def test_a_sender_whose_clock_stands_still_stalls_the_watermark(self, stack: Stack) -> None:
        frozen: list[int] = []

        def freeze(sent: SimulatedRecord) -> list[SimulatedRecord]:
            if partition_of(sent.key.decode(), PARTITIONS) != 0:
                return [sent]
            frozen.append(sent.ts)
            return [sent._replace(value=sent.value.replace(b'"ts":%d,' % sent.ts, b'"ts":%d,' % frozen[0], 1))]

        with listening(stack) as heard, stack.feeder.altered(freeze):
            heard.wait_for("StreammetricsWatermarkStalled")
        heard.require_only("StreammetricsWatermarkStalled")

    def test_events_that_are_refused(self, stack: Stack) -> None:
        with listening(stack) as heard, stack.feeder.altered(lambda sent: [sent, sent._replace(value=b"{")]):
            heard.wait_for("StreammetricsEventsRefused")
        heard.require_only("StreammetricsEventsRefused")
        message = heard.one("StreammetricsEventsRefused")
        assert message.path == "ticket"
        assert re.search(r"Events per second by reason: bad_json \d+", message.annotations["description"])

    def test_lists_that_are_lost_on_their_way(self, stack: Stack) -> None:
        def lose(sent: SimulatedRecord) -> list[SimulatedRecord]:
            return [] if sent.topic == "impressions" and int(sent.key[1:]) % 2 else [sent]

        with listening(stack) as heard, stack.feeder.altered(lose):
            heard.wait_for("StreammetricsJoinUnhealthy")
        heard.require_only("StreammetricsJoinUnhealthy")
        assert "orphan" in heard.one("StreammetricsJoinUnhealthy").annotations["description"]

    def test_a_worker_that_died(self, stack: Stack) -> None:
        worker = stack.workers[0]
        with listening(stack) as heard:
            worker.kill()
            heard.wait_for("StreammetricsTargetDown")
            worker.start()
        heard.require_only("StreammetricsTargetDown")
        assert heard.one("StreammetricsTargetDown").labels["instance"] == worker.target

    def test_an_exporter_that_died(self, stack: Stack) -> None:
        with listening(stack) as heard:
            stack.exporter.kill()
            heard.wait_for("StreammetricsAbsent")
            wait_until_fires(stack, "StreammetricsTargetDown")
            stack.exporter.start()
        heard.require_only("StreammetricsAbsent")
        assert heard.one("StreammetricsAbsent").labels["part"] == "exporter"

    def test_a_redis_that_may_delete_keys_and_somebody_who_writes_to_ours(self, stack: Stack) -> None:
        """Two faults at once, which have nothing to do with each other: two alerts."""
        risky = {"maxmemory": 1 << 30, "maxmemory-policy": "allkeys-lru"}
        with stack.redis.client() as client:

            def meddle() -> None:
                for task in range(PARTITIONS):
                    client.hincrby(TaskKeys.of("sm", task).ctl, "seq", 1)  # so the next commit of the task is none that fits

            with listening(stack) as heard:
                before = {name: client.config_get(name)[name] for name in risky}
                for name, value in risky.items():
                    client.config_set(name, value)
                with again_and_again(meddle):
                    heard.wait_for("StreammetricsCommitsFailing")
                heard.wait_for("StreammetricsRedisAtRisk")
                for name, value in before.items():
                    client.config_set(name, value)
        heard.require_only("StreammetricsRedisAtRisk", "StreammetricsCommitsFailing")
        risk = heard.one("StreammetricsRedisAtRisk")
        assert (risk.path, risk.labels["risk"], risk.labels["node"]) == ("ticket", "eviction", f"{HOST}:{stack.redis.port}")
        failing = heard.one("StreammetricsCommitsFailing")
        assert failing.path == "page"
        assert re.search(r"Commits per second by status:.* conflict ", failing.annotations["description"])

    def test_a_stranger_who_comes_and_goes_in_our_consumer_group(self, stack: Stack) -> None:
        def come_and_go() -> None:
            options = {"group_id": "streammetrics", "enable_auto_commit": False, "auto_offset_reset": "latest"}
            consumer = KafkaConsumer(
                *TOPICS, bootstrap_servers=stack.broker.bootstrap, partition_assignment_strategy=[RangePartitionAssignor], **options
            )
            try:
                wait_until(lambda: consumer.poll(timeout_ms=100) or consumer.assignment(), what="the group gives the stranger partitions")
            finally:
                consumer.close(autocommit=False)

        with listening(stack) as heard, again_and_again(come_and_go):
            heard.wait_for("StreammetricsRebalanceStorm")
        heard.require_only("StreammetricsRebalanceStorm")
        assert heard.one("StreammetricsRebalanceStorm").path == "ticket"


def test_a_regression_is_told_with_its_experiment_and_variant(stack: Stack) -> None:
    """After all others, because a regression stays in the mean since the experiment began."""
    wait_until_quiet(stack)
    heard = Listening(stack)
    stack.feeder.regress("treatment", 0.3)
    heard.wait_for("StreammetricsRankingRegressed")
    heard.require_only("StreammetricsRankingRegressed")
    message = heard.one("StreammetricsRankingRegressed")
    assert (message.labels["experiment"], message.labels["variant"]) == ("ranker", "treatment")
    assert message.labels["severity"] in ("critical", "warning")
    page = message.annotations["page_url"].removesuffix("#experiment-ranker")
    assert message.annotations["runbook_url"] == f"{page}help/StreammetricsRankingRegressed"
    with urllib.request.urlopen(message.annotations["runbook_url"], timeout=10) as runbook:
        assert b"A variant ranks worse than its control." in runbook.read()


def test_experiments_that_go_wrong_are_told_one_by_one_and_never_as_a_regression(stack: Stack) -> None:
    """The very last: what is known of an experiment stays. Senders add two: one split unevenly, and one of more variants than labels
    may have."""

    def tangle(sent: SimulatedRecord) -> list[SimulatedRecord]:
        event = json.loads(sent.value)
        if event["type"] == "impression":
            user = zlib.crc32(sent.key)
            event["experiments"] |= {
                "uneven": "control" if user % 10 < 7 else "treatment",
                "endless": f"v{user % (4 * LABEL_VALUES_MAX)}",
            }
        return [sent._replace(value=json.dumps(event).encode())]

    heard = Listening(stack)
    with stack.feeder.altered(tangle):
        for name in ("StreammetricsSeriesLimit", "StreammetricsSampleRatioMismatch"):
            heard.wait_for(name)
        wait_until_fires(stack, "StreammetricsExperimentInvalid")  # a consequence, which Alertmanager does not send
    by_experiment = {
        (message.name, message.labels["experiment"]) for message in heard.alerts if message.labels.get("experiment") not in (None, "ranker")
    }
    assert by_experiment == {("StreammetricsSampleRatioMismatch", "uneven")}
    assert heard.of("firing") <= {*(name for name, _ in by_experiment), "StreammetricsSeriesLimit", "StreammetricsRankingRegressed"}
    assert stack.feeder.failure is None
