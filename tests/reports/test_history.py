"""The history of looks: bounded, the same whatever the order, and what it tells is what was seen."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.events.event_time import DAY_MS
from streammetrics.experiments import ExperimentReport
from streammetrics.reports.history import LOOK_MS, LOOKS_MAX, MEASURES_MAX, TRAILS_MAX, Downsampled, History, main_measures
from tests.experiments.samples import experiment

START_MS = 1_732_183_200_000
WORSE = experiment({"control": 0.5, "treatment": 0.4})
SAME = experiment({"control": 0.5, "treatment": 0.5})
SCOPES = ("start", "day")
TIMES = st.lists(st.integers(0, 40_000_000), unique=True, max_size=3 * LOOKS_MAX)


def taken(times: list[int]) -> Downsampled[int]:
    found: Downsampled[int] = Downsampled()
    for at in times:
        found = found.take(at, at)
    return found


def brute_force(times: list[int]) -> tuple[int, list[int]]:
    """The least width at which there are few enough cells, and the first time in each of them."""
    width = LOOK_MS
    while len({at // width for at in times}) > LOOKS_MAX:
        width *= 2
    return width, sorted({min(at for at in times if at // width == cell) for cell in {at // width for at in times}})


@given(TIMES)
def test_the_first_of_each_cell_is_kept_whatever_the_order(times: list[int]) -> None:
    found = taken(times)
    assert (found.width_ms, [at for at, _ in found.kept]) == brute_force(times)
    assert all(at == value for at, value in found.kept)
    assert not any(found.wants(at) for at in times)


@given(TIMES, TIMES)
def test_two_who_looked_apart_know_together_what_one_would_have_seen(ours: list[int], theirs: list[int]) -> None:
    assert taken(ours).merge(taken(theirs)) == taken(sorted({*ours, *theirs}))


def test_of_two_looks_at_one_time_ones_own_counts() -> None:
    ours, theirs = (Downsampled(LOOK_MS, ((5, value),)) for value in ("ours", "theirs"))
    assert ours.merge(theirs).kept == ((5, "ours"),)


def test_a_year_of_looks_stays_bounded_and_keeps_the_first_one() -> None:
    found: Downsampled[int] = Downsampled()
    for minute in range(0, 525_600, 7):
        if found.wants(START_MS + minute * 60_000):
            found = found.take(START_MS + minute * 60_000, minute)
    assert LOOKS_MAX / 2 <= len(found.kept) <= LOOKS_MAX
    assert found.kept[0][1] == 0


def test_looks_at_more_than_are_remembered_push_nobody_out() -> None:
    history = History()
    several = [replace(WORSE, experiment=f"e{number:02}", scope=scope) for number in range(21) for scope in SCOPES]
    for minute in range(1, 300):
        history = history.take(START_MS + minute * LOOK_MS, several)
    looks = [len(each.looks.kept) for each in history.trails]
    assert len(looks) == TRAILS_MAX
    assert min(looks) == max(looks) >= LOOKS_MAX / 2
    assert history.take(START_MS + 300 * LOOK_MS, several[:2]).trails[0].looks.kept[0] == history.trails[0].looks.kept[0]


def test_a_look_holds_the_lift_and_its_interval_of_the_variants_that_are_compared() -> None:
    trail = History().take(START_MS, [WORSE]).of("ranker", "start")
    ((at, look),) = trail.looks.kept
    assert (at, look.verdict, look.users) == (START_MS, "regressed", 4_000)
    assert {point.variant for point in look.points} == {"treatment"}
    measure = WORSE.variants[1].measures[0]
    assert None not in (measure.lift, measure.lift_lower, measure.lift_upper)
    point = look.points[0]
    assert (point.metric, point.k) == (measure.metric, measure.k)
    assert point[3:] == tuple(round(end, 6) for end in (measure.lift, measure.lift_lower, measure.lift_upper) if end is not None)


def test_the_main_measures_are_those_that_page_and_one_of_each_main_family() -> None:
    assert main_measures(experiment({"control": 0.5, "treatment": 0.4}, paging=("dcg@10",))) == (
        ("dcg", 10),
        ("ndcg", 10),
        ("hit_rate", 5),
        ("user_hit_rate", 5),
    )
    assert main_measures(experiment({"control": 0.5, "treatment": 0.4}, users=20)) == ()
    assert len(main_measures(WORSE)) <= MEASURES_MAX


def test_a_second_look_within_a_minute_changes_nothing() -> None:
    history = History().take(START_MS, [WORSE])
    assert history.take(START_MS + LOOK_MS - 1, [SAME]) is history
    assert len(history.take(START_MS + LOOK_MS, [SAME]).of("ranker", "start").looks.kept) == 2


def test_a_day_begins_with_an_empty_trail_and_its_midnight_belongs_to_the_day_before() -> None:
    of_day = experiment({"control": 0.5, "treatment": 0.4}, scope="day")
    midnight = (START_MS // DAY_MS + 1) * DAY_MS
    history = History()
    for at in (midnight - 2 * LOOK_MS, midnight):
        history = history.take(at, [of_day])
    assert [at for at, _ in history.of("ranker", "day").looks.kept] == [midnight - 2 * LOOK_MS, midnight]
    later = history.take(midnight + 1, [of_day])
    assert [at for at, _ in later.of("ranker", "day").looks.kept] == [midnight + 1]
    assert later.merge(history) == history.merge(later) == later


def test_a_life_of_an_old_name_begins_with_an_empty_trail() -> None:
    is_snapshot = replace(SAME, known_from_ms=START_MS + 40 * LOOK_MS)
    before = History().take(START_MS, [WORSE]).take(START_MS + 39 * LOOK_MS, [WORSE])
    history = before.take(START_MS + 40 * LOOK_MS, [is_snapshot])
    ((at, look),) = history.of("ranker", "start").looks.kept
    assert (at, look.verdict) == (START_MS + 40 * LOOK_MS, SAME.verdict.word)
    assert history.merge(before.about([is_snapshot])) == history
    assert before.about([WORSE]) == before


def test_no_look_is_kept_of_a_time_at_which_nothing_could_be_known() -> None:
    behind = replace(WORSE, known_from_ms=START_MS + 1)  # lists of a partition that is ahead of the others have entered
    history = History()
    assert history.take(START_MS, [behind]) is history
    assert history.take(START_MS, [WORSE]).about([behind]) == history


def test_looks_that_begin_anew_are_as_narrow_as_ever() -> None:
    history = History()
    for minute in range(2 * LOOKS_MAX):
        history = history.take(START_MS + minute * LOOK_MS, [WORSE])
    later = START_MS + 1_000 * LOOK_MS
    is_snapshot = history.take(later, [replace(WORSE, known_from_ms=later)]).of("ranker", "start").looks
    assert (history.of("ranker", "start").looks.width_ms, is_snapshot.width_ms) == (2 * LOOK_MS, LOOK_MS)


def test_experiments_that_are_no_more_are_forgotten() -> None:
    history = History().take(START_MS, [WORSE, experiment({"control": 0.5, "treatment": 0.5}, name="other")])
    assert [trail.experiment for trail in history.trails] == ["other", "ranker"]
    assert [trail.experiment for trail in history.take(START_MS, [WORSE]).trails] == ["ranker"]


def _renamed(name: str) -> ExperimentReport:
    return experiment({"control": 0.5, "treatment": 0.4}, name=name, users=100)


def test_there_are_never_more_trails_than_the_limit_and_the_latest_stay() -> None:
    history = History().take(START_MS, [_renamed(f"old{index}") for index in range(5)])
    history = history.merge(History().take(START_MS + LOOK_MS, [_renamed(f"new{index}") for index in range(TRAILS_MAX - 2)]))
    assert len(history.trails) == TRAILS_MAX
    assert sum(trail.experiment.startswith("new") for trail in history.trails) == TRAILS_MAX - 2


def test_json_reads_back_as_it_was_written() -> None:
    history = History().take(START_MS, [WORSE]).take(START_MS + LOOK_MS, [SAME])
    assert History.from_json(json.loads(json.dumps(history.to_json()))) == history


@pytest.mark.parametrize("plain", [None, {}, [{"experiment": 1}], [{"experiment": "a", "scope": "b", "looks": {"kept": [[1]]}}]])
def test_what_is_no_history_is_refused(plain: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        History.from_json(plain)
