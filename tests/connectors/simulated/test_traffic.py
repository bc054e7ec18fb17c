"""Simulated traffic is reproducible to the byte, follows its distributions, and each parameter changes only what it names."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice, pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammetrics.connectors.simulated import Regression, Segment, SimulatedRecord, Traffic, Variant, generate, variant_of
from streammetrics.connectors.simulated.people import ATTENTION_MS, WATCH_SECONDS_MAX, Catalogue
from streammetrics.connectors.simulated.transport import DEFECTS
from streammetrics.errors import ConfigError, MalformedEvent
from streammetrics.events import TS_MAX, EventLimits, Feedback, Impression, native_decoder

HOUR_MS = 3_600_000
SAMPLE_MS = 240_000
START_MS = Traffic().start_ms
FEEDBACK_MS_MAX = ATTENTION_MS + round(WATCH_SECONDS_MAX * 1_000) + 21_000
"""Longest time between a list and its feedback: examining it, the longest watch, the longest pause before a purchase."""

decode = native_decoder(EventLimits())


def events(sent: Iterable[SimulatedRecord]) -> list[Impression | Feedback]:
    """Decode records that must all be valid."""
    found = []
    for record in sent:
        (event,) = decode(record.value)
        assert not isinstance(event, MalformedEvent), event
        assert (event.user_id.encode(), event.ts) == (record.key, record.ts)
        found.append(event)
    return found


def is_good(record: SimulatedRecord) -> bool:
    return not isinstance(decode(record.value)[0], MalformedEvent)


@cache
def sample(traffic: Traffic) -> tuple[SimulatedRecord, ...]:
    """Return some minutes of traffic: more than 5,000 records at the default rate."""
    return tuple(generate(traffic, until_ms=traffic.start_ms + SAMPLE_MS))


def assert_share(count: int, of: int, chance: float) -> None:
    """Check that a binomial count is within four standard deviations. One seed in sixteen thousand fails by chance."""
    assert abs(count - of * chance) <= 4 * math.sqrt(of * chance * (1 - chance))


@cache
def watched_lists(traffic: Traffic, minutes: int = 60) -> dict[str, tuple[Impression, list[int]]]:
    """Return the lists of at most an hour, with 1 for each clicked rank and 0 for the others. Their feedback is complete."""
    end_ms = START_MS + 60_000 * minutes
    found = events(generate(replace(traffic, impressions_per_second=2.0), until_ms=end_ms + FEEDBACK_MS_MAX))
    lists = {event.impression_id: (event, [0] * len(event.items)) for event in found if isinstance(event, Impression)}
    for event in found:
        if isinstance(event, Feedback) and event.action == "click":
            shown, clicked = lists[str(event.impression_id)]
            clicked[shown.items.index(event.item_id)] = 1
    return {name: (shown, clicked) for name, (shown, clicked) in lists.items() if shown.ts < end_ms}


def click_ndcg(clicked: list[int]) -> float:
    """NDCG over all ranks with clicks as relevance; 0 without a click."""
    discounts = [1 / math.log2(rank + 1) for rank in range(1, len(clicked) + 1)]
    ideal = sum(discounts[: sum(clicked)])
    return sum(discount for discount, click in zip(discounts, clicked, strict=True) if click) / ideal if ideal else 0.0


def ndcg_by_list(traffic: Traffic, minutes: int = 60) -> dict[str, float]:
    return {name: click_ndcg(clicked) for name, (_, clicked) in watched_lists(traffic, minutes).items()}


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Return the mean and its standard error, as if all lists of a visit (four on average) were equal."""
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, math.sqrt(variance / (len(values) / 4))


def with_quality(quality: float) -> Traffic:
    return Traffic(variants=(Variant("only", 1.0, quality),))


# The same seed, the same bytes.

PRINT_DIGEST = """
import hashlib
from streammetrics.connectors.simulated import Traffic, generate
traffic = Traffic(seed=9, duplicate_rate=0.05, late_rate=0.05, malformed_rate=0.05, feedback_without_id_rate=0.1)
print(hashlib.sha256(repr(list(generate(traffic, events_max=3_000))).encode()).hexdigest())
"""


def test_the_same_seed_gives_the_same_bytes_in_every_process() -> None:
    traffic = Traffic(seed=9, duplicate_rate=0.05, late_rate=0.05, malformed_rate=0.05, feedback_without_id_rate=0.1)
    here = hashlib.sha256(repr(list(generate(traffic, events_max=3_000))).encode()).hexdigest()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        there = subprocess.run([sys.executable, "-c", PRINT_DIGEST], env=environment, capture_output=True, text=True, check=True)
        assert there.stdout.strip() == here


def test_traffic_does_not_change_between_versions() -> None:
    """A change here changes every seeded run on every machine, so it must be in the changelog."""
    values = b"\n".join(record.value for record in generate(Traffic(seed=1), events_max=5_000))
    assert hashlib.sha256(values).hexdigest() == "6356f7c5b73244c25352620cd117b99f239cd26cad5f6ea0483be8a75428b425"


def test_another_seed_gives_other_traffic() -> None:
    one, other = (Counter(generate(Traffic(seed=seed), events_max=1_000)) for seed in (1, 2))
    assert not one & other


def test_two_generators_side_by_side_do_not_disturb_each_other() -> None:
    alone = list(generate(Traffic(seed=4), events_max=500))
    pairs = list(zip(generate(Traffic(seed=4)), generate(Traffic(seed=5)), range(500), strict=False))
    assert [one for one, _, _ in pairs] == alone


# Bounds and order.


def test_traffic_is_endless_unless_bounded() -> None:
    assert len(list(islice(generate(Traffic(impressions_per_second=0.01)), 5_000))) == 5_000


@given(seed=st.integers(0, 50), events_max=st.integers(0, 300))
@settings(max_examples=20, deadline=None)
def test_a_number_of_records_is_a_prefix(seed: int, events_max: int) -> None:
    traffic = Traffic(seed=seed, catalogue=50)
    assert list(generate(traffic, events_max)) == list(islice(generate(traffic), events_max))


@given(seed=st.integers(0, 50), until_ms=st.integers(0, 400_000), late_rate=st.sampled_from([0.0, 0.2]))
@settings(max_examples=20, deadline=None)
def test_records_before_a_time_come_in_the_same_order_with_any_bound(seed: int, until_ms: int, late_rate: float) -> None:
    traffic = Traffic(seed=seed, catalogue=50, impressions_per_second=2.0, late_rate=late_rate, duplicate_rate=0.1, malformed_rate=0.1)
    longer = generate(traffic, until_ms=START_MS + 400_000)
    assert list(generate(traffic, until_ms=START_MS + until_ms)) == [record for record in longer if record.ts < START_MS + until_ms]


def test_no_event_is_later_than_the_largest_valid_time() -> None:
    records = list(generate(Traffic(start_ms=TS_MAX - 20_000)))
    assert len(events(records)) > 100
    assert max(record.ts for record in records) <= TS_MAX


def test_traffic_that_ends_before_it_begins_is_empty() -> None:
    assert list(generate(Traffic(), until_ms=START_MS)) == []


@given(seed=st.integers(0, 50), disorder_ms=st.integers(0, 20_000), duplicate_rate=st.sampled_from([0.0, 0.5]))
@settings(max_examples=20, deadline=None)
def test_no_record_is_further_behind_the_newest_than_the_disorder(seed: int, disorder_ms: int, duplicate_rate: float) -> None:
    newest = START_MS
    for record in generate(Traffic(seed=seed, catalogue=50, disorder_ms=disorder_ms, duplicate_rate=duplicate_rate), events_max=500):
        newest = max(newest, record.ts)
        assert newest - record.ts <= disorder_ms


def test_disorder_is_used_to_its_bound() -> None:
    records = sample(Traffic(disorder_ms=3_000))
    behind = [newest - record.ts for newest, record in zip(running_max(records), records, strict=True)]
    assert 2_900 < max(behind) <= 3_000


def running_max(records: Iterable[SimulatedRecord]) -> Iterator[int]:
    newest = 0
    for record in records:
        newest = max(newest, record.ts)
        yield newest


# People.


def test_feedback_follows_its_list_and_names_an_item_that_it_shows() -> None:
    found = events(sample(Traffic(disorder_ms=0)))
    lists = {event.impression_id: event for event in found if isinstance(event, Impression)}
    feedback = [event for event in found if isinstance(event, Feedback)]
    assert len(feedback) > 3_000
    for event in feedback:
        shown = lists[str(event.impression_id)]
        assert shown.user_id == event.user_id
        assert event.item_id in shown.items
        assert 0 < event.ts - shown.ts <= FEEDBACK_MS_MAX
        assert event.action in {"click", "watch", "purchase", "skip"}
        assert (event.value is not None) == (event.action == "watch")


def test_every_list_has_its_own_id_and_shows_distinct_items() -> None:
    lists = [event for event in events(sample(Traffic(items_per_list=7))) if isinstance(event, Impression)]
    assert len({shown.impression_id for shown in lists}) == len(lists)
    assert all(len(set(shown.items)) == len(shown.items) == 7 for shown in lists)


def test_a_list_may_show_the_whole_catalogue() -> None:
    lists = [event for event in events(generate(Traffic(items_per_list=5, catalogue=5), 200)) if isinstance(event, Impression)]
    assert {tuple(sorted(shown.items)) for shown in lists} == {("i00000", "i00001", "i00002", "i00003", "i00004")}


def test_visits_have_the_configured_number_of_lists_and_pauses() -> None:
    traffic = Traffic(lists_per_visit=4.0, list_gap_ms=45_000, impressions_per_second=2.0, items_per_list=1)
    visits = defaultdict(list)
    for event in events(generate(traffic, until_ms=START_MS + 2 * HOUR_MS)):
        if isinstance(event, Impression):
            visits[event.impression_id.partition("-")[0]].append(event)
    # Visits that began in the first hour are over: none lasts another hour at these settings.
    whole = [
        sorted(visit, key=lambda shown: shown.ts) for visit in visits.values() if min(shown.ts for shown in visit) < START_MS + HOUR_MS
    ]
    assert all(len({shown.user_id for shown in visit}) == 1 for visit in whole)
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
    assert {(shown.segments, shown.experiments) for shown in lists} == {((), ())}


# The experiment.


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
        return {(shown.impression_id, shown.user_id, shown.ts, frozenset(shown.items)) for shown in lists}

    assert asked_for(0.5) == asked_for(1.5)


def test_click_ndcg_grows_with_quality() -> None:
    """Over the same lists of twenty minutes, neighbouring qualities are five standard errors apart."""
    found = [ndcg_by_list(with_quality(q), minutes) for q, minutes in ((0.3, 20), (0.7, 20), (0.85, 60), (1.0, 60), (1.5, 20))]
    means = [sum(values[name] for name in found[0]) for values in found]
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
    for shown, clicked in watched_lists(traffic).values():
        values[shown.experiments[0][1]].append(click_ndcg(clicked))
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
    assert {shown.experiments for shown in changed.values()} == {(("ranker", "treatment"),)}
    # Nearly each list of twelve is ordered otherwise under other noise.
    assert len(changed) > 0.99 * sum(shown.ts >= turns_ms for shown in treated)


def test_a_regression_from_the_start_is_a_variant_of_lower_quality() -> None:
    regression = Regression("treatment", 0.5, after_ms=0)
    sick = Traffic(variants=(Variant("control", 0.5), Variant("treatment", 0.5, 1.2)), regression=regression)
    worse = Traffic(variants=(Variant("control", 0.5), Variant("treatment", 0.5, 0.6)))
    assert list(generate(sick, 5_000)) == list(generate(worse, 5_000))


def test_interleaved_lists_are_drafted_by_both_rankers_pair_by_pair_and_by_chance() -> None:
    shown = [event for event in events(sample(Traffic(interleaved=True, items_per_list=7))) if isinstance(event, Impression)]
    assert {each.experiments for each in shown} == {(("ranker", "interleaved"),)}
    for each in shown:
        pairs = [each.teams[at : at + 2] for at in range(0, 6, 2)]
        assert all(set(pair) == {"control", "treatment"} for pair in pairs)
        assert len(set(each.items)) == len(each.items) == len(each.teams) == 7
    for place in range(7):
        share = sum(each.teams[place] == "control" for each in shown) / len(shown)
        assert abs(share - 0.5) < 4 * 0.5 / math.sqrt(len(shown))


def test_interleaving_needs_two_rankers() -> None:
    with pytest.raises(ConfigError, match="interleaved = with the variants only: two variants"):
        replace(with_quality(1.0), interleaved=True)


def test_a_regression_lowers_click_ndcg_of_its_variant_only() -> None:
    traffic = Traffic(regression=Regression("treatment", 0.7, after_ms=HOUR_MS // 2))
    values: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for shown, clicked in watched_lists(traffic).values():
        values[shown.experiments[0][1], shown.ts >= START_MS + HOUR_MS // 2].append(click_ndcg(clicked))
    means = {name: mean_and_error(found) for name, found in values.items()}
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


# Transport: each fault adds what it names to the same good events.

FAULTY = [0.0, 0.01, 0.2, 1.0]


@pytest.mark.parametrize("rate", FAULTY)
def test_duplicates_are_exact_copies_at_the_configured_rate(rate: float) -> None:
    clean, doubled = Counter(sample(Traffic())), Counter(sample(Traffic(duplicate_rate=rate)))
    assert max(clean.values()) == 1
    assert clean.keys() == doubled.keys()
    assert set(doubled.values()) <= {1, 2}
    assert_share((doubled - clean).total(), clean.total(), rate)


def test_a_duplicate_comes_after_its_original_and_not_always_next_to_it() -> None:
    records = list(generate(Traffic(duplicate_rate=0.5), 2_000))
    places = defaultdict(list)
    for place, record in enumerate(records):
        places[record].append(place)
    apart = [second - first for first, second in (pair for pair in places.values() if len(pair) == 2)]
    assert max(apart) > 20


@pytest.mark.parametrize("rate", FAULTY)
def test_late_records_come_after_the_allowed_lateness_at_the_configured_rate(rate: float) -> None:
    traffic = Traffic(late_rate=rate, late_ms=80_000)
    clean, late = sample(Traffic()), sample(traffic)
    assert sorted(clean) == sorted(late)
    # What out_of_orderness_ms and lateness_ms allow by default, judged as one input whose end other traffic follows.
    allowed_ms = 65_000
    ends_ms = START_MS + SAMPLE_MS - traffic.late_ms
    judged = [(record, newest - record.ts > allowed_ms) for newest, record in zip(running_max(late), late, strict=True)]
    refused = [is_late for record, is_late in judged if record.ts < ends_ms]
    if rate < 1:
        assert_share(sum(refused), len(refused), rate)
    else:
        # When all come equally late, nothing is late beside the rest.
        assert not any(refused)


@pytest.mark.parametrize("rate", FAULTY)
def test_malformed_records_come_in_addition_to_valid_ones_at_the_configured_rate(rate: float) -> None:
    clean, broken = sample(Traffic()), sample(Traffic(malformed_rate=rate))
    good = [record for record in broken if is_good(record)]
    assert good == list(clean)
    assert_share(len(broken) - len(good), len(clean), rate)
    assert all(record.key for record in broken)


def test_malformed_records_have_every_defect() -> None:
    broken = [record for record in sample(Traffic(malformed_rate=0.2)) if not is_good(record)]
    reasons = {decode(record.value)[0].reason for record in broken}  # type: ignore[union-attr]
    assert reasons >= {"empty", "bad_json", "bad_type", "missing_field", "bad_id", "bad_ts"}


@pytest.mark.parametrize("kind", ["impressions", "feedback"])
@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_leaves_no_event(defect: object, kind: str) -> None:
    value = next(record.value for record in generate(Traffic()) if record.topic == kind)
    assert callable(defect)
    (refused,) = decode(defect(value))
    assert isinstance(refused, MalformedEvent)


@pytest.mark.parametrize("rate", FAULTY)
def test_feedback_without_id_differs_in_nothing_else(rate: float) -> None:
    with_id, without = events(sample(Traffic())), events(sample(Traffic(feedback_without_id_rate=rate)))
    stripped = 0
    for full, sent in zip(with_id, without, strict=True):
        if full != sent:
            assert sent == msgspec.structs.replace(full, impression_id=None)
            stripped += 1
    reactions = {(event.impression_id, event.item_id) for event in with_id if isinstance(event, Feedback)}
    lost = {
        (full.impression_id, full.item_id)
        for full, sent in zip(with_id, without, strict=True)
        if full != sent and isinstance(full, Feedback)
    }
    # The tracker of a page forgets the id of an item's reactions together: they are one draw.
    assert_share(len(lost), len(reactions), rate)
    assert stripped >= len(lost)


def test_faults_do_not_disturb_one_another() -> None:
    quiet = Traffic(duplicate_rate=0.1)
    noisy = replace(quiet, late_rate=0.1, malformed_rate=0.1, feedback_without_id_rate=0.1)

    def doubled(traffic: Traffic) -> set[tuple[bytes, int]]:
        return {(record.key, record.ts) for record, count in Counter(filter(is_good, sample(traffic))).items() if count == 2}

    assert doubled(quiet) == doubled(noisy)


def test_records_go_to_their_topics() -> None:
    traffic = Traffic(impressions_topic="shown", feedback_topic="reactions")
    for record in generate(traffic, 1_000):
        assert record.topic == ("shown" if isinstance(decode(record.value)[0], Impression) else "reactions")


def test_item_ids_of_35_characters_give_records_of_about_353_bytes() -> None:
    records = list(generate(Traffic(item_id_chars=35, impressions_per_second=2.0), until_ms=START_MS + HOUR_MS))
    items = [event.items if isinstance(event, Impression) else (event.item_id,) for event in events(records)]
    assert {len(item) for shown in items for item in shown} == {35}
    mean = sum(len(record.value) for record in records) / len(records)
    step = sum(map(len, items)) / len(records)
    assert abs(mean - 353) < step / 2


# What is refused.


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("users", 0),
        ("users", True),
        ("seed", -1),
        ("start_ms", TS_MAX + 1),
        ("impressions_per_second", 0.0),
        ("impressions_per_second", math.nan),
        ("impressions_per_second", math.inf),
        ("lists_per_visit", 0.5),
        ("list_gap_ms", -1),
        ("items_per_list", 0),
        ("items_per_list", 1_001),
        ("catalogue", 0),
        ("item_id_chars", 1),
        ("examination_power", -1.0),
        ("disorder_ms", -1),
        ("disorder_ms", 2.5),
        ("late_ms", -1),
        ("late_rate", 1.1),
        ("duplicate_rate", -0.1),
        ("malformed_rate", math.nan),
        ("feedback_without_id_rate", 2),
        ("experiment", ""),
        ("experiment", "\ud800"),
        ("impressions_topic", "no spaces"),
        ("feedback_topic", ""),
    ],
)
def test_a_value_out_of_range_is_rejected_by_name(key: str, value: object) -> None:
    with pytest.raises(ConfigError) as refused:
        Traffic(**{key: value})  # type: ignore[arg-type]
    assert [(problem.key, problem.value) for problem in refused.value.problems] == [(key, repr(value))]


@pytest.mark.parametrize(
    ("traffic", "key"),
    [
        ({"variants": (Variant("a", 0.6), Variant("b", 0.6))}, "variants"),
        ({"variants": (Variant("a", 0.5), Variant("a", 0.5))}, "variants"),
        ({"variants": (Variant("", 0.5),)}, "variants"),
        ({"variants": (Variant("a", 1.5),)}, "variants.a.share"),
        ({"variants": (Variant("a", 0.5, 0.0),)}, "variants.a.quality"),
        ({"variants": (Variant("a", 0.5, math.nan),)}, "variants.a.quality"),
        ({"regression": Regression("nobody")}, "regression.variant"),
        ({"regression": Regression("control", factor=0.0)}, "regression.factor"),
        ({"regression": Regression("control", after_ms=-1)}, "regression.after_ms"),
        ({"segments": (Segment("surface", ()),)}, "segments.surface"),
        ({"segments": (Segment("surface", ("home", "home")),)}, "segments.surface"),
        ({"segments": (Segment("a", ("x",)), Segment("a", ("y",)))}, "segments"),
        ({"segments": tuple(Segment(f"s{number}", ("x",)) for number in range(33))}, "segments"),
        ({"catalogue": 5}, "items_per_list"),
        ({"catalogue": 100_001}, "item_id_chars"),
    ],
)
def test_an_impossible_combination_is_rejected_by_name(traffic: dict[str, object], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Traffic(**traffic)  # type: ignore[arg-type]
    assert [problem.key for problem in refused.value.problems] == [key]


def test_shares_that_add_up_to_one_by_rounding_are_accepted() -> None:
    variants = tuple(Variant(f"v{number}", 0.1) for number in range(10))
    assert Traffic(variants=variants).variants == variants


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        Traffic(users=0, late_rate=2.0, impressions_topic="", variants=(Variant("a", 2.0),), regression=Regression("b", -1.0))
    keys = {problem.key for problem in refused.value.problems}
    assert keys == {"users", "late_rate", "impressions_topic", "variants.a.share", "regression.variant", "regression.factor"}
