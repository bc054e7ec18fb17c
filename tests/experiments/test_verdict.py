"""Verdicts from estimates and health: the word and its reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streammetrics.config.experiments import settings_text
from streammetrics.errors import ExperimentError
from streammetrics.experiments import StoredSums
from streammetrics.experiments.cell_estimates import ChangedEffect, RunPart
from streammetrics.experiments.gate import within_gate_margin
from streammetrics.experiments.health import Health, health_of
from streammetrics.experiments.measure_words import change_words
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.preferences import judge_preference
from streammetrics.experiments.stored import NO_FEEDBACK, FeedbackCounts
from streammetrics.experiments.verdict import VERDICT_CODES, WORST_FIRST, MeasureComparison, Verdict, combined, evidence, judge, waiting
from streammetrics.statistics.estimates import Estimate, lift_interval
from streammetrics.statistics.interleaving import Preference
from streammetrics.statistics.measures import Measure
from streammetrics.statistics.sequence import MeasureScale, Mixture
from streammetrics.words.numbers import percent
from streammetrics.words.times import HOUR_MS
from tests.support.tables import for_each

NDCG = Measure("ndcg", 10, "mean", 2, 1, 40)
HITS = Measure("hit_rate", 10, "mean", 2, 1, 40)
ITEM_HITS = Measure("item_hit_rate", 10, "ratio", 4, 5, 0)
USER_HITS = Measure("user_hit_rate", 10, "users", 3, 0, 0)
SCALE = MeasureScale(0.04, 0.4)
EQUAL = Policy(shares={"control": 1, "treatment": 1})


POLICY = Policy(margin=0.02)


def health(policy: Policy, experiment: str, users: Mapping[str, int], joined: FeedbackCounts = NO_FEEDBACK) -> Health:
    return health_of(policy, StoredSums(experiment=experiment, scope="start", moments={}, first_list_users=users, joined=joined))


def compared(lift: float, error: float = 0.002, measure: Measure = NDCG, scale: MeasureScale = SCALE) -> MeasureComparison:
    control, treatment = (Estimate(0.4 * (1 + change), error**2, 5_000) for change in (0.0, lift))
    return MeasureComparison(measure, treatment, control, scale, lift_interval(treatment, control, Mixture(0.04), 0.05))


def verdict(lift: float, error: float = 0.002, policy: Policy = POLICY, measure: Measure = NDCG) -> Verdict:
    return judge(policy, [compared(lift, error, measure)])[str(measure)]


@for_each(
    [
        (-0.10, 0.002, "regressed"),
        (-0.02, 0.002, "inconclusive"),
        (-0.01, 0.0005, "safe"),
        (0.0, 0.0005, "safe"),
        (0.05, 0.002, "improved"),
        (0.05, 0.05, "inconclusive"),
        (-0.10, 0.05, "inconclusive"),
    ]
)
def test_each_lift_gets_its_word(case: tuple[float, float, str]) -> None:
    lift, error, word = case
    assert verdict(lift, error).word == word


def test_reasons_are_plain_sentences() -> None:
    assert verdict(-0.12, measure=HITS).reason == (
        "12 % fewer lists with a hit in the first 10 than control; 95 % confidence, safe to check at any time"
    )
    assert verdict(-0.12, measure=USER_HITS).reason == (
        "12 % fewer users with a hit in the first 10 than control; 95 % confidence, safe to check at any time"
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
    interval = lift_interval(treatment, control, Mixture(0.04), 0.05)
    assert interval is not None
    end = (interval.lower, interval.upper)[side]
    assert end is not None
    assert (end < 0) == (side == 0)
    return percent(abs(end))


def test_a_control_of_zero_and_data_without_variance() -> None:
    nothing = MeasureComparison(NDCG, Estimate(0.4, 1e-6, 500), Estimate(0.0, 0.0, 500), SCALE)
    assert judge(Policy(), [nothing])["ndcg@10"] == Verdict(
        "improved", "ndcg@10 is 40 % against 0 % in control; 95 % confidence, safe to check at any time"
    )
    constant = MeasureComparison(NDCG, Estimate(0.4, 0.0, 500), Estimate(0.5, 0.0, 500), SCALE)
    assert evidence(Policy(), constant) == (-math.inf, -math.inf, -math.inf)
    assert judge(Policy(), [constant])["ndcg@10"].word == "inconclusive"


def test_each_direction_detects_its_own_effect() -> None:
    """With frozen means: a drop detects minimum_lift less the margin, `safe` detects the margin."""
    comparison = compared(0.0, 0.0008, scale=MeasureScale(0.04, 0.4))
    words = {margin: judge(Policy(margin=margin), [comparison])["ndcg@10"].word for margin in (0.005, 0.05)}
    assert words == {0.005: "inconclusive", 0.05: "safe"}
    small = compared(-0.016, 0.0014, scale=MeasureScale(0.04, 0.4))
    word_by_lift = {lift: judge(Policy(margin=0.0, minimum_lift=lift), [small])["ndcg@10"].word for lift in (0.02, 0.3)}
    assert word_by_lift == {0.02: "regressed", 0.3: "inconclusive"}


def test_treatments_share_the_error_of_deciding_measures_only() -> None:
    close = compared(-0.0104, 0.0008)
    policy = Policy(margin=0.0, paging=("ndcg@10",))
    assert [judge(policy, [close], treatments)["ndcg@10"].word for treatments in (1, 20)] == ["regressed", "inconclusive"]
    assert judge(Policy(margin=0.0), [close], 20)["ndcg@10"].word == "regressed"
    assert judge(policy, [compared(-0.1)], 20)["ndcg@10"].reason.endswith("95 % confidence, safe to check at any time")


def test_two_deciding_measures_are_certain_by_the_closed_test() -> None:
    """Both E of at least 20: certain at once. One alone needs a mean of 20: 40 with nothing from the other."""
    policy = Policy(margin=0.0, paging=("ndcg@10", "item_hit_rate@10"))

    def words(ndcg: float, item_hits: float | None) -> list[str]:
        other = [] if item_hits is None else [compared(item_hits, 0.0008, ITEM_HITS)]
        return [verdict.word for verdict in judge(policy, [compared(ndcg, 0.0008), *other]).values()]

    assert judge(Policy(margin=0.0), [compared(-0.0104, 0.0008)])["ndcg@10"].word == "regressed"
    assert words(-0.0104, -0.0104) == ["regressed", "regressed"]
    assert words(-0.0104, None) == ["inconclusive"]
    assert words(-0.0104, 0.0) == ["inconclusive", "inconclusive"]
    assert words(-0.011, None) == ["regressed"]
    assert words(-0.0104, -0.02) == ["regressed", "regressed"]
    assert words(-0.02, 0.02) == ["mixed", "mixed"]


def test_with_margin_0_a_rise_that_is_certain_for_itself_is_safe() -> None:
    """Two deciding measures: the closed test asks more of `improved` than of `safe`."""
    policy = Policy(margin=0.0, paging=("ndcg@10", "item_hit_rate@10"))
    words = [judge(policy, [compared(lift, 0.0008)])["ndcg@10"].word for lift in (0.0095, 0.0107, 0.012)]
    assert words == ["inconclusive", "safe", "improved"]


@given(st.lists(st.floats(-0.03, 0.03), min_size=3, max_size=3))
@example([-0.03, -0.0126, 0.02])
@example([-0.0126, -0.0128, 0.0])
@example([-0.0134, -0.0134, -0.0134])
@example([-0.0132, 0.0, 0.0])
def test_the_closed_test_equals_all_intersections_and_is_never_later_than_bonferroni(lifts: list[float]) -> None:
    names = ("ndcg@10", "hit_rate@10", "item_hit_rate@10")
    policy = Policy(margin=0.0, paging=names)
    comparisons = [compared(lift, 0.001, measure) for lift, measure in zip(lifts, (NDCG, HITS, ITEM_HITS), strict=True)]
    values = [math.exp(min(evidence(policy, comparison).drop, 50.0)) for comparison in comparisons]
    subsets = [[at for at in range(3) if mask >> at & 1] for mask in range(1, 8)]
    verdicts = judge(policy, comparisons)
    for at, name in enumerate(names):
        certain = all(sum(values[i] for i in subset) / len(subset) >= 20 for subset in subsets if at in subset)
        assert (verdicts[name].word in ("regressed", "mixed")) == certain or verdicts[name].word == "mixed"
        assert values[at] < 60 * (1 + 1e-9) or verdicts[name].word in ("regressed", "mixed")


def test_no_measure_pages_beside_two_that_contradict_each_other() -> None:
    """Also not a third one that regressed for itself. One that is safe stays safe."""
    policy = Policy(paging=("ndcg@10", "hit_rate@10", "item_hit_rate@10"))
    gain = Measure("dcg", 10, "mean", 2, 1, 32)
    verdicts = judge(
        policy,
        [compared(-0.1), compared(0.1, measure=gain), compared(-0.1, measure=HITS), compared(0.0, 0.0005, ITEM_HITS)],
    )
    words = {"ndcg@10": "mixed", "hit_rate@10": "mixed", "item_hit_rate@10": "safe", "dcg@10": "mixed"}
    assert {name: verdict.word for name, verdict in verdicts.items()} == words
    contradiction = verdicts["ndcg@10"].reason
    assert contradiction.startswith("10 % lower ndcg@10 than control, but 10 % higher dcg@10 than control")
    assert verdicts["hit_rate@10"].reason == f"10 % fewer lists with a hit in the first 10 than control; also {contradiction}"


def test_a_contradiction_names_the_error_of_its_policy() -> None:
    policy = Policy(alpha=0.01, paging=("ndcg@10", "hit_rate@10"))
    verdicts = judge(policy, [compared(-0.1), compared(0.1, measure=HITS)])
    assert {name: verdict.word for name, verdict in verdicts.items()} == {"ndcg@10": "mixed", "hit_rate@10": "mixed"}
    assert all("99 % confidence" in verdict.reason for verdict in verdicts.values())


def test_a_variant_is_improved_only_if_all_deciding_measures_are_at_least_safe() -> None:
    def word(*words: str) -> str:
        return combined([Verdict(word, word) for word in words]).word  # type: ignore[arg-type]

    assert word("improved", "safe") == word("improved", "improved") == "improved"
    assert word("safe", "safe") == "safe"
    assert word("improved", "inconclusive") == word("safe", "inconclusive") == "inconclusive"
    assert word("regressed", "inconclusive") == word("safe", "regressed") == "regressed"
    assert word("mixed", "mixed") == word("regressed", "mixed", "mixed") == "mixed"


def test_a_team_that_rarely_drafts_first_is_not_preferred_yet() -> None:
    preferred = Preference(900, 4_000, 810.0, 0.12, 1e-4, 0.08, 0.16, True, False, first_share=0.005)
    verdicts = [judge_preference(Policy(), replace(preferred, effective_orders=orders), "new", "old") for orders in (19.9, 20.0)]
    assert [verdict.word for verdict in verdicts] == ["inconclusive", "improved"]
    assert "new drafts first in only 0.5 % of the lists" in verdicts[0].reason


def test_a_broken_split_and_a_broken_join_are_reported() -> None:
    split = {"control": 5_000, "treatment": 5_000}
    assert health(EQUAL, "ranker", split, FeedbackCounts(75, 25)).troubles == ()
    assert health(EQUAL, "ranker", split, FeedbackCounts(60, 40)).troubles == ("40 % of all feedback matches no list; the limit is 25 %",)
    assert health(EQUAL, "ranker", {"control": 4_500, "treatment": 5_500}).troubles[0].startswith("users are not split as configured")
    broken = health(EQUAL, "ranker", {"control": 800}, FeedbackCounts(100, 900))
    assert len(broken.troubles) == 2
    assert "control 800, treatment 0" in broken.troubles[0]


def test_an_unknown_label_is_reported_once_many_users_have_it() -> None:
    policy = Policy(shares={"control": 1, "treatment": 1})
    split = {"control": 5_000, "treatment": 5_000}
    for strays, troubles in ((1, 0), (101, 0), (102, 1)):
        state = health(policy, "ranker", {**split, "treatmnet": strays})
        assert (len(state.troubles), round(state.sample_ratio_p or 0, 6)) == (troubles, 1.0), strays
    assert len(health(policy, "ranker", {"control": 4_500, "treatment": 5_500, "treatmnet": 900}).troubles) == 2
    assert health(policy, "ranker", {"control": 3, "treatment": 3, "treatmnet": 2}).troubles == ()
    assert [
        len(health(policy, "ranker", {"control": 49, "treatment": treatment_users, "treatmnet": 2}).troubles)
        for treatment_users in (48, 49)
    ] == [0, 1]


def test_the_join_is_not_checked_with_little_feedback() -> None:
    for joined, troubles in ((FeedbackCounts(0, 99), 0), (FeedbackCounts(0, 100), 1), (FeedbackCounts(0, 0), 0)):
        assert len(health(Policy(), "ranker", {}, joined).troubles) == troubles
    assert (health(Policy(), "ranker", {}, FeedbackCounts(0, 99)).unmatched_share, health(Policy(), "ranker", {}).unmatched_share) == (
        1.0,
        None,
    )


def test_arms_with_too_few_users_are_named() -> None:
    assert waiting(Policy(), {"control": 1_200, "treatment": 42}).reason == "each arm needs at least 100 users: treatment has 42"


def test_each_word_has_its_own_code() -> None:
    assert Verdict("regressed", "").code == -1
    assert VERDICT_CODES == {"mixed": -3, "invalid": -2, "regressed": -1, "inconclusive": 0, "safe": 1, "improved": 2}
    assert sorted(WORST_FIRST) == sorted(VERDICT_CODES)
    assert [word for word, code in VERDICT_CODES.items() if code > 0] == ["safe", "improved"]


def test_messages_about_the_split_have_the_toml_that_settles_it() -> None:
    seen = {"control": 9_000, "new ranker": 1_000, "typo": 300}
    (note,) = health(Policy(settings_text=settings_text), "ranker", seen).notes
    assert 'under [experiments.named.ranker]: shares = { control = 1, "new ranker" = 1, typo = 1 }' in note
    split, stray = health(Policy(shares={"control": 1, "new ranker": 1}, settings_text=settings_text), "ranker", seen).troubles
    assert "(typo): fix the label. If it is intended, add it to the shares of ranker, with its share of your assignment" in stray
    assert "fix the assignment. If the shares of ranker are set wrong, copy those of your assignment, not these counts; if they" in split
    assert "0.9" not in split + stray, "shares that equal the counts would switch the check off"


@pytest.mark.parametrize(("moved", "tests"), [(180, "100"), (190, "200"), (230, "4,000"), (260, "60,000")])
def test_the_chance_of_a_split_is_rounded_down(moved: int, tests: str) -> None:
    state = health(EQUAL, "ranker", {"control": 5_000 - moved, "treatment": 5_000 + moved})
    (trouble,) = state.troubles
    assert f"happens by chance at most once in {tests} tests)" in trouble
    assert int(tests.replace(",", "")) <= 1 / state.sample_ratio_p


def test_the_control_is_configured_or_has_a_conventional_name() -> None:
    assert Policy(control="old").control_of(["new", "old"]) == "old"
    assert Policy().control_of(["treatment", "CONTROL", "baseline"]) == "CONTROL"
    assert Policy().control_of(["baseline", "new"]) == "baseline"
    assert Policy(shares={"control": 1, "x": 1}).control_of(["x"]) == "control"
    assert Policy().control_of(["a", "b"]) is None


@for_each(
    [
        ({"alpha": 0.0}, "alpha: got 0.0"),
        ({"margin": 1.0}, "margin: got 1.0"),
        ({"min_users": 1}, "min_users: got 1"),
        ({"minimum_lift": 0.0}, "minimum_lift"),
        ({"effective_users_min": -1.0}, "effective_users_min: got -1.0; must be finite and at least 0"),
        ({"sample_ratio_alpha": 2.0}, "sample_ratio_alpha"),
        ({"unmatched_share_max": 1.1}, "unmatched_share_max"),
        ({"shares": {"a": 1.0}}, "shares: got"),
        ({"shares": {"a": 1.0, "b": 0.0}}, "share of 'b': got 0.0"),
        ({"shares": {"a": 1.0, "b": 1.0}, "control": "c"}, "control: got 'c'; must be one of a, b"),
    ]
)
def test_invalid_policies_are_rejected(case: tuple[dict[str, object], str]) -> None:
    options, message = case
    with pytest.raises(ExperimentError, match=message):
        Policy(**options)  # type: ignore[arg-type]


def changed(lift: float, before: float, since: float) -> MeasureComparison:
    """An effect that was one before 2024-11-19 00:00 UTC, and is another since."""
    parts = [
        RunPart(hour, hour + 24, 50.0, (100.0, 100.0), comparison.treatment, comparison.control, (100.0, 100.0))
        for hour, comparison in ((481_080, compared(before)), (481_104, compared(since)))
    ]
    return compared(lift)._replace(change=ChangedEffect(parts[0], parts[1], before, since))


@for_each(
    [
        (0.15, 0.6, -0.15, "inconclusive"),  # the lists since the change are worse
        (0.15, 0.6, 0.0, "safe"),
        (0.15, 0.3, 0.1, "improved"),
        (-0.15, -0.6, 0.1, "regressed"),  # all lists together are still worse
        (0.05, -0.2, 0.2, "improved"),
    ]
)
def test_an_effect_that_has_changed_is_good_news_only_if_it_is_since(case: tuple[float, float, float, str]) -> None:
    lift, before, since, word = case
    change = changed(lift, before, since)
    said = judge(POLICY, [change])["ndcg@10"]
    assert said.word == word
    assert said.reason.endswith(str(change_words(NDCG, before, since, 481_104 * HOUR_MS)))
    assert bool(within_gate_margin(POLICY, [change])) == (since >= 0 and lift > 0)


def test_the_reason_of_a_changed_effect_has_both_numbers_and_the_date_in_place_of_an_interval() -> None:
    assert judge(POLICY, [changed(0.15, 0.6, -0.15)])["ndcg@10"].reason == (
        "15 % higher ndcg@10 than control so far; the effect has changed: 60 % higher before 2024-11-19 00:00 UTC, 15 % lower since"
    )
