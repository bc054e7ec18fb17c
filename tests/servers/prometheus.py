"""A real Prometheus on a loopback port, which scrapes itself and whatever a test adds."""

from __future__ import annotations

import json
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.servers.process import HOST, NotReadyError, Server, free_port, wait_until
from tests.servers.tools import find_tool


class Sample(NamedTuple):
    """One element of an instant vector."""

    labels: dict[str, str]
    value: float


class PrometheusServer(Server):
    """One Prometheus. Its samples outlive `kill` and `restart`. `rules` are rule files to load, `alertmanagers` host:port to tell."""

    name = "prometheus"

    def __init__(self, *, scrape_interval_ms: int = 200, rules: Sequence[Path] = (), alertmanagers: Sequence[str] = ()) -> None:
        self._program, self._promtool = find_tool("prometheus"), find_tool("promtool")
        super().__init__()
        self.port = free_port()
        self.scrape_interval_ms = scrape_interval_ms
        self.rules = list(rules)
        self.alertmanagers = list(alertmanagers)
        self.targets = {"prometheus": [f"{HOST}:{self.port}"]}
        self.options: dict[str, Mapping[str, object]] = {}

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def prepare(self) -> None:
        """Write the configuration, as JSON: every JSON text is YAML."""
        every = f"{self.scrape_interval_ms}ms"
        config = {
            "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
            "rule_files": [str(path) for path in self.rules],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": self.alertmanagers}]}]},
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": at}], **self.options.get(job, {})} for job, at in self.targets.items()
            ],
        }
        self._config.write_text(json.dumps(config, indent=1), encoding="utf-8")

    @property
    def _config(self) -> Path:
        return self.directory / "prometheus.yml"

    def command(self) -> Sequence[str | Path]:
        return [
            self._program,
            f"--config.file={self._config}",
            f"--storage.tsdb.path={self.directory / 'tsdb'}",
            f"--web.listen-address={HOST}:{self.port}",
            "--rules.alert.resend-delay=1s",
        ]

    def check_ready(self) -> None:
        try:
            urllib.request.urlopen(f"{self.url}/-/ready", timeout=2).close()
        except urllib.error.HTTPError as error:  # 503 while it reads its own log
            error.close()
            raise NotReadyError(str(error)) from error

    def scrape(self, job: str, *targets: str, **options: object) -> None:
        """Scrape `targets` (host:port, path /metrics) as `job` from now on; their first samples take Prometheus about 5 s.

        `options` go into the job's scrape_config, such as a scheme. A job of the same name is replaced, as after a restart on
        another port.
        """
        self.targets[job], self.options[job] = list(targets), options
        self._reload()

    def forget(self, job: str) -> None:
        """Scrape a job no more. Its series end within about 6 s.

        The job stays without targets: for a job that is gone whole, Prometheus 2.42 does not mark the series as ended,
        and would answer with their last values for five minutes more.
        """
        self.targets[job] = []
        self._reload()

    def load(self, rules: Sequence[Path]) -> None:
        """Evaluate these rule files from now on, and no others. Comes back once they are evaluated, and who is to be told is known.

        With new settings Prometheus forgets its Alertmanagers, takes up to 5 s to find them again, and tells nobody of what fires
        meanwhile: of a cause and its consequence the later one might then be told first.
        """
        self.rules = list(rules)
        self._reload()
        if self.alive:
            loaded = {str(path) for path in self.rules}
            wait_until(lambda: {group["file"] for group in self._asked("rules")["groups"]} == loaded, what="the rules are loaded")
            known = len(self.alertmanagers)
            wait_until(lambda: len(self._asked("alertmanagers")["activeAlertmanagers"]) == known, what="the Alertmanagers are found")

    def _reload(self) -> None:
        self.prepare()
        if self.alive:
            self._require_process().send_signal(signal.SIGHUP)

    def query(self, promql: str) -> list[Sample]:
        """The instant vector of an expression, now."""
        data = self._asked("query", {"query": promql})
        assert data["resultType"] == "vector", f"{promql} gives a {data['resultType']}, not a vector"
        return [Sample(one["metric"], float(one["value"][1])) for one in data["result"]]

    def label_values(self, label: str, selector: str = "") -> list[str]:
        """The values of a label, of the series that a selector finds (by default: of all)."""
        return [str(value) for value in self._asked(f"label/{label}/values", {"match[]": selector} if selector else {})]

    def _asked(self, path: str, words: Mapping[str, str] = MappingProxyType({})) -> Any:
        """The data of an answer of the HTTP API."""
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(words)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def wait_for(self, promql: str, until: Callable[[list[Sample]], bool] = bool, *, deadline_seconds: float = 30) -> list[Sample]:
        """Ask until the answer is as wished (by default: not empty), and return it. Raises AssertionError with the last one."""
        end = time.monotonic() + deadline_seconds
        while not until(answer := self.query(promql)):
            assert time.monotonic() < end, f"after {deadline_seconds} s {promql} still gives {answer}; targets: {self.query('up')}"
            time.sleep(0.05)
        return answer

    def promtool(self, *arguments: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run promtool, for example with check, metrics and a text exposition as `given`."""
        return subprocess.run([self._promtool, *arguments], input=given, capture_output=True, text=True, check=False)
