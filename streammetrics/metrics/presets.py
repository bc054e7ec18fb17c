"""What other libraries compute, as a Spec each. Every claim below is tested against the library itself, on thousands of lists.

A preset says what a number means, not how ties in scores are broken or which lists are counted: those are said where the lists are
handed in. No library is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from streammetrics.metrics.names import MetricError
from streammetrics.metrics.spec import Spec

ANY_GRADE: Final = 2.0**-40
"""The threshold of libraries to which every item with a grade above 0 is relevant: the least grade that there is."""


def trec_eval() -> Spec:
    """trec_eval, and pytrec_eval: `ndcg_cut`, `ndcg`, `map_cut`, `map`, `P`, `recall`, `success`, `recip_rank`, `Rprec`, `set_F`.

    Linear gain over log2(i+1); the ideal ranks all judged items, those never shown too; AP is divided by R, also with a cut-off. A
    list without relevant items counts as 0. Here `ndcg_cut_10` is `ndcg@10`, `P_5` is `precision@5`, `success_1` is `hit_rate@1`.

    Not part of it: ties (`from_run(..., ties="trec_eval")`) and lists that the run lacks (`complete=True` is trec_eval's -c). Its
    judgments are whole numbers; a negative one counts as 0 (`negative="zero"`). `set_F` is `f1` at the length of the list.

    >>> trec_eval().ap_denominator
    'R'
    """
    return Spec(ap_denominator="R")


def sklearn() -> Spec:
    """scikit-learn: `ndcg_score` and `dcg_score`, which are all the list metrics that it has.

    Linear gain over log2(i+1); the ideal ranks all labels of the row; a row of zeros is 0. Hand in every label with its score.

    Not part of it: ties, over which scikit-learn averages unless told `ignore_ties` (`from_run(..., ties="average")`), another base of
    the logarithm (a `discount` table says that), and its refusals: rows of one label, and rows without any.

    >>> sklearn() == Spec()
    True
    """
    return Spec()


def ranx() -> Spec:
    """ranx: `ndcg`, `dcg`, `map`, `mrr`, `precision`, `recall`, `hit_rate`, `f1`, `r_precision`.

    Linear gain over log2(i+1); the ideal ranks all judged items; AP is divided by R. A list without relevant items counts as 0.

    Not part of it: `rbp`, which weighs ranks by grades in ranx (equal for grades 0 and 1), and the levels of `ndcg@10-l2`: in ranx
    a grade below the level earns no gain either, here `relevance_threshold` says what is relevant and gains stay.

    >>> ranx() == trec_eval()
    True
    """
    return Spec(ap_denominator="R")


def ranx_burges() -> Spec:
    """ranx: `ndcg_burges` and `dcg_burges`, with gain 2**grade - 1; all else as in `ranx`.

    >>> ranx_burges().gain
    'exp2'
    """
    return Spec(gain="exp2", ap_denominator="R")


def lenskit() -> Spec:
    """LensKit: `NDCG`, `DCG`, `RecipRank`, `Precision`, `Recall`, `AveragePrecision`, `Hit`, `RBP`, as they are by default.

    Every test item is relevant and gains 1; ranks 1 and 2 are discounted by 1, rank i by log2(i); precision is divided by
    min(n, k), recall by min(R, k), AP by min(R, n, k); persistence 0.85. Lists without test items are left out of means.

    Not part of it: LensKit's answer to an empty list, and to AP without test items (see the table of differences in the README), and
    test items of rating 0, which count as relevant there. Only grades above 0 are known here.

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
    """LensKit: `NDCG(gain="rating")` and `DCG(gain="rating")`, with the grade for gain; all else as in `lenskit`.

    >>> lenskit_graded().gain
    'linear'
    """
    return replace(lenskit(), gain="linear")


def torchmetrics() -> Spec:
    """torchmetrics: `retrieval_normalized_dcg`, `..._average_precision`, `..._reciprocal_rank`, `..._precision`, `..._recall`,
    `..._hit_rate`, `..._r_precision`, and the classes of these names with `empty_target_action="neg"`, their default.

    Linear gain over log2(i+1); the ideal ranks all targets of the query; AP is divided by the hits found.

    Not part of it: its arithmetic is of single precision, so its values agree to six or seven digits (and to 1e-12 if its code is
    run on doubles); items of score 0 or less never count as hits in its AP, reciprocal rank, precision and recall.
    `adaptive_k=True` is `precision_denominator="min(n,k)"`; `empty_target_action` "pos" and "skip" are `no_relevant` "one" and "skip".

    >>> torchmetrics().ap_denominator
    'hits'
    """
    return Spec(ap_denominator="hits")


def rectools() -> Spec:
    """RecTools: `NDCG`, `MAP`, `MRR`, `Precision`, `Recall`, `HitRate`, `F1Beta`, as they are by default.

    Every interaction is relevant and gains 1; NDCG@k is divided by the DCG of k relevant items, however few there are; AP is
    divided by R. Users without interactions are left out of means; users without recommendations count as 0.

    `MAP(k, divide_by_k=True)` is `ap_denominator="k"`. Not part of it: `Precision(k, r_precision=True)`, divided by min(k, R).

    >>> rectools().ideal
    'full'
    """
    return Spec(gain="binary", relevance_threshold=ANY_GRADE, ideal="full", ap_denominator="R", no_relevant="skip")


def rectools_achievable() -> Spec:
    """RecTools: `NDCG(k, divide_by_achievable=True)`, divided by the best DCG there can be; all else as in `rectools`.

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
"""Every preset by name."""


def preset(name: str) -> Spec:
    """The Spec under which numbers equal those of another library.

    Raises MetricError for a name that is not among PRESETS.

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
