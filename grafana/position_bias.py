"""Panels of *Ranking quality* for the examination curve and the dcg that it corrects."""

from __future__ import annotations

from grafana.panels import Block, Query, dashed, lines
from grafana.queries import EXPERIMENT, KS, VARIANT, state

_NO_CURVE = "No curve: position_bias.enabled is false, or items at several ranks have too few clicks"


def position_bias_panels() -> tuple[Block, ...]:
    """Make the panels. All of them show estimates."""
    return _examination(), _corrected_dcg(), _examined_items()


def _examination() -> Block:
    return lines(
        "Examination by rank (estimate)",
        "How likely users look at each rank, relative to rank 1, with its 95 % band (dashed). Estimated from items that experiments show "
        "at several ranks. It holds as far as users look at ranks independently of what stands above.",
        "percentunit",
        Query(state("streammetrics_examination"), "rank {{rank}}"),
        Query(state("streammetrics_examination_lower"), "rank {{rank}}, lower"),
        Query(state("streammetrics_examination_upper"), "rank {{rank}}, upper"),
        least=0,
        rules=(dashed("B"), dashed("C")),
        empty=_NO_CURVE,
    )


def _corrected_dcg() -> Block:
    groups = {"experiment": EXPERIMENT, "variant": VARIANT, "k": KS}
    return lines(
        "dcg corrected for position bias (estimate)",
        "Each click is divided by the examination of its rank, so that examination does not count twice. Dashed: plain dcg of the same "
        "lists.",
        "none",
        Query(state("streammetrics_corrected_dcg", **groups), "{{variant}} @{{k}}"),
        Query(state("streammetrics_uncorrected_dcg", **groups), "{{variant}} @{{k}}, plain"),
        decimals=3,
        rules=(dashed("B"),),
        empty=_NO_CURVE,
    )


def _examined_items() -> Block:
    return lines(
        "Items that the curve is estimated from",
        "Distinct items that are counted, and those of them that were shown at several ranks, which alone count. If the share (dashed) is "
        "below 1, a task has reached position_bias.items_max, and a sample of the items is counted.",
        "short",
        Query(state("streammetrics_examination_items"), "items"),
        Query(state("streammetrics_examination_shared_items"), "items at several ranks"),
        Query(state("streammetrics_examination_sampled_ratio"), "share of items that are counted"),
        least=0,
        rules=(dashed("C"),),
        empty=_NO_CURVE,
        width=24,
    )
