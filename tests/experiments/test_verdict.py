"""Verdicts from estimates and health: the word and its reason."""

from __future__ import annotations

import pytest

from streammetrics.experiments.estimates import Estimate, lift_interval
from streammetrics.experiments.measures import ExperimentError, Measure
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.verdict import VERDICT_CODES, Joined, Verdict, health, judge, percent, waiting

NDCG = Measure("ndcg", 10, "mean", 2, 1, 40)
HITS = Measure("hit_rate", 10, "mean", 2, 1, 40)
USER_HITS = Measure("user_hit_rate", 10, "users", 3, 0, 0)
TAU = 0.04


POLICY = Policy(margin=0.02)


def verdict(lift: float, error: float = 0.002, policy: Policy = POLICY, measure: Measure = NDCG) -> Verdict:
    control, treatment = (Estimate(0.4 * (1 + each), error**2, 5_000) for each in (0.0, lift))
    return judge(policy, measure, treatment, control, TAU, lift_interval(treatment, control, TAU, 0.05))


@pytest.mark.parametrize(
    ("lift", "error", "word"),
    [
        (-0.10, 0.002, "regressed"),
        (-0.02, 0.002, "inconclusive"),
        (-0.01, 0.0005, "safe"),
        (0.0, 0.0005, "safe"),
        (0.05, 0.002, "improved"),
        (0.05, 0.05, "inconclusive"),
        (-0.10, 0.05, "inconclusive"),
    ],
)
def test_each_lift_gets_its_word(lift: float, error: float, word: str) -> None:
    assert verdict(lift, error).word == word


def test_reasons_are_plain_sentences() -> None:
    assert verdict(-0.12, measure=HITS).reason == (
        "12 % fewer lists with a hit in the first 10 than control; 95 % confidence, safe to check at any time"
    )
    assert verdict(-0.12, measure=USER_HITS).reason == (
        "12 % fewer users with a hit in the first 10 than control; 97.5 % confidence, safe to check at any time"
    )
    assert verdict(0.053).reason == "5.3 % higher ndcg@10 than control; 95 % confidence, safe to check at any time"
    assert verdict(-0.01, 0.0005).reason == (
        "1 % lower ndcg@10 than control; at most 2 % worse; 95 % confidence, safe to check at any time"
    )
    assert verdict(-0.03, 0.01).reason == (
        "3 % lower ndcg@10 than control so far; the true difference is between 13 % lower and 8 % higher"
    ).replace("13 %", _end(-0.03, 0.01, 0)).replace("8 %", _end(-0.03, 0.01, 1))


def _end(lift: float, error: float, side: int) -> str:
    treatment, control = Estimate(0.4 * (1 + lift), error**2, 5_000), Estimate(0.4, error**2, 5_000)
    found = lift_interval(treatment, control, TAU, 0.05)
    assert found is not None
    end = (found.lower, found.upper)[side]
    assert end is not None
    assert (end < 0) == (side == 0)
    return percent(abs(end))


def test_a_control_of_zero_and_data_without_variance() -> None:
    nothing = judge(Policy(), NDCG, Estimate(0.4, 1e-6, 500), Estimate(0.0, 0.0, 500), TAU, None)
    assert nothing == Verdict("improved", "control has no ndcg@10; 95 % confidence, safe to check at any time")
    constant = judge(Policy(), NDCG, Estimate(0.4, 0.0, 500), Estimate(0.5, 0.0, 500), TAU, None)
    assert constant == Verdict(
        "inconclusive", "20 % lower ndcg@10 than control so far; all users have the same value, so no confidence can be given"
    )


def test_paging_measures_and_treatments_share_the_error() -> None:
    shares = {"control": 1.0, "one": 1.0, "two": 1.0}
    policy = Policy(alpha=0.06, paging=("ndcg@10", "hit_rate@10", "user_hit_rate@10"), shares=shares)
    assert policy.alarm_alpha(NDCG) == 0.01
    assert policy.alarm_alpha(USER_HITS) == 0.005
    assert policy.alarm_alpha(Measure("mrr", 10, "mean", 2, 1, 40)) == 0.06
    assert Policy(paging=("ndcg@10",)).alarm_alpha(NDCG) == 0.05
    close = -0.033
    assert verdict(close, 0.001, Policy(margin=0.02)).word == "regressed"
    assert verdict(close, 0.001, Policy(margin=0.02, paging=tuple(f"ndcg@{k}" for k in range(1, 41)))).word == "inconclusive"


def test_a_broken_split_multi_exposure_and_a_broken_join_are_reported() -> None:
    split = {"control": 5_000, "treatment": 5_000}
    assert health(Policy(), split, 100, Joined(75, 25)).troubles == ()
    assert health(Policy(), split, 101, Joined(75, 25)).troubles == ("1 % of the users saw more than one variant; the limit is 1 %",)
    assert health(Policy(), split, 0, Joined(60, 40)).troubles == ("40 % of all feedback matches no list; the limit is 25 %",)
    assert health(Policy(), {"control": 4_500, "treatment": 5_500}, 0).troubles[0].startswith("users are not split as configured")
    broken = health(Policy(shares={"control": 1, "treatment": 1}), {"control": 800}, 700, Joined(100, 900))
    assert len(broken.troubles) == 3
    assert "control 800, treatment 0" in broken.troubles[0]


def test_an_unknown_label_is_reported_once_many_users_have_it() -> None:
    policy = Policy(shares={"control": 1, "treatment": 1})
    split = {"control": 5_000, "treatment": 5_000}
    for strays, troubles in ((1, ()), (101, ()), (102, ("1 % of the users saw a variant without a configured share (treatmnet)",))):
        found = health(policy, {**split, "treatmnet": strays}, 0)
        assert (found.troubles, round(found.sample_ratio_p, 6)) == (troubles, 1.0), strays
    assert len(health(policy, {"control": 4_500, "treatment": 5_500, "treatmnet": 900}, 0).troubles) == 2
    assert health(policy, {"control": 3, "treatment": 3, "treatmnet": 2}, 0).troubles == ()
    assert [len(health(policy, {"control": 49, "treatment": each, "treatmnet": 2}, 0).troubles) for each in (48, 49)] == [0, 1]


def test_multi_exposure_is_not_checked_with_few_users() -> None:
    assert health(Policy(), {"control": 3, "treatment": 4}, 5).troubles == ()
    assert [len(health(Policy(), {"control": 50, "treatment": each}, 2).troubles) for each in (49, 50)] == [0, 1]
    assert health(Policy(), {}, 0).multi_exposed_share == 0


def test_the_join_is_not_checked_with_little_feedback() -> None:
    for joined, troubles in ((Joined(0, 99), 0), (Joined(0, 100), 1), (Joined(0, 0), 0)):
        assert len(health(Policy(), {}, 0, joined).troubles) == troubles
    assert (health(Policy(), {}, 0, Joined(0, 99)).unmatched_share, health(Policy(), {}, 0).unmatched_share) == (1.0, None)


def test_arms_with_too_few_users_are_named() -> None:
    assert waiting(Policy(), {"control": 1_200, "treatment": 42}).reason == "each arm needs at least 100 users: treatment has 42"


def test_each_word_has_its_own_code() -> None:
    assert Verdict("regressed", "").code == -1
    assert VERDICT_CODES == {"invalid": -2, "regressed": -1, "inconclusive": 0, "safe": 1, "improved": 2}


@pytest.mark.parametrize(("moved", "tests"), [(180, "100"), (190, "200"), (230, "4,000"), (260, "60,000")])
def test_the_chance_of_a_split_is_rounded_down(moved: int, tests: str) -> None:
    state = health(Policy(), {"control": 5_000 - moved, "treatment": 5_000 + moved}, 0)
    (trouble,) = state.troubles
    assert f"happens by chance at most once in {tests} tests)" in trouble
    assert int(tests.replace(",", "")) <= 1 / state.sample_ratio_p


def test_the_control_is_configured_or_has_a_conventional_name() -> None:
    assert Policy(control="old").control_of(["new", "old"]) == "old"
    assert Policy().control_of(["treatment", "CONTROL", "baseline"]) == "CONTROL"
    assert Policy().control_of(["baseline", "new"]) == "baseline"
    assert Policy(shares={"control": 1, "x": 1}).control_of(["x"]) == "control"
    assert Policy().control_of(["a", "b"]) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, "alpha: got 0.0"),
        ({"margin": 1.0}, "margin: got 1.0"),
        ({"min_users": 1}, "min_users: got 1"),
        ({"minimum_lift": 0.0}, "minimum_lift"),
        ({"sample_ratio_alpha": 2.0}, "sample_ratio_alpha"),
        ({"multi_exposed_share_max": -0.1}, "multi_exposed_share_max"),
        ({"unmatched_share_max": 1.1}, "unmatched_share_max"),
        ({"shares": {"a": 1.0}}, "shares: got"),
        ({"shares": {"a": 1.0, "b": 0.0}}, "share of 'b': got 0.0"),
        ({"shares": {"a": 1.0, "b": 1.0}, "control": "c"}, "control: got 'c'; must be one of a, b"),
    ],
)
def test_invalid_policies_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(ExperimentError, match=message):
        Policy(**options)  # type: ignore[arg-type]
