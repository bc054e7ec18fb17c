"""The rate of new users by the history, and what is added to reports with it."""

from __future__ import annotations

import pytest

from streammetrics.experiments.experiment_report import THIS_DAY
from streammetrics.reports.history import DownsampledValues, History, HistorySeries, HistorySnapshot
from streammetrics.reports.outlook import users_per_hour, with_outlook
from streammetrics.words.times import HOUR_MS
from tests.support.experiment_samples import experiment

MINUTE_MS = 60_000
START_MS = 1_732_183_200_000


def series(*points: tuple[int, int], scope: str = "start") -> HistorySeries:
    """A history from (minutes since the start, users)."""
    kept = tuple((START_MS + minutes * MINUTE_MS, HistorySnapshot("inconclusive", users, ())) for minutes, users in points)
    return HistorySeries("ranker", scope, DownsampledValues(MINUTE_MS, kept))


def test_the_rate_is_that_of_the_later_half() -> None:
    assert users_per_hour(series((0, 0), (30, 800), (60, 1_000), (120, 1_100))) == pytest.approx(100)


def test_the_rate_of_a_long_run_is_that_of_its_last_day() -> None:
    days = [(1_440 * day, 5_000 * min(day, 3) + 240 * max(0, day - 3)) for day in range(8)]
    assert users_per_hour(series(*days)) == pytest.approx(10)


@pytest.mark.parametrize("points", [(), ((0, 10),), ((0, 10), (4, 90)), ((0, 10), (60, 10), (120, 10)), ((0, 90), (60, 80), (120, 70))])
def test_a_rate_that_cannot_be_known_is_none(points: tuple[tuple[int, int], ...]) -> None:
    assert users_per_hour(series(*points)) is None


def test_only_the_scope_since_the_start_has_an_outlook() -> None:
    whole, day = (experiment({"control": 0.3, "treatment": 0.3}, users=400, scope=scope) for scope in ("start", THIS_DAY))
    history = History((series((0, 0), (60, 600), (120, 800)),))
    of_whole, of_day = with_outlook([whole, day], history)
    needed = next(variant.needed for variant in of_whole.variants if variant.variant == "treatment")
    assert [needed_users.hours for needed_users in needed] == [needed_users.users / 200 for needed_users in needed]
    assert all(variant.needed == () for variant in of_day.variants)
    assert HOUR_MS == 60 * MINUTE_MS
