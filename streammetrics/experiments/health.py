"""Health: whether an experiment is sound. Counts in; findings in plain words out, with the settings that settle them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from streammetrics.experiments.policy import Policy, probable_control
from streammetrics.experiments.stored import FeedbackCounts, StoredSums
from streammetrics.statistics.measures import LISTS_AT
from streammetrics.statistics.sample_ratio import sample_ratio_p_value
from streammetrics.words.names import in_order
from streammetrics.words.numbers import chance, percent
from streammetrics.words.sentences import Part, advice, join, named, parts_of, say
from streammetrics.words.times import HOUR_MS, minute_text

STRAYS_MAX: Final = 0.01
"""The share of users, or lists, of variants without a configured share from which the experiment is invalid."""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether an experiment is sound.

    sample_ratio_p: p-value of the split; None if no shares are configured, so that the split is not checked.
    troubles: sentences; any of them makes every verdict invalid.
    notes: sentences about checks that were not made, and about lists that are not in the numbers.
    trouble_parts, note_parts: the parts of these sentences, in a report.
    split_holds: whether no trouble is about the split.
    """

    sample_ratio_p: float | None
    unmatched_share: float | None
    troubles: tuple[str, ...]
    notes: tuple[str, ...] = ()
    trouble_parts: tuple[tuple[Part, ...], ...] = ()
    note_parts: tuple[tuple[Part, ...], ...] = ()
    split_holds: bool = True

    def as_text(self) -> Health:
        """Return the same with plain sentences, and with their parts beside them."""
        return replace(
            self,
            troubles=tuple(map(str, self.troubles)),
            notes=tuple(map(str, self.notes)),
            trouble_parts=tuple(map(parts_of, self.troubles)),
            note_parts=tuple(map(parts_of, self.notes)),
        )


def health_of(policy: Policy, stored: StoredSums, stopped: Mapping[str, int] | None = None) -> Health:
    """Check the split and the join of feedback.

    stopped: the time of the last list of each arm that has stopped. The split is checked up to the first of them: after it, all users are
    in the other arms.

    The split is checked only if shares are configured, and covers only variants with a share. Users of other variants make the
    experiment invalid if they are more than STRAYS_MAX of all. Shares of users are checked once there are `min_users` users, and the
    share of feedback once there are as many feedback events.
    """
    if policy.unit == "list":
        counts: Mapping[str, int] = {variant: sums[LISTS_AT] for variant, sums in stored.moments.items()}
    else:
        counts = stored.exposed or stored.first_list_users
        if policy.shares is not None:  # users who moved to a variant without a share had their first list in another one
            counts = {**counts, **{name: users for name, users in stored.users.items() if name not in policy.shares}}
    first = min((last_ms, arm) for arm, last_ms in stopped.items()) if stopped and policy.shares is not None else None
    if first is not None:
        counts = counts_until_stop(policy, stored, *first)
    p, troubles, notes = check_split(policy, stored.experiment, counts, policy.shares)
    if first is not None:
        notes.append(
            say("the split is checked up to {last}, when {arm} had its last list", last=minute_text(first[0]), arm=named(first[1]))
        )
    return Health(
        p,
        stored.joined.unmatched_share,
        (*troubles, *join_trouble(policy, stored.joined)),
        tuple(notes),
        split_holds=not troubles,
    )


def counts_until_stop(policy: Policy, stored: StoredSums, stop_ms: int, arm: str) -> dict[str, int]:
    """Return the users, or lists, of all arms up to the last list of one that has stopped.

    The counts of that block of hours do not say which came before that list. So each other arm counts there as many as suits the shares
    best.

    >>> from streammetrics.experiments.hours import Hours
    >>> from streammetrics.words.times import HOUR_MS
    >>> hours, policy = Hours(), Policy(shares={"control": 1, "new": 1})
    >>> for hour, users in enumerate(((50, 52), (90, 20), (100, 0))): hours.row(hour).new_users |= dict(zip(("control", "new"), users))
    >>> stored = StoredSums(experiment="ranker", scope="start", moments={}, first_list_users={}, hours=hours)
    >>> counts_until_stop(policy, stored, HOUR_MS + 1, "new")
    {'control': 72, 'new': 72}
    """
    shares, block = policy.shares or {}, stop_ms // (stored.hours.length * HOUR_MS)
    before: Counter[str] = Counter()
    within: Counter[str] = Counter()
    for at, row in stored.hours.rows.items():
        if at <= block:
            counts: Counter[str] = Counter(row.exposed if stored.exposed else row.new_users)
            if policy.unit == "list":
                counts = Counter()
                for (variant, _), totals in row.totals.items():
                    counts[variant] += totals[0]
            (within if at == block else before).update(counts)
    users = before[arm] + within[arm]
    wanted = {name: round(users * share / shares[arm]) for name, share in shares.items()} if arm in shares else {}
    return {name: before[name] + max(0, min(within[name], wanted.get(name, 0) - before[name])) for name in sorted({*before, *within})}


def join_trouble(policy: Policy, joined: FeedbackCounts) -> list[str]:
    """Say that too much of the feedback matches no list."""
    unmatched = joined.unmatched_share
    if unmatched is None or unmatched <= policy.unmatched_share_max or sum(joined) < policy.min_users:
        return []
    return [f"{percent(unmatched)} of all feedback matches no list; the limit is {percent(policy.unmatched_share_max)}"]


def check_split(
    policy: Policy, experiment: str, users: Mapping[str, int], shares: Mapping[str, float] | None
) -> tuple[float | None, list[str], list[str]]:
    """Return the p-value, the troubles and the notes of a split of users, or of lists if each list is assigned on its own."""
    is_apart = shares is not None and policy.holdout is not None and policy.holdout not in shares  # it is assigned before the experiment
    seen = {name: count for name, count in users.items() if count and not (is_apart and name == policy.holdout)}
    units, things = sum(seen.values()), f"{policy.unit}s"
    if shares is None:
        if len(seen) < 2:
            return None, [], []
        equal = policy.settings_text(experiment, {"shares": dict.fromkeys(in_order(seen), 1.0)})
        return (
            None,
            [],
            [
                say(
                    "split not checked: no shares configured.{how}",
                    how=advice(f" To check it, set {equal} (replace the numbers by the shares of your assignment)"),
                )
            ],
        )
    strays = {name: count for name, count in seen.items() if name not in shares}
    p = sample_ratio_p_value({name: count for name, count in seen.items() if name not in strays}, shares)
    troubles = list[str]()
    if p < policy.sample_ratio_alpha:
        counts = join((say("{name} {count:,}", name=named(name), count=seen.get(name, 0)) for name in in_order(shares)), ", ")
        broken = say("{things} are not split as configured ({counts}; {chance})", things=things, counts=counts, chance=chance(p))
        copied = f" If the shares of {experiment} are set wrong, copy those of your assignment, not these counts"
        left_out = "if they change on purpose, leave them out: lists of the same hour are compared, and the split is not checked"
        troubles.append(say("{broken}: fix the assignment.{how}", broken=broken, how=advice(f"{copied}; {left_out}")))
    if units >= policy.min_users and sum(strays.values()) > STRAYS_MAX * units:
        saw = "of the users saw" if policy.unit == "user" else "of the lists have"
        troubles.append(
            say(
                "{share} {saw} a variant without a configured share ({strays}): fix the label.{how}",
                share=percent(sum(strays.values()) / units),
                saw=saw,
                strays=join(map(named, in_order(strays)), ", "),
                how=advice(f" If it is intended, add it to the shares of {experiment}, with its share of your assignment"),
            )
        )
    return p, troubles, []


def control_setting(policy: Policy, experiment: str, variants: Collection[str]) -> str:
    """Return the setting for the control. Its value is the variant whose name means a control; without one, the owner has to name it.

    >>> control_setting(Policy(), "ranker", ["candidate", "production"]), control_setting(Policy(), "ranker", ["x", "y"])
    ('control of ranker (or one of: candidate)', 'control of ranker, with the name of the one that you compare with: x, y')
    """
    able = in_order({*variants} - {policy.holdout})
    first = probable_control(able)
    if first is None:
        setting = policy.settings_text(experiment, {"control": "NAME"})
        return f"{setting}, with the name of the one that you compare with: {', '.join(able)}"
    others = ", ".join(name for name in able if name != first)
    return policy.settings_text(experiment, {"control": first}) + (f" (or one of: {others})" if others else "")
