"""Every query of every dashboard gets data from a real Prometheus. Some must get exact numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from streammetrics.experiments.experiment_report import ExperimentReport
from streammetrics.metrics.names import METRIC_NAMES
from streammetrics.metrics.records import METRICS
from tests.grafana.reading import CHOICES, NAMES, STEPS, PanelQuery, committed, every_query, filled, queries
from tests.support.dashboards import BEHIND_SECONDS, HISTORY, Scene, scene
from tests.tools.servers.prometheus import Sample

TIMES = dict.fromkeys(STEPS, "30s")
"""Long enough for several scrapes."""
CHOSEN = {**CHOICES, **TIMES, "job": "streammetrics"}
KNOWN = {**CHOSEN, "job": "known", "window": "5m"}


@pytest.fixture(scope="module")
def live_scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("dashboards")) as made:
        yield made


def is_data(samples: list[Sample]) -> bool:
    return any(not math.isnan(sample.value) for sample in samples)


def panel(name: str, title: str) -> dict[str, PanelQuery]:
    """Return the queries of a panel by letter."""
    return {query.target["refId"]: query for query in queries(name) if query.panel["title"] == title}


def answer(scene: Scene, query: PanelQuery, choices: Mapping[str, str] = KNOWN) -> dict[tuple[str, ...], float]:
    """Return values by label values, sorted by label name."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for sample in scene.prometheus.wait_for(filled(query.expr, choices))
    }


@pytest.mark.parametrize("query", every_query(), ids=str)
def test_every_panel_has_data(live_scene: Scene, query: PanelQuery) -> None:
    live_scene.prometheus.wait_for(filled(query.expr, CHOSEN), is_data)


def values_of(scene: Scene, variable: Mapping[str, Any]) -> list[str]:
    """Return the values of a variable with a query, as Grafana does: what its expression finds in them, if it has one."""
    inner = re.fullmatch(r"label_values\((?:(.+), )?(\w+)\)", variable["query"]["query"])
    assert inner is not None
    values = [value for value in scene.prometheus.label_values(inner[2], filled(inner[1] or "", CHOSEN)) if value]
    matches = [re.fullmatch(variable.get("regex", "").strip("/") or "(.*)", value) for value in values]
    return [value[1] for value in matches if value]


def test_every_metric_can_be_chosen(live_scene: Scene) -> None:
    (variable,) = (variable for variable in committed("ranking")["templating"]["list"] if variable["name"] == "metric")
    names = {name for name, record in METRICS.items() if record.is_streamed and record.kind not in ("users", "bucket")}
    assert {*values_of(live_scene, variable)} == names
    repeated = [query for query in queries("ranking") if "${metric}" in query.expr and "offset" not in query.expr]
    asked = [
        filled(query.expr, {**CHOSEN, "metric": name, "k": ".*"})
        for query in repeated
        for name in names
        if METRICS[name].columns or "_total" not in query.expr
    ]
    assert len(asked) > 3 * len(names)
    assert not [expr for expr in asked if not is_data(live_scene.prometheus.query(expr))]


def test_a_segment_can_be_chosen(live_scene: Scene) -> None:
    values = {}
    for segments in ("()", "surface=search"):
        answer = live_scene.prometheus.query(filled(panel("ranking", "$metric, final and live")["B"].expr, {**KNOWN, "segments": segments}))
        values |= {(segments, sample.labels["variant"]): sample.labels.get("segments", "") for sample in answer}
    assert values == {("()", "control"): "", ("()", "treatment"): "", ("surface=search", "treatment"): "surface=search"}


@pytest.mark.parametrize("name", NAMES)
def test_every_variable_has_values_with_its_default(live_scene: Scene, name: str) -> None:
    for variable in committed(name)["templating"]["list"]:
        if variable["type"] != "query":
            continue
        values = values_of(live_scene, variable)
        assert values, variable["name"]
        current = variable.get("current", {}).get("value")
        assert current in (None, "$__all", ["$__all"]) or set([current] if isinstance(current, str) else current) <= {*values}


def test_alerts_and_versions_are_found(live_scene: Scene) -> None:
    alerts, versions = committed("pipeline")["annotations"]["list"]
    (firing,) = live_scene.prometheus.wait_for(filled(alerts["expr"], CHOSEN))
    assert firing.labels["alertname"] == "StreammetricsExample"
    assert [sample.labels.keys() for sample in live_scene.prometheus.query(filled(versions["expr"], CHOSEN))] == [{"version"}]


# --- exact numbers


@pytest.mark.parametrize("scope", ["start", "day"])
def test_the_verdict_panel_shows_the_whole_experiment(live_scene: Scene, scope: str) -> None:
    report = live_scene.experiments[scope]
    choices = {**KNOWN, "scope": scope}
    assert answer(live_scene, panel("experiment", "Verdict on $experiment")["A"], choices) == {(): report.verdict.code}
    assert {experiment.verdict.word for experiment in live_scene.experiments.values()} == {"regressed", "inconclusive"}
    assert answer(live_scene, panel("experiment", "Sample ratio p-value")["A"], choices) == {(): report.health.sample_ratio_p}
    users = {variant.variant: variant.users for variant in report.variants}
    assert {
        sum(users_by_variant.values()) for users_by_variant in (users, answer(live_scene, panel("experiment", "Users")["A"], choices))
    } == {sum(users.values())}


def test_the_delay_is_the_time_since_the_newest_list_in_the_experiments(live_scene: Scene) -> None:
    behind = answer(live_scene, panel("experiment", "Delay and last list")["A"])[()]
    assert BEHIND_SECONDS <= behind < BEHIND_SECONDS + 30


def table_of(report: ExperimentReport) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the columns of the verdict table from the report, by k, metric and variant."""
    control = {(str(measure.k), measure.metric): measure.mean for measure in report.variants[0].measures}
    columns: dict[str, dict[tuple[str, ...], float]] = {letter: {} for letter in "ABCDEFGH"}
    for variant in report.variants[1:]:
        for measure in variant.measures:
            assert measure.verdict is not None
            place = (str(measure.k), measure.metric, variant.variant)
            cells = (
                measure.verdict.code,
                measure.lift,
                measure.lift_lower,
                measure.lift_upper,
                measure.mean,
                control[place[:2]],
                variant.users,
                measure.paging or None,
            )
            for letter, value in zip(columns, cells, strict=True):
                if value is not None:
                    columns[letter][place] = value
    return columns


def test_the_verdict_table_equals_the_report(live_scene: Scene) -> None:
    wanted = table_of(live_scene.experiments["start"])
    assert len(wanted["A"]) == 10
    columns = {letter: answer(live_scene, query) for letter, query in panel("experiment", "All measures against the control").items()}
    assert columns == wanted


def test_the_band_of_the_lift_equals_its_interval(live_scene: Scene) -> None:
    letters = panel("experiment", "Lift of $variant against the control")
    middle, high, low = (answer(live_scene, letters[letter], {**KNOWN, "variant": "treatment"})[("10", "treatment")] for letter in "ABC")
    measure = live_scene.experiments["start"].variants[2].measures[0]
    assert (measure.metric, measure.k) == ("ndcg", 10)
    assert (low, middle, high) == (measure.lift_lower, measure.lift, measure.lift_upper)


def of_report(scene: Scene, view: str) -> dict[str, float]:
    (window,) = [window for window in scene.report.windows if window.view == view and window.window_ms == 300_000]
    return {group.group.variant: group.values["ndcg@10"] for group in window.groups if not group.group.segment}


def test_quality_equals_the_report_with_several_processes(live_scene: Scene) -> None:
    wanted = of_report(live_scene, "final")
    assert wanted.keys() == {"", "control", "treatment"}
    letters = panel("ranking", "$metric, final and live")
    assert answer(live_scene, letters["A"]) == {("10", "5m"): wanted.pop("")}
    assert answer(live_scene, letters["B"]) == {("10", variant, "5m"): value for variant, value in wanted.items()}
    lists = answer(live_scene, panel("ranking", "Lists and users of the window")["A"])
    assert lists == {("control", "5m"): 2, ("treatment", "5m"): 2}
    shares = answer(live_scene, panel("ranking", "Share of lists with feedback, and of users with a hit")["A"])
    assert shares == {("control", "5m"): 0.5, ("treatment", "5m"): 1.0}


def test_the_same_hour_earlier_is_one_day_and_one_week_ago(live_scene: Scene) -> None:
    now = {variant: value for variant, value in of_report(live_scene, "final").items() if variant}
    changes = panel("ranking", "$metric, change from the same hour earlier")
    for letter, days in (("A", 1), ("B", 7)):
        assert answer(live_scene, changes[letter]) == {("10", variant, "5m"): value / HISTORY[days] - 1 for variant, value in now.items()}


def test_process_series_are_added_up_and_committed_state_is_not(live_scene: Scene) -> None:
    def only(title: str, letter: str = "A") -> dict[tuple[str, ...], float]:
        return answer(live_scene, panel("pipeline", title)[letter])

    assert only("Lag in records") == {("0", "impressions"): 5, ("1", "impressions"): 7}
    assert only("Lag in seconds") == {("impressions",): 3.5}
    assert only("Lag") == {(): 3.5}
    assert sorted(only("Lag in records", "B").values()) == [0, 1]
    assert only("Users and sessions", "C") == {(): 200}
    assert only("Users and sessions", "A") == {(): live_scene.report.users_open}
    assert only("Processes") == {(): 3}
    assert only("Memory of Redis") == {("redis:6379",): 300, ("redis:6380",): 500}
    assert only("Memory of Redis", "B") == {("redis:6379",): 1_000}
    assert only("Servers, as each process sees them", "D") == {("redis:6379",): 1, ("redis:6380",): 0}
    assert only("Servers, as each process sees them", "E") == {("redis:6379",): 0, ("redis:6380",): 1}
    assert only("Series and their limit", "B") == {(): 5_000}
    assert sorted(only("Versions", "C").values()) == [live_scene.report.tasks] * 2


def test_means_over_the_time_range_cover_its_lists(live_scene: Scene) -> None:
    """Check orders that hold for every list: cg > dcg, and hit_rate > mrr, precision and item_hit_rate."""
    came = 'increase(streammetrics_final_lists_total{job="streammetrics", variant!=""}[1m])'
    live_scene.prometheus.wait_for(came, lambda samples: len(samples) == 2 and all(sample.value > 100 for sample in samples))
    query = panel("ranking", "$metric over the selected time range")["A"]
    means = {metric: answer(live_scene, query, {**CHOSEN, "__range": "1m", "metric": metric}) for metric in METRIC_NAMES}
    arms = {("10", "control"), ("10", "treatment")}
    assert means.pop("r_precision").keys() == {("control",), ("treatment",)}  # it has no cut-off
    assert all(mean_by_arm.keys() == arms for mean_by_arm in means.values())
    for arm in arms:
        mean = {metric: mean_by_arm[arm] for metric, mean_by_arm in means.items()}
        assert mean["cg"] > mean["dcg"] > 0
        assert 1 > mean["hit_rate"] > max(mean["mrr"], mean["precision"], mean["item_hit_rate"]) > 0
        assert 0 < mean["ndcg"] < mean["hit_rate"]
