"""One record per metric: its form and columns, its bound and direction, and how pages, series and sentences call it.

All that names metrics reads these records. The formula of a judged metric is in `kernel/formulas.py`, of an engagement metric in
`engagement.py`, and of an assessment metric in `assessment.py`. Pure data, without numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

Cutoff: TypeAlias = Literal["required", "optional", "none"]
ColumnKind: TypeAlias = Literal["sum", "hits", "places", "numerator", "denominator", "bucket"]
MetricKind: TypeAlias = Literal["judged", "engagement", "assessment", "users", "bucket"]

VALUE_BITS: Final = 40
"""Values up to 1 are kept in units of 2**-40."""
SUM_BITS: Final = 32
"""Sums of gains are kept in units of 2**-32, and so is novelty: it is at most 53, so that it stays below 2**40."""
PURCHASE_BITS: Final = 16
"""The value of a purchase is kept in units of 2**-16."""

_RATIO: Final[tuple[ColumnKind, ...]] = ("numerator", "denominator")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRecord:
    """All facts of a metric beside its formula.

    kind: what computes it: the grades of a list (`judged`), what users do with lists (`engagement`), what lists show (`assessment`), or the
        users of a window or an experiment (`users`). `bucket` is a part of a histogram.
    cutoff: whether `@k` is required, optional or not allowed.
    label: its name on the page. help: what it is, as a sentence without its end.
    columns: the kinds of its columns: a sum over lists, two sums of which it is the ratio, or none if it is a quantile.
    scale_bits: the unit of its sum, or of the numerator of a ratio, is 2**-scale_bits. Counts have 0.
    ceiling: the greatest value of a list, or of an item shown; None if there is no bound. The least is 0.
    lower_is_better: whether it gets better when it falls.
    is_streamed: whether the stream computes it. All judged metrics can be computed offline.
    gain: what it sums of the grades: the gain of the Spec, the gain `exp2`, or the chance that an item satisfies the user
        (`satisfaction`). None if it asks only which items are relevant.
    is_discounted: whether what it sums is weighted by the discount.
    plain_gain: of a normalised metric, the metric that it normalises. A verdict checks each against the other.
    of_users: the share of users with at least one, if its value is 0 or 1 for a list.
    counted: what there is more or less of, in a sentence about a lift. Without it the metric is higher or lower.
    is_headline: whether a report shows it first, in the order of the records.
    rank_place: of a metric whose value at a cut-off is a sum over ranks, its place by nearness to ndcg, from 1.
    settings: those of its section that it is computed with. Of a judged metric: the fields of its Spec that few metrics have.
    """

    kind: MetricKind = "judged"
    cutoff: Cutoff
    label: str
    help: str
    columns: tuple[ColumnKind, ...] = ("sum",)
    scale_bits: int = 0
    ceiling: int | None = 1
    lower_is_better: bool = False
    is_streamed: bool = True
    gain: Literal["spec", "exp2", "satisfaction"] | None = None
    is_discounted: bool = True
    plain_gain: str = ""
    of_users: str = ""
    counted: str = ""
    is_headline: bool = False
    rank_place: int = 0
    settings: tuple[str, ...] = ()

    @property
    def is_per_item(self) -> bool:
        """Whether it is divided by the items shown, so that it rises when a list shows fewer."""
        return "places" in self.columns


METRICS: Final[Mapping[str, MetricRecord]] = MappingProxyType(
    {
        "ndcg": MetricRecord(
            cutoff="optional",
            label="NDCG",
            help="Normalised discounted cumulative gain at k",
            scale_bits=VALUE_BITS,
            gain="spec",
            plain_gain="dcg",
            is_headline=True,
        ),
        "ndcg_exp": MetricRecord(
            cutoff="optional",
            label="NDCG (exponential)",
            help="Normalised discounted cumulative gain at k, with gain 2^grade - 1",
            scale_bits=VALUE_BITS,
            gain="exp2",
            plain_gain="dcg_exp",
        ),
        "dcg": MetricRecord(
            cutoff="optional",
            label="DCG",
            help="Discounted cumulative gain at k",
            scale_bits=SUM_BITS,
            ceiling=None,
            gain="spec",
            rank_place=1,
        ),
        "cg": MetricRecord(
            cutoff="optional",
            label="CG",
            help="Cumulative gain at k",
            scale_bits=SUM_BITS,
            ceiling=None,
            gain="spec",
            is_discounted=False,
        ),
        "mrr": MetricRecord(
            cutoff="optional",
            label="MRR",
            help="Reciprocal rank at k: 1 / rank of the first relevant item, 0 if it ranks below k",
            scale_bits=VALUE_BITS,
            is_headline=True,
            rank_place=4,
        ),
        "hit_rate": MetricRecord(
            cutoff="required",
            label="Hit rate",
            help="Hit rate at k by list: 1 if any of the first k items is relevant, else 0",
            scale_bits=VALUE_BITS,
            of_users="user_hit_rate",
            counted="lists with a hit in the first {k}",
            is_headline=True,
            rank_place=3,
        ),
        "item_hit_rate": MetricRecord(
            cutoff="required",
            label="Item hit rate",
            help="Hit rate at k by item: relevant items among the first k / items shown there",
            columns=("hits", "places"),
            counted="hits among the items shown in the first {k}",
            rank_place=2,
        ),
        "precision": MetricRecord(
            cutoff="required",
            label="Precision",
            help="Precision at k: relevant items among the first k / k",
            scale_bits=VALUE_BITS,
            settings=("precision_denominator",),
            counted="hits in the first {k}",
        ),
        "recall": MetricRecord(
            cutoff="required",
            label="Recall",
            help="Recall at k: relevant items among the first k / relevant items of the list",
            scale_bits=VALUE_BITS,
            settings=("recall_denominator",),
        ),
        "map": MetricRecord(
            cutoff="optional", label="MAP", help="Average precision at k", scale_bits=VALUE_BITS, settings=("ap_denominator",)
        ),
        "f1": MetricRecord(
            cutoff="required",
            label="F1",
            help="Harmonic mean of precision and recall at k",
            scale_bits=VALUE_BITS,
            settings=("precision_denominator", "recall_denominator"),
        ),
        "r_precision": MetricRecord(
            cutoff="none",
            label="R-precision",
            help="Relevant items among the first R / R, with R relevant items of the list (no k)",
            scale_bits=VALUE_BITS,
        ),
        "rbp": MetricRecord(
            cutoff="optional",
            label="RBP",
            help="Rank-biased precision at k, with the persistence metrics.rbp_persistence",
            scale_bits=VALUE_BITS,
            settings=("rbp_persistence",),
        ),
        "err": MetricRecord(
            cutoff="optional",
            label="ERR",
            help="Expected reciprocal rank at k, on the scale metrics.err_grade_max",
            scale_bits=VALUE_BITS,
            gain="satisfaction",
            is_discounted=False,
            settings=("err_grade_max",),
        ),
        "dcg_exp": MetricRecord(
            cutoff="optional",
            label="DCG (exponential)",
            help="Discounted cumulative gain at k, with gain 2^grade - 1",
            scale_bits=SUM_BITS,
            is_streamed=False,
            ceiling=None,
            gain="exp2",
        ),
        "zero_result_rate": MetricRecord(
            kind="engagement", cutoff="none", label="Zero-result rate", help="Share of lists without items", lower_is_better=True
        ),
        "abandonment_rate": MetricRecord(
            kind="engagement",
            cutoff="none",
            label="Abandonment rate",
            help="Share of lists with items that have no grade above 0",
            columns=_RATIO,
            lower_is_better=True,
        ),
        "first_click_share": MetricRecord(
            kind="engagement",
            cutoff="required",
            label="Share of first clicks",
            help="Share of first clicks at rank k or better, of lists with a click",
            columns=_RATIO,
            settings=("click_ranks",),
        ),
        "first_click_rank": MetricRecord(
            kind="engagement",
            cutoff="none",
            label="Rank of the first click",
            help="Mean rank of the first click of a list, of lists with a click",
            columns=_RATIO,
            ceiling=None,
            lower_is_better=True,
        ),
        "time_to_first_click": MetricRecord(
            kind="engagement",
            cutoff="none",
            label="Seconds to the first click",
            help="Mean seconds from a list to its first click, of lists with a click",
            columns=_RATIO,
            ceiling=None,
            lower_is_better=True,
        ),
        "time_to_first_click_p50": MetricRecord(
            kind="engagement",
            cutoff="none",
            label="Seconds to the first click, median",
            help="Seconds within which 50 % of first clicks come, to the next bound of a histogram",
            columns=(),
            ceiling=None,
            lower_is_better=True,
        ),
        "time_to_first_click_p90": MetricRecord(
            kind="engagement",
            cutoff="none",
            label="Seconds to the first click, 90 %",
            help="Seconds within which 90 % of first clicks come, to the next bound of a histogram",
            columns=(),
            ceiling=None,
            lower_is_better=True,
        ),
        "time_to_first_click_p99": MetricRecord(
            kind="engagement",
            cutoff="none",
            label="Seconds to the first click, 99 %",
            help="Seconds within which 99 % of first clicks come, to the next bound of a histogram",
            columns=(),
            ceiling=None,
            lower_is_better=True,
        ),
        "satisfied_rate": MetricRecord(
            kind="engagement",
            cutoff="none",
            label="Satisfied rate",
            help="Share of lists with an item of engagement.satisfied_grade or above",
            settings=("satisfied_grade",),
        ),
        "reformulation_rate": MetricRecord(
            kind="engagement",
            cutoff="none",
            label="Reformulation rate",
            help="Share of lists without a grade above 0 that another list follows within engagement.reformulation_ms",
            lower_is_better=True,
            settings=("reformulation_ms",),
        ),
        "lists_per_session": MetricRecord(
            kind="engagement",
            cutoff="none",
            label="Lists per session",
            help="Lists per session, of sessions that begin with a list of the group",
            columns=_RATIO,
            ceiling=None,
        ),
        "purchases_per_list": MetricRecord(
            kind="engagement",
            cutoff="none",
            label="Purchases per list",
            help="Purchased items per list",
            ceiling=None,
            settings=("purchases",),
        ),
        "value_per_list": MetricRecord(
            kind="engagement",
            cutoff="none",
            label="Value per list",
            help="Value of the purchased items per list",
            scale_bits=PURCHASE_BITS,
            ceiling=None,
            settings=("purchases",),
        ),
        "diversity": MetricRecord(
            kind="assessment",
            cutoff="required",
            label="Diversity",
            help="Mean share of attributes that differ, over all pairs of the first k items that the catalogue has",
            scale_bits=VALUE_BITS,
            columns=_RATIO,
            settings=("catalogue_file", "attributes"),
        ),
        "novelty": MetricRecord(
            kind="assessment",
            cutoff="required",
            label="Novelty",
            help="Mean of log2(all users / users of the item), over the first k items",
            scale_bits=SUM_BITS,
            columns=_RATIO,
            ceiling=None,
            settings=("catalogue_file", "users_field", "users"),
        ),
        "popularity_share": MetricRecord(
            kind="assessment",
            cutoff="required",
            label="Share of all interactions",
            help="Mean share of an item in all earlier interactions, over the first k items",
            scale_bits=VALUE_BITS,
            columns=_RATIO,
            settings=("catalogue_file", "interactions_field"),
        ),
        "catalogue_share": MetricRecord(
            kind="assessment",
            cutoff="required",
            label="Items of the catalogue",
            help="Share of the first k items that the catalogue has",
            columns=_RATIO,
            settings=("catalogue_file",),
        ),
        "fallback_share": MetricRecord(
            kind="assessment",
            cutoff="none",
            label="Lists from a fallback",
            help="Share of lists that came from a fallback",
            settings=("fallback",),
        ),
        "user_hit_rate": MetricRecord(
            kind="users",
            cutoff="required",
            label="User hit rate",
            help="Hit rate at k by user: users with a hit among the first k items / users of the window",
            columns=(),
            counted="users with a hit in the first {k}",
            is_headline=True,
        ),
        "time_to_first_click_bucket": MetricRecord(
            kind="bucket",
            cutoff="optional",
            label="Seconds to the first click, histogram",
            help="Lists whose first click came within k ms, and not within the bound before. Without k: after the last bound",
            columns=("bucket",),
        ),
    }
)
"""The records by name, in display order."""


def depends_on(names: Iterable[str], setting: str) -> bool:
    """Return whether one of these metrics is computed with this setting.

    >>> depends_on(["ndcg", "err"], "err_grade_max"), depends_on(["ndcg"], "err_grade_max")
    (True, False)
    """
    return any(setting in METRICS[name].settings for name in names)
