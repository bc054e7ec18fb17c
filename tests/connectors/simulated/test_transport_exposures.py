"""Simulated exposures say what labels would say, and change nothing else."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammetrics.connectors.simulated import Ramp, SimulatedRecord, Traffic, Variant, generate
from streammetrics.connectors.simulated.people import EXPOSURE_LEAD_MS, LEFT_SHARE
from streammetrics.connectors.simulated.transport import DEFECTS
from streammetrics.events import EventLimits, MalformedEvent, native_decoder
from tests.support.simulated_traffic import START_MS, assert_share, is_good
from tests.support.tables import for_each

MINUTES_MS = 1_200_000
TRAFFIC = Traffic(users=400, seed=6, impressions_per_second=3.0, exposures=True)
THIRDS = (Variant("a", 0.3), Variant("b", 0.3), Variant("c", 0.2))


def contents(traffic: Traffic, span_ms: int = MINUTES_MS) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in generate(traffic, until_ms=START_MS + span_ms)]


def of_type(events: list[dict[str, Any]], *types: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] in types]


def by_user(events: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    events_by_user = defaultdict(list)
    for event in events:
        events_by_user[event["user_id"]].append(event)
    return events_by_user


def variant_by_the_rule(exposures: list[dict[str, Any]], ts: int) -> str | None:
    """The variant of the latest of a user's exposures at or before a time."""
    exposures_before = [(exposure["ts"], exposure["variant"]) for exposure in exposures if exposure["ts"] <= ts]
    return max(exposures_before)[1] if exposures_before else None


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"variants": THIRDS},
        {"interleaved": True},
        {"ramps": (Ramp(0.9, 600_000),)},
        {"variants": THIRDS, "ramps": (Ramp(0.1, 600_123),)},
        {"variants": ()},
    ],
)
def test_a_list_has_the_variant_of_its_label_by_the_rule_of_exposures(changes: dict[str, Any]) -> None:
    traffic = replace(TRAFFIC, **changes)
    exposures = by_user(of_type(contents(traffic), "exposure"))
    labelled = of_type(contents(replace(traffic, exposures=False)), "impression")
    for impression in labelled:
        assert variant_by_the_rule(exposures[impression["user_id"]], impression["ts"]) == impression.get("experiments", {}).get("ranker")
    assert len(labelled) > 2_000


@pytest.mark.parametrize("changes", [{}, {"duplicate_rate": 0.1, "late_rate": 0.1, "malformed_rate": 0.1, "feedback_without_id_rate": 0.2}])
def test_lists_lose_their_labels_and_nothing_else_changes(changes: dict[str, Any]) -> None:
    traffic = replace(TRAFFIC, ramps=(Ramp(0.9, 600_000),), **changes)

    def others(traffic: Traffic, *, labels: bool) -> list[tuple[bytes, int, object]]:
        """All records but exposures, in order of arrival, without labels. Of malformed ones, the bytes may have a label in them."""
        events = []
        for record in generate(traffic, until_ms=START_MS + MINUTES_MS):
            if record.topic != "exposures":
                event = json.loads(record.value) if is_good(record) else {}
                assert labels or "experiments" not in event
                events.append((record.key, record.ts, event | {"experiments": None}))
        return events

    assert others(traffic, labels=False) == others(replace(traffic, exposures=False), labels=True)


def test_each_visit_begins_with_an_exposure_and_each_move_of_a_ramp_with_another() -> None:
    traffic = replace(TRAFFIC, users=100_000, ramps=(Ramp(0.9, 600_000),))  # hardly any user comes twice
    exposures = of_type(contents(traffic), "exposure")
    lists: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for impression in of_type(contents(replace(traffic, exposures=False), MINUTES_MS), "impression"):
        lists[impression["impression_id"].split("-")[0]].append(impression)
    begun = 0
    for visit in lists.values():
        variants = [impression["experiments"]["ranker"] for impression in sorted(visit, key=lambda impression: impression["ts"])]
        begun += 1 + sum(before != after for before, after in pairwise(variants))
    mine = [exposure for exposure in exposures if int(exposure["user_id"][1:]) < traffic.users]
    assert begun > len(lists) + 5, "the ramp moves users within a visit"
    assert begun <= len(mine) <= begun + 5, "those whose list is after the end"


def test_some_users_are_exposed_and_never_see_a_list() -> None:
    records = contents(replace(TRAFFIC, impressions_per_second=8.0, lists_per_visit=1.0))
    seen = {event["user_id"] for event in of_type(records, "impression")}
    exposed = [event["user_id"] for event in of_type(records, "exposure")]
    left = [user for user in exposed if user not in seen]
    assert len(set(left)) == len(left) > 100
    assert_share(len(left), len(exposed) - len(left), LEFT_SHARE)
    assert seen <= set(exposed)


def test_exposures_are_shortly_before_their_lists_and_often_arrive_after_them() -> None:
    records = contents(replace(TRAFFIC, lists_per_visit=1.0))
    place = {(event["user_id"], event["ts"]): at for at, event in enumerate(records) if event["type"] == "impression"}
    impressions = by_user(of_type(records, "impression"))
    leads, behind = [], 0
    for at, event in enumerate(records):
        after = [impression["ts"] for impression in impressions[event["user_id"]] if impression["ts"] >= event["ts"]]
        if event["type"] == "exposure" and after:
            leads.append(min(after) - event["ts"])
            behind += at > place[event["user_id"], min(after)]
    assert 0 <= min(leads) < 50
    assert EXPOSURE_LEAD_MS - 50 < max(leads) <= EXPOSURE_LEAD_MS
    assert behind > len(leads) / 20


@pytest.mark.parametrize("after_ms", [0, 1, 600_000])
def test_no_exposure_is_before_the_start(after_ms: int) -> None:
    records = contents(replace(TRAFFIC, ramps=(Ramp(0.9, after_ms),)))
    assert min(event["ts"] for event in records) == START_MS


@given(seed=st.integers(0, 50), until_ms=st.integers(0, 400_000), disorder_ms=st.integers(0, 20_000))
@settings(max_examples=20, deadline=None)
def test_bounds_hold_for_exposures_too(seed: int, until_ms: int, disorder_ms: int) -> None:
    traffic = replace(TRAFFIC, seed=seed, catalogue=50, disorder_ms=disorder_ms, late_rate=0.0)
    longer = list(generate(traffic, until_ms=START_MS + 400_000))
    assert list(generate(traffic, until_ms=START_MS + until_ms)) == [record for record in longer if record.ts < START_MS + until_ms]
    assert list(generate(traffic, len(longer) // 2, START_MS + 400_000)) == longer[: len(longer) // 2]
    newest = START_MS
    for record in longer:
        newest = max(newest, record.ts)
        assert newest - record.ts <= disorder_ms


def test_exposures_are_late_doubled_and_malformed_at_the_rates_of_all_events() -> None:
    def exposures(traffic: Traffic) -> list[SimulatedRecord]:
        return [record for record in generate(traffic, until_ms=START_MS + MINUTES_MS) if record.topic == "exposures"]

    traffic = replace(TRAFFIC, impressions_per_second=8.0)
    clean = exposures(traffic)
    assert_share(len(exposures(replace(traffic, duplicate_rate=0.1))) - len(clean), len(clean), 0.1)
    assert_share(len(exposures(replace(traffic, malformed_rate=0.1))) - len(clean), len(clean), 0.1)
    late = [record.ts for record in exposures(replace(traffic, late_rate=0.1, late_ms=80_000))]
    assert_share(sum(newest - ts > 60_000 for newest, ts in zip(accumulate(late, max), late, strict=True)), len(late), 0.1)


@for_each(DEFECTS)
def test_each_defect_leaves_no_exposure(defect: object) -> None:
    value = next(record.value for record in generate(TRAFFIC) if record.topic == "exposures")
    assert callable(defect)
    (refused,) = native_decoder(EventLimits(exposures=True))(defect(value))
    assert isinstance(refused, MalformedEvent)


def test_exposures_go_to_their_topic() -> None:
    topics = {record.topic for record in generate(replace(TRAFFIC, exposures_topic="flags"), 1_000)}
    assert topics == {"impressions", "feedback", "flags"}
