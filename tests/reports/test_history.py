"""The history of verdicts: it is bounded and does not depend on the order of snapshots."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.events.event_time import DAY_MS
from streammetrics.experiments import ExperimentReport, Policy, build_report, choose_scales
from streammetrics.reports.history import (
    POINTS_MAX,
    SERIES_MAX,
    SNAPSHOT_MS,
    SNAPSHOTS_MAX,
    DownsampledValues,
    History,
    headline_measures,
    snapshot_of,
    stored_snapshot,
)
from streammetrics.runtime.publish.history_keeper import decode_history, encode_history
from tests.support.columns import MEASURES
from tests.support.experiment_samples import experiment, stored
from tests.support.tables import for_each

START_MS = 1_732_183_200_000
WORSE = experiment({"control": 0.5, "treatment": 0.4})
SAME = experiment({"control": 0.5, "treatment": 0.5})
SCOPES = ("start", "day")
TIMES = st.lists(st.integers(0, 40_000_000), unique=True, max_size=3 * SNAPSHOTS_MAX)


def downsampled(times: list[int]) -> DownsampledValues[int]:
    values: DownsampledValues[int] = DownsampledValues()
    for at in times:
        values = values.add(at, at)
    return values


def brute_force(times: list[int]) -> tuple[int, list[int]]:
    """Return the least width with few enough intervals, and the first time in each interval."""
    width = SNAPSHOT_MS
    while len({at // width for at in times}) > SNAPSHOTS_MAX:
        width *= 2
    return width, sorted({min(at for at in times if at // width == cell) for cell in {at // width for at in times}})


@given(TIMES)
def test_the_first_value_of_each_interval_is_kept_in_any_order(times: list[int]) -> None:
    snapshots = downsampled(times)
    assert (snapshots.width_ms, [at for at, _ in snapshots.kept]) == brute_force(times)
    assert all(at == value for at, value in snapshots.kept)
    assert not any(snapshots.would_keep(at) for at in times)


@given(TIMES, TIMES)
def test_two_merged_series_equal_one_series_of_all_values(ours: list[int], theirs: list[int]) -> None:
    assert downsampled(ours).merge(downsampled(theirs)) == downsampled(sorted({*ours, *theirs}))


def test_of_two_values_at_one_time_the_own_one_counts() -> None:
    ours, theirs = (DownsampledValues(SNAPSHOT_MS, ((5, value),)) for value in ("ours", "theirs"))
    assert ours.merge(theirs).kept == ((5, "ours"),)


def test_a_year_of_snapshots_stays_bounded_and_keeps_the_first() -> None:
    values: DownsampledValues[int] = DownsampledValues()
    for minute in range(0, 525_600, 7):
        if values.would_keep(START_MS + minute * 60_000):
            values = values.add(START_MS + minute * 60_000, minute)
    assert SNAPSHOTS_MAX / 2 <= len(values.kept) <= SNAPSHOTS_MAX
    assert values.kept[0][1] == 0


def test_new_experiments_do_not_replace_known_ones_beyond_the_limit() -> None:
    history = History()
    several = [replace(WORSE, experiment=f"e{number:02}", scope=scope) for number in range(21) for scope in SCOPES]
    for minute in range(1, 300):
        history = history.add(START_MS + minute * SNAPSHOT_MS, several)
    snapshots = [len(line.snapshots.kept) for line in history.series]
    assert len(snapshots) == SERIES_MAX
    assert min(snapshots) == max(snapshots) >= SNAPSHOTS_MAX / 2
    assert history.add(START_MS + 300 * SNAPSHOT_MS, several[:2]).series[0].snapshots.kept[0] == history.series[0].snapshots.kept[0]


def test_a_snapshot_has_lift_and_interval_of_the_compared_variants() -> None:
    series = History().add(START_MS, [WORSE]).of("ranker", "start")
    ((at, snapshot),) = series.snapshots.kept
    assert (at, snapshot.verdict, snapshot.users) == (START_MS, "regressed", 4_000)
    assert {point.variant for point in snapshot.points} == {"treatment"}
    measure = WORSE.variants[1].measures[0]
    assert None not in (measure.lift, measure.lift_lower, measure.lift_upper)
    point = snapshot.points[0]
    assert (point.metric, point.k) == (measure.metric, measure.k)
    assert point[3:] == tuple(round(end, 6) for end in (measure.lift, measure.lift_lower, measure.lift_upper) if end is not None)


def test_of_many_variants_each_has_a_curve_of_the_most_important_measures() -> None:
    for count, measures in ((9, 4), (18, 2), (30, 1)):
        arms = {"control": 0.5, **{f"arm-{number}": 0.5 for number in range(count)}}
        report = experiment(arms, users=200)
        points = snapshot_of(report).points
        assert {point.variant for point in points} == arms.keys() - {"control"}
        assert {(point.metric, point.k) for point in points} == {*headline_measures(report)[:measures]}
        assert len(points) <= POINTS_MAX


@for_each(product([4, 60, 2_000], [(), ("mrr@10",), ("item_hit_rate@10", "ndcg@10")]))
def test_a_snapshot_of_stored_sums_is_that_of_the_whole_report(case: tuple[int, tuple[str, ...]]) -> None:
    users, paging = case
    policy, arms = Policy(paging=paging), stored({"control": 0.5, "treatment": 0.4, "other": 0.5}, users=users)
    scales = choose_scales(MEASURES, policy, arms, {})
    for frozen in (scales, {}):
        whole = build_report(MEASURES, policy, arms, frozen)
        assert stored_snapshot(MEASURES, policy, arms, frozen) == snapshot_of(whole)


def test_a_report_of_some_measures_has_the_verdicts_of_the_whole_report() -> None:
    arms = stored({"control": 0.5, "treatment": 0.4})
    scales = choose_scales(MEASURES, Policy(), arms, {})
    whole, part = (build_report(MEASURES, Policy(), arms, scales, measure_names) for measure_names in (None, ["mrr@10"]))
    assert part.verdict == whole.verdict
    chosen_measures = [measure for measure in whole.variants[1].measures if measure.paging or measure.metric in ("mrr", "dcg")]
    assert [*part.variants[1].measures] == chosen_measures
    assert len(chosen_measures) < len(whole.variants[1].measures)


def test_a_second_snapshot_within_a_minute_changes_nothing() -> None:
    history = History().add(START_MS, [WORSE])
    assert history.add(START_MS + SNAPSHOT_MS - 1, [SAME]) is history
    assert len(history.add(START_MS + SNAPSHOT_MS, [SAME]).of("ranker", "start").snapshots.kept) == 2


def test_a_day_starts_with_an_empty_series_and_midnight_belongs_to_the_day_before() -> None:
    of_day = experiment({"control": 0.5, "treatment": 0.4}, scope="day")
    midnight = (START_MS // DAY_MS + 1) * DAY_MS
    history = History()
    for at in (midnight - 2 * SNAPSHOT_MS, midnight):
        history = history.add(at, [of_day])
    assert [at for at, _ in history.of("ranker", "day").snapshots.kept] == [midnight - 2 * SNAPSHOT_MS, midnight]
    later = history.add(midnight + 1, [of_day])
    assert [at for at, _ in later.of("ranker", "day").snapshots.kept] == [midnight + 1]
    assert later.merge(history) == history.merge(later) == later


def test_a_new_run_of_an_old_name_starts_with_an_empty_series() -> None:
    restarted = replace(SAME, known_from_ms=START_MS + 40 * SNAPSHOT_MS)
    before = History().add(START_MS, [WORSE]).add(START_MS + 39 * SNAPSHOT_MS, [WORSE])
    history = before.add(START_MS + 40 * SNAPSHOT_MS, [restarted])
    ((at, snapshot),) = history.of("ranker", "start").snapshots.kept
    assert (at, snapshot.verdict) == (START_MS + 40 * SNAPSHOT_MS, SAME.verdict.word)
    assert history.merge(before.matching([restarted])) == history
    assert before.matching([WORSE]) == before


def test_no_snapshot_is_kept_before_its_run_can_be_known() -> None:
    behind = replace(WORSE, known_from_ms=START_MS + 1)  # lists of a partition that is ahead are enrolled already
    history = History()
    assert history.add(START_MS, [behind]) is history
    assert history.add(START_MS, [WORSE]).matching([behind]) == history


def test_an_experiment_has_no_snapshot_before_its_first_final_list() -> None:
    exposed_only = replace(
        SAME, variants=tuple(replace(variant, users=0, first_list_users=0, exposed_users=40) for variant in SAME.variants)
    )
    history = History().add(START_MS, [exposed_only])
    assert history == History()
    assert history.add(START_MS + SNAPSHOT_MS, [SAME]).of("ranker", "start").snapshots.kept[0][0] == START_MS + SNAPSHOT_MS


def test_a_restarted_series_has_the_shortest_interval_again() -> None:
    history = History()
    for minute in range(2 * SNAPSHOTS_MAX):
        history = history.add(START_MS + minute * SNAPSHOT_MS, [WORSE])
    later = START_MS + 1_000 * SNAPSHOT_MS
    restarted = history.add(later, [replace(WORSE, known_from_ms=later)]).of("ranker", "start").snapshots
    assert (history.of("ranker", "start").snapshots.width_ms, restarted.width_ms) == (2 * SNAPSHOT_MS, SNAPSHOT_MS)


def test_ended_experiments_are_dropped() -> None:
    history = History().add(START_MS, [WORSE, experiment({"control": 0.5, "treatment": 0.5}, name="other")])
    assert [series.experiment for series in history.series] == ["other", "ranker"]
    assert [series.experiment for series in history.add(START_MS, [WORSE]).series] == ["ranker"]


def _renamed(name: str) -> ExperimentReport:
    return experiment({"control": 0.5, "treatment": 0.4}, name=name, users=100)


def test_the_number_of_series_is_limited_and_the_latest_stay() -> None:
    history = History().add(START_MS, [_renamed(f"old{index}") for index in range(5)])
    history = history.merge(History().add(START_MS + SNAPSHOT_MS, [_renamed(f"new{index}") for index in range(SERIES_MAX - 2)]))
    assert len(history.series) == SERIES_MAX
    assert sum(series.experiment.startswith("new") for series in history.series) == SERIES_MAX - 2


def test_json_reads_back_as_it_was_written() -> None:
    history = History().add(START_MS, [WORSE]).add(START_MS + SNAPSHOT_MS, [SAME])
    assert decode_history(encode_history(history)) == history


@pytest.mark.parametrize("plain", [None, {}, [{"experiment": 1}], [{"experiment": "a", "scope": "b", "looks": {"kept": [[1]]}}]])
def test_invalid_history_counts_as_none(plain: object) -> None:
    assert decode_history(json.dumps(plain).encode()) == History()
