"""`streammetrics run` from bytes on a real broker to a right gauge, through a real Redis: one process, all of the way."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import pytest

from streammetrics.connectors.kafka.sinks import KafkaSink
from streammetrics.connectors.simulated import Traffic, generate
from streammetrics.events.model import Feedback, Impression
from tests.oracle import Group, Tick
from tests.oracle.users import users_of_tasks
from tests.support.command_line import called
from tests.support.native_json import native_json
from tests.support.real_pipeline import HOUR_MS, PARTITIONS, Pipeline, Service, Truth, start_ms
from tests.support.timing import time_bound
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import HOST, free_port, wait_until
from tests.tools.servers.prometheus import PrometheusServer
from tests.tools.servers.redis import RedisServer

EXPERIMENT = "ranker"
JOIN = {"gap_ms": 600_000, "attribution_ms": 600_000, "lateness_ms": 10_000, "idle_ms": 3_600_000}
WINDOWS = {"windows": ["5m", "1h", "12h"], "segments": ["surface"]}


def traffic_for(pipeline: Pipeline) -> Traffic:
    """An hour of about five thousand events with every fault of transport."""
    impressions, feedback = pipeline.topics
    return Traffic(
        users=120,
        seed=11,
        start_ms=start_ms(),
        impressions_per_second=0.4,
        feedback_without_id_rate=0.2,
        duplicate_rate=0.05,
        late_rate=0.03,
        malformed_rate=0.04,
        impressions_topic=impressions,
        feedback_topic=feedback,
    )


def send_traffic(pipeline: Pipeline, traffic: Traffic) -> None:
    with KafkaSink(pipeline.settings.kafka, pipeline.topics) as sink:
        for sent in generate(traffic, until_ms=traffic.start_ms + HOUR_MS):
            sink.write(sent, sent.ts)


@pytest.fixture(scope="module")
def pipeline(kafka_broker: KafkaBroker, redis_server: RedisServer) -> Pipeline:
    sections = {"join": JOIN, "windows": WINDOWS}
    return Pipeline(kafka_broker, redis_server.fresh_url(), "traffic", ["impressions", "feedback"], **sections)


@pytest.fixture(scope="module")
def traffic(pipeline: Pipeline) -> Traffic:
    traffic = traffic_for(pipeline)
    send_traffic(pipeline, traffic)
    ahead = Feedback("ahead", traffic.start_ms + HOUR_MS + pipeline.settings.join.future_ms, "any", "click")
    with pipeline.producer() as producer:
        producer.send(pipeline.topics[1], native_json(ahead), key=b"ahead", timestamp_ms=ahead.ts - pipeline.settings.join.future_ms - 1)
    pipeline.write_ends(traffic.start_ms + 3 * HOUR_MS)
    return traffic


@pytest.fixture(scope="module")
def service(pipeline: Pipeline, traffic: Traffic) -> Iterator[Service]:
    with pipeline.service() as service:
        yield service


@pytest.fixture(scope="module")
def truth(pipeline: Pipeline, service: Service) -> Truth:
    return pipeline.assert_exact()


def ndcg_of(service: Service, family: str) -> dict[tuple[str, str], float]:
    """What the page shows at 10 over twelve hours, by experiment and variant."""
    samples = [(dict(labels), value) for labels, value in service.series(family).items()]
    return {
        (labels["experiment"], labels["variant"]): value
        for labels, value in samples
        if (labels["k"], labels["window"], labels["segments"]) == ("10", "12h", "")
    }


class TestSimulatedTraffic:
    """One process, one hour of traffic of two variants with every fault: what Redis, /api/report and /metrics then say."""

    def test_window_users_equal_brute_force_in_the_report_and_on_the_page(self, pipeline: Pipeline, service: Service, truth: Truth) -> None:
        window = next(window for window in service.report()["user_windows"] if window["window_ms"] == 12 * HOUR_MS)
        lists = [task.lists for task in truth.result.tasks.values()]
        wanted = users_of_tasks(lists, pipeline.oracle_settings(), window["end_ms"], 12 * HOUR_MS)
        assert {variant for _, variant in wanted} == {"", "control", "treatment"}
        assert {
            (group["experiment"], group["variant"]): (
                group["users"],
                {int(name.partition("@")[2]): hits for name, hits in group["users_with_hit"].items()},
            )
            for group in window["groups"]
        } == wanted
        for (experiment, variant), (users, hits) in wanted.items():
            labels = {"experiment": experiment, "variant": variant, "window": "12h"}
            assert service.sample("streammetrics_window_users", **labels) == users > 50
            assert service.sample("streammetrics_user_hit_rate", **labels, k="10") == hits[10] / users
        assert service.sample("streammetrics_window_users_end_timestamp_seconds", window="12h") == window["end_ms"] / 1_000

    def test_every_stored_integer_equals_brute_force(self, pipeline: Pipeline, truth: Truth) -> None:
        counts, tallies = pipeline.stored()
        assert (counts, tallies) == pipeline.expected(truth)
        assert {"late", "future", "duplicate", "matched", "repeated", "orphan"} <= {reason for reason, _ in counts}
        assert len(tallies) > 100

    def test_the_malformed_records_are_those_of_the_simulator(self, traffic: Traffic, truth: Truth) -> None:
        until_ms = traffic.start_ms + HOUR_MS
        unbroken = sum(1 for _ in generate(replace(traffic, malformed_rate=0.0), until_ms=until_ms))
        broken = sum(1 for _ in generate(traffic, until_ms=until_ms)) - unbroken
        malformed = [reason for reason, _ in truth.refused.values() if reason not in ("late", "future")]
        assert len(malformed) == broken > 100
        assert len(set(malformed)) > 4

    def test_the_dead_letters_are_exactly_the_refused_events(self, pipeline: Pipeline, truth: Truth) -> None:
        letters = pipeline.letters()
        assert len(letters) == len(truth.refused)
        assert {
            (headers["topic"], int(headers["partition"]), int(headers["offset"])): (headers["reason"], value) for headers, value in letters
        } == truth.refused
        assert all(headers["detail"] for headers, _ in letters)

    def test_report_windows_equal_brute_force(self, pipeline: Pipeline, service: Service, truth: Truth) -> None:
        wanted = {
            (window_ms, view): (window.end_ms, {(*group[:2], group.segments): tally.lists for group, tally in window.groups.items()})
            for (window_ms, view), window in truth.result.windows.items()
        }

        def lists(window: dict[str, Any]) -> dict[Any, int]:
            return {(one["experiment"], one["variant"], tuple(one["segments"].items())): one["lists"] for one in window["groups"]}

        def shown() -> dict[tuple[int, str], Any]:
            windows = service.report().get("windows", [])
            return {(window["window_ms"], window["view"]): (window["end_ms"], lists(window)) for window in windows}

        wait_until(lambda: shown() == wanted, what="the report has the windows of brute force")
        assert wanted[12 * HOUR_MS, "final"][1]["", "", ()] > 1_000

    def test_gauges_per_variant_equal_brute_force(self, pipeline: Pipeline, service: Service, truth: Truth) -> None:
        for view, family in (("final", "streammetrics_ndcg"), ("live", "streammetrics_live_ndcg")):
            values = pipeline.window_values(truth, 12 * HOUR_MS, view, "ndcg@10")
            wanted = {(group.experiment, group.variant): value for group, value in values.items() if not group.segments}
            assert len(wanted) == 3
            wait_until(partial(lambda family, wanted: ndcg_of(service, family) == wanted, family, wanted), what=f"{family} is right")

    def test_counters_equal_brute_force(self, service: Service, truth: Truth) -> None:
        samples = service.samples()
        series = {
            "events": "streammetrics_events_total",
            "late": "streammetrics_late_total",
            "duplicate": "streammetrics_duplicates_total",
            "matched": "streammetrics_feedback_matched_total",
            "repeated": "streammetrics_feedback_repeated_total",
        }
        unmatched = ("orphan", "out_of_list", "too_old")
        for (reason, topic), count in truth.counters.items():
            if reason in series:
                assert samples[series[reason]][("topic", topic),] == count
            elif reason in unmatched:
                assert samples["streammetrics_feedback_unmatched_total"][("reason", reason), ("topic", topic)] == count
            else:
                assert samples["streammetrics_dropped_total"][("reason", reason), ("topic", topic)] == count

    def test_prometheus_has_the_right_ndcg_per_variant(
        self, pipeline: Pipeline, service: Service, truth: Truth, prometheus_server: PrometheusServer
    ) -> None:
        values = pipeline.window_values(truth, 12 * HOUR_MS, "final", "ndcg@10")
        wanted = {group.variant: value for group, value in values.items() if group.experiment == EXPERIMENT and not group.segments}
        prometheus_server.scrape("run", f"127.0.0.1:{service.port}")
        try:
            query = f'streammetrics_ndcg{{job="run", experiment="{EXPERIMENT}", k="10", window="12h", segments=""}}'
            answer = prometheus_server.wait_for(query, lambda samples: len(samples) == 2)
            assert {sample.labels["variant"]: sample.value for sample in answer} == wanted
            assert wanted.keys() == {"control", "treatment"}
        finally:
            prometheus_server.forget("run")


DAY_MS = 86_400_000


class UbiCase(NamedTuple):
    """Documents of `_bulk` lines, and what is known of them: counted apart from the product, from the documents alone."""

    documents: tuple[dict[str, Any], ...]
    counts: Mapping[str, int]


def hand_made_case() -> UbiCase:
    """Two lists of two users, counted from 0 and from 1, times in both forms, and one feedback of every fate."""

    def event(client: str, query: str, action: str, item: str | None, second: int, ordinal: int | None = None) -> dict[str, Any]:
        attributes: dict[str, Any] | None = None if item is None else {"object": {"object_id": item}}
        if attributes is not None and ordinal is not None:
            attributes["position"] = {"ordinal": ordinal}
        stamp: str | int = f"2025-01-23T13:18:{second:02d}.333Z" if second % 2 else 1_737_638_280_000 + 1_000 * second
        named = {"application": "shop", "action_name": action, "client_id": client, "query_id": query, "timestamp": stamp}
        return named | {"event_attributes": attributes}

    documents = (
        {"application": "shop", "query_id": "q1", "client_id": "c1", "user_query": "lamp", "timestamp": "2025-01-23T13:18:00Z"},
        *(event("c1", "q1", "impression", item, 1, ordinal) for ordinal, item in enumerate("abc")),
        *(event("c2", "q2", "impression", item, 2, ordinal) for ordinal, item in enumerate("de", start=1)),
        event("c1", "q1", "click", "a", 5),
        event("c1", "q1", "click", "a", 6),
        event("c1", "q1", "add_to_cart", "b", 7),
        event("c1", "q1", "click", "z", 8),
        event("c1", "q9", "click", "a", 9),
        event("c2", "q2", "search", None, 10),
        event("c2", "q2", "click", "e", 11),
    )
    return UbiCase(documents, {"lists": 2, "matched": 4, "repeated": 1, "out_of_list": 1, "orphan": 1})


def test_the_first_list_of_new_topics_has_live_gauges_before_the_inputs_have_a_time(
    kafka_broker: KafkaBroker, redis_url: str, topic_name: str
) -> None:
    join = {"support_users": 5, "idle_ms": HOUR_MS}  # so the inputs have no time as long as the test runs
    pipeline = Pipeline(kafka_broker, redis_url, topic_name, ["impressions", "feedback"], join=join)
    now_ms = time.time_ns() // 1_000_000
    with pipeline.service() as service:
        with pipeline.producer() as producer:
            impression = Impression("r-1", "u7", now_ms, ("a", "b"), experiments=((EXPERIMENT, "control"),))
            for topic, event in zip(pipeline.topics, (impression, Feedback("u7", now_ms + 1, "a", "click", None, "r-1")), strict=True):
                producer.send(topic, native_json(event), key=b"u7", timestamp_ms=event.ts)
        wait_until(lambda: (EXPERIMENT, "control") in ndcg_of(service, "streammetrics_live_ndcg"), what="there is a live gauge")
        report = service.report()
        assert (report["watermark_ms"], report["final_ms"], report["warnings"]) == (None, None, [])
        assert [number["number"] for number in report["first_numbers"]] == ["live", "final"]
        assert ndcg_of(service, "streammetrics_ndcg") == {}


class TestUbi:
    """Behaviour in the UBI format: item-level impressions, times so wide that they never matter, sessions closed by a quiet clock."""

    def test_all_counts_equal_the_known_truth(self, kafka_broker: KafkaBroker, redis_url: str, topic_name: str) -> None:
        case = hand_made_case()
        pipeline = Pipeline(
            kafka_broker,
            redis_url,
            topic_name,
            ["ubi"],
            events={"reader": "ubi"},
            join={
                "gap_ms": 120 * DAY_MS,
                "attribution_ms": 120 * DAY_MS,
                "out_of_orderness_ms": 365 * DAY_MS,
                "session_events_max": 100_000,
                "grades": "click=1, add_to_cart=2",
                "idle_ms": 500,
            },
            windows={"segments": ["application"]},
            experiments={"idle_days": 366},
        )
        with pipeline.producer() as producer:
            for document in case.documents:
                index = "ubi_events" if "action_name" in document else "ubi_queries"
                value = "\n".join(json.dumps(line) for line in ({"index": {"_index": index}}, document))
                producer.send(pipeline.topics[0], value.encode(), key=document["client_id"].encode())
        truth = pipeline.truth(after=[Tick(time.time_ns() // 1_000_000)])
        assert truth.users_open == 0
        totals = truth.result.totals
        lists = [impression for task in truth.result.tasks.values() for impression in task.lists]
        assert case.counts == {"lists": len(lists), **{reason: totals[reason] for reason in case.counts if reason != "lists"}}
        with pipeline.service() as service:
            pipeline.wait_until_read(users_open=0)
            counts, _ = pipeline.stored()
            assert counts == truth.counters
            samples = shown_once_final(service, len(lists))
        topic = ("topic", pipeline.topics[0])
        assert case.counts == {
            "lists": samples["streammetrics_final_lists_total"][EVERYBODY],
            "matched": samples["streammetrics_feedback_matched_total"][topic,],
            "repeated": samples["streammetrics_feedback_repeated_total"][topic,],
            "out_of_list": samples["streammetrics_feedback_unmatched_total"][("reason", "out_of_list"), topic],
            "orphan": samples["streammetrics_feedback_unmatched_total"][("reason", "orphan"), topic],
        }
        sums = [tally.sums["ndcg@10"] for (_, group), tally in truth.result.panes.items() if group == Group()]
        ndcg = samples["streammetrics_final_ndcg_sum_total"][(EVERYBODY[0], ("k", "10"), EVERYBODY[1])]
        assert ndcg == sum(sums) / (1 << 40)


EVERYBODY = (("experiment", ""), ("variant", ""))


def shown_once_final(service: Service, lists: int) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """The samples of /metrics, once all lists are final there."""
    wait_until(
        lambda: service.sample("streammetrics_final_lists_total", experiment="", variant="") == lists, what=f"{lists} lists are final"
    )
    return service.samples()


class TestStartAndStop:
    @pytest.fixture
    def pipeline(self, kafka_broker: KafkaBroker, redis_url: str, topic_name: str) -> Pipeline:
        return Pipeline(kafka_broker, redis_url, topic_name, ["impressions", "feedback"])

    def test_an_invalid_configuration_exits_with_2_and_reports_every_problem(self, pipeline: Pipeline) -> None:
        service = pipeline.service(join={"gap_ms": -1}, windows={"windows": ["90s", "5m"]}, kafka={"topic": ["misspelt"]})
        service.launch()
        try:
            assert service.wait_for_exit() == 2
            assert all(key in service.log for key in ("join.gap_ms", "windows.windows", "kafka.topic"))
        finally:
            service.close()

    def test_topics_with_different_partition_counts_exit_with_2(self, pipeline: Pipeline, topic_name: str) -> None:
        pipeline.broker.create_topic(f"{topic_name}-wider", partitions=PARTITIONS + 1)
        service = pipeline.service(kafka={"topics": [pipeline.topics[0], f"{topic_name}-wider"]})
        service.launch()
        try:
            assert service.wait_for_exit() == 2
            assert f"{topic_name}-wider has {PARTITIONS + 1}" in service.log
        finally:
            service.close()

    def test_a_store_that_evicts_keys_is_rejected_unless_allowed(self, kafka_broker: KafkaBroker, topic_name: str) -> None:
        with RedisServer(settings={"maxmemory-policy": "allkeys-lru"}) as redis:
            service = Pipeline(kafka_broker, redis.url, topic_name, ["impressions", "feedback"]).service()
            try:
                service.launch()
                assert service.wait_for_exit() == 2
                assert "allkeys-lru" in service.log
                assert "--allow-eviction" in service.log
                assert "state in Redis is at risk" not in service.log
                service.flags += ("--allow-eviction",)
                service.start()
                assert "state in Redis is at risk" in service.log
            finally:
                service.close()

    def test_an_unavailable_store_at_the_start_is_reported_and_retried(self, kafka_broker: KafkaBroker, topic_name: str) -> None:
        redis = RedisServer()
        try:
            pipeline = Pipeline(kafka_broker, redis.url, topic_name, ["impressions", "feedback"])
            service = pipeline.service()
            service.launch()
            try:
                wait_until(lambda: answers(service, "/readyz", 503, "store: ", str(redis.port), "refused"), what="/readyz names the store")
                assert answers(service, "/healthz", 200, "ok")
                assert (service.sample("streammetrics_store_up"), service.sample("streammetrics_source_up")) == (0, 1)
                redis.start()
                service.wait_ready()
                wait_until(lambda: service.sample("streammetrics_store_up") == 1, what="the page says that the store is up")
                service.signal(signal.SIGTERM)
                assert service.wait_for_exit() == 0
            finally:
                service.close()
        finally:
            redis.close()

    def test_an_unavailable_store_and_source_are_both_logged_once_per_change(self, kafka_broker: KafkaBroker, topic_name: str) -> None:
        redis = RedisServer()
        try:
            pipeline = Pipeline(kafka_broker, redis.url, topic_name, ["impressions", "feedback"])
            service = pipeline.service(kafka={"bootstrap_servers": [f"127.0.0.1:{free_port()}"]})
            service.launch()
            try:
                wait_until(lambda: answers(service, "/readyz", 503, "store: ", "source: ", "refused"), what="/readyz names both")
                assert (service.sample("streammetrics_store_up"), service.sample("streammetrics_source_up")) == (0, 0)
                redis.start()
                wait_until(lambda: service.sample("streammetrics_store_up") == 1, what="the store is there")
                assert answers(service, "/readyz", 503, "source: ")
                service.signal(signal.SIGTERM)
                assert service.wait_for_exit() == 0
                events = [line["event"] for line in map(json.loads, service.log.splitlines())]
                changes = ["store unavailable, trying again", "source unavailable, trying again", "store available"]
                assert [event for event in events if "available" in event] == changes
                assert events[-2:] == ["stop requested before the source was reached", "stopped"]
            finally:
                service.close()
        finally:
            redis.close()

    def test_a_replica_at_the_start_is_retried_over_new_connections(self, kafka_broker: KafkaBroker, topic_name: str) -> None:
        with RedisServer() as redis, redis.client() as client:
            client.replicaof(HOST, free_port())
            service = Pipeline(kafka_broker, redis.url, topic_name, ["impressions", "feedback"]).service()
            service.launch()
            try:
                wait_until(lambda: answers(service, "/readyz", 503, "store: ", "a replica"), what="/readyz names the replica")
                before = client.info("stats")["total_connections_received"]
                wait_until(lambda: client.info("stats")["total_connections_received"] > before, what="it connects again")
                assert "set redis.url to the primary, or wait until a failover ends" in service.log
                client.replicaof("NO", "ONE")
                service.wait_ready()
                service.signal(signal.SIGTERM)
                assert service.wait_for_exit() == 0
            finally:
                service.close()

    def test_a_replica_is_retried_only_until_the_retry_limit(self, kafka_broker: KafkaBroker, topic_name: str) -> None:
        with RedisServer() as redis, redis.client() as client:
            client.replicaof(HOST, free_port())
            service = Pipeline(kafka_broker, redis.url, topic_name, ["impressions", "feedback"]).service(worker={"retry_seconds_max": 1})
            service.launch()
            try:
                assert service.wait_for_exit() == 1
                assert "a replica" in service.log.splitlines()[-1]
            finally:
                service.close()

    def test_an_exporter_gives_up_on_a_store_after_the_retry_limit(self, kafka_broker: KafkaBroker, topic_name: str) -> None:
        with RedisServer() as redis:
            pipeline = Pipeline(kafka_broker, redis.url, topic_name, ["impressions", "feedback"])
            service = pipeline.service(worker={"role": "exporter", "retry_seconds_max": 1})
            service.launch()
            try:
                wait_until(lambda: answers(service, "/readyz", 503, "no committed state"), what="the exporter looks at an empty store")
                redis.kill()
                assert service.wait_for_exit() == 1
                assert service.log.splitlines()[-1].startswith("streammetrics: Redis at 127.0.0.1:")
            finally:
                service.close()

    def test_an_unavailable_broker_at_the_start_is_reported(self, pipeline: Pipeline) -> None:
        service = pipeline.service(kafka={"bootstrap_servers": [f"127.0.0.1:{free_port()}"]})
        service.launch()
        try:
            wait_until(lambda: answers(service, "/readyz", 503, "source: "), what="/readyz names the source")
            assert answers(service, "/healthz", 200, "ok")
            service.signal(signal.SIGTERM)
            assert service.wait_for_exit() == 0
        finally:
            service.close()

    def test_sigterm_commits_leaves_the_group_and_closes_the_port_last(self, pipeline: Pipeline, redis_server: RedisServer) -> None:
        count = 50
        patient = {"worker": {"commit_ms": 60_000}, "redis": {"socket_timeout_ms": 500}, "kafka": {"session_timeout_ms": 60_000}}
        with pipeline.service(**patient) as service:
            wait_until(lambda: bool(members(pipeline)), what="the process is a member of the group")
            with pipeline.producer() as producer:
                for number in range(count):
                    event = Feedback(f"u{number}", start_ms(), "any", "click")
                    producer.send(pipeline.topics[1], native_json(event), key=event.user_id.encode())
            wait_until(lambda: service.sample("streammetrics_cached_users") == count, what="everything is read")
            assert pipeline.committed() == 0
            redis_server.hang()
            service.signal(signal.SIGTERM)
            wait_until(lambda: service.sample("streammetrics_commits_total", status="failed") > 0, what="it tries to commit in vain")
            assert answers(service, "/healthz", 200, "ok")
            redis_server.resume()
            assert service.wait_for_exit() == 0
        assert pipeline.committed() == count
        assert members(pipeline) == []

    @time_bound(2)
    def test_a_second_signal_exits_at_once(self, pipeline: Pipeline, redis_server: RedisServer, seconds_max: float) -> None:
        with pipeline.service(worker={"commit_ms": 60_000}) as service:
            with pipeline.producer() as producer:
                producer.send(pipeline.topics[1], native_json(Feedback("u", start_ms(), "any", "click")), key=b"u")
            wait_until(lambda: service.sample("streammetrics_cached_users") == 1, what="the event is read")
            redis_server.hang()
            service.signal(signal.SIGTERM)
            before = time.monotonic()
            service.signal(signal.SIGINT)
            assert service.wait_for_exit() in (128 + signal.SIGINT, 128 + signal.SIGTERM)
            assert time.monotonic() - before < seconds_max
            redis_server.resume()
        assert pipeline.committed() == 0

    def test_the_first_of_two_processes_with_one_instance_id_exits_with_2(self, pipeline: Pipeline) -> None:
        named = {"kafka": {"group_instance_id": "only-one"}}
        first = pipeline.service(**named)
        first.start()
        try:
            with pipeline.service(**named) as second:
                assert first.wait_for_exit() == 2
                assert "kafka.group_instance_id = only-one: another process" in first.log.splitlines()[-1]
                with pipeline.producer() as producer:
                    producer.send(pipeline.topics[1], native_json(Feedback("u", start_ms(), "any", "click")), key=b"u")
                wait_until(lambda: pipeline.committed() == 1, what="the second process has read and committed")
                assert second.sample("streammetrics_commits_total", status="fenced") == 0
        finally:
            first.close()

    def test_a_namespace_that_starts_at_a_time_has_only_later_records(self, pipeline: Pipeline) -> None:
        send_traffic(pipeline, traffic_for(pipeline))
        begins_ms = start_ms() + HOUR_MS // 3
        pipeline.write_ends(start_ms() + 3 * HOUR_MS)
        records, since, begun = pipeline.records(), [], set()
        for kept in records:  # for each input, the first record at that time and all later ones
            if kept.timestamp_ms >= begins_ms or kept.place in begun:
                begun.add(kept.place)
                since.append(kept)
        assert 0 < sum(kept.timestamp_ms < begins_ms for kept in since) < len(since) < len(records)
        begins = datetime.fromtimestamp(begins_ms / 1_000, UTC).isoformat()
        with pipeline.service(kafka={"start": begins}) as service:
            truth = pipeline.assert_exact(since)
            wait_until(lambda: service.report().get("tasks_committed") == PARTITIONS, what="all tasks are committed")
        with pipeline.service(kafka={"start": "earliest"}):  # kafka.start is ignored once offsets are stored
            pipeline.write_ends(start_ms() + 4 * HOUR_MS)
            later = [kept for kept in pipeline.records() if kept not in records]
            assert (
                pipeline.assert_exact(since + later).counters["events", pipeline.topics[0]] > truth.counters["events", pipeline.topics[0]]
            )

    def test_a_separate_worker_and_exporter_show_the_same(self, pipeline: Pipeline) -> None:
        with pipeline.producer() as producer:
            producer.send(pipeline.topics[1], native_json(Feedback("u", start_ms(), "any", "click")), key=b"u")
        with pipeline.service(worker={"role": "worker"}), pipeline.service(worker={"role": "exporter"}) as exporter:
            wait_until(
                lambda: exporter.sample("streammetrics_events_total", topic=pipeline.topics[1]) == 1, what="the exporter shows the event"
            )

    def test_an_exporter_stops_when_its_namespace_is_deleted(self, pipeline: Pipeline) -> None:
        with pipeline.producer() as producer:
            producer.send(pipeline.topics[1], native_json(Feedback("u", start_ms(), "any", "click")), key=b"u")
        with pipeline.service(worker={"role": "worker"}) as worker, pipeline.service(worker={"role": "exporter"}) as exporter:
            wait_until(
                lambda: exporter.sample("streammetrics_events_total", topic=pipeline.topics[1]) == 1, what="the exporter shows the event"
            )
            worker.stop()
            assert called("namespaces", "delete", pipeline.name, "--yes", "--force", "--config", exporter.config).returncode == 0
            assert exporter.wait_for_exit() == 1
            # Either message is possible; it depends on what the exporter notices first.
            messages = ("it was deleted or flushed while it was shown; start again", "it was flushed, or the namespace deleted; restore")
            assert any(words in exporter.log for words in messages), exporter.log


def answers(service: Service, path: str, status: int, *words: str) -> bool:
    """Whether the port answers so; False where it does not listen yet."""
    try:
        answer = service.get(path)
    except OSError:
        return False
    return answer.status == status and all(word in answer.text for word in words)


def members(pipeline: Pipeline) -> list[Any]:
    """The members of the pipeline's consumer group, as the broker knows them."""
    with pipeline.broker.admin() as admin:
        described = admin.describe_groups([pipeline.name])
    return list(described[pipeline.name]["members"])
