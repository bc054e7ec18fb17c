"""A seed decides all faults; each form comes everywhere before any comes twice; one fault ends before the next begins."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product

import pytest

from tests.support.tables import for_each
from tests.tools.faults.schedule import BETWEEN, FORMS, ON_PROCESSES, Fault, Link, network_faults, process_faults

Schedule = Callable[[int, int], list[Fault]]


@pytest.mark.parametrize("faults", [network_faults, process_faults])
def test_a_seed_decides_all_faults(faults: Schedule) -> None:
    assert faults(3, 60) == faults(3, 60)
    assert faults(3, 60) != faults(4, 60)
    assert faults(3, 10) == faults(3, 60)[: len(faults(3, 10))], "a shorter run has the same faults"


@for_each(product([network_faults, process_faults], range(20)))
def test_faults_end_before_the_next_begins_and_before_the_run_ends(case: tuple[Schedule, int]) -> None:
    faults, seed = case
    schedule = faults(seed, 30)
    assert all(one.begin + one.seconds < other.begin for one, other in pairwise(schedule))
    assert schedule[-1].begin + schedule[-1].seconds <= 30 * 60


@for_each(range(20))
def test_every_form_comes_between_every_pair_of_groups(seed: int) -> None:
    rounds = network_faults(seed, 30)[: len(BETWEEN) * len(FORMS)]
    kinds = [(fault.form, fault.ways, fault.host.partition("-")[0], fault.others[0].partition("-")[0]) for fault in rounds]
    assert len(set(kinds)) == len(BETWEEN) * len(FORMS)
    assert all(fault.host not in fault.others for fault in rounds)


def test_every_fault_of_a_process_comes_once_in_ten_minutes() -> None:
    assert {fault.form for fault in process_faults(1, 10)} == set(ON_PROCESSES)


def test_a_one_way_fault_concerns_packets_of_one_direction() -> None:
    there = Fault(0, 9, "cut", "worker-1", "->", ("redis-1", "redis-2"))
    assert there.links == [Link("worker-1", "redis-1"), Link("worker-1", "redis-2")]
    assert there._replace(ways="<-").links == [Link("redis-1", "worker-1"), Link("redis-2", "worker-1")]
    assert sorted(there._replace(ways="<->").links) == sorted([*there.links, *there._replace(ways="<-").links])
