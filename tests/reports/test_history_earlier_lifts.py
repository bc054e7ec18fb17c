"""The lifts up to earlier times are those that reports of these times had, and fill a history that was read late."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from streammetrics.reports.history import SNAPSHOT_MS, History, HistorySnapshot, Point
from streammetrics.reports.report import Report
from streammetrics.words.times import HOUR_MS
from tests.support.experiment_tasks import NOON_MS, Tasks, publisher_of

HOURS = 9
USERS = 60
MEASURE = "ndcg@1"


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    """The reports of a stream at the end of each of its hours, when all their lists count. New users come at the start of each hour.

    The lists of every other user have a click: of the first six hours mostly those of the control, later those of the treatment.
    """
    draw, tasks, reports_so_far = random.Random(11), Tasks(1), list[Report]()
    publisher = publisher_of(tasks, reports_so_far)
    for hour in range(HOURS):
        share = 0.65 if hour < 6 else 0.2
        arms = ["c" if draw.random() < (share if number % 2 else 1 - share) else "t" for number in range(USERS)]
        tasks.show(0, hour / 24, *(f"{hour}-{number}-{arm}" for number, arm in enumerate(arms)))
        tasks.pass_time(0, (hour + 0.99) / 24)
        publisher.publish()
    return reports_so_far


def snapshots(report: Report, after_ms: int = 0, before_ms: int = NOON_MS + 99 * HOUR_MS) -> dict[int, HistorySnapshot]:
    assert report.earlier is not None
    return {(at - NOON_MS) // HOUR_MS: snapshot for at, snapshot in report.earlier("ranker", after_ms, before_ms)}


def points(snapshot: HistorySnapshot) -> dict[str, Point]:
    return {f"{point.metric}@{point.k}": point for point in snapshot.points}


def test_each_hour_has_the_lift_of_the_lists_up_to_its_end(reports: list[Report]) -> None:
    points_found = snapshots(reports[-1])
    assert [*points_found] == [*range(1, HOURS + 1)]
    for hour, snapshot in points_found.items():
        assert snapshot.users == USERS * hour
        assert snapshot.verdict is None
    lifts = [points(points_found[hour])[MEASURE].lift or 0 for hour in points_found]
    assert max(lifts[2:6]) < -0.2
    assert lifts[5:] == sorted(lifts[5:]), "better lists in the last hours move the lift since the start up"


def test_a_report_of_that_time_had_the_same_lift_and_about_the_same_interval(reports: list[Report]) -> None:
    last = snapshots(reports[-1])
    for report in reports[3:]:
        points_now = snapshots(report)
        hour = max(points_now)
        (treatment,) = (variant for variant in report.experiments[0].variants if variant.variant == "treatment")
        measures = {f"{measure.metric}@{measure.k}": measure for measure in treatment.measures}
        for name, point in points(last[hour]).items():
            then = measures[name]
            assert point.lift == pytest.approx(then.lift, abs=1e-9)
            assert (point.lift_lower is None) == (then.lift_lower is None)
            if point.lift_lower is not None and then.lift_lower is not None and point.lift_upper and then.lift_upper:
                assert 0.8 < (point.lift_upper - point.lift_lower) / (then.lift_upper - then.lift_lower) < 1.25, "users vary as today"


def test_only_times_between_two_others_are_told(reports: list[Report]) -> None:
    assert [*snapshots(reports[-1], NOON_MS + 2 * HOUR_MS, NOON_MS + 5 * HOUR_MS)] == [3, 4]
    assert reports[-1].earlier is not None
    assert [*reports[-1].earlier("unknown", 0, NOON_MS)] == []


def test_a_history_that_begins_after_a_backlog_has_the_time_before(reports: list[Report]) -> None:
    last = reports[-1]
    assert last.entered_ms is not None
    bare, filled = (History().add(last.entered_ms, last.experiments, earlier) for earlier in (None, last.earlier))
    assert len(bare.of("ranker", "start").snapshots.kept) == 1
    kept = filled.of("ranker", "start").snapshots.kept
    assert [at for at, _ in kept] == [*(NOON_MS + hour * HOUR_MS for hour in range(1, HOURS)), last.entered_ms]
    assert [snapshot.verdict is None for _, snapshot in kept] == [True] * (HOURS - 1) + [False]
    assert filled.of("ranker", "day").snapshots == bare.of("ranker", "day").snapshots


def test_a_history_without_a_gap_computes_nothing(reports: list[Report]) -> None:
    last = reports[-1]
    assert last.entered_ms is not None
    asked: list[str] = []

    def earlier(name: str, after_ms: int, before_ms: int) -> list[tuple[int, HistorySnapshot]]:
        asked.append(f"{name} {(after_ms - NOON_MS) // SNAPSHOT_MS} {(before_ms - NOON_MS) // SNAPSHOT_MS}")
        return []

    end_ms = last.entered_ms - last.entered_ms % SNAPSHOT_MS
    experiments = tuple(replace(experiment, from_ms=end_ms) for experiment in last.experiments)
    history = History()
    for minute in range(5):
        history = history.add(end_ms + minute * SNAPSHOT_MS, experiments, earlier)
    assert asked == []
    history.add(end_ms + 7 * SNAPSHOT_MS, experiments, earlier)
    assert asked == [f"ranker {(end_ms - NOON_MS) // SNAPSHOT_MS + 4} {(end_ms - NOON_MS) // SNAPSHOT_MS + 7}"]
