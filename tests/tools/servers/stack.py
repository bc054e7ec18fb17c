"""A whole deployment on one machine: Kafka, Redis, two workers, an exporter, Prometheus with the alerting rules, Alertmanager with a
receiver, and a steady A/B test.

Users and alerting rules are faster than in production, so that minutes become seconds. `stack_command` and the tests of alerts use it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Self

from streammetrics.config import load, render_effective
from streammetrics.config.kafka import KafkaSettings
from tests.support.rules import quick_routes, quick_rules
from tests.tools.servers.alertmanager import AlertmanagerServer, Webhook
from tests.tools.servers.feeder import Feeder
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.product import Product, as_flags
from tests.tools.servers.prometheus import PrometheusServer
from tests.tools.servers.redis import RedisServer

JOB = "streammetrics"
TOPICS = ("impressions", "feedback")
DEAD_LETTERS = "streammetrics-dead-letters"
PARTITIONS = 4
SCALE = 1 / 120
"""The factor for the durations in the rules: five minutes become two and a half seconds."""
OUTAGES = ("StreammetricsRedisDown", "StreammetricsKafkaDown", "StreammetricsCommitsFailing")
OUTAGE_KEPT = "20s"
"""How long these alerts keep firing after an outage. Clients' retry pauses are not shortened, so its consequences last longer, and these
alerts silence them."""
SCRAPE_MS = 400
SETTINGS: Mapping[str, str] = {
    "experiments.paging": "ndcg@10",
    "experiments.named": '{"uneven": {"shares": {"control": 1, "treatment": 1}}}',
    "kafka.session_timeout_ms": "3000",
    "join.gap_ms": "10000",
    "join.attribution_ms": "8000",
    "join.lateness_ms": "500",
    "experiments.patience_ms": "3000",
    "join.out_of_orderness_ms": "500",
    "join.idle_ms": "4000",
    "windows.pane_ms": "1000",
    "windows.windows": "10s,1m",
    "metrics.names": "ndcg,mrr,hit_rate",
    "metrics.cutoffs": "10",
    "worker.commit_ms": "250",
    "worker.commit_behind_ms": "250",
    "exporter.publish_ms": "250",
    "log.format": "json",
}
"""Users act ten times as fast as real ones. Final numbers follow about nine seconds after live ones."""


class Role(Product):
    """A process of the product with one role."""

    def __init__(self, role: str, settings: Mapping[str, str]) -> None:
        self.name = f"streammetrics-{role}"
        super().__init__("--role", role, *as_flags(settings))


class Stack:
    """The deployment, started by `with`. `scale` shortens the durations in the rules. `webhook` gets every alert at /page or /ticket."""

    def __init__(self, *, scale: float = SCALE, settings: Mapping[str, str] | None = None) -> None:
        self.scale = scale
        self._settings = {**SETTINGS, **(settings or {})}
        self._undo = ExitStack()
        self.workers: list[Role] = []

    def __enter__(self) -> Self:
        with self._undo as undo:
            self._start(undo)
            self._undo = undo.pop_all()
        return self

    def _start(self, undo: ExitStack) -> None:
        self.broker = undo.enter_context(KafkaBroker())
        self.redis = undo.enter_context(RedisServer())
        for topic in TOPICS:
            self.broker.create_topic(topic, PARTITIONS)
        self.broker.create_topic(DEAD_LETTERS)
        settings = self._settings = {"kafka.bootstrap_servers": self.broker.bootstrap, "redis.url": self.redis.url, **self._settings}
        for number in (1, 2):
            self.workers.append(Role("worker", {**settings, "kafka.group_instance_id": f"worker-{number}"}))
            undo.callback(self.workers[-1].close)
        self.exporter = Role("exporter", settings)
        undo.callback(self.exporter.close)
        for process in self.processes:
            process.launch()
        self.webhook = undo.enter_context(Webhook())
        self.alertmanager = undo.enter_context(AlertmanagerServer(quick_routes(self.webhook.receivers("page", "ticket"))))
        self.feeder = undo.enter_context(Feeder(KafkaSettings(bootstrap_servers=(self.broker.bootstrap,)), TOPICS))
        for process in self.processes:
            process.wait_ready()
        self.prometheus = self._prometheus(undo)

    def _prometheus(self, undo: ExitStack) -> PrometheusServer:
        server = undo.enter_context(PrometheusServer(scrape_interval_ms=SCRAPE_MS, alertmanagers=[self.alertmanager.address]))
        server.scrape(JOB, *(process.target for process in self.processes))
        # The first samples take seconds. Rules are loaded after them, or every series would seem absent.
        server.wait_for(f'up{{job="{JOB}"}} == 1', lambda samples: len(samples) == len(self.processes))
        for name, file in quick_rules(self.scale, self.exporter.url.rstrip("/")).items():
            for rule in (rule for group in file["groups"] for rule in group["rules"] if rule.get("alert") in OUTAGES):
                rule["keep_firing_for"] = OUTAGE_KEPT
            (server.directory / name).write_text(json.dumps(file), encoding="utf-8")
        server.load(sorted(server.directory.glob("*_rules.yml")))
        return server

    @property
    def processes(self) -> list[Role]:
        return [*self.workers, self.exporter]

    def addresses(self) -> dict[str, str]:
        """Return the addresses by name."""
        return {
            "the page": self.exporter.url,
            "its metrics": f"{self.exporter.url}metrics",
            "Prometheus": f"{self.prometheus.url}/alerts",
            "Alertmanager": self.alertmanager.url,
            "Kafka": self.broker.bootstrap,
            "Redis": self.redis.url,
        }

    def configuration(self) -> str:
        """Return a configuration file with the settings that all processes share, for other commands."""
        effective = render_effective(load(None, {}, self._settings)).splitlines()
        return "".join(line.partition("  # ")[0] + "\n" for line in effective if not line.endswith("  # default"))

    def __exit__(self, *_: object) -> None:
        self._undo.close()
