"""Presets: Specs that reproduce the results of other libraries. Tests compare each with the library on thousands of lists.

A preset covers the definition of the metrics. It does not cover ties in scores or the choice of lists; the functions that read
lists have options for these. This module imports no other library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from streammetrics.metrics.names import MetricError
from streammetrics.metrics.spec import Spec

ANY_GRADE: Final = 2.0**-40
"""The threshold for libraries in which every grade above 0 is relevant: the smallest grade."""


def trec_eval() -> Spec:
    """trec_eval 10, and pytrec_eval: `ndcg_cut`, `ndcg`, `map_cut`, `map`, `P`, `recall`, `success`, `recip_rank`, `Rprec`.

    Linear gain over log2(i+1). The ideal ranks all judged items, including unseen ones. AP is divided by R, also with a cut-off. A
    list without relevant items counts as 0. The persistence of `rbp` is 0.9. `ndcg_cut_10` is `ndcg@10`, `P_5` is `precision@5`,
    `success_1` is `hit_rate@1`.

    Not covered: ties (use `from_run(..., ties="trec_eval")`), lists missing from the run (`complete=True` is trec_eval's -c), and
    negative judgments, which count as 0 (`negative="zero"`). `rbp` counts relevant items; for grades above 1, trec_eval's own
    value depends on memory that it does not initialise.

    >>> trec_eval().ap_denominator
    'R'
    """
    return Spec(ap_denominator="R", rbp_persistence=0.9)


def sklearn() -> Spec:
    """scikit-learn: `ndcg_score` and `dcg_score`, its only list metrics.

    Linear gain over log2(i+1). The ideal ranks all labels of the row. A row of zeros is 0. Pass every label with its score.

    Not covered: ties, over which scikit-learn averages unless `ignore_ties` is set; another
    base of the logarithm (use a `discount` table); and its errors for rows with one label or none.

    >>> sklearn() == Spec()
    True
    """
    return Spec()


def ranx() -> Spec:
    """ranx: `ndcg`, `dcg`, `map`, `mrr`, `precision`, `recall`, `hit_rate`, `f1`, `r_precision`.

    Linear gain over log2(i+1). The ideal ranks all judged items. AP is divided by R. A list without relevant items counts as 0.

    Not covered: `rbp`, which ranx weighs by grades (equal for grades 0 and 1); and levels such as `ndcg@10-l2`. In ranx a grade
    below the level has no gain; here `relevance_threshold` changes what is relevant, but not the gains.

    >>> ranx().ap_denominator
    'R'
    """
    return Spec(ap_denominator="R")


def ranx_burges() -> Spec:
    """ranx: `ndcg_burges` and `dcg_burges`, with gain 2**grade - 1; otherwise like `ranx`.

    >>> ranx_burges().gain
    'exp2'
    """
    return Spec(gain="exp2", ap_denominator="R")


def lenskit() -> Spec:
    """LensKit: `NDCG`, `DCG`, `RecipRank`, `Precision`, `Recall`, `AveragePrecision`, `Hit`, `RBP` with their defaults.

    Every test item is relevant with gain 1. Ranks 1 and 2 are discounted by 1, rank i by log2(i). Precision is divided by
    min(n, k), recall by min(R, k), AP by min(R, n, k). Persistence is 0.85. Lists without test items are left out of means.

    Not covered: LensKit's values for an empty list and for AP without test items (see "Remaining differences" in the README), and
    test items with rating 0, which LensKit counts as relevant. Here only grades above 0 can be relevant.

    >>> lenskit().discount
    'max(1,log2(i))'
    """
    return Spec(
        gain="binary",
        discount="max(1,log2(i))",
        relevance_threshold=ANY_GRADE,
        ap_denominator="min(R,n,k)",
        recall_denominator="min(R,k)",
        precision_denominator="min(n,k)",
        no_relevant="skip",
        rbp_persistence=0.85,
    )


def lenskit_graded() -> Spec:
    """LensKit: `NDCG(gain="rating")` and `DCG(gain="rating")`, with the grade as gain; otherwise like `lenskit`.

    >>> lenskit_graded().gain
    'linear'
    """
    return replace(lenskit(), gain="linear")


def torchmetrics() -> Spec:
    """torchmetrics: `retrieval_normalized_dcg`, `..._average_precision`, `..._reciprocal_rank`, `..._precision`, `..._recall`,
    `..._hit_rate`, `..._r_precision`, and the classes of these names with `empty_target_action="neg"`, their default.

    Linear gain over log2(i+1). The ideal ranks all targets of the query. AP is divided by the hits found.

    Not covered: single precision, so its values agree to six or seven digits (to 1e-12 if its code runs on doubles); and items
    with score 0 or less, which never count as hits in its AP, reciprocal rank, precision and recall.
    `adaptive_k=True` is `precision_denominator="min(n,k)"`; `empty_target_action` "pos" and "skip" are `no_relevant` "one" and "skip".

    >>> torchmetrics().ap_denominator
    'hits'
    """
    return Spec(ap_denominator="hits")


def rectools() -> Spec:
    """RecTools: `NDCG`, `MAP`, `MRR`, `Precision`, `Recall`, `HitRate`, `F1Beta` with their defaults.

    Every interaction is relevant with gain 1. NDCG@k is divided by the DCG of k relevant items, even if there are fewer. AP is
    divided by R. Users without interactions are left out of means; users without recommendations count as 0.

    `MAP(k, divide_by_k=True)` is `ap_denominator="k"`. Not covered: `Precision(k, r_precision=True)`, divided by min(k, R).

    >>> rectools().ideal
    'full'
    """
    return Spec(gain="binary", relevance_threshold=ANY_GRADE, ideal="full", ap_denominator="R", no_relevant="skip")


def rectools_achievable() -> Spec:
    """RecTools: `NDCG(k, divide_by_achievable=True)`, divided by the best possible DCG; otherwise like `rectools`.

    >>> rectools_achievable().ideal
    'all'
    """
    return Spec(gain="binary", relevance_threshold=ANY_GRADE, ideal="all", ap_denominator="R", no_relevant="skip")


PRESETS: Final[Mapping[str, Callable[[], Spec]]] = MappingProxyType(
    {
        made.__name__: made
        for made in (trec_eval, sklearn, ranx, ranx_burges, lenskit, lenskit_graded, torchmetrics, rectools, rectools_achievable)
    }
)
"""All presets by name."""


def preset(name: str) -> Spec:
    """The Spec that reproduces another library's results. Raises MetricError for a name that is not in PRESETS.

    >>> preset("ranx_burges").gain
    'exp2'
    >>> preset("treceval")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
      ...
    streammetrics.metrics.names.MetricError: preset: got 'treceval'; allowed are trec_eval, sklearn, ranx, ...
    """
    made = PRESETS.get(name) if isinstance(name, str) else None
    if made is None:
        raise MetricError("preset", f"got {name!r}; allowed are {', '.join(PRESETS)}")
    return made()
