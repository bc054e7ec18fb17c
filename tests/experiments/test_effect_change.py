"""Tests of the lift by day and of a change of the effect: brute force, planted changes, and what is no change."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.experiments.building import build_report, choose_scales
from streammetrics.experiments.cell_estimates import ChangedEffect, Pair, RunPart
from streammetrics.experiments.effect_change import DAYS_MAX, blocks_of, changed_effect, evidence_by_midnight, parts_by_day
from streammetrics.experiments.policy import Policy
from streammetrics.statistics.estimates import Estimate
from tests.experiments.raw_lists import MEASURES, RATE, stored_of
from tests.oracle.cells import RawList, compare
from tests.oracle.effect import by_day, changes
from tests.tools.bench.aa_lists import Regime
from tests.tools.bench.effect_change import CHANGING, CONSTANT, first_change

DAY = 24
FIRST = 480_000


@st.composite
def days_of_lists(draw: st.DrawFn) -> list[RawList]:
    """Lists of two arms and of another one, over some days; some users change their arm."""
    span = draw(st.sampled_from((30, 60, 80)))
    seed = draw(st.randoms(use_true_random=False))
    moving = draw(st.sampled_from((0.0, 0.2)))
    raw_lists = []
    for user in range(draw(st.integers(20, 80))):
        first, arm = FIRST + seed.randrange(span), seed.choice("aabbc")
        for _ in range(seed.choice((1, 2, 5))):
            d = seed.choice((1, 1, 3, 0))
            variant = seed.choice("ab") if seed.random() < moving else arm
            raw_lists.append(RawList(f"u{user}", first + seed.choice((0, 0, 7, 30, 250)), variant, seed.randint(0, d), d))
    return raw_lists


def parts_of(raw: list[RawList], **options: bool) -> tuple[RunPart, ...]:
    stored = stored_of(raw)
    return parts_by_day(Pair(MEASURES, stored, "a", "b", **options), stored.hours, RATE)


@given(days_of_lists())
def test_days_equal_brute_force(raw: list[RawList]) -> None:
    parts, wanted = parts_of(raw), by_day(raw, "a", "b")
    assert [(part.first, part.end, part.sizes) for part in parts] == [(day.first, day.end, day.sizes) for day in wanted]
    for part, day in zip(parts, wanted, strict=True):
        assert math.isclose(part.weight, day.arms.weight, rel_tol=1e-9)
        for arm_estimate, arm in zip((part.treatment, part.control), day.arms[:2], strict=True):
            assert math.isclose(arm_estimate.mean, arm.mean, rel_tol=1e-9, abs_tol=1e-12)
            assert math.isclose(arm_estimate.variance, arm.variance, rel_tol=1e-9, abs_tol=1e-12)


@given(days_of_lists())
def test_evidence_equals_brute_force(raw: list[RawList]) -> None:
    whole = compare(raw, "a", "b")
    sizes = [sum(raw_list.d for raw_list in raw if raw_list.variant == arm) for arm in ("a", "b")]
    moved = Fraction(0) if whole is None else whole.covariance * sizes[0] * sizes[1]
    wanted = changes(by_day(raw, "a", "b"), 5.0, moved)
    evidence = dict(evidence_by_midnight(parts_of(raw), 5.0, float(moved)))
    assert evidence.keys() == wanted.keys()
    for hour, (value, change) in evidence.items():
        assert math.isclose(value, wanted[hour].log_evidence, rel_tol=1e-6, abs_tol=1e-9)
        assert math.isclose(change.lift_before, wanted[hour].before, rel_tol=1e-9, abs_tol=1e-12)
        assert math.isclose(change.lift_since, wanted[hour].since, rel_tol=1e-9, abs_tol=1e-12)


def lists_of(clicks: Iterable[tuple[int, int]], users: int = 300) -> list[RawList]:
    """Lists of new users by day. Of ten users of the control and of the treatment who follow each other, so many click."""
    return [
        RawList(f"{arm}{day}-{user}", FIRST + DAY * day + user * DAY // users, arm, int(user % 10 < clicked), 1)
        for day, both in enumerate(clicks)
        for arm, clicked in zip("ba", both, strict=True)
        for user in range(users)
    ]


def change_of(raw: list[RawList], **options: int) -> ChangedEffect | None:
    return changed_effect([parts_of(raw)], 100.0, **options)


def test_an_effect_that_lasts_for_some_days_is_told_with_both_lifts() -> None:
    change = change_of(lists_of([(2, 4), (2, 4), (2, 2), (2, 2), (2, 2)]))
    assert change is not None
    assert change.since.first == FIRST + 2 * DAY
    assert (round(change.lift_before, 6), round(change.lift_since, 6)) == (1.0, 0.0)


def test_a_treatment_that_gets_no_click_any_more_has_changed() -> None:
    change = change_of(lists_of([(3, 3), (3, 3), (3, 0), (3, 0)]))
    assert change is not None
    assert (round(change.lift_before, 6), change.lift_since) == (0.0, -1.0)


def test_the_same_ratio_on_days_of_different_clicks_is_no_change() -> None:
    assert change_of(lists_of([(2, 4), (4, 8), (1, 2), (3, 6), (4, 8)])) is None


@pytest.mark.parametrize("regime", CHANGING[:2], ids=lambda regime: regime.name)
def test_a_change_among_drawn_lists_is_said_within_a_day(regime: Regime) -> None:
    changed_at = DAY * (1 if regime.effect[0] else 4)
    assert changed_at < first_change(regime, 0, 12) <= changed_at + DAY


@pytest.mark.parametrize("regime", CONSTANT[1:3], ids=lambda regime: regime.name)
def test_a_constant_effect_among_drawn_lists_is_no_change(regime: Regime) -> None:
    assert [first_change(regime, number, 24) for number in range(3)] == [math.inf] * 3


def test_one_day_has_no_change() -> None:
    assert change_of(lists_of([(2, 4)])) is None
    assert changed_effect([()], 100.0) is None


def test_fewer_users_than_an_arm_needs_say_nothing() -> None:
    raw = lists_of([(4, 9), (4, 4), (4, 4)], users=90)
    assert changed_effect([parts_of(raw)], 80.0) is not None
    assert change_of(raw) is None


def test_more_tests_share_the_error() -> None:
    raw = lists_of([(2, 4), (2, 2), (2, 2)], users=600)
    evidence = dict(evidence_by_midnight(parts_of(raw), 100.0, 0.0))[FIRST + DAY][0] - math.log(2 / 0.01)
    assert evidence > 0
    assert change_of(raw, tests=math.floor(math.exp(evidence))) is not None
    assert change_of(raw, tests=math.ceil(math.exp(evidence))) is None


def test_if_an_arm_was_silent_both_estimates_must_say_so() -> None:
    changed, steady = (parts_of(lists_of(days)) for days in ([(2, 5), (2, 2), (2, 2)], [(2, 2)] * 3))
    assert changed_effect([changed, changed], 100.0) is not None
    assert changed_effect([changed, steady], 100.0) is None


def test_users_who_change_their_arm_make_a_change_less_certain() -> None:
    parts = parts_of(lists_of([(2, 5), (2, 2), (2, 2)]))
    alone, together_with = (dict(evidence_by_midnight(parts, 100.0, moved))[FIRST + DAY][0] for moved in (0.0, 20.0))
    assert alone > together_with > 0


def test_many_days_are_shown_as_blocks_of_days() -> None:
    arms = Estimate(0.3, 1e-4, 0), Estimate(0.3, 1e-4, 0)
    days = [RunPart(DAY * day, DAY * (day + 1), 10.0, (20, 20), *arms, (20.0, 20.0)) for day in range(1, 100)]
    blocks = blocks_of(days)
    assert len(blocks) <= DAYS_MAX
    assert [(blocks[0].first, blocks[0].end), (blocks[1].first, blocks[1].end)] == [(DAY, 4 * DAY), (4 * DAY, 8 * DAY)]
    assert sum(block.weight for block in blocks) == 990.0
    assert blocks_of(days[:DAYS_MAX]) == tuple(days[:DAYS_MAX])


def test_a_warning_is_about_a_treatment_with_a_verdict() -> None:
    raw = lists_of([(2, 5), (2, 2), (2, 2)])
    raw += [raw_list._replace(user=f"c{raw_list.user}", variant="c") for raw_list in raw if raw_list.variant == "a"]
    kept = replace(stored_of(raw), first_list_users=dict.fromkeys("abc", 900))
    policy = Policy(control="b", holdout="c", paging=MEASURES.names[:1])
    for shares, variants in ((None, ["a"]), ({"a": 9.0, "b": 1.0}, [])):
        report = build_report(MEASURES, replace(policy, shares=shares), kept, choose_scales(MEASURES, policy, kept, {}))
        assert [warning.variant for warning in report.warnings if warning.key == "effect changed"] == variants
        (measure,) = next(variant for variant in report.variants if variant.variant == "a").measures
        assert len(measure.days) == 3
