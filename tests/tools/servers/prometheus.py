"""A real Prometheus on a loopback port. It scrapes itself and the targets that a test adds."""

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

from tests.tools.servers.process import HOST, NotReadyError, Server, free_port, wait_until
from tests.tools.servers.tools import find_tool


class Sample(NamedTuple):
    """One element of an instant vector."""

    labels: dict[str, str]
    value: float


class PrometheusServer(Server):
    """One Prometheus. Its samples survive `kill` and `restart`. `rules` are rule files to load, `alertmanagers` are host:port."""

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
        """Write the configuration as JSON, which is valid YAML."""
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
        except urllib.error.HTTPError as error:  # 503 while it replays its log
            error.close()
            raise NotReadyError(str(error)) from error

    def scrape(self, job: str, *targets: str, **options: object) -> None:
        """Scrape `targets` (host:port, path /metrics) as `job`. The first samples take about 5 s.

        `options` are added to the job's scrape_config, such as a scheme. A job with the same name is replaced.
        """
        self.targets[job], self.options[job] = list(targets), options
        self._reload()

    def forget(self, job: str) -> None:
        """Stop scraping a job. Its series end within about 6 s.

        The job stays without targets. If the whole job were removed, Prometheus 2.42 would return its last values for five more minutes.
        """
        self.targets[job] = []
        self._reload()

    def load(self, rules: Sequence[Path]) -> None:
        """Replace the rule files. Returns when the rules are evaluated and the Alertmanagers are known.

        After a reload Prometheus takes up to 5 s to find its Alertmanagers again, and sends no alerts meanwhile. Without the wait, a
        consequence could be reported before its cause.
        """
        self.rules = list(rules)
        self._reload()
        if self.alive:
            loaded = {str(path) for path in self.rules}
            wait_until(lambda: {group["file"] for group in self._get("rules")["groups"]} == loaded, what="the rules are loaded")
            count_before = len(self.alertmanagers)
            wait_until(lambda: len(self._get("alertmanagers")["activeAlertmanagers"]) == count_before, what="the Alertmanagers are found")

    def _reload(self) -> None:
        self.prepare()
        if self.alive:
            self._require_process().send_signal(signal.SIGHUP)

    def query(self, promql: str) -> list[Sample]:
        """Return the current instant vector of an expression."""
        data = self._get("query", {"query": promql})
        assert data["resultType"] == "vector", f"{promql} gives a {data['resultType']}, not a vector"
        return [Sample(one["metric"], float(one["value"][1])) for one in data["result"]]

    def label_values(self, label: str, selector: str = "") -> list[str]:
        """Return the values of a label in the series of a selector, by default in all series."""
        return [str(value) for value in self._get(f"label/{label}/values", {"match[]": selector} if selector else {})]

    def _get(self, path: str, words: Mapping[str, str] = MappingProxyType({})) -> Any:
        """Return the data of a response of the HTTP API."""
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(words)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def wait_for(self, promql: str, until: Callable[[list[Sample]], bool] = bool, *, deadline_seconds: float = 120) -> list[Sample]:
        """Query until the result is acceptable (by default: not empty), and return it. Raises AssertionError with the last result."""
        end = time.monotonic() + deadline_seconds
        while not until(answer := self.query(promql)):
            assert time.monotonic() < end, f"after {deadline_seconds} s {promql} still gives {answer}; targets: {self.query('up')}"
            time.sleep(0.2)
        return answer

    def promtool(self, *arguments: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run promtool, for example with check, metrics and a text exposition as `given`."""
        return subprocess.run([self._promtool, *arguments], input=given, capture_output=True, text=True, check=False)
