"""The examination curve of a report as lines for a terminal. Pure; recomputes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from streammetrics.metrics.examination import WHY_NOT, RankExamination
from streammetrics.reports.position_bias import WITHHELD, PositionBias
from streammetrics.reports.text import counted, fit


def position_bias_lines(found: PositionBias | None) -> Iterator[str]:
    """Yield a line for each rank and variant. Ranks without an estimate that have one reason share a line."""
    if found is None:
        return
    if found.withheld is not None:
        yield f"position bias: no estimate, because {WITHHELD[found.withheld]}"
    if found.curve is None:
        return
    curve = found.curve
    sampled = "" if found.sampled_share == 1 else f", a sample of {found.sampled_share:.2%} of all items"
    items = f"{curve.shared_items:,} of {curve.items:,} items have several ranks"
    yield f"position bias (estimate, {curve.confidence:.0%} band): {items}{sampled}"
    if found.caution is not None:
        yield f"  caution: {found.caution}"
    for reason, ranks in groupby(curve.ranks, key=lambda each: each.why_not):
        if reason is None:
            yield from map(_estimated, ranks)
        else:
            numbers = [each.rank for each in ranks]
            span = f"rank  {numbers[0]:>4}" if len(numbers) == 1 else f"ranks {numbers[0]:>4} to {numbers[-1]}"
            yield f"  {span}  no estimate: {WHY_NOT[reason]}"
    for each in found.variants:
        for name, value in each.corrected_dcg.items():
            where = f"{fit(each.experiment)} {fit(each.variant)}"
            yield f"  {where}: corrected {name} {value:.4f} (estimate), plain {each.dcg[name]:.4f}, {counted(each.lists, 'list')}"


def _estimated(each: RankExamination) -> str:
    return f"  rank  {each.rank:>4}  {each.examination:.3f}  {each.lower:.3f} .. {each.upper:.3f}  {counted(each.shared_clicks, 'click')}"
