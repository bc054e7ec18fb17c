"""Health: whether an experiment is sound. Counts in; findings in plain words out, with the TOML that settles them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from streammetrics.experiments.name_order import in_order
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.sample_ratio import sample_ratio_p_value
from streammetrics.experiments.words import percent


class Joined(NamedTuple):
    """Counts of feedback that matches a list, and of feedback that matches none."""

    matched: int
    unmatched: int

    @property
    def unmatched_share(self) -> float | None:
        """Share of feedback that matches no list; None without feedback."""
        return self.unmatched / sum(self) if any(self) else None


NO_FEEDBACK: Final = Joined(0, 0)

_YOURS: Final = " (replace the numbers by the shares of your assignment)"


@dataclass(frozen=True, slots=True)
class Health:
    """Whether an experiment is sound.

    sample_ratio_p: p-value of the split; None if no shares are configured, so that the split is not checked.
    troubles: sentences; any of them makes every verdict invalid.
    notes: sentences about checks that were not made.
    """

    sample_ratio_p: float | None
    multi_exposed_share: float
    unmatched_share: float | None
    troubles: tuple[str, ...]
    notes: tuple[str, ...] = ()


def health(
    policy: Policy,
    experiment: str,
    first_exposures: Mapping[str, int],
    multi_exposed_users: int,
    joined: Joined = NO_FEEDBACK,
    exposed: Mapping[str, int] | None = None,
) -> Health:
    """Check the split, the users that saw several variants, and the join of feedback.

    first_exposures: users by the variant that they saw first, including users that saw several. joined: all feedback of the time.
    exposed: users by the variant of their first exposure event. If there are any, the split is checked on them.

    The split is checked only if shares are configured, and covers only variants with a share. Users of other variants make the
    experiment invalid if they are more than `multi_exposed_share_max` of all. Shares of users are checked once there are `min_users`
    users, and the share of feedback once there are as many feedback events.

    >>> equal = Policy(shares={"control": 1, "treatment": 1})
    >>> print(health(equal, "ranker", {"control": 4500, "treatment": 5500}, 3).troubles[0])  # doctest: +ELLIPSIS
    users are not split as configured (control 4,500, treatment 5,500; practically impossible by chance): fix the assignment. If ...
    >>> print(health(Policy(), "ranker", {"control": 4500, "treatment": 5500}, 3).notes[0])  # doctest: +ELLIPSIS
    split not checked: no shares configured. To check it, set under [experiments.named.ranker]: shares = { control = 1, treatment = 1 } ...
    """
    users = sum(first_exposures.values())
    p, troubles, notes = check_split(policy, experiment, exposed or first_exposures, policy.shares)
    share = multi_exposed_users / users if users else 0.0
    troubles += multi_exposure_trouble(policy, share, users)
    troubles += join_trouble(policy, joined)
    return Health(p, share, joined.unmatched_share, tuple(troubles), tuple(notes))


def multi_exposure_trouble(policy: Policy, share: float, users: int) -> list[str]:
    """Say that too many of the users saw several variants."""
    if share <= policy.multi_exposed_share_max or users < policy.min_users:
        return []
    return [f"{percent(share)} of the users saw more than one variant; the limit is {percent(policy.multi_exposed_share_max)}"]


def join_trouble(policy: Policy, joined: Joined) -> list[str]:
    """Say that too much of the feedback matches no list."""
    unmatched = joined.unmatched_share
    if unmatched is None or unmatched <= policy.unmatched_share_max or sum(joined) < policy.min_users:
        return []
    return [f"{percent(unmatched)} of all feedback matches no list; the limit is {percent(policy.unmatched_share_max)}"]


def check_split(
    policy: Policy,
    experiment: str,
    first_exposures: Mapping[str, int],
    shares: Mapping[str, float] | None,
    alpha: float | None = None,
    stage: str | None = None,
) -> tuple[float | None, list[str], list[str]]:
    """Return the p-value, the troubles and the notes of a split of users, or of lists if each list is assigned on its own.

    alpha: the p-value below which the split is broken; None means `sample_ratio_alpha`. stage: the name of the stage, for its setting.
    """
    seen = {name: count for name, count in first_exposures.items() if count}
    units, things = sum(seen.values()), f"{policy.unit}s"
    if shares is None:
        if len(seen) < 2:
            return None, [], []
        equal = toml_shares(experiment, dict.fromkeys(in_order(seen), 1.0))
        return None, [], [f"split not checked: no shares configured. To check it, set {equal}{_YOURS}"]
    strays = {name: count for name, count in seen.items() if name not in shares}
    p = sample_ratio_p_value({name: count for name, count in seen.items() if name not in strays}, shares)
    troubles = []
    if p < (policy.sample_ratio_alpha if alpha is None else alpha):
        counts = ", ".join(f"{name} {seen.get(name, 0):,}" for name in in_order(shares))
        observed = _observed({name: seen.get(name, 0) for name in in_order(shares)})
        intended = f" If this split is intended, set {toml_shares(experiment, observed, stage)}" if len(observed) > 1 else ""
        troubles.append(f"{things} are not split as configured ({counts}; {_chance(p)}): fix the assignment.{intended}")
    if units >= policy.min_users and sum(strays.values()) > policy.multi_exposed_share_max * units:
        every = toml_shares(experiment, {**{name: float(share) for name, share in shares.items()}, **_observed(strays, units)}, stage)
        saw = "of the users saw" if policy.unit == "user" else "of the lists have"
        troubles.append(
            f"{percent(sum(strays.values()) / units)} {saw} a variant without a configured share"
            f" ({', '.join(in_order(strays))}): fix the label. If it is intended, set {every}{_YOURS}"
        )
    return p, troubles, []


def toml_shares(experiment: str, shares: Mapping[str, float], stage: str | None = None) -> str:
    """Return the setting for shares, as a table name and a line of TOML. With a stage, it is that of the stage.

    >>> toml_shares("ranker v7", {"control": 0.9, "b 2": 0.1})
    'under [experiments.named."ranker v7"]: shares = { control = 0.9, "b 2" = 0.1 }'
    """
    parts = ", ".join(f"{_key(name)} = {share:.6g}" for name, share in shares.items())
    where = f"[experiments.named.{_key(experiment)}]" if stage is None else f"[experiments.named.{_key(experiment)}], in stage {stage}"
    return f"under {where}: shares = {{ {parts} }}"


def toml_control(experiment: str, variants: Collection[str]) -> str:
    """Return the setting for the control, as a table name and a line of TOML, with the first of the variants as an example.

    >>> toml_control("ranker", ["a", "b"])
    'under [experiments.named.ranker]: control = "a" (or one of: b)'
    """
    first, *others = in_order(variants)
    more = f" (or one of: {', '.join(others)})" if others else ""
    return f"under [experiments.named.{_key(experiment)}]: control = {_text(first)}{more}"


def _observed(counts: Mapping[str, int], users: int | None = None) -> dict[str, float]:
    """Return the shares seen, with two digits, without variants that no user saw. Without `users`, the greatest is what others leave."""
    total = sum(counts.values()) if users is None else users
    shares = {name: float(f"{count / total:.2g}") for name, count in counts.items() if count}
    if users is None and shares:
        greatest = max(shares, key=lambda name: counts[name])
        shares[greatest] = round(1 - sum(share for name, share in shares.items() if name != greatest), 6)
    return shares


def _key(name: str) -> str:
    """Return a TOML key: bare if it can be, else quoted."""
    return name if name and all(each.isascii() and (each.isalnum() or each in "-_") for each in name) else _text(name)


def _text(value: str) -> str:
    """Return a TOML basic string."""
    escaped = (f"\\u{ord(each):04x}" if each < " " or each == "\x7f" else f"\\{each}" if each in '"\\' else each for each in value)
    return f'"{"".join(escaped)}"'


def _chance(p: float) -> str:
    if p <= 1e-12:
        return "practically impossible by chance"
    digits = len(str(int(1 / p))) - 1
    return f"happens by chance at most once in {int(1 / p) // 10**digits * 10**digits:,} tests"
