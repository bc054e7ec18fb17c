"""The bench of users until a verdict: the plan against simulated paths, and the boundaries that it compares."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tools.bench.power import CASES, boundary_rows, gbstats_boundary, planned_users


def test_a_verdict_takes_as_many_users_as_documented() -> None:
    rows = {
        row[:4]: (float(row[4].replace(",", "")), float(row[5].replace(",", "")))
        for row in planned_users(150, 18, [CASES[1], *CASES[3:5], CASES[8]])
    }
    half, most = rows["regressed", "10%", "0%", "-10%"]
    assert 1_200 < half < 2_000
    assert 2_200 < most < 3_800
    assert rows["regressed", "5%", "0%", "-5%"][1] < rows["regressed", "10%", "0%", "-5%"][1]
    assert 8_000 < rows["safe", "10%", "5%", "0%"][1] < 16_000


def test_the_boundary_of_gbstats_is_lowest_near_the_users_that_it_is_tuned_to() -> None:
    users = np.array([500.0, 5_000.0, 50_000.0])
    low, tuned, high = gbstats_boundary(users, 0.1).tolist()
    assert tuned < low
    assert tuned < high
    assert tuned == pytest.approx(2.78, abs=0.05)


def test_ours_needs_fewer_users_than_gbstats_for_ten_percent_and_more_for_five() -> None:
    rows = [*boundary_rows(200, 5)]
    ours, gbstats = rows[0], rows[-1]
    most = {
        name: [float(cell.split(" / ")[1].replace(",", "")) for cell in row[2:]] for name, row in (("ours", ours), ("gbstats", gbstats))
    }
    assert most["ours"][2] < most["gbstats"][2]
    assert most["ours"][1] > most["gbstats"][1]
