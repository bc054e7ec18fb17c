"""A real Kafka broker on loopback ports: one KRaft node that is broker and controller. Or a cluster of such nodes."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from tests.tools.servers.process import LOOPBACK, Host, Server, ServerError, Startable, check_port_open, free_port, wait_until
from tests.tools.servers.tools import find_java, find_kafka_jars, kafka_classes

CLUSTER_ID = "c3RyZWFtbWV0cmljcy10ZQ"  # any 16 bytes in base64: brokers of different tests never meet
ANOTHER_CLUSTER_ID = "YW5vdGhlciBjbHVzdGVyIQ"
LOG4J = """\
rootLogger.level=INFO
rootLogger.appenderRefs=a
rootLogger.appenderRef.a.ref=A
appenders=a
appender.a.type=Console
appender.a.name=A
appender.a.layout.type=PatternLayout
appender.a.layout.pattern=[%d] %p %m (%c{1})%n
"""


class KafkaBroker(Server):
    """One broker. Several may run at once. Its topics survive `kill` and `restart`.

    `properties` override those below in server.properties. `scram` maps users, created at the first start, to passwords.
    `for_rates` enables Java's full compiler: a slower start and a faster broker.
    """

    name = "kafka"
    ready_seconds = 90
    not_ready = (*Server.not_ready, KafkaError)

    def __init__(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        scram: Mapping[str, str] | None = None,
        heap_mb: int = 256,
        for_rates: bool = False,
        host: Host = LOOPBACK,
        cluster_id: str = CLUSTER_ID,
    ) -> None:
        self._java, self._jars = find_java(), find_kafka_jars().resolve()  # an archive of classes knows each jar by its path
        super().__init__(host)
        address = host.address
        self.port, self.controller_port = free_port(), free_port()
        self.heap_mb, self.for_rates, self._cluster_id = heap_mb, for_rates, cluster_id
        self.scram = dict(scram or {})
        self._created: set[str] = set()
        self.properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{address}:{self.controller_port}",
            "listeners": f"PLAINTEXT://{address}:{self.port},CONTROLLER://{address}:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{address}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.directory / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            # After SIGKILL the controller refuses the broker until its old session has expired, by default 9 s.
            **({} if for_rates else {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "250"}),
            "metadata.max.idle.interval.ms": "5000",  # by default a quiet controller writes a record twice a second
            # Remove deleted topics from disk soon. After SIGKILL the broker recovers every log on disk, one after the other.
            "log.segment.delete.delay.ms": "500",
            "log.initial.task.delay.ms": "500",
            # Most tests write records of 2023. The default of seven days deletes them, whenever the broker looks for old records.
            "log.retention.ms": "-1",
            **(properties or {}),
        }

    @property
    def bootstrap(self) -> str:
        """The value for clients' bootstrap_servers."""
        return f"{self.host.address}:{self.port}"

    def prepare(self) -> None:
        config = self.directory / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()), encoding="utf-8")
        (self.directory / "log4j2.properties").write_text(LOG4J, encoding="utf-8")
        if not (self.directory / "data").exists():
            self._format(config)

    def _format(self, config: Path) -> None:
        users = [
            f"{kind}=[name={name},password={word}]" for name, word in self.scram.items() for kind in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        ]
        added = [argument for user in users for argument in ("--add-scram", user)]
        tool = self._java_command("kafka.tools.StorageTool", "format", "-t", self._cluster_id, "-c", config, *added)
        done = subprocess.run(tool, cwd=self.directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ServerError(f"Kafka's storage tool failed:\n{done.stdout}{done.stderr}")

    def command(self) -> Sequence[str | Path]:
        return self._java_command("kafka.Kafka", self.directory / "server.properties")

    def _java_command(self, main: str, *arguments: str | Path) -> list[str | Path]:
        speed = [] if self.for_rates else ["-XX:TieredStopAtLevel=1"]
        memory = ["-Xms64m", f"-Xmx{self.heap_mb}m", "-XX:+UseSerialGC"]
        archive = [f"-XX:SharedArchiveFile={kafka_classes()}"] if kafka_classes().is_file() else []
        logs = f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}"
        return [self._java, *memory, *speed, "-Xshare:auto", *archive, logs, "-cp", f"{self._jars}/*", main, *arguments]

    def check_ready(self) -> None:
        check_port_open(self.port, self.host.address)  # a Kafka client whose first connection fails leaves a thread behind
        with self.admin() as admin:
            admin.describe_cluster()

    @contextmanager
    def admin(self, **options: Any) -> Iterator[KafkaAdminClient]:
        client = KafkaAdminClient(bootstrap_servers=self.bootstrap, **{"request_timeout_ms": 10_000, **options})
        try:
            yield client
        finally:
            client.close()

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic, replicated as the broker is set to, and wait until every partition has a leader."""
        self._created.add(name)
        topic = NewTopic(name, num_partitions=partitions, replication_factor=-1, topic_configs=dict(configs or {}))
        with self.admin() as admin:
            admin.create_topics([topic])
            wait_until(lambda: self._leaders(admin, name) == partitions, what=f"topic {name} has {partitions} leaders")

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until the broker no longer lists it."""
        with self.admin() as admin:
            admin.delete_topics([name])
            wait_until(lambda: name not in admin.list_topics(), what=f"topic {name} is gone")

    def delete_topics_of(self, test: str) -> None:
        """Delete the topics whose names begin with `test`, without waiting. Sends nothing if none was created."""
        names = [name for name in self._created if name.startswith(test)]
        self._created.difference_update(names)
        if names:
            with self.admin() as admin, contextlib.suppress(KafkaError):  # a test may have deleted one itself
                admin.delete_topics(names)

    @staticmethod
    def _leaders(admin: KafkaAdminClient, topic: str) -> int:
        described = admin.describe_topics([topic])[0]
        return sum(partition["leader_id"] >= 0 for partition in described["partitions"])


class _ArchivingBroker(KafkaBroker):
    """A broker that archives the classes that it has loaded, when it stops."""

    stop_seconds = 120

    def __init__(self, archive: Path) -> None:
        super().__init__()
        self._archive = archive

    def command(self) -> Sequence[str | Path]:
        java, *arguments = super().command()
        return [java, f"-XX:ArchiveClassesAtExit={self._archive}", *arguments]


def archive_classes(archive: Path) -> Path:
    """Archive the classes of a broker in a file, which is returned. Brokers that use it start sooner."""
    with _ArchivingBroker(archive) as broker:
        broker.create_topic("any")
        broker.stop()
    return archive


def places_of(consumer: Any, *topics: str) -> list[TopicPartition]:
    """Return the partitions of topics, in order. A client whose first refresh is under way answers with none, so it is asked again."""
    for topic in topics:
        wait_until(lambda topic=topic: bool(consumer.partitions_for_topic(topic)), what=f"the client knows {topic}")  # type: ignore[misc]
    return [TopicPartition(topic, partition) for topic in topics for partition in sorted(consumer.partitions_for_topic(topic))]


class KafkaCluster(Startable):
    """A broker on each of three or more hosts. Every partition is on three brokers, and a write needs two of them."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        factors = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor", "default.replication.factor")
        properties = {
            **dict.fromkeys(factors, "3"),
            "min.insync.replicas": "2",
            "transaction.state.log.min.isr": "2",
            "unclean.leader.election.enable": "false",
            "replica.lag.time.max.ms": "5000",  # a replica that is cut off holds writes up so long
        }
        self.brokers = [KafkaBroker(properties=properties, host=host) for host in hosts]
        voters = ",".join(f"{number}@{broker.host.address}:{broker.controller_port}" for number, broker in enumerate(self.brokers, start=1))
        for number, broker in enumerate(self.brokers, start=1):
            broker.properties |= {"node.id": str(number), "controller.quorum.voters": voters}

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, separated by commas."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        self.brokers[0].create_topic(name, partitions, configs)

    def start(self) -> Self:
        for broker in self.brokers:
            broker.launch()
        for broker in self.brokers:
            broker.wait_ready()
        return self

    def close(self) -> None:
        for broker in self.brokers:
            broker.close()
