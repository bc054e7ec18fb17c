"""The series of the examination curve and of the dcg that it corrects. Pure data."""

from __future__ import annotations

from collections.abc import Iterator

from streammetrics.exporters.prometheus.family import Series, bounds, gauge

_LISTS = "final lists of experiments in the current and the last period of position_bias.period_days"


def position_bias_gauges() -> Iterator[Series]:
    """Yield the series in the order of the table."""
    yield gauge("examination", "Estimate: how likely users look at a rank, relative to rank 1.", "rank")
    yield from bounds("examination", "of the examination, at 95 % confidence, for one look. Also an estimate.", "rank")
    yield gauge("examination_items", f"Distinct items counted for the examination curve, in {_LISTS}.")
    yield gauge("examination_shared_items", "Items among them that were shown at several ranks. Only these count for the curve.")
    yield gauge(
        "examination_sampled_ratio",
        "Share of all items that are counted for the examination curve. Below 1, a task has reached position_bias.items_max.",
    )
    of_variant = ("experiment", "variant", "k")
    corrected = f"Estimate: dcg at k, each click divided by the examination of its rank. Mean over {_LISTS}."
    yield gauge("corrected_dcg", corrected, *of_variant)
    yield gauge("uncorrected_dcg", "Plain dcg at k over the lists of streammetrics_corrected_dcg.", *of_variant)
