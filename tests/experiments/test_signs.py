"""Signs of fewer items, of more users with few lists, and of reactions that come later: found when planted, and hardly ever without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from streammetrics.experiments import Policy, build_report, choose_scales
from streammetrics.experiments.hours import Entry
from streammetrics.experiments.signs import ArmLists, LikeLists, ListSigns, list_signs
from streammetrics.experiments.stored import NO_REACTIONS, Reactions
from streammetrics.metrics import Scorer
from streammetrics.statistics.measures import Measures
from streammetrics.statistics.moments import add, of_users
from tests.support.columns import MEASURES as COLUMNS
from tests.support.experiment_samples import stored
from tests.support.tables import for_each

MEASURES = Measures(Scorer(["ndcg@10", "item_hit_rate@3", "item_hit_rate@10"]).columns)


def arm(seed: int, *, users: int = 1_000, items: int = 10, crawler: float = 0.0, tail: float = 0.0) -> list[int]:
    """The moments of an arm: users with several lists, of which some are empty. `crawler`: more lists, each of a user of its own."""
    random = np.random.default_rng(seed)
    lists = np.minimum(random.pareto(tail, users) * 2 + 1, 500).astype(int) if tail else random.geometric(0.2, users)
    lists = np.concatenate([lists, np.ones(int(crawler * lists.sum()), int)])
    user = np.repeat(np.arange(lists.size), lists)
    is_empty = random.random(user.size) < np.minimum(random.gamma(0.3, 1.0, lists.size) * 0.04 / 0.3, 1)[user]
    rows = np.zeros((lists.size, 1 + len(MEASURES.columns)), np.int64)
    rows[:, 0] = lists
    for place, column in enumerate(MEASURES.columns, 1):
        if column.kind == "places":
            rows[:, place] = np.bincount(user, np.where(is_empty, 0, min(items, column.metric.k)), lists.size)
    return of_users(MEASURES, rows)


def of_one_day(name: str, moments: Sequence[int], reactions: Reactions = NO_REACTIONS) -> ArmLists:
    return ArmLists(name, {Entry(24, 0): moments}, moments, reactions)


def signs(treatment: Sequence[int], control: Sequence[int]) -> ListSigns:
    return list_signs(MEASURES, LikeLists(of_one_day("new", treatment), of_one_day("old", control)))


def test_fewer_items_are_told_with_what_they_do() -> None:
    sign_warnings = signs(arm(1, items=4), arm(2))
    assert sign_warnings.fewer_items is not None
    assert sign_warnings.fewer_items.startswith("new shows 3.8")
    assert [*map(str, sign_warnings.warnings)] == [
        f"{sign_warnings.fewer_items}: item_hit_rate@10 is per item shown and rises by that alone"
    ]


def test_more_items_are_told_and_hold_nothing_back() -> None:
    sign_warnings = signs(arm(1), arm(2, items=4))
    assert sign_warnings.fewer_items is None
    assert sign_warnings.warnings[0].text.endswith("item_hit_rate@10 is per item shown and falls by that alone")


def test_nine_of_ten_items_are_always_found() -> None:
    assert all(signs(arm(2 * seed, items=9), arm(2 * seed + 1)).fewer_items for seed in range(50))


def test_a_crawler_with_an_id_for_each_request_is_told() -> None:
    (note,) = signs(arm(1, crawler=0.06), arm(2)).warnings
    assert note.text.startswith("new has 4.")
    assert " fewer: users come back more or less often, or a crawler or client makes new ids in one arm" in note.text


@pytest.mark.parametrize("tail", [0.0, 1.5])
def test_alike_arms_have_hardly_ever_a_sign(tail: float) -> None:
    assert sum(bool(signs(arm(2 * seed, tail=tail), arm(2 * seed + 1, tail=tail)).warnings) for seed in range(300)) <= 3


def test_a_difference_of_a_hundredth_of_the_items_is_not_told_however_certain() -> None:
    rows = np.array([[1, 0, 0, 0, 0, 0]] * 1_000_000, np.int64)[:, : 1 + len(MEASURES.columns)]
    place = 1 + next(at for at, column in enumerate(MEASURES.columns) if (column.kind, column.metric.k) == ("places", 10))
    rows[:, place] = 10
    control = of_users(MEASURES, rows)
    rows[: rows.shape[0] // 10, place] = 9
    assert signs(of_users(MEASURES, rows), control).warnings == ()


def test_measures_without_items_have_no_sign_of_them() -> None:
    measures = Measures(Scorer(["mrr@10"]).columns)
    moments = of_users(measures, [[2, 0]] * 200)
    assert list_signs(measures, LikeLists(of_one_day("new", moments), of_one_day("old", moments))) == ListSigns()


def reacting(name: str, seed: int, late: float, *, users: int = 2_000, tail: float = 0.0, by_user: bool = False) -> ArmLists:
    """An arm with reactions to a third of its lists, up to three to one. All to one list come late or none; `by_user`: all of one user."""
    random = np.random.default_rng(seed)
    lists = np.minimum(random.pareto(tail, users) * 2 + 1, 500).astype(int) if tail else random.geometric(0.5, users)
    user = np.repeat(np.arange(users), lists)
    counts = (random.random(user.size) < 1 / 3) * random.integers(1, 4, user.size)
    is_late = (random.random(users) < late)[user] if by_user else random.random(user.size) < late
    rows = np.zeros((users, 1 + len(MEASURES.columns)), np.int64)
    rows[:, 0] = lists
    return of_one_day(name, of_users(MEASURES, rows), Reactions(int(counts.sum()), int((counts**2).sum()), int((counts * is_late).sum())))


def late_signs(treatment: ArmLists, control: ArmLists) -> list[str]:
    return [warning.text for warning in list_signs(MEASURES, LikeLists(treatment, control)).warnings if warning.key == "late reactions"]


def test_reactions_that_come_later_in_one_arm_are_told_whichever_it_is() -> None:
    rows = np.zeros((2_000, 1 + len(MEASURES.columns)), np.int64)
    rows[:, 0] = 1
    moments = of_users(MEASURES, rows)
    later, other = Reactions(1_000, 1_000, 140), Reactions(1_000, 1_000, 30)
    (note,) = list_signs(MEASURES, LikeLists(of_one_day("new", moments, later), of_one_day("old", moments, other))).warnings
    assert str(note) == (
        "new has 14 % of its reactions in the last tenth of join.attribution_ms and old 3 %: reactions come later there, so some may come "
        "too late to count. Compare the senders of both arms, or raise join.attribution_ms."
    )
    (note,) = list_signs(MEASURES, LikeLists(of_one_day("new", moments, other), of_one_day("old", moments, later))).warnings
    assert note.text.startswith("old has 14 % of its reactions in the last tenth of join.attribution_ms and new 3 %: ")


def test_three_times_as_many_late_reactions_are_always_found() -> None:
    assert all(late_signs(reacting("new", 2 * seed, 0.15), reacting("old", 2 * seed + 1, 0.05)) for seed in range(50))


@for_each(product([100, 2_000], [False, True], [0.0, 1.5]))
def test_reactions_of_alike_arms_are_hardly_ever_told(case: tuple[int, bool, float]) -> None:
    users, by_user, tail = case
    pairs = [[reacting("x", 2 * seed + at, 0.1, users=users, tail=tail, by_user=by_user) for at in (0, 1)] for seed in range(300)]
    assert sum(bool(late_signs(one._replace(name="new"), other)) for one, other in pairs) <= 2


@pytest.mark.parametrize(
    ("treatment", "control"),
    [
        pytest.param((10**6, 10**6, 45_000), (10**6, 10**6, 30_000), id="a difference below two points"),
        pytest.param((40, 40, 8), (4_000, 4_000, 40), id="too few late reactions expected in one arm"),
        pytest.param((1_000, 10_000, 140), (1_000, 10_000, 80), id="ten reactions to each list count as one"),
        pytest.param((1_000, 1_000, 0), (1_000, 1_000, 0), id="none is late"),
        pytest.param((1_000, 1_000, 1_000), (1_000, 1_000, 1_000), id="all are late"),
        pytest.param((0, 0, 0), (1_000, 1_000, 140), id="an arm without reactions"),
    ],
)
def test_differences_that_are_small_or_uncertain_are_not_told(treatment: tuple[int, int, int], control: tuple[int, int, int]) -> None:
    rows = np.zeros((2_000, 1 + len(MEASURES.columns)), np.int64)
    rows[:, 0] = 1
    arms = [of_one_day(name, of_users(MEASURES, rows), Reactions(*counts)) for name, counts in (("new", treatment), ("old", control))]
    assert late_signs(*arms) == []


def test_a_report_says_that_reactions_come_later_in_one_arm() -> None:
    reactions = {"control": Reactions(4_000, 8_000, 120), "treatment": Reactions(4_000, 8_000, 560)}
    kept = replace(stored({"control": 0.5, "treatment": 0.5}), reactions=reactions)
    policy = Policy(paging=("ndcg@10",))
    notes = build_report(COLUMNS, policy, kept, choose_scales(COLUMNS, policy, kept, {})).warnings
    told = "treatment has 14 % of its reactions in the last tenth of join.attribution_ms and control 3 %"
    assert [note.key for note in notes if note.text.startswith(told)] == ["late reactions"], notes
    alike = replace(kept, reactions=dict.fromkeys(reactions, Reactions(4_000, 8_000, 120)))
    assert "late reactions" not in str(build_report(COLUMNS, policy, alike, choose_scales(COLUMNS, policy, kept, {})).warnings)


def test_users_of_one_day_are_compared_with_users_of_the_same_day() -> None:
    """Users who came earlier have three times the lists. The treatment has mostly later ones, as after a step of a rollout."""
    rows = np.zeros((4_000, 1 + len(MEASURES.columns)), np.int64)
    rows[:, 0] = np.random.default_rng(4).geometric(0.5, 4_000)
    late, many = rows, rows * 3
    first, second = Entry(24, 0), Entry(24, 1)
    days = {"new": {first: many[:200], second: late[:3_000]}, "old": {first: many[200:4_000], second: late[3_000:]}}
    arms = []
    for name, of_day in days.items():
        moments = {day: of_users(MEASURES, users) for day, users in of_day.items()}
        arms.append(ArmLists(name, moments, add(moments[first], moments[second])))
    assert list_signs(MEASURES, LikeLists(*arms)).warnings == ()
    (note,) = list_signs(MEASURES, LikeLists(*(of_one_day(arm.name, arm.moments) for arm in arms))).warnings
    assert note.key == "lists per user"


def test_lists_per_user_are_no_sign_where_each_list_is_assigned() -> None:
    treatment, control = arm(1, crawler=0.06), arm(2)
    lists = LikeLists(of_one_day("new", treatment), of_one_day("old", control), by_user=False)
    assert list_signs(MEASURES, lists).warnings == ()
