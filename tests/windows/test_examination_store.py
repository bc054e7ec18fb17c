"""The counts for the examination curve against brute force: equal for any order of arrival, batches and crashes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.connectors.memory import MemoryStore
from streammetrics.enrolment.rules import ExperimentRules
from streammetrics.errors import StateError
from streammetrics.events.event_time import NEVER
from streammetrics.events.model import Impression
from streammetrics.sessions.state import ShownList
from streammetrics.sessions.store import FinalEvents
from streammetrics.state.codec import VERSION
from streammetrics.state.msgpack import pack
from streammetrics.windows.examination import EXAMINATION, NO_LIMIT, ExaminationRules, ExaminationStore, decode_counts, encode_sample
from tests.oracle import Arrival, Tick, expected_result
from tests.oracle.examination import Counted, count_period
from tests.support.brute_force import grades_text
from tests.support.enrolments import DAY_MS, SETTINGS, clicked, clock, shown, take
from tests.support.machine import Machine, engine_of
from tests.support.strategies import Case, cases, interleavings

EXAMINED = st.builds(
    ExaminationRules,
    context=st.sampled_from([(), ("surface",), ("surface", "none")]),
    ranks=st.sampled_from([1, 2, 10]),
    items_max=st.sampled_from([1, 2, 3, 1_000]),
    period_ms=st.sampled_from([8, 1 << 40]),
)
PATIENT = st.builds(ExperimentRules, idle_ms=st.just(1 << 50), patience_ms=st.sampled_from((0, 4, 12)))


def machine_for(case: Case, experiments: ExperimentRules, rules: ExaminationRules) -> Machine:
    return Machine(engine_of(case.settings, grades_text(case), experiments=experiments, examination=rules), case.settings)


def found(machine: Machine, rules: ExaminationRules) -> dict[int, Counted]:
    """What the store holds, by period."""
    view = machine.store.view([0], {})[0]
    counted = {}
    for period, value in view.table(EXAMINATION).items():
        made_by, counts, variants = decode_counts(value)
        assert made_by == rules.describe()
        rows = zip(counts.items.tolist(), counts.ranks.tolist(), counts.shows.tolist(), counts.clicks.tolist(), strict=True)
        grades = {
            arm: (each.lists, {(place + 1, grade): count for (place, grade), count in each.by_place.items()})
            for arm, each in variants.items()
        }
        limit = None if counts.limit == NO_LIMIT else counts.limit
        counted[int(period)] = Counted({(item, rank): (n, c) for item, rank, n, c in rows}, limit, grades)  # type: ignore[arg-type]
    return counted


def expected(case: Case, rules: ExaminationRules) -> dict[int, Counted]:
    lists = [each for each in expected_result(case.steps, case.settings, flush=True).tasks[0].lists if each.experiments]
    periods = sorted({each.ts // rules.period_ms for each in lists})
    counted = {}
    for period in periods:
        own = [each for each in lists if each.ts // rules.period_ms == period]
        counted[period] = count_period(own, rules.context, rules.ranks, rules.items_max)
    return counted


def latest(counted: dict[int, Counted]) -> dict[int, Counted]:
    """The periods that a report may show: the last one with lists and the one before."""
    return {period: each for period, each in counted.items() if period >= max(counted) - 1}


@given(st.data(), cases(), PATIENT, EXAMINED)
def test_any_batches_commits_and_crashes_equal_brute_force(
    data: st.DataObject, case: Case, experiments: ExperimentRules, rules: ExaminationRules
) -> None:
    machine = machine_for(case, experiments, rules)
    machine.take_all(case.steps, data)
    machine.finish(flush=True)
    assert latest(found(machine, rules)) == latest(expected(case, rules))


@given(st.data(), cases(without=("ticks",)), PATIENT, EXAMINED)
def test_the_interleaving_of_inputs_does_not_matter(
    data: st.DataObject, case: Case, experiments: ExperimentRules, rules: ExaminationRules
) -> None:
    other = data.draw(interleavings(case))
    one, two = machine_for(case, experiments, rules), machine_for(other, experiments, rules)
    for machine, steps in ((one, case.steps), (two, other.steps)):
        machine.take(steps)
        machine.finish(flush=True)
    assert latest(found(one, rules)) == latest(found(two, rules))


DAILY = ExaminationRules(period_ms=DAY_MS)
ARM = (("ranker", "a"),)


def examined(rules: ExaminationRules | None, store: MemoryStore | None = None, experiments: bool = True) -> Machine:
    kept = ExperimentRules(idle_ms=1 << 50, patience_ms=0) if experiments else None
    return Machine(engine_of(SETTINGS, experiments=kept, examination=rules), SETTINGS, store)


def periods(machine: Machine) -> list[int]:
    return sorted(map(int, machine.store.view([0], {})[0].table(EXAMINATION)))


def test_lists_without_an_experiment_do_not_count() -> None:
    machine = examined(DAILY)
    take(machine, shown("u", 0), shown("v", 0, ARM), clicked("v", 10), clock(DAY_MS // 2))
    (counted,) = found(machine, DAILY).values()
    assert list(counted.items.values()) == [(1, 1)]
    assert counted.variants == {("ranker", "a"): (1, {(1, 1.0): 1})}


def test_a_list_counts_when_it_is_final_and_once() -> None:
    machine = examined(DAILY)
    machine.take([shown("u", 0, ARM)])
    machine.commit()
    assert periods(machine) == []
    take(machine, clock(10_000), clock(20_000))
    machine.open()
    take(machine, clock(30_000), clock(40_000))
    assert [list(each.items.values()) for each in found(machine, DAILY).values()] == [[(1, 0)]]


def test_periods_are_deleted_when_two_more_are_over() -> None:
    machine = examined(DAILY)
    for day in range(5):
        take(machine, shown(f"u{day}", day * DAY_MS + 7, ARM), clock(day * DAY_MS + DAY_MS // 2))
    assert periods(machine) == [2, 3, 4]


def test_the_end_of_the_input_deletes_no_period() -> None:
    machine = examined(DAILY)
    take(machine, shown("u", 7, ARM))
    machine.finish(flush=True)
    assert periods(machine) == [0]


def test_a_long_silence_deletes_no_period() -> None:
    machine = examined(DAILY)
    take(machine, shown("u", 7, ARM))
    machine.take([Tick(50 * DAY_MS)])
    machine.finish(flush=False)
    assert periods(machine) == [0]


def test_other_settings_start_the_counts_again() -> None:
    store = MemoryStore()
    take(examined(DAILY, store), shown("u", 0, ARM), clock(10_000))
    other = replace(DAILY, ranks=5)
    machine = examined(other, store)
    take(machine, clock(20_000))
    assert periods(machine) == []
    take(machine, shown("v", 30_000, ARM), clock(60_000))
    assert [len(each.items) for each in found(machine, other).values()] == [1]


@pytest.mark.parametrize("experiments", [True, False])
def test_what_is_switched_off_is_deleted(experiments: bool) -> None:
    store = MemoryStore()
    take(examined(DAILY, store), shown("u", 0, ARM), clock(10_000))
    machine = examined(None, store, experiments)
    take(machine, clock(20_000))
    assert periods(machine) == []


def test_a_task_that_did_not_count_begins_with_the_lists_that_become_final() -> None:
    store = MemoryStore()
    take(examined(None, store), shown("u", 0, ARM), clock(10_000), shown("v", 20_000, ARM))
    machine = examined(DAILY, store)
    take(machine, clock(40_000))
    assert [list(each.items.values()) for each in found(machine, DAILY).values()] == [[(1, 0)]]


@pytest.mark.parametrize("stored", [b"", b"[]", pack((VERSION, "", 1)), pack((VERSION, "", 1, 1, b"1", "<u1", b"", "<u1", b"", []))])
def test_counts_that_cannot_be_read_are_refused(stored: bytes) -> None:
    with pytest.raises(StateError, match=r"counts of the examination curve in the store cannot be read"):
        decode_counts(stored)


def test_counts_of_another_version_are_refused() -> None:
    with pytest.raises(StateError, match="counts of the examination curve in the store has version 3"):
        decode_counts(pack((3, "", 1, 0, b"", "<u1", b"", "<u1", b"", [])))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=20))
def test_a_sample_that_is_stored_and_restored_continues(lists: list[tuple[int, int]]) -> None:
    rules = ExaminationRules(items_max=2)
    whole = ExaminationStore(rules)
    cut = ExaminationStore(rules)
    for user, (first, second) in enumerate(lists):
        arrival = shown(f"u{user}", user, ARM, (f"i{first}", f"j{second}"))
        assert isinstance(arrival, Arrival)
        assert isinstance(arrival.event, Impression)
        for store in (whole, cut):
            store.on_final(FinalEvents({"u": [_final(arrival.event)]}, {}, []))
        cut, before = ExaminationStore(rules), cut
        cut.restore({str(period): encode_sample(sample, rules) for period, sample in before.samples.items()}, NEVER, is_new=False)
    assert {period: encode_sample(each, rules) for period, each in cut.samples.items()} == {
        period: encode_sample(each, rules) for period, each in whole.samples.items()
    }


def _final(impression: Impression) -> ShownList:
    return ShownList(impression.ts, impression.impression_id, impression.items, impression.experiments, impression.segments, 0)
