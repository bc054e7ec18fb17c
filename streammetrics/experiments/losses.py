"""Losses by arm: users whom one arm loses more often than the other. Stored counts in; a sentence out. Pure.

**Losses by arm** are users whom one arm loses more often than the other, before anything is measured. A loss that differs by arm bends
every comparison, and the lists that are left do not show it. Three counts of users do:

    without a list      exposed users without a list in the experiment, of all exposed users
    without a match     users whose reactions match no list, of the users with a reaction
    moved               users who went from the treatment to the control, against as many the other way

**Two shares.** With k_t of n_t users lost in the treatment and k_c of n_c in the control, and KT(a, b) = Gamma(a + 1/2) Gamma(b + 1/2) /
(pi Gamma(a + b + 1)), the mean likelihood of a losses and b others over all chances (Krichevsky, Trofimov 1981),

    E = KT(k_t, n_t - k_t) KT(k_c, n_c - k_c) / max over p of p**(k_t + k_c) (1 - p)**(the others)

**Reactions.** Users who react less often have a reaction without a list less often, too. Let f be the reactions to lists per reacting user
in the treatment over those in the control. If the users with f times the reactions lose each with the same chance, their share is between
f times the other share and that share: it is concave in the number of reactions, and 0 at 0. So a share in between is no loss, and else
the greatest likelihood is that of shares in the ratio f, or in the ratio 1 if that is nearer. A worse ranker gets fewer reactions in the
treatment, and a lost list takes reactions from its own arm, so neither hides a loss.

**Moves.** A user with two devices, or whose arm is drawn again, goes either way with the same chance, at any split. So of m_tc moves from
the treatment to the control and m_ct the other way each is a coin: E = KT(m_tc, m_ct) 2**(m_tc + m_ct). More moves to the control are a
loss: the treatment fails for some users, and the control answers. More moves to the treatment are a rollout: the next users by their hash
get the new ranker, whatever they did before.

Without a difference the chance that E ever reaches 100 is at most 1 % (Ville's inequality; universal inference, Wasserman, Ramdas,
Balakrishnan 2020). A loss counts only if the shares also differ by two points, so that millions of users find no trifle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from streammetrics.experiments.experiment_state import SilentHours
from streammetrics.experiments.hours import Hours
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.stored import NO_REACTIONS, StoredSums
from streammetrics.statistics.measures import USERS_AT
from streammetrics.words.sentences import Words, advice, join, named, say
from streammetrics.words.times import HOUR_MS

LOSS_EVIDENCE_MIN: Final = math.log(100)
"""ln E at which a loss is certain: an error of 1 % for each of the three counts, at all looks together."""
LOSS_SHARES_APART_MIN: Final = 0.02
"""The least difference of two shares that counts: two points."""


class LossCount(NamedTuple):
    """Users of one arm: how many are lost, of how many."""

    lost: int
    users: int

    @property
    def share(self) -> float:
        return self.lost / self.users if self.users else 0.0


def log_evidence_of_shares(one: LossCount, other: LossCount, ratio: float = 1.0) -> float:
    """Return ln E that the chance of a loss in the first arm is not `ratio` times that in the other.

    >>> [round(log_evidence_of_shares(LossCount(lost, 3_000), LossCount(0, 3_000)), 1) for lost in (0, 5, 1_000)]
    [-9.2, -5.3, 785.0]
    """
    lost, kept, other_kept = one.lost + other.lost, one.users - one.lost, other.users - other.lost
    # The chance of the other arm at the greatest likelihood is the smaller root of a p**2 - b p + lost.
    a, b = ratio * (one.users + other.users), lost * (1 + ratio) + kept * ratio + other_kept
    chance = 2 * lost / (b + math.sqrt(max(0.0, b * b - 4 * a * lost)))
    terms = (one.lost, ratio * chance), (kept, 1 - ratio * chance), (other.lost, chance), (other_kept, 1 - chance)
    greatest = math.fsum(count * math.log(share) for count, share in terms if count)
    return math.fsum(_log_mean_likelihood(arm.lost, arm.users - arm.lost) for arm in (one, other)) - greatest


def log_evidence_of_moves(there: int, back: int) -> float:
    """Return ln E that users move more often in one direction than in the other.

    >>> [round(log_evidence_of_moves(*moves), 1) for moves in ((7, 0), (10, 0), (90, 90), (270, 0))]
    [3.3, 5.2, -2.8, 183.8]
    """
    return _log_mean_likelihood(there, back) + (there + back) * math.log(2)


def _log_mean_likelihood(one: int, other: int) -> float:
    return math.lgamma(one + 0.5) + math.lgamma(other + 0.5) - math.log(math.pi) - math.lgamma(one + other + 1)


def differ(one: LossCount, other: LossCount, frequency: float = 1.0) -> bool:
    """Whether one arm certainly loses more users than the other, by two points or more.

    frequency: how often users of the first arm could be lost, for once in the other. See "Reactions" above.

    >>> differ(LossCount(60, 120), LossCount(0, 1_080)), differ(LossCount(1_300, 100_000), LossCount(500, 100_000))
    (True, False)
    >>> [differ(LossCount(2_800, 10_000), LossCount(3_800, 10_000), frequency) for frequency in (1.0, 0.9, 0.7)]
    [True, True, False]
    """
    if not one.users or not other.users:
        return False
    least, most = sorted((1.0, frequency))
    ratio = min(max(one.share / other.share, least), most) if other.share else most
    apart = abs(one.share - ratio * other.share)
    return apart >= LOSS_SHARES_APART_MIN and log_evidence_of_shares(one, other, ratio) >= LOSS_EVIDENCE_MIN


class ArmCounts(NamedTuple):
    """The users of one arm: those without a list, of all exposed; those with reactions that match no list, of all with reactions; and
    those who went to the other arm. Counts of 0 users are not known. `with_lists` are users with lists, `reactions` those to their lists.
    """

    without_list: LossCount = LossCount(0, 0)
    without_match: LossCount = LossCount(0, 0)
    moved: int = 0
    with_lists: int = 0
    reactions: int = 0

    @property
    def reactions_per_user(self) -> float:
        return self.reactions / self.without_match.users if self.without_match.users else 0.0


def unequal_losses(treatment: ArmCounts, control: ArmCounts, names: tuple[str, str], how: str = "") -> Words | None:
    """Say which users one arm loses more often than the other; None if nothing is certain. names: of the treatment and the control.

    how: what to do if users are meant to move.

    >>> names = "new", "old"
    >>> unequal_losses(ArmCounts(without_list=LossCount(1_000, 3_000)), ArmCounts(without_list=LossCount(0, 3_000)), names)
    'new and old lose users unequally: 1,000 of 3,000 exposed users of new have no list, and 0 of 3,000 of old'
    >>> unequal_losses(ArmCounts(moved=270, with_lists=3_000), ArmCounts(with_lists=27_000), names, " Look why")
    'new and old lose users unequally: 270 users went from new to old, and 0 from old to new. Look why'
    """
    losses = list[Words]()
    if differ(treatment.without_list, control.without_list):
        template = "{lost:,} of {users:,} exposed users of {one} have no list, and {other_lost:,} of {other_users:,} of {other}"
        losses.append(_share_words(template, treatment.without_list, control.without_list, names))
    per_user = treatment.reactions_per_user, control.reactions_per_user
    if differ(treatment.without_match, control.without_match, per_user[0] / per_user[1] if all(per_user) else 1.0):
        template = "{lost:,} of {users:,} users who react in {one} do so without a list, and {other_lost:,} of {other_users:,} in {other}"
        losses.append(_share_words(template, treatment.without_match, control.without_match, names))
    if moves_differ(treatment, control):
        template = "{lost:,} users went from {one} to {other}, and {other_lost:,} from {other} to {one}"
        one, other = map(named, names)
        moved = say(template, lost=treatment.moved, other_lost=control.moved, one=one, other=other)
        losses.append(say("{moved}.{how}", moved=moved, how=advice(how)) if how else moved)
    if not losses:
        return None
    one, other = map(named, names)
    return say("{one} and {other} lose users unequally: {found}", one=one, other=other, found=join(losses, "; "))


def moves_differ(treatment: ArmCounts, control: ArmCounts) -> bool:
    """Whether users certainly move to the control more often than to the treatment, by two points of the users of the smaller arm or more.

    >>> moved, plain = ArmCounts(moved=10, with_lists=400), ArmCounts(with_lists=9_000)
    >>> moves_differ(moved, plain), moves_differ(moved._replace(with_lists=9_000), plain), moves_differ(plain, moved)
    (True, False, False)
    """
    net, smaller = treatment.moved - control.moved, min(treatment.with_lists, control.with_lists)
    certain = log_evidence_of_moves(treatment.moved, control.moved) >= LOSS_EVIDENCE_MIN
    return net >= LOSS_SHARES_APART_MIN * smaller and certain


def _share_words(template: str, one: LossCount, other: LossCount, names: tuple[str, str]) -> Words:
    first, second = map(named, names)
    lost = {"lost": one.lost, "users": one.users, "other_lost": other.lost, "other_users": other.users}
    return say(template, one=first, other=second, **lost)


def losses_of(
    policy: Policy, stored: StoredSums, treatment: str, control: str, stopped: Mapping[str, int], silent: Sequence[SilentHours] = ()
) -> Words | None:
    """Say which users of a run one of two arms loses more often than the other; None if nothing is certain.

    stopped: the time of the last list of each arm that has stopped. silent: the hours in which one of the two was silent.
    """
    until_ms = min(stored.to_ms, *(stopped.get(arm, stored.to_ms) for arm in (treatment, control)))
    hours, arm_names = stored.run_hours, (treatment, control)
    since = {"start": hour_after_moves(hours, *arm_names) * HOUR_MS}
    how = (
        f" If {treatment} got less traffic from some time on, replay the log and set {policy.settings_text(stored.experiment, since)}."
        f" If each list is assigned on its own, set {policy.settings_text(stored.experiment, {'unit': 'list'})}"
    )
    counts = [_counts_of(policy, stored, *arms, until_ms, silent) for arms in ((treatment, control), (control, treatment))]
    return unequal_losses(counts[0], counts[1], arm_names, how)


def hour_after_moves(hours: Hours, arm: str, other: str) -> int:
    """Return the hour since when most users who leave an arm move: after the first block with half of the most moves of any.

    >>> hours = Hours()
    >>> for hour, moved in enumerate((1, 0, 40, 60, 30)): hours.row(hour).moves["new", "old"] = moved
    >>> hour_after_moves(hours, "new", "old")
    3
    """
    moves = {block: row.moves.get((arm, other), 0) for block, row in sorted(hours.rows.items())}
    many = max(moves.values(), default=0) / 2
    return (next((block for block, count in moves.items() if count >= many), -1) + 1) * hours.length


def _counts_of(policy: Policy, stored: StoredSums, arm: str, other: str, until_ms: int, silent: Sequence[SilentHours]) -> ArmCounts:
    """Return the counts of one arm.

    Exposures count in blocks that end before `until_ms`: lists count later than exposures. Users of an arm that was switched off get the
    lists of the other one: these are no moves. So moves count in blocks that end before the arm's last list, and in none in which the arm
    was silent, or that is next to one.
    """
    hours = stored.run_hours
    block_ms, last_ms = hours.length * HOUR_MS, stored.last_ms.get(arm, 0)
    exposed = sum(row.exposed.get(arm, 0) for block, row in hours.rows.items() if (block + 1) * block_ms <= until_ms)
    spans = [silence.span for silence in silent if silence.arm == arm]
    is_off = {block for block in hours.rows for span in spans if span.first // hours.length - 1 <= block <= span.end // hours.length}
    moves = {block: row.moves.get((arm, other), 0) for block, row in hours.rows.items() if (block + 1) * block_ms <= last_ms}
    reacting, unmatched = stored.reacting.get(arm, (0, 0))
    reactions = stored.reactions.get(arm, NO_REACTIONS)
    return ArmCounts(
        without_list=LossCount(max(0, exposed - hours.new_users().get(arm, 0)), exposed),
        without_match=LossCount(unmatched, reacting),
        moved=sum(count for block, count in moves.items() if block not in is_off) if policy.unit == "user" else 0,
        with_lists=stored.moments[arm][USERS_AT] if arm in stored.moments else 0,
        reactions=reactions.total,
    )
