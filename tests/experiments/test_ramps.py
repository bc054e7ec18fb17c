"""The harness of ramps: its sums equal the package's own over the users' totals, and no rule is ever wrong more often than allowed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.bench.aa_hard import BITS, MEASURES
from tests.bench.aa_ramps import ARMS, CROSS, RAMPS, SPAN_MS, SPLITS, Ramp, draw_ramp, judge_ramp, looks_of, rows_of_lists
from tests.experiments.stage_samples import StageArm, stored_cells

STICKY = next(ramp for ramp in RAMPS if ramp.sticky)


@pytest.mark.parametrize("ramp", [RAMPS[1], RAMPS[2], STICKY, SPLITS[0], SPLITS[5]], ids=str)
def test_the_sums_of_the_last_look_equal_those_of_the_users(ramp: Ramp) -> None:
    small = replace(ramp, users=150)
    users, cells, times, clicks = draw_ramp(small, np.random.default_rng(3))
    *_, last = looks_of(small, users, cells, times, clicks)
    shift = np.array([1, 1 << (40 - BITS), 1 << 40, 1, 1])
    totals: list[dict[StageArm, list[int]]] = [{} for _ in range(150)]
    order = np.argsort(times)
    for user, cell, row in zip(users[order].tolist(), cells[order].tolist(), rows_of_lists(clicks[order]), strict=True):
        start = cell // 2 * (SPAN_MS // len(small.shares))
        own = totals[user].setdefault((str(start) if start else "", ARMS[cell % 2]), [0] * 5)
        own[:] = [known + int(more) for known, more in zip(own, row * shift, strict=True)]
    expected = stored_cells(totals, unit="list" if small.by_list else "user", measures=MEASURES, layout=CROSS)
    assert (last.moments, last.pairs) == (expected.moments, expected.pairs)
    assert [(each.entry, each.key, each.moments) for each in last.stages] == [
        (each.entry, each.key, each.moments) for each in expected.stages
    ]


def test_a_worse_ranker_is_found_before_the_last_stage() -> None:
    found = [judge_ramp(RAMPS[2], np.random.default_rng(seed), lift=-0.3).found for seed in range(3)]
    assert all(at is not None and at <= 0.5 for at in found)


def test_no_effect_is_seldom_found() -> None:
    results = [judge_ramp(ramp, np.random.default_rng(seed)) for ramp in (RAMPS[0], SPLITS[0]) for seed in range(10)]
    assert sum(bool(each.wrong) for each in results) <= 3
    assert all(each.open_share > 0.2 for each in results)


def test_users_who_keep_their_arm_and_come_later_with_fewer_clicks_are_no_effect() -> None:
    """By the time of the list alone, the treatment has mostly later users in the second stage: nearly every experiment is `regressed`."""
    results = [judge_ramp(STICKY, np.random.default_rng(seed)) for seed in range(12)]
    assert sum(bool(each.wrong) for each in results) <= 2
    assert all("invalid" not in each.words and each.open_share > 0.2 for each in results)


def test_a_worse_ranker_is_found_among_users_who_keep_their_arm() -> None:
    found = [judge_ramp(replace(STICKY, users=12_000), np.random.default_rng(seed), lift=-0.2).found for seed in range(3)]
    assert None not in found
