"""Position bias as a report has it: two variants, and a curve that reaches rank 10 of 11."""

from __future__ import annotations

from streammetrics.metrics.examination import examination_curve
from streammetrics.reports.position_bias import PositionBias, VariantDcg

FROM_MS = 1_731_542_400_000


def position_bias_sample(experiment: str = "ranker") -> PositionBias:
    ranks = list(range(1, 11))
    curve = examination_curve([1] * 10 + [2], [*ranks, 1], [1_000] * 10 + [9], [400 // rank for rank in ranks] + [4], ranks_max=11)
    variants = (
        VariantDcg(experiment, "control", 500, {"dcg@10": 0.5, "dcg@11": 0.5}, {"dcg@10": 0.75}),
        VariantDcg(experiment, "treatment", 500, {"dcg@10": 0.25, "dcg@11": 0.25}, {"dcg@10": 0.5}),
    )
    return PositionBias(curve, variants, FROM_MS, 0.125)
