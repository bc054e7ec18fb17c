"""The rules of an experiment as its owner sets them: errors, margins, limits, shares, control. One frozen, validated value.

A finding may propose settings that would settle it. They are values here; who builds a policy says how they are written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol, TypeAlias

from streammetrics.errors import ExperimentError
from streammetrics.statistics.estimates import EFFECTIVE_USERS_MIN
from streammetrics.statistics.measures import Measures
from streammetrics.statistics.sample_ratio import check_shares

ProposedValue: TypeAlias = str | int | Mapping[str, float]
"""A name, a time (epoch ms), or shares."""
INTERLEAVED: Final = "interleaved"
"""The variant with lists of two rankers. Its lists are compared by team; the variant is compared with no other."""
CONTROL_NAMES: Final = ("control", "baseline")
"""Names of the control when none is configured, in upper or lower case: a variant, or a team of interleaved lists. The first one that is
present counts."""
CONTROL_WORDS: Final = ("control", "production", "prod", "old", "off", "original", "baseline", "default", "false", "0", "a")
"""What a control may be called, the surest first. Such a variant is proposed as the control; the owner decides."""
DECIDING_MEASURES: Final = ("ndcg@10", "item_hit_rate@10")
"""The deciding measures when none are configured, as far as they are measured: one of order, one of reward."""
ExperimentUnit: TypeAlias = Literal["user", "list"]
"""What is assigned to a variant: a user with all their lists, or each list (each request) on its own."""
_WORDS: Final = re.compile(r"[^\W_]+")
_WORD_CHARS_MIN: Final = 3
"""A shorter word, such as the a of "plan a b", says nothing unless it is the whole name."""
_LABEL_SHARE_MIN: Final = 0.01
"""A variant with a smaller share of the users is taken for a misspelt label, unless it has `min_users` users."""


class SettingsText(Protocol):
    """How settings of an experiment are written."""

    def __call__(self, experiment: str, settings: Mapping[str, ProposedValue]) -> str:
        """Return the text that names the place and the settings."""


def settings_named(experiment: str, settings: Mapping[str, ProposedValue]) -> str:
    """Name the settings without their values.

    >>> settings_named("ranker", {"start": 1_732_183_200_000, "end": 1_732_186_800_000})
    'start and end of ranker'
    """
    return f"{' and '.join(settings)} of {experiment}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules of one experiment.

    alpha: probability that an interval is ever wrong. For verdicts it is divided by the number of treatments. Deciding measures share it.
    margin: the tolerated relative drop. `regressed` means a larger drop for certain, `safe` means certainly no larger drop. `safe` has to
        detect an effect of this size, so a small margin needs many users.
    gate_margin: the relative drop that the gate of a rollout tolerates; see `gate`. A drop of more than `margin` for certain fails it.
    min_users: users that an arm needs before its numbers are shown.
    minimum_lift: the relative effect to detect. Verdicts come earliest for effects of this size.
    effective_users_min: see `estimates`. Simulations set 0.
    paging: the deciding measures, such as `ndcg@10`. Their verdicts may page people. Empty: see `deciding`.
    shares: each variant's part of the traffic; None means that the split is not checked.
    unit: what is assigned to a variant: each user, or each list. With "list" users see several variants on purpose, and no share of
        users is compared.
    strata: a segment, such as a country, whose values have shares of their own: only users with the same value are compared.
    control: the variant that others are compared with, or the team of interleaved lists; None means one of CONTROL_NAMES.
    holdout: a variant that is reported beside the control and has no verdict. It takes no part of alpha, and the gate leaves it out.
    cuped_verdict: whether verdicts use the interval with variance reduction, if there is one.
    sample_ratio_alpha: the experiment is invalid if the p-value of the split is below this.
    unmatched_share_max: the experiment is invalid if more of the feedback matches no list.
    settings_text: how sentences write settings that would settle a finding.

    Raises ExperimentError for an invalid value.
    """

    alpha: float = 0.05
    margin: float = 0.01
    gate_margin: float = 0.05
    min_users: int = 100
    minimum_lift: float = 0.1
    effective_users_min: float = EFFECTIVE_USERS_MIN
    paging: tuple[str, ...] = ()
    shares: Mapping[str, float] | None = field(default=None, hash=False)
    unit: ExperimentUnit = "user"
    strata: str | None = None
    control: str | None = None
    holdout: str | None = None
    cuped_verdict: bool = False
    sample_ratio_alpha: float = 0.01
    unmatched_share_max: float = 0.25
    settings_text: SettingsText = settings_named

    def __post_init__(self) -> None:
        for name in ("alpha", "sample_ratio_alpha"):
            _check(name, getattr(self, name), 0 < getattr(self, name) < 1, "between 0 and 1")
        _check("margin", self.margin, 0 <= self.margin < 1, "at least 0 and below 1")
        _check("gate_margin", self.gate_margin, 0 < self.gate_margin < 1, "between 0 and 1")
        _check("min_users", self.min_users, self.min_users >= 2, "2 or more")
        _check("minimum_lift", self.minimum_lift, 0 < self.minimum_lift < math.inf, "finite and above 0")
        _check("effective_users_min", self.effective_users_min, 0 <= self.effective_users_min < math.inf, "finite and at least 0")
        _check("unmatched_share_max", self.unmatched_share_max, 0 <= self.unmatched_share_max <= 1, "from 0 to 1")
        if self.shares is not None:
            _check("shares", dict(self.shares), len(self.shares) > 1, "shares of two or more variants; leave them out to skip the check")
            check_shares(self.shares)
        _check("unit", self.unit, self.unit in ("user", "list"), '"user" or "list"')
        if self.holdout is not None and self.holdout in (self.control, INTERLEAVED):
            raise ExperimentError("holdout", f"got {self.holdout!r}, which is the control or has interleaved lists; name another variant")
        if self.arms is not None and self.control is not None:
            _check("control", self.control, self.control in self.arms, f"one of {', '.join(self.arms)}")

    @property
    def arms(self) -> Collection[str] | None:
        """The variants with a share; None if no shares are configured."""
        return self.shares

    def deciding(self, measures: Measures) -> Policy:
        """Return the policy with deciding measures: by default DECIDING_MEASURES, or the first measure if none of them is measured."""
        default = tuple(name for name in DECIDING_MEASURES if name in measures.names) or measures.names[:1]
        return self if self.paging else replace(self, paging=default)

    def treatments(self, control: str | None, users: Mapping[str, int]) -> tuple[str, ...]:
        """Return the names of the treatments, sorted. They share alpha (Bonferroni).

        users: users by variant, those in several in each. If shares are configured, the treatments are the variants with a share. Else they
        are the variants seen, without labels of fewer than `min_users` users and 1 % of all users.

        >>> Policy().treatments("control", {"control": 900, "a": 880, "b": 910, "typo": 3})
        ('a', 'b')
        """
        arms: Collection[str] = self.arms or [
            name for name, count in users.items() if count >= min(self.min_users, _LABEL_SHARE_MIN * sum(users.values()))
        ]
        return tuple(sorted({*arms} - {control, self.holdout, INTERLEAVED}))

    def control_of(self, variants: Collection[str]) -> str | None:
        """Return the variant that others are compared with: the configured one, or one of CONTROL_NAMES; None if there is none.

        >>> Policy().control_of(["treatment", "Control"])
        'Control'
        """
        return self.control if self.control is not None else known_control({*variants, *(self.arms or ())})


def known_control(names: Iterable[str]) -> str | None:
    """Return the variant, or the team of interleaved lists, that is called as controls are: see CONTROL_NAMES. None if there is none."""
    variants = sorted(names)
    return next((variant for name in CONTROL_NAMES for variant in variants if variant.casefold() == name), None)


def probable_control(names: Iterable[str]) -> str | None:
    """Return the one variant whose name, or a word of it, is in CONTROL_WORDS. None if there is none, or if several have the same word.

    >>> probable_control(["candidate", "production"]), probable_control(["new ranker", "Old ranker"]), probable_control(["x", "y"])
    ('production', 'Old ranker', None)
    """
    words = {name: {name.casefold(), *(word for word in _WORDS.findall(name.casefold()) if len(word) >= _WORD_CHARS_MIN)} for name in names}
    named = (variant for word in CONTROL_WORDS if (variant := [name for name in words if word in words[name]]))
    variant = next(named, [])
    return variant[0] if len(variant) == 1 else None


def _check(name: str, value: object, fine: bool, allowed: str) -> None:
    if not fine:
        raise ExperimentError(name, f"got {value!r}; must be {allowed}")
