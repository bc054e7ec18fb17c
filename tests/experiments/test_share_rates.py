"""Arms with users of different times, in small: whole arms compared are wrong, and the check of shares over time leaves no such verdict."""

from __future__ import annotations

import numpy as np
import pytest

from tests.bench.aa_shares import (
    ARMS,
    CHANGED,
    CHANGING,
    OUTAGE,
    RAMP,
    STEADY,
    ShareRegime,
    draw_shares,
    judge_shares,
    share_rates,
    stored_at_looks,
)

EXPERIMENTS = 6


@pytest.mark.parametrize("regime", [RAMP, CHANGED, OUTAGE], ids=lambda regime: regime.name)
def test_shares_that_change_give_no_wrong_verdict(regime: ShareRegime) -> None:
    found = share_rates(regime, EXPERIMENTS, 5, lambda count: None)
    assert (sum(found.ever.values()), found.alarms) == (0, 1)
    assert found.unchecked > 0.9, "without the check, nearly all are wrong"


@pytest.mark.parametrize("regime", STEADY, ids=lambda regime: regime.name)
def test_constant_shares_raise_no_alarm(regime: ShareRegime) -> None:
    assert all(judge_shares(regime, np.random.default_rng(seed)).alarm is None for seed in range(EXPERIMENTS))


@pytest.mark.parametrize("regime", CHANGING[:5], ids=lambda regime: regime.name)
def test_every_user_arrives_once_and_every_list_counts(regime: ShareRegime) -> None:
    users, arms, times, clicks = draw_shares(regime, np.random.default_rng(3))
    *_, last = stored_at_looks(users, arms, times, clicks)
    of_users = np.bincount(arms[np.unique(users)], minlength=2).tolist()
    assert [last.arrivals.by_variant[name] for name in ARMS] == [last.first_exposures[name] for name in ARMS] == of_users
    assert [last.moments[name][1] for name in ARMS] == np.bincount(arms[users], minlength=2).tolist()
