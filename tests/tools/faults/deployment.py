"""Brokers, Redis, workers and an exporter under steady traffic, on one machine or on the hosts of a network."""

from __future__ import annotations

import contextlib
import shutil
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Self

from streammetrics.config.kafka import KafkaSettings
from tests.support.real_pipeline import Pipeline, Service
from tests.tools.faults.network import Network
from tests.tools.faults.schedule import BROKERS, CACHES, EXPORTER, WORKERS, Fault
from tests.tools.servers.feeder import Feeder
from tests.tools.servers.kafka import KafkaBroker, KafkaCluster
from tests.tools.servers.process import LOOPBACK, Host, Server
from tests.tools.servers.redis import RedisCluster, RedisServer

NAME = "faults"
SECTIONS: Mapping[str, Mapping[str, object]] = {
    "kafka": {"results_topic": f"{NAME}-results", "session_timeout_ms": 6_000},
    "redis": {"socket_timeout_ms": 1_000},
    # Users act ten times as fast as real ones. No input is idle, because ticks are in no topic and a replay has none.
    "join": {"gap_ms": 10_000, "attribution_ms": 8_000, "lateness_ms": 1_000, "out_of_orderness_ms": 2_000, "idle_ms": 3_600_000},
    "windows": {"pane_ms": 5_000, "windows": ["30s", "1m"], "segments": ["surface"]},
    "metrics": {"cutoffs": [10]},
    "experiments": {"patience_ms": 3_000},
    "worker": {"commit_ms": 250, "commit_behind_ms": 500},
    "exporter": {"publish_ms": 250},
}
TRAFFIC = {"late_rate": 0.01, "late_ms": 60_000, "malformed_rate": 0.01, "duplicate_rate": 0.02, "feedback_without_id_rate": 0.1}
"""Late by six seconds, as users act ten times as fast."""
CLUSTER_SETTINGS = {
    "protected-mode": "no",  # with it, Redis answers loopback addresses only
    "appendfsync": "everysec",
    "cluster-require-full-coverage": "no",
    "repl-diskless-sync-delay": "0",
    "repl-timeout": "10",
}
MASTERS = 3
SLOW_SECONDS = 1.0
PAUSE_MS = 700


class Deployment(ABC):
    """The servers by name, started by `with`. A worker or exporter that ends by itself is started again, as by systemd."""

    def __init__(
        self,
        broker: KafkaBroker | KafkaCluster,
        cache: RedisServer | RedisCluster,
        workers: Sequence[str],
        seed: int,
        hosts: Mapping[str, Host] | None = None,
    ) -> None:
        self.broker, self.cache, self._seed, self._hosts = broker, cache, seed, hosts or {}
        self.services: dict[str, Service] = dict.fromkeys((*workers, EXPORTER))  # type: ignore[assignment]
        self.restarts: Counter[str] = Counter()
        self._stopped: set[str] = set()
        self._supervising = threading.Lock()
        self._undo = ExitStack()

    @abstractmethod
    def suffering(self, fault: Fault) -> AbstractContextManager[Fault]:
        """Return a context in which a fault lasts. It yields the fault as it really is."""

    @property
    def exporter(self) -> Service:
        return self.services[EXPORTER]

    @property
    def servers(self) -> dict[str, Server]:
        """Every server by name."""
        brokers = self.broker.brokers if isinstance(self.broker, KafkaCluster) else [self.broker]
        caches = self.cache.nodes if isinstance(self.cache, RedisCluster) else [self.cache]
        both = (("broker", brokers), ("redis", caches))
        numbered = {f"{name}-{number}": server for name, group in both for number, server in enumerate(group, start=1)}
        return {**{name: service for name, service in self.services.items() if service}, **numbered}

    def __enter__(self) -> Self:
        with self._undo as undo:
            self._start(undo)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def _start(self, undo: ExitStack) -> None:
        undo.enter_context(self.broker)
        undo.enter_context(self.cache)
        self.broker.create_topic(f"{NAME}-results", configs={"cleanup.policy": "compact"})
        sections = {**SECTIONS, "redis": {**SECTIONS["redis"], "cluster": isinstance(self.cache, RedisCluster)}}
        self.pipeline = Pipeline(self.broker, self.cache.url, NAME, ["impressions", "feedback"], **sections)
        for name in self.services:
            role = {"role": "exporter" if name == EXPORTER else "worker"}
            self.services[name] = self.pipeline.service(self._hosts.get(name, LOOPBACK), worker=role)
            undo.callback(self.services[name].close)
            self.services[name].launch()
        for service in self.services.values():
            service.wait_ready()
        brokers = KafkaSettings(bootstrap_servers=tuple(self.broker.bootstrap.split(",")))
        impressions, feedback = self.pipeline.topics
        self.feeder = Feeder(brokers, (impressions, feedback), users=2_000, seed=self._seed, **TRAFFIC)
        undo.enter_context(self.feeder.altered(lambda sent: (sent,) if sent.value else ()))  # a file has no empty records
        undo.enter_context(self.feeder)

    def supervise(self) -> None:
        """Start what has ended by itself."""
        with self._supervising:
            for name, service in self.services.items():
                if name not in self._stopped and not service.alive:
                    self.restarts[name] += 1
                    service.launch()

    @contextmanager
    def away(self, name: str, how: str) -> Iterator[None]:
        """Kill, stop or freeze a server while the block runs."""
        server = self.servers[name]
        with self._supervising:
            self._stopped.add(name)
            {"kill": server.kill, "stop": server.stop, "freeze": server.hang}[how]()
        try:
            yield
        finally:
            server.resume()
            if not server.alive:
                server.launch()
            self._stopped.discard(name)

    def keep_logs(self, folder: Path) -> None:
        """Copy the logs and settings of all servers."""
        for name, server in self.servers.items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            for file in server.directory.glob("*"):
                if file.is_file():
                    shutil.copy(file, folder / name)


class Partitions(Deployment):
    """Three brokers, a Redis Cluster of three masters with a replica each, three workers and an exporter, each on a host of its own."""

    def __init__(self, seed: int, network: Network) -> None:
        self._network = network
        broker = KafkaCluster([network.hosts[name] for name in BROKERS])
        cache = RedisCluster(MASTERS, settings=CLUSTER_SETTINGS, hosts=[network.hosts[name] for name in CACHES])
        super().__init__(broker, cache, WORKERS, seed, network.hosts)

    @contextmanager
    def suffering(self, fault: Fault) -> Iterator[Fault]:
        """Let the links of a fault fail while the block runs. Yields the fault with masters in the place of replicas."""
        met = self._met_by_masters(fault)
        with self._network.faulty(met.form, met.links):
            yield met

    def _met_by_masters(self, fault: Fault) -> Fault:
        """Return a fault of a replica as one of its master: the numbers do not depend on a replica that is away."""
        if fault.host in CACHES:
            master = self._master_of(fault.host)
            return fault._replace(host=master, others=tuple(fault.host if other == master else other for other in fault.others))
        if len(fault.others) == 1 and fault.others[0] in CACHES:
            return fault._replace(others=(self._master_of(fault.others[0]),))
        return fault

    def _master_of(self, name: str) -> str:
        server = self.servers[name]
        assert isinstance(server, RedisServer)
        with server.client() as client:
            address = client.info("replication").get("master_host", server.host.address)
        return next(other for other in CACHES if self._network.hosts[other].address == address)


class Soak(Deployment):
    """A broker, a Redis, two workers and an exporter on this machine."""

    def __init__(self, seed: int) -> None:
        super().__init__(KafkaBroker(), RedisServer(), WORKERS[:2], seed)

    @contextmanager
    def suffering(self, fault: Fault) -> Iterator[Fault]:
        """Let a process suffer while the block runs."""
        how, _, name = fault.form.partition(" ")
        if how in ("kill", "stop", "freeze"):
            with self.away(name if "-" in name else f"{name}-1", how):
                yield fault
            return
        words = ("CLIENT", "KILL", "TYPE", "normal") if how == "close" else ("CLIENT", "PAUSE", PAUSE_MS)
        done = threading.Event()
        thread = threading.Thread(target=self._disturb, args=(words, done), name="disturbance", daemon=True)
        thread.start()
        try:
            yield fault
        finally:
            done.set()
            thread.join()

    def _disturb(self, words: Sequence[object], done: threading.Event) -> None:
        """Send a command to Redis every second."""
        assert isinstance(self.cache, RedisServer)
        with self.cache.client() as client:
            while not done.is_set():
                with contextlib.suppress(*RedisServer.not_ready):
                    client.execute_command(*words)
                done.wait(SLOW_SECONDS)
