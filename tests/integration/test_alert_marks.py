"""Alerts on the page, end to end: Prometheus fires, Alertmanager posts to an exporter with a login, as `rules --marks` configures it."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from streammetrics.config import hash_password
from streammetrics.exporters.prometheus.rules.alertmanager import MARKS_PASSWORD_FILE
from streammetrics.exporters.prometheus.rules.options import RuleOptions
from streammetrics.exporters.prometheus.rules.render import files
from tests.servers.alertmanager import AlertmanagerServer
from tests.servers.kafka import KafkaBroker
from tests.servers.process import wait_until
from tests.servers.product import Product, as_flags
from tests.servers.prometheus import PrometheusServer
from tests.servers.stack import JOB, SCALE
from tests.support.command_line import called

USER, WORD = "alertmanager", "a word that only Alertmanager knows"
PATIENCE_SECONDS = 120.0
DOWN = "StreammetricsTargetDown"


class LockedProcess(Product):
    """A process whose port needs a login."""

    def request(self, path: str) -> urllib.request.Request:
        request = super().request(path)
        request.add_header("Authorization", "Basic " + base64.b64encode(f"{USER}:{WORD}".encode()).decode())
        return request

    def marks(self) -> list[dict[str, Any]]:
        """The marks in the data that the page polls."""
        return list(json.loads(self.get("/api/pulse").text)["marks"])


class World:
    """A worker that is also an exporter, a second exporter, Prometheus with the generated rules, and Alertmanager with the generated
    configuration."""

    def __init__(self, undo: ExitStack, folder: Path, settings: Mapping[str, str]) -> None:
        (folder / "htpasswd").write_text(f"{USER}:{hash_password(WORD, cost=10)}\n")
        flags = as_flags({**settings, "kafka.dead_letter_topic": "", "http.htpasswd_file": str(folder / "htpasswd")})
        self.page, self.other = (undo.enter_context(LockedProcess(*role, *flags)) for role in ((), ("--role", "exporter")))
        self.alertmanager = undo.enter_context(AlertmanagerServer(self.configuration(folder)))
        self.prometheus = undo.enter_context(PrometheusServer(scrape_interval_ms=400, alertmanagers=[self.alertmanager.address]))
        login = {"username": USER, "password": WORD}
        self.prometheus.scrape(JOB, self.page.target, self.other.target, basic_auth=login)
        self.prometheus.wait_for(f'up{{job="{JOB}"}} == 1', lambda found: len(found) == 2)
        for name, text in files(RuleOptions(scale=SCALE)).items():
            (self.prometheus.directory / name).write_text(text, encoding="utf-8")
        self.prometheus.load(sorted(self.prometheus.directory.glob("*_rules.yml")))

    def configuration(self, folder: Path) -> dict[str, Any]:
        """What the command writes, with a password in a file of the test and without waiting times."""
        options = ["--marks", self.page.url, "--marks-user", USER]
        assert called("rules", "--out", folder / "rules", *options).returncode == 0
        text = (folder / "rules" / "alertmanager.yml").read_text(encoding="utf-8")
        assert MARKS_PASSWORD_FILE in text
        (folder / "password").write_text(WORD)
        written: dict[str, Any] = yaml.safe_load(text.replace(MARKS_PASSWORD_FILE, str(folder / "password")))
        written["route"] |= {"group_wait": "100ms", "group_interval": "1s"}
        return written

    def wait_for(self, exporter: LockedProcess, right: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """Return the mark of the exporter that went down, once it is right."""

        def found() -> list[dict[str, Any]]:
            return [mark for mark in exporter.marks() if mark["text"].startswith(self.other.target) and right(mark)]

        wait_until(lambda: bool(found()), what=what, deadline_seconds=PATIENCE_SECONDS)
        (mark,) = found()
        return mark


@pytest.fixture
def world(kafka_broker: KafkaBroker, topics: tuple[str, str], redis_url: str, tmp_path: Path) -> Iterator[World]:
    settings = {"kafka.bootstrap_servers": kafka_broker.bootstrap, "kafka.topics": ",".join(topics), "redis.url": redis_url}
    with ExitStack() as undo:
        yield World(undo, tmp_path, settings)


def test_an_alert_becomes_a_mark_that_ends_when_it_is_resolved(world: World) -> None:
    world.other.kill()
    begun = world.wait_for(world.page, lambda mark: mark["ended_ms"] is None, "the page has the mark of a firing alert")
    assert (begun["kind"], begun["text"], begun["experiment"]) == ("alert", f"{world.other.target} cannot be scraped", "")
    (known,) = [alert for alert in world.alertmanager.alerts() if alert["labels"]["alertname"] == DOWN]
    assert begun["alert"] == known["fingerprint"]
    world.other.start()
    ended = world.wait_for(world.page, lambda mark: mark["ended_ms"] is not None, "the mark has ended")
    assert ended == {**begun, "ended_ms": ended["ended_ms"]}
    assert ended["ended_ms"] > begun["at_ms"]
    shared = world.wait_for(world.other, lambda mark: mark["ended_ms"] is not None, "the other exporter has the same mark")
    assert shared == ended
