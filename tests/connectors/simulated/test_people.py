"""Simulated people follow their distributions, and each parameter changes only what it names."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest

from streammetrics.connectors.simulated import Ramp, Regression, Segment, SimulatedRecord, Traffic, Variant, generate, variant_of
from streammetrics.connectors.simulated.people import Catalogue
from streammetrics.errors import ConfigError
from streammetrics.events import Feedback, Impression
from tests.support.simulated_traffic import (
    FEEDBACK_MS_MAX,
    HOUR_MS,
    SAMPLE_MS,
    START_MS,
    assert_share,
    click_ndcg,
    events,
    mean_and_error,
    ndcg_by_list,
    sample,
    watched_lists,
    with_quality,
)


def test_feedback_follows_its_list_and_names_an_item_that_it_shows() -> None:
    written_events = events(sample(Traffic(disorder_ms=0)))
    lists = {event.impression_id: event for event in written_events if isinstance(event, Impression)}
    feedback = [event for event in written_events if isinstance(event, Feedback)]
    assert len(feedback) > 3_000
    for event in feedback:
        impression = lists[str(event.impression_id)]
        assert impression.user_id == event.user_id
        assert event.item_id in impression.items
        assert 0 < event.ts - impression.ts <= FEEDBACK_MS_MAX
        assert event.action in {"click", "watch", "purchase", "skip"}
        assert (event.value is not None) == (event.action == "watch")


def test_every_list_has_its_own_id_and_shows_distinct_items() -> None:
    lists = [event for event in events(sample(Traffic(items_per_list=7))) if isinstance(event, Impression)]
    assert len({impression.impression_id for impression in lists}) == len(lists)
    assert all(len(set(impression.items)) == len(impression.items) == 7 for impression in lists)


def test_a_list_may_show_the_whole_catalogue() -> None:
    lists = [event for event in events(generate(Traffic(items_per_list=5, catalogue=5), 200)) if isinstance(event, Impression)]
    assert {tuple(sorted(impression.items)) for impression in lists} == {("i00000", "i00001", "i00002", "i00003", "i00004")}


def test_visits_have_the_configured_number_of_lists_and_pauses() -> None:
    traffic = Traffic(lists_per_visit=4.0, list_gap_ms=45_000, impressions_per_second=2.0, items_per_list=1)
    visits = defaultdict(list)
    for event in events(generate(traffic, until_ms=START_MS + 2 * HOUR_MS)):
        if isinstance(event, Impression):
            visits[event.impression_id.partition("-")[0]].append(event)
    # Visits that began in the first hour are over: none lasts another hour at these settings.
    whole = [
        sorted(visit, key=lambda impression: impression.ts)
        for visit in visits.values()
        if min(impression.ts for impression in visit) < START_MS + HOUR_MS
    ]
    assert all(len({impression.user_id for impression in visit}) == 1 for visit in whole)
    lists = sum(map(len, whole))
    # Geometric from 1 with mean 4: variance 4 * 3.
    assert abs(lists / len(whole) - 4) <= 4 * math.sqrt(12 / len(whole))
    pauses = [later.ts - earlier.ts for visit in whole for earlier, later in pairwise(visit)]
    # Exponential: the standard deviation is the mean.
    assert abs(sum(pauses) / len(pauses) - 45_000) <= 4 * 45_000 / math.sqrt(len(pauses))


def test_impressions_reach_the_configured_rate_after_the_first_visits() -> None:
    traffic = Traffic(impressions_per_second=2.0, items_per_list=1)
    begin_ms, end_ms = START_MS + HOUR_MS // 2, START_MS + 2 * HOUR_MS
    count = sum(record.topic == "impressions" and record.ts >= begin_ms for record in generate(traffic, until_ms=end_ms))
    # Poisson visits of geometric length L: the variance is visits * E[L^2], which is 16 + 12.
    expected = 2.0 * (end_ms - begin_ms) / 1000
    assert abs(count - expected) <= 4 * math.sqrt(expected / 4 * 28)


def test_a_user_returns_for_another_visit() -> None:
    """40 users at a visit every 200 s: each comes every 8,000 s on average, far beyond any pause within a visit."""
    traffic = Traffic(users=40, impressions_per_second=0.02, items_per_list=1)
    begun: dict[str, list[int]] = defaultdict(list)
    for event in events(generate(traffic, events_max=11_000)):
        if isinstance(event, Impression) and event.impression_id.endswith("-0"):
            begun[event.user_id].append(event.ts)
    assert len(begun) == 40
    away = [later - earlier for times in map(sorted, begun.values()) for earlier, later in pairwise(times)]
    assert abs(sum(away) / len(away) - 8_000_000) <= 4 * 8_000_000 / math.sqrt(len(away))


def test_segment_values_are_equally_likely() -> None:
    traffic = Traffic(segments=(Segment("surface", ("home", "search")), Segment("country", ("de", "fr", "it", "se"))))
    lists = [dict(event.segments) for event in events(sample(traffic)) if isinstance(event, Impression)]
    assert_share(sum(segments["surface"] == "home" for segments in lists), len(lists), 0.5)
    for country in ("de", "fr", "it", "se"):
        assert_share(sum(segments["country"] == country for segments in lists), len(lists), 0.25)


def test_without_segments_and_variants_lists_carry_none() -> None:
    lists = [event for event in events(sample(Traffic(segments=(), variants=()))) if isinstance(event, Impression)]
    assert {(impression.segments, impression.experiments) for impression in lists} == {((), ())}


def test_a_user_always_sees_the_same_variant() -> None:
    traffic = Traffic(users=500, variants=(Variant("a", 0.2), Variant("b", 0.3), Variant("c", 0.4)))
    seen = defaultdict(set)
    for event in events(sample(traffic)):
        if isinstance(event, Impression):
            seen[event.user_id].add(event.experiments)
    assert len(seen) > 400
    for user_id, experiments in seen.items():
        variant = variant_of(traffic, user_id)
        assert experiments == {(("ranker", variant.name),) if variant else ()}


def test_users_fall_into_variants_by_their_shares_and_the_rest_into_none() -> None:
    traffic = Traffic(variants=(Variant("a", 0.2), Variant("b", 0.3), Variant("c", 0.4)))
    counts = Counter(variant and variant.name for variant in (variant_of(traffic, f"u{number}") for number in range(20_000)))
    for name, share in (("a", 0.2), ("b", 0.3), ("c", 0.4), (None, 0.1)):
        assert_share(counts[name], 20_000, share)


def test_another_experiment_or_seed_assigns_other_variants() -> None:
    users = [f"u{number}" for number in range(2_000)]
    first = Traffic()
    for other in (replace(first, seed=1), replace(first, experiment="reranker")):
        assert_share(sum(variant_of(first, user) == variant_of(other, user) for user in users), len(users), 0.5)


def test_quality_changes_the_order_of_lists_only() -> None:
    def asked_for(quality: float) -> set[tuple[str, str, int, frozenset[str]]]:
        lists = [event for event in events(sample(with_quality(quality))) if isinstance(event, Impression)]
        return {(impression.impression_id, impression.user_id, impression.ts, frozenset(impression.items)) for impression in lists}

    assert asked_for(0.5) == asked_for(1.5)


def test_click_ndcg_grows_with_quality() -> None:
    """Over the same lists of twenty minutes, neighbouring qualities are five standard errors apart."""
    scores_of_qualities = [
        ndcg_by_list(with_quality(q), minutes) for q, minutes in ((0.3, 20), (0.7, 20), (0.85, 60), (1.0, 60), (1.5, 20))
    ]
    means = [sum(values[name] for name in scores_of_qualities[0]) for values in scores_of_qualities]
    assert means == sorted(set(means))


def test_a_quality_of_85_percent_lowers_click_ndcg_significantly() -> None:
    """The lists differ only in their order, so they are compared in pairs."""
    usual, worse = ndcg_by_list(with_quality(1.0)), ndcg_by_list(with_quality(0.85))
    drop, error = mean_and_error([usual[name] - worse[name] for name in usual])
    assert drop > 5 * error
    assert drop > 0.1 * sum(usual.values()) / len(usual)


def test_a_variant_of_better_quality_is_better_than_control_in_the_same_traffic() -> None:
    traffic = Traffic(variants=(Variant("control", 0.5, 0.7), Variant("treatment", 0.5, 1.0)))
    values: dict[str, list[float]] = defaultdict(list)
    for impression, clicked in watched_lists(traffic).values():
        values[impression.experiments[0][1]].append(click_ndcg(clicked))
    (control, control_error), (treatment, treatment_error) = mean_and_error(values["control"]), mean_and_error(values["treatment"])
    assert treatment - control > 3 * math.hypot(control_error, treatment_error)


def test_the_quality_of_one_variant_does_not_change_users_of_others() -> None:
    def of_control(quality: float) -> list[SimulatedRecord]:
        traffic = Traffic(variants=(Variant("control", 0.5), Variant("treatment", 0.5, quality)))
        return sorted(record for record in sample(traffic) if variant_of(traffic, record.key.decode()) == traffic.variants[0])

    assert len(of_control(1.0)) > 2_500
    assert of_control(1.0) == of_control(0.5)


def test_a_regression_begins_at_its_time_to_the_millisecond() -> None:
    healthy = Traffic()
    turns_ms = START_MS + SAMPLE_MS // 2
    sick = replace(healthy, regression=Regression("treatment", 0.7, after_ms=SAMPLE_MS // 2))
    before, after = sample(healthy), sample(sick)
    assert [record for record in before if record.ts < turns_ms] == [record for record in after if record.ts < turns_ms]
    changed = {event.impression_id: event for event in set(events(after)) - set(events(before)) if isinstance(event, Impression)}
    treated = [event for event in events(after) if isinstance(event, Impression) and event.experiments == (("ranker", "treatment"),)]
    assert {impression.experiments for impression in changed.values()} == {(("ranker", "treatment"),)}
    # Nearly each list of twelve is ordered otherwise under other noise.
    assert len(changed) > 0.99 * sum(impression.ts >= turns_ms for impression in treated)


def test_a_ramp_moves_users_from_the_first_variant_to_the_second_at_its_time() -> None:
    variants = (Variant("control", 0.8), Variant("treatment", 0.1), Variant("other", 0.05))
    traffic = Traffic(users=20_000, seed=5, variants=variants, ramps=(Ramp(0.5, after_ms=60_000),))
    users = [f"u{number}" for number in range(20_000)]
    before, after = ([variant_of(traffic, user, traffic.start_ms + at) for user in users] for at in (59_999, 60_000))
    assert [variant_of(traffic, user) for user in users] == before
    for labels, shares in ((before, (0.8, 0.1, 0.05)), (after, (0.4, 0.5, 0.05))):
        counts = Counter(label.name for label in labels if label is not None)
        for variant, share in zip(variants, shares, strict=True):
            assert_share(counts[variant.name], len(users), share)
    moved = {(one and one.name, other and other.name) for one, other in zip(before, after, strict=True) if one != other}
    assert moved == {("control", "treatment")}


def test_several_ramps_follow_each_other() -> None:
    ramps = (Ramp(0.05, after_ms=60_000), Ramp(0.5, after_ms=120_000))
    traffic = Traffic(users=20_000, seed=5, variants=(Variant("control", 0.99), Variant("treatment", 0.01)), ramps=ramps)
    for at, share in ((0, 0.01), (60_000, 0.05), (120_000, 0.5)):
        labels = [variant_of(traffic, f"u{number}", traffic.start_ms + at) for number in range(20_000)]
        assert_share(sum(label is not None and label.name == "treatment" for label in labels), 20_000, share)
    with pytest.raises(ConfigError, match="each after the one before it"):
        replace(traffic, ramps=ramps[::-1])


def test_each_list_has_the_variant_of_its_time() -> None:
    traffic = Traffic(
        users=200, seed=5, variants=(Variant("control", 0.9), Variant("treatment", 0.1)), ramps=(Ramp(0.5, after_ms=300_000),)
    )
    events = [json.loads(record.value) for record in generate(traffic, until_ms=traffic.start_ms + 600_000)]
    lists = [impression for impression in events if impression["type"] == "impression"]
    assert lists
    for impression in lists:
        expected = variant_of(traffic, impression["user_id"], impression["ts"])
        assert impression["experiments"] == ({} if expected is None else {"ranker": expected.name})


def test_a_regression_from_the_start_is_a_variant_of_lower_quality() -> None:
    regression = Regression("treatment", 0.5, after_ms=0)
    sick = Traffic(variants=(Variant("control", 0.5), Variant("treatment", 0.5, 1.2)), regression=regression)
    worse = Traffic(variants=(Variant("control", 0.5), Variant("treatment", 0.5, 0.6)))
    assert list(generate(sick, 5_000)) == list(generate(worse, 5_000))


def test_interleaved_lists_are_drafted_by_both_rankers_pair_by_pair_and_by_chance() -> None:
    impressions = [event for event in events(sample(Traffic(interleaved=True, items_per_list=7))) if isinstance(event, Impression)]
    assert {impression.experiments for impression in impressions} == {(("ranker", "interleaved"),)}
    for impression in impressions:
        pairs = [impression.teams[at : at + 2] for at in range(0, 6, 2)]
        assert all(set(pair) == {"control", "treatment"} for pair in pairs)
        assert len(set(impression.items)) == len(impression.items) == len(impression.teams) == 7
    for place in range(7):
        share = sum(impression.teams[place] == "control" for impression in impressions) / len(impressions)
        assert abs(share - 0.5) < 4 * 0.5 / math.sqrt(len(impressions))


def test_a_regression_lowers_click_ndcg_of_its_variant_only() -> None:
    traffic = Traffic(regression=Regression("treatment", 0.7, after_ms=HOUR_MS // 2))
    values: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for impression, clicked in watched_lists(traffic).values():
        values[impression.experiments[0][1], impression.ts >= START_MS + HOUR_MS // 2].append(click_ndcg(clicked))
    means = {name: mean_and_error(scores) for name, scores in values.items()}
    for variant, has_dropped in (("control", False), ("treatment", True)):
        (before, error_before), (after, error_after) = means[variant, False], means[variant, True]
        assert (before - after > 3 * math.hypot(error_before, error_after)) == has_dropped


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_clicks_on_random_lists_follow_the_examination_curve(power: float) -> None:
    """If order does not depend on appeal, P(click at rank r) is r ** -power times the mean appeal of the catalogue."""
    traffic = Traffic(variants=(Variant("blind", 1.0, 0.01),), examination_power=power, items_per_list=8)
    mean_appeal = sum(Catalogue(traffic).appeal[: traffic.catalogue]) / traffic.catalogue
    lists = [clicked for _, clicked in watched_lists(traffic, minutes=30).values()]
    for rank, clicked in enumerate(zip(*lists, strict=True), start=1):
        assert_share(sum(clicked), len(lists), rank**-power * mean_appeal)


def test_clicks_decay_with_rank_for_a_good_ranker() -> None:
    clicks = [sum(clicked) for clicked in zip(*(clicked for _, clicked in watched_lists(Traffic()).values()), strict=True)]
    assert clicks[:8] == sorted(clicks[:8], reverse=True)
    assert sum(clicks[8:]) < clicks[1]
