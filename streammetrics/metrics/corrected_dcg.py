"""DCG of clicks, corrected for position bias. It is an estimate, because the examination curve is one.

A click already says that the user looked at the rank. DCG of clicks divides it by the discount of the rank as well, so a rank that few
users look at counts less twice. Weighing each click by the inverse of the examination of its rank (inverse propensity scoring: Joachims,
Swaminathan, Schnabel, "Unbiased learning-to-rank with biased feedback", WSDM 2017; for DCG: Agarwal, Takatsu, Zaitsev, Joachims, "A
general framework for counterfactual learning-to-rank", SIGIR 2019) removes one of the two:

    corrected DCG@k = sum over ranks i <= k of gain(grade) / (p_i d_i)    with the examination p_i and the discount d_i

If the position-based model holds and the curve is right, its mean is the mean DCG of what attracts users, as seen at rank 1. It varies
more than DCG: a click at a rank with p = 0.1 counts ten times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from streammetrics.metrics.arrays import Floats
from streammetrics.metrics.examination import ExaminationCurve
from streammetrics.metrics.names import MetricError
from streammetrics.metrics.spec import Spec
from streammetrics.metrics.units import DISCOUNT_BITS, GRADE_BITS, discount_units, gain_units, grade_units

DEFAULT_SPEC: Final = Spec()


def gains_of_grades(grades: Sequence[float], spec: Spec = DEFAULT_SPEC) -> Floats:
    """Return the gains of grades, as in `dcg`: shape (n,).

    >>> gains_of_grades([0, 1, 3]).tolist(), gains_of_grades([0, 1, 3], Spec(gain="exp2")).tolist()
    ([0.0, 1.0, 3.0], [0.0, 1.0, 7.0])
    """
    threshold = int(grade_units(np.array([spec.relevance_threshold]))[0])
    units = gain_units(spec.gain, grade_units(np.array(grades, dtype=np.float64)), threshold)
    return np.asarray(units / float(1 << GRADE_BITS))


def discount_weights(k: int, spec: Spec = DEFAULT_SPEC) -> Floats:
    """Return 1 / d_i of ranks 1 to k: shape (k,).

    >>> discount_weights(3).round(4).tolist()
    [1.0, 0.6309, 0.5]
    """
    return np.asarray(discount_units(spec.discount, k)[:k] / float(1 << DISCOUNT_BITS))


def corrected_weights(curve: ExaminationCurve, k: int, spec: Spec = DEFAULT_SPEC) -> Floats:
    """Return 1 / (p_i d_i) of ranks 1 to k: shape (k,). Raises MetricError if the curve lacks the estimate of one of them."""
    if not 1 <= k <= curve.known_to:
        missing = next((each for each in curve.ranks if each.why_not is not None), None)
        reason = f"; rank {missing.rank} has no estimate: {missing.why_not}" if missing else ""
        allowed = f"whole numbers 1..{curve.known_to}" if curve.known_to else "none"
        raise MetricError("cut-off", f"got {k!r}; allowed are {allowed}{reason}")
    return discount_weights(k, spec) / np.array(curve.values[:k], dtype=np.float64)


def corrected_dcg(grades: Sequence[Sequence[float]], k: int, curve: ExaminationCurve, spec: Spec = DEFAULT_SPEC) -> Floats:
    """Return the corrected DCG@k of lists: shape (L,). An estimate; it is above the plain `dcg`.

    grades: of each list, in rank order; from clicks, so that grade 0 is no click. curve: from `position_bias`. spec: gain and discount.

    Raises MetricError if the curve does not reach rank k.

    >>> from streammetrics.metrics.examination import examination_curve
    >>> curve = examination_curve([1, 1], [1, 2], [1000, 1000], [400, 200], ranks_max=2)
    >>> corrected_dcg([[1, 0], [0, 1, 1]], 2, curve).round(4).tolist()
    [1.0, 1.2619]
    """
    weights = corrected_weights(curve, k, spec)
    return np.array([float(gains_of_grades(each[:k], spec) @ weights[: len(each)]) for each in grades], dtype=np.float64)
