"""What bends the comparison of an experiment, besides what forbids it: losses, signs in the lists, a changed effect, the same people. Pure.

**The same people in two experiments.** If the arms of two experiments have the same users, their effects cannot be told apart. Two signs
are looked for, in this order:

- **Equal moments.** Each arm of the one has the very sums of an arm of the other: users, lists, values and their squares. That is so if
  every list carries both experiments and one assignment. By chance it does not happen.
- **Equal arrivals.** If some lists lack one of the labels, sums differ a little. New users by hour still agree. With independent
  assignments, an hour with n new users gives a difference of variance n (p q + r s), with p and r the shares of both arms. Over B hours
  the sum of squared differences, each over its variance, is about B. If it is at most B / 10, with 16 hours or more, the users are the
  same: chi-square is so small by chance in fewer than 5 of a million pairs.

Experiments that share an assignment and label lists of different places have other users in part. That leaves no sign in these sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from streammetrics.experiments.arms import Arms
from streammetrics.experiments.experiment_report import SINCE_START, VariantReport
from streammetrics.experiments.hours import Hours
from streammetrics.experiments.losses import losses_of
from streammetrics.experiments.measure_words import change_words
from streammetrics.experiments.signs import IN_BOTH_ARMS_MIN, ListSigns, list_signs, strata_warning, uneven_shares
from streammetrics.experiments.stored import StoredSums
from streammetrics.metrics.names import metric_text
from streammetrics.words.numbers import counted, percent
from streammetrics.words.sentences import DataWarning, measure_name, named, say
from streammetrics.words.times import HOUR_MS, minute_text

TWIN_BLOCKS_MIN: Final = 16
"""Blocks of time with enough new users that a pair of arms needs."""
TWIN_NEW_USERS_MIN: Final = 5
"""New users of an arm that a block needs."""
TWIN_USERS_APART_MAX: Final = 0.1
"""The greatest difference of the users of both experiments, as a share of the greater number."""
TWIN_SPARSE_BLOCKS_MAX: Final = 0.1
"""The greatest share of blocks with too few new users."""
TWIN_SQUARES_MAX: Final = 0.1
"""The greatest sum of squared differences per block, against 1 by chance."""


def loss_warning(arms: Arms, treatment: str, control: str | None) -> DataWarning | None:
    """Say that one of two arms loses users, or has other users, so that they are not compared; None if neither is certain."""
    if control is None:
        return None
    if (lost := losses_of(arms.policy, arms.stored, treatment, control, arms.states.stopped, arms.silent(treatment, control))) is not None:
        return DataWarning("losses", lost, variant=treatment)
    uneven = uneven_shares(arms.policy, arms.stored, treatment, control)
    return None if uneven is None else DataWarning("uneven shares", uneven, variant=treatment)


def warnings_of(arms: Arms, control: str | None, treatments: Iterable[str]) -> Iterator[DataWarning]:
    """Yield what bends a comparison, although it is no reason to leave it out: hours without an arm, and users in both arms."""
    strata = strata_warning(arms.policy, arms.stored)
    if strata is not None:
        yield strata
    if arms.stored.scope == SINCE_START and (early := _lists_between(arms.stored.hours, to_ms=arms.stored.from_ms)):
        said = say(
            "{lists} before {start} had counted before the start was set: {stay} in the numbers",
            lists=counted(early, "list"),
            start=minute_text(arms.stored.from_ms),
            stay="it stays" if early == 1 else "they stay",
        )
        yield DataWarning("early lists", said, "to leave them out, replay the log")
    for treatment in treatments if control is not None else ():
        assert control is not None
        silence = arms.silence(treatment, control)
        if silence is not None:
            yield silence
        uneven = uneven_shares(arms.policy, arms.stored, treatment, control, of_windows=False)
        if uneven is not None:
            yield DataWarning("uneven shares", uneven, variant=treatment)
        mixed = mixed_users(arms, treatment, control)
        if mixed is not None:
            yield mixed


def mixed_users(arms: Arms, treatment: str, control: str) -> DataWarning | None:
    """Say how many users have lists of both arms; None if they are few, if that is meant, or if one arm was switched off.

    Users whom a step of a rollout gives the treatment have only its lists since: they do not count.
    """
    if arms.policy.unit == "list" or arms.states.stopped.keys() & {treatment, control}:
        return None
    hours = arms.stored.run_hours
    rows = [row for block, row in hours.rows.items() if (block + 1) * hours.length * HOUR_MS > arms.stored.from_ms]
    there, back = (sum(row.moves.get(pair, 0) for row in rows) for pair in ((control, treatment), (treatment, control)))
    both, users = arms.users_in_both(treatment, control)
    mixed = both - max(0, there - back)
    if mixed <= IN_BOTH_ARMS_MIN * users:
        return None
    said = say(
        "{share} of the users have lists of both {treatment} and {control}: all count in the variant that they show, so the arms"
        " differ less than two rankers would",
        share=percent(mixed / users),
        treatment=named(treatment),
        control=named(control),
    )
    return DataWarning("users in both arms", said, variant=treatment)


def change_warning(arms: Arms, variant: VariantReport) -> DataWarning | None:
    """Say that the effect on a deciding measure has changed: the verdict is about a mixture of two effects. None without a verdict."""
    changed_measure = next((measure for measure in variant.measures if measure.change is not None), None)
    if (
        variant.verdict is None
        or variant.verdict.word == "invalid"
        or changed_measure is None
        or changed_measure.change is None
        or changed_measure.change.before.lift is None
        or changed_measure.change.since.lift is None
    ):
        return None
    measure = arms.measures.named(metric_text(changed_measure.metric, changed_measure.k))
    changed = change_words(measure, changed_measure.change.before.lift, changed_measure.change.since.lift, changed_measure.change.at_ms)
    said = say("{variant} on {measure}: {changed}", variant=named(variant.variant), measure=measure_name(str(measure)), changed=changed)
    setting = arms.policy.settings_text(arms.stored.experiment, {"start": changed_measure.change.at_ms})
    return DataWarning("effect changed", said, f"to compare only the lists since, replay the log and set {setting}", variant.variant)


def signs_of(arms: Arms, control: str | None, treatments: Iterable[str]) -> dict[str, ListSigns]:
    """Return the signs in the lists of each treatment that has lists of the same times as the control."""
    if control is None:
        return {}
    stopped = arms.states.stopped  # users of an arm that has stopped have no more lists, so its signs would mean nothing
    like_lists = {treatment: arms.like_lists(treatment, control) for treatment in treatments if not stopped.keys() & {treatment, control}}
    return {treatment: list_signs(arms.measures, lists) for treatment, lists in like_lists.items() if lists is not None}


def notes_of_times(stored: StoredSums) -> Iterator[str]:
    """Yield which lists under this name are not in the numbers."""
    if stored.open_lists:
        yield say(
            "{lists} at the end of the input {do} not count: feedback on them may not have come yet",
            lists=counted(stored.open_lists, "list"),
            do="does" if stored.open_lists == 1 else "do",
        )
    if stored.end_ms is not None and (late := _lists_between(stored.hours, from_ms=stored.end_ms)):
        yield say(
            "{lists} from {end} on had counted before the end was set: {stay} in the numbers",
            lists=counted(late, "list"),
            end=minute_text(stored.end_ms),
            stay="it stays" if late == 1 else "they stay",
        )
    if stored.former_last_ms is not None and stored.scope == SINCE_START:
        yield say(
            "an earlier run under this name is not in these numbers: its last list was at {last}, and this run began at {first}",
            last=minute_text(stored.former_last_ms),
            first=minute_text(stored.from_ms),
        )


def _lists_between(hours: Hours, from_ms: float = -math.inf, to_ms: float = math.inf) -> int:
    """Return the lists in the blocks of hours that lie between two times as a whole."""
    block_ms = hours.length * HOUR_MS
    between = (row for block, row in hours.rows.items() if from_ms <= block * block_ms and (block + 1) * block_ms <= to_ms)
    return sum(totals[0] for row in between for totals in row.totals.values())


def same_people(one: StoredSums, other: StoredSums, min_users: int) -> dict[str, str] | None:
    """Return the arm of the other experiment that has the same users, for each arm of the one; None if some arm has no such twin.

    Arms with fewer than `min_users` users do not count.

    >>> kept = {"control": [500, 900, 3], "new": [498, 880, 4]}
    >>> users = {name: sums[0] for name, sums in kept.items()}
    >>> one = StoredSums(experiment="a", scope="start", moments=kept, first_list_users=users)
    >>> renamed = {"old": kept["control"], "new": kept["new"]}
    >>> two = StoredSums(experiment="b", scope="start", moments=renamed, first_list_users=users)
    >>> same_people(one, two, 100)
    {'control': 'old', 'new': 'new'}
    """
    arms, others = ([name for name, sums in stored.moments.items() if sums[0] >= min_users] for stored in (one, other))
    if len(arms) < 2 or len(arms) != len(others):
        return None
    users = [sum(stored.moments[name][0] for name in names) for stored, names in ((one, arms), (other, others))]
    if abs(users[0] - users[1]) > TWIN_USERS_APART_MAX * max(users):  # the common case, at once
        return None
    twins = {arm: next((name for name in others if [*one.moments[arm]] == [*other.moments[name]]), None) for arm in arms}
    pairs = {arm: twin for arm, twin in twins.items() if twin is not None}
    if len(pairs) < len(arms):
        pairs = _by_arrivals(one.hours, other.hours, arms, others)
    return pairs if len({*pairs.values()}) == len(arms) else None


def _by_arrivals(one: Hours, other: Hours, arms: list[str], others: list[str]) -> dict[str, str]:
    length = max(one.length, other.length)
    ours, against = (hours.new_users_by_block(length) for hours in (one, other))
    twins = {}
    for arm in arms:
        twin = next((name for name in others if _agree(ours, against, arm, name)), None)
        if twin is not None:
            twins[arm] = twin
    return twins


def _agree(ours: Mapping[str, Mapping[int, int]], against: Mapping[str, Mapping[int, int]], arm: str, other: str) -> bool:
    first, second = ours.get(arm, {}), against.get(other, {})
    blocks = [block for block in first if min(first[block], second.get(block, 0)) >= TWIN_NEW_USERS_MIN]
    if len(blocks) < TWIN_BLOCKS_MIN or len(first) - len(blocks) > TWIN_SPARSE_BLOCKS_MAX * len(first):
        return False
    totals = [sum(sum(arms.values()) for arms in by_block.values()) for by_block in (ours, against)]
    p, r = sum(first.values()) / totals[0], sum(second.values()) / totals[1]
    spread = p * (1 - p) + r * (1 - r)
    squares = sum(
        (first[block] - second[block]) ** 2 / (sum(arms.get(block, 0) for arms in ours.values()) * spread) for block in blocks if spread > 0
    )
    return squares <= TWIN_SQUARES_MAX * len(blocks)
