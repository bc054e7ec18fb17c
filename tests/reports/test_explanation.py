"""Explanations of planted differences: where they are, that they add up, and what is said when nothing stands out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from streammetrics.experiments import ExperimentReport, MeasureReport
from streammetrics.experiments.experiment_report import VariantReport
from streammetrics.experiments.health import Health
from streammetrics.experiments.verdict import Verdict
from streammetrics.metrics import Scorer, TallyLayout
from streammetrics.reports.experiment_lists import RecentLists, measure_columns
from streammetrics.reports.explanation import LISTS_MIN, VALUES_MAX, explanations
from streammetrics.reports.explanation_values import Explanation, RankContribution, summary_of
from streammetrics.reports.report import Report
from streammetrics.windows.pane_trail import TrailSpan
from streammetrics.windows.panes import Group
from tests.support.committed_state import HOUR_MS, MINUTE_MS, START_MS, two_variants
from tests.support.tallies import tally_of

LAYOUT = TallyLayout(Scorer(["ndcg@10", "item_hit_rate@1", "item_hit_rate@3", "item_hit_rate@10"]))
DECIDING = ("ndcg@10", "item_hit_rate@10")
Chances = Callable[[str, str, int, int], float]
"""The chance of a hit by variant, surface, rank (from 0) and minute."""


def recent_lists(
    chances: Chances, lists_per_minute: int = 60, surfaces: tuple[str, ...] = ("cart", "home", "search"), seed: int = 1
) -> RecentLists:
    """An hour of lists of two variants, with hits at random."""
    random = np.random.default_rng(seed)
    tallies: dict[Group, list[int]] = {}
    spans = []
    places = {name: columns for name in DECIDING if (columns := measure_columns(LAYOUT, name)) is not None}
    for minute in range(60):
        sums = {}
        for variant in ("control", "treatment"):
            whole = LAYOUT.zero()
            for surface in surfaces:
                count = random.poisson(lists_per_minute / len(surfaces))
                hit = np.array([chances(variant, surface, rank, minute) for rank in range(10)])
                grades = (random.random((count, 10)) < hit).astype(float)
                numbers = tally_of(LAYOUT, grades.tolist())
                whole = [one + other for one, other in zip(whole, numbers, strict=True)]
                group = Group("ranker", variant, "surface", surface)
                tallies[group] = [one + other for one, other in zip(tallies.get(group, LAYOUT.zero()), numbers, strict=True)]
            group = Group("ranker", variant)
            tallies[group] = [one + other for one, other in zip(tallies.get(group, LAYOUT.zero()), whole, strict=True)]
            sums["ranker", variant] = [LAYOUT.lists(whole), *(whole[at] for place in places.values() for at in (place.top, place.bottom))]
        spans.append(TrailSpan(START_MS + minute * MINUTE_MS, START_MS + (minute + 1) * MINUTE_MS, sums))
    return RecentLists(START_MS, START_MS + HOUR_MS, tallies, {"ranker": places}, tuple(spans))


def explained(recent: RecentLists) -> tuple[Explanation, ...]:
    """Explain these lists."""
    return explanations(report_of(recent), LAYOUT)


def report_of(recent: RecentLists) -> Report:
    """A report of these lists, with the errors of users who have one list each."""
    variants = []
    for variant in ("control", "treatment"):
        tally = recent.tallies[Group("ranker", variant)]
        lists = LAYOUT.lists(tally)
        measures = []
        for name in DECIDING:
            mean = LAYOUT.means(tally, "zero")[name]
            error = math.sqrt(mean * (1 - mean) / (lists * (10 if name == "item_hit_rate@10" else 1)))
            verdict = Verdict("regressed", "") if variant == "treatment" else None
            metric, _, k = name.partition("@")
            measures.append(MeasureReport(metric, int(k), mean, error, paging=True, verdict=verdict))
        role = "control" if variant == "control" else "treatment"
        counts = lists, lists, lists
        variants.append(VariantReport(variant, role, *counts, tuple(measures), effective_users=lists, verdict=measures[0].verdict))
    health = Health(None, None, ())
    experiment = ExperimentReport("ranker", "start", "control", 0.05, 0.01, 100, health, Verdict("regressed", ""), tuple(variants))
    return replace(two_variants().report(), recent=recent, experiments=(experiment,))


def planted(variant: str, surface: str, rank: int, minute: int) -> float:
    """The treatment loses hits on home, at ranks 1 to 3, from minute 40 on."""
    falls = variant == "treatment" and surface == "home" and rank < 3 and minute >= 40
    return 0.25 / (rank + 1) * (0.1 if falls else 1.0)


def test_a_planted_drop_is_found_by_segment_rank_and_time() -> None:
    ndcg, hits = explained(recent_lists(planted, lists_per_minute=120))
    assert [(explanation.metric, explanation.k, explanation.ranks_of) for explanation in (ndcg, hits)] == [
        ("ndcg", 10, "item_hit_rate"),
        ("item_hit_rate", 10, "item_hit_rate"),
    ]
    for explanation in (ndcg, hits):
        (surface,) = explanation.segments
        assert surface.stands_out
        assert surface.values[0].value == "home"
        assert surface.values[0].contribution / explanation.difference > 0.7
        assert explanation.onset is not None
        assert explanation.onset.first_ms <= START_MS + 40 * MINUTE_MS <= explanation.onset.last_ms
        assert explanation.onset.before == pytest.approx(0.0, abs=abs(explanation.onset.after) / 2)
        assert re.fullmatch(
            r".* of the drop is on surface=home, which has .* of the lists \(-.* % there, .* elsewhere\)", explanation.summary[0]
        )
        assert explanation.summary[1].startswith(("ranks 1 to 3 have", "rank 1 has"))
        assert explanation.summary[1].endswith("of the drop in item_hit_rate@10")
        assert explanation.summary[2].startswith("the difference changed at about 2024-11-21 10:4")
        sudden = replace(explanation, onset=replace(explanation.onset, at_ms=START_MS, first_ms=START_MS, last_ms=START_MS + 1))
        assert [*summary_of(sudden)][2] == "the difference changed at about 2024-11-21 10:00 UTC"
    assert hits.ranks[0].contribution + hits.ranks[1].contribution == pytest.approx(hits.difference, rel=0.35)


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ((-0.08, -0.01, -0.01), "rank 1 has 80 % of the drop in dcg@10"),
        ((-0.12, 0.01, 0.01), "rank 1 has 120 % of the drop in dcg@10: the other ranks rose"),
        ((0.12, -0.01, -0.01), "rank 1 has 120 % of the rise in dcg@10: the other ranks fell"),
        ((-0.04, -0.02, -0.04), None),
    ],
)
def test_shares_of_ranks_can_be_read_aloud(parts: tuple[float, ...], sentence: str | None) -> None:
    ranks = tuple(RankContribution(first, last, part) for (first, last), part in zip(((1, 1), (2, 5), (6, 10)), parts, strict=True))
    explanation = replace(explained(recent_lists(planted))[0], difference=sum(parts), ranks=ranks, ranks_of="dcg", segments=(), onset=None)
    assert [*summary_of(explanation)] == ([] if sentence is None else [sentence])


def test_contributions_add_up_to_the_difference_and_the_difference_is_that_of_the_lists() -> None:
    recent = recent_lists(planted, surfaces=tuple(f"s{at:02}" for at in range(20)), lists_per_minute=40)
    means = [LAYOUT.means(recent.tallies[Group("ranker", variant)], "zero") for variant in ("treatment", "control")]
    for explanation in explained(recent):
        name = f"{explanation.metric}@{explanation.k}"
        assert explanation.difference == pytest.approx(means[0][name] - means[1][name], abs=1e-15)
        for part in explanation.segments:
            assert (len(part.values), part.others) == (VALUES_MAX, 20 - VALUES_MAX)
            assert math.fsum([*(one.contribution for one in part.values), part.others_contribution]) == pytest.approx(
                explanation.difference, abs=1e-15
            )
            assert all(one.contribution == pytest.approx(one.within + one.mix, abs=1e-17) for one in part.values)
            assert [abs(one.contribution) for one in part.values] == sorted((abs(one.contribution) for one in part.values), reverse=True)
    assert math.fsum(one.contribution for one in explained(recent)[1].ranks) == pytest.approx(explained(recent)[1].difference, abs=1e-15)


def test_without_a_difference_nothing_stands_out_and_no_time_is_told() -> None:
    stands_out, told = 0, 0
    for seed in range(20):
        for explanation in explained(recent_lists(lambda variant, surface, rank, minute: 0.2 / (rank + 1), lists_per_minute=30, seed=seed)):
            stands_out += explanation.segments[0].stands_out
            told += explanation.onset is not None
            if not explanation.segments[0].stands_out:
                assert not any("surface" in sentence for sentence in explanation.summary)
    assert stands_out <= 5
    assert told <= 4


def test_an_even_drop_from_the_start_has_no_segment_and_no_time() -> None:
    (ndcg, _) = explained(recent_lists(lambda variant, surface, rank, minute: (0.1 if variant == "treatment" else 0.2) / (rank + 1)))
    assert ndcg.difference < 0
    assert ndcg.onset is None
    assert ndcg.summary == ()


@pytest.mark.parametrize(
    ("to", "sentence"),
    [
        ("cart", r"lists moved between values of surface: (.*, )?cart has 4.* % of the lists of treatment and 3.* % of control.*"),
        ("video", r"only treatment has surface=video, in 1.* % of its lists.*"),
        ("", r"1.* % of the lists of treatment have no surface, 0 % of control.*"),
    ],
)
def test_lists_that_moved_a_new_value_and_a_lost_label_are_named(to: str, sentence: str) -> None:
    """A third of the treatment's lists on search are somewhere else. All lists are alike."""
    recent = recent_lists(lambda variant, surface, rank, minute: 0.2 / (rank + 1))
    search, tallies = Group("ranker", "treatment", "surface", "search"), dict(recent.tallies)
    third = [number // 3 for number in tallies[search]]
    target = Group("ranker", "treatment", "surface", to)
    tallies[search] = [whole - part for whole, part in zip(tallies[search], third, strict=True)]
    tallies[target] = [whole + part for whole, part in zip(tallies.get(target, LAYOUT.zero()), third, strict=True)]
    for explanation in explained(replace(recent, tallies=tallies)):
        if explanation.difference:
            assert any(re.fullmatch(sentence, told) for told in explanation.summary), explanation.summary
            assert {one.value for one in explanation.segments[0].values if one.is_named} == {to, "search"}


def test_a_rise_against_the_drop_is_told() -> None:
    def chances(variant: str, surface: str, rank: int, minute: int) -> float:
        factor = {"home": 0.4, "search": 1.3}.get(surface, 1.0) if variant == "treatment" else 1.0
        return 0.25 / (rank + 1) * factor

    for explanation in explained(recent_lists(chances, lists_per_minute=300)):
        assert any(" of the drop is on surface=home, " in told for told in explanation.summary)
        assert any(
            re.fullmatch(r"surface=search goes the other way \(\+.* % there, -.* % elsewhere\)", told) for told in explanation.summary
        )


def test_a_value_with_few_lists_has_no_interval_and_does_not_lead() -> None:
    recent = recent_lists(planted)
    few = {
        Group("ranker", variant, "surface", "rare"): tally_of(LAYOUT, [[hit] * 10] * (LISTS_MIN - 1))
        for variant, hit in (("control", 1.0), ("treatment", 0.0))
    }
    (ndcg, _) = explained(replace(recent, tallies={**recent.tallies, **few}))
    rare = next(value for value in ndcg.segments[0].values if value.value == "rare")
    assert (rare.lift_lower, rare.lift_upper) == (None, None)
    assert ndcg.segments[0].values[0].value == "home"


def test_a_committed_report_has_exact_sums_of_its_variants() -> None:
    report = two_variants().report()
    assert report.recent is not None
    lists = {group: tally[0] for group, tally in report.recent.tallies.items()}
    assert lists[Group("ranker", "treatment", "surface", "search")] == 1
    assert (lists[Group("ranker", "control")], lists[Group("ranker", "treatment")]) == (2, 2)
    assert all(group.experiment for group in lists)
    assert [sums[0] for span in report.recent.spans for sums in span.sums.values()] == [2, 2]
    assert list(report.recent.measures["ranker"]) == list(DECIDING)


def test_without_recent_lists_there_is_no_explanation() -> None:
    report = two_variants().report()
    assert explanations(replace(report, recent=None), LAYOUT) == ()
    assert explanations(report, LAYOUT) == ()  # too few users for a variance
