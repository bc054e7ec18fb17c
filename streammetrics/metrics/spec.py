"""Spec: the metric definitions on which libraries disagree, as one frozen value. Results of different specs are never merged."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias, get_args

from streammetrics.metrics.names import MetricError

GainName: TypeAlias = Literal["linear", "exp2", "binary"]
DiscountName: TypeAlias = Literal["log2(i+1)", "max(1,log2(i))"]
ValueTable: TypeAlias = tuple[float, ...]
Gain: TypeAlias = GainName | ValueTable
Discount: TypeAlias = DiscountName | ValueTable
Ideal: TypeAlias = Literal["all", "shown", "first_k", "full"]
ApDenominator: TypeAlias = Literal["min(R,k)", "R", "k", "hits", "min(R,n,k)"]
RecallDenominator: TypeAlias = Literal["R", "min(R,k)"]
PrecisionDenominator: TypeAlias = Literal["k", "min(n,k)"]
NoRelevant: TypeAlias = Literal["zero", "skip", "one"]

ARITHMETIC: Final = "streammetrics-metrics-1"
"""Version of the fixed-point arithmetic in `units`. Raise it when any stored integer changes under an unchanged Spec."""

TABLE_MAX: Final = 65_536
"""Maximum entries of a gain or discount table. Tables are written by hand; more entries are a mistake."""

GAIN_MAX: Final = 2.0**21
"""Maximum gain in a table, so that it fits int64 in units of 2**-40."""

DIVISOR_MIN: Final = 2.0**-16
"""Minimum divisor in a table, so that a discounted gain fits int64."""

ERR_GRADE_MAX: Final = 20.0
"""Maximum `err_grade_max`: beyond it the probabilities are smaller than the resolution of a value."""


@dataclass(frozen=True, slots=True)
class Spec:
    """All choices that change a result. Frozen and hashable; the defaults are the definitions that streammetrics publishes.

    Notation: n items shown, cut-off k, R relevant items (including unseen ones), h relevant items among the first k.

    gain: the gain of grade g before the discount: `linear` g, `exp2` 2**g - 1, `binary` 1 if relevant, or a table with the gains
        of the grades 0, 1, 2, ... In a table the first gain is 0, all are finite and >= 0, and other grades are rejected.
        `ndcg_exp` and `dcg_exp` always use exp2.
    discount: the divisor of the gain at rank i (from 1): `log2(i+1)` (the usual form), `max(1,log2(i))` (the form of Jarvelin and
        Kekalainen 2002, which counts ranks 1 and 2 in full), or a table for ranks 1, 2, ... Divisors in a table are finite, > 0
        and never fall. Ranks beyond the table earn nothing, in the list and in the ideal.
    ideal: the items of the ideal order that divides an NDCG. `all`: all graded items, also those beyond k or unseen. `shown`: the
        items of the list, also beyond k. `first_k`: the first k items of the list. `full`: k items of gain 1; larger gains are
        rejected.
    ap_denominator: the divisor of the sum of precisions: `min(R,k)`, `R`, `k`, `hits` (h), `min(R,n,k)`.
    recall_denominator: `R` or `min(R,k)`.
    precision_denominator: `k` or `min(n,k)`.
    relevance_threshold: the lowest relevant grade, finite and > 0.
    no_relevant: the value of a list that does not define a metric (see `TallyLayout.means`): `zero` 0, `one` 1, or `skip`, which
        leaves it out of the mean. It applies when means are read; the stored integers of such a list are always 0.
    rbp_persistence: the probability p that a user continues to the next rank, for `rbp`; 0 < p < 1.
    err_grade_max: the highest grade of the scale, for `err`. Grade g satisfies a user with probability
        (2**g - 1) / 2**err_grade_max. Higher grades are rejected. 0 < err_grade_max <= 20.

    Raises MetricError that names the field, the value and the allowed values.

    >>> Spec() == Spec(gain="linear", relevance_threshold=1)
    True
    >>> Spec().digest() == Spec(gain="exp2").digest()
    False
    >>> Spec(gain=(0, 1, 10)).gain
    (0.0, 1.0, 10.0)
    """

    gain: Gain = "linear"
    discount: Discount = "log2(i+1)"
    relevance_threshold: float = 1.0
    ideal: Ideal = "all"
    ap_denominator: ApDenominator = "min(R,k)"
    recall_denominator: RecallDenominator = "R"
    precision_denominator: PrecisionDenominator = "k"
    no_relevant: NoRelevant = "zero"
    rbp_persistence: float = 0.8
    err_grade_max: float = 4.0

    def __post_init__(self) -> None:
        self._set("gain", _name_or_table("gain", self.gain, get_args(GainName)))
        self._set("discount", _name_or_table("discount", self.discount, get_args(DiscountName)))
        if isinstance(self.gain, tuple):
            _check_gains(self.gain)
        if isinstance(self.discount, tuple):
            _check_divisors(self.discount)
        for field, allowed in _CHOICES.items():
            _require_choice(field, getattr(self, field), get_args(allowed))
        self._set("relevance_threshold", _number("relevance_threshold", self.relevance_threshold, math.inf, "finite numbers > 0"))
        self._set("rbp_persistence", _number("rbp_persistence", self.rbp_persistence, 1.0, "0 < p < 1"))
        above = math.nextafter(ERR_GRADE_MAX, math.inf)
        self._set("err_grade_max", _number("err_grade_max", self.err_grade_max, above, f"0 < grade <= {ERR_GRADE_MAX:g}"))

    def _set(self, field: str, value: object) -> None:
        object.__setattr__(self, field, value)

    def digest(self) -> str:
        """A hash of all fields as 16 hex digits, the same on every machine.

        Fields at their default are left out, so adding a field later does not change the digests of stored tallies.
        """
        changed = [f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if getattr(self, field.name) != field.default]
        return hashlib.sha256("\n".join([ARITHMETIC, *changed]).encode()).hexdigest()[:16]

    def require_same(self, other: Spec) -> None:
        """Raise MetricError, naming the first field that differs, if two specs differ.

        >>> Spec().require_same(Spec(gain="exp2"))
        Traceback (most recent call last):
          ...
        streammetrics.metrics.names.MetricError: spec field gain: got 'exp2' and 'linear'; allowed is one spec
        """
        for field in fields(self):
            mine, its = getattr(self, field.name), getattr(other, field.name)
            if mine != its:
                raise MetricError(f"spec field {field.name}", f"got {its!r} and {mine!r}; allowed is one spec")


_CHOICES: Final[dict[str, Any]] = {
    "ideal": Ideal,
    "ap_denominator": ApDenominator,
    "recall_denominator": RecallDenominator,
    "precision_denominator": PrecisionDenominator,
    "no_relevant": NoRelevant,
}
"""The fields with a fixed set of values."""


def _require_choice(field: str, value: object, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise MetricError(f"spec field {field}", f"got {value!r}; allowed are {', '.join(allowed)}")


def _name_or_table(field: str, value: object, allowed: tuple[str, ...]) -> str | ValueTable:
    if isinstance(value, str) or not isinstance(value, Iterable):
        if value not in allowed:
            raise MetricError(f"spec field {field}", f"got {value!r}; allowed are {', '.join(allowed)}, or a table of numbers")
        return str(value)
    table = tuple(value)
    if not 1 <= len(table) <= TABLE_MAX:
        raise MetricError(f"spec field {field}", f"got a table of {len(table)} numbers; allowed are 1..{TABLE_MAX}")
    for index, number in enumerate(table):
        if not _is_number(number) or number < 0:
            raise _bad_entry(field, number, index, "finite numbers >= 0")
    return tuple(float(number) + 0.0 for number in table)


def _bad_entry(field: str, got: object, index: int, allowed: str) -> MetricError:
    return MetricError(f"spec field {field}", f"got {got!r} at index {index} of the table; allowed are {allowed}")


def _check_gains(table: ValueTable) -> None:
    if table[0] != 0:
        raise _bad_entry("gain", table[0], 0, "0 at its start, because grade 0 earns nothing")
    if max(table) > GAIN_MAX:
        raise _bad_entry("gain", max(table), table.index(max(table)), f"gains up to {GAIN_MAX:g}")


def _check_divisors(table: ValueTable) -> None:
    if table[0] < DIVISOR_MIN:
        raise _bad_entry("discount", table[0], 0, f"divisors >= {DIVISOR_MIN:g}")
    for index, (before, divisor) in enumerate(pairwise(table), 1):
        if divisor < before:
            allowed = f"divisors that never fall (it comes after {before!r}): else the ideal is not best"
            raise _bad_entry("discount", divisor, index, allowed)


def _number(field: str, value: object, below: float, allowed: str) -> float:
    if not _is_number(value) or not 0 < value < below:  # type: ignore[operator]
        raise MetricError(f"spec field {field}", f"got {value!r}; allowed are {allowed}")
    return float(value)  # type: ignore[arg-type]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
