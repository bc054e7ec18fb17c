"""Which team of interleaved lists users prefer: the report of each pair of teams, by the deciding credit and by other actions. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from streammetrics.experiments.health import Health
from streammetrics.experiments.interleaving import credit_levels, preference, reversed_credit
from streammetrics.experiments.name_order import group_order
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.stored import Stored
from streammetrics.experiments.verdict import Verdict, invalid, judge_preference


@dataclass(frozen=True, slots=True)
class PreferenceReport:
    """A team of an interleaved experiment against another: the share of lists won less that of lists lost, above 0 if users prefer it.

    The bounds have error alpha over all looks together. `users` and `lists` are those with items of both teams.
    credit: corrected for draft bias. plain_credit: without correction. first_share: the share of lists in which the team drafted first.
    action: the action from which on an item counts, such as "click"; empty if it is not known.
    """

    team: str
    against: str
    users: int
    lists: int
    credit: float
    error: float | None
    credit_lower: float | None
    credit_upper: float | None
    alpha: float
    verdict: Verdict
    plain_credit: float = 0.0
    first_share: float = 0.5
    action: str = ""


class PreferenceRow(NamedTuple):
    """One series of a preference: its name after `streammetrics_interleaving_`, its labels, its value."""

    series: str
    experiment: str
    team: str
    against: str
    scope: str
    value: float


def preferences_of(policy: Policy, state: Health, stored: Stored) -> tuple[tuple[PreferenceReport, ...], tuple[PreferenceReport, ...]]:
    """Return the reports of each team against the control, or against the first team by name if no team is the control.

    The first are by the deciding credit, the second by that of each other action. Each has the whole alpha.
    """
    found = {pair: moments for pair, moments in stored.credits.items() if any(moments)}
    teams = sorted({team for pair in found for team in pair})
    named = policy.control if policy.control in teams else replace(policy, control=None, shares=None).control_of(teams)
    against = named or next(iter(teams), "")
    deciding, others = [], []
    for pair, moments in sorted(found.items(), key=lambda each: group_order(each[0])):
        if against in pair:
            (team,) = {*pair} - {against}
            turned = moments if pair[0] == against else reversed_credit(moments)
            deciding.append(_preference(policy, state, (team, against), turned, 0, stored.credit_actions))
            for level in range(1, credit_levels(moments)):
                others.append(_preference(policy, state, (team, against), turned, level, stored.credit_actions))
    return tuple(deciding), tuple(others)


def _preference(
    policy: Policy, state: Health, teams: tuple[str, str], moments: Sequence[int], level: int, actions: Sequence[str]
) -> PreferenceReport:
    found = preference(moments, policy.alpha, policy.min_users, policy.effective_users_min, level=level)
    assert found is not None, "moments of credit without lists"
    return PreferenceReport(
        *teams,
        users=found.users,
        lists=found.lists,
        credit=found.mean,
        error=math.sqrt(found.variance) if found.variance < math.inf else None,
        credit_lower=found.lower,
        credit_upper=found.upper,
        alpha=policy.alpha,
        verdict=invalid(state) if state.troubles else judge_preference(policy, found, *teams),
        plain_credit=found.plain,
        first_share=found.first_share,
        action=actions[level] if level < len(actions) else "",
    )
