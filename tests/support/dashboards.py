"""Start a real Prometheus with data for every panel: a running demo, processes with known numbers, and a week of history.

The job `streammetrics` is a demo. The job `known` is two processes with the same committed state and different process status.
Experiments come from reports of simulated users.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streammetrics.connectors.source import Input
from streammetrics.connectors.store import StoreNode
from streammetrics.experiments.building import build_report, choose_scales
from streammetrics.experiments.experiment_report import ExperimentReport
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.stored import FeedbackCounts, StoredSums
from streammetrics.exporters.http.answers import HttpAnswers
from streammetrics.exporters.prometheus.experiments import (
    MeasureRow,
    PreferenceRow,
    measure_rows,
    preference_rows,
)
from streammetrics.metrics.names import ENGAGEMENT_NAMES, METRIC_NAMES
from streammetrics.reports.report import Report
from streammetrics.runtime.status import ProcessStatus
from streammetrics.words.sentences import DataWarning
from tests.support.catalogue import assessment
from tests.support.columns import WITH_COVARIATES
from tests.support.command_line import started
from tests.support.committed_state import Now, served, two_variants
from tests.support.experiment_samples import arm, credits, in_one_hour
from tests.tools.servers.process import HOST
from tests.tools.servers.prometheus import PrometheusServer

SETTINGS = (f"metrics.names={','.join(METRIC_NAMES)}", "metrics.cutoffs=3,10", f"engagement.names={','.join(ENGAGEMENT_NAMES)}")
_ASSESSMENT = {key: ",".join(map(str, value)) if isinstance(value, list) else value for key, value in assessment().items()}
_FLAGS = (*SETTINGS, *(f"assessment.{key}={value}" for key, value in _ASSESSMENT.items()))
DEMO = ("demo", "--port", "0", "--rate", "20", *(word for flag in _FLAGS for word in ("--set", flag)))
TARGETS = 7
"""Prometheus, the demo, two processes with known numbers, one without a report, and the experiments in both jobs."""
SCRAPE_MS = 5_000
"""Time between two scrapes, and the time that one may take. A target that answers too late loses its series until the next scrape."""
READY_SECONDS = 180
"""Deadline for two scrapes of each target on a busy machine."""
NODES = (StoreNode("redis:6379", 300, 1_000, evicts=False, forgets=True), StoreNode("redis:6380", 500, 0, evicts=True, forgets=False))
"""Two servers of Redis, as an exporter sees them. A demo has none."""
DAY_SECONDS = 86_400
BEHIND_SECONDS = 3_600
"""Time between a scrape and the newest list in the experiments."""
HISTORY = {1: 0.5, 7: 0.25}
"""The ndcg of every variant, by days ago."""
WARNING = DataWarning("lists per user", "treatment has twice as many lists per user as control", variant="treatment")
ALERT = {"alert": "StreammetricsExample", "expr": "vector(1)", "labels": {"severity": "warning"}}


class Reports(Collector):
    """Collects the rows of experiment reports as gauges."""

    def __init__(self, reports: Sequence[ExperimentReport]) -> None:
        self._reports = reports

    def collect(self) -> Iterator[Metric]:
        yield from _families(
            "experiment", ("experiment", "variant", "metric", "k", "scope"), (measure_rows(report) for report in self._reports)
        )
        yield from _families(
            "interleaving", ("experiment", "team", "against", "scope"), (preference_rows(report) for report in self._reports)
        )
        entered = GaugeMetricFamily("streammetrics_experiment_entered_timestamp_seconds", "Of all experiments.")
        entered.add_metric([], time.time() - BEHIND_SECONDS)
        yield entered
        yield from _exposed_lists()


def _exposed_lists() -> Iterator[Metric]:
    """Lists by whether an exposure gave them a variant. They grow with the clock; the demo sends labels instead of exposures."""
    for name, per_second in (("lists_exposed", 9), ("lists_unexposed", 1)):
        family = CounterMetricFamily(f"streammetrics_{name}", "Of a stream with exposures.", labels=["topic"])
        family.add_metric(["impressions"], per_second * time.time())
        yield family


def _families(subject: str, labels: tuple[str, ...], reports: Iterable[Iterator[MeasureRow] | Iterator[PreferenceRow]]) -> Iterator[Metric]:
    """Yield the rows of each series. What a row has after its value is the label `warning`, if it is not empty."""
    families: defaultdict[str, list[tuple[list[str], float]]] = defaultdict(list)
    for series, *row in chain.from_iterable(reports):
        values, value, warning = row[: len(labels)], row[len(labels)], row[len(labels) + 1 :]
        families[series].append(([str(label) for label in (*values, *filter(None, warning))], float(value)))
    for series, rows in families.items():
        names = (*labels, "warning") if len(rows[0][0]) > len(labels) else labels
        family = GaugeMetricFamily(f"streammetrics_{subject}_{series}", "Of an experiment.", labels=names)
        for values, value in rows:
            family.add_metric(values, value)
        yield family


def experiments() -> dict[str, ExperimentReport]:
    """Return one experiment by scope: one worse and one better variant; today all are inconclusive."""
    chances = {"control": 0.5, "treatment": 0.4, "candidate": 0.6}
    policy = Policy(paging=("ndcg@10",), shares=dict.fromkeys(chances, 1.0))
    users = {"start": 1_500, "day": 120}
    moments = {
        scope: {
            name: arm(count, chance if scope == "start" else 0.5, seed, with_covariates=True)
            for seed, (name, chance) in enumerate(chances.items())
        }
        for scope, count in users.items()
    }
    scales, reports = dict[str, float](), {}
    for scope, of_scope in moments.items():
        exposures = {name: sums[0] for name, sums in of_scope.items()}
        stored = StoredSums(
            experiment="ranker",
            scope=scope,
            first_list_users=exposures,
            exposed=exposures,
            joined=FeedbackCounts(900, 100),
            credits=credits(users[scope], -0.2),
            **in_one_hour(WITH_COVARIATES, of_scope),
        )
        scales = scales or choose_scales(WITH_COVARIATES, policy, stored, {})
        reports[scope] = replace(build_report(WITH_COVARIATES, policy, stored, scales), warnings=(WARNING,))
    return reports


@dataclass(frozen=True)
class Scene:
    """The reports, and the Prometheus that scraped them."""

    prometheus: PrometheusServer
    report: Report
    experiments: dict[str, ExperimentReport]


@contextlib.contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Start everything, and wait until all targets have been scraped twice."""
    rules = folder / "rules.json"
    rules.write_text(json.dumps({"groups": [{"name": "example", "rules": [ALERT]}]}), encoding="utf-8")
    reports = experiments()
    pipeline = two_variants()
    with contextlib.ExitStack() as stack:
        demo = stack.enter_context(_demo())
        prometheus = PrometheusServer(rules=[rules], scrape_interval_ms=SCRAPE_MS)
        stack.callback(prometheus.close)
        _remember(prometheus, folder / "history.txt")
        served_reports = _served_reports(stack, list(reports.values()))
        pages = []
        for partition, records in enumerate((5, 7)):
            status = ProcessStatus(
                lag_records={Input("impressions", partition): records},
                lag_seconds={Input("impressions", partition): records / 2},
                cached_users=100,
                paused_inputs=partition,
                store_nodes=NODES,
                results=Counter(sent=40, failed=1),
            )
            answers = HttpAnswers(pipeline.exposition(status, series_max=5_000), Now())
            answers.show(pipeline.report())
            pages.append(stack.enter_context(served(answers)).removeprefix("http://"))
        sending = ProcessStatus(
            store_nodes=NODES,
            results=Counter(sent=4, failed=0),
        )
        young = stack.enter_context(served(HttpAnswers(pipeline.exposition(sending, loop=False), Now())))
        prometheus.targets |= {"streammetrics": [demo, young.removeprefix("http://"), served_reports], "known": [*pages, served_reports]}
        prometheus.start()
        twice = "count(sum_over_time(up[1m]) > 1)"
        prometheus.wait_for(twice, lambda samples: bool(samples) and samples[0].value == TARGETS, deadline_seconds=READY_SECONDS)
        prometheus.wait_for('streammetrics_ndcg{job="streammetrics", variant="treatment"}', deadline_seconds=READY_SECONDS)
        yield Scene(prometheus, pipeline.report(), reports)


@contextlib.contextmanager
def _demo() -> Iterator[str]:
    with started(*DEMO) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        match = re.search(r"http://([\d.]+:\d+)/", first)
        assert match, first
        yield match[1]
        process.kill()


def _served_reports(stack: contextlib.ExitStack, reports: Sequence[ExperimentReport]) -> str:
    registry = CollectorRegistry()
    registry.register(Reports(reports))
    server, thread = start_http_server(0, HOST, registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    stack.callback(stop)
    return f"{HOST}:{server.server_port}"


def _remember(prometheus: PrometheusServer, file: Path) -> None:
    """Write samples of past days into the database of Prometheus before it starts."""
    now = time.time()
    lines = ["# TYPE streammetrics_ndcg gauge"]
    for job, window in (("streammetrics", "1m"), ("known", "5m")):
        for variant in ("control", "treatment"):
            labels = f'job="{job}",instance="before",experiment="ranker",variant="{variant}",k="10",window="{window}"'
            for days, value in sorted(HISTORY.items(), reverse=True):
                moments = range(-60, 600, 30)
                lines += [f"streammetrics_ndcg{{{labels}}} {value} {now - days * DAY_SECONDS + seconds:.3f}" for seconds in moments]
    file.write_text("\n".join([*lines, "# EOF", ""]), encoding="utf-8")
    done = prometheus.promtool("tsdb", "create-blocks-from", "openmetrics", file, prometheus.directory / "tsdb")
    assert done.returncode == 0, done.stderr
