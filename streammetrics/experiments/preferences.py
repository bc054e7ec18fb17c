"""Which team of interleaved lists users prefer: the report of each pair of teams, by the deciding credit and by other actions. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from streammetrics.experiments.health import Health, control_setting
from streammetrics.experiments.policy import Policy, known_control
from streammetrics.experiments.stored import StoredSums
from streammetrics.experiments.verdict import _ALIKE, Verdict, invalid, waiting
from streammetrics.statistics.interleaving import Preference, credit_levels, preference, reversed_credit
from streammetrics.words.names import group_order, in_order
from streammetrics.words.numbers import confidence, percent
from streammetrics.words.sentences import join, named, say


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


def preferences_of(policy: Policy, state: Health, stored: StoredSums) -> tuple[tuple[PreferenceReport, ...], tuple[PreferenceReport, ...]]:
    """Return the reports of each team against the control. The first are by the deciding credit, the second by that of each other action.

    The verdicts of several teams share alpha, as those of arms do; each action has its own. If no team is the control, the credits are
    those against the first team by name, and there is no verdict: it might praise the old ranker.
    """
    credits = {pair: moments for pair, moments in stored.credits.items() if any(moments)}
    if not credits:
        return (), ()
    teams = in_order(team for pair in credits for team in pair)
    control = policy.control if policy.control in teams else known_control(teams)
    against = control or teams[0]
    unjudged = (
        invalid(state) if state.troubles else None if control else Verdict("inconclusive", _no_control(policy, stored.experiment, teams))
    )
    deciding, others = [], []
    count = sum(against in pair for pair in credits)
    for pair, moments in sorted(credits.items(), key=lambda credit: group_order(credit[0])):
        if against in pair:
            (team,) = {*pair} - {against}
            turned = moments if pair[0] == against else reversed_credit(moments)
            by_level = [
                _preference(policy, unjudged, (team, against), turned, (level, count), stored.credit_actions)
                for level in range(credit_levels(moments))
            ]
            deciding.append(by_level[0])
            others += by_level[1:]
    return tuple(deciding), tuple(others)


def _no_control(policy: Policy, experiment: str, teams: Sequence[str]) -> str:
    """Say that no team is the control, and the setting to add. Arms and teams of one experiment share it."""
    if policy.control is None:
        return f"no team is the control. Set {control_setting(policy, experiment, teams)}"
    return say(
        "no team is the control '{control}'. Teams seen: {teams}. Send one of them as '{control}', or correct the setting {setting}",
        control=named(policy.control),
        teams=join(map(named, teams), ", "),
        setting=control_setting(policy, experiment, teams),
    )


def _preference(
    policy: Policy,
    unjudged: Verdict | None,
    pair: tuple[str, str],
    moments: Sequence[int],
    level_and_teams: tuple[int, int],
    actions: Sequence[str],
) -> PreferenceReport:
    """Return the report of a team against another. `unjudged`: the verdict if the credits cannot be judged."""
    level, teams = level_and_teams
    preferred = preference(moments, policy.alpha, policy.min_users, policy.effective_users_min, level, teams)
    assert preferred is not None, "moments of credit without lists"
    return PreferenceReport(
        *pair,
        users=preferred.users,
        lists=preferred.lists,
        credit=preferred.mean,
        error=math.sqrt(preferred.variance) if preferred.variance < math.inf else None,
        credit_lower=preferred.lower,
        credit_upper=preferred.upper,
        alpha=policy.alpha,
        verdict=unjudged or judge_preference(policy, preferred, *pair),
        plain_credit=preferred.plain,
        first_share=preferred.first_share,
        action=actions[level] if level < len(actions) else "",
    )


def judge_preference(policy: Policy, preference: Preference, team: str, against: str) -> Verdict:
    """Return the verdict on a team of a sound interleaved experiment: improved if users certainly prefer it, regressed if the other.

    >>> estimate = Preference(900, 4_000, 810.0, 0.12, 1e-4, 0.08, 0.16, True, False)
    >>> judge_preference(Policy(), estimate, "new", "old").reason
    'new won 12 more lists in 100 than it lost against old; users prefer new; 95 % confidence, safe to check at any time'
    """
    if preference.users < policy.min_users:
        return waiting(policy, {say("{team} against {against}", team=named(team), against=named(against)): preference.users})
    won = say(
        "{team} won {lists:.3g} {more} lists in 100 than it lost against {against}",
        team=named(team),
        lists=100 * abs(preference.mean),
        more="fewer" if preference.mean < 0 else "more",
        against=named(against),
    )
    if preference.effective_users < policy.effective_users_min:
        few = f"{preference.users:,} users count as {preference.effective_users:.3g}, at least {policy.effective_users_min:g} are needed"
        return Verdict("inconclusive", say("{won} so far; a few users dominate: {few}", won=won, few=few))
    if preference.effective_orders < policy.effective_users_min:
        rarely, share = (against, 1 - preference.first_share) if preference.first_share > 0.5 else (team, preference.first_share)
        rarely_first = "{rarely} drafts first in only {share} of the lists" if share else "{rarely} never drafts first"
        few = say(rarely_first, rarely=named(rarely), share=percent(share))
        why = "draft bias cannot be removed: let a coin decide for each list"
        return Verdict("inconclusive", say("{won} so far; {few}, so {why}", won=won, few=few, why=why))
    if preference.preferred:
        return Verdict("improved", say("{won}; users prefer {team}; {sure}", won=won, team=named(team), sure=confidence(policy.alpha)))
    if preference.disliked:
        return Verdict(
            "regressed", say("{won}; users prefer {against}; {sure}", won=won, against=named(against), sure=confidence(policy.alpha))
        )
    return Verdict(
        "inconclusive",
        say(
            "{won} so far; {why}",
            won=won,
            why="users may prefer either" if preference.variance else _ALIKE,
        ),
    )
