"""A real Prometheus scrapes the HTTP port and returns the numbers of the report."""

from __future__ import annotations

from dataclasses import replace
from urllib.request import urlopen

import pytest

from streammetrics.exporters.http.answers import HttpAnswers
from streammetrics.runtime.status import ProcessStatus
from tests.support.committed_state import MINUTE_MS, START_MS, Now, Pipeline, served, shown, two_variants
from tests.support.experiment_samples import experiment
from tests.tools.servers.prometheus import PrometheusServer


@pytest.fixture
def pipeline() -> Pipeline:
    return two_variants()


@pytest.fixture
def answers(pipeline: Pipeline) -> HttpAnswers:
    answers = HttpAnswers(pipeline.exposition(ProcessStatus()), Now())
    answers.show(pipeline.report())
    return answers


def test_the_ndcg_of_a_window_equals_the_report(prometheus_server: PrometheusServer, pipeline: Pipeline, answers: HttpAnswers) -> None:
    (window,) = [window for window in pipeline.report().windows if window.view == "final" and window.window_ms == 300_000]
    wanted = {group.group.variant: group.values["ndcg@10"] for group in window.groups if group.group.variant and not group.group.segment}
    assert wanted.keys() == {"control", "treatment"}
    with served(answers) as base:
        prometheus_server.scrape("streammetrics", base.removeprefix("http://"))
        answer = prometheus_server.wait_for(
            'streammetrics_ndcg{job="streammetrics", experiment="ranker", k="10", window="5m", segments=""}'
        )
        assert {sample.labels["variant"]: sample.value for sample in answer} == wanted
        by_sums = prometheus_server.query(
            'streammetrics_final_ndcg_sum_total{experiment="ranker", k="10"}'
            ' / ignoring(k) streammetrics_final_lists_total{experiment="ranker"}'
        )
        assert {sample.labels["variant"]: sample.value for sample in by_sums} == wanted
        prometheus_server.forget("streammetrics")


def test_the_verdict_and_the_interval_equal_the_report(
    prometheus_server: PrometheusServer, pipeline: Pipeline, answers: HttpAnswers
) -> None:
    experiment_report = experiment({"control": 0.5, "treatment": 0.4})
    answers.show(replace(pipeline.report(), experiments=(experiment_report,)))
    with served(answers) as base:
        prometheus_server.scrape("verdicts", base.removeprefix("http://"))
        answer = prometheus_server.wait_for('streammetrics_experiment_verdict{job="verdicts", metric="", scope="start"} == -1')
        assert [(sample.labels["experiment"], "variant" in sample.labels) for sample in answer] == [("ranker", False)]
        _, treatment = experiment_report.variants
        for end in ("lift_lower", "lift", "lift_upper"):
            (sample,) = prometheus_server.query(f'streammetrics_experiment_{end}{{job="verdicts", metric="ndcg", k="10"}}')
            assert sample.labels["variant"] == "treatment"
            assert sample.value == getattr(treatment.measures[0], end)
        (p_value,) = prometheus_server.query('streammetrics_experiment_srm_p_value{job="verdicts"}')
        assert p_value.value == experiment_report.health.sample_ratio_p
        prometheus_server.forget("verdicts")


def test_names_from_senders_arrive_unchanged(prometheus_server: PrometheusServer) -> None:
    names = {"<b>bold</b>", 'say "hi" \\', "👩‍🔬"}
    pipeline = Pipeline().feed("impressions", *(shown(f"u{index}", name) for index, name in enumerate(sorted(names))))
    answers = HttpAnswers(pipeline.move_on(START_MS + 2 * MINUTE_MS).exposition(ProcessStatus()), Now())
    answers.show(pipeline.report())
    with served(answers) as base:
        prometheus_server.scrape("strange-names", base.removeprefix("http://"))
        answer = prometheus_server.wait_for('streammetrics_variant_info{job="strange-names"}')
        assert {sample.labels["variant"] for sample in answer} == names
        prometheus_server.forget("strange-names")


def test_promtool_accepts_the_metrics(prometheus_server: PrometheusServer, pipeline: Pipeline, answers: HttpAnswers) -> None:
    answers.show(replace(pipeline.report(), experiments=(experiment({"control": 0.5, "treatment": 0.4}),)))
    with served(answers) as base, urlopen(f"{base}/metrics", timeout=10) as answer:
        checked = prometheus_server.promtool("check", "metrics", given=answer.read().decode())
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
