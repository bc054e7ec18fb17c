"""Position bias as a report has it: two variants, and a curve of two ranks."""

from __future__ import annotations

from streammetrics.metrics.examination import examination_curve
from streammetrics.reports.position_bias import PositionBias, VariantDcg

FROM_MS = 1_731_542_400_000


def position_bias_sample(experiment: str = "ranker") -> PositionBias:
    curve = examination_curve([1, 1, 2], [1, 2, 1], [1_000, 1_000, 9], [400, 200, 4], ranks_max=3)
    variants = (
        VariantDcg(experiment, "control", 500, {"dcg@2": 0.5, "dcg@3": 0.5}, {"dcg@2": 0.75}),
        VariantDcg(experiment, "treatment", 500, {"dcg@2": 0.25, "dcg@3": 0.25}, {"dcg@2": 0.5}),
    )
    return PositionBias(curve, variants, FROM_MS, 0.125)
