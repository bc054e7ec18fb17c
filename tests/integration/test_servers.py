"""Tests of the test servers: each one serves, and keeps its data when it is killed, frozen and restarted."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import redis
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.tools.servers import tools
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import CLUSTER_BUS_OFFSET, Server, ServerError, check_port_open, free_port, wait_until
from tests.tools.servers.prometheus import PrometheusServer
from tests.tools.servers.redis import SLOTS, RedisCluster, RedisServer

START_AND_WAIT = """
import sys
from tests.tools.servers.redis import RedisServer
server = RedisServer().start()
print(server.pid, server.directory, flush=True)
sys.stdin.read()
"""


def send(broker: KafkaBroker, topic: str, value: bytes, partition: int = 0) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    try:
        producer.send(topic, value, partition=partition).get(timeout=10)
    finally:
        producer.close()


def read(broker: KafkaBroker, topic: str, count: int, partition: int = 0) -> list[bytes]:
    """Return the first `count` values of a partition, or fewer if no more arrive for 10 s."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, consumer_timeout_ms=10_000)
    try:
        where = TopicPartition(topic, partition)
        consumer.assign([where])
        consumer.seek_to_beginning(where)
        return [record.value for record in itertools.islice(consumer, count)]
    finally:
        consumer.close()


class TestKafka:
    def test_a_message_sent_is_read_back(self, kafka_broker: KafkaBroker, topic_name: str) -> None:
        kafka_broker.create_topic(topic_name, partitions=3)
        send(kafka_broker, topic_name, b"one", partition=2)
        assert read(kafka_broker, topic_name, 1, partition=2) == [b"one"]

    def test_a_killed_broker_comes_back_with_its_messages(self, kafka_broker: KafkaBroker, topic_name: str) -> None:
        kafka_broker.create_topic(topic_name)
        send(kafka_broker, topic_name, b"before")
        kafka_broker.kill()
        with pytest.raises(OSError, match="refused"):
            check_port_open(kafka_broker.port)
        kafka_broker.start()
        send(kafka_broker, topic_name, b"after")
        assert read(kafka_broker, topic_name, 2) == [b"before", b"after"]

    def test_a_restarted_broker_keeps_its_address_and_topics(self, kafka_broker: KafkaBroker, topic_name: str) -> None:
        kafka_broker.create_topic(topic_name, partitions=2)
        address, pid = kafka_broker.bootstrap, kafka_broker.pid
        kafka_broker.restart()
        assert kafka_broker.bootstrap == address
        assert kafka_broker.pid != pid
        with kafka_broker.admin() as admin:
            assert topic_name in admin.list_topics()

    def test_a_deleted_topic_can_be_created_again_and_is_empty(self, kafka_broker: KafkaBroker, topic_name: str) -> None:
        kafka_broker.create_topic(topic_name)
        send(kafka_broker, topic_name, b"of the first topic")
        kafka_broker.delete_topic(topic_name)
        kafka_broker.create_topic(topic_name)
        send(kafka_broker, topic_name, b"of the second topic")
        assert read(kafka_broker, topic_name, 1) == [b"of the second topic"]

    def test_a_second_broker_runs_beside_the_first_with_its_own_properties(self, kafka_broker: KafkaBroker, topic_name: str) -> None:
        with KafkaBroker(properties={"auto.create.topics.enable": "true"}) as other:
            send(other, topic_name, b"elsewhere")
            assert read(other, topic_name, 1) == [b"elsewhere"]
        with kafka_broker.admin() as admin:
            assert topic_name not in admin.list_topics()


class TestRedis:
    def test_every_test_gets_its_own_empty_database(self, redis_server: RedisServer, redis_url: str) -> None:
        with redis.from_url(redis_url) as mine, redis.from_url(redis_server.fresh_url()) as other:
            mine.set("key", "value")
            assert (mine.dbsize(), other.dbsize()) == (1, 0)

    @pytest.mark.parametrize("end", ["stop", "kill"])
    def test_data_survive_the_process_with_the_append_only_file(self, redis_server: RedisServer, redis_url: str, end: str) -> None:
        with redis.from_url(redis_url, decode_responses=True) as client:
            client.set("key", "value")
        getattr(redis_server, end)()
        assert not redis_server.alive
        redis_server.start()
        with redis.from_url(redis_url, decode_responses=True) as client:
            assert client.get("key") == "value"

    def test_data_are_lost_without_the_append_only_file(self) -> None:
        with RedisServer(append_only=False) as server:
            with server.client() as client:
                client.set("key", "value")
            server.kill()
            server.start()
            with server.client() as client:
                assert client.get("key") is None

    def test_a_frozen_server_answers_after_resume(self, redis_server: RedisServer) -> None:
        with redis_server.client(socket_timeout=0.2) as client:
            redis_server.hang()
            with pytest.raises(redis.TimeoutError):
                client.ping()
            redis_server.resume()
            assert client.ping()

    def test_the_server_keeps_state(self, redis_server: RedisServer) -> None:
        with redis_server.client() as client:
            assert client.config_get("maxmemory-policy", "appendonly") == {"maxmemory-policy": "noeviction", "appendonly": "yes"}


class TestRedisCluster:
    def test_three_masters_serve_every_slot(self, redis_cluster: RedisCluster, namespace: str) -> None:
        keys = [f"{namespace}:{number}" for number in range(60)]
        client = redis_cluster.client()
        for key in keys:
            client.set(key, key)
        assert [client.get(key) for key in keys] == keys
        owners = {client.get_node_from_key(key).port for key in keys}
        assert owners == {node.port for node in redis_cluster.nodes}
        client.close()

    def test_killed_nodes_come_back_with_their_keys(self, redis_cluster: RedisCluster, namespace: str) -> None:
        client = redis_cluster.client()
        client.set(namespace, "kept")
        redis_cluster.kill()
        redis_cluster.start()
        assert client.get(namespace) == "kept"
        client.close()

    def test_one_node_can_be_a_cluster(self) -> None:
        with RedisCluster(masters=1) as cluster:
            client = cluster.client()
            client.set("key", "value")
            assert client.get("key") == "value"
            assert client.cluster_info(target_nodes=cluster.startup_nodes[0])["cluster_slots_ok"] == str(SLOTS)
            client.close()


class TestPrometheus:
    def test_it_scrapes_itself(self, prometheus_server: PrometheusServer) -> None:
        (sample,) = prometheus_server.wait_for('up{job="prometheus"}', lambda samples: [one.value for one in samples] == [1.0])
        assert sample.labels["instance"] == f"127.0.0.1:{prometheus_server.port}"

    def test_a_target_added_later_is_scraped_until_it_is_forgotten(self, prometheus_server: PrometheusServer) -> None:
        with PrometheusServer() as other:
            prometheus_server.scrape("other", f"127.0.0.1:{other.port}")
            prometheus_server.wait_for('up{job="other"} == 1')
        prometheus_server.forget("other")
        prometheus_server.wait_for('up{job="other"}', lambda samples: not samples)

    def test_samples_survive_a_kill(self, prometheus_server: PrometheusServer) -> None:
        # A result has the time of the query. The first sample's own timestamp shows what was stored before the kill.
        query = 'min_over_time(timestamp(up{job="prometheus"})[10m:200ms])'
        prometheus_server.wait_for(query)
        killed = time.time()
        prometheus_server.kill()
        prometheus_server.start()
        assert prometheus_server.wait_for(query)[0].value < killed

    def test_promtool_accepts_a_valid_exposition_and_rejects_an_invalid_one(self, prometheus_server: PrometheusServer) -> None:
        with urllib.request.urlopen(f"{prometheus_server.url}/metrics", timeout=10) as answer:
            assert answer.status == 200
        good = "# HELP lists_total Lists.\n# TYPE lists_total counter\nlists_total 3\n"
        assert prometheus_server.promtool("check", "metrics", given=good).returncode == 0
        assert prometheus_server.promtool("check", "metrics", given="lists_total{ 3\n").returncode == 1


class TestProcess:
    def test_a_server_that_cannot_start_shows_its_log(self) -> None:
        with pytest.raises(ServerError, match=r"(?s)redis exited with 1 .*no-such-setting"), RedisServer(settings={"no-such-setting": "1"}):
            pass

    def test_a_missing_program_names_the_command_that_installs_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(tools.MissingToolError, match="make servers"):
            tools.find_tool("no-such-server")
        monkeypatch.setattr(tools, "CACHE_DIRECTORY", Path("/nonexistent"))
        with pytest.raises(tools.MissingToolError, match="make servers"):
            KafkaBroker()

    def test_the_redis_of_the_system_is_used_and_not_one_in_the_venv(self) -> None:
        assert not tools.find_tool("redis-server").is_relative_to(sys.prefix)

    def test_ports_are_unique_and_leave_room_for_the_cluster_bus(self) -> None:
        ports = [free_port(with_cluster_bus=True) for _ in range(50)]
        assert len(set(ports)) == 50
        assert max(ports) + CLUSTER_BUS_OFFSET < 65_536

    def test_close_ends_the_process_and_deletes_its_directory(self) -> None:
        with RedisServer() as server:
            directory = server.directory
            assert directory.exists()
        assert not server.alive
        assert not directory.exists()

    def test_servers_end_with_their_parent_process_even_if_it_is_killed(self) -> None:
        parent = subprocess.Popen([sys.executable, "-c", START_AND_WAIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert parent.stdin is not None
        assert parent.stdout is not None
        with parent.stdin, parent.stdout:
            pid, directory = parent.stdout.readline().split()
            os.kill(int(pid), 0)  # it is running
            os.kill(parent.pid, signal.SIGKILL)
            parent.wait()
            wait_until(lambda: not running(int(pid)) and not Path(directory).exists(), what="the server and its directory no longer exist")

    def test_an_abstract_server_cannot_be_instantiated(self) -> None:
        with pytest.raises(TypeError, match="abstract"):
            Server()  # type: ignore[abstract]


def running(pid: int) -> bool:
    """Return whether a process is running. A zombie is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
