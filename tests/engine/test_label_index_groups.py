"""The limit on groups folds segment groups and never costs a list: all traffic stays exact."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.enrolment.rules import ExperimentRules
from streammetrics.events.model import Feedback, Impression
from streammetrics.windows.panes import OTHER
from tests.oracle import Arrival, Group, Settings
from tests.oracle.groups import limited_groups
from tests.support.machine import Machine, counts_of, engine_of

SETTINGS = Settings(inputs=("events",), gap_ms=7, lateness_ms=0, attribution_ms=5, pane_ms=1_000, windows_ms=(1_000,), segments=("page",))
labels = st.tuples(
    st.sampled_from([(), (("e", "a"),), (("e", "b"),), (("e", "a"), ("f", "c"))]),
    st.sampled_from([(), *((("page", value),) for value in ("home", "cart", "search", OTHER))]),
)


def arrivals(labels_of_lists: list[tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]]) -> list[Arrival]:
    events = [Impression(f"r{ts}", f"u{ts % 3}", ts, ("i",), *labels) for ts, labels in enumerate(labels_of_lists)]
    return [Arrival("events", event) for event in events]


@given(st.data(), st.lists(labels, max_size=14), st.integers(1, 9))
def test_lists_are_in_the_groups_that_the_oracle_says(
    data: st.DataObject, labels_of_lists: list[tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]], groups_max: int
) -> None:
    machine = Machine(engine_of(SETTINGS, groups_max=groups_max), SETTINGS)
    machine.feed_all(arrivals(labels_of_lists), data)
    machine.finish(flush=True)
    expected = Counter(group for groups in limited_groups(labels_of_lists, SETTINGS.segments, groups_max) for group in groups)
    assert {group: tally[0] for (_, group), tally in machine.tallies().items()} == expected
    assert expected[Group()] == len(labels_of_lists)


@given(st.data(), st.lists(labels, max_size=14), st.integers(1, 9))
def test_segment_values_add_up_to_their_variant_at_any_limit(
    data: st.DataObject, labels_of_lists: list[tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]], groups_max: int
) -> None:
    experiments = ExperimentRules(variants_max=2)
    machine = Machine(engine_of(SETTINGS, groups_max=groups_max, experiments=experiments), SETTINGS)
    machine.feed_all(arrivals(labels_of_lists), data)
    machine.finish(flush=True)
    lists: Counter[tuple[str, str]] = Counter()
    by_value: Counter[tuple[str, str]] = Counter()
    for (_, group), tally in machine.tallies().items():
        (by_value if group.segments else lists)[group.experiment, group.variant] += tally[0]
    assert by_value == lists
    assert lists["", ""] == len(labels_of_lists)


def test_feedback_of_a_folded_list_counts_after_its_group_has_room_again() -> None:
    settings = replace(SETTINGS, attribution_ms=40, gap_ms=40)
    machine = Machine(engine_of(settings, groups_max=2, retention_ms=5), settings)
    events = [
        Impression("a", "u", 0, ("i",), segments=(("page", "home"),)),
        Impression("b", "v", 1, ("i",), segments=(("page", "cart"),)),
        Impression("c", "w", 20, ("i",), segments=(("page", "search"),)),  # home is forgotten
        Feedback("v", 21, "i", "click", None, "b"),
    ]
    for event in events:
        machine.feed([Arrival("events", event)])
        machine.commit()
        machine.open()
    machine.finish(flush=True)
    lists_by_segments = {group.segments: tuple(tally[:2]) for (_, group), tally in machine.tallies().items() if group.segments}
    assert lists_by_segments == {(("page", "home"),): (1, 0), (("page", OTHER),): (1, 1), (("page", "search"),): (1, 0)}
    assert counts_of(machine)["too_many_groups", "events"] == 1


def test_many_values_of_a_segment_leave_all_traffic_exact() -> None:
    labels_of_lists = [((), (("page", f"text {number}"),)) for number in range(300)]
    machine = Machine(engine_of(SETTINGS, groups_max=100), SETTINGS)
    machine.feed(arrivals(labels_of_lists))
    machine.finish(flush=True)
    lists = {group.segments: tally[0] for (_, group), tally in machine.tallies().items()}
    assert (lists[()], lists[("page", OTHER),], len(lists)) == (300, 201, 101)
    assert counts_of(machine)["too_many_groups", "events"] == 201
