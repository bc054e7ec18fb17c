"""What libraries disagree on, as one frozen value. Numbers made under different specs must never be merged."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, fields
from typing import Final, Literal, TypeAlias, get_args

from streammetrics.metrics.names import MetricError

Gain: TypeAlias = Literal["linear", "exp2"]
Discount: TypeAlias = Literal["log2(i+1)", "max(1,log2(i))"]

ARITHMETIC: Final = "streammetrics-metrics-1"
"""Names the fixed-point law of `units`. Raise the number when any stored integer would change under an unchanged Spec."""


@dataclass(frozen=True, slots=True)
class Spec:
    """All choices that change a number. Frozen and hashable; the defaults are what streammetrics publishes.

    gain: what a grade g earns before the discount: `linear` g, `exp2` 2**g - 1. `ndcg_exp` is exp2 whatever is said here.
    discount: what rank i (from 1) divides the gain by: `log2(i+1)` (Jarvelin and Kekalainen 2002, as commonly used today)
        or `max(1,log2(i))` (their paper's own form: ranks 1 and 2 count in full).
    relevance_threshold: the least grade that counts as relevant, finite and > 0.

    Fixed today: the ideal ranks all graded items of the list, also those shown beyond k; AP is divided by min(R, k),
    recall by R, precision by k; a list without relevant items has value 0.

    Raises MetricError that names the field, the value and what is allowed.

    >>> Spec() == Spec(gain="linear", relevance_threshold=1)
    True
    >>> Spec().digest() == Spec(gain="exp2").digest()
    False
    """

    gain: Gain = "linear"
    discount: Discount = "log2(i+1)"
    relevance_threshold: float = 1.0

    def __post_init__(self) -> None:
        _require_choice("gain", self.gain, get_args(Gain))
        _require_choice("discount", self.discount, get_args(Discount))
        threshold = self.relevance_threshold
        number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
        if not number or not math.isfinite(threshold) or threshold <= 0:
            raise MetricError(f"spec field relevance_threshold: got {threshold!r}; allowed are finite numbers > 0")
        object.__setattr__(self, "relevance_threshold", float(threshold))

    def digest(self) -> str:
        """Sixteen hex digits that differ when a field that changes numbers differs; the same on every machine.

        Fields at their default do not enter, so a field that is added later leaves the digests of stored tallies alone.
        """
        changed = [f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if getattr(self, field.name) != field.default]
        return hashlib.sha256("\n".join([ARITHMETIC, *changed]).encode()).hexdigest()[:16]


def _require_choice(field: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise MetricError(f"spec field {field}: got {value!r}; allowed are {', '.join(allowed)}")
