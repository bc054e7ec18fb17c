"""The boundary that is valid at all looks together: a mixture of likelihood ratios. Numbers in, numbers out.

An estimate D of an effect d with variance V carries the information 1/V. By a central limit theorem for whole paths, (D - d)/V moves
like a Brownian motion in that time (Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas 2024, "Time-uniform central limit theory and
asymptotic confidence sequences"). So the likelihood ratio of an effect, and every mixture of such ratios, is a martingale that starts
at 1 if there is no effect. Its value is called E. By Ville's inequality the probability that E *ever* reaches 1/alpha is at most alpha
(Robbins 1970, "Statistical methods related to the law of the iterated logarithm").

With z = D / sqrt(V), x = V / tau**2 and q = z / sqrt(1 + x), the one-sided mixture has half its weight on the effect to detect, and
half on a half-normal of scale tau (Howard, Ramdas, McAuliffe, Sekhon 2021, "Time-uniform, nonparametric, nonasymptotic confidence
sequences"):

    E = 1/2 exp(effect z / sqrt(V) - effect**2 / (2 V))  +  1/2 * 2 (1 + 1/x)**(-1/2) Phi(q) exp(q**2 / 2)

The two-sided mixture splits the point into +effect and -effect, and uses the whole normal:

    E = 1/2 cosh(effect z / sqrt(V)) exp(-effect**2 / (2 V))  +  1/2 (1 + 1/x)**(-1/2) exp(q**2 / 2)

The boundary is the z at which E = 1/alpha. Any effect and tau are valid that do not depend on the difference. So both are chosen once
per measure (`MeasureScale`), stored, and never change while an experiment runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from streammetrics.errors import ExperimentError
from streammetrics.statistics.measures import Measure


class Mixture(NamedTuple):
    """The effects that likelihood ratios are mixed over.

    tau: the scale of the normal or half-normal part, above 0.
    effect: the point, at least 0. None: no point, the normal part has all the weight.
    """

    tau: float
    effect: float | None = None


def log_evidence_one_sided(z: float, variance: float, mixture: Mixture) -> float:
    """Return ln E against "the effect is 0 or less", for an estimate z standard errors above 0.

    >>> round(log_evidence_one_sided(2.7682, 1 / 8, Mixture(1.0)), 3) == round(math.log(20), 3)
    True
    """
    return _one_sided(z, _checked(variance, mixture), mixture)[0]


def log_evidence_two_sided(z: float, variance: float, mixture: Mixture) -> float:
    """Return ln E against "the effect is 0", for an estimate z standard errors from 0."""
    return _two_sided(abs(z), _checked(variance, mixture), mixture)[0]


def one_sided(variance: float, mixture: Mixture, alpha: float) -> float:
    """Return the one-sided boundary in standard errors, valid at all looks together.

    Raises ExperimentError unless variance and tau are finite and above 0, and alpha is between 0 and 1.

    >>> round(one_sided(1 / 8, Mixture(1.0), 0.05), 4), round(one_sided(1 / 8, Mixture(1.0, effect=1.0), 0.05), 4)
    (2.7682, 2.582)
    """
    return _boundary(_one_sided, variance, mixture, alpha)


@lru_cache(maxsize=8)  # the difference and the lift of a comparison need the same boundary
def two_sided(variance: float, mixture: Mixture, alpha: float) -> float:
    """Return the two-sided boundary in standard errors: half the interval's width / sqrt(V). Arguments as in `one_sided`.

    >>> round(two_sided(1 / 8, Mixture(1.0), 0.05), 4), round(two_sided(1 / 1000, Mixture(1.0), 0.05), 4)
    (3.0352, 3.5935)
    """
    return _boundary(_two_sided, variance, mixture, alpha)


def p_value(z: float, variance: float, mixture: Mixture) -> float:
    """Return the two-sided p-value of an estimate z standard errors from the hypothesis; valid at every look.

    It is below alpha exactly when the hypothesis is outside the interval of error alpha.

    >>> round(p_value(two_sided(0.2, Mixture(1.0, 0.5), 0.01), 0.2, Mixture(1.0, 0.5)), 12)
    0.01
    """
    return math.exp(min(0.0, -log_evidence_two_sided(z, variance, mixture)))


def _boundary(evidence: Callable[[float, float, Mixture], tuple[float, float]], variance: float, mixture: Mixture, alpha: float) -> float:
    """Solve ln E = ln(1/alpha). ln E is convex and increasing in z > 0, so Newton's method converges from above.

    It starts at the boundary of half the normal part alone, where E is at least 1/alpha.
    """
    ratio = _checked(variance, mixture)
    if not 0 < alpha < 1:
        raise ExperimentError("alpha", f"got {alpha!r}; must be between 0 and 1")
    level = -math.log(alpha)
    z = math.sqrt(2 * (1 + ratio) * (level + math.log(4) + math.log1p(1 / ratio) / 2))
    for _ in range(100):
        value, slope = evidence(z, ratio, mixture)
        step = (value - level) / slope
        z -= step
        if abs(step) <= 1e-14 * z:
            break
    return z


def _one_sided(z: float, ratio: float, mixture: Mixture) -> tuple[float, float]:
    """Return ln E and its derivative by z."""
    root = math.sqrt(1 + ratio)
    q = z / root
    scaled = _log_scaled_normal(q)
    normal = math.log(2) - math.log1p(1 / ratio) / 2 + scaled
    normal_slope = (q + math.exp(-scaled) / math.sqrt(2 * math.pi)) / root
    if mixture.effect is None:
        return normal, normal_slope
    step = mixture.effect / (mixture.tau * math.sqrt(ratio))
    return _mixed((step * z - step * step / 2, step), (normal, normal_slope))


def _two_sided(z: float, ratio: float, mixture: Mixture) -> tuple[float, float]:
    """Return ln E and its derivative by z, for z >= 0."""
    normal = z * z / (2 * (1 + ratio)) - math.log1p(1 / ratio) / 2
    normal_slope = z / (1 + ratio)
    if mixture.effect is None:
        return normal, normal_slope
    step = mixture.effect / (mixture.tau * math.sqrt(ratio))
    log_cosh = step * z + math.log1p(math.exp(-2 * step * z)) - math.log(2)
    return _mixed((log_cosh - step * step / 2, step * math.tanh(step * z)), (normal, normal_slope))


def _mixed(point: tuple[float, float], normal: tuple[float, float]) -> tuple[float, float]:
    """Return the logarithm, and its derivative, of the mean of two terms that are given the same way."""
    high = max(point[0], normal[0])
    of_point, of_normal = math.exp(point[0] - high), math.exp(normal[0] - high)
    total = of_point + of_normal
    return high + math.log(total / 2), (of_point * point[1] + of_normal * normal[1]) / total


def _log_scaled_normal(q: float) -> float:
    """Return ln Phi(q) + q**2 / 2, also where Phi underflows."""
    if q > -25:
        return math.log(math.erfc(-q / math.sqrt(2)) / 2) + q * q / 2
    return -math.log(-q * math.sqrt(2 * math.pi)) + math.log1p(-1 / (q * q) + 3 / q**4)


def _checked(variance: float, mixture: Mixture) -> float:
    """Return V / tau**2."""
    for name, value in (("V", variance), ("tau", mixture.tau)):
        if not 0 < value < math.inf:
            raise ExperimentError(name, f"got {value!r}; must be finite and above 0")
    if mixture.effect is not None and not 0 <= mixture.effect < math.inf:
        raise ExperimentError("effect", f"got {mixture.effect!r}; must be finite and at least 0")
    ratio = variance / mixture.tau / mixture.tau
    if not 0 < ratio < math.inf:
        raise ExperimentError("V / tau**2", f"got {ratio!r}; must be finite and above 0")
    return ratio


class MeasureScale(NamedTuple):
    """The frozen numbers of one measure.

    tau: the standard error of the difference at the freezing look. control_mean: the control's mean then.
    """

    tau: float
    control_mean: float

    def mixture(self, lift: float) -> Mixture:
        """Return the mixture that detects a relative effect, such as `minimum_lift`."""
        return Mixture(self.tau, lift * self.control_mean)


def scale_of(measure: Measure, frozen: Mapping[str, float]) -> MeasureScale | None:
    """Return a measure's scale among the frozen numbers; None if it is not frozen yet.

    >>> scale_of(Measure("ndcg", 10, "mean", 2, 1, 40), {"ndcg@10": 0.02, "ndcg@10 control": 0.4}).mixture(0.1)
    Mixture(tau=0.02, effect=0.04000000000000001)
    """
    tau = frozen.get(str(measure))
    return None if tau is None else MeasureScale(tau, frozen[f"{measure} control"])
