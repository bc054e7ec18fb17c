"""Tests of users' totals that the tests of enrolment do not cover: the largest sums, and lists on two days."""

from __future__ import annotations

from collections import Counter

from streammetrics.enrolment.records import UserRecord
from streammetrics.enrolment.rows import UserTotalsLayout, unpack_sums
from streammetrics.enrolment.rules import ExperimentRules
from streammetrics.enrolment.runs import ExperimentRuns
from streammetrics.enrolment.scopes import WHOLE
from streammetrics.enrolment.targets import ListTargets
from streammetrics.enrolment.totals import TotalsBatch
from streammetrics.events.event_time import DAY_MS
from streammetrics.events.model import Labels
from streammetrics.experiments import cross_of_users
from streammetrics.metrics import Scorer, Spec, TallyLayout
from streammetrics.statistics.moments import of_users
from streammetrics.windows.final_lists import FinalList, FinalLists
from tests.support.enrolments import NOON_MS, RANKER, clock, feed, found, machine_of, shown

MIDNIGHT_MS = NOON_MS + DAY_MS // 2
BOTH: Labels = (("layout", "x"), ("ranker", "a"))


def list_of(ts: int, labels: Labels, grade: float = 1) -> FinalList:
    return FinalList(ts, f"{ts}", labels, 1, (0, grade), (), 0)


def entered(
    layout: UserTotalsLayout, of_users: list[list[FinalList]], rules: ExperimentRules | None = None
) -> tuple[ExperimentRuns, Counter[tuple[str, int]], list[UserRecord]]:
    """Add the lists of users in one batch; return the runs, the counts and the users' records."""
    rules, lists, counts = rules or ExperimentRules(), FinalLists(of_users), Counter[tuple[str, int]]()
    runs = ExperimentRuns(rules.idle_ms)
    for impression in lists.lists:
        for experiment, variant in impression.experiments:
            runs.extend(experiment, variant, impression.ts)
    added = TotalsBatch(ListTargets(runs, rules, lists.labels, pane_ms=100), layout, lists, counts)
    records = [UserRecord({}, {}, {}, True) for _ in of_users]
    for record, label_runs in zip(records, lists.label_runs, strict=True):
        added.add_lists(record, label_runs)
    added.sum()
    return runs, counts, records


def test_sums_over_all_users_may_exceed_int64() -> None:
    layout = UserTotalsLayout(TallyLayout(Scorer(["dcg@1"], Spec(gain="exp2"), grade_max=18)), ())
    (best,) = layout.layout.scorer.score_list([18])
    size = layout.lists_max
    assert 4 * size * best > 1 << 63
    runs, _, records = entered(layout, [[list_of(NOON_MS + number, RANKER, 18) for number in range(size)] for _ in range(4)])
    for record in records:
        ((lists, packed, _),) = [totals for scopes, totals in record.totals.items() if (1, WHOLE, "a") in scopes.arms]
        assert (lists, unpack_sums([packed], 1).tolist()) == (size, [[size * best]])
    assert runs.of_number[1].scopes[WHOLE].moments.by_variant()["a"] == of_users(layout.measures, [[size, size * best]] * 4)


def test_separate_lists_of_a_user_share_totals_and_are_counted_beyond_the_limit() -> None:
    layout = UserTotalsLayout(TallyLayout(Scorer(["mrr@1"])), ())
    layout.lists_max = 3
    of_user = [list_of(NOON_MS + number, labels) for number, labels in enumerate((RANKER, BOTH, BOTH, RANKER, (), BOTH))]
    runs, counts, (record,) = entered(layout, [of_user])
    totals = {
        tuple(scope): (lists, unpack_sums([packed], 1)[0, 0] >> 40)
        for scopes, (lists, packed, _) in record.totals.items()
        for *scope, _ in scopes.arms
    }
    ranker, layouts = (runs.of_name[name][0].number for name in ("ranker", "layout"))
    day = NOON_MS // DAY_MS
    assert totals == {(ranker, WHOLE): (3, 3), (ranker, day): (3, 3), (layouts, WHOLE): (3, 3), (layouts, day): (3, 3)}
    assert counts["experiment_lists_full", 0] == 4


def test_lists_of_one_visit_count_on_their_own_days() -> None:
    machine = machine_of()
    feed(machine, *(shown("u", MIDNIGHT_MS + at, RANKER) for at in (-400, -200, 0)), clock(MIDNIGHT_MS + 10_000))
    lists = {day: scope.sums["a", "ndcg@1"][2] for (_, day), scope in found(machine).items()}
    assert lists == {None: 3, NOON_MS // DAY_MS: 2, NOON_MS // DAY_MS + 1: 1}


def test_a_visit_across_midnight_is_one_first_exposure_in_all_and_one_for_each_day() -> None:
    machine = machine_of()
    feed(machine, shown("u", NOON_MS, RANKER), clock(NOON_MS + 10_000))
    feed(machine, *(shown("u", MIDNIGHT_MS + at, RANKER) for at in (-100, 100)), clock(MIDNIGHT_MS + 10_000))
    scopes = found(machine)
    exposures = {day: (scope.first_list_users, scope.sums["a", "ndcg@1"][2]) for (_, day), scope in scopes.items()}
    assert exposures == {None: ({"a": 1}, 3), NOON_MS // DAY_MS: ({"a": 1}, 2), NOON_MS // DAY_MS + 1: ({"a": 1}, 1)}


def test_a_user_of_many_experiments_has_one_entry_on_the_first_day_and_then_one_for_whole_runs_and_one_for_each_day() -> None:
    layout = UserTotalsLayout(TallyLayout(Scorer(["mrr@1"])), ())
    labels = tuple((f"e{number:02}", "a") for number in range(16))
    first_day, second_day = [list_of(NOON_MS, labels), list_of(NOON_MS + 1, labels)], [list_of(MIDNIGHT_MS, labels)]
    for lists, entries in ((first_day, [32]), (first_day + second_day, [16, 16, 16]), (second_day, [32])):
        runs, _, (record,) = entered(layout, [lists])
        assert [len(scopes.arms) for scopes in record.totals] == entries
        assert len({tuple(run.scopes[WHOLE].moments.by_variant()["a"]) for run in runs}) == 1


def test_a_user_who_moves_in_many_experiments_has_one_set_of_totals_for_each_variant_and_the_same_cross_moments() -> None:
    """In the last experiment the user moves later, so its arms are split off."""
    layout = UserTotalsLayout(TallyLayout(Scorer(["mrr@1"])), ())
    names = [f"e{number:02}" for number in range(16)]
    labels = [tuple((name, "ba"[at < (7 if name == names[-1] else 5)]) for name in names) for at in (0, 1, 5, 6, 8)]
    runs, _, (record,) = entered(layout, [[list_of(NOON_MS + at, labels[number]) for number, at in enumerate((0, 1, 5, 6, 8))]])
    assert sorted(len(arms.arms) for arms in record.totals) == [2, 2, 30, 30]
    for name in names:
        (run,) = runs.of_name[name]
        before, after = (4, 1) if name == names[-1] else (2, 3)
        expected = cross_of_users(layout.cross, [[before, before << 40]], [[after, after << 40]])
        for day in (WHOLE, NOON_MS // DAY_MS):
            assert run.scopes[day].pairs == {("a", "b"): expected}


def test_sets_of_places_are_split_where_a_list_shows_other_variants_or_fewer_experiments() -> None:
    layout = UserTotalsLayout(TallyLayout(Scorer(["mrr@1"])), ())
    both, other = (("layout", "x"), ("ranker", "a")), (("layout", "x"), ("ranker", "b"))
    runs, _, (record,) = entered(layout, [[list_of(NOON_MS, both), list_of(NOON_MS + 1, RANKER), list_of(NOON_MS + 2, other)]])
    ranker, layouts = (runs.of_name[name][0] for name in ("ranker", "layout"))
    day = NOON_MS // DAY_MS
    lists = {arm: totals.lists for arms, totals in record.totals.items() for arm in arms.arms}
    scopes = [(ranker.number, "a", 2), (ranker.number, "b", 1), (layouts.number, "x", 2)]
    assert lists == {(number, scope, variant): count for number, variant, count in scopes for scope in (WHOLE, day)}
    assert ranker.scopes[WHOLE].hours.new_users() == {"a": 1}
    assert ranker.scopes[WHOLE].moments.by_variant()["a"] == of_users(layout.measures, [[2, 2 << 40]])
    assert layouts.scopes[WHOLE].moments.by_variant()["x"] == of_users(layout.measures, [[2, 2 << 40]])
