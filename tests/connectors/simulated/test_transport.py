"""Traffic is reproducible to the byte, arrives in bounds, and its faults come at their rates."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice, product

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammetrics.connectors.simulated import SimulatedRecord, Traffic, generate
from streammetrics.connectors.simulated.transport import DEFECTS
from streammetrics.errors import MalformedEvent
from streammetrics.events import TS_MAX, Feedback, Impression
from tests.support.simulated_traffic import (
    HOUR_MS,
    SAMPLE_MS,
    START_MS,
    assert_share,
    decode,
    events,
    is_good,
    sample,
)
from tests.support.tables import for_each

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
    # What out_of_orderness_ms and lateness_ms allow by default, for one input with other traffic after its end.
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


@for_each(product(["impressions", "feedback"], DEFECTS))
def test_each_defect_leaves_no_event(case: tuple[str, object]) -> None:
    kind, defect = case
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
    assert {len(item) for item_ids in items for item in item_ids} == {35}
    mean = sum(len(record.value) for record in records) / len(records)
    step = sum(map(len, items)) / len(records)
    assert abs(mean - 353) < step / 2
