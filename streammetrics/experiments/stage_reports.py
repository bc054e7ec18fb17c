"""Builds the reports of an experiment's stages: shares, users, the split, and what counts. Pure."""

from __future__ import annotations

import math

from streammetrics.experiments.experiment_report import role_of
from streammetrics.experiments.name_order import in_order
from streammetrics.experiments.stage_health import check_stage
from streammetrics.experiments.stage_values import StageArm, StageReport
from streammetrics.experiments.strata import Cells, StageCounts


def stage_reports(cells: Cells, control: str | None) -> tuple[StageReport, ...]:
    """Return the report of each stage in order."""
    now = cells.running
    starts = [stage.stage.start_ms for stage in cells.stages]
    return tuple(
        StageReport(
            stage=stage.stage.name,
            start_ms=stage.stage.start_ms,
            end_ms=end,
            current=stage is now,
            arms=tuple(_arm(cells, stage, variant, control) for variant in _variants(stage, control)),
            sample_ratio_p=check_stage(cells, stage).sample_ratio_p,
            multi_exposed_users=stage.multi_exposed_users,
        )
        for stage, end in zip(cells.stages, [*starts[1:], None], strict=True)
    )


def _variants(stage: StageCounts, control: str | None) -> list[str]:
    return in_order({*stage.stage.shares, *stage.variants}, first=control)


def _arm(cells: Cells, stage: StageCounts, variant: str, control: str | None) -> StageArm:
    share = stage.stage.share_of(variant) if stage.stage.shares else None
    weight, left_out = None, None
    if control is not None and role_of(variant, control) == "treatment":
        by_lists = next((measure for measure in cells.measures if measure.kind == "mean"), cells.measures.all[0])
        weight = math.fsum(each for (_, key), each in cells.weights(by_lists, variant, control).items() if key == stage.key)
        left_out = cells.left_out(stage, variant, control)
    return StageArm(variant, share, stage.users(variant), stage.lists(variant), weight, left_out)
