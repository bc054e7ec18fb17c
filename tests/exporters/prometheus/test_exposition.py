"""The text for Prometheus: every number of the report, within the limits, in both formats."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.registry import Collector
from structlog.testing import capture_logs

from streammetrics import __version__
from streammetrics.cli.output.tables import counter_lines
from streammetrics.connectors.source import Input
from streammetrics.connectors.store import StoreNode
from streammetrics.errors import MalformedEvent
from streammetrics.exporters.prometheus import exposition as exposition_module
from streammetrics.exporters.prometheus.experiments import measure_rows, preference_rows
from streammetrics.exporters.prometheus.exposition import CONTENT_TYPES, Exposition
from streammetrics.exporters.prometheus.labels import OTHER
from streammetrics.exporters.prometheus.rows import COUNTED_ALONE, ReportRows
from streammetrics.exporters.prometheus.series import SERIES, TABLE
from streammetrics.reports.input_warnings import UserPartitions
from streammetrics.reports.published import report_state
from streammetrics.reports.report import Report
from streammetrics.runtime.retry import Trouble
from streammetrics.runtime.status import ProcessStatus, Standstill
from streammetrics.windows.panes import Group
from streammetrics.windows.unique_users import UniqueUserWindow, UserCounts
from tests.support.committed_state import MINUTE_MS, START_MS, Pipeline, clicked, ranker, shown, two_variants, with_experiments
from tests.support.reasons import counted_reasons

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(exposition: Exposition, accept: str = "") -> Samples:
    """Return every sample of streammetrics by name and labels. A duplicate sample is an error."""
    page = exposition.page(accept)[0].decode()
    series_values: Samples = {}
    for family in (parse_openmetrics if accept == OPENMETRICS else parse_text)(page):
        for sample in family.samples:
            if sample.name.startswith("streammetrics_"):
                key = sample.name, frozenset(sample.labels.items())
                assert key not in series_values
                series_values[key] = sample.value
    return series_values


def named(series_values: Samples, name: str) -> list[tuple[dict[str, str], float]]:
    """Return the samples of a name as (labels, value)."""
    return [(dict(labels), value) for (series, labels), value in series_values.items() if series == f"streammetrics_{name}"]


def value(series_values: Samples, name: str, **labels: str) -> float:
    return series_values[f"streammetrics_{name}", frozenset(labels.items())]


def busy_status() -> ProcessStatus:
    """The status of a worker with two inputs and commits."""
    status = ProcessStatus(
        rebalances=2, dead_letters=3, cached_users=7, lag_records={Input("impressions", 0): 5}, lag_seconds={Input("impressions", 0): 1.5}
    )
    status.store_nodes = (StoreNode("redis:6379", 1 << 20, 1 << 21, evicts=False, forgets=True),)
    status.commits["written"] = 3
    status.records["impressions"] = 9
    status.standstills[Input("impressions", 0)] = Standstill(5, 1.0, "no reason")
    status.results["sent"] = 5
    for seconds in (0.0005, 0.003, 60.0):
        status.commit_times.observe(seconds)
    return status


@pytest.fixture
def pipeline() -> Pipeline:
    return two_variants()


class TestNumbers:
    @pytest.mark.parametrize("accept", ["", OPENMETRICS])
    def test_every_value_of_the_report_has_a_series(self, pipeline: Pipeline, accept: str) -> None:
        exposition, report = pipeline.exposition(), pipeline.report()
        exposition.show(report)
        series_values = samples(exposition, accept)
        windows = {300_000: "5m", 3_600_000: "1h"}
        seen = 0
        for window in report.windows:
            prefix = "" if window.view == "final" else "live_"
            for group in window.groups:
                segments = "".join(f"{name}={value}" for name, value in group.group.segments.items())
                labels = {
                    "experiment": group.group.experiment,
                    "variant": group.group.variant,
                    "segments": segments,
                    "window": windows[window.window_ms],
                }
                assert value(series_values, "window_lists", **labels, view=window.view) == group.lists
                if window.view == "final":
                    assert value(series_values, "window_lists_with_feedback", **labels, view="final") == group.lists_with_feedback
                for metric, number in group.values.items():
                    name, _, k = metric.partition("@")
                    assert value(series_values, f"{prefix}{name}", **labels, k=k) == number
                    seen += 1
                    if metric in group.values_with_feedback and name != "item_hit_rate":
                        assert number * group.lists / group.lists_with_feedback == pytest.approx(group.values_with_feedback[metric])
        assert seen > 250
        gauges = [name for name, labels in series_values if {"k", "window"} <= {label for label, _ in labels}]
        assert len(gauges) == seen

    def test_a_perfect_variant_is_exactly_one(self) -> None:
        pipeline = Pipeline().feed("impressions", shown("u1", "treatment")).feed("feedback", clicked("u1", "a"))
        exposition = pipeline.move_on(START_MS + 34 * MINUTE_MS).exposition()
        exposition.show(pipeline.report())
        assert value(samples(exposition), "ndcg", experiment="ranker", variant="treatment", k="10", window="5m", segments="") == 1.0

    def test_windows_have_their_end(self, pipeline: Pipeline) -> None:
        exposition = pipeline.exposition()
        exposition.show(pipeline.report())
        series_values = samples(exposition)
        assert value(series_values, "window_end_timestamp_seconds", window="5m", view="final") == START_MS / 1_000 + 2 * 60
        assert value(series_values, "window_end_timestamp_seconds", window="1h", view="live") == START_MS / 1_000 + 33 * 60

    def test_a_withheld_window_has_no_end_and_is_counted(self, pipeline: Pipeline) -> None:
        report = pipeline.report()
        windows = tuple(replace(window, complete=False, groups=()) for window in report.windows)
        withheld = replace(report, windows=windows, user_windows=(UniqueUserWindow(300_000, START_MS, False),), withheld=4)
        exposition = pipeline.exposition()
        exposition.show(withheld)
        series_values = samples(exposition)
        assert named(series_values, "window_end_timestamp_seconds") == named(series_values, "window_users_end_timestamp_seconds") == []
        assert value(series_values, "windows_withheld_total") == 4

    def test_users_of_a_variant_without_other_series_are_shown(self, pipeline: Pipeline) -> None:
        user_samples = UniqueUserWindow(300_000, START_MS, True, (UserCounts(("old", "control"), 3, {}),))
        exposition = pipeline.exposition()
        exposition.show(replace(pipeline.report(), windows=(), totals=(), user_windows=(user_samples,)))
        assert value(samples(exposition), "window_users", experiment="old", variant="control", window="5m") == 3

    def test_users_of_windows_have_their_own_end(self) -> None:
        pipeline = two_variants().move_on(START_MS + 45 * MINUTE_MS)
        exposition = pipeline.exposition()
        exposition.show(pipeline.report())
        series_values = samples(exposition)
        ended = [(labels, end) for labels, end in named(series_values, "window_users_end_timestamp_seconds")]
        assert ended == [({"window": window}, START_MS / 1_000 + 3 * 60) for window in ("5m", "1h")]
        of_hour = {
            variant: tuple(
                value(series_values, name, experiment="ranker" if variant else "", variant=variant, window="1h", **k)
                for name, k in (("window_users", {}), ("user_hit_rate", {"k": "2"}), ("user_hit_rate", {"k": "10"}))
            )
            for variant in ("", "control", "treatment")
        }
        assert of_hour == {"": (4, 0.5, 0.75), "control": (2, 0, 0.5), "treatment": (2, 1, 1)}

    def test_sums_divided_by_lists_are_means_of_final_lists(self, pipeline: Pipeline) -> None:
        report = pipeline.report()
        exposition = pipeline.exposition()
        exposition.show(report)
        series_values = samples(exposition)
        (hour,) = [window for window in report.windows if window.window_ms == 3_600_000 and window.view == "final"]
        for group in hour.groups:
            labels = {"experiment": group.group.experiment, "variant": group.group.variant}
            if not group.group.segment:
                lists = value(series_values, "final_lists_total", **labels)
                assert value(series_values, "final_ndcg_sum_total", **labels, k="10") / lists == group.values["ndcg@10"]
                with_feedback = value(series_values, "final_lists_with_feedback_total", **labels)
                assert (
                    value(series_values, "final_ndcg_sum_total", **labels, k="10") / with_feedback == group.values_with_feedback["ndcg@10"]
                )
                hits, places = (value(series_values, f"final_item_hit_rate_{kind}_total", **labels, k="2") for kind in ("hits", "places"))
                assert hits / places == group.values["item_hit_rate@2"]

    def test_variants_have_a_role(self, pipeline: Pipeline) -> None:
        exposition = pipeline.exposition()
        exposition.show(pipeline.report())
        roles = {labels["variant"]: labels["role"] for labels, _ in named(samples(exposition), "variant_info")}
        assert roles == {"control": "control", "treatment": "treatment"}


class TestCounts:
    def test_every_outcome_is_counted_by_topic(self, pipeline: Pipeline) -> None:
        pipeline.feed("feedback", MalformedEvent("bad_json", ""), clicked("u9", "a", ts=START_MS)).move_on(START_MS + 200 * MINUTE_MS)
        exposition = pipeline.exposition()
        exposition.show(pipeline.report())
        series_values = samples(exposition)
        assert value(series_values, "events_total", topic="impressions") == 6
        assert value(series_values, "events_total", topic="feedback") == 7
        assert value(series_values, "dropped_total", topic="feedback", reason="bad_json") == 1
        assert (
            value(series_values, "dropped_total", topic="feedback", reason="late")
            == value(series_values, "late_total", topic="feedback")
            == 1
        )
        assert value(series_values, "feedback_matched_total", topic="feedback") == 3
        assert value(series_values, "feedback_unmatched_total", topic="feedback", reason="out_of_list") == 1

    def test_counters_exist_before_the_first_event(self, pipeline: Pipeline) -> None:
        exposition = pipeline.exposition()
        exposition.show(pipeline.report())
        series_values = samples(exposition)
        assert value(series_values, "dropped_total", topic="impressions", reason="too_many_items") == 0
        assert value(series_values, "feedback_unmatched_total", topic="impressions", reason="too_old") == 0
        assert value(series_values, "key_mismatch_total", topic="feedback") == 0

    def test_every_reason_of_the_engine_has_a_series_from_the_start(self, pipeline: Pipeline) -> None:
        exposition = pipeline.exposition()
        report = replace(pipeline.report(), windows=(), user_windows=(), totals=())  # parsed for each reason
        exposition.show(report)
        before = samples(exposition)
        by_reason = ("dropped_total", "feedback_unmatched_total", "labels_dropped_total")
        shown_reasons = {labels["reason"] for name in by_reason for labels, _ in named(before, name)}
        counted = counted_reasons()
        assert {"late", "session_full", "too_many_items", "orphan", "matched", "experiment_lists_full"} <= counted
        assert counted - shown_reasons == {*COUNTED_ALONE} - {"late"}
        for reason in sorted(counted):
            exposition.show(replace(report, counts={**report.counts, (reason, "feedback"): 1_000_000}))
            after = samples(exposition)
            assert after.keys() == before.keys(), reason
            changed = {key[0] for key, number in after.items() if number >= 1_000_000 > before[key]}
            assert changed == {COUNTED_ALONE[reason]} if reason in COUNTED_ALONE and reason != "late" else len(changed) >= 1, reason
            exposition = pipeline.exposition()

    def test_a_list_over_the_limit_of_a_user_is_not_a_dropped_event(self, pipeline: Pipeline) -> None:
        report = pipeline.report()
        exposition = pipeline.exposition()
        exposition.show(replace(report, counts={**report.counts, ("experiment_lists_full", "impressions"): 3}))
        series_values = samples(exposition)
        assert value(series_values, "experiment_lists_full_total", topic="impressions") == 3
        assert "experiment_lists_full" not in {labels["reason"] for labels, _ in named(series_values, "dropped_total")}

    def test_refused_events_are_the_same_in_series_and_report(self, pipeline: Pipeline) -> None:
        report = pipeline.report()
        counts = {**report.counts, **{(reason, topic): 2 for reason in counted_reasons() for topic in ("impressions", "feedback")}}
        exposition = pipeline.exposition()
        exposition.show(replace(report, counts=counts))
        dropped: Counter[str] = Counter()
        for labels, number in named(samples(exposition), "dropped_total"):
            dropped[labels["reason"]] += int(number)
        refused = report_state(replace(report, counts=counts), exposition.layout).refused
        assert refused == +dropped
        assert {"late", "session_full", "bad_json"} <= refused.keys()
        assert not {"too_many_teams", "duplicate", "orphan", "events"} & refused.keys()
        (line,) = (line for line in counter_lines(counts) if line.startswith("refused"))
        assert line.startswith(f"refused   {sum(refused.values())}: ")

    def test_an_unknown_reason_is_counted(self, pipeline: Pipeline) -> None:
        report = pipeline.report()
        exposition = pipeline.exposition()
        exposition.show(replace(report, counts={**report.counts, ("strange", "feedback"): 2}))
        assert value(samples(exposition), "dropped_total", topic="feedback", reason="strange") == 2

    def test_counters_do_not_decrease_when_the_store_loses_commits(self, pipeline: Pipeline) -> None:
        earlier = two_variants().report()
        later = (
            pipeline.feed("impressions", shown("u9", "control", ts=START_MS + 34 * MINUTE_MS)).move_on(START_MS + 90 * MINUTE_MS).report()
        )
        exposition = pipeline.exposition()
        pages = []
        for report in (later, earlier, later):
            exposition.show(report)
            pages.append({key: number for key, number in samples(exposition).items() if key[0].endswith("_total")})
        assert pages[0] == pages[1] == pages[2]
        exposition = pipeline.exposition()
        exposition.show(earlier)
        assert value(samples(exposition), "events_total", topic="impressions") < value(pages[0], "events_total", topic="impressions")


class TestTable:
    def test_the_metrics_contain_only_series_of_the_table(self, pipeline: Pipeline) -> None:
        exposition = pipeline.exposition(busy_status())
        exposition.show(with_every_series(pipeline))
        on_page = {(series, frozenset(label for label, _ in labels)) for series, labels in samples(exposition)}
        wanted = set()
        for series in TABLE:
            if series.kind == "histogram":
                wanted |= {(f"{series.name}_bucket", frozenset({*series.labels, "le"}))}
                wanted |= {(f"{series.name}_{suffix}", frozenset(series.labels)) for suffix in ("count", "sum")}
            else:
                wanted.add((series.name, frozenset(series.labels)))
        assert on_page == wanted

    def test_both_formats_have_the_same_samples(self, pipeline: Pipeline) -> None:
        exposition = pipeline.exposition(busy_status())
        exposition.show(pipeline.report())
        assert samples(exposition) == samples(exposition, OPENMETRICS)

    def test_help_and_kind_come_from_the_table(self, pipeline: Pipeline) -> None:
        exposition = pipeline.exposition(busy_status())
        exposition.show(with_every_series(pipeline))
        page = exposition.page(OPENMETRICS)[0].decode()
        families = {family.name: family for family in parse_openmetrics(page)}  # type: ignore[no-untyped-call]  # the library's own
        for series in SERIES.values():
            assert (families[series.family].type, families[series.family].documentation) == (series.kind, series.help)

    @pytest.mark.parametrize(
        ("accept", "wanted"),
        [
            ("", "text"),
            ("*/*", "text"),
            ("text/html,*/*;q=0.8", "text"),
            ("text/plain;version=1.0.0;escaping=allow-utf-8", "text"),
            (OPENMETRICS, "openmetrics"),
            ("application/openmetrics-text", "openmetrics"),
            ("application/openmetrics-text;version=nonsense", "text"),
            ("\x00;;;===,", "text"),
        ],
    )
    def test_the_accept_header_chooses_the_format(self, pipeline: Pipeline, accept: str, wanted: str) -> None:
        page, content_type = pipeline.exposition().page(accept)
        assert content_type == next(content_type for name, content_type in CONTENT_TYPES.items() if name == wanted)
        assert page.endswith(b"# EOF\n") is (wanted == "openmetrics")
        assert page.count(b"# EOF\n") == (wanted == "openmetrics")

    def test_the_metrics_contain_the_process(self, pipeline: Pipeline) -> None:
        assert b"\nprocess_resident_memory_bytes " in pipeline.exposition().page("")[0]


class TestLife:
    def test_before_the_first_report_only_the_process_is_shown(self, pipeline: Pipeline) -> None:
        names = {name for name, _ in samples(pipeline.exposition())}
        assert "streammetrics_build_info" in names
        assert "streammetrics_store_up" in names
        assert "streammetrics_tasks" not in names

    def test_ended_series_vanish(self, pipeline: Pipeline) -> None:
        exposition = pipeline.exposition()
        for accept in ("", OPENMETRICS):
            exposition.page(accept)  # from now on every report is rendered in both formats
        exposition.show(pipeline.report())
        assert named(samples(exposition), "ndcg")
        exposition.show(pipeline.move_on(START_MS + 300 * MINUTE_MS).report())
        for accept in ("", OPENMETRICS):
            assert {labels["variant"] for labels, _ in named(samples(exposition, accept), "ndcg")} <= {""}

    def test_a_report_is_rendered_when_it_is_requested_and_once_per_format(
        self, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        exposition = pipeline.exposition()
        rendered: list[str] = []
        for format_, render in [*exposition_module._RENDER.items()]:

            def counted(collector: Collector, format_: str = format_, render: Callable[[Collector], bytes] = render) -> bytes:
                if collector is exposition._state:
                    rendered.append(format_)
                return render(collector)

            monkeypatch.setitem(exposition_module._RENDER, format_, counted)  # type: ignore[arg-type]  # read only for the product
        for _ in range(3):
            exposition.show(pipeline.report())
        assert rendered == []
        for accept in ("", OPENMETRICS, "", OPENMETRICS):
            assert named(samples(exposition, accept), "ndcg")
        assert rendered == ["text", "openmetrics"]
        exposition.show(report := pipeline.report())
        samples(exposition)
        exposition.show(report)
        samples(exposition)
        assert rendered == ["text", "openmetrics", "text"]

    def test_clients_that_ask_at_the_same_time_share_one_rendering(self, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
        exposition, report = pipeline.exposition(), pipeline.report()
        collected, all_ask = [], threading.Barrier(4)
        collect = exposition._collect

        def counted(report: Report) -> object:
            collected.append(report)
            return collect(report)

        monkeypatch.setattr(exposition, "_collect", counted)
        exposition.show(report)
        answers: list[Samples] = []

        def ask() -> None:
            all_ask.wait()
            answers.append(samples(exposition))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert collected == [report]
        assert len(answers) == 4
        assert all(text == answers[0] for text in answers)

    def test_the_process_status_is_current_without_a_new_report(self, pipeline: Pipeline) -> None:
        status = ProcessStatus()
        exposition = pipeline.exposition(status)
        exposition.show(pipeline.report())
        assert (value(samples(exposition), "store_up"), value(samples(exposition), "source_up")) == (1, 1)
        status.store_trouble = status.source_trouble = Trouble(0.0, 1, "gone")
        assert (value(samples(exposition), "store_up"), value(samples(exposition), "source_up")) == (0, 0)
        status.store_trouble = None
        status.publish_trouble = Trouble(0.0, 1, "gone")
        assert value(samples(exposition), "store_up") == 0

    def test_a_process_without_a_loop_has_no_loop_series(self, pipeline: Pipeline) -> None:
        exposition = pipeline.exposition(busy_status(), loop=False)
        exposition.show(pipeline.report())
        of_loop = {series.name for series in TABLE if series.origin == "loop"}
        assert not [name for name, _ in samples(exposition) if name.startswith(tuple(of_loop))]
        assert value(samples(exposition), "store_up") == 1

    def test_each_store_server_has_series_and_hidden_values_are_absent(self, pipeline: Pipeline) -> None:
        status = ProcessStatus(store_nodes=(StoreNode("a:1", 5, 0, True, False), StoreNode("b:1", 7)))
        exposition = pipeline.exposition(status, loop=False)
        series_values = samples(exposition)
        assert named(series_values, "store_memory_bytes") == [({"node": "a:1"}, 5), ({"node": "b:1"}, 7)]
        assert named(series_values, "store_memory_limit_bytes") == [({"node": "a:1"}, 0)]
        assert (named(series_values, "store_evicts"), named(series_values, "store_forgets")) == (
            [({"node": "a:1"}, 1)],
            [({"node": "a:1"}, 0)],
        )
        status.store_nodes = ()
        assert not [name for name, _ in samples(exposition) if name.startswith("streammetrics_store_memory")]

    def test_commit_times_are_a_histogram(self, pipeline: Pipeline) -> None:
        series_values = samples(pipeline.exposition(busy_status()))
        buckets = [count for _, count in named(series_values, "commit_seconds_bucket")]
        assert buckets == sorted(buckets)
        assert value(series_values, "commit_seconds_bucket", le="0.0025") == 1
        assert value(series_values, "commit_seconds_bucket", le="0.01") == 2
        assert value(series_values, "commit_seconds_bucket", le="+Inf") == value(series_values, "commit_seconds_count") == 3
        assert value(series_values, "commit_seconds_sum") == 60.0035
        assert value(series_values, "commits_total", status="written") == 3
        assert value(series_values, "commits_total", status="fenced") == 0

    def test_a_commit_during_a_scrape_leaves_buckets_ascending(self, pipeline: Pipeline) -> None:
        status = busy_status()
        status.commit_times.buckets[0] += 2  # as if later buckets were not updated yet
        buckets = [count for _, count in named(samples(pipeline.exposition(status), OPENMETRICS), "commit_seconds_bucket")]
        assert buckets == sorted(buckets)

    def test_the_version_is_shown(self, pipeline: Pipeline) -> None:
        assert value(samples(pipeline.exposition()), "build_info", version=__version__) == 1


def with_every_series(pipeline: Pipeline) -> Report:
    report = pipeline.move_on(START_MS + 45 * MINUTE_MS).report()
    return replace(with_experiments(report, ranker()), user_partitions=UserPartitions(200, 50))


class TestExperiments:
    def test_every_row_of_an_experiment_has_a_series(self, pipeline: Pipeline) -> None:
        exposition, experiment = pipeline.exposition(), ranker()
        exposition.show(with_experiments(pipeline.report(), experiment))
        on_page = samples(exposition)
        rows = list(measure_rows(experiment))
        assert {row.series for row in rows} == {
            series.name.removeprefix("streammetrics_experiment_")
            for series in TABLE
            if "scope" in series.labels and series.name.startswith("streammetrics_experiment_")
        }
        for row in rows:
            labels = row._asdict()
            name = f"experiment_{labels.pop('series')}"
            number = labels.pop("value")
            wanted = SERIES[f"streammetrics_{name}"].labels
            assert all(not value for label, value in labels.items() if label not in wanted)
            assert value(on_page, name, **{label: labels[label] for label in wanted}) == number
        gauges = [name for name, _ in on_page if name.startswith("streammetrics_experiment_") and not name.endswith("_total")]
        assert len(gauges) == len(rows) + 1
        assert value(on_page, "experiment_entered_timestamp_seconds") == START_MS / 1_000

    def test_every_row_of_a_preference_has_a_series(self, pipeline: Pipeline) -> None:
        exposition, experiment = pipeline.exposition(), ranker()
        exposition.show(with_experiments(pipeline.report(), experiment))
        on_page = samples(exposition)
        rows = list(preference_rows(experiment))
        for row in rows:
            labels = row._asdict()
            name, number = f"interleaving_{labels.pop('series')}", labels.pop("value")
            assert value(on_page, name, **labels) == number
        assert len([key for key in on_page if "team" in dict(key[1])]) == len(rows) == 6

    def test_teams_over_the_limit_are_counted_and_are_not_variants(self) -> None:
        experiment = replace(ranker(), preferences=tuple(replace(preference, team="zebra") for preference in ranker().preferences))
        for limit, shown_rows in ((3, 6), (2, 0)):
            exposition = Pipeline().exposition(label_values_max=limit)
            exposition.show(with_experiments(experiments("ranker"), experiment))
            on_page = samples(exposition)
            assert len([key for key in on_page if "team" in dict(key[1])]) == shown_rows
            assert value(on_page, "series_folded_total") == 6 - shown_rows
            assert {labels["variant"] for labels, _ in named(on_page, "variant_info")} == {"control", "treatment"}

    def test_the_verdict_of_a_regression_is_minus_one(self, pipeline: Pipeline) -> None:
        exposition = pipeline.exposition()
        exposition.show(with_experiments(pipeline.report(), ranker()))
        of_all = value(samples(exposition), "experiment_verdict", experiment="ranker", variant="", metric="", k="", scope="start")
        assert of_all == -1

    def test_an_experiment_over_the_limit_is_left_out_and_counted(self) -> None:
        first, second = ranker("a"), ranker("b")
        folded = []
        for interleaved in ((first,), (first, second)):
            exposition = Pipeline().exposition(label_values_max=2)
            exposition.show(with_experiments(experiments("a", "x", "y"), *interleaved))
            on_page = samples(exposition)
            assert {labels["experiment"] for labels, _ in named(on_page, "experiment_verdict")} == {"a"}
            folded.append(value(on_page, "series_folded_total"))
        assert folded[1] - folded[0] == len([*measure_rows(second), *preference_rows(second)])

    def test_a_variant_over_the_limit_is_left_out_and_others_are_shown(self) -> None:
        experiment = ranker()
        exposition = Pipeline().exposition(label_values_max=1)
        exposition.show(with_experiments(experiments("ranker"), experiment))
        on_page = samples(exposition)
        assert {labels["variant"] for labels, _ in named(on_page, "experiment_mean")} == {"control"}
        assert [number for labels, number in named(on_page, "experiment_verdict") if not labels["variant"]] == [-1]
        of_variant = [row for row in measure_rows(experiment) if row.variant == "treatment"]
        assert value(on_page, "series_folded_total") == len([*of_variant, *preference_rows(experiment)])

    def test_an_ended_experiment_vanishes(self, pipeline: Pipeline) -> None:
        exposition = pipeline.exposition()
        exposition.show(with_experiments(pipeline.report(), ranker()))
        exposition.show(pipeline.report())
        assert {name for name, labels in samples(exposition) if "scope" in dict(labels)} == set()

    def test_the_limit_cuts_measures_before_verdicts(self, pipeline: Pipeline) -> None:
        exposition = pipeline.exposition(series_max=145)
        exposition.show(with_experiments(pipeline.report(), ranker()))
        on_page = samples(exposition)
        assert value(on_page, "experiment_verdict", experiment="ranker", variant="", metric="", k="", scope="start") == -1
        assert value(on_page, "experiment_srm_p_value", experiment="ranker", scope="start") > 0

    def test_a_configured_control_has_priority_over_the_convention(self, pipeline: Pipeline) -> None:
        report = with_experiments(pipeline.report(), ranker(compared_with="treatment"))
        exposition = pipeline.exposition()
        exposition.show(report)
        roles = {labels["variant"]: labels["role"] for labels, _ in named(samples(exposition), "variant_info")}
        assert roles == {"control": "treatment", "treatment": "control"}


def experiments(*names: str) -> Report:
    """Feed one final list per experiment."""
    pipeline = Pipeline()
    pipeline.feed("impressions", *(shown(f"u{index}", "control", experiment=name) for index, name in enumerate(names)))
    return pipeline.move_on(START_MS + 34 * MINUTE_MS).report()


class TestBounds:
    def test_experiments_over_the_limit_share_counters_and_have_no_mean(self) -> None:
        exposition = Pipeline().exposition(label_values_max=2)
        exposition.show(experiments("a", "b", "c", "d"))
        series_values = samples(exposition)
        assert {labels["experiment"] for labels, _ in named(series_values, "ndcg")} == {"", "a", "b"}
        assert value(series_values, "final_lists_total", experiment=OTHER, variant=OTHER) == 2
        assert value(series_values, "final_lists_total", experiment="", variant="") == 4
        per_group = len([key for key in series_values if ("experiment", "a") in key[1] and {"window"} <= {label for label, _ in key[1]}])
        assert value(series_values, "series_folded_total") == 2 * per_group

    def test_a_segment_with_a_taken_name_is_left_out_and_counted(self) -> None:
        pipeline = Pipeline(segments=("surface",)).feed("impressions", shown("u1"))
        report = pipeline.move_on(START_MS + 34 * MINUTE_MS).report()
        window = next(window for window in report.windows if window.view == "final")
        (home,) = (group for group in window.groups if group.group.value == "home")
        both = [replace(home, group=Group("", "", "surface", "home=x"), lists=1), replace(home, group=Group("", "", "surface=home", "x"))]
        exposition = pipeline.exposition()
        exposition.show(replace(report, windows=(replace(window, groups=tuple(both)),)))
        series_values = samples(exposition)
        assert named(series_values, "window_lists") == [
            ({"experiment": "", "variant": "", "segments": "surface=home=x", "window": "5m", "view": "final"}, 1)
        ]
        assert value(series_values, "series_folded_total") == 2 + len(home.values)

    def test_users_of_experiments_over_the_limit_are_left_out_and_counted(self) -> None:
        pipeline = Pipeline()
        pipeline.feed("impressions", *(shown(f"u{index}", "control", experiment=name) for index, name in enumerate("abcd")))
        report = pipeline.move_on(START_MS + 45 * MINUTE_MS).report()
        folded = []
        for report_now in (replace(report, user_windows=()), report):
            exposition = Pipeline().exposition(label_values_max=2)
            exposition.show(report_now)
            folded.append(value(samples(exposition), "series_folded_total"))
        assert {labels["experiment"] for labels, _ in named(samples(exposition), "window_users")} == {"", "a", "b"}
        assert folded[1] - folded[0] == 2 * 2 * 3  # two windows with users and hit rates at two cut-offs

    def test_a_folded_series_is_counted_once(self) -> None:
        exposition = Pipeline().exposition(label_values_max=1)
        counts, now = [], []
        with capture_logs() as logged:
            for names in (("a", "b"), ("a", "b"), ("a",), ("a", "b", "c")):
                exposition.show(experiments(*names))
                counts.append(value(samples(exposition), "series_folded_total"))
                now.append(value(samples(exposition), "series_left_out"))
        one = counts[0]
        assert (counts, now) == ([one, one, one, 3 * one], [one, one, 0, 2 * one])
        assert [(line["log_level"], line["series"]) for line in logged] == [("warning", one), ("warning", 2 * one)], "each time it begins"

    def test_the_number_of_series_never_exceeds_the_limit(self, pipeline: Pipeline) -> None:
        limit = 150
        exposition = pipeline.exposition(busy_status(), series_max=limit)
        exposition.show(pipeline.report())
        series_values = samples(exposition)
        assert len(series_values) == limit == value(series_values, "series") == value(series_values, "series_limit")
        whole = pipeline.exposition(busy_status())
        whole.show(pipeline.report())
        assert series_values.items() - samples(whole).items() == {
            (key, number) for key, number in series_values.items() if key[0].startswith("streammetrics_series")
        }
        assert value(series_values, "series_folded_total") == len(samples(whole)) - limit

    def test_shown_and_left_out_series_add_up_at_every_limit(self, pipeline: Pipeline) -> None:
        report, whole = pipeline.report(), Pipeline().exposition(label_values_max=1)
        whole.show(report)
        series, folded = (value(samples(whole), name) for name in ("series", "series_left_out"))
        for limit in range(10, int(series), 37):
            exposition = pipeline.exposition(label_values_max=1, series_max=limit)
            exposition.show(report)
            series_values = samples(exposition)
            assert value(series_values, "series") + value(series_values, "series_left_out") == series + folded

    def test_the_same_series_are_left_out_each_time_and_totals_last(self, pipeline: Pipeline) -> None:
        exposition = pipeline.exposition(series_max=700)
        pages = []
        for _ in range(2):
            exposition.show(pipeline.report())
            pages.append(samples(exposition))
        assert pages[0] == pages[1]
        assert {labels["segments"] for labels, _ in named(pages[0], "live_ndcg")} == {""}

    def test_many_inputs_do_not_exceed_the_limit(self, pipeline: Pipeline) -> None:
        status = ProcessStatus(lag_records={Input("impressions", partition): 1 for partition in range(500)})
        exposition = pipeline.exposition(status, series_max=100)
        exposition.show(pipeline.report())
        assert len(samples(exposition)) == 100 == value(samples(exposition), "series")
        assert value(samples(exposition), "series_folded_total") > 400

    @pytest.mark.parametrize("accept", ["", OPENMETRICS])
    @pytest.mark.parametrize(
        "name", ["<script>alert('x')</script>", 'say "hi" \\n', "two\nlines", "\\", "👩‍🔬", "a=b,c}", " ", OTHER, "x" * 128]
    )
    def test_any_variant_name_gives_valid_text(self, name: str, accept: str) -> None:
        pipeline = Pipeline().feed("impressions", shown("u1", name), shown("u2", "control"))
        pipeline.move_on(START_MS + 34 * MINUTE_MS)
        exposition = pipeline.exposition()
        exposition.show(pipeline.report())
        variants = {labels["variant"] for labels, _ in named(samples(exposition, accept), "ndcg")}
        assert len(variants) == 3
        assert name in variants or any("~" in variant for variant in variants)


def test_the_text_has_only_comments_and_samples(pipeline: Pipeline) -> None:
    exposition = pipeline.exposition(busy_status())
    exposition.show(pipeline.report())
    lines = exposition.page("")[0].decode().splitlines()
    assert all(line.startswith(("# HELP ", "# TYPE ", "streammetrics_", "process_")) for line in lines)


def test_scrapes_are_complete_while_reports_change(pipeline: Pipeline) -> None:
    full, quiet = pipeline.report(), pipeline.move_on(START_MS + 300 * MINUTE_MS).report()
    exposition = pipeline.exposition()
    shows = 10

    def publish() -> None:
        for turn in range(shows):
            exposition.show((full, quiet)[turn % 2])

    publisher = threading.Thread(target=publish)
    publisher.start()
    while publisher.is_alive():
        samples(exposition, OPENMETRICS)
    publisher.join()
    assert value(samples(exposition, OPENMETRICS), "events_total", topic="impressions") == 6


class TestUnchangedLines:
    """Lines of windows are kept between reports. They must be those that a new exporter writes."""

    @staticmethod
    def changed(report: Report, change: float) -> Report:
        """Return the report with other values in its live windows."""
        windows = tuple(
            replace(w, groups=tuple(replace(v, values={name: x + change for name, x in v.values.items()}) for v in w.groups))
            if w.view == "live"
            else w
            for w in report.windows
        )
        return replace(report, windows=windows)

    def test_a_later_report_has_the_series_of_a_new_exporter(self, pipeline: Pipeline) -> None:
        report, kept = pipeline.report(), pipeline.exposition()
        fewer = replace(report, windows=tuple(replace(w, groups=w.groups[1:]) for w in report.windows))
        for report_now in (report, self.changed(report, 0.1), fewer, report, self.changed(report, 0.2)):
            fresh = pipeline.exposition()
            for exposition in (kept, fresh):
                exposition.show(report_now)
            assert samples(kept) == samples(fresh)

    def test_a_group_that_was_cut_off_is_whole_when_there_is_room_again(self, pipeline: Pipeline) -> None:
        report, layout = pipeline.report(), pipeline.engine.layout
        rows, fresh = (ReportRows(layout, {300_000: "5m", 3_600_000: "1h"}, 100) for _ in range(2))
        sizes = [len(rows.update(report, most)) for most in (10_000, 400, 401, 10_000)]
        assert sizes == [len(fresh.update(report, 10_000)), 400, 401, sizes[0]]
        assert {name: sorted(lines) for name, lines in rows.update(report, 10_000).lines.items()} == {
            name: sorted(lines) for name, lines in fresh.update(report, 10_000).lines.items()
        }
